//! Pages: what they name exists.
//!
//! Looked at are the Markdown pages of the root and of `docs/`, and those beside sources. A relative link leads to a file; a path in backticks
//! that starts with one of our folders exists; `make TARGET` is a target of the Makefile; no page names a path of somebody's machine.

use std::collections::BTreeSet;

use crate::ratchet::Finding;
use crate::tree;

/// The rules of this file.
pub const RULES: &[&str] = &["link", "path", "target", "machine"];

const OUR_FOLDERS: &[&str] = &["crates/", "docs/", "scripts/", "conformance/", "fuzz/", "packaging/", ".ci/"];
const MACHINE_FOLDERS: &[&str] = &["/root/", "/work/", "/home/"];

/// Checks all pages.
pub fn findings() -> Vec<Finding> {
    let targets = targets(&tree::read("Makefile"));
    tree::files(".", &["md"]).iter().flat_map(|path| page(path, &tree::read(path), &targets)).collect()
}

fn page(path: &str, text: &str, targets: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for link in links(text) {
        let target = link.split('#').next().unwrap_or_default();
        let target = if folder.is_empty() { target.to_owned() } else { format!("{folder}/{target}") };
        if !tree::exists(&target) {
            findings.push(Finding::new("link", format!("{path}::{link}"), "leads nowhere"));
        }
    }
    for name in quoted(text) {
        let file = name.split([' ', '#']).next().unwrap_or_default();
        if OUR_FOLDERS.iter().any(|folder| file.starts_with(folder)) && !pattern(file) && !tree::exists(file) {
            findings.push(Finding::new("path", format!("{path}::{file}"), "there is no such file"));
        }
        if let Some(target) = name.strip_prefix("make ").and_then(|words| words.split(' ').next())
            && !targets.contains(target)
        {
            findings.push(Finding::new("target", format!("{path}::{target}"), "the Makefile has no such target"));
        }
    }
    for folder in MACHINE_FOLDERS.iter().filter(|folder| text.contains(**folder)) {
        findings.push(Finding::new("machine", format!("{path}::{folder}"), "names a path of somebody's machine"));
    }
    findings.sort();
    findings.dedup();
    findings
}

/// Tells whether a name in backticks stands for many files.
fn pattern(name: &str) -> bool {
    name.contains(['*', '<', '{', '…']) || name.contains("NAME") || name.contains("...")
}

/// Gives the targets of inline links that are relative.
fn links(text: &str) -> Vec<&str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(target, _)| target)
        .filter(|t| !t.contains("://") && !t.starts_with('#') && !t.starts_with("mailto:"))
        .collect()
}

/// Gives what stands in single backticks.
fn quoted(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with("```"));
    lines.flat_map(|line| line.split('`').skip(1).step_by(2)).filter(|name| !name.is_empty()).collect()
}

fn targets(makefile: &str) -> BTreeSet<String> {
    let heads = makefile
        .lines()
        .filter(|line| !line.starts_with(['\t', '#', ' ', '.']))
        .filter_map(|line| line.split_once(':'));
    heads
        .filter(|(_, rest)| !rest.starts_with('='))
        .flat_map(|(names, _)| names.split_whitespace())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<String> {
        let targets = targets("run: build\n\techo\nVARIABLE := x\n");
        page("docs/x.md", text, &targets).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn names_of_things_that_do_not_exist_are_found() {
        assert_eq!(
            rules("See [map](../ARCHITECTURE.md#layers), `crates/base/src/id.rs` and `make run`."),
            Vec::<String>::new()
        );
        assert_eq!(rules("[gone](../GONE.md)"), ["link"]);
        assert_eq!(rules("`crates/base/src/gone.rs`"), ["path"]);
        assert_eq!(rules("`make gone`"), ["target"]);
        assert_eq!(rules("cd /home/me/x"), ["machine"]);
    }
}
