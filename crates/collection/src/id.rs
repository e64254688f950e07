//! The counted index: a sorted collection of entries with positions, counts and sums.
//!
//! Folders and views are collections. An entry has a key and a value, and the keys define the order of the collection.
//! Whatever the size of the collection, a few small reads find an entry by key or position, find an entry's position,
//! or count a range. A few small writes add, change or remove an entry.
//!
//! | module | content |
//! |---|---|
//! | [`reader`] | [`Reader`]: look-ups, positions, pages and counts, on a snapshot |
//! | [`writer`] | [`Writer`]: the changes of one transaction, written into its batch at the end |
//! | [`builder`] | [`Builder`]: a tree from sorted entries, for imports and repair |
//! | [`mod@check`] | check of the tree against the entries, and rebuilding it from them |
//! | [`mod@shape`] | the size of a tree |
//! | [`weight`] | the sums that a collection keeps in addition to its count |
//!
//! Entries are plain keys in [`Table::View`]. *Fences* divide them into blocks of at most 256. A small tree over
//! the fences, in [`Table::Tree`], contains the count and the sums of every block and of every subtree. A read by
//! position descends the tree and scans part of one block. A change rewrites the entry and one narrow node per level.
//!
//! Invariants: the totals of a block are those of the entries from its fence to before the next; the totals of a child
//! are those of its node's children; the fence of a node's first child is the node's own, and empty at the root, so
//! that every key belongs to exactly one block; only the sole block of an empty collection is empty. Entries and tree
//! change in one batch, so a snapshot sees both or neither.
//!
//! Left out: access checks (callers make them), uniqueness across collections, and locking. A collection has one
//! [`Writer`] at a time, which the database's lock ensures.

pub mod builder;
mod change_buffer;
pub mod check;
#[doc(hidden)]
pub mod fuzz;
pub mod limits;
mod node;
pub mod reader;
mod rebalance;
mod root;
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

/// Number of bytes before the caller's key in the stored key of an entry.
const PREFIX_BYTES: usize = 9;

/// Identifies a collection: one sort order of one view or folder of one database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CollectionId {
    /// The database.
    pub database: DbNumber,
    /// The view or folder.
    pub view: ViewId,
    /// Number of the sort order. A folder has only number 0.
    pub collation: u8,
}

impl CollectionId {
    /// Creates the id of the first sort order of a view. A folder has only this one.
    #[must_use]
    pub const fn new(database: DbNumber, view: ViewId) -> Self {
        Self { database, view, collation: 0 }
    }

    /// Returns the bytes with which all keys of the collection begin, in both tables.
    #[must_use]
    pub fn prefix(self) -> [u8; PREFIX_BYTES] {
        let mut prefix = [0; PREFIX_BYTES];
        prefix[..4].copy_from_slice(&self.database.to_key());
        prefix[4..8].copy_from_slice(&self.view.to_key());
        prefix[8] = self.collation;
        prefix
    }

    /// Returns the key of an entry in [`Table::View`].
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
        // For database 2^32 - 1 there might be no key after the collection's. That number is never reached.
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
