//! Sources: the tags that say where a number comes from.

use serde::Serialize;

/// Tag of numbers that no source has.
pub const ASSUMED: &str = "assumed";

/// The tags of the reference with their meaning (docs/workloads.md, "Sources").
pub const TAGS: &[(&str, &str)] = &[
    (ASSUMED, "no source has it"),
    ("derived", "computed from sourced numbers; the file shows the arithmetic in a comment"),
    ("seed0", "article: Domino 8.5 iNotes (2009)"),
    ("seed1", "article: Domino 7 Enterprise Mail"),
    ("seed2", "article: Domino 6 (2002)"),
    ("seed3", "article: large databases (2008)"),
    ("seed4", "article: Domino 8 and Notes 8 (2007)"),
    ("help-n8", "Domino's help: N8Mail"),
    ("help-n8init", "Domino's help: N8Mail Initialization"),
    ("help-r6mail", "Domino's help: R6Mail"),
    ("help-r5mail", "Domino's help: R5Mail"),
    ("help-r6inotes", "Domino's help: R6iNotes"),
    ("help-r5imap", "Domino's help: R5IMAP"),
    ("help-r6imap", "Domino's help: R6IMAP"),
    ("help-cluster", "Domino's help: Cluster Mail"),
    ("help-dwa85", "Domino's help: DWA 8.5"),
    ("help-dwa85init-ja", "Domino's help: DWA 8.5 Initialization (Japanese)"),
    ("help-builtin", "Domino's help: the built-in workloads"),
    ("sl-send", "Domino's help, Server.Load: SendMessage"),
    ("sl-send8", "Domino's help, Server.Load: SendMessage of release 8"),
    ("sl-params", "Domino's help, Server.Load: parameters"),
    ("sl-steady", "Domino's help, Server.Load: steady state"),
    ("sl-range", "Domino's help, Server.Load: ranges of users"),
    ("sl-metrics", "Domino's help, Server.Load: metrics"),
    ("sl-newmail", "Domino's help, Server.Load: CheckForNewMail"),
    ("db2side", "table in the margin of an article: R6Mail in 90 minutes"),
    ("r5mail-side", "table in the margin of an article: R5Mail"),
    ("r6inotes-diff", "table in the margin of an article: R5iNotes against R6iNotes"),
    ("rs6000", "IBM Domino R5 on RS/6000 (2001)"),
];

/// Returns the meaning of a tag of the reference.
pub fn meaning(tag: &str) -> Option<&'static str> {
    TAGS.iter().find(|(known, _)| *known == tag).map(|(_, meaning)| *meaning)
}

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
