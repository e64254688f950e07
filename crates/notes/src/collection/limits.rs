//! The limits of collections.
//!
//! The hard limits bound what a decoder accepts and what a caller may hand in. [`Tuning`] holds the soft ones: when
//! blocks and nodes are cut and merged. They are not stored; a collection written under one tuning can be read and
//! changed under any other. The default was chosen by measurement (`docs/collections.md`).

/// Longest key of an entry, in bytes.
pub const KEY_BYTES_MAX: usize = 4_096;

/// Longest state of a collection, in bytes.
pub const STATE_BYTES_MAX: usize = 4_096;

/// Most sums that a collection may keep beside its count.
pub const SUMS_MAX: usize = 8;

/// Most children of one node that a decoder accepts.
pub const NODE_CHILDREN_MAX: usize = 4_096;

/// Most bytes of one node that a decoder accepts.
pub const NODE_BYTES_MAX: usize = 2 << 20;

/// Most changes that a root record may remember.
pub const RECENT_MAX: usize = 1_024;

/// Highest level of a node; level 0 points to blocks. Even at two children a node no collection gets there.
pub const LEVEL_MAX: u8 = 31;

/// Most findings that one check reports; it counts no further.
pub const FINDINGS_MAX: usize = 1_000;

/// When blocks and nodes are cut and merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Most entries of a block; one more and it is cut.
    pub block_entries_max: u32,
    /// Most children of a node; one more and it is cut.
    pub node_children_max: u32,
    /// Most bytes of a node that has more than two children.
    pub node_bytes_max: u32,
    /// The same for the root, which every change writes again.
    pub root_bytes_max: u32,
    /// Most changes that the root remembers before they go down into the tree.
    pub recent_max: u32,
    /// Most bytes that they may take.
    pub recent_bytes_max: u32,
}

impl Default for Tuning {
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

impl Tuning {
    /// Checks that a tree under this tuning can grow and shrink.
    pub(super) fn validate(&self) {
        assert!(self.block_entries_max >= 2, "a block that is cut must leave entries on both sides");
        assert!(self.node_children_max >= 3, "a node that is cut must leave two children on one side");
        assert!(self.root_bytes_max <= self.node_bytes_max, "what leaves the root must fit a node");
        let child_bytes_max = KEY_BYTES_MAX + 3 + 4 + 8 + 8 * SUMS_MAX;
        let node_bytes = self.node_children_max as usize * child_bytes_max;
        assert!(node_bytes < NODE_BYTES_MAX, "a decoder must accept the largest node that may be written");
        assert!((self.recent_max as usize) < RECENT_MAX, "a decoder must accept what is written");
        assert!(self.node_children_max as usize <= NODE_CHILDREN_MAX, "a decoder must accept what is written");
        assert!(self.node_bytes_max as usize <= NODE_BYTES_MAX, "a decoder must accept what is written");
    }
}
