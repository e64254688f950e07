//! The files of the repository, as paths relative to its root.
//!
//! What git ignores by convention (build output, hidden folders) is left out by name, so that the test also runs on a tree
//! that was exported without git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SKIPPED: &[&str] = &["target", "node_modules", "corpus", "artifacts", "__pycache__", "data"];

/// Gives the root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the crate lies in crates/base").to_path_buf()
}

/// Reads a text file of the repository.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Tells whether there is such a file or folder.
pub fn exists(path: &str) -> bool {
    root().join(path).exists()
}

/// Lists the files below `folder` with one of the extensions, sorted.
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

/// Lists the rooms: folders in `crates/` that hold a manifest and a target.
pub fn rooms() -> Vec<String> {
    let mut rooms: Vec<String> = fs::read_dir(root().join("crates"))
        .expect("there are crates")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| exists(&format!("crates/{name}/Cargo.toml")))
        .collect();
    rooms.sort();
    rooms
}

/// Runs cargo without network and gives its lines; panics with its words when it fails.
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
