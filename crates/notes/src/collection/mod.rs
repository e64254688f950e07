//! The counted index: a sorted collection of entries that knows positions, counts and sums.
//!
//! Folders and views are collections. An entry is a key, whose order is the collection's order, and a value. Whatever
//! the size of a collection, it costs a few small reads to find an entry by key or by position, to tell an entry's
//! position, to count a range, and a few small writes to add, change or remove an entry.
//!
//! | module | what it holds |
//! |---|---|
//! | [`reader`] | [`Reader`]: look-ups, positions, pages, counts, on a snapshot |
//! | [`writer`] | [`Writer`]: the changes of one transaction, written into its batch at the end |
//! | [`builder`] | [`Builder`]: a tree from sorted entries, for imports and repair |
//! | [`mod@check`] | comparing the tree with the entries, and building it again from them |
//! | [`mod@shape`] | how large a tree is |
//! | [`weight`] | the sums that a collection keeps beside its count |
//!
//! Entries are plain keys in [`Table::View`]. *Fences* cut them into blocks of at most 256; a small tree over
//! the fences, in [`Table::Tree`], holds the count and the sums of every block and of every subtree. A read by position goes
//! down the tree and scans part of one block. A change rewrites the entry and one narrow node a level.
//!
//! Invariants: the totals of a block are those of the entries between its fence and the next; the totals of a child
//! are those of its node's children; the fence of a node's first child is the node's own, and empty at the root, so
//! that every key belongs to exactly one block; only the sole block of an empty collection is empty. Entries and tree
//! change in one batch: a snapshot sees both or neither.
//!
//! Left out: who may read (callers check), uniqueness across collections, and any locking: a collection has one
//! [`Writer`] at a time, which the database's lock sees to.

pub mod builder;
pub mod check;
#[doc(hidden)]
pub mod fuzz;
pub mod limits;
mod node;
pub mod reader;
mod recent;
mod root;
mod settle;
pub mod shape;
pub mod weight;
pub mod writer;

use base::{DbNumber, ViewId};
use store::engine::prefix_end;
use store::{Batch, Table};

pub use builder::Builder;
pub use check::{Finding, Rebuilt, check, rebuild};
pub use limits::Tuning;
pub use reader::{Entry, Reader, Scan};
pub use shape::{Shape, shape};
pub use weight::{CountOnly, Totals, Weigh, Weight};
pub use writer::Writer;

/// Bytes before the caller's key in the key of an entry.
const PREFIX_BYTES: usize = 9;

/// Says which collection: one order of one view or folder of one database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CollectionId {
    /// The database.
    pub database: DbNumber,
    /// The view or folder.
    pub view: ViewId,
    /// The number of the order; a folder has only number 0.
    pub collation: u8,
}

impl CollectionId {
    /// Names the first (for folders, the only) order of a view.
    #[must_use]
    pub const fn new(database: DbNumber, view: ViewId) -> Self {
        Self { database, view, collation: 0 }
    }

    /// Gives the bytes that all keys of the collection begin with, in both tables.
    #[must_use]
    pub fn prefix(self) -> [u8; PREFIX_BYTES] {
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..4].copy_from_slice(&self.database.to_key());
        prefix[4..8].copy_from_slice(&self.view.to_key());
        prefix[8] = self.collation;
        prefix
    }

    /// Gives the key of an entry in [`Table::View`].
    #[must_use]
    pub fn entry_key(self, key: &[u8]) -> Vec<u8> {
        let mut stored = Vec::with_capacity(PREFIX_BYTES + key.len());
        stored.extend_from_slice(&self.prefix());
        stored.extend_from_slice(key);
        stored
    }

    /// Removes the collection with all its entries. No [`Writer`] of it may be open in the same transaction.
    pub fn remove_all(self, batch: &mut Batch) {
        for table in [Table::View, Table::Tree] {
            self.remove_table(batch, table);
        }
    }

    fn remove_table(self, batch: &mut Batch, table: Table) {
        let prefix = self.prefix();
        // Database 2^32 - 1 could leave no key after the collection's; such a number is never reached.
        let end = prefix_end(&prefix).unwrap_or_else(|| vec![0xFF; PREFIX_BYTES + 1]);
        batch.delete_range(table, &prefix, &end);
    }

    fn node_key(self, number: u32) -> [u8; PREFIX_BYTES + 4] {
        let mut key = [0; PREFIX_BYTES + 4];
        key[..PREFIX_BYTES].copy_from_slice(&self.prefix());
        key[PREFIX_BYTES..].copy_from_slice(&number.to_be_bytes());
        key
    }
}
