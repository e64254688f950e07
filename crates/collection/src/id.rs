//! The identity of a collection, and the keys of its records.

use base::{DbNumber, ViewId};
use store::engine::prefix_end;
use store::{Batch, Table};

/// Number of bytes before the caller's key in the stored key of an entry.
pub(crate) const PREFIX_BYTES: usize = 9;

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

    /// Removes the collection with all its entries. No [`crate::CollectionWriter`] of it may be open in the same
    /// transaction.
    pub fn remove_all(self, batch: &mut Batch) {
        for table in [Table::View, Table::Tree] {
            self.remove_table(batch, table);
        }
    }

    pub(crate) fn remove_table(self, batch: &mut Batch, table: Table) {
        let prefix = self.prefix();
        // For database 2^32 - 1 there might be no key after the collection's. That number is never reached.
        let end = prefix_end(&prefix).unwrap_or_else(|| vec![0xFF; PREFIX_BYTES + 1]);
        batch.delete_range(table, &prefix, &end);
    }

    pub(crate) fn node_key(self, number: u32) -> [u8; PREFIX_BYTES + 4] {
        let mut key = [0; PREFIX_BYTES + 4];
        key[..PREFIX_BYTES].copy_from_slice(&self.prefix());
        key[PREFIX_BYTES..].copy_from_slice(&number.to_be_bytes());
        key
    }
}
