//! Counts of steps, calls and transactions, and the errors by verb and code.
//!
//! Steps are counted in the phase of their *intended* time (`due` and what became of it), and also in the phase of
//! their *end* (`completed`, transactions, calls), because throughput is counted by the end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::histograms::{Action, Phase, VerbIndex};

/// Maximum number of pairs of verb and code. Errors with other codes are counted under [`OTHER_CODE`].
pub const ERRORS_MAX: usize = 1_000;
/// Maximum length of the text of an error that is kept, in bytes.
pub const ERROR_TEXT_BYTES_MAX: usize = 4_096;
/// Maximum length of a code, in bytes.
pub const CODE_BYTES_MAX: usize = 64;
/// The code of all errors above [`ERRORS_MAX`].
pub const OTHER_CODE: &str = "other";

/// The counts of a verb and class in a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbCounts {
    /// Steps whose intended time is in the phase.
    pub due: u64,
    /// Those of `due` that ended in the same phase, with or without an error, or were skipped in it.
    pub ended: u64,
    /// Those of `due` that failed.
    pub failed: u64,
    /// Those of `due` that were skipped for want of a document.
    pub skipped: u64,
    /// Those of `due` that had not begun when the run ended.
    pub not_begun: u64,
    /// Steps that ended in the phase without an error and were not skipped.
    pub completed: u64,
    /// The transactions of `completed`.
    pub transactions: u64,
    /// Those of `transactions` whose step made no call.
    pub transactions_without_call: u64,
    /// Requests on the wire of the steps that ended in the phase, failed and skipped ones included. Those of logouts
    /// between iterations count with the logins.
    pub calls: u64,
    /// Connections that the server had closed and that were opened again for the steps that ended in the phase.
    pub reopened: u64,
}

impl VerbCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.ended += other.ended;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.not_begun += other.not_begun;
        self.completed += other.completed;
        self.transactions += other.transactions;
        self.transactions_without_call += other.transactions_without_call;
        self.calls += other.calls;
        self.reopened += other.reopened;
    }
}

/// Counts by verb, class and phase.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountSet {
    by_action: BTreeMap<(Action, Phase), VerbCounts>,
}

impl CountSet {
    /// Returns the counts of an action in a phase, to be changed.
    pub fn entry(&mut self, action: Action, phase: Phase) -> &mut VerbCounts {
        self.by_action.entry((action, phase)).or_default()
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        for ((action, phase), counts) in &other.by_action {
            self.entry(*action, *phase).add(counts);
        }
    }

    /// Sets all counts to 0.
    pub fn clear(&mut self) {
        self.by_action.clear();
    }

    /// Returns the counts by action and phase.
    pub fn iter(&self) -> impl Iterator<Item = (Action, Phase, &VerbCounts)> {
        self.by_action.iter().map(|((action, phase), counts)| (*action, *phase, counts))
    }

    /// Returns the sum of all actions in a phase.
    pub fn sum(&self, phase: Phase) -> VerbCounts {
        let mut sum = VerbCounts::default();
        self.iter().filter(|(_, of, _)| *of == phase).for_each(|(_, _, counts)| sum.add(counts));
        sum
    }
}

/// The errors of a verb with the same code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorCount {
    /// How many there were.
    pub count: u64,
    /// The text of the first one, at most [`ERROR_TEXT_BYTES_MAX`] bytes.
    pub first: String,
}

/// Errors by verb and code, with the first of each.
///
/// Codes and texts come from the server. So their lengths and their number are limited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    by_code: BTreeMap<(VerbIndex, String), ErrorCount>,
}

impl ErrorCounts {
    /// Counts an error.
    pub fn record(&mut self, verb: VerbIndex, code: &str, text: &str) {
        self.add(verb, truncated(code, CODE_BYTES_MAX), 1, text);
    }

    /// Adds other errors. The first error of a code that both have is the one of `self`.
    pub fn merge(&mut self, other: &Self) {
        for (verb, code, errors) in other.iter() {
            self.add(verb, code, errors.count, &errors.first);
        }
    }

    /// Adds errors that another part has counted.
    pub fn add_counted(&mut self, verb: VerbIndex, code: &str, errors: &ErrorCount) {
        self.add(verb, truncated(code, CODE_BYTES_MAX), errors.count, &errors.first);
    }

    /// Deletes all errors.
    pub fn clear(&mut self) {
        self.by_code.clear();
    }

    /// Returns the errors by verb and code.
    pub fn iter(&self) -> impl Iterator<Item = (VerbIndex, &str, &ErrorCount)> {
        self.by_code.iter().map(|((verb, code), errors)| (*verb, code.as_str(), errors))
    }

    fn add(&mut self, verb: VerbIndex, code: &str, count: u64, text: &str) {
        let mut key = (verb, code.to_owned());
        let has_capacity = self.by_code.len() < ERRORS_MAX;
        if !has_capacity && !self.by_code.contains_key(&key) {
            OTHER_CODE.clone_into(&mut key.1);
        }
        let first = || ErrorCount { count: 0, first: truncated(text, ERROR_TEXT_BYTES_MAX).to_owned() };
        let errors = self.by_code.entry(key).or_insert_with(first);
        errors.count = errors.count.saturating_add(count);
    }
}

/// Returns the beginning of a text that has at most `bytes_max` bytes, in whole characters.
fn truncated(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
