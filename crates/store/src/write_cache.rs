//! An in-memory cache of recently written records.
//!
//! An engine finds a recently written record by searching its newest tables, which costs more than most of the work
//! done with the record. Servers mostly read what they have just written: counters, the roots of trees, headers of
//! notes. [`WriteCache`] is an engine on top of another one. It keeps the values of small records that were written
//! through it.
//!
//! Reads do not add to the cache. So a cached value is the latest value of its key, unless a write to the key is in
//! progress, and it is valid for every snapshot that was taken after the write: [`Known::since`] is compared with the
//! number of the last batch that the snapshot is sure to contain.
//!
//! Invariants:
//! - Before a batch goes to the underlying engine, each of its keys is marked as *changing*, and the cache answers no
//!   lookup of such a key. Afterwards the key has the new value, or is removed from the cache if the write failed or
//!   two writers changed it concurrently.
//! - A batch gets its number after it is readable in the underlying engine. A snapshot loads the last number before it
//!   is taken in the underlying engine, so it contains all batches up to that number.
//! - Keys that are changing are never evicted. All other keys may be evicted at any time.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::sync::{Mutex, MutexGuard};
use foldhash::fast::RandomState;

use crate::batch::{Batch, BatchOperation};
use crate::engine::{Cursor, Direction, Engine, KeyRange, Metrics, SortedFile, Table, TableReader};
use crate::error::{Error, Result};
use crate::limits::{CACHED_KEY_BYTES_MAX, CACHED_VALUE_BYTES_MAX, WRITE_CACHE_BYTES_MAX};

/// Number of shards, each with its own lock.
const SHARDS: usize = 64;

/// Memory of an entry in addition to its key and value.
const OVERHEAD_BYTES: usize = 64;

/// An engine that caches recent writes to another engine.
pub(crate) struct WriteCache {
    inner: Arc<dyn Engine>,
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// Number of the last batch that is known to be readable.
    written: AtomicU64,
    /// Number of writes begun, which distinguishes writes in progress.
    writes: AtomicU64,
    /// Number of range deletions and other sweeps in progress. The cache answers no lookup meanwhile.
    sweeps_in_progress: AtomicU64,
}

/// The number of a table, followed by a key.
type FullKey = Box<[u8]>;

/// The records written in some period.
///
/// The hash is fast and is seeded anew in each process. Keys that collide nevertheless cause a search through a shard
/// of some thousand entries at worst.
type Generation = HashMap<FullKey, State, RandomState>;

/// A part of the cache. It has two generations, and the older one is dropped when the younger one is full.
#[derive(Default)]
struct Shard {
    young: Generation,
    old: Generation,
    /// Size of the younger generation in bytes.
    young_bytes: usize,
    /// Number of lookups, and the number of those that the cache answered.
    lookups: u64,
    hits: u64,
}

/// The cached state of a key.
enum State {
    Changing(Changing),
    Known(Known),
}

/// Writes to a key that are in progress.
struct Changing {
    /// The write that came first.
    write: u64,
    /// Number of operations in progress.
    operations: u32,
    /// Whether the final value is unknown because several writes are in progress.
    has_conflict: bool,
}

/// A cached value.
struct Known {
    /// Number of the batch that wrote the value.
    since: u64,
    /// The value, or `None` if the key was removed.
    value: Option<Box<[u8]>>,
}

impl WriteCache {
    pub(crate) fn new(inner: Arc<dyn Engine>) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let written = AtomicU64::new(0);
        let writes = AtomicU64::new(0);
        let sweeps_in_progress = AtomicU64::new(0);
        Self { inner, shards, hasher: RandomState::default(), written, writes, sweeps_in_progress }
    }

    /// Returns the cached state of a key for a reader that sees at least the batches up to `at`: `None` if the engine
    /// must be asked, `Some(None)` if the key does not exist.
    fn lookup(&self, table: Table, key: &[u8], at: u64) -> Option<Option<Vec<u8>>> {
        if !is_cached(table, key) || self.sweeps_in_progress.load(Ordering::SeqCst) > 0 {
            return None;
        }
        let mut buffer = [0; KEY_BUFFER_BYTES];
        let full = fill(&mut buffer, table, key);
        let mut shard = self.shard(full);
        shard.lookups += 1;
        let value = match shard.find(full)? {
            State::Known(known) if known.since <= at => known.value.as_deref().map(<[u8]>::to_vec),
            _ => return None,
        };
        shard.hits += 1;
        Some(value)
    }

    /// Returns the values of several keys for a reader that sees at least the batches up to `at`. Reads those that are
    /// not cached from the engine.
    fn lookup_all(
        &self,
        inner: &dyn TableReader,
        table: Table,
        keys: &[&[u8]],
        at: u64,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let cached: Vec<Option<Option<Vec<u8>>>> = keys.iter().map(|key| self.lookup(table, key, at)).collect();
        let unknown = keys.iter().zip(&cached).filter(|(_, cached)| cached.is_none());
        let unknown: Vec<&[u8]> = unknown.map(|(key, _)| *key).collect();
        let found = if unknown.is_empty() { Vec::new() } else { inner.multi_get(table, &unknown)? };
        let mut found = found.into_iter();
        Ok(cached
            .into_iter()
            .map(|value| value.unwrap_or_else(|| found.next().expect("the engine returns a value for each key")))
            .collect())
    }

    /// Marks the keys of a batch as changing.
    fn begin(&self, batch: &Batch, write: u64) {
        self.for_each_key(batch, |shard, full, _| match shard.find(full) {
            Some(State::Changing(changing)) => {
                changing.operations += 1;
                changing.has_conflict |= changing.write != write;
            }
            _ => shard.set(full, State::Changing(Changing { write, operations: 1, has_conflict: false })),
        });
    }

    /// Records the outcome for the keys of a batch. `since` is its number, or `None` if the write failed.
    fn end(&self, batch: &Batch, since: Option<u64>) {
        self.for_each_key(batch, |shard, full, value| {
            let Some(State::Changing(changing)) = shard.find(full) else {
                unreachable!("an entry is not evicted while it changes")
            };
            changing.operations -= 1;
            if changing.operations > 0 {
                return;
            }
            let fits = value.is_none_or(|value| value.len() <= CACHED_VALUE_BYTES_MAX) && !changing.has_conflict;
            match since.filter(|_| fits) {
                Some(since) => shard.set(full, State::Known(Known { since, value: value.map(Into::into) })),
                None => shard.remove(full),
            }
        });
    }

    /// Calls `each` for every operation of a batch on a single cacheable key, in order.
    fn for_each_key(&self, batch: &Batch, mut each: impl FnMut(&mut Shard, &[u8], Option<&[u8]>)) {
        let mut buffer = [0; KEY_BUFFER_BYTES];
        for operation in batch.operations() {
            let (table, key, value) = match operation {
                BatchOperation::Put { table, key, value } => (table, key, Some(value)),
                BatchOperation::Delete { table, key } => (table, key, None),
                BatchOperation::DeleteRange { .. } => continue,
            };
            if is_cached(table, key) {
                let full = fill(&mut buffer, table, key);
                each(&mut self.shard(full), full, value);
            }
        }
    }

    /// Runs an operation that changes unknown keys, and clears the cache.
    fn clear_during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.sweeps_in_progress.fetch_add(1, Ordering::SeqCst);
        let outcome = work();
        self.clear();
        self.sweeps_in_progress.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    /// Clears the cache. Writes in progress will not add their values either.
    pub(crate) fn clear(&self) {
        self.shards.iter().for_each(|shard| lock(shard).clear());
    }

    fn shard(&self, full: &[u8]) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.hasher.hash_one(full) as usize % SHARDS])
    }
}

impl Shard {
    fn find(&mut self, full: &[u8]) -> Option<&mut State> {
        if let Some((key, state)) = self.old.remove_entry(full) {
            self.young_bytes += byte_count(&key, &state);
            self.young.insert(key, state);
        }
        self.young.get_mut(full)
    }

    /// Sets the state of a key. The caller must have called [`Shard::find`] for it.
    fn set(&mut self, full: &[u8], state: State) {
        self.young_bytes += byte_count(full, &state);
        match self.young.get_mut(full) {
            Some(known) => {
                self.young_bytes -= byte_count(full, known);
                *known = state;
            }
            None => drop(self.young.insert(full.into(), state)),
        }
        if self.young_bytes > WRITE_CACHE_BYTES_MAX / SHARDS / 2 {
            self.age();
        }
    }

    fn remove(&mut self, full: &[u8]) {
        if let Some((key, state)) = self.young.remove_entry(full) {
            self.young_bytes -= byte_count(&key, &state);
        }
    }

    /// Turns the younger generation into the older one. Keys that are changing stay in the younger one.
    fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
        self.young = self.old.extract_if(|_, state| matches!(state, State::Changing(_))).collect();
        self.young_bytes = self.young.iter().map(|(key, state)| byte_count(key, state)).sum();
    }

    /// Removes all values. Writes in progress will not add theirs.
    fn clear(&mut self) {
        self.age();
        self.old = Generation::default();
        for state in self.young.values_mut() {
            if let State::Changing(changing) = state {
                changing.has_conflict = true;
            }
        }
    }
}

impl Engine for WriteCache {
    fn write(&self, batch: &Batch) -> Result<()> {
        if batch
            .operations()
            .any(|operation| matches!(operation, BatchOperation::DeleteRange { table, .. } if CACHED[table as usize]))
        {
            return self.clear_during(|| self.inner.write(batch));
        }
        self.begin(batch, self.writes.fetch_add(1, Ordering::Relaxed));
        let outcome = self.inner.write(batch);
        let since = match outcome {
            Ok(()) => Some(self.written.fetch_add(1, Ordering::SeqCst) + 1),
            Err(_) => None,
        };
        self.end(batch, since);
        outcome
    }

    fn snapshot(&self) -> Result<Box<dyn TableReader + Send + Sync + '_>> {
        let at = self.written.load(Ordering::SeqCst);
        Ok(Box::new(CachedSnapshot { cache: self, inner: self.inner.snapshot()?, at }))
    }

    fn ingest(&self, table: Table, pairs: &mut dyn Cursor) -> Result<()> {
        self.clear_during(|| self.inner.ingest(table, pairs))
    }

    fn salvage(&self, table: Table, known: &[Error]) -> Result<Vec<SortedFile>> {
        self.clear_during(|| self.inner.salvage(table, known))
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<Error>> {
        self.inner.verify(progress)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn reclaim(&self) -> Result<()> {
        self.inner.reclaim()
    }

    fn compact(&self, table: Table, range: &KeyRange) -> Result<()> {
        self.inner.compact(table, range)
    }

    fn checkpoint(&self, target: &Path) -> Result<()> {
        self.inner.checkpoint(target)
    }

    fn check_space(&self, bytes: u64) -> Result<()> {
        self.inner.check_space(bytes)
    }

    fn write_refusal(&self) -> Option<String> {
        self.inner.write_refusal()
    }

    fn folder(&self) -> Option<&Path> {
        self.inner.folder()
    }

    fn size(&self, table: Table, range: &KeyRange) -> Result<u64> {
        self.inner.size(table, range)
    }

    fn metrics(&self) -> Metrics {
        let mut lookups = 0;
        let mut hits = 0;
        for shard in self.shards.iter().map(lock) {
            lookups += shard.lookups;
            hits += shard.hits;
        }
        let mut metrics = self.inner.metrics();
        metrics.extend([("write-cache-lookups-count".into(), lookups), ("write-cache-hits-count".into(), hits)]);
        metrics
    }
}

impl TableReader for WriteCache {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.lookup(table, key, u64::MAX).map_or_else(|| self.inner.get(table, key), Ok)
    }

    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.lookup_all(self.inner.as_ref(), table, keys, u64::MAX)
    }

    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.inner.scan(table, range, direction)
    }
}

/// A snapshot that contains at least the batches up to a number.
struct CachedSnapshot<'cache> {
    cache: &'cache WriteCache,
    inner: Box<dyn TableReader + Send + Sync + 'cache>,
    at: u64,
}

impl TableReader for CachedSnapshot<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.cache.lookup(table, key, self.at).map_or_else(|| self.inner.get(table, key), Ok)
    }

    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.cache.lookup_all(self.inner.as_ref(), table, keys, self.at)
    }

    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.inner.scan(table, range, direction)
    }
}

const KEY_BUFFER_BYTES: usize = 1 + CACHED_KEY_BYTES_MAX;

/// Whether a table is cached, by table number: those whose records are read by key.
const CACHED: [bool; Table::ALL.len()] = {
    let mut cached = [false; Table::ALL.len()];
    cached[Table::Summary as usize] = true;
    cached[Table::Body as usize] = true;
    cached[Table::Unid as usize] = true;
    cached[Table::View as usize] = true;
    cached[Table::Tree as usize] = true;
    cached[Table::Meta as usize] = true;
    cached
};

fn is_cached(table: Table, key: &[u8]) -> bool {
    CACHED[table as usize] && key.len() <= CACHED_KEY_BYTES_MAX
}

fn fill<'b>(buffer: &'b mut [u8; KEY_BUFFER_BYTES], table: Table, key: &[u8]) -> &'b [u8] {
    buffer[0] = table as u8;
    buffer[1..=key.len()].copy_from_slice(key);
    &buffer[..=key.len()]
}

fn byte_count(full: &[u8], state: &State) -> usize {
    let value = match state {
        State::Known(Known { value: Some(value), .. }) => value.len(),
        _ => 0,
    };
    full.len() + value + OVERHEAD_BYTES
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock()
}

#[cfg(test)]
mod tests;
