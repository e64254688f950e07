//! Checks of the integration tests: a crate has at most one binary for them.
//!
//! Each binary links the crate and everything below it, which takes longer than compiling the tests.

use crate::ratchet::Finding;
use crate::repository;

/// Checks all crates.
pub fn findings() -> Vec<Finding> {
    let finding = |crate_name: String| {
        let manifest = repository::read(&format!("crates/{crate_name}/Cargo.toml"));
        let folder = format!("crates/{crate_name}/tests/");
        let count = binaries(&manifest, &folder, &repository::files(&folder, &["rs"]));
        let remark = format!("{count} binaries of integration tests: make them modules of one `tests/NAME/main.rs`");
        (count > 1).then(|| Finding::sized("binaries", folder, count, remark))
    };
    repository::crates().into_iter().filter_map(finding).collect()
}

/// Counts the test binaries that Cargo builds from a manifest and the files of its folder of tests.
fn binaries(manifest: &str, folder: &str, files: &[String]) -> usize {
    let manifest: toml::Table = manifest.parse().expect("cargo has read this manifest");
    let is_automatic =
        |package: &toml::Value| package.get("autotests").is_none_or(|value| value.as_bool() == Some(true));
    if !manifest.get("package").is_none_or(is_automatic) {
        return manifest.get("test").and_then(|tests| tests.as_array()).map_or(0, Vec::len);
    }
    let names = files.iter().filter_map(|file| file.strip_prefix(folder));
    names.filter(|name| !name.contains('/') || (name.ends_with("/main.rs") && name.matches('/').count() == 1)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binaries_of_cargo_are_counted() {
        let check = |manifest: &str, names: &[&str], expected: usize| {
            let files: Vec<String> = names.iter().map(|name| format!("crates/x/tests/{name}")).collect();
            assert_eq!(binaries(manifest, "crates/x/tests/", &files), expected, "{names:?}");
        };
        let package = "[package]\nname = \"x\"\n";
        check(package, &[], 0);
        check(package, &["all/main.rs", "all/part.rs", "all/part/main.rs"], 1);
        check(package, &["one.rs", "one/part.rs", "two/main.rs"], 2);
        let listed = "[package]\nname = \"x\"\nautotests = false\n[[test]]\nname = \"y\"\n";
        check(listed, &["main.rs", "part.rs"], 1);
    }
}
