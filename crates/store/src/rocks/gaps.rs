//! Where scans find nothing, remembered.
//!
//! The engine keeps the removal of an entry until it is merged away, and a scan passes over every removal that lies in its way. In a view whose newest
//! documents come and go there are thousands between the first rows, and every page would pass over all of them. So a scan that passed over many tells
//! between which keys that was; the next one jumps over them.
//!
//! A gap is a range of keys without entries. It is right for a snapshot that shows at least the batches up to [`Gap::since`] and, of those that have set
//! keys within, none. Invariants:
//! - before a batch goes to the engine, the keys that it sets are taken out of the gaps. Whoever looks for gaps takes the snapshot first: a gap that is found has had no key set that
//!   the snapshot shows;
//! - a number is given to a batch after it can be read, and who takes a snapshot loads the last number first: the snapshot shows all batches up to that
//!   number;
//! - what a snapshot did not find becomes a gap only if, in that part of the keys, no batch is under way and none has a higher number than the
//!   snapshot's: then it shows exactly what every later one shows that knows of no further batch.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::batch::{Batch, Operation};
use crate::engine::{Direction, KeyRange, Table, next_key, prefix_end};
use crate::limits::{GAP_KEY_BYTES_MAX, GAPS_PER_SLOT_MAX};

/// The table whose gaps are remembered: pages of views are read again and again.
pub(super) const TABLE: Table = Table::View;

/// The keys that begin with the same bytes, which name a database, are remembered together.
const HOME_BYTES: usize = 4;

/// How many locks share the work; a set of slots is a number of as many bits.
const SLOTS: usize = 64;

/// What is remembered, and what batches are doing to it.
pub(super) struct Gaps {
    slots: Box<[Mutex<Slot>]>,
    /// The number of the last batch that can be read.
    written: AtomicU64,
    /// Tells batches under way apart.
    begun: AtomicU64,
}

/// Some databases.
#[derive(Default)]
struct Slot {
    /// By their first keys; they neither overlap nor touch each other.
    gaps: BTreeMap<Vec<u8>, Gap>,
    /// How many batches are under way.
    under_way: u32,
    /// The batch that began last.
    begun: u64,
    /// The number of the last batch that has ended.
    changed: u64,
}

/// Keys without entries, from its place in the map.
struct Gap {
    /// The first key behind it.
    end: Vec<u8>,
    /// The batch from which on this is so.
    since: u64,
}

/// A batch under way.
#[must_use]
pub(super) struct Turn {
    /// The slots that it concerns, a bit for each.
    slots: u64,
    /// Those of them in which no other batch was under way when it began.
    alone: u64,
    begun: u64,
}

impl Gaps {
    pub(super) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| Mutex::default()).collect();
        Self { slots, written: AtomicU64::new(0), begun: AtomicU64::new(0) }
    }

    /// Gives the number of the last batch that a snapshot shows which is taken now.
    pub(super) fn last_written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Gives the part of the keys in which a range lies; `None` when it reaches over several.
    pub(super) fn home(range: &KeyRange) -> Option<usize> {
        is_at_home(&range.start, range.end.as_deref()?).then(|| slot_of(&range.start))
    }

    /// Finds the gap in `slot` that comes next on the way from `position`, or in which that lies: first key, and first key behind it.
    pub(super) fn ahead(&self, slot: usize, position: &[u8], direction: Direction, at: u64) -> Option<KeyRange> {
        let slot = self.lock(slot);
        let range = |(start, gap): (&Vec<u8>, &Gap)| KeyRange::between(start.clone(), gap.end.clone());
        let is_known = |(_, gap): &(&Vec<u8>, &Gap)| gap.since <= at;
        match direction {
            Direction::Forward => {
                let here = slot.around(position).filter(is_known);
                here.or_else(|| slot.gaps.range::<[u8], _>(behind(position)).find(is_known)).map(range)
            }
            Direction::Backward => slot.gaps.range::<[u8], _>(before(position)).rev().find(is_known).map(range),
        }
    }

    /// Remembers that a snapshot which shows the batches up to `at` has nothing from `start` to before `end`.
    pub(super) fn learn(&self, start: &[u8], end: &[u8], at: u64) {
        let is_long = start.len() > GAP_KEY_BYTES_MAX || end.len() > GAP_KEY_BYTES_MAX;
        if is_long || start >= end || !is_at_home(start, end) {
            return;
        }
        let mut slot = self.lock(slot_of(start));
        if slot.under_way == 0 && slot.changed <= at {
            slot.join(start.to_vec(), Gap { end: end.to_vec(), since: at });
        }
    }

    /// Notes that a batch is about to be written.
    pub(super) fn begin(&self, batch: &Batch) -> Turn {
        let slots = batch.operations().fold(0, |slots, operation| slots | slots_of(operation));
        if slots == 0 {
            return Turn { slots, alone: 0, begun: 0 };
        }
        let turn = self.start(slots);
        for operation in batch.operations() {
            if let Operation::Put { table: TABLE, key, .. } = operation {
                self.lock(slot_of(key)).fill(key);
            }
        }
        turn
    }

    /// Notes that a batch was written, or was not.
    pub(super) fn end(&self, batch: &Batch, turn: Turn, is_written: bool) {
        if turn.slots == 0 {
            return;
        }
        let number = self.written.fetch_add(1, Ordering::SeqCst) + 1;
        for operation in batch.operations().filter(|_| is_written) {
            match operation {
                Operation::Put { table: TABLE, key, .. } => self.lock(slot_of(key)).fill(key),
                Operation::Delete { table: TABLE, key } => {
                    let mut slot = self.lock(slot_of(key));
                    // Somebody else who was under way at the same time may have set the key.
                    if turn.alone & bit(slot_of(key)) != 0 && slot.begun == turn.begun {
                        slot.widen(key, number);
                    }
                }
                _ => {}
            }
        }
        self.stop(turn.slots, number);
    }

    /// Does something that sets keys without naming them.
    pub(super) fn sweep<T>(&self, work: impl FnOnce() -> T) -> T {
        let turn = self.start(u64::MAX);
        self.all_of(turn.slots).for_each(|(_, mut slot)| slot.gaps.clear());
        let outcome = work();
        self.stop(turn.slots, self.written.fetch_add(1, Ordering::SeqCst) + 1);
        outcome
    }

    fn start(&self, slots: u64) -> Turn {
        let begun = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let mut alone = 0;
        for (number, mut slot) in self.all_of(slots) {
            alone |= if slot.under_way == 0 { bit(number) } else { 0 };
            slot.under_way += 1;
            slot.begun = begun;
        }
        Turn { slots, alone, begun }
    }

    fn stop(&self, slots: u64, number: u64) {
        for (_, mut slot) in self.all_of(slots) {
            assert!(slot.under_way > 0, "what ends has begun");
            slot.under_way -= 1;
            slot.changed = slot.changed.max(number);
        }
    }

    fn all_of(&self, slots: u64) -> impl Iterator<Item = (usize, MutexGuard<'_, Slot>)> {
        (0..SLOTS).filter(move |slot| slots & bit(*slot) != 0).map(|slot| (slot, self.lock(slot)))
    }

    fn lock(&self, slot: usize) -> MutexGuard<'_, Slot> {
        self.slots[slot].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Gives the gap in which a key lies.
    fn around(&self, key: &[u8]) -> Option<(&Vec<u8>, &Gap)> {
        let before = self.gaps.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.filter(|(_, gap)| key < gap.end.as_slice())
    }

    /// Takes a key that is being set out of the gap in which it lies.
    fn fill(&mut self, key: &[u8]) {
        let Some((start, _)) = self.around(key) else { return };
        let start = start.clone();
        let Some(Gap { end, since }) = self.gaps.remove(&start) else { return };
        let next = next_key(key);
        if next < end {
            self.gaps.insert(next, Gap { end, since });
        }
        if start.as_slice() < key {
            self.gaps.insert(start, Gap { end: key.to_vec(), since });
        }
    }

    /// Adds a key that was removed to the gaps beside it.
    fn widen(&mut self, key: &[u8], since: u64) {
        let next = next_key(key);
        let is_beside = self.gaps.contains_key(&next) || self.ends_at(key).is_some();
        if is_beside {
            self.join(key.to_vec(), Gap { end: next, since });
        }
    }

    /// Gives the first key of the gap that ends before a key.
    fn ends_at(&self, key: &[u8]) -> Option<&Vec<u8>> {
        let before = self.gaps.range::<[u8], _>(before(key)).next_back();
        before.filter(|(_, gap)| gap.end == key).map(|(start, _)| start)
    }

    /// Adds a gap, and makes it one with those that it overlaps or touches.
    fn join(&mut self, mut start: Vec<u8>, mut gap: Gap) {
        if self.gaps.len() >= GAPS_PER_SLOT_MAX {
            self.gaps.clear();
        }
        while let Some((first, _)) =
            self.gaps.range::<[u8], _>((Bound::Unbounded, Bound::Included(gap.end.as_slice()))).next_back()
        {
            if self.gaps[first].end < start {
                break;
            }
            let first = first.clone();
            let Some(other) = self.gaps.remove(&first) else { break };
            gap = Gap { end: gap.end.max(other.end), since: gap.since.max(other.since) };
            start = start.min(first);
        }
        assert!(start < gap.end, "a gap has room for a key");
        self.gaps.insert(start, gap);
    }
}

/// The keys before a key.
fn before(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Unbounded, Bound::Excluded(key))
}

/// The keys after a key.
fn behind(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Excluded(key), Bound::Unbounded)
}

/// Tells whether the keys from `start` to before `end` belong to one database.
fn is_at_home(start: &[u8], end: &[u8]) -> bool {
    start.len() >= HOME_BYTES && prefix_end(&start[..HOME_BYTES]).is_some_and(|last| end <= last.as_slice())
}

fn slots_of(operation: Operation<'_>) -> u64 {
    match operation {
        Operation::Put { table: TABLE, key, .. } | Operation::Delete { table: TABLE, key } => bit(slot_of(key)),
        Operation::DeleteRange { table: TABLE, .. } => u64::MAX,
        _ => 0,
    }
}

const fn bit(slot: usize) -> u64 {
    1 << slot
}

/// Gives the slot of a key. Databases are numbered in turn.
fn slot_of(key: &[u8]) -> usize {
    let home = &key[..key.len().min(HOME_BYTES)];
    home.iter().fold(0, |sum, byte| sum * 31 + usize::from(*byte)) % SLOTS
}

#[cfg(test)]
mod tests;
