//! Builds a tree from entries that arrive in ascending order.
//!
//! The builder serves imports, new views over many notes, and repair: it writes every node once. The entries themselves
//! are either written by the builder ([`CollectionBuilder::put`]) or already stored ([`CollectionBuilder::add`]).
//!
//! The new nodes replace any existing tree of the collection. Blocks and nodes are filled to seven eighths, so that the
//! first changes afterwards do not all split a block.
//!
//! Memory is bounded by one unfinished node per level. The batch belongs to the caller. An import of millions of
//! entries can write it whenever it becomes large, because a tree without its root record counts as a collection that
//! does not exist yet.

use store::{Batch, Error, Result, Table};

use crate::change_buffer::ChangeBuffer;
use crate::id::CollectionId;
use crate::limits::{KEY_BYTES_MAX, LEVEL_MAX, NodeSizes, STATE_BYTES_MAX, SUMS_MAX};
use crate::node::{Child, Node};
use crate::rebalance::separator;
use crate::root::{ROOT, Root, damaged_node, empty_node};
use crate::weight::{Totals, Weight};

/// A builder for the tree of a collection.
pub struct CollectionBuilder {
    id: CollectionId,
    sums: usize,
    node_sizes: NodeSizes,
    /// The unfinished block: its fence and its totals so far. `last` is its last key.
    block: Child,
    last_key: Option<Vec<u8>>,
    /// The unfinished node of each level, from level 0 up.
    levels: Vec<Vec<Child>>,
    next_number: u32,
}

impl CollectionBuilder {
    /// Starts the tree of a collection with `sums` sums. Removes its existing tree.
    #[must_use]
    pub fn start(id: CollectionId, sums: usize, node_sizes: NodeSizes, batch: &mut Batch) -> Self {
        node_sizes.validate();
        assert!(sums <= SUMS_MAX, "a collection keeps at most {SUMS_MAX} sums");
        id.remove_table(batch, Table::Tree);
        let block = Child { fence: Vec::new(), node_number: 0, totals: Totals::ZERO };
        Self { id, sums, node_sizes, block, last_key: None, levels: vec![Vec::new()], next_number: ROOT + 1 }
    }

    /// Writes an entry and counts it. Keys must be strictly ascending.
    pub fn put(&mut self, batch: &mut Batch, key: &[u8], value: &[u8], weight: Weight) -> Result<()> {
        self.add(batch, key, weight)?;
        batch.put(Table::View, &self.id.entry_key(key), value);
        Ok(())
    }

    /// Counts an entry that is already stored. Keys must be strictly ascending.
    pub fn add(&mut self, batch: &mut Batch, key: &[u8], weight: Weight) -> Result<()> {
        assert!(key.len() <= KEY_BYTES_MAX, "the key of an entry has at most {KEY_BYTES_MAX} bytes");
        assert!(weight.fits(self.sums), "a weight has no more values than the collection has sums");
        let last = self.last_key.take();
        assert!(last.as_deref().is_none_or(|last| last < key), "keys ascend");
        if let Some(last) = &last
            && self.block.totals.count >= u64::from(fill_size(self.node_sizes.block_entries_max))
        {
            let next = Child { fence: separator(last, key), node_number: 0, totals: Totals::ZERO };
            let full = std::mem::replace(&mut self.block, next);
            self.push(batch, 0, full)?;
        }
        let totals = self.block.totals.checked_add(&Totals::one(weight));
        self.block.totals = totals.ok_or_else(|| self.sum_overflow())?;
        // The buffer of the last key is reused for this one.
        let mut buffer = last.unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(key);
        self.last_key = Some(buffer);
        Ok(())
    }

    /// Writes the remaining nodes and the root record. Returns the totals of the collection.
    pub fn finish(mut self, batch: &mut Batch, state: &[u8]) -> Result<Totals> {
        assert!(state.len() <= STATE_BYTES_MAX, "the state of a collection does not exceed its maximum size");
        let node = if self.last_key.is_none() { empty_node(self.sums) } else { self.finish_levels(batch)? };
        let totals = node.totals_before(node.len()).map_err(|reason| damaged_node(self.id, ROOT, reason))?;
        let sums = self.sums;
        let next_number = self.next_number;
        let recents = ChangeBuffer::default();
        let root = Root { sums, next_number, state: state.to_vec(), recents, node };
        batch.put(Table::Tree, &self.id.node_key(ROOT), &root.encode());
        Ok(totals)
    }

    /// Completes the unfinished nodes from the bottom up and returns the root's node.
    fn finish_levels(&mut self, batch: &mut Batch) -> Result<Node> {
        let block = self.block.clone();
        self.push(batch, 0, block)?;
        let mut level = 0;
        while level + 1 < self.levels.len() {
            let children = std::mem::take(&mut self.levels[level]);
            if !children.is_empty() {
                let pointer = self.write(batch, level, &children)?;
                self.push(batch, level + 1, pointer)?;
            }
            level += 1;
        }
        let mut children = std::mem::take(&mut self.levels[level]);
        let size = Node::size_bytes(level as u8, self.sums, &children);
        if children.len() > 2 && size > self.node_sizes.root_bytes_max as usize {
            children = vec![self.write(batch, level, &children)?];
            level += 1;
        }
        Ok(Node::encode(level as u8, self.sums, &children))
    }

    /// Adds a child to the unfinished node of a level. If that node is full, it is written first and a new one is
    /// started.
    fn push(&mut self, batch: &mut Batch, level: usize, child: Child) -> Result<()> {
        if self.is_full(level) {
            let children = std::mem::take(&mut self.levels[level]);
            let pointer = self.write(batch, level, &children)?;
            if level + 1 == self.levels.len() {
                assert!(level < usize::from(LEVEL_MAX), "the tree does not exceed its maximum height");
                self.levels.push(Vec::new());
            }
            self.push(batch, level + 1, pointer)?;
        }
        self.levels[level].push(child);
        Ok(())
    }

    fn is_full(&self, level: usize) -> bool {
        let children = &self.levels[level];
        children.len() >= fill_size(self.node_sizes.node_children_max) as usize
            || children.len() > 2
                && children.iter().map(|child| child.fence.len() + 16).sum::<usize>()
                    >= fill_size(self.node_sizes.node_bytes_max) as usize
    }

    fn write(&mut self, batch: &mut Batch, level: usize, children: &[Child]) -> Result<Child> {
        let node = Node::encode(level as u8, self.sums, children);
        let totals = node.totals_before(node.len()).map_err(|_| self.sum_overflow())?;
        let below = self.next_number;
        self.next_number = below.checked_add(1).expect("a collection has fewer than 2^32 nodes");
        batch.put(Table::Tree, &self.id.node_key(below), node.bytes());
        Ok(Child { fence: children[0].fence.clone(), node_number: below, totals })
    }

    fn sum_overflow(&self) -> Error {
        damaged_node(self.id, ROOT, "its sums overflow")
    }
}

/// Returns the size to which a block or node with the limit `most` is filled.
fn fill_size(most: u32) -> u32 {
    (most - most / 8).max(2)
}
