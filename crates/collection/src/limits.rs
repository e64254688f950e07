//! The limits of collections.
//!
//! The hard limits bound what a decoder accepts and what a caller may pass in. [`NodeSizes`] contains the soft limits,
//! at which blocks and nodes are split and merged. They are not stored: a collection that was written with some sizes
//! can be read and changed with any others. The default was chosen by measurement (`docs/collections.md`).

/// Maximum length of an entry's key, in bytes.
pub const KEY_BYTES_MAX: usize = 4_096;

/// Maximum length of a collection's state, in bytes.
pub const STATE_BYTES_MAX: usize = 4_096;

/// Maximum number of sums that a collection keeps in addition to its count.
pub const SUMS_MAX: usize = 8;

/// Maximum number of children of a node that a decoder accepts.
pub const NODE_CHILDREN_MAX: usize = 4_096;

/// Maximum size of a node that a decoder accepts, in bytes.
pub const NODE_BYTES_MAX: usize = 2 << 20;

/// Maximum number of changes that a root record buffers.
pub const BUFFERED_CHANGES_MAX: usize = 1_024;

/// Maximum level of a node. The children of a node on level 0 are blocks. No collection reaches the maximum, even with
/// two children per node.
pub const LEVEL_MAX: u8 = 31;

/// Maximum number of inconsistencies that one check reports. Further inconsistencies are not counted.
pub const INCONSISTENCIES_MAX: usize = 1_000;

/// The sizes at which blocks and nodes are split and merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeSizes {
    /// Maximum number of entries in a block. A block with more is split.
    pub block_entries_max: u32,
    /// Maximum number of children of a node. A node with more is split.
    pub node_children_max: u32,
    /// Maximum size in bytes of a node with more than two children.
    pub node_bytes_max: u32,
    /// Maximum size in bytes of the root's node with more than two children. Every change writes this node again.
    pub root_bytes_max: u32,
    /// Maximum number of changes that the root buffers before they are applied to the tree.
    pub recent_max: u32,
    /// Maximum size of the buffered changes, in bytes.
    pub recent_bytes_max: u32,
}

impl Default for NodeSizes {
    fn default() -> Self {
        Self {
            block_entries_max: 256,
            node_children_max: 64,
            node_bytes_max: 2_048,
            root_bytes_max: 512,
            recent_max: 16,
            recent_bytes_max: 512,
        }
    }
}

impl NodeSizes {
    /// Checks that a tree with these sizes can grow and shrink.
    pub(crate) fn validate(&self) {
        assert!(self.block_entries_max >= 2, "splitting a block must leave entries on both sides");
        assert!(self.node_children_max >= 3, "splitting a node must leave two children on one side");
        assert!(self.root_bytes_max <= self.node_bytes_max, "children that leave the root must fit into a node");
        let child_bytes_max = KEY_BYTES_MAX + 3 + 4 + 8 + 8 * SUMS_MAX;
        let node_bytes = self.node_children_max as usize * child_bytes_max;
        assert!(node_bytes < NODE_BYTES_MAX, "the decoder must accept the largest node that can be written");
        assert!(
            (self.recent_max as usize) < BUFFERED_CHANGES_MAX,
            "the decoder must accept everything that can be written"
        );
        assert!(
            self.node_children_max as usize <= NODE_CHILDREN_MAX,
            "the decoder must accept everything that can be written"
        );
        assert!(
            self.node_bytes_max as usize <= NODE_BYTES_MAX,
            "the decoder must accept everything that can be written"
        );
    }
}
