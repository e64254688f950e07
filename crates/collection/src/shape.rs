//! The size and height of a collection's tree, for measurements and reports.
//!
//! The measurement reads every node and no entry. A damaged tree is an error. [`crate::check()`] reports the damage in
//! detail.

use store::{Result, TableReader};

use crate::id::CollectionId;
use crate::node::Node;
use crate::root::{NodeRef, ROOT, Root, damaged_node, load_node};

/// Size of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Number of nodes on the path from the root to a block.
    pub levels: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Total size of all nodes in bytes.
    pub node_bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of entries.
    pub entries: u64,
}

/// Measures the tree of a collection.
pub fn shape(reader: &dyn TableReader, id: CollectionId) -> Result<Shape> {
    let mut shape = Shape::default();
    let Some(root) = Root::load(reader, id)? else { return Ok(shape) };
    shape.levels = u64::from(root.node.level()) + 1;
    shape.entries = root.totals().map_err(|reason| damaged_node(id, ROOT, reason))?.count;
    let mut waiting: Vec<Node> = vec![root.node];
    while let Some(node) = waiting.pop() {
        shape.nodes += 1;
        shape.node_bytes += node.bytes().len() as u64;
        for index in 0..node.len() {
            if node.level() > 0 {
                waiting.push(load_node(reader, id, root.sums, NodeRef::from_parent(&node, index))?);
            } else {
                shape.blocks += 1;
            }
        }
    }
    Ok(shape)
}
