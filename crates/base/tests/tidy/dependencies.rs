//! Checks of the dependencies: licences, bans, number, and one place for versions.
//!
//! The manifest of the workspace states the version of each dependency and lists no unused third-party crate; the
//! manifests of the crates refer to it and add features. `fuzz/` is a workspace of its own.
//!
//! `deny.toml` lists the allowed licences and the banned crates. Cargo's resolver lists the packages that are built for
//! this machine, so dependencies for other systems only are not checked. This is a test and not a separate program,
//! because building such a program on every machine would take longer than it saves.

use std::collections::BTreeSet;

use crate::ratchet::Finding;
use crate::repository;

/// Crates that may be indirect dependencies but not direct ones of this workspace.
const INDIRECT_ONLY: &[(&str, &str)] = &[
    ("chrono", "one time library: jiff"),
    ("time", "one time library: jiff"),
    ("lazy_static", "std::sync::LazyLock"),
    ("once_cell", "std::sync::OnceLock"),
    ("rand", "randomness is a parameter: base::Random"),
    ("fastrand", "randomness is a parameter: base::Random"),
    ("async-trait", "the edges are concrete types"),
    ("anyhow", "one error enum per crate"),
    ("log", "tracing"),
];

/// Maximum number of direct dependencies. [`ALL_MAX`] is the maximum number of all dependencies.
const DIRECT_MAX: usize = 80;
const ALL_MAX: usize = 450;

/// The sections of a manifest that list dependencies.
const SECTIONS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Checks all dependencies of the workspace.
pub fn findings() -> Vec<Finding> {
    let rules: toml::Table = repository::read("deny.toml").parse().expect("deny.toml is TOML");
    let allowed = names(&rules, "licenses", "allow");
    let denied = names(&rules, "bans", "deny");
    let direct = direct();
    let packages = packages();
    let mut findings: Vec<Finding> =
        packages.iter().flat_map(|package| objections(package, &allowed, &denied)).collect();
    for (name, instead) in INDIRECT_ONLY.iter().filter(|(name, _)| direct.contains(*name)) {
        findings.push(Finding::new("ban", format!("direct::{name}"), *instead));
    }
    for (what, count, max) in [("direct", direct.len(), DIRECT_MAX), ("all", packages.len(), ALL_MAX)] {
        if count > max {
            findings.push(Finding::sized("count", what, count, format!("{count} dependencies, at most {max}")));
        }
    }
    findings
}

/// Checks that the versions are in the manifest of the workspace only, and that a crate uses each of its dependencies.
pub fn versions() -> Vec<Finding> {
    let paths = repository::crates().into_iter().map(|crate_name| format!("crates/{crate_name}/Cargo.toml"));
    let manifests: Vec<_> = paths.map(|path| (repository::manifest(&path), path)).collect();
    version_findings(&repository::manifest("Cargo.toml"), &manifests)
}

fn version_findings(workspace: &toml::Table, manifests: &[(toml::Table, String)]) -> Vec<Finding> {
    let table = workspace.get("workspace").and_then(|w| w.get("dependencies")).and_then(|d| d.as_table());
    let third_party = table.into_iter().flatten().filter(|(_, value)| value.get("path").is_none());
    let mut unused: BTreeSet<&String> = third_party.map(|(name, _)| name).collect();
    let mut findings = Vec::new();
    for (manifest, path) in manifests {
        for (name, value) in dependencies(manifest) {
            unused.remove(name);
            if value.get("workspace").is_none() {
                let remark = "state its version in the manifest of the workspace, and here `workspace = true`";
                findings.push(Finding::new("version", format!("{path}::{name}"), remark));
            }
        }
    }
    findings.extend(unused.into_iter().map(|name| {
        Finding::new("version", format!("Cargo.toml::{name}"), "no crate depends on it; remove it from the table")
    }));
    findings
}

/// Returns the dependencies of a manifest for the product, its tests and its build.
pub fn dependencies(manifest: &toml::Table) -> impl Iterator<Item = (&String, &toml::Value)> {
    SECTIONS.iter().filter_map(|section| manifest.get(*section)?.as_table()).flatten()
}

/// A dependency of the workspace.
struct Package {
    name: String,
    licence: String,
}

fn objections(package: &Package, allowed: &BTreeSet<String>, denied: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !satisfied(&package.licence, allowed) {
        let remark = format!("its licence is {:?}; deny.toml allows {allowed:?}", package.licence);
        findings.push(Finding::new("licence", &package.name, remark));
    }
    if denied.contains(&package.name) {
        findings.push(Finding::new("ban", &package.name, "deny.toml says why it is not to enter"));
    }
    findings
}

/// Returns the third-party packages of the whole workspace, including those for tests and build scripts.
fn packages() -> Vec<Package> {
    let lines =
        repository::cargo(&["tree", "--workspace", "--edges", "all", "--prefix", "none", "--format", "{p}|{l}"]);
    let unique: BTreeSet<&str> = lines.iter().map(|line| line.trim_end_matches(" (*)")).collect();
    unique
        .into_iter()
        .filter_map(|line| line.split_once('|'))
        .filter(|(package, _)| !package.contains("(/"))
        .map(|(package, licence)| Package {
            name: package.split(' ').next().unwrap_or_default().to_owned(),
            licence: licence.to_owned(),
        })
        .collect()
}

/// Returns the third-party packages in the `[dependencies]` of this workspace's crates.
fn direct() -> BTreeSet<String> {
    let crates: BTreeSet<String> = repository::crates().into_iter().collect();
    let tables = crates.iter().map(|crate_name| repository::manifest(&format!("crates/{crate_name}/Cargo.toml")));
    let names = tables.flat_map(|table| match table.get("dependencies").and_then(|d| d.as_table()) {
        Some(dependencies) => dependencies.keys().cloned().collect(),
        None => Vec::new(),
    });
    names.filter(|name| !crates.contains(name)).collect()
}

/// Reads a list of names from deny.toml. An entry is a string or a table with a `name`.
fn names(rules: &toml::Table, section: &str, key: &str) -> BTreeSet<String> {
    let list = rules.get(section).and_then(|s| s.get(key)).and_then(|l| l.as_array());
    let list = list.unwrap_or_else(|| panic!("deny.toml has a list [{section}] {key}"));
    list.iter().filter_map(|entry| entry.as_str().or_else(|| entry.get("name")?.as_str())).map(str::to_owned).collect()
}

/// Returns `true` if the allowed licences alone satisfy an SPDX expression.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // Before SPDX, crates wrote `MIT/Apache-2.0` for a choice.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    choice(&mut rest, allowed) == Some(true) && rest.is_empty()
}

/// Evaluates `all {OR all}`. Returns `None` if the expression is invalid.
fn choice(words: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut met = all(words, allowed)?;
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        met |= all(words, allowed)?;
    }
    Some(met)
}

/// Evaluates `one {AND one}`. Returns `None` if the expression is invalid.
fn all(words: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        met &= one(words, allowed)?;
    }
    Some(met)
}

/// Evaluates a licence with an optional exception, or a choice in parentheses. Returns `None` if the expression is
/// invalid.
fn one(words: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    if *first == "(" {
        let met = choice(words, allowed)?;
        let (close, rest) = words.split_first()?;
        *words = rest;
        return (*close == ")").then_some(met);
    }
    if let ["WITH", exception, rest @ ..] = *words {
        *words = rest;
        return Some(allowed.contains(&format!("{first} WITH {exception}")));
    }
    Some(allowed.contains(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expected: bool) {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
        let allowed = allowed.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(satisfied(expression, &allowed), expected, "{expression}");
    }

    #[test]
    fn versions_in_crates_and_unused_entries_are_found() {
        let parse = |text: &str| text.parse::<toml::Table>().expect("TOML");
        let workspace =
            parse("[workspace.dependencies]\nbase = { path = \"crates/base\" }\nmemchr = \"2\"\nzip = \"9\"\n");
        let places = |manifest: &str| {
            let findings = version_findings(&workspace, &[(parse(manifest), "x".to_owned())]);
            findings.into_iter().map(|finding| finding.place).collect::<Vec<_>>()
        };
        let inherited = "[dependencies]\nbase.workspace = true\nzip = { workspace = true, features = [\"deflate\"] }\n";
        assert_eq!(places(&format!("{inherited}[dev-dependencies]\nmemchr.workspace = true\n")), [""; 0]);
        assert_eq!(places(inherited), ["Cargo.toml::memchr"]);
        assert_eq!(places(&format!("{inherited}[build-dependencies]\nmemchr = \"2\"\n")), ["x::memchr"]);
        assert_eq!(places(&format!("{inherited}memchr = {{ path = \"../memchr\" }}\n")), ["x::memchr"]);
    }

    #[test]
    fn licence_expressions_are_read() {
        check("MIT", true);
        check("GPL-3.0", false);
        check("MIT OR GPL-3.0", true);
        check("GPL-3.0/MIT", true);
        check("MIT AND GPL-3.0", false);
        check("(MIT OR GPL-3.0) AND Unicode-3.0", true);
        check("(MIT OR Apache-2.0) AND GPL-3.0", false);
        check("GPL-2.0 OR Apache-2.0 WITH LLVM-exception", true);
        check("MIT OR (GPL-2.0", false);
        check("", false);
    }
}
