//! Splits blocks and nodes that became too large and merges those that became too small, at the end of a transaction.
//!
//! [`CollectionWriter::rebalance`] descends to the changed nodes. On the way back up it returns the children that
//! replace a node: the node itself, several pieces of it, or none. Splitting a block reads its entries to find the
//! boundaries and the totals of the pieces. All other steps need only fences and totals.
//!
//! Where entries arrived only after the last entry of a block, or only before its first, the pieces there are filled
//! completely, because further entries are unlikely. Therefore a folder that grows at its end has full blocks, and so
//! does a view with the newest entries first. The same holds for nodes.
//!
//! Invariants: a piece is never empty; fences ascend; only the nodes of the pieces and small neighbors under the same
//! parent are touched; the recursion descends one level per step and the number of levels is bounded.

use store::Result;

use crate::limits::LEVEL_MAX;
use crate::node::{Child, Node};
use crate::root::{NodeRef, ROOT, damaged_node, empty_node};
use crate::weight::Totals;
use crate::writer::{CachedNode, CollectionWriter};

/// Maximum number of nodes below the root that are read to decide whether they become one.
const LOWERED_NODES_MAX: usize = 4;

/// The part of a block or node where it grew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    Start,
    Middle,
    End,
}

/// The children that replace one node or block.
struct Replacement {
    children: Vec<Child>,
    growth: Growth,
}

/// Returns the sizes of the pieces into which `count` elements are split if no piece may have more than `most`.
pub(crate) fn piece_sizes(count: usize, most: usize, growth: Growth) -> Vec<usize> {
    assert!(most >= 2 && count >= 1);
    if growth == Growth::Middle {
        // The pieces are three quarters full, which leaves space where entries arrive in any order.
        let pieces = count.div_ceil((most * 3 / 4).max(2));
        return (0..pieces).map(|piece| count / pieces + usize::from(piece < count % pieces)).collect();
    }
    let mut sizes = vec![most; count / most];
    match (count % most, growth) {
        (0, _) => {}
        (rest, Growth::Start) => sizes.insert(0, rest),
        (rest, _) => sizes.push(rest),
    }
    sizes
}

/// Returns a short key that is greater than `left` and not greater than `right`.
pub(crate) fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    assert!(left < right, "entries ascend");
    // Short keys are not shortened: a node whose fences have equal lengths needs no column of suffix ends.
    if right.len() <= 8 {
        return right.to_vec();
    }
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    right[..=common].to_vec()
}

/// Returns where a node grew, given which of its `count` children were split.
fn growth_of(cut: &[usize], count: usize) -> Growth {
    match cut {
        [only] if only + 1 == count => Growth::End,
        [0] => Growth::Start,
        _ => Growth::Middle,
    }
}

impl CollectionWriter<'_> {
    /// Splits and merges blocks and nodes so that their sizes are within the limits again.
    pub(crate) fn rebalance(&mut self) -> Result<()> {
        self.apply_buffer_of_changed()?;
        self.uneven = false;
        let Some(Replacement { mut children, mut growth }) = self.rebalance_node(ROOT, &[], None)? else {
            return self.lower_root();
        };
        let sums = self.weigher.sums();
        let mut level = self.node(ROOT).level();
        if children.is_empty() {
            self.replace(ROOT, empty_node(sums));
            return self.lower_root();
        }
        let bytes_max = self.node_sizes.root_bytes_max as usize;
        while self.is_too_large(level, &children)
            || children.len() > 2 && Node::size_bytes(level, sums, &children) > bytes_max
        {
            if level == LEVEL_MAX {
                return Err(damaged_node(self.id, ROOT, "its level is too high"));
            }
            children = self.split_node(level, &children, growth, None)?;
            growth = Growth::Middle;
            level += 1;
        }
        self.replace(ROOT, Node::encode(level, sums, &children));
        self.lower_root()
    }

    /// Applies the buffered changes below the root's changed children. This is needed because a block is split by its
    /// entries, and the tree must have counted all of them by then.
    fn apply_buffer_of_changed(&mut self) -> Result<()> {
        let root = self.node(ROOT).clone();
        let is_changed = |slot: Option<&CachedNode>| slot.is_some_and(|slot| slot.changed);
        for index in 0..root.len() {
            if root.level() > 0 && is_changed(self.nodes.get(&root.below(index))) {
                self.apply_below(&root, index)?;
            }
        }
        Ok(())
    }

    /// Merges the nodes below the root if there are few of them, and removes levels while their children fit into the
    /// root. A collection that shrank then has the same shape as one that was never larger.
    ///
    /// The limits are those at which the root and nodes are split. This cannot alternate with every change, because
    /// blocks are split and merged at different sizes.
    ///
    /// A root on level 0 buffers nothing, so the buffered changes are applied then. After that, a block may have to be
    /// split or merged once more.
    fn lower_root(&mut self) -> Result<()> {
        while self.node(ROOT).level() > 0 && self.node(ROOT).len() <= LOWERED_NODES_MAX {
            let level = self.node(ROOT).level() - 1;
            let sums = self.weigher.sums();
            let nodes = self.children(ROOT, &[])?;
            let children = self.children_of_nodes(level, &nodes)?;
            let size = Node::size_bytes(level, sums, &children);
            if self.is_too_large(level, &children) {
                break;
            }
            if children.len() <= 2 || size <= self.node_sizes.root_bytes_max as usize {
                nodes.iter().for_each(|node| self.free(node.node_number));
                self.replace(ROOT, Node::encode(level, sums, &children));
                continue;
            }
            if let [first, others @ ..] = nodes.as_slice()
                && !others.is_empty()
            {
                let totals = self.total(first.node_number, &children)?;
                self.replace(first.node_number, Node::encode(level, sums, &children));
                others.iter().for_each(|node| self.free(node.node_number));
                self.replace(ROOT, Node::encode(level + 1, sums, &[Child { totals, ..first.clone() }]));
            }
            break;
        }
        let root = self.node(ROOT).clone();
        if root.level() == 0 {
            (0..root.len()).try_for_each(|index| self.apply_below(&root, index))?;
        }
        Ok(())
    }

    /// Returns the children of neighboring nodes on a level, in the order of their fences.
    fn children_of_nodes(&mut self, level: u8, nodes: &[Child]) -> Result<Vec<Child>> {
        let mut children = Vec::new();
        for node in nodes {
            self.load(NodeRef { number: node.node_number, level, count: node.totals.count })?;
            children.extend(self.children(node.node_number, &node.fence)?);
        }
        if children.windows(2).any(|pair| pair[0].fence >= pair[1].fence) {
            return Err(damaged_node(self.id, nodes[0].node_number, "a fence lies outside of its node"));
        }
        Ok(children)
    }

    /// Settles everything below a changed node. `low` and `high` are the fences around the node.
    ///
    /// Returns its new children if they differ from the old ones. In that case the node itself is not written yet.
    fn rebalance_node(&mut self, number: u32, low: &[u8], high: Option<&[u8]>) -> Result<Option<Replacement>> {
        let level = self.node(number).level();
        let children = self.children(number, low)?;
        if level == 0 {
            self.rebalance_blocks(number, &children, high)
        } else {
            self.rebalance_nodes(level, &children, high)
        }
    }

    fn rebalance_blocks(&mut self, number: u32, old: &[Child], high: Option<&[u8]>) -> Result<Option<Replacement>> {
        let mut children: Vec<Child> = Vec::with_capacity(old.len() + 1);
        let mut cut = Vec::new();
        let mut growth_within = Growth::Middle;
        for (index, block) in old.iter().enumerate() {
            let next = old.get(index + 1).map(|next| next.fence.as_slice()).or(high);
            match children.last_mut() {
                _ if block.totals.count > u64::from(self.node_sizes.block_entries_max) => {
                    let pieces = self.split_block(number, block, next)?;
                    cut.push(index);
                    growth_within = pieces.growth;
                    children.extend(pieces.children);
                }
                _ if block.totals.count == 0 => {}
                Some(last) if self.should_merge(last.totals.count, block.totals.count) => {
                    last.totals = self.combined_totals(number, last, block)?;
                }
                _ => children.push(block.clone()),
            }
        }
        if let Some(first) = children.first_mut() {
            first.fence.clone_from(&old[0].fence);
        }
        let growth = if growth_of(&cut, old.len()) == growth_within { growth_within } else { Growth::Middle };
        Ok((children != old).then_some(Replacement { children, growth }))
    }

    fn rebalance_nodes(&mut self, level: u8, old: &[Child], high: Option<&[u8]>) -> Result<Option<Replacement>> {
        let mut children: Vec<Child> = Vec::with_capacity(old.len() + 1);
        let mut cut = Vec::new();
        for (index, child) in old.iter().enumerate() {
            let next = old.get(index + 1).map(|next| next.fence.as_slice()).or(high);
            let slot = self.nodes.get(&child.node_number).filter(|slot| slot.changed);
            let replacement = match slot.map(|slot| slot.node.level()) {
                None => None,
                Some(below) if below + 1 == level => self.rebalance_node(child.node_number, &child.fence, next)?,
                Some(_) => {
                    return Err(damaged_node(self.id, child.node_number, "it is not one level below its parent"));
                }
            };
            let Some(replacement) = replacement else {
                children.push(child.clone());
                continue;
            };
            let pieces = self.write_children(child.node_number, level - 1, replacement)?;
            if pieces.len() > 1 {
                cut.push(index);
            }
            children.extend(pieces);
        }
        if let Some(first) = children.first_mut() {
            first.fence.clone_from(&old[0].fence);
        }
        let children = self.merge_nodes(level - 1, children)?;
        Ok((children != old).then_some(Replacement { children, growth: growth_of(&cut, old.len()) }))
    }

    /// Splits a block into pieces. Reads its entries.
    fn split_block(&self, number: u32, block: &Child, high: Option<&[u8]>) -> Result<Replacement> {
        let mut entries: Vec<(Vec<u8>, Totals, bool)> = Vec::new();
        self.visit_entries(&block.fence, high, &mut |seen| {
            let weight = self.weight_of(seen.key, seen.value)?;
            entries.push((seen.key.to_vec(), Totals::one(weight), seen.is_new));
            Ok(())
        })?;
        if entries.len() as u64 != block.totals.count {
            return Err(damaged_node(self.id, number, "the number of entries in a block differs from its count"));
        }
        let fresh = entries.iter().filter(|(_, _, new)| *new).count();
        let growth = match fresh {
            0 => Growth::Middle,
            _ if entries[entries.len() - fresh..].iter().all(|(_, _, new)| *new) => Growth::End,
            _ if entries[..fresh].iter().all(|(_, _, new)| *new) => Growth::Start,
            _ => Growth::Middle,
        };
        let mut children = Vec::new();
        let mut rest = entries.as_slice();
        let mut fence = block.fence.clone();
        for size in piece_sizes(entries.len(), self.node_sizes.block_entries_max as usize, growth) {
            let (piece, others) = rest.split_at(size);
            let totals = piece.iter().try_fold(Totals::ZERO, |sum, (_, one, _)| sum.checked_add(one));
            let totals = totals.ok_or_else(|| damaged_node(self.id, number, "its sums overflow"))?;
            children.push(Child { fence, node_number: 0, totals });
            fence = match (piece.last(), others.first()) {
                (Some((left, ..)), Some((right, ..))) => separator(left, right),
                _ => Vec::new(),
            };
            rest = others;
        }
        assert!(rest.is_empty(), "every entry is in a piece");
        if self.total(number, &children)? != block.totals {
            return Err(damaged_node(self.id, number, "the entries of a block do not add up to its totals"));
        }
        Ok(Replacement { children, growth })
    }

    /// Writes the children into the node, or into several nodes if they are too large for one. Without children, the
    /// node is freed. Returns the pointers to the written nodes.
    fn write_children(&mut self, number: u32, level: u8, replacement: Replacement) -> Result<Vec<Child>> {
        let Replacement { children, growth } = replacement;
        let Some(first) = children.first() else {
            self.free(number);
            return Ok(Vec::new());
        };
        if self.is_too_large(level, &children) {
            return self.split_node(level, &children, growth, Some(number));
        }
        if children.len() < self.node(number).len()
            && children.len() < (self.node_sizes.node_children_max as usize / 4).max(2)
        {
            self.shrunk.insert(number);
        }
        let pointer = Child { fence: first.fence.clone(), node_number: number, totals: self.total(number, &children)? };
        self.replace(number, Node::encode(level, self.weigher.sums(), &children));
        Ok(vec![pointer])
    }

    /// Writes children that are too large for one node into several. The first node takes the number `reuse`, if given.
    /// Returns the pointers to the nodes.
    fn split_node(
        &mut self,
        level: u8,
        children: &[Child],
        growth: Growth,
        mut reuse: Option<u32>,
    ) -> Result<Vec<Child>> {
        let sums = self.weigher.sums();
        let average = Node::size_bytes(level, sums, children) / children.len() + 1;
        let most =
            (self.node_sizes.node_bytes_max as usize / average).clamp(2, self.node_sizes.node_children_max as usize);
        let mut pointers = Vec::new();
        let mut rest = children;
        for size in piece_sizes(children.len(), most, growth) {
            let (piece, others) = rest.split_at(size);
            let number = reuse.take().map_or_else(|| self.new_number(), Ok)?;
            let totals = self.total(number, piece)?;
            self.replace(number, Node::encode(level, sums, piece));
            pointers.push(Child { fence: piece[0].fence.clone(), node_number: number, totals });
            rest = others;
        }
        assert!(pointers.len() < children.len(), "a level has fewer nodes than the one below");
        Ok(pointers)
    }

    /// Merges nodes that lost children with a neighbor if the two together are small.
    fn merge_nodes(&mut self, level: u8, pointers: Vec<Child>) -> Result<Vec<Child>> {
        let mut merged: Vec<Child> = Vec::with_capacity(pointers.len());
        for pointer in pointers {
            let both = match merged.last() {
                Some(last) if self.shrunk.contains(&last.node_number) || self.shrunk.contains(&pointer.node_number) => {
                    self.merge_pair(level, &last.clone(), &pointer)?
                }
                _ => None,
            };
            match (both, merged.last_mut()) {
                (Some(both), Some(last)) => *last = both,
                _ => merged.push(pointer),
            }
        }
        Ok(merged)
    }

    fn merge_pair(&mut self, level: u8, left: &Child, right: &Child) -> Result<Option<Child>> {
        let children = self.children_of_nodes(level, &[left.clone(), right.clone()])?;
        let size = Node::size_bytes(level, self.weigher.sums(), &children);
        let small = children.len() <= 2
            || children.len() <= self.node_sizes.node_children_max as usize / 2
                && size <= self.node_sizes.node_bytes_max as usize / 2;
        if !small {
            return Ok(None);
        }
        let totals = self.combined_totals(left.node_number, left, right)?;
        self.replace(left.node_number, Node::encode(level, self.weigher.sums(), &children));
        self.free(right.node_number);
        self.shrunk.insert(left.node_number);
        Ok(Some(Child { fence: left.fence.clone(), node_number: left.node_number, totals }))
    }

    fn children(&self, number: u32, low: &[u8]) -> Result<Vec<Child>> {
        self.node(number).children(low).map_err(|reason| damaged_node(self.id, number, reason))
    }

    fn is_too_large(&self, level: u8, children: &[Child]) -> bool {
        let size = || Node::size_bytes(level, self.weigher.sums(), children);
        children.len() > self.node_sizes.node_children_max as usize
            || children.len() > 2 && size() > self.node_sizes.node_bytes_max as usize
    }

    fn total(&self, number: u32, children: &[Child]) -> Result<Totals> {
        let total = children.iter().try_fold(Totals::ZERO, |sum, child| sum.checked_add(&child.totals));
        total.ok_or_else(|| damaged_node(self.id, number, "its sums overflow"))
    }

    fn combined_totals(&self, number: u32, left: &Child, right: &Child) -> Result<Totals> {
        let total = left.totals.checked_add(&right.totals);
        total.ok_or_else(|| damaged_node(self.id, number, "its sums overflow"))
    }

    fn replace(&mut self, number: u32, node: Node) {
        self.nodes.insert(number, CachedNode { node, changed: true });
    }

    fn free(&mut self, number: u32) {
        assert_ne!(number, ROOT, "the root is never freed");
        self.nodes.remove(&number);
        self.freed.push(number);
    }

    fn new_number(&mut self) -> Result<u32> {
        let number = self.next_number;
        let next = number.checked_add(1).filter(|_| !self.nodes.contains_key(&number));
        self.next_number = next.ok_or_else(|| damaged_node(self.id, ROOT, "the next node number is already in use"))?;
        // The next number is stored in the root record.
        self.slot_mut(ROOT).changed = true;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{Root, load_node};
    use crate::{CollectionId, CountOnly, NodeSizes};
    use base::{DbNumber, ViewId};
    use store::memory::MemoryEngine;
    use store::{Batch, Engine, Error, Table};

    #[test]
    fn pieces_leave_space_where_growth_is_expected() {
        let check = |count, most, growth, expected: &[usize]| assert_eq!(piece_sizes(count, most, growth), expected);
        check(9, 8, Growth::End, &[8, 1]);
        check(9, 8, Growth::Start, &[1, 8]);
        check(9, 8, Growth::Middle, &[5, 4]);
        check(24, 8, Growth::End, &[8, 8, 8]);
        check(26, 8, Growth::Start, &[2, 8, 8, 8]);
        check(26, 8, Growth::Middle, &[6, 5, 5, 5, 5]);
        check(3, 2, Growth::Middle, &[2, 1]);
        check(1, 2, Growth::End, &[1]);
    }

    #[test]
    fn piece_sizes_sum_up_and_stay_in_bounds() {
        for growth in [Growth::Start, Growth::Middle, Growth::End] {
            for (count, most) in (1..200).flat_map(|count| (2..20).map(move |most| (count, most))) {
                let sizes = piece_sizes(count, most, growth);
                assert_eq!(sizes.iter().sum::<usize>(), count);
                assert!(sizes.iter().all(|size| (1..=most).contains(size)), "{count} {most} {growth:?}: {sizes:?}");
                assert!(count <= 2 || sizes.len() < count, "a level must have fewer nodes than the one below");
            }
        }
    }

    #[test]
    fn separator_is_short_and_lies_between_the_keys() {
        let check = |left: &[u8], right: &[u8], expected: &[u8]| assert_eq!(separator(left, right), expected);
        check(b"", b"a", b"a");
        check(&[0, 0, 0, 255], &[0, 0, 1, 0], &[0, 0, 1, 0]);
        check(b"customer 17, invoice 4", b"customer 18, invoice 1", b"customer 18");
        check(b"customer 17", b"customer 17, invoice 4", b"customer 17,");
        check(&[7; 20], &[7; 30], &[7; 21]);
    }

    #[test]
    fn growth_at_an_end_requires_all_cuts_there() {
        let check = |cut: &[usize], count, expected| assert_eq!(growth_of(cut, count), expected);
        check(&[4], 5, Growth::End);
        check(&[0], 5, Growth::Start);
        check(&[2], 5, Growth::Middle);
        check(&[0, 4], 5, Growth::Middle);
        check(&[0], 1, Growth::End);
        check(&[], 5, Growth::Middle);
    }

    /// Creates a cycle: replaces the number of a node's first child by the node's own number. Returns the fence of the
    /// second child.
    fn create_cycle(engine: &MemoryEngine, id: CollectionId) -> Vec<u8> {
        let root = Root::load(engine, id).expect("the engine reads").expect("it was written");
        let wanted = NodeRef::from_parent(&root.node, 0);
        let node = load_node(engine, id, 0, wanted).expect("the tree is sound");
        assert!(node.level() > 0 && node.len() > 1, "the test needs three levels");
        let mut children = node.children(&[]).expect("the tree is sound");
        children[0].node_number = wanted.number;
        let mut batch = Batch::new();
        batch.put(Table::Tree, &id.node_key(wanted.number), Node::encode(node.level(), 0, &children).bytes());
        engine.write(&batch).expect("the engine writes");
        children[1].fence.clone()
    }

    #[test]
    fn cyclic_node_is_reported_as_damage() {
        let engine = MemoryEngine::new(1);
        let id = CollectionId::new(DbNumber(1), ViewId(1));
        let small = NodeSizes { block_entries_max: 2, node_children_max: 3, recent_max: 0, ..NodeSizes::default() };
        let fill = |start: &[u8], count: u8| {
            let mut writer = CollectionWriter::open_with_sizes(&engine, id, &CountOnly, small)?;
            (0..count).try_for_each(|last| writer.put(&[start, &[last]].concat(), b"").map(drop))?;
            let mut batch = Batch::new();
            writer.finish(&mut batch)?;
            engine.write(&batch)
        };
        assert!(fill(b"", 200).is_ok());
        let fence = create_cycle(&engine, id);
        assert!(matches!(fill(&fence, 5), Err(Error::Damaged { table: Table::Tree, .. })));
    }
}
