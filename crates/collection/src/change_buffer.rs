//! The buffer of changes in the root record, which are not yet applied to the tree.
//!
//! Writing one node per level for every change would cost several times as much as the entry itself. Therefore the root
//! record, which is written anyway, buffers the last changes of totals by key. When it has too many, the changes below
//! those children of the root that have most of them are applied to the tree together. A folder that grows at its end
//! then writes its last node about once in eight messages. Readers add the buffered changes to the totals in the tree.
//!
//! Invariants: keys are strictly ascending; no buffered change is zero; the totals of a block in the tree plus the
//! buffered changes of keys in the block are the totals of the block's entries.

use base::codec::{Decoder, Encoder, InvalidRecord};

use crate::limits::{BUFFERED_CHANGES_MAX, KEY_BYTES_MAX, SUMS_MAX};
use crate::node::{DamageReason, Node};
use crate::weight::{TotalsChange, Weight};

/// A change of the totals at a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferedChange {
    /// Start of the key within [`ChangeBuffer::keys`].
    start: usize,
    end: usize,
    pub(crate) change: TotalsChange,
}

/// The buffered changes, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeBuffer {
    list: Vec<BufferedChange>,
    /// The bytes of the keys, unordered. Bytes that no change refers to stay until changes are taken out or the record
    /// is written.
    keys: Vec<u8>,
}

impl ChangeBuffer {
    /// Returns the changes in the order of their keys.
    pub(crate) fn list(&self) -> &[BufferedChange] {
        &self.list
    }

    /// Returns the key of a change.
    pub(crate) fn key(&self, recent: &BufferedChange) -> &[u8] {
        &self.keys[recent.start..recent.end]
    }

    /// Returns the changes of keys before `key`.
    pub(crate) fn before(&self, key: &[u8]) -> &[BufferedChange] {
        &self.list[..self.lower_bound(key)]
    }

    /// Returns the changes of keys from `low` to before `high`.
    pub(crate) fn within(&self, low: &[u8], high: Option<&[u8]>) -> &[BufferedChange] {
        let (start, end) = self.index_range(low, high);
        &self.list[start..end]
    }

    /// Returns the approximate size of the changes in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.keys.len() + 8 * self.list.len()
    }

    /// Returns `true` if there are more than `count` changes, or if they take more than `size_bytes` bytes.
    pub(crate) fn exceed(&self, count: usize, size_bytes: usize) -> bool {
        self.list.len() > count || self.size_bytes() > size_bytes
    }

    /// Adds a change to the buffer.
    pub(crate) fn add(&mut self, key: &[u8], change: &TotalsChange) -> Result<(), DamageReason> {
        let place = self.lower_bound(key);
        match self.list.get(place) {
            Some(recent) if self.key(recent) == key => {
                let together = recent.change.checked_add(change).ok_or("a buffered change overflows")?;
                if together.is_zero() {
                    self.list.remove(place);
                } else {
                    self.list[place].change = together;
                }
            }
            _ if change.is_zero() => {}
            _ => {
                let start = self.keys.len();
                self.keys.extend_from_slice(key);
                self.list.insert(place, BufferedChange { start, end: self.keys.len(), change: *change });
            }
        }
        Ok(())
    }

    /// Returns the index of the root's child with most changes below it.
    pub(crate) fn crowded_child(&self, root: &Node) -> usize {
        let mut best = (0, 0);
        let mut rest = self.list.as_slice();
        while let Some(first) = rest.first() {
            let index = root.child_index(self.key(first));
            let count = match root.fence(index + 1) {
                Some(end) => rest.partition_point(|recent| self.key(recent) < end.as_slice()).max(1),
                None => rest.len(),
            };
            best = best.max((count, index));
            rest = &rest[count..];
        }
        best.1
    }

    /// Removes the changes of keys from `low` to before `high` and returns them.
    pub(crate) fn take(&mut self, low: &[u8], high: Option<&[u8]>) -> Vec<(Vec<u8>, TotalsChange)> {
        let (start, end) = self.index_range(low, high);
        let taken = self.list[start..end].iter().map(|recent| (self.key(recent).to_vec(), recent.change)).collect();
        self.list.drain(start..end);
        self.compact();
        taken
    }

    pub(crate) fn encode(&self, sums: usize, record: &mut Encoder) {
        assert!(self.list.len() <= BUFFERED_CHANGES_MAX, "the decoder must accept everything that can be written");
        record.varint(self.list.len() as u64);
        for recent in &self.list {
            assert!(recent.change.sums.fits(sums));
            record.bytes(self.key(recent)).varint(zigzag(recent.change.count));
            for sum in 0..sums {
                record.varint(zigzag(recent.change.sums.value(sum)));
            }
        }
    }

    pub(crate) fn decode(sums: usize, record: &mut Decoder<'_>) -> Result<Self, DamageReason> {
        const SHORT: &str = "it is too short";
        let count = record.count().map_err(|_| SHORT)?;
        if count > BUFFERED_CHANGES_MAX {
            return Err("it has too many buffered changes");
        }
        // The capacity includes one more change, because a writer is going to add one.
        let mut recents = Self { list: Vec::with_capacity(count + 1), keys: Vec::with_capacity(8 * (count + 1)) };
        for _ in 0..count {
            let (key, change) = decode_recent(sums, record).map_err(|_| SHORT)?;
            let is_next = recents.list.last().is_none_or(|last| recents.key(last) < key);
            if !is_next || key.len() > KEY_BYTES_MAX || change.is_zero() {
                return Err("its buffered changes are not ascending, or one is empty");
            }
            let start = recents.keys.len();
            recents.keys.extend_from_slice(key);
            recents.list.push(BufferedChange { start, end: recents.keys.len(), change });
        }
        Ok(recents)
    }

    /// Returns the index of the first change whose key is not smaller than `key`.
    fn lower_bound(&self, key: &[u8]) -> usize {
        self.list.partition_point(|recent| self.key(recent) < key)
    }

    fn index_range(&self, low: &[u8], high: Option<&[u8]>) -> (usize, usize) {
        let end = high.map_or(self.list.len(), |high| self.lower_bound(high));
        (self.lower_bound(low).min(end), end)
    }

    /// Removes the bytes of keys that no change refers to.
    fn compact(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        for recent in &mut self.list {
            let start = self.keys.len();
            self.keys.extend_from_slice(&keys[recent.start..recent.end]);
            recent.start = start;
            recent.end = self.keys.len();
        }
    }
}

/// Two buffers are equal if they contain the same changes at the same keys.
impl PartialEq for ChangeBuffer {
    fn eq(&self, other: &Self) -> bool {
        let pairs = |recents: &Self| -> Vec<_> {
            recents.list.iter().map(|recent| (recents.key(recent).to_vec(), recent.change)).collect()
        };
        pairs(self) == pairs(other)
    }
}

impl Eq for ChangeBuffer {}

fn decode_recent<'a>(sums: usize, record: &mut Decoder<'a>) -> Result<(&'a [u8], TotalsChange), InvalidRecord> {
    let key = record.bytes()?;
    let count = unzigzag(record.varint()?);
    let mut values = [0; SUMS_MAX];
    for value in &mut values[..sums] {
        *value = unzigzag(record.varint()?);
    }
    Ok((key, TotalsChange { count, sums: Weight::new(&values) }))
}

/// Returns the sum of the changes.
pub(crate) fn sum(recents: &[BufferedChange]) -> Result<TotalsChange, DamageReason> {
    let sum = recents.iter().try_fold(TotalsChange::NONE, |sum, recent| sum.checked_add(&recent.change));
    sum.ok_or("the sum of its buffered changes overflows")
}

/// Maps small numbers of either sign to small unsigned numbers.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(count: i64, sum: i64) -> TotalsChange {
        TotalsChange { count, sums: Weight::new(&[sum]) }
    }

    fn recents(changes: &[(&[u8], i64, i64)]) -> ChangeBuffer {
        let mut recents = ChangeBuffer::default();
        for (key, count, sum) in changes {
            recents.add(key, &change(*count, *sum)).expect("the test's numbers are small");
        }
        recents
    }

    #[test]
    fn changes_of_one_key_are_merged() {
        let together = recents(&[(b"b", 1, 5), (b"a", 1, 7), (b"b", 0, -2), (b"c", 1, 1), (b"c", -1, -1)]);
        assert_eq!(together, recents(&[(b"a", 1, 7), (b"b", 1, 3)]));
        assert_eq!(sum(together.list()), Ok(change(2, 10)));
        assert_eq!(sum(together.before(b"b")), Ok(change(1, 7)));
        assert_eq!(sum(together.within(b"b", None)), Ok(change(1, 3)));
        assert_eq!(together.within(b"z", Some(b"a")).len(), 0);
    }

    #[test]
    fn encoded_buffer_reads_back() {
        let written = recents(&[(b"", -1, i64::MIN), (b"k", 300, i64::MAX), (&[255; 300], i64::MAX, -1)]);
        let mut record = Encoder::new();
        written.encode(1, &mut record);
        let bytes = record.finish();
        assert_eq!(ChangeBuffer::decode(1, &mut Decoder::new(&bytes)), Ok(written));
        for length in 0..bytes.len() {
            assert!(ChangeBuffer::decode(1, &mut Decoder::new(&bytes[..length])).is_err());
        }
    }

    #[test]
    fn taken_changes_leave_the_buffer() {
        let mut rest = recents(&[(b"a", 1, 1), (b"b", 1, 2), (b"c", 1, 3), (b"d", 1, 4)]);
        let taken = rest.take(b"b", Some(b"d"));
        assert_eq!(taken, [(b"b".to_vec(), change(1, 2)), (b"c".to_vec(), change(1, 3))]);
        assert_eq!(rest, recents(&[(b"a", 1, 1), (b"d", 1, 4)]));
        assert_eq!(rest.size_bytes(), 2 + 16, "the size excludes the keys that were taken");
    }
}
