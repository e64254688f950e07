//! The interface of a storage engine.
//!
//! An engine is an ordered map per [`Table`] from byte strings to byte strings, with atomic batches over all tables and
//! snapshots. Writes are visible at once and durable after [`Engine::sync`]. A crash keeps every batch that was synced,
//! and a prefix of the later ones in the order in which they were written.
//!
//! There are two engines: [`crate::rocks`] and [`crate::memory`]. The interface is not specific to either of them, so
//! that an engine over object storage can replace them.

use std::path::Path;

use crate::batch::Batch;
use crate::error::{Error, Result};

/// A named, ordered map. The keys of every table except the last five begin with the four-byte number of a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Table {
    /// Note headers and summary items.
    Summary = 0,
    /// Large values: non-summary items and message skeletons.
    Body = 1,
    /// Note ID by UNID.
    Unid = 2,
    /// Changed objects by modseq.
    ByModseq = 3,
    /// Responses by parent UNID.
    Children = 4,
    /// Entries of views and folders, in their order.
    View = 5,
    /// Counts over the entries of views and folders.
    Tree = 6,
    /// Keys that a note occupies in a view.
    ViewBack = 7,
    /// Unread marks of users.
    Unread = 8,
    /// Counters, options, ACLs and applied positions.
    Meta = 9,
    /// Database records by path.
    Catalog = 10,
    /// Chunks of attachments by content hash and chunk number.
    Blob = 11,
    /// Empty values by content hash and user (database, note): the reference count.
    BlobRef = 12,
    /// Empty values by time and content hash, for attachments that may have lost their last user.
    BlobFree = 13,
    /// The store's own records: format version and shard identity.
    Store = 14,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 15] = [
        Self::Summary,
        Self::Body,
        Self::Unid,
        Self::ByModseq,
        Self::Children,
        Self::View,
        Self::Tree,
        Self::ViewBack,
        Self::Unread,
        Self::Meta,
        Self::Catalog,
        Self::Blob,
        Self::BlobRef,
        Self::BlobFree,
        Self::Store,
    ];

    /// Returns the name under which the table is stored and reported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Body => "body",
            Self::Unid => "unid",
            Self::ByModseq => "bymod",
            Self::Children => "children",
            Self::View => "view",
            Self::Tree => "tree",
            Self::ViewBack => "viewback",
            Self::Unread => "unread",
            Self::Meta => "meta",
            Self::Catalog => "catalog",
            Self::Blob => "blob",
            Self::BlobRef => "blobref",
            Self::BlobFree => "blobfree",
            Self::Store => "store",
        }
    }

    /// Returns the table with a number, or `None` if there is none. The inverse of casting a [`Table`] to `u8`.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        let table = Self::ALL.get(usize::from(number)).copied();
        assert!(table.is_none_or(|table| table as u8 == number), "a table's number is its index in `ALL`");
        table
    }
}

/// The keys from `start` (inclusive) to `end` (exclusive). If `end` is `None`, the range extends to the end of the
/// table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key in the range.
    pub start: Vec<u8>,
    /// First key after the range.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Returns the range of all keys.
    #[must_use]
    pub fn all() -> Self {
        Self { start: Vec::new(), end: None }
    }

    /// Returns the range of the keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        Self { start: prefix.to_vec(), end: prefix_end(prefix) }
    }

    /// Returns the range from `start` (inclusive) to `end` (exclusive).
    #[must_use]
    pub fn between(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self { start: start.into(), end: Some(end.into()) }
    }

    /// Returns `true` if `key` lies within the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }
}

/// Returns the first key after all keys that begin with `prefix`, or `None` if there is no such key.
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    assert!(end.as_slice() > prefix && !end.starts_with(prefix), "the end is greater than all keys with the prefix");
    Some(end)
}

/// Returns the first key after `key`.
#[must_use]
pub fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the smallest key of the range to the greatest.
    Forward,
    /// From the greatest key of the range to the smallest.
    Backward,
}

/// A scan in progress. The returned bytes are valid until the next call.
pub trait Cursor {
    /// Returns the next key and value, or `None` at the end of the range.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

/// Read access to the current state of an engine or to a snapshot of it.
pub trait TableReader {
    /// Returns the value of a key, or `None` if the key does not exist.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Returns the values of several keys, in their order.
    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Starts a scan.
    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>>;
}

/// Metrics of an engine for the operator: name and value. Sizes are in bytes.
pub type Metrics = Vec<(String, u64)>;

/// A sorted file of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortedFile {
    /// The table to which the file belongs.
    pub table: Table,
    /// Level of the file, from 0 for the youngest content.
    pub level: u32,
    /// Number of the file, which is also its name.
    pub number: u64,
}

/// A storage engine.
pub trait Engine: TableReader + Send + Sync {
    /// Applies a batch. It is visible to later reads on return and durable after the next [`Engine::sync`].
    fn write(&self, batch: &Batch) -> Result<()>;

    /// Makes every batch durable that was written before the call.
    fn sync(&self) -> Result<()>;

    /// Returns a read-only view of the current state.
    fn snapshot(&self) -> Result<Box<dyn TableReader + Send + Sync + '_>>;

    /// Adds sorted pairs to a table faster than [`Engine::write`] could. The keys must not exist yet. The pairs are
    /// durable on return.
    fn ingest(&self, table: Table, pairs: &mut dyn Cursor) -> Result<()>;

    /// Writes the data that is only in memory and in the log to sorted files, so that the next start has nothing to
    /// replay.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Lets the engine return the space of removed attachments to the file system, if there is enough of it that
    /// rewriting the others pays. The work continues in the background. To be called after attachments were removed.
    fn reclaim(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the space of deleted and overwritten keys within the range to the file system.
    fn compact(&self, table: Table, range: &KeyRange) -> Result<()>;

    /// Writes a consistent copy of the whole store into `target`, which must not exist. The store continues to run.
    fn checkpoint(&self, target: &Path) -> Result<()>;

    /// Checks without delay whether the given number of bytes could be written now. Returns an error with the reason if
    /// not. A later write may still be refused.
    fn check_space(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Returns the reason if the engine refuses writes by itself because the disk was full, although there may be space
    /// by now. Finds this out without changing anything, if the last write was refused for this reason.
    fn write_refusal(&self) -> Option<String> {
        None
    }

    /// Returns the folder in which the engine keeps its files, or `None` if it has none.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Reads everything and verifies every checksum. Reports the number of bytes read so far to `progress`. Returns the
    /// damage found, and continues after damage where possible.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<Error>>;

    /// Rewrites the readable content of damaged files of a table, so that the files can be removed from the closed
    /// store with [`crate::rocks::remove_files`]. Returns these files.
    ///
    /// Further damage behind these files becomes visible only after they are removed. Lost content cannot be determined
    /// afterwards, so a check must come first. `known` is the damage that [`Engine::verify`] found in that check; an
    /// engine may no longer report it, because it can work without a part that it could not read once. No other thread
    /// may read or write meanwhile.
    fn salvage(&self, _table: Table, _known: &[Error]) -> Result<Vec<SortedFile>> {
        Ok(Vec::new())
    }

    /// Estimates the space that the keys of the range take on disk, in bytes.
    fn size(&self, table: Table, range: &KeyRange) -> Result<u64>;

    /// Returns the engine's metrics for the operator.
    fn metrics(&self) -> Metrics;
}

#[cfg(test)]
pub(crate) mod tests;
