//! The store as the rooms above see it: an engine, its committer and its blobs.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::batch::Batch;
use crate::blob::Blobs;
use crate::commit::{Committer, Durable, Ticket};
use crate::engine::{Cursor, Direction, Engine, KeyRange, Read, Table};
use crate::error::{Error, Result};
use crate::rocks::Rocks;
use crate::write_cache::WriteCache;

pub use crate::rocks::Options;

/// A store: durable tables with group commit, and blobs.
pub struct Store {
    /// Ends its thread before the engine closes, because fields are dropped in order.
    committer: Committer,
    blobs: Blobs,
    engine: Arc<WriteCache>,
    /// Held by the one who makes a checkpoint for a backup; there is one place for it.
    checkpoint: Mutex<()>,
}

impl Store {
    /// Opens the store in a folder, or makes one there.
    pub fn open(folder: &Path, options: &Options) -> Result<Self> {
        let engine = Arc::new(Rocks::open(folder, options)?);
        Self::over(engine, options)
    }

    /// Makes a store over any engine.
    pub fn over(engine: Arc<dyn Engine>, options: &Options) -> Result<Self> {
        let engine = Arc::new(WriteCache::new(engine));
        let committer = Committer::start(Arc::clone(&engine) as Arc<dyn Engine>, options.sync)?;
        let blobs = Blobs::open(Arc::clone(&engine) as Arc<dyn Engine>, &options.blobs)?;
        Ok(Self { committer, blobs, engine, checkpoint: Mutex::new(()) })
    }

    /// Applies a batch: visible to all at once, durable when the ticket is.
    pub fn commit(&self, batch: &Batch) -> Result<Ticket> {
        self.committer.commit(batch)
    }

    /// Gives what to wait for until a ticket is durable.
    pub fn durable(&self, ticket: Ticket) -> Durable {
        self.committer.durable(ticket)
    }

    /// Freezes the present state for reading.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        Ok(Snapshot { reader: self.engine.snapshot()? })
    }

    /// Forgets the records that are in memory because they were lately written, for a check of what the engine has.
    pub fn forget_written(&self) {
        self.engine.forget();
    }

    /// Gives the attachments.
    #[must_use]
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Gives the engine, for maintenance.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    /// Writes out what is only in memory and in the log, so that the next start has nothing to replay. For an orderly stop, when nobody writes any more.
    pub fn flush(&self) -> Result<()> {
        if let Some(why) = self.committer.poisoned() {
            return Err(Error::Poisoned(why));
        }
        self.engine.sync()?;
        self.engine.flush()
    }

    pub(crate) fn checkpoint_turn(&self) -> MutexGuard<'_, ()> {
        self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the committer, for statistics and health.
    #[must_use]
    pub fn committer(&self) -> &Committer {
        &self.committer
    }
}

impl Read for Store {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.engine.get(table, key)
    }

    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.engine.multi_get(table, keys)
    }

    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.engine.scan(table, range, direction)
    }
}

/// The state of a store at one moment.
pub struct Snapshot<'store> {
    reader: Box<dyn Read + Send + Sync + 'store>,
}

impl Read for Snapshot<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.reader.get(table, key)
    }

    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.reader.multi_get(table, keys)
    }

    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.reader.scan(table, range, direction)
    }
}
