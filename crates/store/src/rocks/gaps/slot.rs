//! The gaps of some databases, and the list of changes that were lately made there.
//!
//! The list answers one question: has a key between these two been changed by a batch that a snapshot may not show? It
//! holds the last [`LISTED_CHANGES_PER_SLOT_MAX`] changes. Of what is no longer listed, or never was, only the number
//! of the last batch is kept; for snapshots that are older than that batch every range counts as changed.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::engine::{Direction, KeyRange, Table, next_key};
use crate::limits::{GAPS_PER_SLOT_MAX, LISTED_CHANGES_PER_SLOT_MAX};

/// Number of a batch that has not ended.
const IN_PROGRESS: u64 = u64::MAX;

/// Gaps and recent changes of some databases.
#[derive(Default)]
pub(super) struct Slot {
    /// By table. The gaps of a table neither overlap nor touch each other.
    gaps: [BTreeMap<Vec<u8>, Gap>; Table::ALL.len()],
    /// Recent changes, the oldest first.
    changes: VecDeque<Change>,
    /// Unlisted batches in progress.
    unlisted_in_progress: u32,
    /// Number of the last batch of which a change is not, or no longer, listed.
    unlisted: u64,
    /// Table and key from which on the next gap is dropped when there are too many.
    hand: (usize, Vec<u8>),
}

/// A range without entries; its first key is its key in the map.
struct Gap {
    /// The first key after it.
    end: Vec<u8>,
    /// Number of the batch from which on the range is empty.
    since: u64,
}

/// One change of a key.
struct Change {
    table: Table,
    key: Vec<u8>,
    /// Identifier of its batch.
    begun: u64,
    /// Number of its batch, or [`IN_PROGRESS`].
    number: u64,
}

impl Slot {
    /// Returns the first gap that a scan meets on its way from `position`.
    pub(super) fn next_gap(&self, table: Table, position: &[u8], direction: Direction, at: u64) -> Option<KeyRange> {
        let gaps = &self.gaps[table as usize];
        let range = |(start, gap): (&Vec<u8>, &Gap)| KeyRange::between(start.clone(), gap.end.clone());
        let is_known = |(_, gap): &(&Vec<u8>, &Gap)| gap.since <= at;
        match direction {
            Direction::Forward => {
                let here = gap_containing(gaps, position).filter(is_known);
                here.or_else(|| gaps.range::<[u8], _>(after(position)).find(is_known)).map(range)
            }
            Direction::Backward => gaps.range::<[u8], _>(before(position)).rev().find(is_known).map(range),
        }
    }

    /// Returns `true` if a key of the range may have been changed by a batch that a snapshot of `at` does not show, or
    /// shows only in part.
    pub(super) fn has_changed(&self, table: Table, (start, end): (&[u8], &[u8]), at: u64) -> bool {
        let is_within = |change: &Change| change.table == table && *start <= *change.key && *change.key < *end;
        let is_listed_since = || self.changes.iter().any(|change| change.number > at && is_within(change));
        self.unlisted_in_progress > 0 || self.unlisted > at || is_listed_since()
    }

    /// Lists a change of a batch that has begun.
    pub(super) fn list(&mut self, begun: u64, table: Table, key: &[u8]) {
        // A change in progress stays listed; there are at most as many of them as batches are written at once.
        let is_full = self.changes.len() >= LISTED_CHANGES_PER_SLOT_MAX;
        let oldest = self.changes.pop_front_if(|change| is_full && change.number != IN_PROGRESS);
        let mut change = oldest.map_or_else(
            || Change { table, key: Vec::new(), begun, number: IN_PROGRESS },
            |oldest| {
                self.unlisted = self.unlisted.max(oldest.number);
                Change { table, begun, number: IN_PROGRESS, ..oldest }
            },
        );
        change.key.clear();
        change.key.extend_from_slice(key);
        self.changes.push_back(change);
    }

    /// Sets the number of the changes of a batch that has ended.
    pub(super) fn end_listed(&mut self, begun: u64, number: u64) {
        for change in self.changes.iter_mut().rev() {
            // Batches list their changes in the order in which they begin, but for those that begin at the same time.
            if change.begun == begun {
                change.number = number;
            }
        }
        while self.changes.len() > LISTED_CHANGES_PER_SLOT_MAX {
            let Some(oldest) = self.changes.pop_front_if(|change| change.number != IN_PROGRESS) else { break };
            self.unlisted = self.unlisted.max(oldest.number);
        }
    }

    /// Registers a batch whose changes are not listed.
    pub(super) fn begin_unlisted(&mut self) {
        self.unlisted_in_progress += 1;
    }

    /// Registers the end of a batch whose changes are not listed.
    pub(super) fn end_unlisted(&mut self, number: u64) {
        assert!(self.unlisted_in_progress > 0, "a batch ends after it has begun");
        self.unlisted_in_progress -= 1;
        self.unlisted = self.unlisted.max(number);
    }

    /// Takes a key that is about to be set out of the gap around it.
    pub(super) fn split_gap(&mut self, table: Table, key: &[u8]) {
        let gaps = &mut self.gaps[table as usize];
        let Some((start, _)) = gap_containing(gaps, key) else { return };
        let start = start.clone();
        let Some(Gap { end, since }) = gaps.remove(&start) else { return };
        let next = next_key(key);
        if next < end {
            gaps.insert(next, Gap { end, since });
        }
        if start.as_slice() < key {
            gaps.insert(start, Gap { end: key.to_vec(), since });
        }
    }

    /// Adds a key that batch `begun` deleted to the gaps beside it, unless another batch, or this one, may have set it
    /// meanwhile.
    pub(super) fn widen_gap(&mut self, table: Table, key: &[u8], begun: u64, written_before: u64, number: u64) {
        let gaps = &self.gaps[table as usize];
        let next = next_key(key);
        let is_beside = gaps.contains_key(&next) || ends_at(gaps, key);
        if !is_beside || self.unlisted_in_progress > 0 || self.unlisted > written_before {
            return;
        }
        let is_of_key = |change: &&Change| change.table == table && change.key == key;
        let mut since = self.changes.iter().filter(|change| change.number > written_before).filter(is_of_key);
        // The deletion itself is listed; anything else may have set the key.
        if since.next().is_some_and(|change| change.begun == begun) && since.next().is_none() {
            self.insert_gap(table, key.to_vec(), next, number);
        }
    }

    /// Adds a gap, and makes it one with those that it overlaps or touches.
    pub(super) fn insert_gap(&mut self, table: Table, mut start: Vec<u8>, mut end: Vec<u8>, mut since: u64) {
        if self.len() >= GAPS_PER_SLOT_MAX {
            self.drop_one_gap();
        }
        let gaps = &mut self.gaps[table as usize];
        while let Some((first, last)) = gaps.range::<[u8], _>((Bound::Unbounded, Bound::Included(&*end))).next_back() {
            if last.end < start {
                break;
            }
            let first = first.clone();
            let Some(other) = gaps.remove(&first) else { break };
            end = end.max(other.end);
            since = since.max(other.since);
            start = start.min(first);
        }
        assert!(start < end, "a gap is not empty");
        gaps.insert(start, Gap { end, since });
    }

    /// Forgets all gaps.
    pub(super) fn clear(&mut self) {
        self.gaps.iter_mut().for_each(BTreeMap::clear);
    }

    /// Returns the number of gaps.
    pub(super) fn len(&self) -> usize {
        self.gaps.iter().map(BTreeMap::len).sum()
    }

    /// Forgets one gap, each time the next one in the order of tables and keys.
    fn drop_one_gap(&mut self) {
        let (table, key) = std::mem::take(&mut self.hand);
        let from = |table: usize, key: &[u8]| {
            let mut tables = self.gaps.iter().enumerate().skip(table);
            tables.find_map(|(number, gaps)| {
                let start = if number == table { key } else { &[] };
                gaps.range::<[u8], _>((Bound::Included(start), Bound::Unbounded))
                    .next()
                    .map(|(key, _)| (number, key.clone()))
            })
        };
        let Some((number, key)) = from(table, &key).or_else(|| from(0, &[])) else { return };
        self.gaps[number].remove(&key);
        self.hand = (number, key);
    }
}

/// Returns the gap in which a key lies.
fn gap_containing<'g>(gaps: &'g BTreeMap<Vec<u8>, Gap>, key: &[u8]) -> Option<(&'g Vec<u8>, &'g Gap)> {
    let before = gaps.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
    before.filter(|(_, gap)| key < gap.end.as_slice())
}

/// Returns `true` if a gap ends directly before a key.
fn ends_at(gaps: &BTreeMap<Vec<u8>, Gap>, key: &[u8]) -> bool {
    gaps.range::<[u8], _>(before(key)).next_back().is_some_and(|(_, gap)| gap.end == key)
}

/// Returns the range of the keys before a key.
fn before(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Excluded(key))
}

/// Returns the range of the keys after a key.
fn after(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Excluded(key), Bound::Unbounded)
}
