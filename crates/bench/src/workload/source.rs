//! Sources: the tags that say where a number comes from.

use serde::Serialize;

/// Tag of numbers that no source has.
pub const ASSUMED: &str = "assumed";

/// The tags of the reference (docs/workloads.md, "Sources").
pub const TAGS: &[&str] = &[
    ASSUMED,
    "derived",
    "seed0",
    "seed1",
    "seed2",
    "seed3",
    "seed4",
    "help-n8",
    "help-n8init",
    "help-r6mail",
    "help-r5mail",
    "help-r6inotes",
    "help-r5imap",
    "help-r6imap",
    "help-cluster",
    "help-dwa85",
    "help-dwa85init-ja",
    "help-builtin",
    "sl-send",
    "sl-send8",
    "sl-params",
    "sl-steady",
    "sl-range",
    "sl-metrics",
    "sl-newmail",
    "db2side",
    "r5mail-side",
    "r6inotes-diff",
    "rs6000",
];

/// The tags of a number, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Source {
    /// At least one tag.
    pub tags: Vec<String>,
}

impl Source {
    /// Returns the source of numbers that no source has.
    pub fn assumed() -> Self {
        Self { tags: vec![ASSUMED.to_owned()] }
    }
}
