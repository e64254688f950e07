//! How the tree of a collection looks, for measurements and reports.
//!
//! Reads every node and no entry. A damaged tree is an error; [`super::check()`] says more about it.

use store::{Read, Result};

use super::CollectionId;
use super::node::Node;
use super::root::{ROOT, Root, Wanted, damaged, load_node};

/// The size of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Nodes on the way from the root to a block.
    pub levels: u64,
    /// All nodes.
    pub nodes: u64,
    /// The bytes of all nodes.
    pub node_bytes: u64,
    /// All blocks.
    pub blocks: u64,
    /// All entries.
    pub entries: u64,
}

/// Measures the tree of a collection.
pub fn shape(reader: &dyn Read, id: CollectionId) -> Result<Shape> {
    let mut shape = Shape::default();
    let Some(root) = Root::load(reader, id)? else { return Ok(shape) };
    shape.levels = u64::from(root.node.level()) + 1;
    shape.entries = root.totals().map_err(|why| damaged(id, ROOT, why))?.count;
    let mut waiting: Vec<Node> = vec![root.node];
    while let Some(node) = waiting.pop() {
        shape.nodes += 1;
        shape.node_bytes += node.bytes().len() as u64;
        for index in 0..node.len() {
            if node.level() > 0 {
                waiting.push(load_node(reader, id, root.sums, Wanted::of(&node, index))?);
            } else {
                shape.blocks += 1;
            }
        }
    }
    Ok(shape)
}
