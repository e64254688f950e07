//! The files of the repository, as paths relative to its root.
//!
//! Files that git usually ignores (build output, hidden folders) are skipped by name, so that the test also runs on a
//! tree that was exported without git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SKIPPED: &[&str] = &["target", "node_modules", "corpus", "artifacts", "__pycache__", "data"];

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the crate lies in crates/base").to_path_buf()
}

/// Reads a text file of the repository.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Reads a manifest of the repository.
pub fn manifest(path: &str) -> toml::Table {
    read(path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns `true` if the file or folder exists.
pub fn exists(path: &str) -> bool {
    root().join(path).exists()
}

/// Returns the files below `folder` with one of the extensions, sorted.
pub fn files(folder: &str, extensions: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().expect("an entry that was just listed has a type");
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file() && extensions.iter().any(|e| name.ends_with(&format!(".{e}"))) {
                found.push(relative(&entry.path()));
            }
        }
    }
    found.sort();
    found
}

/// Returns the crates: the folders in `crates/` that contain a manifest.
pub fn crates() -> Vec<String> {
    let mut crates: Vec<String> = fs::read_dir(root().join("crates"))
        .expect("there are crates")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| exists(&format!("crates/{name}/Cargo.toml")))
        .collect();
    crates.sort();
    crates
}

/// Runs cargo without network access and returns the lines of its output. Panics with cargo's error output if it fails.
pub fn cargo(arguments: &[&str]) -> Vec<String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .current_dir(root())
        .args(arguments)
        .args(["--offline", "--locked"])
        .output()
        .expect("cargo started this test, so it can be run");
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("listed below the root").to_string_lossy().into_owned()
}
