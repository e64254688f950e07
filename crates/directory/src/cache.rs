//! The name lookup cache: what names stand for, within a budget of bytes, never stale after a commit.
//!
//! The directory has a *generation*: a number that rises with every transaction on `names.nsf` (its modseq). A look-up
//! goes like this, and [`NameCache::get`] does it in this order:
//!
//! 1. read the generation, *before* the snapshot is taken;
//! 2. an entry counts only if it carries this very generation;
//! 3. else take a snapshot, read, and store the answer under the generation of step 1.
//!
//! Why it cannot be stale: an answer is read from a snapshot taken after its generation was read, so it shows at least the
//! state of that generation. A commit raises the generation before it returns, so whoever looks up after a
//! commit has returned reads a later generation, at which no older entry counts. An answer may be *newer* than its generation says;
//! that costs one more look-up and harms nobody.
//!
//! The price is that a change of the directory empties the cache as a whole. Changes are rare beside look-ups, whoever makes
//! them (this room, replication, a client that edits the directory), and none can be forgotten.
//!
//! That a name stands for nothing is remembered too. Memory is bounded by the sum of what [`Weigh::bytes`] says.

use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Bytes that an entry takes beside its key and value: the entry itself and its place in the cache.
const ENTRY_BYTES: u64 = 96;

/// Entries are expected to take about this many bytes; only the initial layout depends on it.
const ENTRY_BYTES_EXPECTED: u64 = 512;

/// Tells how much memory a value takes.
pub trait Weigh {
    /// Gives the bytes, those on the heap included.
    fn bytes(&self) -> usize;
}

/// What the cache has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Look-ups.
    pub lookups: u64,
    /// Look-ups that the cache answered.
    pub hits: u64,
    /// Look-ups that went to the database.
    pub misses: u64,
    /// Entries that were found but did not count any more, because the directory had changed; part of the misses.
    pub invalidations: u64,
    /// Entries that are held now.
    pub entries: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes that they may take.
    pub bytes_max: u64,
}

/// A cache of look-ups by name. Shared by all sessions.
pub struct NameCache<V> {
    entries: Cache<String, Entry<V>, Weight>,
    bytes_max: u64,
    lookups: AtomicU64,
    hits: AtomicU64,
    invalidations: AtomicU64,
}

#[derive(Clone)]
struct Entry<V> {
    generation: u64,
    value: V,
}

#[derive(Clone)]
struct Weight;

impl<V: Weigh> Weighter<String, Entry<V>> for Weight {
    fn weight(&self, key: &String, entry: &Entry<V>) -> u64 {
        ENTRY_BYTES + key.len() as u64 + entry.value.bytes() as u64
    }
}

/// A generation that was read, before the snapshot that a miss will need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u64);

impl Generation {
    /// Takes note of the present generation. Never call this after the snapshot was taken.
    #[must_use]
    pub const fn before_snapshot(present: u64) -> Self {
        Self(present)
    }
}

impl<V: Clone + Weigh> NameCache<V> {
    /// Makes an empty cache that holds at most `bytes_max` bytes; zero switches it off.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        let expected = usize::try_from(bytes_max / ENTRY_BYTES_EXPECTED).unwrap_or(usize::MAX);
        Self {
            entries: Cache::with_weighter(expected, bytes_max, Weight),
            bytes_max,
            lookups: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            invalidations: AtomicU64::new(0),
        }
    }

    /// Gives the value of a key: from the cache, or through `load`, which takes its snapshot itself.
    pub fn get<E>(
        &self,
        key: &str,
        present_generation: impl FnOnce() -> u64,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, E> {
        let generation = Generation::before_snapshot(present_generation());
        if let Some(value) = self.find(key, generation) {
            return Ok(value);
        }
        let value = load()?;
        self.insert(key, generation, value.clone());
        Ok(value)
    }

    /// Gives the value of a key if it is held and counts at this generation.
    pub fn find(&self, key: &str, generation: Generation) -> Option<V> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let entry = self.entries.get(key)?;
        if entry.generation != generation.0 {
            self.invalidations.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(entry.value)
    }

    /// Holds a value that was read from a snapshot taken after the generation was.
    pub fn insert(&self, key: &str, generation: Generation, value: V) {
        if self.bytes_max > 0 {
            self.entries.insert(key.to_owned(), Entry { generation: generation.0, value });
        }
    }

    /// Gives the statistics.
    pub fn statistics(&self) -> Statistics {
        let lookups = self.lookups.load(Ordering::Relaxed);
        let hits = self.hits.load(Ordering::Relaxed);
        Statistics {
            lookups,
            hits,
            misses: lookups.saturating_sub(hits),
            invalidations: self.invalidations.load(Ordering::Relaxed),
            entries: self.entries.len() as u64,
            bytes: self.entries.weight(),
            bytes_max: self.bytes_max,
        }
    }
}

#[cfg(test)]
mod tests;
