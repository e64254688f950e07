//! The tidy test: rules of this repository that a program can check, run by `cargo test`.
//!
//! - [`layers`]: dependencies between crates point to lower layers; crates of layers 0 to 5 build without tokio; the
//!   map names every crate.
//! - [`dependencies`]: licences and bans of `deny.toml`; the number of dependencies; their versions in one place.
//! - [`sources`]: module docs, lengths, nesting, names, and functions that only certain crates may call.
//! - [`circles`]: the files of a crate that depend on each other are few.
//! - [`test_binaries`]: at most one binary of integration tests for each crate.
//! - [`documents`]: links, files, commands and targets in the documentation exist.
//!
//! Findings are compared with `exceptions.txt`, a ratchet: it lists the known violations with their sizes. A finding
//! that is not in the list fails the test, and so does a line of the list that no longer applies. So the list can only
//! shrink. New lines are not added to it; the code is corrected instead.

mod circles;
mod dependencies;
mod documents;
mod layers;
mod ratchet;
mod repository;
mod sources;
mod test_binaries;

use ratchet::Finding;

/// Fails if there are findings that the ratchet does not excuse.
fn check(rules: &[&str], findings: Vec<Finding>) {
    let complaints = ratchet::unexcused(rules, findings);
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn dependencies_point_to_lower_layers() {
    check(&["layer", "map"], layers::layer_violations());
}

#[test]
fn the_core_builds_without_tokio() {
    check(&["runtime"], layers::runtime());
}

#[test]
fn licences_and_bans_hold() {
    check(&["licence", "ban", "count"], dependencies::findings());
}

#[test]
fn versions_are_in_one_place() {
    check(&["version"], dependencies::versions());
}

#[test]
fn sources_keep_the_rules() {
    check(sources::RULES, sources::findings());
}

#[test]
fn circles_of_files_are_small() {
    check(&["circle"], circles::findings());
}

#[test]
fn a_crate_has_one_binary_of_integration_tests() {
    check(&["binaries"], test_binaries::findings());
}

#[test]
fn documents_name_only_existing_things() {
    check(documents::RULES, documents::findings());
}

/// Maximum number of lines in `exceptions.txt`. It is lowered when the list shrinks, and never raised.
const EXCEPTIONS_MAX: usize = 0;

#[test]
fn the_list_of_exceptions_does_not_grow() {
    let count = ratchet::exceptions().len();
    assert_eq!(count, EXCEPTIONS_MAX, "exceptions.txt has {count} lines; mend what is new, or lower the number here");
}

#[test]
fn every_exception_names_a_rule_that_exists() {
    let known = [
        &["layer", "map", "runtime", "licence", "ban", "count", "version", "circle", "binaries"][..],
        sources::RULES,
        documents::RULES,
    ]
    .concat();
    let unknown: Vec<_> = ratchet::exceptions().into_iter().filter(|e| !known.contains(&e.rule.as_str())).collect();
    assert!(unknown.is_empty(), "exceptions.txt excuses from rules that do not exist: {unknown:?}");
}
