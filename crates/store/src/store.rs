//! The store as the crates above see it: an engine, its committer and its blobs.

use std::path::Path;
use std::sync::Arc;

use base::sync::{Mutex, MutexGuard};

use crate::batch::Batch;
use crate::blob::Blobs;
use crate::commit::{Committer, DurableFuture, Ticket};
use crate::engine::{Cursor, Direction, Engine, KeyRange, Table, TableReader};
use crate::error::{Error, Result};
use crate::rocks::RocksEngine;
use crate::write_cache::WriteCache;

pub use crate::rocks::StoreOptions;

/// A store: durable tables with group commit, and blobs.
pub struct Store {
    /// The committer. It must be the first field: fields are dropped in order, and its thread must end before the
    /// engine closes.
    committer: Committer,
    blobs: Blobs,
    engine: Arc<WriteCache>,
    /// Lock that allows one checkpoint at a time, because checkpoints for backups share one folder.
    checkpoint: Mutex<()>,
}

impl Store {
    /// Opens the store in a folder, or creates one there.
    pub fn open(folder: &Path, options: &StoreOptions) -> Result<Self> {
        let engine = Arc::new(RocksEngine::open(folder, options)?);
        Self::with_engine(engine, options)
    }

    /// Creates a store over any engine.
    pub fn with_engine(engine: Arc<dyn Engine>, options: &StoreOptions) -> Result<Self> {
        let engine = Arc::new(WriteCache::new(engine));
        let committer = Committer::start(Arc::clone(&engine) as Arc<dyn Engine>, options.sync)?;
        let blobs = Blobs::open(Arc::clone(&engine) as Arc<dyn Engine>, &options.blobs)?;
        Ok(Self { committer, blobs, engine, checkpoint: Mutex::new(()) })
    }

    /// Applies a batch. It is visible at once, and durable when the ticket is.
    pub fn commit(&self, batch: &Batch) -> Result<Ticket> {
        self.committer.commit(batch)
    }

    /// Returns a future that is ready when a ticket is durable.
    pub fn durable(&self, ticket: Ticket) -> DurableFuture {
        self.committer.durable(ticket)
    }

    /// Returns a read-only snapshot of the current state.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        Ok(Snapshot { reader: self.engine.snapshot()? })
    }

    /// Clears the cache of recently written records, so that a check reads from the engine.
    pub fn clear_write_cache(&self) {
        self.engine.clear();
    }

    /// Returns the attachments of the store.
    #[must_use]
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Returns the engine, for maintenance.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    /// Flushes the data that is only in memory and in the log, so that the next start has nothing to replay. For an
    /// orderly shutdown, after the last write.
    ///
    /// Returns [`Error::Poisoned`] if the store is poisoned.
    pub fn flush(&self) -> Result<()> {
        if let Some(reason) = self.committer.poison_reason() {
            return Err(Error::Poisoned(reason));
        }
        self.engine.sync()?;
        self.engine.flush()
    }

    pub(crate) fn lock_checkpoint(&self) -> MutexGuard<'_, ()> {
        self.checkpoint.lock()
    }

    /// Returns the committer, for statistics and health checks.
    #[must_use]
    pub fn committer(&self) -> &Committer {
        &self.committer
    }
}

impl TableReader for Store {
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

/// A read-only view of the state of a store at one moment.
pub struct Snapshot<'store> {
    reader: Box<dyn TableReader + Send + Sync + 'store>,
}

impl TableReader for Snapshot<'_> {
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
