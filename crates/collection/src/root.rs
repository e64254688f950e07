//! The root record of a collection: its state and the top node of its tree.
//!
//! Every operation on a collection begins with this record. With both parts in one record, totals and state need one
//! lookup, a small collection is one record, and a change of an entry and of the state is one write. If there are
//! nodes below, the record also buffers the last changes ([`crate::change_buffer`]). `docs/collections.md`, "Root
//! record", describes the bytes.

use base::codec::{Decoder, Encoder};
use store::{Error, Result, Table, TableReader};

use crate::change_buffer::{self, ChangeBuffer};
use crate::id::CollectionId;
use crate::limits::{STATE_BYTES_MAX, SUMS_MAX};
use crate::node::{Child, DamageReason, Node, VERSION};
use crate::weight::Totals;

/// Number of the root record. The other nodes are numbered from 1.
pub(crate) const ROOT: u32 = 0;

/// A decoded root record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Root {
    /// Number of sums that the collection keeps.
    pub(crate) sums: usize,
    /// Number of the next new node. Numbers are never reused.
    pub(crate) next_number: u32,
    /// The state that the owner stores with the collection.
    pub(crate) state: Vec<u8>,
    /// Changes that are not yet applied to the tree.
    pub(crate) recents: ChangeBuffer,
    /// The top node of the tree.
    pub(crate) node: Node,
}

impl Root {
    /// Creates the root of a collection without entries: one block from the smallest key to the greatest.
    pub(crate) fn empty(sums: usize) -> Self {
        let state = Vec::new();
        let recents = ChangeBuffer::default();
        Self { sums, next_number: ROOT + 1, state, recents, node: empty_node(sums) }
    }

    /// Reads the root record. Returns `None` if the collection was never written.
    pub(crate) fn load(reader: &dyn TableReader, id: CollectionId) -> Result<Option<Self>> {
        let Some(bytes) = reader.get(Table::Tree, &id.node_key(ROOT))? else { return Ok(None) };
        Self::decode(&bytes).map(Some).map_err(|reason| damaged_node(id, ROOT, reason))
    }

    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<Self, DamageReason> {
        let mut record = Decoder::new(bytes);
        let mut head = || {
            let version = record.u8()?;
            let sums = usize::from(record.u8()?);
            let next_number = record.u32()?;
            Ok((version, sums, next_number, record.bytes()?))
        };
        let (version, sums, next_number, state) = head().map_err(|_: base::codec::InvalidRecord| "it is too short")?;
        if version != VERSION {
            return Err(if version == 0 { "its version is missing" } else { "it was written by a newer program" });
        }
        if sums > SUMS_MAX || next_number == ROOT || state.len() > STATE_BYTES_MAX {
            return Err("its header contains invalid values");
        }
        let recents = ChangeBuffer::decode(sums, &mut record)?;
        let node = Node::decode(record.rest().to_vec(), sums)?;
        if node.level() == 0 && !recents.list().is_empty() {
            return Err("it has buffered changes although it has no child nodes");
        }
        Ok(Self { sums, next_number, state: state.to_vec(), recents, node })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        assert!(self.sums <= SUMS_MAX && self.next_number != ROOT && self.state.len() <= STATE_BYTES_MAX);
        assert!(self.node.level() > 0 || self.recents.list().is_empty(), "an encoded root record can be decoded");
        let capacity = 16 + self.state.len() + 2 * self.recents.size_bytes() + self.node.bytes().len();
        let mut record = Encoder::with_capacity(capacity);
        record.u8(VERSION).u8(self.sums as u8).u32(self.next_number).bytes(&self.state);
        self.recents.encode(self.sums, &mut record);
        record.raw(self.node.bytes());
        record.finish()
    }

    /// Returns the totals of the whole collection.
    pub(crate) fn totals(&self) -> std::result::Result<Totals, DamageReason> {
        collection_totals(&self.node, &self.recents)
    }
}

/// Returns the totals of the whole collection from the top node of its tree and the buffered changes.
pub(crate) fn collection_totals(top: &Node, recents: &ChangeBuffer) -> std::result::Result<Totals, DamageReason> {
    let stored = top.totals_before(top.len())?;
    stored.changed(&change_buffer::sum(recents.list())?).ok_or("it has more buffered removals than entries")
}

/// Creates the top node of a tree without entries.
pub(crate) fn empty_node(sums: usize) -> Node {
    Node::encode(0, sums, &[Child { fence: Vec::new(), node_number: 0, totals: Totals::ZERO }])
}

/// Reads a node other than the root and checks its level and count against its parent.
pub(crate) fn load_node(reader: &dyn TableReader, id: CollectionId, sums: usize, wanted: NodeRef) -> Result<Node> {
    let number = wanted.number;
    let Some(bytes) = reader.get(Table::Tree, &id.node_key(number))? else {
        return Err(damaged_node(id, number, "its parent refers to it, but it does not exist"));
    };
    let node = Node::decode(bytes, sums).map_err(|reason| damaged_node(id, number, reason))?;
    wanted.check(&node).map_err(|reason| damaged_node(id, number, reason))?;
    Ok(node)
}

/// The number, level and count that a parent has for a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeRef {
    pub(crate) number: u32,
    pub(crate) level: u8,
    pub(crate) count: u64,
}

impl NodeRef {
    /// Returns the data that `parent` has for a child. `parent` must not be on level 0.
    pub(crate) fn from_parent(parent: &Node, index: usize) -> Self {
        assert!(parent.level() > 0, "the children of level 0 are blocks, not nodes");
        Self { number: parent.below(index), level: parent.level() - 1, count: parent.count(index) }
    }

    pub(crate) fn check(&self, node: &Node) -> std::result::Result<(), DamageReason> {
        if node.level() != self.level {
            return Err("it is not one level below its parent");
        }
        if node.count_before(node.len())? != self.count {
            return Err("its count differs from the one recorded in its parent");
        }
        Ok(())
    }
}

/// Creates the error for a damaged node.
pub(crate) fn damaged_node(id: CollectionId, number: u32, reason: DamageReason) -> Error {
    Error::Damaged {
        table: Table::Tree,
        key: id.node_key(number).to_vec(),
        reason: format!("node of a collection: {reason}"),
    }
}

/// Creates the error for a damaged entry.
pub(crate) fn damaged_entry(id: CollectionId, key: &[u8]) -> Error {
    let reason = "entry of a collection: its value cannot be read".to_owned();
    Error::Damaged { table: Table::View, key: id.entry_key(key), reason }
}
