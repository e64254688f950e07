//! Changes a collection within one transaction.
//!
//! A [`CollectionWriter`] exists while the lock of its database is held, one per collection and transaction. It reads
//! the state before the transaction, keeps the changes of the transaction in memory, and writes all of them into the
//! transaction's batch with [`CollectionWriter::finish`]: each entry once and each node once, however often they
//! changed. Lookups through the writer see the transaction's own changes. Until then, the batch must not be applied and
//! the collection must have no other writer. Dropping a writer without finishing it changes nothing.
//!
//! `put` and `remove` change the totals on the path to the entry in place. If that path is longer than the root, they
//! buffer the change in the root record until it has too many of them ([`crate::change_buffer`]). Blocks that became
//! too large or too small are split and merged at the end ([`crate::rebalance`]), so that a block is read at most once
//! per transaction.
//!
//! Invariants: a node in memory differs from the stored one only if it is marked as changed; the totals of a node's
//! children equal those that its parent has for it, before and after each operation; blocks are split and merged only
//! where no changes are buffered; after an error, the writer refuses to finish.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::ops::Bound;

use store::{Batch, Direction, Result, Table, TableReader};

use crate::change_buffer::ChangeBuffer;
use crate::id::CollectionId;
use crate::limits::{KEY_BYTES_MAX, LEVEL_MAX, NodeSizes, STATE_BYTES_MAX, SUMS_MAX};
use crate::node::Node;
use crate::reader::{stored_range, strip_prefix};
use crate::root::{NodeRef, ROOT, Root, collection_totals, damaged_entry, damaged_node, load_node};
use crate::weight::{EntryWeigher, Totals, TotalsChange, Weight};

/// A node in memory.
pub(crate) struct CachedNode {
    pub(crate) node: Node,
    /// `true` if the node differs from the stored one.
    pub(crate) changed: bool,
}

/// The new state of a key in this transaction.
struct Pending {
    /// `true` if the key existed before the transaction.
    stored: bool,
    /// The current value, or `None` if the entry was removed.
    value: Option<Vec<u8>>,
}

/// An entry including the changes of the transaction.
pub(crate) struct VisibleEntry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// `true` if the entry did not exist before the transaction.
    pub(crate) is_new: bool,
}

/// The changes of one transaction to one collection.
pub struct CollectionWriter<'r> {
    pub(crate) reader: &'r dyn TableReader,
    pub(crate) weigher: &'r dyn EntryWeigher,
    pub(crate) id: CollectionId,
    pub(crate) node_sizes: NodeSizes,
    /// The nodes that were read or created, by number. The root is always present.
    pub(crate) nodes: BTreeMap<u32, CachedNode>,
    /// Numbers of the nodes that no longer exist.
    pub(crate) freed: Vec<u32>,
    /// Nodes that lost children and became small.
    pub(crate) shrunk: BTreeSet<u32>,
    pub(crate) next_number: u32,
    state: Vec<u8>,
    /// Changes that are not yet applied to the tree.
    recents: ChangeBuffer,
    entries: BTreeMap<Vec<u8>, Pending>,
    /// The last key that was looked up in the store, with its value. Callers usually look up a key before they change
    /// it.
    looked_up: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// `true` if a block became too large or too small.
    pub(crate) uneven: bool,
    /// `true` if an operation failed half-way.
    broken: bool,
}

impl<'r> CollectionWriter<'r> {
    /// Opens a collection for writing. A collection that was never written is created with the first write.
    pub fn open(reader: &'r dyn TableReader, id: CollectionId, weigher: &'r dyn EntryWeigher) -> Result<Self> {
        Self::open_with_sizes(reader, id, weigher, NodeSizes::default())
    }

    /// Opens a collection for writing with other sizes of blocks and nodes, for tests and measurements.
    pub fn open_with_sizes(
        reader: &'r dyn TableReader,
        id: CollectionId,
        weigher: &'r dyn EntryWeigher,
        node_sizes: NodeSizes,
    ) -> Result<Self> {
        node_sizes.validate();
        let sums = weigher.sums();
        assert!(sums <= SUMS_MAX, "a collection keeps at most {SUMS_MAX} sums");
        let root = Root::load(reader, id)?.unwrap_or_else(|| Root::empty(sums));
        if root.sums != sums {
            return Err(damaged_node(id, ROOT, "it has a different number of sums and must be rebuilt"));
        }
        let nodes = BTreeMap::from([(ROOT, CachedNode { node: root.node, changed: false })]);
        Ok(Self {
            reader,
            weigher,
            id,
            node_sizes,
            nodes,
            freed: Vec::new(),
            shrunk: BTreeSet::new(),
            next_number: root.next_number,
            state: root.state,
            recents: root.recents,
            entries: BTreeMap::new(),
            looked_up: None,
            uneven: false,
            broken: false,
        })
    }

    /// Returns the id of the collection.
    #[must_use]
    pub fn id(&self) -> CollectionId {
        self.id
    }

    /// Returns the state that the owner stores with the collection.
    #[must_use]
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// Sets the state that the owner stores with the collection, at most [`STATE_BYTES_MAX`] bytes.
    pub fn set_state(&mut self, state: &[u8]) {
        assert!(state.len() <= STATE_BYTES_MAX, "the state of a collection does not exceed its maximum size");
        if self.state != state {
            self.state.clear();
            self.state.extend_from_slice(state);
            self.slot_mut(ROOT).changed = true;
        }
    }

    /// Returns the count and the sums, including the changes so far.
    pub fn totals(&self) -> Result<Totals> {
        collection_totals(self.node(ROOT), &self.recents).map_err(|reason| damaged_node(self.id, ROOT, reason))
    }

    /// Returns the value of a key.
    pub fn find(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(pending) = self.entries.get(key) {
            return Ok(pending.value.clone());
        }
        if let Some((last, value)) = &self.looked_up
            && last == key
        {
            return Ok(value.clone());
        }
        let value = self.reader.get(Table::View, &self.id.entry_key(key))?;
        self.looked_up = Some((key.to_vec(), value.clone()));
        Ok(value)
    }

    /// Visits the entries from `start` to before `end`, or to the last, in order, including the changes so far.
    pub fn visit(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        assert!(end.is_none_or(|end| start <= end), "a range must not end before it starts");
        self.visit_entries(start, end, &mut |seen| each(seen.key, seen.value))
    }

    /// Adds an entry, or replaces the value of an existing one. Returns the old value.
    ///
    /// The weigher must be able to read the new value. Keys have at most [`KEY_BYTES_MAX`] bytes, and callers must
    /// shorten longer ones.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        assert!(key.len() <= KEY_BYTES_MAX, "the key of an entry has at most {KEY_BYTES_MAX} bytes");
        let after = self.weigher.weigh(key, value);
        assert!(after.is_some(), "the weigher can read every value that is stored");
        let old = self.find(key)?;
        if old.as_deref() != Some(value) {
            self.change(key, old.as_deref(), after)?;
            self.record_pending(key, old.is_some(), Some(value.to_vec()));
        }
        Ok(old)
    }

    /// Adds an entry whose key the caller knows to be new. This saves a lookup.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.entries.contains_key(key) {
            return self.put(key, value).map(|_| ());
        }
        assert!(key.len() <= KEY_BYTES_MAX, "the key of an entry has at most {KEY_BYTES_MAX} bytes");
        let after = self.weigher.weigh(key, value);
        assert!(after.is_some(), "the weigher can read every value that is stored");
        self.change_weight(key, None, after)?;
        self.record_pending(key, false, Some(value.to_vec()));
        Ok(())
    }

    /// Replaces the value of an entry that the caller knows to exist with this weight. This saves a lookup.
    pub fn put_known(&mut self, key: &[u8], value: &[u8], weight: Weight) -> Result<()> {
        if self.entries.contains_key(key) {
            return self.put(key, value).map(|_| ());
        }
        let after = self.weigher.weigh(key, value);
        assert!(after.is_some(), "the weigher can read every value that is stored");
        self.change_weight(key, Some(weight), after)?;
        self.record_pending(key, true, Some(value.to_vec()));
        Ok(())
    }

    /// Removes an entry that the caller knows to exist with this weight. This saves a lookup.
    pub fn remove_known(&mut self, key: &[u8], weight: Weight) -> Result<()> {
        if self.entries.contains_key(key) {
            return self.remove(key).map(|_| ());
        }
        self.change_weight(key, Some(weight), None)?;
        self.record_pending(key, true, None);
        Ok(())
    }

    /// Removes an entry. Returns its value, or `None` if there was no such entry.
    pub fn remove(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(old) = self.find(key)? else { return Ok(None) };
        self.change(key, Some(&old), None)?;
        self.record_pending(key, true, None);
        Ok(Some(old))
    }

    /// Writes the changes into the batch.
    pub fn finish(mut self, batch: &mut Batch) -> Result<()> {
        assert!(!self.broken, "a writer must not be finished after a failed change");
        while self.uneven {
            self.rebalance()?;
        }
        for (key, pending) in &self.entries {
            let stored_key = self.id.entry_key(key);
            match &pending.value {
                Some(value) => batch.put(Table::View, &stored_key, value),
                None if pending.stored => batch.delete(Table::View, &stored_key),
                None => {}
            }
        }
        for number in &self.freed {
            batch.delete(Table::Tree, &self.id.node_key(*number));
        }
        self.write_nodes(batch);
        Ok(())
    }

    fn write_nodes(mut self, batch: &mut Batch) {
        let root = self.nodes.remove(&ROOT).expect("the root is always loaded");
        for (number, slot) in self.nodes.iter().filter(|(_, slot)| slot.changed) {
            batch.put(Table::Tree, &self.id.node_key(*number), slot.node.bytes());
        }
        if root.changed {
            let sums = self.weigher.sums();
            let next_number = self.next_number;
            let root = Root { sums, next_number, state: self.state, recents: self.recents, node: root.node };
            batch.put(Table::Tree, &self.id.node_key(ROOT), &root.encode());
        }
    }

    /// Visits entries including the changes so far, and marks those that are new.
    pub(crate) fn visit_entries(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        each: &mut dyn FnMut(VisibleEntry<'_>) -> Result<()>,
    ) -> Result<()> {
        if end.is_some_and(|end| end <= start) {
            return Ok(());
        }
        let upper = end.map_or(Bound::Unbounded, Bound::Excluded);
        let mut pending = self.entries.range::<[u8], _>((Bound::Included(start), upper)).peekable();
        let range = stored_range(self.id, start, end);
        let mut cursor = self.reader.scan(Table::View, &range, Direction::Forward)?;
        while let Some((stored_key, value)) = cursor.next()? {
            let key = strip_prefix(stored_key);
            while let Some(next) = pending.next_if(|(own, _)| own.as_slice() < key) {
                for_each_pending(next, each)?;
            }
            match pending.next_if(|(own, _)| own.as_slice() == key) {
                Some(next) => for_each_pending(next, each)?,
                None => each(VisibleEntry { key, value, is_new: false })?,
            }
        }
        pending.try_for_each(|next| for_each_pending(next, each))
    }

    pub(crate) fn node(&self, number: u32) -> &Node {
        &self.nodes.get(&number).expect("the node was loaded before").node
    }

    pub(crate) fn slot_mut(&mut self, number: u32) -> &mut CachedNode {
        self.nodes.get_mut(&number).expect("the node was loaded before")
    }

    /// Reads a node unless it is already in memory.
    pub(crate) fn load(&mut self, wanted: NodeRef) -> Result<()> {
        match self.nodes.entry(wanted.number) {
            btree_map::Entry::Occupied(occupied) => {
                wanted.check(&occupied.get().node).map_err(|reason| damaged_node(self.id, wanted.number, reason))
            }
            btree_map::Entry::Vacant(vacant) => {
                let node = load_node(self.reader, self.id, self.weigher.sums(), wanted)?;
                vacant.insert(CachedNode { node, changed: false });
                Ok(())
            }
        }
    }

    pub(crate) fn weight_of(&self, key: &[u8], value: &[u8]) -> Result<Weight> {
        self.weigher.weigh(key, value).ok_or_else(|| damaged_entry(self.id, key))
    }

    /// Changes the totals for an entry whose value was `before` and whose new weight is `after`.
    fn change(&mut self, key: &[u8], before: Option<&[u8]>, after: Option<Weight>) -> Result<()> {
        let before = before.map(|value| self.weight_of(key, value)).transpose()?;
        self.change_weight(key, before, after)
    }

    fn change_weight(&mut self, key: &[u8], before: Option<Weight>, after: Option<Weight>) -> Result<()> {
        let change = TotalsChange::between(before, after).ok_or_else(|| damaged_entry(self.id, key))?;
        if change.is_zero() {
            return Ok(());
        }
        let is_flat = self.node(ROOT).level() == 0;
        let outcome = if is_flat { self.apply(key, &change) } else { self.buffer_change(key, &change) };
        self.broken |= outcome.is_err();
        outcome
    }

    /// Adds a change to the buffer in the root record.
    ///
    /// If the buffer is too large, the changes below those children of the root that have most of them are applied to
    /// the tree, until the buffer is at most half full.
    fn buffer_change(&mut self, key: &[u8], change: &TotalsChange) -> Result<()> {
        self.recents.add(key, change).map_err(|reason| damaged_node(self.id, ROOT, reason))?;
        self.slot_mut(ROOT).changed = true;
        let count_max = self.node_sizes.recent_max as usize;
        let bytes_max = self.node_sizes.recent_bytes_max as usize;
        if !self.recents.exceed(count_max, bytes_max) {
            return Ok(());
        }
        while self.recents.exceed(count_max / 2, bytes_max / 2) {
            let root = self.node(ROOT).clone();
            let index = self.recents.crowded_child(&root);
            let before = self.recents.list().len();
            self.apply_below(&root, index)?;
            if self.recents.list().len() == before {
                return Err(damaged_node(self.id, ROOT, "its fences are not ascending"));
            }
        }
        Ok(())
    }

    /// Applies the buffered changes below a child of the root.
    pub(crate) fn apply_below(&mut self, root: &Node, index: usize) -> Result<()> {
        let low = root.fence(index).unwrap_or_default();
        for (key, change) in self.recents.take(&low, root.fence(index + 1).as_deref()) {
            self.apply(&key, &change)?;
        }
        Ok(())
    }

    /// Changes the totals on the path from the root to the block of a key.
    fn apply(&mut self, key: &[u8], change: &TotalsChange) -> Result<()> {
        let path = self.path(key)?;
        for (number, index) in &path {
            let slot = self.slot_mut(*number);
            slot.changed = true;
            slot.node.add(*index, change).map_err(|reason| damaged_node(self.id, *number, reason))?;
        }
        let (number, index) = *path.last().expect("a path contains at least the root");
        self.uneven |= self.needs_rebalance_at(number, index, change.count);
        Ok(())
    }

    /// Returns the path from the root to the block of a key, and reads the nodes on it.
    fn path(&mut self, key: &[u8]) -> Result<Vec<(u32, usize)>> {
        let mut path = Vec::with_capacity(4);
        let mut number = ROOT;
        loop {
            let node = self.node(number);
            let index = node.child_index(key);
            path.push((number, index));
            if node.level() == 0 {
                break;
            }
            let wanted = NodeRef::from_parent(node, index);
            let is_new = !self.nodes.contains_key(&wanted.number);
            self.load(wanted)?;
            number = wanted.number;
            if is_new && !self.lies_within(number, &path) {
                return Err(damaged_node(self.id, number, "a fence lies outside of its node"));
            }
        }
        assert!(path.len() <= usize::from(LEVEL_MAX) + 1, "the level falls by one with each step");
        Ok(path)
    }

    /// Returns `true` if the fences of a node lie between the fences that its ancestors have around it.
    fn lies_within(&self, number: u32, above: &[(u32, usize)]) -> bool {
        let fence =
            |beside: usize| above.iter().rev().find_map(|(above, index)| self.node(*above).fence(index + beside));
        self.node(number).lies_within(&fence(0).unwrap_or_default(), fence(1).as_deref())
    }

    /// Returns `true` if the block became so large or so small that it must be split or merged.
    fn needs_rebalance_at(&self, number: u32, index: usize, count_change: i64) -> bool {
        let node = self.node(number);
        let count = node.count(index);
        if count_change >= 0 {
            return count > u64::from(self.node_sizes.block_entries_max);
        }
        let alone = node.len() == 1 && number == ROOT;
        let small = |neighbor: usize| self.should_merge(count, node.count(neighbor));
        !alone && (count == 0 || index > 0 && small(index - 1) || index + 1 < node.len() && small(index + 1))
    }

    /// Returns `true` if two neighboring blocks with these counts should be merged.
    pub(crate) fn should_merge(&self, left: u64, right: u64) -> bool {
        left.saturating_add(right) <= u64::from(self.node_sizes.block_entries_max) / 2
    }

    fn record_pending(&mut self, key: &[u8], existed: bool, value: Option<Vec<u8>>) {
        match self.entries.entry(key.to_vec()) {
            btree_map::Entry::Occupied(mut occupied) => occupied.get_mut().value = value,
            btree_map::Entry::Vacant(vacant) => {
                vacant.insert(Pending { stored: existed, value });
            }
        }
    }
}

fn for_each_pending(
    (key, pending): (&Vec<u8>, &Pending),
    each: &mut dyn FnMut(VisibleEntry<'_>) -> Result<()>,
) -> Result<()> {
    match &pending.value {
        Some(value) => each(VisibleEntry { key, value, is_new: !pending.stored }),
        None => Ok(()),
    }
}
