//! The changes that the root record remembers because the tree does not know them yet.
//!
//! Writing a node a level for every change would cost several times what the entry itself costs. So the root record, which is
//! written anyway, keeps the last changes of totals, by key; when they are too many, those below the root's children that have
//! most of them go down into the tree together. A folder that grows at its end then writes its last node once in
//! some dozen messages. Readers add what is remembered to what they find.
//!
//! Invariants: keys ascend strictly; no change is nothing; what the tree says of a block, plus the remembered changes of
//! keys in the block, is what the block's entries add up to.

use base::codec::{Decoder, Encoder, Truncated};

use super::limits::{KEY_BYTES_MAX, RECENT_MAX, SUMS_MAX};
use super::node::{Damage, Node};
use super::weight::{Change, Weight};

/// A change of the totals at a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recent {
    /// Where the key lies among all keys.
    start: usize,
    end: usize,
    pub(super) change: Change,
}

/// The remembered changes, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Recents {
    list: Vec<Recent>,
    /// The keys, in no order; what is no longer pointed to stays until the record is written.
    keys: Vec<u8>,
}

impl Recents {
    /// Gives the changes in the order of their keys.
    pub(super) fn list(&self) -> &[Recent] {
        &self.list
    }

    /// Gives the key of a change.
    pub(super) fn key(&self, recent: &Recent) -> &[u8] {
        &self.keys[recent.start..recent.end]
    }

    /// Gives the changes of keys before `key`.
    pub(super) fn before(&self, key: &[u8]) -> &[Recent] {
        &self.list[..self.place(key)]
    }

    /// Gives the changes of keys from `low` to before `high`.
    pub(super) fn within(&self, low: &[u8], high: Option<&[u8]>) -> &[Recent] {
        let (start, end) = self.stretch(low, high);
        &self.list[start..end]
    }

    /// Tells how many bytes the changes take, more or less.
    pub(super) fn size_bytes(&self) -> usize {
        self.keys.len() + 8 * self.list.len()
    }

    /// Tells whether there are more changes, or more bytes of them.
    pub(super) fn exceed(&self, count: usize, size_bytes: usize) -> bool {
        self.list.len() > count || self.size_bytes() > size_bytes
    }

    /// Adds a change to what is remembered.
    pub(super) fn add(&mut self, key: &[u8], change: &Change) -> Result<(), Damage> {
        let place = self.place(key);
        match self.list.get(place) {
            Some(recent) if self.key(recent) == key => {
                let together = recent.change.checked_add(change).ok_or("a remembered change is too great")?;
                if together.is_nothing() {
                    self.list.remove(place);
                } else {
                    self.list[place].change = together;
                }
            }
            _ if change.is_nothing() => {}
            _ => {
                let start = self.keys.len();
                self.keys.extend_from_slice(key);
                self.list.insert(place, Recent { start, end: self.keys.len(), change: *change });
            }
        }
        Ok(())
    }

    /// Finds the child of the root below which most changes are.
    pub(super) fn crowded_child(&self, root: &Node) -> usize {
        let mut best = (0, 0);
        let mut rest = self.list.as_slice();
        while let Some(first) = rest.first() {
            let index = root.position(self.key(first));
            let count = match root.fence(index + 1) {
                Some(end) => rest.partition_point(|recent| self.key(recent) < end.as_slice()).max(1),
                None => rest.len(),
            };
            best = best.max((count, index));
            rest = &rest[count..];
        }
        best.1
    }

    /// Takes the changes of keys from `low` to before `high` out.
    pub(super) fn take(&mut self, low: &[u8], high: Option<&[u8]>) -> Vec<(Vec<u8>, Change)> {
        let (start, end) = self.stretch(low, high);
        let taken = self.list[start..end].iter().map(|recent| (self.key(recent).to_vec(), recent.change)).collect();
        self.list.drain(start..end);
        self.compact();
        taken
    }

    pub(super) fn encode(&self, sums: usize, record: &mut Encoder) {
        assert!(self.list.len() <= RECENT_MAX, "a decoder must accept what is written");
        record.varint(self.list.len() as u64);
        for recent in &self.list {
            assert!(recent.change.sums.fits(sums));
            record.bytes(self.key(recent)).varint(zigzag(recent.change.count));
            for sum in 0..sums {
                record.varint(zigzag(recent.change.sums.value(sum)));
            }
        }
    }

    pub(super) fn decode(sums: usize, record: &mut Decoder<'_>) -> Result<Self, Damage> {
        const SHORT: &str = "it is too short";
        let count = record.count().map_err(|_| SHORT)?;
        if count > RECENT_MAX {
            return Err("it remembers too many changes");
        }
        // Room for one more of each, because a writer is going to add one.
        let mut recents = Self { list: Vec::with_capacity(count + 1), keys: Vec::with_capacity(8 * (count + 1)) };
        for _ in 0..count {
            let (key, change) = decode_recent(sums, record).map_err(|_| SHORT)?;
            let is_next = recents.list.last().is_none_or(|last| recents.key(last) < key);
            if !is_next || key.len() > KEY_BYTES_MAX || change.is_nothing() {
                return Err("it remembers changes that do not ascend, or are none");
            }
            let start = recents.keys.len();
            recents.keys.extend_from_slice(key);
            recents.list.push(Recent { start, end: recents.keys.len(), change });
        }
        Ok(recents)
    }

    /// Finds the first change of a key that is not smaller.
    fn place(&self, key: &[u8]) -> usize {
        self.list.partition_point(|recent| self.key(recent) < key)
    }

    fn stretch(&self, low: &[u8], high: Option<&[u8]>) -> (usize, usize) {
        let end = high.map_or(self.list.len(), |high| self.place(high));
        (self.place(low).min(end), end)
    }

    /// Forgets keys that no change points to.
    fn compact(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        for recent in &mut self.list {
            let start = self.keys.len();
            self.keys.extend_from_slice(&keys[recent.start..recent.end]);
            (recent.start, recent.end) = (start, self.keys.len());
        }
    }
}

/// Two lists are equal when they hold the same changes at the same keys.
impl PartialEq for Recents {
    fn eq(&self, other: &Self) -> bool {
        let pairs = |recents: &Self| -> Vec<_> {
            recents.list.iter().map(|recent| (recents.key(recent).to_vec(), recent.change)).collect()
        };
        pairs(self) == pairs(other)
    }
}

impl Eq for Recents {}

fn decode_recent<'a>(sums: usize, record: &mut Decoder<'a>) -> Result<(&'a [u8], Change), Truncated> {
    let key = record.bytes()?;
    let count = unzigzag(record.varint()?);
    let mut values = [0; SUMS_MAX];
    for value in &mut values[..sums] {
        *value = unzigzag(record.varint()?);
    }
    Ok((key, Change { count, sums: Weight::new(&values) }))
}

/// Adds up changes.
pub(super) fn sum(recents: &[Recent]) -> Result<Change, Damage> {
    let sum = recents.iter().try_fold(Change::NONE, |sum, recent| sum.checked_add(&recent.change));
    sum.ok_or("the changes that it remembers are too great")
}

/// Maps small numbers of either sign to small numbers.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
