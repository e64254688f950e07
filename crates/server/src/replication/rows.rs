//! What a replication compares and shows: pure functions without a server.

use std::collections::BTreeSet;
use std::time::Duration;

use admin::answer::record;
use admin::{Progress, Unit};
use base::Timestamp;
use notes::replica::{ListedNote, StateName};
use replica::PreviewStatistics;
use serde_json::{Value, json};

/// What two replicas must agree on.
pub(super) struct Comparable {
    /// The revision with its time.
    version: (revision::Revision, Timestamp),
    /// The marks, keywords and folders that are set.
    state: BTreeSet<StateName>,
    /// `true` if the replica has the note without its attachments.
    is_truncated: bool,
}

/// Returns in what a note differs here and on another server, or `None` if it does not. Notes without attachments count
/// as equal if this replica wants none.
pub(super) fn difference(
    ours: Option<&Comparable>,
    theirs: Option<&Comparable>,
    wants_attachments: bool,
) -> Option<&'static str> {
    match (ours, theirs) {
        (Some(_), None) => Some("only here"),
        (None, _) => Some("only there"),
        (Some(ours), Some(theirs)) if ours.version != theirs.version => Some("another version"),
        (Some(ours), Some(theirs)) if ours.state != theirs.state => Some("other marks, keywords or folders"),
        (Some(ours), Some(theirs)) if wants_attachments && ours.is_truncated && !theirs.is_truncated => {
            Some("without attachments here")
        }
        _ => None,
    }
}

pub(super) fn comparable(note: ListedNote) -> Comparable {
    // Each replica keeps a keyword in the case in which it was first used there.
    let name = |name| match name {
        StateName::Keyword(keyword) => StateName::Keyword(keyword.to_ascii_lowercase()),
        name => name,
    };
    let set = note.state.into_iter().filter(|(_, value)| value.is_set).map(|(key, _)| name(key)).collect();
    Comparable { version: (note.revision, note.saved), state: set, is_truncated: note.is_truncated }
}

/// Returns the progress of listing changes of another server.
pub(super) fn listing(path: &str, server: &str, done: u64) -> Progress {
    let step = format!("{path}: listing the changes of {server}");
    Progress { step, done, total: None, unit: Unit::Notes }
}

/// Returns the row of a database that a pull would create or update.
pub(super) fn preview_row(path: &str, action: &str, found: PreviewStatistics) -> Value {
    record(vec![
        ("database", json!(path)),
        ("would", json!(action)),
        ("listed", json!(found.listed)),
        ("receive", json!(found.wanted)),
        ("bytes", json!(found.bytes)),
        ("refuse", json!(found.refused)),
        ("leave_out", json!(found.left_out)),
        ("hold_back", json!(found.held_back)),
    ])
}

/// Returns how long to wait until bytes that were received in a time are no more than a limit per second.
pub(super) fn time_left(bytes: u64, bytes_per_second_max: u64, elapsed: Duration) -> Duration {
    let microseconds = u128::from(bytes) * 1_000_000 / u128::from(bytes_per_second_max.max(1));
    Duration::from_micros(u64::try_from(microseconds).unwrap_or(u64::MAX)).saturating_sub(elapsed)
}

#[cfg(test)]
mod tests {
    use revision::{Register, Revision, RevisionId};

    use super::*;

    fn note(byte: u8, marks: &[u8]) -> ListedNote {
        let register = |is_set| Register::new(is_set, Timestamp(1));
        ListedNote {
            unid: base::Unid([1; 16]),
            class: notes::NoteClass::DOCUMENT,
            revision: Revision { sequence: 2, id: RevisionId([byte; 16]) },
            saved: Timestamp(2),
            size: 1,
            state: marks.iter().map(|mark| (StateName::Mark(*mark), register(*mark > 0))).collect(),
            is_old: false,
            is_unselected: false,
            is_truncated: false,
        }
    }

    #[test]
    fn notes_differ_in_versions_marks_and_attachments_that_are_wanted() {
        let ours = comparable(note(1, &[1]));
        let of = |theirs: Option<ListedNote>| difference(Some(&ours), theirs.map(comparable).as_ref(), true);
        assert_eq!(of(Some(note(1, &[1, 0]))), None, "what is not set does not count");
        assert_eq!(of(Some(note(1, &[]))), Some("other marks, keywords or folders"));
        assert_eq!(of(Some(note(2, &[1]))), Some("another version"));
        assert_eq!(of(None), Some("only here"));
        assert_eq!(difference(None, Some(&ours), true), Some("only there"));
        let part = comparable(ListedNote { is_truncated: true, ..note(1, &[1]) });
        assert_eq!(difference(Some(&part), Some(&ours), true), Some("without attachments here"));
        assert_eq!(difference(Some(&part), Some(&ours), false), None, "this replica wants none");
        assert_eq!(difference(Some(&ours), Some(&part), true), None, "the other one lacks them");
    }

    #[test]
    fn bytes_wait_for_their_time() {
        let second = Duration::from_secs(1);
        assert_eq!(time_left(3_000_000, 1_000_000, second), 2 * second);
        assert_eq!(time_left(1_000_000, 1_000_000, second), Duration::ZERO);
        assert_eq!(time_left(0, 1_000_000, Duration::ZERO), Duration::ZERO);
        assert!(time_left(u64::MAX, 1, second) > second);
    }
}
