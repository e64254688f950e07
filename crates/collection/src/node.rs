//! Nodes of the count tree, stored as bytes that are searched and changed in place.
//!
//! A node has children. Each has a *fence* (the smallest key that may lie below it), the number of the node below
//! (absent on level 0, where the children are blocks of entries) and the totals of all entries below. The values are
//! stored in columns of fixed width, as narrow as the values allow. An insert changes a few bytes of a column and
//! copies the rest. A node is decoded into [`Child`]ren only where children are added or removed.
//!
//! The fence of the first child is not stored: it is the fence that the parent has for this node, and empty at the
//! root. The other fences share a prefix that is stored once. `docs/collections.md`, "Node", describes the bytes.
//!
//! Invariants: a node has at least one child; all lengths agree with the number of bytes; fences are strictly
//! ascending. Decoding checks the first two, in a time that does not depend on the number of children. The order of the
//! fences is checked when the node is decoded into children ([`Node::children`]). Fences out of order mislead a search
//! but cannot make it panic. Callers that descend the tree check the relations to the parent: fences within the
//! parent's, and totals equal to the parent's.

use crate::limits::{KEY_BYTES_MAX, LEVEL_MAX, NODE_BYTES_MAX, NODE_CHILDREN_MAX, SUMS_MAX};
use crate::weight::{Totals, TotalsChange, Weight};
use base::codec::{Decoder, InvalidRecord};

/// Version of the format that this program writes, and the newest that it reads.
pub(crate) const VERSION: u8 = 1;

/// Number of bytes before the column widths.
const HEAD_BYTES: usize = 10;
/// Number of columns before the sums: the number of the node below, and the count.
const COLUMNS_FIXED: usize = 2;
const COLUMNS_MAX: usize = COLUMNS_FIXED + SUMS_MAX;
const BELOW: usize = 0;
const COUNT: usize = 1;

/// The reason why bytes are not a valid node, or why a sum overflows.
pub(crate) type DamageReason = &'static str;

/// A decoded child of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Child {
    /// The smallest key that may lie below.
    pub(crate) fence: Vec<u8>,
    /// Number of the node below, or 0 for a block.
    pub(crate) node_number: u32,
    /// Totals of all entries below.
    pub(crate) totals: Totals,
}

/// A node in its stored form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    bytes: Vec<u8>,
    layout: Layout,
}

/// Offsets of the parts of a node within its bytes. [`Layout::read`] computes them for stored bytes, and
/// [`Node::decode`] checks them against those bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    level: u8,
    sums: usize,
    children: usize,
    prefix_length: usize,
    /// Width of the column of suffix ends, or 0 if all suffixes have the same length.
    ends_width: usize,
    /// Total length of all suffixes.
    suffixes_length: usize,
    /// Length of each suffix, if all have the same length.
    suffix_length: usize,
    widths: [usize; COLUMNS_MAX],
    prefix_at: usize,
    ends_at: usize,
    suffixes_at: usize,
    columns_at: [usize; COLUMNS_MAX],
    length: usize,
}

impl Layout {
    fn read(bytes: &[u8], sums: usize) -> Result<Self, InvalidRecord> {
        let mut head = Decoder::new(bytes);
        let _version = head.u8()?;
        let level = head.u8()?;
        let children = usize::from(head.u16()?);
        let prefix_length = usize::from(head.u16()?);
        let [high, middle, low] = head.array()?;
        let suffixes_length = u32::from_be_bytes([0, high, middle, low]) as usize;
        let ends_width = usize::from(head.u8()?);
        let mut widths = [0; COLUMNS_MAX];
        for width in &mut widths[..COLUMNS_FIXED + sums] {
            *width = usize::from(head.u8()?);
        }
        let layout = Self {
            level,
            sums,
            children,
            prefix_length,
            ends_width,
            suffixes_length,
            suffix_length: 0,
            widths,
            prefix_at: 0,
            ends_at: 0,
            suffixes_at: 0,
            columns_at: [0; COLUMNS_MAX],
            length: 0,
        };
        Ok(layout.with_offsets())
    }

    /// Computes the layout of a node with these children.
    fn compute(level: u8, sums: usize, children: &[Child]) -> Self {
        let fences = children.get(1..).unwrap_or_default();
        let prefix_length = match (fences.first(), fences.last()) {
            (Some(first), Some(last)) => common_prefix_length(&first.fence, &last.fence),
            _ => 0,
        };
        let suffixes_length = fences.iter().map(|child| child.fence.len() - prefix_length).sum();
        let equal = fences.windows(2).all(|pair| pair[0].fence.len() == pair[1].fence.len());
        let layout = Self {
            level,
            sums,
            children: children.len(),
            prefix_length,
            ends_width: if equal { 0 } else { width_unsigned(suffixes_length as u64) },
            suffixes_length,
            suffix_length: 0,
            widths: widths(level, sums, children),
            prefix_at: 0,
            ends_at: 0,
            suffixes_at: 0,
            columns_at: [0; COLUMNS_MAX],
            length: 0,
        };
        layout.with_offsets()
    }

    /// Computes the offsets from the lengths. This cannot overflow, because every factor has at most 24 bits.
    fn with_offsets(mut self) -> Self {
        self.suffix_length = self.suffixes_length / self.children.saturating_sub(1).max(1);
        self.prefix_at = HEAD_BYTES + COLUMNS_FIXED + self.sums;
        self.ends_at = self.prefix_at + self.prefix_length;
        self.suffixes_at = self.ends_at + self.children.saturating_sub(1) * self.ends_width;
        let mut at = self.suffixes_at + self.suffixes_length;
        for column in 0..COLUMNS_FIXED + self.sums {
            self.columns_at[column] = at;
            at += self.children * self.widths[column];
        }
        self.length = at;
        self
    }

    fn check(&self, bytes: &[u8]) -> Result<(), DamageReason> {
        let fences = self.children.saturating_sub(1);
        if self.level > LEVEL_MAX {
            return Err("its level is too high");
        }
        if !(1..=NODE_CHILDREN_MAX).contains(&self.children) || bytes.len() > NODE_BYTES_MAX {
            return Err("its size or number of children is out of range");
        }
        if self.ends_width > 3 || self.widths.iter().any(|width| *width > 8) || self.widths[BELOW] > 4 {
            return Err("a column is too wide");
        }
        if (self.level == 0) != (self.widths[BELOW] == 0) {
            return Err("its child numbers do not match its level");
        }
        if self.length != bytes.len() {
            return Err("its length does not match its columns");
        }
        if fences == 0 && self.prefix_length + self.suffixes_length > 0 {
            return Err("it has fence bytes but no fences");
        }
        if fences > 0 && self.ends_width == 0 && !self.suffixes_length.is_multiple_of(fences) {
            return Err("its fences do not have the same length");
        }
        Ok(())
    }

    /// Returns the end of a fence's suffix, relative to the start of the first suffix. Fence 0 belongs to child 1.
    fn suffix_end(&self, bytes: &[u8], fence: usize) -> usize {
        if self.ends_width == 0 {
            return self.suffix_length * (fence + 1);
        }
        let at = self.ends_at + fence * self.ends_width;
        bytes[at..at + self.ends_width].iter().fold(0, |end, byte| end << 8 | usize::from(*byte))
    }
}

/// Returns the number of bytes that an unsigned value needs. Zero needs none.
fn width_unsigned(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(8)
}

/// Returns the number of bytes that a value needs in two's complement. Zero needs none.
fn width_signed(value: i64) -> usize {
    let bits = 64 - (value ^ (value >> 63)).leading_zeros() as usize;
    if value == 0 { 0 } else { (bits + 1).div_ceil(8) }
}

fn read_unsigned(bytes: &[u8]) -> u64 {
    match bytes {
        [] => 0,
        [a] => u64::from(*a),
        [a, b] => u64::from(u16::from_be_bytes([*a, *b])),
        _ => bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
    }
}

fn read_signed(bytes: &[u8]) -> i64 {
    match bytes {
        [] => 0,
        [a] => i64::from(*a as i8),
        [a, b] => i64::from(i16::from_be_bytes([*a, *b])),
        [a, b, c] => i64::from(i32::from_be_bytes([*a, *b, *c, 0]) >> 8),
        [a, rest @ ..] => rest.iter().fold(i64::from(*a as i8), |value, byte| value << 8 | i64::from(*byte)),
    }
}

/// Returns the sum of narrow cells. Fewer than 2^13 of them cannot overflow, so the compiler is free to add several at
/// once.
fn sum_cells<const WIDTH: usize>(cells: &[u8]) -> u64 {
    const { assert!(WIDTH <= 3 && NODE_CHILDREN_MAX < 1 << 13) };
    cells.chunks_exact(WIDTH).fold(0u64, |sum, cell| {
        let value = cell.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
        sum.wrapping_add(u64::from(value))
    })
}

fn check_version(version: Option<u8>) -> Result<(), DamageReason> {
    match version {
        Some(VERSION) => Ok(()),
        None | Some(0) => Err("its version is missing"),
        Some(_) => Err("it was written by a newer program"),
    }
}

fn common_prefix_length(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(a, b)| a == b).count()
}

impl Node {
    /// Takes stored bytes after checking them.
    pub(crate) fn decode(bytes: Vec<u8>, sums: usize) -> Result<Self, DamageReason> {
        assert!(sums <= SUMS_MAX, "the number of sums was checked with the root record");
        check_version(bytes.first().copied())?;
        let layout = Layout::read(&bytes, sums).map_err(|_| "it is too short")?;
        layout.check(&bytes)?;
        Ok(Self { bytes, layout })
    }

    /// Builds a node from children in ascending order. The fence of the first child is not stored.
    pub(crate) fn encode(level: u8, sums: usize, children: &[Child]) -> Self {
        assert!(level <= LEVEL_MAX && sums <= SUMS_MAX);
        assert!((1..=NODE_CHILDREN_MAX).contains(&children.len()), "the number of children is within the limits");
        assert!(children.windows(2).all(|pair| pair[0].fence < pair[1].fence), "fences are strictly ascending");
        let layout = Layout::compute(level, sums, children);
        assert!(layout.length <= NODE_BYTES_MAX, "a node is split before it exceeds the maximum size");
        let node = Self { bytes: write(&layout, children), layout };
        assert_eq!(layout.check(&node.bytes), Ok(()), "an encoded node can be decoded");
        node
    }

    /// Returns the size in bytes of a node with these children.
    pub(crate) fn size_bytes(level: u8, sums: usize, children: &[Child]) -> usize {
        Layout::compute(level, sums, children).length
    }

    /// Returns the stored form.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the height above the blocks.
    pub(crate) fn level(&self) -> u8 {
        self.layout.level
    }

    /// Returns the number of children, which is at least one.
    pub(crate) fn len(&self) -> usize {
        self.layout.children
    }

    /// Returns the index of the child below which a key belongs.
    pub(crate) fn child_index(&self, key: &[u8]) -> usize {
        let fences = self.layout.children - 1;
        let prefix = self.prefix();
        match key.get(..prefix.len()) {
            Some(head) if head == prefix => {
                let rest = &key[prefix.len()..];
                let mut low = 0;
                let mut high = fences;
                while low < high {
                    let middle = low + (high - low) / 2;
                    if self.suffix(middle) <= rest { low = middle + 1 } else { high = middle }
                }
                low
            }
            _ if key < prefix => 0,
            _ => fences,
        }
    }

    /// Returns the fence of a child. Returns `None` for the first child, whose fence is not stored, and beyond the
    /// last.
    pub(crate) fn fence(&self, index: usize) -> Option<Vec<u8>> {
        if index == 0 || index >= self.layout.children {
            return None;
        }
        Some([self.prefix(), self.suffix(index - 1)].concat())
    }

    /// Returns `true` if all stored fences lie between `low` and `high`, the fences around the node.
    pub(crate) fn lies_within(&self, low: &[u8], high: Option<&[u8]>) -> bool {
        let first_is = self.fence(1).is_none_or(|first| low < first.as_slice());
        let last_is = self.fence(self.len() - 1).is_none_or(|last| high.is_none_or(|high| last.as_slice() < high));
        first_is && last_is
    }

    /// Returns the number of the node below a child, or 0 for a block.
    pub(crate) fn below(&self, index: usize) -> u32 {
        read_unsigned(self.cell(BELOW, index)) as u32
    }

    /// Returns the count of a child.
    pub(crate) fn count(&self, index: usize) -> u64 {
        read_unsigned(self.cell(COUNT, index))
    }

    /// Returns one of the sums of a child.
    pub(crate) fn sum(&self, sum: usize, index: usize) -> i64 {
        assert!(sum < self.layout.sums, "the collection has no such sum");
        read_signed(self.cell(COLUMNS_FIXED + sum, index))
    }

    /// Returns the totals of a child.
    pub(crate) fn totals(&self, index: usize) -> Totals {
        let mut sums = Weight::ZERO;
        for sum in 0..self.layout.sums {
            sums.set(sum, self.sum(sum, index));
        }
        Totals { count: self.count(index), sums }
    }

    /// Returns the sum of the counts of the children before `index`.
    pub(crate) fn count_before(&self, index: usize) -> Result<u64, DamageReason> {
        let cells = self.cells(COUNT, index);
        match self.layout.widths[COUNT] {
            0 => Ok(0),
            1 => Ok(sum_cells::<1>(cells)),
            2 => Ok(sum_cells::<2>(cells)),
            3 => Ok(sum_cells::<3>(cells)),
            width => cells
                .chunks_exact(width)
                .try_fold(0u64, |sum, cell| sum.checked_add(read_unsigned(cell)))
                .ok_or("its counts overflow"),
        }
    }

    /// Returns the sum of the totals of the children before `index`.
    pub(crate) fn totals_before(&self, index: usize) -> Result<Totals, DamageReason> {
        let mut sums = Weight::ZERO;
        for sum in 0..self.layout.sums {
            sums.set(sum, self.sum_before(sum, index)?);
        }
        Ok(Totals { count: self.count_before(index)?, sums })
    }

    /// Returns one of the sums, added up over the children before `index`.
    pub(crate) fn sum_before(&self, sum: usize, index: usize) -> Result<i64, DamageReason> {
        let width = self.layout.widths[COLUMNS_FIXED + sum];
        if width == 0 {
            return Ok(0);
        }
        self.cells(COLUMNS_FIXED + sum, index)
            .chunks_exact(width)
            .try_fold(0i64, |total, cell| total.checked_add(read_signed(cell)))
            .ok_or("its sums overflow")
    }

    /// Adds a change to the totals of a child.
    pub(crate) fn add(&mut self, index: usize, change: &TotalsChange) -> Result<(), DamageReason> {
        assert!(change.sums.fits(self.layout.sums), "a weight has no more values than the collection has sums");
        if change.count != 0 {
            let count = self.count(index).checked_add_signed(change.count).ok_or("a count would be negative")?;
            self.widen(COUNT, width_unsigned(count));
            self.store(COUNT, index, count.to_be_bytes());
        }
        for sum in 0..self.layout.sums {
            let more = change.sums.value(sum);
            if more != 0 {
                let value = self.sum(sum, index).checked_add(more).ok_or("a sum overflows")?;
                self.widen(COLUMNS_FIXED + sum, width_signed(value));
                self.store(COLUMNS_FIXED + sum, index, value.to_be_bytes());
            }
        }
        Ok(())
    }

    /// Decodes the children. `low` is the fence that the parent has for this node. Checks that the fences ascend from
    /// there.
    pub(crate) fn children(&self, low: &[u8]) -> Result<Vec<Child>, DamageReason> {
        let mut children: Vec<Child> = Vec::with_capacity(self.layout.children);
        let mut end = 0;
        for index in 0..self.layout.children {
            let fence = self.fence(index).unwrap_or_else(|| low.to_vec());
            let start = end;
            end = if index == 0 { 0 } else { self.layout.suffix_end(&self.bytes, index - 1) };
            if end < start || fence.len() > KEY_BYTES_MAX || children.last().is_some_and(|last| last.fence >= fence) {
                return Err("its fences are not ascending");
            }
            let below = self.below(index);
            if (self.level() == 0) != (below == 0) {
                return Err("its child numbers do not match its level");
            }
            children.push(Child { fence, node_number: below, totals: self.totals(index) });
        }
        if end == self.layout.suffixes_length { Ok(children) } else { Err("there are bytes after its last fence") }
    }

    fn prefix(&self) -> &[u8] {
        &self.bytes[self.layout.prefix_at..self.layout.ends_at]
    }

    /// Returns the part of a fence after the prefix. Fence 0 belongs to child 1.
    fn suffix(&self, fence: usize) -> &[u8] {
        let end = self.layout.suffix_end(&self.bytes, fence).min(self.layout.suffixes_length);
        let start = if fence == 0 { 0 } else { self.layout.suffix_end(&self.bytes, fence - 1).min(end) };
        &self.bytes[self.layout.suffixes_at + start..self.layout.suffixes_at + end]
    }

    /// Returns the bytes of a column before the cell of `index`.
    fn cells(&self, column: usize, index: usize) -> &[u8] {
        assert!(index <= self.layout.children);
        let at = self.layout.columns_at[column];
        &self.bytes[at..at + index * self.layout.widths[column]]
    }

    fn cell(&self, column: usize, index: usize) -> &[u8] {
        assert!(index < self.layout.children);
        let width = self.layout.widths[column];
        let at = self.layout.columns_at[column] + index * width;
        &self.bytes[at..at + width]
    }

    fn store(&mut self, column: usize, index: usize, value: [u8; 8]) {
        assert!(index < self.layout.children);
        let width = self.layout.widths[column];
        let at = self.layout.columns_at[column] + index * width;
        self.bytes[at..at + width].copy_from_slice(&value[8 - width..]);
    }

    /// Widens a column to at least `width` bytes.
    fn widen(&mut self, column: usize, width: usize) {
        let old = self.layout.widths[column];
        if width <= old {
            return;
        }
        let start = self.layout.columns_at[column];
        let end = self.layout.columns_at[column] + self.len() * old;
        let mut wide = Vec::with_capacity(self.len() * width);
        for index in 0..self.len() {
            let cell = self.cell(column, index);
            let value = if column < COLUMNS_FIXED { read_unsigned(cell) } else { read_signed(cell) as u64 };
            wide.extend_from_slice(&value.to_be_bytes()[8 - width..]);
        }
        self.bytes.splice(start..end, wide);
        self.bytes[HEAD_BYTES + column] = width as u8;
        self.layout.widths[column] = width;
        self.layout = self.layout.with_offsets();
        assert_eq!(self.layout.length, self.bytes.len(), "only this column has grown");
    }
}

/// Returns the narrowest column widths that fit the children.
fn widths(level: u8, sums: usize, children: &[Child]) -> [usize; COLUMNS_MAX] {
    let mut widths = [0; COLUMNS_MAX];
    for child in children {
        assert_eq!(level == 0, child.node_number == 0, "its child numbers do not match its level");
        assert!(child.totals.sums.fits(sums));
        widths[BELOW] = widths[BELOW].max(width_unsigned(u64::from(child.node_number)));
        widths[COUNT] = widths[COUNT].max(width_unsigned(child.totals.count));
        for sum in 0..sums {
            let column = COLUMNS_FIXED + sum;
            widths[column] = widths[column].max(width_signed(child.totals.sums.value(sum)));
        }
    }
    widths
}

fn write(layout: &Layout, children: &[Child]) -> Vec<u8> {
    let fences = || children[1..].iter().map(|child| child.fence.as_slice());
    let mut bytes = Vec::with_capacity(layout.length);
    bytes.extend_from_slice(&[VERSION, layout.level]);
    bytes.extend_from_slice(&(layout.children as u16).to_be_bytes());
    bytes.extend_from_slice(&(layout.prefix_length as u16).to_be_bytes());
    bytes.extend_from_slice(&(layout.suffixes_length as u32).to_be_bytes()[1..]);
    bytes.push(layout.ends_width as u8);
    bytes.extend(layout.widths[..COLUMNS_FIXED + layout.sums].iter().map(|width| *width as u8));
    bytes.extend_from_slice(fences().next().map_or(&[], |fence| &fence[..layout.prefix_length]));
    let mut end = 0usize;
    for fence in fences() {
        end += fence.len() - layout.prefix_length;
        bytes.extend_from_slice(&end.to_be_bytes()[8 - layout.ends_width..]);
    }
    for fence in fences() {
        bytes.extend_from_slice(&fence[layout.prefix_length..]);
    }
    let mut column = |column: usize, value: &dyn Fn(&Child) -> u64| {
        for child in children {
            bytes.extend_from_slice(&value(child).to_be_bytes()[8 - layout.widths[column]..]);
        }
    };
    column(BELOW, &|child| u64::from(child.node_number));
    column(COUNT, &|child| child.totals.count);
    for sum in 0..layout.sums {
        column(COLUMNS_FIXED + sum, &|child| child.totals.sums.value(sum) as u64);
    }
    bytes
}

#[cfg(test)]
mod tests;
