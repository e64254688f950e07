//! Checks that everything that the documentation pages name exists.
//!
//! The pages are the Markdown files of the root, of `docs/`, and beside sources. These rules apply:
//!
//! - A relative link leads to a file.
//! - A path in backticks that starts with a folder of this repository exists.
//! - `make TARGET` names a target of the Makefile.
//! - The commands and options of `doublet ...`, in backticks or in an indented block, are words of the command line's
//!   sources.
//! - No page names a path of an individual machine.
//! - Pages and the files of `proto/` use none of the banned words ([`language`]).

use std::collections::BTreeSet;

use crate::ratchet::Finding;
use crate::repository;
use crate::sources::language;

/// The rules of this file.
pub const RULES: &[&str] = &["link", "path", "target", "command", "machine", "word"];

const OUR_FOLDERS: &[&str] = &["crates/", "docs/", "scripts/", "conformance/", "fuzz/", "packaging/", ".ci/"];
const MACHINE_FOLDERS: &[&str] = &["/root/", "/work/", "/home/"];

/// Folders with the sources of the command line: commands, requests, and keys of the configuration.
const COMMAND_LINE: &[&str] = &["crates/cli/src", "crates/admin/src", "crates/config/src"];

/// The names that pages may use.
struct Known {
    /// Targets of the Makefile.
    targets: BTreeSet<String>,
    /// Words of the command line's sources, in lower case.
    words: BTreeSet<String>,
}

/// Checks all pages.
pub fn findings() -> Vec<Finding> {
    let sources = COMMAND_LINE.iter().flat_map(|folder| repository::files(folder, &["rs"]));
    let words = sources.flat_map(|path| words(&repository::read(&path))).collect();
    let known = Known { targets: targets(&repository::read("Makefile")), words };
    let pages = repository::files(".", &["md"]);
    let mut findings: Vec<_> = pages.iter().flat_map(|path| page(path, &repository::read(path), &known)).collect();
    let texts = pages.into_iter().chain(repository::files("proto/", &["proto"]));
    findings.extend(texts.flat_map(|path| language::words(&path, &repository::read(&path))));
    findings
}

fn page(path: &str, text: &str, known: &Known) -> Vec<Finding> {
    let mut findings = Vec::new();
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for link in links(text) {
        let target = link.split('#').next().unwrap_or_default();
        let target = if folder.is_empty() { target.to_owned() } else { format!("{folder}/{target}") };
        if !repository::exists(&target) {
            findings.push(Finding::new("link", format!("{path}::{link}"), "leads nowhere"));
        }
    }
    for name in quoted(text) {
        let file = name.split([' ', '#']).next().unwrap_or_default();
        if OUR_FOLDERS.iter().any(|folder| file.starts_with(folder)) && !pattern(file) && !repository::exists(file) {
            findings.push(Finding::new("path", format!("{path}::{file}"), "there is no such file"));
        }
        if let Some(target) = name.strip_prefix("make ").and_then(|words| words.split(' ').next())
            && !known.targets.contains(target)
        {
            findings.push(Finding::new("target", format!("{path}::{target}"), "the Makefile has no such target"));
        }
    }
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    for word in quoted(text).into_iter().chain(lines).flat_map(command_words) {
        if !known.words.contains(&word) {
            let remark = "the command line has no such command or option";
            findings.push(Finding::new("command", format!("{path}::{word}"), remark));
        }
    }
    for folder in MACHINE_FOLDERS.iter().filter(|folder| text.contains(**folder)) {
        findings.push(Finding::new("machine", format!("{path}::{folder}"), "names a path of somebody's machine"));
    }
    findings.sort();
    findings.dedup();
    findings
}

/// Returns `true` if a name in backticks is a pattern that stands for many files.
fn pattern(name: &str) -> bool {
    name.contains(['*', '<', '{', '…']) || name.contains("NAME") || name.contains("...")
}

/// Returns the relative targets of inline links.
fn links(text: &str) -> Vec<&str> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(target, _)| target)
        .filter(|t| !t.contains("://") && !t.starts_with('#') && !t.starts_with("mailto:"))
        .collect()
}

/// Returns the texts in single backticks.
fn quoted(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with("```"));
    lines.flat_map(|line| line.split('`').skip(1).step_by(2)).filter(|name| !name.is_empty()).collect()
}

/// Returns the command and the options of a line that calls the `doublet` program, in the spelling of its sources, in
/// lower case.
fn command_words(line: &str) -> Vec<String> {
    let Some(rest) = line.strip_prefix("doublet ") else { return Vec::new() };
    let mut found = Vec::new();
    let mut words = rest.split_whitespace().take_while(|word| !["|", "<", ">", "&&", "#"].contains(word)).peekable();
    if let Some(first) = words.peek().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())) {
        found.extend(first.split('|').map(|command| command.replace('-', "")));
    }
    let options = words.filter_map(|word| word.trim_start_matches('[').strip_prefix("--"));
    found.extend(options.map(|option| option.split(['=', ']']).next().unwrap_or_default().replace('-', "_")));
    found.retain(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    found
}

/// Returns the words of a source, in lower case.
fn words(source: &str) -> Vec<String> {
    let words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
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
        let words = words("enum Command { Serve, User(UserCommand), Backup { to_folder: PathBuf } }");
        let targets = targets("run: build\n\techo\nVARIABLE := x\n");
        let known = Known { targets, words: words.into_iter().collect() };
        page("docs/x.md", text, &known).into_iter().map(|finding| finding.rule).collect()
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
        assert_eq!(
            rules("`doublet user|serve add NAME` and\n\n    doublet backup --to-folder=X | head\n"),
            Vec::<String>::new()
        );
        assert_eq!(rules("`doublet gone`"), ["command"]);
        assert_eq!(rules("    doublet serve --gone\n"), ["command"]);
    }
}
