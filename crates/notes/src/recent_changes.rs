//! The last changes of a database, kept in memory for the indexes that follow them.
//!
//! Besides the changed notes, it keeps the previous versions of these notes as far as the budget allows. From a
//! previous version an index computes the rows to remove without reading where they are. Only open views benefit, so
//! versions are kept only while a view is open.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use base::codec::{Decoder, Encoder};
use base::{Modseq, NoteId};

use crate::formula_document::FormulaDocument;
use crate::item::{self, Item};
use crate::limits::{RECENT_CHANGES_MAX, RECENT_VERSIONS_BYTES_MAX};
use crate::note::NoteHeader;

/// A change of a note.
#[derive(Clone, Debug)]
pub(crate) struct RecentChange {
    /// The modseq of the transaction.
    pub(crate) modseq: Modseq,
    pub(crate) note: NoteId,
    /// The note before the change, or `None` if it is not kept.
    pub(crate) before: Option<Arc<PreviousState>>,
}

/// The state of a note before a change.
#[derive(Debug)]
pub(crate) enum PreviousState {
    /// The note did not exist.
    New,
    /// The previous version of the note.
    Version(Box<NoteVersion>),
}

/// A version of a note.
#[derive(Debug)]
pub(crate) struct NoteVersion {
    header: NoteHeader,
    /// The summary items in their stored form.
    items: Vec<u8>,
}

impl PreviousState {
    /// Creates the previous state from a header and its summary items.
    pub(crate) fn version(header: NoteHeader, items: &[Item]) -> Self {
        let mut out = Encoder::with_capacity(512);
        item::encode_items(&mut out, items.iter());
        Self::Version(Box::new(NoteVersion { header, items: out.finish() }))
    }

    /// Returns the approximate size in bytes.
    fn byte_count(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::New => 0,
                Self::Version(version) => size_of::<NoteVersion>() + version.items.len(),
            }
    }
}

impl NoteVersion {
    /// Returns the version as formulas see it.
    pub(crate) fn formula_document(&self) -> FormulaDocument<'_> {
        let items = item::decode_item_refs(&mut Decoder::new(&self.items));
        FormulaDocument::new(&self.header, items.expect("the items were encoded by this module"))
    }
}

/// The last changes of a database, in their order: at most [`RECENT_CHANGES_MAX`], with versions of at most
/// [`RECENT_VERSIONS_BYTES_MAX`].
#[derive(Debug)]
pub(crate) struct RecentChanges {
    /// The modseq after which all changes are present.
    since: Modseq,
    changes: VecDeque<RecentChange>,
    /// Number of the oldest changes whose versions were dropped.
    stripped_count: usize,
    /// Size of the versions of the other changes.
    version_bytes: usize,
}

impl RecentChanges {
    /// Creates an empty list of changes that begins after `modseq`.
    pub(crate) fn since(modseq: Modseq) -> Self {
        Self { since: modseq, changes: VecDeque::new(), stripped_count: 0, version_bytes: 0 }
    }

    /// Adds the changes of one transaction.
    pub(crate) fn add(&mut self, changes: Vec<RecentChange>) {
        for change in changes {
            assert!(
                self.changes.back().is_none_or(|last| last.modseq <= change.modseq),
                "changes are added in modseq order"
            );
            self.version_bytes += bytes_of(&change);
            self.changes.push_back(change);
        }
        while self.version_bytes > RECENT_VERSIONS_BYTES_MAX {
            self.strip_oldest();
        }
        while self.changes.len() > RECENT_CHANGES_MAX {
            if self.stripped_count == 0 {
                self.strip_oldest();
            }
            let oldest = self.changes.pop_front().expect("the list is not empty");
            self.stripped_count -= 1;
            // The transaction of the removed change is no longer complete.
            self.since = oldest.modseq;
        }
    }

    /// Returns about `limit` changes after `since`, or `None` if older changes were dropped.
    ///
    /// A transaction is included completely or not at all.
    pub(crate) fn after(&self, since: Modseq, limit: usize) -> Option<Vec<RecentChange>> {
        let mut found: Vec<RecentChange> = Vec::new();
        for change in self.all_after(since)? {
            if found.len() >= limit && found.last().is_some_and(|last| last.modseq != change.modseq) {
                break;
            }
            found.push(change.clone());
        }
        Some(found)
    }

    /// Returns the notes that were changed after `since`, or `None` if older changes were dropped.
    pub(crate) fn notes_after(&self, since: Modseq) -> Option<HashSet<NoteId>> {
        Some(self.all_after(since)?.map(|change| change.note).collect())
    }

    fn all_after(&self, since: Modseq) -> Option<impl Iterator<Item = &RecentChange>> {
        let first = self.changes.partition_point(|change| change.modseq <= since);
        (since >= self.since).then(|| self.changes.range(first..))
    }

    /// Drops the previous versions that belong to changes up to `until`.
    pub(crate) fn drop_versions(&mut self, until: Modseq) {
        while self.changes.get(self.stripped_count).is_some_and(|change| change.modseq <= until) {
            self.strip_oldest();
        }
    }

    fn strip_oldest(&mut self) {
        let oldest = &mut self.changes[self.stripped_count];
        self.version_bytes -= bytes_of(oldest);
        oldest.before = None;
        self.stripped_count += 1;
    }
}

fn bytes_of(change: &RecentChange) -> usize {
    change.before.as_ref().map_or(0, |before| before.byte_count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(modseq: u64, note: u32, before: Option<PreviousState>) -> RecentChange {
        RecentChange { modseq: Modseq(modseq), note: NoteId(note), before: before.map(Arc::new) }
    }

    fn summarized(changes: Option<Vec<RecentChange>>) -> Option<Vec<(u64, u32, bool)>> {
        let summarize = |change: &RecentChange| (change.modseq.0, change.note.0, change.before.is_some());
        changes.map(|changes| changes.iter().map(summarize).collect())
    }

    fn version(bytes: usize) -> PreviousState {
        PreviousState::version(NoteHeader::test_document(3), &[Item::text("Subject", "x".repeat(bytes))])
    }

    #[test]
    fn transactions_are_returned_whole() {
        let mut recent = RecentChanges::since(Modseq(5));
        recent.add(vec![change(6, 1, None), change(6, 2, Some(PreviousState::New))]);
        recent.add(vec![change(9, 1, None)]);
        assert_eq!(summarized(recent.after(Modseq(4), 10)), None);
        assert_eq!(summarized(recent.after(Modseq(5), 1)), Some(vec![(6, 1, false), (6, 2, true)]));
        assert_eq!(summarized(recent.after(Modseq(5), 3)), Some(vec![(6, 1, false), (6, 2, true), (9, 1, false)]));
        assert_eq!(summarized(recent.after(Modseq(6), 1)), Some(vec![(9, 1, false)]));
        assert_eq!(summarized(recent.after(Modseq(9), 1)), Some(vec![]));
        let notes = |since| recent.notes_after(Modseq(since));
        assert_eq!((notes(4), notes(5)), (None, Some(HashSet::from([NoteId(1), NoteId(2)]))));
        assert_eq!((notes(6), notes(9)), (Some(HashSet::from([NoteId(1)])), Some(HashSet::new())));
    }

    #[test]
    fn number_of_changes_is_bounded() {
        let mut recent = RecentChanges::since(Modseq(0));
        for number in 1..=RECENT_CHANGES_MAX as u64 + 3 {
            recent.add(vec![change(number, 7, Some(PreviousState::New))]);
        }
        assert_eq!(recent.changes.len(), RECENT_CHANGES_MAX);
        assert_eq!(summarized(recent.after(Modseq(2), 10)), None);
        assert_eq!(recent.after(Modseq(3), usize::MAX).map(|found| found.len()), Some(RECENT_CHANGES_MAX));
        let kept: usize = recent.changes.iter().map(bytes_of).sum();
        assert_eq!(recent.version_bytes, kept);
    }

    #[test]
    fn oldest_versions_are_dropped_first() {
        let mut recent = RecentChanges::since(Modseq(0));
        let third = RECENT_VERSIONS_BYTES_MAX / 3;
        for number in 1..=4 {
            recent.add(vec![change(number, 7, Some(version(third)))]);
            assert!(recent.version_bytes <= RECENT_VERSIONS_BYTES_MAX, "{}", recent.version_bytes);
        }
        let expected = vec![(1, 7, false), (2, 7, false), (3, 7, true), (4, 7, true)];
        assert_eq!(summarized(recent.after(Modseq(0), 10)), Some(expected));
        recent.drop_versions(Modseq(3));
        assert_eq!(summarized(recent.after(Modseq(2), 10)), Some(vec![(3, 7, false), (4, 7, true)]));
        recent.drop_versions(Modseq(9));
        assert_eq!((recent.version_bytes, recent.stripped_count), (0, 4));
        // A single version may exceed the budget.
        recent.add(vec![change(5, 7, Some(version(RECENT_VERSIONS_BYTES_MAX))), change(5, 8, None)]);
        assert_eq!(summarized(recent.after(Modseq(4), 10)), Some(vec![(5, 7, false), (5, 8, false)]));
    }

    #[test]
    fn version_keeps_the_items_of_the_note() {
        let items = [Item::text("Subject", "Plan"), Item::text("Form", "Memo")];
        let PreviousState::Version(version) = PreviousState::version(NoteHeader::test_document(3), &items) else {
            panic!("a version")
        };
        let document = version.formula_document();
        assert_eq!((document.header.note, document.items.len()), (NoteId(3), 2));
        assert_eq!(document.items[0].to_item(), items[0]);
    }
}
