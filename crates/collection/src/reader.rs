//! Reads a collection: by key, by position, in pages and in counts.
//!
//! A [`CollectionReader`] reads through its `&dyn TableReader`. On a snapshot, all results belong to one moment. On the
//! live store, a reader must be used under the database's lock. It keeps the root record with which it was opened and
//! reads the other nodes on demand: one lookup per level, two or three levels for a million entries, then a scan of at
//! most half a block. It adds the changes that the root buffers to the totals in the tree.
//!
//! Positions count from zero. Keys are the caller's keys, without the collection's prefix.
//!
//! A tree that contradicts itself or its entries yields [`store::Error::Damaged`] where this is noticed. Not every read
//! can notice it, but [`crate::check()`] does.

use std::sync::Arc;

use store::engine::prefix_end;
use store::{Cursor, Direction, KeyRange, Result, Table, TableReader};

use crate::change_buffer::{self, BufferedChange, ChangeBuffer};
use crate::id::{CollectionId, PREFIX_BYTES};
use crate::node::{DamageReason, Node};
use crate::root::{NodeRef, ROOT, Root, damaged_entry, damaged_node, load_node};
use crate::weight::{EntryWeigher, Totals, TotalsChange};

/// An entry of a collection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CollectionEntry {
    /// The key, which determines the position.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// A cursor over the entries of a range, in either direction.
pub struct EntryCursor<'r> {
    cursor: Box<dyn Cursor + 'r>,
}

impl EntryCursor<'_> {
    /// Returns the key and value of the next entry, or `None` at the end. The bytes are valid until the next call.
    #[expect(clippy::should_implement_trait, reason = "it returns borrowed bytes, which an Iterator cannot")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.cursor.next()?.map(|(key, value)| (strip_prefix(key), value)))
    }

    /// Collects up to `limit` entries.
    pub fn take(&mut self, limit: usize) -> Result<Vec<CollectionEntry>> {
        let mut entries = Vec::with_capacity(limit.min(1_024));
        while entries.len() < limit {
            let Some((key, value)) = self.next()? else { break };
            entries.push(CollectionEntry { key: key.to_vec(), value: value.to_vec() });
        }
        Ok(entries)
    }
}

/// Removes the collection's prefix from a stored key.
pub(crate) fn strip_prefix(stored: &[u8]) -> &[u8] {
    assert!(stored.len() >= PREFIX_BYTES, "the engine returns only keys of the requested range");
    &stored[PREFIX_BYTES..]
}

/// Converts a range of the caller's keys into a range of stored keys.
pub(crate) fn stored_range(id: CollectionId, start: &[u8], end: Option<&[u8]>) -> KeyRange {
    let end = end.map_or_else(|| prefix_end(&id.prefix()), |end| Some(id.entry_key(end)));
    KeyRange { start: id.entry_key(start), end }
}

/// The fences of a block.
struct Block {
    low: Vec<u8>,
    /// Fence of the next block, or `None` for the last block.
    high: Option<Vec<u8>>,
}

/// Number of entries that a scan reads in the time that starting another scan takes.
const SCAN_START_COST_ENTRIES: u64 = 24;

/// The quantity that is added up on the way to an entry.
#[derive(Clone, Copy)]
enum Measure {
    Count,
    Sum(usize),
}

/// State of a descent to a target.
struct Descent {
    /// The part of the target that remains before the chosen child.
    rest: u64,
    /// The count or sum of that child.
    amount: u64,
    /// Number of entries before that child.
    position: u64,
}

/// A reader of a collection.
pub struct CollectionReader<'r> {
    reader: &'r dyn TableReader,
    id: CollectionId,
    root: Arc<Root>,
    exists: bool,
}

/// The data that a reader read when it was opened, for another reader of the same collection in the same snapshot.
#[derive(Clone, Debug)]
pub struct OpenedRoot {
    id: CollectionId,
    root: Arc<Root>,
    exists: bool,
}

impl<'r> CollectionReader<'r> {
    /// Opens a collection. A collection that was never written is empty.
    pub fn open(reader: &'r dyn TableReader, id: CollectionId) -> Result<Self> {
        let root = Root::load(reader, id)?;
        let exists = root.is_some();
        Ok(Self { reader, id, root: Arc::new(root.unwrap_or_else(|| Root::empty(0))), exists })
    }

    /// Returns the data that was read to open this reader.
    #[must_use]
    pub fn opening(&self) -> OpenedRoot {
        OpenedRoot { id: self.id, root: Arc::clone(&self.root), exists: self.exists }
    }

    /// Opens a collection again. `reader` must show the same moment as the first time.
    #[must_use]
    pub fn reopen(reader: &'r dyn TableReader, opening: &OpenedRoot) -> Self {
        Self { reader, id: opening.id, root: Arc::clone(&opening.root), exists: opening.exists }
    }

    /// Returns `true` if the collection was ever written.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Returns the state that the owner stores with the collection.
    #[must_use]
    pub fn state(&self) -> &[u8] {
        &self.root.state
    }

    /// Returns the count and the sums of the whole collection.
    pub fn totals(&self) -> Result<Totals> {
        self.root.totals().map_err(|reason| self.damaged(reason))
    }

    /// Returns the number of entries.
    pub fn count(&self) -> Result<u64> {
        let node = &self.root.node;
        let stored = node.count_before(node.len());
        let count = stored.and_then(|count| add_counts(count, self.root.recents.list()));
        count.map_err(|reason| self.damaged(reason))
    }

    /// Returns the value of a key.
    pub fn find(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.reader.get(Table::View, &self.id.entry_key(key))
    }

    /// Returns the number of entries with smaller keys. This is the position of `key`, or the one at which it would be
    /// inserted.
    pub fn rank(&self, key: &[u8]) -> Result<u64> {
        let mut before = 0u64;
        let mut stored = 0u64;
        let block = self.descend(&mut |node| {
            let index = node.child_index(key);
            before = before.checked_add(node.count_before(index)?).ok_or("its counts overflow")?;
            stored = node.count(index);
            Ok(index)
        })?;
        let count = add_counts(before, self.root.recents.before(&block.low)).map_err(|reason| self.damaged(reason))?;
        if block.low == key {
            return Ok(count);
        }
        let recents = self.root.recents.within(&block.low, block.high.as_deref());
        let within = add_counts(stored, recents).map_err(|reason| self.damaged(reason))?;
        let rank = if is_likely_in_second_half(&block, within, key) {
            let after = self.count_scan(&stored_range(self.id, key, block.high.as_deref()))?;
            within.checked_sub(after).and_then(|within| count.checked_add(within))
        } else {
            count.checked_add(self.count_scan(&stored_range(self.id, &block.low, Some(key)))?)
        };
        rank.ok_or_else(|| self.damaged("a block has more entries than its count"))
    }

    /// Returns the totals of the entries with smaller keys.
    pub fn totals_before(&self, key: &[u8], weigher: &dyn EntryWeigher) -> Result<Totals> {
        self.check_sums(weigher)?;
        let mut before = Totals::ZERO;
        let block = self.descend(&mut |node| {
            let index = node.child_index(key);
            before = before.checked_add(&node.totals_before(index)?).ok_or("its sums overflow")?;
            Ok(index)
        })?;
        let remembered = change_buffer::sum(self.root.recents.before(&block.low));
        let remembered = remembered.map_err(|reason| self.damaged(reason))?;
        before =
            before.changed(&remembered).ok_or_else(|| self.damaged("it has more buffered removals than entries"))?;
        if block.low == key {
            return Ok(before);
        }
        let mut scan = self.scan_stored(&stored_range(self.id, &block.low, Some(key)), Direction::Forward)?;
        while let Some((key, value)) = scan.next()? {
            let weight = weigher.weigh(key, value).ok_or_else(|| damaged_entry(self.id, key))?;
            before = before.checked_add(&Totals::one(weight)).ok_or_else(|| damaged_entry(self.id, key))?;
        }
        Ok(before)
    }

    /// Returns the number of entries from `start` to before `end`, or to the last.
    pub fn count_range(&self, start: &[u8], end: Option<&[u8]>) -> Result<u64> {
        assert!(end.is_none_or(|end| start <= end), "a range must not end before it starts");
        let upto = end.map_or_else(|| self.count(), |end| self.rank(end))?;
        upto.checked_sub(self.rank(start)?).ok_or_else(|| self.damaged("its counts are not ascending"))
    }

    /// Returns the totals of the entries from `start` to before `end`, or to the last.
    pub fn totals_range(&self, start: &[u8], end: Option<&[u8]>, weigher: &dyn EntryWeigher) -> Result<Totals> {
        assert!(end.is_none_or(|end| start <= end), "a range must not end before it starts");
        let upto = end.map_or_else(|| self.totals(), |end| self.totals_before(end, weigher))?;
        upto.checked_sub(&self.totals_before(start, weigher)?)
            .ok_or_else(|| self.damaged("its counts are not ascending"))
    }

    /// Returns the entry at a position, or `None` after the last.
    pub fn entry_at(&self, position: u64) -> Result<Option<CollectionEntry>> {
        Ok(self.page(position, 1)?.pop())
    }

    /// Returns up to `limit` entries from a position on.
    pub fn page(&self, position: u64, limit: usize) -> Result<Vec<CollectionEntry>> {
        self.scan_at(position, Direction::Forward)?.map_or_else(|| Ok(Vec::new()), |mut scan| scan.take(limit))
    }

    /// Starts a scan over the keys of a range.
    pub fn scan(&self, range: &KeyRange, direction: Direction) -> Result<EntryCursor<'r>> {
        assert!(range.end.as_ref().is_none_or(|end| range.start <= *end), "a range must not end before it starts");
        self.scan_stored(&stored_range(self.id, &range.start, range.end.as_deref()), direction)
    }

    /// Starts a scan that begins with the entry at a position. Returns `None` after the last.
    pub fn scan_at(&self, position: u64, direction: Direction) -> Result<Option<EntryCursor<'r>>> {
        if position >= self.count()? {
            return Ok(None);
        }
        let (block, found) = self.descend_to(Measure::Count, position)?;
        assert!(found.rest < found.amount, "the descent ends in the block that contains the position");
        let before = found.rest;
        let after = found.amount - 1 - found.rest;
        // A scan from the other end of the block finds the entry faster, but then a second scan has to be started
        // there.
        let is_nearer = match direction {
            Direction::Forward => after + SCAN_START_COST_ENTRIES < before,
            Direction::Backward => before + SCAN_START_COST_ENTRIES < after,
        };
        let wanted = if is_nearer { opposite(direction) } else { direction };
        let (range, skip) = match wanted {
            Direction::Forward => (stored_range(self.id, &block.low, None), before),
            Direction::Backward => (stored_range(self.id, &[], block.high.as_deref()), after),
        };
        let mut scan = self.scan_stored(&range, wanted)?;
        for _ in 0..skip {
            scan.next()?.ok_or_else(|| self.damaged("a block has fewer entries than its count"))?;
        }
        if is_nearer {
            let (key, _) = scan.next()?.ok_or_else(|| self.damaged("a block has fewer entries than its count"))?;
            let range = match direction {
                Direction::Forward => stored_range(self.id, key, None),
                Direction::Backward => stored_range(self.id, &[], Some(&[key, &[0]].concat())),
            };
            scan = self.scan_stored(&range, direction)?;
        }
        Ok(Some(scan))
    }

    /// Returns the entry at which a running sum exceeds `target`, and its position. Returns `None` if the sum never
    /// does.
    ///
    /// With a sum that is 1 for some entries and 0 for the others, this is entry number `target` of the former, counted
    /// from zero: the first unseen message is number 0. The weights of this sum must not be negative.
    pub fn entry_at_sum(
        &self,
        sum: usize,
        target: u64,
        weigher: &dyn EntryWeigher,
    ) -> Result<Option<(u64, CollectionEntry)>> {
        self.check_sums(weigher)?;
        if u64::try_from(self.totals()?.sums.value(sum)).is_ok_and(|total| target >= total) {
            return Ok(None);
        }
        let (block, found) = self.descend_to(Measure::Sum(sum), target)?;
        let mut position = found.position;
        let mut rest = found.rest;
        let mut scan =
            self.scan_stored(&stored_range(self.id, &block.low, block.high.as_deref()), Direction::Forward)?;
        while let Some((key, value)) = scan.next()? {
            let weight = weigher.weigh(key, value).and_then(|weight| u64::try_from(weight.value(sum)).ok());
            let weight = weight.ok_or_else(|| damaged_entry(self.id, key))?;
            if rest < weight {
                return Ok(Some((position, CollectionEntry { key: key.to_vec(), value: value.to_vec() })));
            }
            rest -= weight;
            position = position.saturating_add(1);
        }
        Err(self.damaged("the entries of a block add up to less than its sum"))
    }

    /// Descends to the block in which the running count or sum, from the first entry on, exceeds `target`.
    fn descend_to(&self, measure: Measure, target: u64) -> Result<(Block, Descent)> {
        let mut found = Descent { rest: target, amount: 0, position: 0 };
        let mut recents = self.root.recents.list();
        let block = self.descend(&mut |node| {
            let (index, within) = find_child(node, &self.root.recents, recents, (measure, &mut found))?;
            recents = within;
            Ok(index)
        })?;
        Ok((block, found))
    }

    fn count_scan(&self, range: &KeyRange) -> Result<u64> {
        let mut scan = self.scan_stored(range, Direction::Forward)?;
        let mut count = 0;
        while scan.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    fn scan_stored(&self, range: &KeyRange, direction: Direction) -> Result<EntryCursor<'r>> {
        Ok(EntryCursor { cursor: self.reader.scan(Table::View, range, direction)? })
    }

    /// Descends from the root to a block. `step` selects the child of each node.
    fn descend(&self, step: &mut dyn FnMut(&Node) -> std::result::Result<usize, DamageReason>) -> Result<Block> {
        let mut low = Vec::new();
        let mut high = None::<Vec<u8>>;
        let mut below: Option<Node> = None;
        let mut number = ROOT;
        loop {
            let node = below.as_ref().unwrap_or(&self.root.node);
            let index = step(node).map_err(|reason| damaged_node(self.id, number, reason))?;
            if !node.lies_within(&low, high.as_deref()) {
                return Err(damaged_node(self.id, number, "a fence lies outside of its node"));
            }
            low = node.fence(index).unwrap_or(low);
            high = node.fence(index + 1).or(high);
            if node.level() == 0 {
                return Ok(Block { low, high });
            }
            let wanted = NodeRef::from_parent(node, index);
            number = wanted.number;
            below = Some(load_node(self.reader, self.id, self.root.sums, wanted)?);
        }
    }

    fn check_sums(&self, weigher: &dyn EntryWeigher) -> Result<()> {
        if self.exists && weigher.sums() != self.root.sums {
            return Err(self.damaged("it has a different number of sums and must be rebuilt"));
        }
        Ok(())
    }

    fn damaged(&self, reason: DamageReason) -> store::Error {
        damaged_node(self.id, ROOT, reason)
    }
}

/// Finds the child in which the running measure exceeds the rest of the target. `recents` are the buffered changes
/// below the node. Returns the index of the child and the buffered changes below it.
fn find_child<'a>(
    node: &Node,
    all: &ChangeBuffer,
    mut recents: &'a [BufferedChange],
    (measure, found): (Measure, &mut Descent),
) -> std::result::Result<(usize, &'a [BufferedChange]), DamageReason> {
    const NEGATIVE: DamageReason = "a count or a searched sum is negative";
    let mut next = recents.first().map(|recent| node.child_index(all.key(recent)));
    for index in 0..node.len() {
        let mut length = 0;
        let mut change = TotalsChange::NONE;
        while next == Some(index) {
            change = change.checked_add(&recents[length].change).ok_or("its sums overflow")?;
            length += 1;
            next = recents.get(length).map(|recent| node.child_index(all.key(recent)));
        }
        let count = node.count(index).checked_add_signed(change.count).ok_or(NEGATIVE)?;
        let amount = match measure {
            Measure::Count => count,
            Measure::Sum(sum) => {
                let amount = node.sum(sum, index).checked_add(change.sums.value(sum));
                amount.and_then(|amount| u64::try_from(amount).ok()).ok_or(NEGATIVE)?
            }
        };
        if found.rest < amount {
            found.amount = amount;
            return Ok((index, &recents[..length]));
        }
        found.rest -= amount;
        found.position = found.position.checked_add(count).ok_or("its counts overflow")?;
        recents = &recents[length..];
    }
    Err("its totals are less than those recorded in its parent")
}

fn add_counts(count: u64, recents: &[BufferedChange]) -> std::result::Result<u64, DamageReason> {
    let sum = recents.iter().try_fold(0i64, |sum, recent| sum.checked_add(recent.change.count));
    sum.and_then(|sum| count.checked_add_signed(sum)).ok_or("it has more buffered removals than entries")
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    }
}

/// Estimates whether most of a block's `count` entries lie before `key`. The estimate treats keys as evenly distributed
/// numbers.
fn is_likely_in_second_half(block: &Block, count: u64, key: &[u8]) -> bool {
    let high = block.high.as_deref();
    let common = |other: &[u8]| key.iter().zip(other).take_while(|(a, b)| a == b).count();
    let start = common(&block.low).min(high.map_or(usize::MAX, common));
    let number = |key: &[u8]| {
        let mut digits = [0; 8];
        let rest = key.get(start..).unwrap_or_default();
        let length = rest.len().min(8);
        digits[..length].copy_from_slice(&rest[..length]);
        u64::from_be_bytes(digits)
    };
    let from_low = number(key).saturating_sub(number(&block.low));
    let to_high = high.map(|high| number(high).saturating_sub(number(key)));
    // The number of keys in a distance if keys are numbers without gaps.
    let keys_in = |distance: u64| distance >> (64 - 8 * key.len().saturating_sub(start).clamp(1, 8));
    match to_high {
        // The first block has no lower fence. Often its first entries have been removed.
        Some(to_high) if block.low.is_empty() => keys_in(to_high) < count / 2,
        Some(to_high) => from_low > to_high,
        // The end of the last block is unknown.
        None => keys_in(from_low) > count / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted_from_the_nearer_end_of_a_block() {
        let number = |key: u32| key.to_be_bytes().to_vec();
        let check = |low: Option<u32>, high: Option<u32>, count, key, expected| {
            let block = Block { low: low.map(number).unwrap_or_default(), high: high.map(number) };
            let found = is_likely_in_second_half(&block, count, &number(key));
            assert_eq!(found, expected, "{key} of {count} entries from {low:?} to {high:?}");
        };
        check(Some(1_024), Some(1_280), 256, 1_100, false);
        check(Some(1_024), Some(1_280), 256, 1_200, true);
        // The last block grows.
        check(Some(1_024), None, 100, 1_050, false);
        check(Some(1_024), None, 100, 1_090, true);
        // The first block has lost its first entries.
        check(None, Some(10_241), 240, 10_001, false);
        check(None, Some(10_241), 240, 10_200, true);
        check(None, Some(257), 256, 1, false);
        check(None, Some(257), 256, 200, true);
    }
}
