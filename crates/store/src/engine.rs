//! What the rooms above may ask of a storage engine, and nothing more.
//!
//! An engine is an ordered map per [`Table`] from byte strings to byte strings, with atomic batches over all tables
//! and snapshots. Writes are visible at once and durable after [`Engine::sync`]; a crash keeps every batch that
//! was synced, and of the later ones a prefix in the order in which they were written.
//!
//! Two engines exist: [`crate::rocks`] and [`crate::memory`]. Nothing here is particular to one of them, so that an
//! engine over object storage can take their place (DESIGN §3).

use std::path::Path;

use crate::batch::Batch;
use crate::error::{Error, Result};

/// A named, ordered map. The keys of every table but the last five begin with the four-byte number of a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Table {
    /// Note headers and summary items.
    Summary = 0,
    /// Large values: non-summary items, the skeletons of messages.
    Body = 1,
    /// UNID to note id.
    Unid = 2,
    /// Modseq to what was changed.
    Bymod = 3,
    /// Parent UNID to its responses.
    Children = 4,
    /// The entries of views and folders, in their order.
    View = 5,
    /// The counts over those entries.
    Tree = 6,
    /// The keys that a note occupies in a view.
    ViewBack = 7,
    /// Who has read what.
    Unread = 8,
    /// Counters, options, ACLs, applied positions.
    Meta = 9,
    /// Path to database record.
    Catalog = 10,
    /// Content hash and chunk number to a piece of an attachment.
    Blob = 11,
    /// Content hash and its user (database, note) to nothing: the reference count.
    BlobRef = 12,
    /// Time and content hash of attachments that lost their last user, perhaps.
    BlobFree = 13,
    /// The store's own records: format version, shard identity.
    Store = 14,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 15] = [
        Self::Summary,
        Self::Body,
        Self::Unid,
        Self::Bymod,
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

    /// Gives the name under which the table is stored and reported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Body => "body",
            Self::Unid => "unid",
            Self::Bymod => "bymod",
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

    /// Gives the table of a number, as [`Table`] as `u8` gives it.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        let table = Self::ALL.get(usize::from(number)).copied();
        assert!(table.is_none_or(|table| table as u8 == number), "a table's number is its place in the list");
        table
    }
}

/// The keys from `start` (included) to `end` (excluded); an `end` of `None` is the end of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// First key that belongs to the range.
    pub start: Vec<u8>,
    /// First key after the range.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Covers every key.
    #[must_use]
    pub fn all() -> Self {
        Self { start: Vec::new(), end: None }
    }

    /// Covers the keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        Self { start: prefix.to_vec(), end: prefix_end(prefix) }
    }

    /// Covers the keys from `start` to before `end`.
    #[must_use]
    pub fn between(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self { start: start.into(), end: Some(end.into()) }
    }

    /// Tells whether `key` lies within.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_slice() && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }
}

/// Gives the first key after all keys that begin with `prefix`; `None` when there is none.
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    assert!(end.as_slice() > prefix && !end.starts_with(prefix), "the end lies behind all keys with the prefix");
    Some(end)
}

/// Gives the first key after `key`.
#[must_use]
pub fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the smallest key of the range to the greatest.
    Forward,
    /// From the greatest key of the range to the smallest.
    Backward,
}

/// A scan under way. The bytes that it gives are valid until it is asked again.
pub trait Cursor {
    /// Gives the next key and value, or `None` at the end of the range.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

/// What can be read: the present state of an engine, or a snapshot of it.
pub trait Read {
    /// Gives the value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Gives the values of several keys, in their order.
    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Starts a scan.
    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>>;
}

/// Figures of an engine for the operator, by name; sizes in bytes.
pub type Figures = Vec<(String, u64)>;

/// A sorted file of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SortedFile {
    /// The table that it is a part of.
    pub table: Table,
    /// How old its content is; 0 is the youngest.
    pub level: u32,
    /// Its number, which is its name.
    pub number: u64,
}

/// A storage engine.
pub trait Engine: Read + Send + Sync {
    /// Applies a batch: visible to later reads when this returns, durable after the next [`Engine::sync`].
    fn write(&self, batch: &Batch) -> Result<()>;

    /// Makes every batch durable that was written before the call.
    fn sync(&self) -> Result<()>;

    /// Freezes the present state for reading.
    fn snapshot(&self) -> Result<Box<dyn Read + Send + Sync + '_>>;

    /// Adds sorted pairs to a table faster than [`Engine::write`] could. The keys must not exist yet. Durable on return.
    fn ingest(&self, table: Table, pairs: &mut dyn Cursor) -> Result<()>;

    /// Writes what is only in memory and in the log to where it belongs, so that the next start has nothing to replay.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Gives the space of deleted and overwritten keys within the range back to the file system.
    fn compact(&self, table: Table, range: &KeyRange) -> Result<()>;

    /// Writes a consistent copy of the whole store into `target`, which must not exist; the store goes on running.
    fn checkpoint(&self, target: &Path) -> Result<()>;

    /// Says at once whether so many bytes could be written now; an error says why not. What is written later may still be refused.
    fn room(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Gives the folder in which the engine keeps its files, if it does.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Reads everything and checks every checksum; `progress` is told the bytes read so far. Gives the damage that it met; behind it, it goes on where it can.
    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<Error>>;

    /// Writes what can be read of the damaged files of a table again, so that they can be taken out of the closed store ([`crate::rocks::take_out`]); gives
    /// these files. What lies behind them is seen when they are gone. What is lost cannot be told afterwards, so that a check comes first; `known` is what
    /// [`Engine::verify`] found then, since an engine may get along without what it could not read once. Nobody else may read or write meanwhile.
    fn mend(&self, _table: Table, _known: &[Error]) -> Result<Vec<SortedFile>> {
        Ok(Vec::new())
    }

    /// Estimates the bytes that the keys of the range take on disk.
    fn size(&self, table: Table, range: &KeyRange) -> Result<u64>;

    /// Gives figures for the operator.
    fn figures(&self) -> Figures;
}

#[cfg(test)]
pub(crate) mod tests;
