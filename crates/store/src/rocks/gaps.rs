//! Key ranges that are known to hold no entries, so that scans can skip them.
//!
//! A deleted key leaves a tombstone in the engine until files are merged, and a scan steps over every tombstone in its
//! range. Mailboxes, queues, change logs and views are ranges from which keys go all the time: without help, reading
//! thirty live entries costs as much as the thousands that were there before. So a scan that stepped over many
//! tombstones between two entries reports the range between them as a *gap*, and later scans, of any snapshot for which
//! the gap holds, seek past it.
//!
//! A gap holds for a snapshot that shows at least the batches up to `Gap::since` and, of the later ones, none that
//! has set a key within. Invariants:
//! - Before a batch goes to the engine, the keys that it sets are taken out of the gaps. A scan takes its snapshot
//!   before it looks for gaps, so no key of a gap that it finds has been set by a batch that the snapshot shows.
//! - A batch gets its number after it can be read, and the last number is loaded before a snapshot is taken: the
//!   snapshot shows all batches up to that number.
//! - A range that a snapshot found empty becomes a gap only if no batch that is in progress, or that ended after the
//!   snapshot was taken, has changed a key within. To decide this, each slot lists its recent changes ([`Slot`]); where
//!   the list does not reach back far enough, nothing is learned.
//!
//! Gaps are kept in memory only, at most [`crate::limits::GAPS_PER_SLOT_MAX`] a slot. After a restart the first scan of
//! each range steps over its tombstones once more.

mod slot;

use std::sync::atomic::{AtomicU64, Ordering};

use base::sync::{Mutex, MutexGuard};

use self::slot::Slot;
use crate::batch::{Batch, BatchOperation};
use crate::engine::{Direction, KeyRange, Table, prefix_end};
use crate::limits::{GAP_KEY_BYTES_MAX, LISTED_CHANGES_PER_BATCH_MAX};

/// Number of locks; a set of slots is a number of as many bits.
const SLOTS: usize = 64;

/// Every slot.
const ALL_SLOTS: u64 = u64::MAX;

/// Gaps of all tables, and the recent changes that decide what may become one.
pub(super) struct Gaps {
    slots: Box<[Mutex<Slot>]>,
    /// Number of the last batch that can be read.
    written: AtomicU64,
    /// Identifier of the batch that began last.
    begun: AtomicU64,
}

/// A batch in progress, from [`Gaps::begin`] to [`Gaps::end`].
#[must_use]
pub(super) struct BatchInProgress {
    /// The slots whose keys the batch changes, a bit for each.
    slots: u64,
    /// Identifier of the batch.
    begun: u64,
    /// Number of the last batch that could be read when this one began.
    written_before: u64,
    /// The batch has too many changes, or changes without names, to be listed.
    is_unlisted: bool,
}

impl Gaps {
    pub(super) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| Mutex::default()).collect();
        Self { slots, written: AtomicU64::new(0), begun: AtomicU64::new(0) }
    }

    /// Returns the number of the last batch that can be read. A snapshot that is taken afterwards shows all batches up
    /// to it.
    pub(super) fn last_visible_batch(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Returns the slot of a range, or `None` if its table is not covered or the range spans more than one database.
    pub(super) fn slot_of(table: Table, range: &KeyRange) -> Option<usize> {
        let is_within = is_covered(table) && is_within_database(table, &range.start, range.end.as_deref()?);
        is_within.then(|| slot_number(table, &range.start))
    }

    /// Returns the first gap at or after `position` in the direction of a scan whose snapshot shows the batches up to
    /// `at`.
    pub(super) fn next_gap(
        &self,
        (slot, table): (usize, Table),
        position: &[u8],
        direction: Direction,
        at: u64,
    ) -> Option<KeyRange> {
        self.lock(slot).next_gap(table, position, direction, at)
    }

    /// Learns that a snapshot which shows the batches up to `at` has no entries from `start` to before `end`.
    pub(super) fn record(&self, table: Table, start: &[u8], end: &[u8], at: u64) {
        let is_long = start.len() > GAP_KEY_BYTES_MAX || end.len() > GAP_KEY_BYTES_MAX;
        if is_long || start >= end || !is_covered(table) || !is_within_database(table, start, end) {
            return;
        }
        let mut slot = self.lock(slot_number(table, start));
        if !slot.has_changed(table, (start, end), at) {
            slot.insert_gap(table, start.to_vec(), end.to_vec(), at);
        }
    }

    /// Registers a batch that is about to be written.
    pub(super) fn begin(&self, batch: &Batch) -> BatchInProgress {
        let is_unlisted = batch.len() > LISTED_CHANGES_PER_BATCH_MAX || batch.operations().any(is_range_deletion);
        let slots = batch.operations().fold(0, |slots, operation| slots | slots_of(operation));
        let begun = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let turn = BatchInProgress { slots, begun, written_before: self.last_visible_batch(), is_unlisted };
        if is_unlisted {
            self.each(slots, |slot| slot.begin_unlisted());
        }
        self.for_each_change(batch, |slot, operation| {
            if let BatchOperation::Put { table, key, .. } = operation {
                slot.split_gap(table, key);
            }
            if let (false, Some((table, key))) = (is_unlisted, changed_key(operation)) {
                slot.list(begun, table, key);
            }
        });
        turn
    }

    /// Registers that a batch was written, or failed.
    pub(super) fn end(&self, batch: &Batch, turn: &BatchInProgress, is_written: bool) {
        if turn.slots == 0 {
            return;
        }
        let number = self.written.fetch_add(1, Ordering::SeqCst) + 1;
        if turn.is_unlisted {
            self.each(turn.slots, |slot| slot.end_unlisted(number));
            return;
        }
        if is_written {
            self.for_each_change(batch, |slot, operation| {
                if let BatchOperation::Delete { table, key } = operation {
                    slot.widen_gap(table, key, turn.begun, turn.written_before, number);
                }
            });
        }
        self.each(turn.slots, |slot| slot.end_listed(turn.begun, number));
    }

    /// Does work that changes keys without naming them, and forgets all gaps before.
    pub(super) fn clear_during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.each(ALL_SLOTS, |slot| {
            slot.begin_unlisted();
            slot.clear();
        });
        let outcome = work();
        let number = self.written.fetch_add(1, Ordering::SeqCst) + 1;
        self.each(ALL_SLOTS, |slot| slot.end_unlisted(number));
        outcome
    }

    fn each(&self, slots: u64, mut change: impl FnMut(&mut Slot)) {
        (0..SLOTS).filter(|slot| slots & bit(*slot) != 0).for_each(|slot| change(&mut self.lock(slot)));
    }

    /// Calls `each` with the slot of every change in a batch. Neighboring changes mostly share theirs, and one lock.
    fn for_each_change<'b>(&self, batch: &'b Batch, mut each: impl FnMut(&mut Slot, BatchOperation<'b>)) {
        let mut locked: Option<(usize, MutexGuard<'_, Slot>)> = None;
        for operation in batch.operations() {
            let Some((table, key)) = changed_key(operation) else { continue };
            let number = slot_number(table, key);
            let mut guard = match locked.take() {
                Some((held, guard)) if held == number => guard,
                other => {
                    drop(other);
                    self.lock(number)
                }
            };
            each(&mut guard, operation);
            locked = Some((number, guard));
        }
    }

    fn lock(&self, slot: usize) -> MutexGuard<'_, Slot> {
        self.slots[slot].lock()
    }
}

/// Returns `true` for the tables that are scanned in ranges from which keys go. Records of the others are found by
/// their keys.
pub(super) const fn is_covered(table: Table) -> bool {
    !matches!(table, Table::Body | Table::Unid | Table::Tree | Table::Blob)
}

/// Returns how many bytes at the start of a table's keys name the database. Tables of the whole server have one slot
/// each.
pub(super) const fn database_prefix_bytes(table: Table) -> usize {
    match table {
        Table::Catalog | Table::Blob | Table::BlobRef | Table::BlobFree | Table::Store => 0,
        _ => 4,
    }
}

/// Returns `true` if the keys from `start` to before `end` belong to one database.
fn is_within_database(table: Table, start: &[u8], end: &[u8]) -> bool {
    let bytes = database_prefix_bytes(table);
    bytes == 0 || start.len() >= bytes && prefix_end(&start[..bytes]).is_some_and(|last| end <= last.as_slice())
}

/// Returns table and key of an operation that changes one key of a covered table.
fn changed_key(operation: BatchOperation<'_>) -> Option<(Table, &[u8])> {
    match operation {
        BatchOperation::Put { table, key, .. } | BatchOperation::Delete { table, key } => {
            is_covered(table).then_some((table, key))
        }
        BatchOperation::DeleteRange { .. } => None,
    }
}

fn is_range_deletion(operation: BatchOperation<'_>) -> bool {
    matches!(operation, BatchOperation::DeleteRange { table, .. } if is_covered(table))
}

fn slots_of(operation: BatchOperation<'_>) -> u64 {
    if is_range_deletion(operation) {
        return ALL_SLOTS;
    }
    changed_key(operation).map_or(0, |(table, key)| bit(slot_number(table, key)))
}

const fn bit(slot: usize) -> u64 {
    1 << slot
}

/// Returns the number of a key's slot. All tables of a database share one.
fn slot_number(table: Table, key: &[u8]) -> usize {
    let bytes = database_prefix_bytes(table);
    if bytes == 0 {
        return table as usize;
    }
    let home = &key[..key.len().min(bytes)];
    home.iter().fold(0, |sum, byte| sum * 31 + usize::from(*byte)) % SLOTS
}

#[cfg(test)]
mod tests;
