//! The last entries of the change log of a database, kept in memory.
//!
//! Readers that follow a database ask for the changes since the modseq that they know, which mostly are those of the
//! last few transactions. [`ChangeLogTail::after`] returns the same entries as a scan of the table `bymod` in the
//! reader's snapshot, but needs no iterator of the engine. It returns `None` if it is not certain of that, and the
//! reader scans.
//!
//! Invariants:
//! - The list contains every entry that a transaction after `since` and up to `until` has written to the log, in the
//!   order of their keys, and no entry of a transaction that was not committed. A writer adds the entries of its
//!   transaction while it holds the lock of the database: after the batch is in the engine, and before it publishes its
//!   modseq ([`crate::Database`]).
//! - A snapshot is handed out only when the modseq that it shows is published. So `until` is at least that modseq, even
//!   if the snapshot was taken while a writer was between its commit and its addition to the list. A snapshot that is
//!   ahead of `until` is not answered.
//! - No record up to `until` and after `since` is removed from the log, except that a change of a note removes the
//!   note's earlier record. A purge raises `since` to the last record that it removes, before it commits
//!   ([`crate::purge`]). A repair, which rewrites the log, empties the list before it publishes.
//! - The lock of the list is taken last: no other lock is taken under it, and no function of a caller runs under it.
//!
//! Entries that a later change has superseded stay in the list, because older snapshots still show them. They are left
//! out when a snapshot shows the later change too.

use std::collections::{HashSet, VecDeque};

use base::{Modseq, NoteId};

use crate::change_log::{ChangeCursor, ChangeEntry};
use crate::limits::CHANGE_LOG_TAIL_ENTRIES_MAX;

/// The entries of the last transactions, at most [`CHANGE_LOG_TAIL_ENTRIES_MAX`].
#[derive(Debug)]
pub(crate) struct ChangeLogTail {
    /// The modseq after which all entries are present.
    since: Modseq,
    /// The modseq of the last transaction, which may have no entries.
    until: Modseq,
    entries: VecDeque<ChangeEntry>,
}

impl ChangeLogTail {
    /// Creates an empty list that begins after `modseq`, the modseq of the last transaction.
    pub(crate) fn starting_after(modseq: Modseq) -> Self {
        Self { since: modseq, until: modseq, entries: VecDeque::new() }
    }

    /// Adds the entries of the transaction with this modseq, in the order of their keys.
    pub(crate) fn add(&mut self, modseq: Modseq, entries: Vec<ChangeEntry>) {
        assert!(modseq > self.until, "transactions are added in modseq order");
        assert!(entries.iter().all(|entry| entry.modseq == modseq), "all entries belong to the transaction");
        if entries.len() > CHANGE_LOG_TAIL_ENTRIES_MAX {
            *self = Self::starting_after(modseq);
            return;
        }
        self.until = modseq;
        self.entries.extend(entries);
        while self.entries.len() > CHANGE_LOG_TAIL_ENTRIES_MAX {
            let oldest = self.entries[0].modseq;
            self.drop_until(oldest);
        }
    }

    /// Drops the entries up to a modseq.
    pub(crate) fn drop_until(&mut self, modseq: Modseq) {
        while self.entries.front().is_some_and(|entry| entry.modseq <= modseq) {
            self.entries.pop_front();
        }
        self.since = self.since.max(modseq);
    }

    /// Returns the entries after a position that a snapshot with this modseq shows, in the order of their keys. Returns
    /// `None` if they may not all be in memory, or if the position lies within a transaction.
    pub(crate) fn after(&self, from: ChangeCursor, modseq: Modseq) -> Option<Vec<ChangeEntry>> {
        if !from.is_at_transaction_boundary() || from.modseq < self.since || modseq > self.until {
            return None;
        }
        let mut changed_later: HashSet<NoteId> = HashSet::new();
        let mut found = Vec::new();
        let first = self.entries.partition_point(|entry| entry.modseq <= from.modseq);
        for entry in self.entries.range(first..).rev().filter(|entry| entry.modseq <= modseq) {
            if entry.is_departure() || changed_later.insert(entry.note) {
                found.push(entry.clone());
            }
        }
        found.reverse();
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use base::{Timestamp, Uid, ViewId};

    use super::*;
    use crate::change_log::NoteChange;
    use crate::note::Membership;

    fn changed(modseq: u64, note: u32) -> ChangeEntry {
        ChangeEntry::new(Modseq(modseq), NoteId(note), NoteChange::Changed { folders: Vec::new() })
    }

    fn deleted(modseq: u64, note: u32) -> ChangeEntry {
        ChangeEntry::new(Modseq(modseq), NoteId(note), NoteChange::Deleted { at: Timestamp(1), folders: Vec::new() })
    }

    fn left(modseq: u64, note: u32, index: u8) -> ChangeEntry {
        let from = Membership { folder: ViewId(7), uid: Uid(1) };
        ChangeEntry::new(Modseq(modseq), NoteId(note), NoteChange::Left { at: Timestamp(1), from }).numbered(index)
    }

    /// Returns the entries after `since` in a snapshot.
    fn after(tail: &ChangeLogTail, since: u64, snapshot: u64) -> Option<Vec<ChangeEntry>> {
        tail.after(ChangeCursor::after(Modseq(since)), Modseq(snapshot))
    }

    #[test]
    fn snapshots_show_the_last_change_of_each_note_and_all_departures() {
        let mut tail = ChangeLogTail::starting_after(Modseq(5));
        tail.add(Modseq(6), vec![changed(6, 1), changed(6, 2)]);
        tail.add(Modseq(7), vec![changed(7, 1), left(7, 1, 0), left(7, 1, 1)]);
        tail.add(Modseq(8), vec![]);
        tail.add(Modseq(9), vec![deleted(9, 1), changed(9, 3)]);
        let check = |since, snapshot, expected: &[ChangeEntry]| {
            assert_eq!(after(&tail, since, snapshot).as_deref(), Some(expected), "{since} {snapshot}");
        };
        check(5, 5, &[]);
        check(5, 6, &[changed(6, 1), changed(6, 2)]);
        check(5, 8, &[changed(6, 2), changed(7, 1), left(7, 1, 0), left(7, 1, 1)]);
        check(5, 9, &[changed(6, 2), left(7, 1, 0), left(7, 1, 1), deleted(9, 1), changed(9, 3)]);
        check(6, 7, &[changed(7, 1), left(7, 1, 0), left(7, 1, 1)]);
        check(8, 9, &[deleted(9, 1), changed(9, 3)]);
        check(9, 9, &[]);
        check(12, 6, &[]);
    }

    #[test]
    fn uncertain_requests_are_left_to_a_scan() {
        let mut tail = ChangeLogTail::starting_after(Modseq(5));
        tail.add(Modseq(6), vec![changed(6, 1), changed(6, 2)]);
        assert_eq!(after(&tail, 4, 6), None, "the list does not reach back so far");
        assert_eq!(after(&tail, 6, 7), None, "the snapshot is ahead of the list");
        assert_eq!(tail.after(ChangeCursor::after_entry(&changed(6, 1)), Modseq(6)), None, "partly read");
        tail.drop_until(Modseq(6));
        tail.add(Modseq(7), vec![changed(7, 1)]);
        assert_eq!((after(&tail, 5, 7), after(&tail, 6, 7)), (None, Some(vec![changed(7, 1)])));
    }

    #[test]
    fn number_of_entries_is_bounded() {
        let mut tail = ChangeLogTail::starting_after(Modseq(0));
        let of_notes = |modseq, count| (1..=count).map(|note| changed(modseq, note)).collect::<Vec<_>>();
        let max = u32::try_from(CHANGE_LOG_TAIL_ENTRIES_MAX).unwrap();
        tail.add(Modseq(1), of_notes(1, 2));
        tail.add(Modseq(2), of_notes(2, max - 2));
        assert_eq!(after(&tail, 0, 1), Some(of_notes(1, 2)));
        tail.add(Modseq(3), of_notes(3, 1));
        assert_eq!((after(&tail, 0, 3), tail.entries.len()), (None, CHANGE_LOG_TAIL_ENTRIES_MAX - 1));
        assert_eq!(after(&tail, 1, 2), Some(of_notes(2, max - 2)));
        tail.add(Modseq(4), of_notes(4, max + 1));
        assert_eq!((after(&tail, 3, 4), tail.entries.len()), (None, 0));
        tail.add(Modseq(5), of_notes(5, max));
        assert_eq!(after(&tail, 4, 5), Some(of_notes(5, max)));
    }
}
