//! The name lookup cache: maps names to directory entries, within a budget of bytes, and is never stale after a commit.
//!
//! The directory has a *generation*: a number that increases with every transaction on `names.nsf` (its modseq).
//! [`NameCache::get`] performs a lookup in this order:
//!
//! 1. Read the generation, *before* the snapshot is taken.
//! 2. Use a cached entry only if it carries exactly this generation.
//! 3. Otherwise take a snapshot, read, and store the answer under the generation of step 1.
//!
//! The cache cannot be stale: an answer is read from a snapshot taken after its generation was read, so it reflects at
//! least the state of that generation. A commit increases the generation before it returns, so a lookup that starts
//! after the commit reads a later generation, for which no older entry is valid. An answer may be *newer* than its
//! generation; this costs one more lookup and is harmless.
//!
//! The price is that any change of the directory invalidates the whole cache. Changes are rare compared to lookups,
//! whatever their source (this crate, replication, a client that edits the directory), and no change can be missed.
//!
//! Lookups that found nothing are cached too. The memory used is bounded by the sum of [`MemorySize::bytes`].

use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Overhead of an entry besides its key and value, in bytes: the entry itself and its slot in the cache.
const ENTRY_BYTES: u64 = 96;

/// Expected size of an entry in bytes. Affects only the initial layout.
const ENTRY_BYTES_EXPECTED: u64 = 512;

/// The memory use of a value.
pub trait MemorySize {
    /// Returns the size of the value in bytes, including its heap memory.
    fn bytes(&self) -> usize;
}

/// Statistics of the cache since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheStatistics {
    /// Number of lookups.
    pub lookups: u64,
    /// Number of lookups answered by the cache.
    pub hits: u64,
    /// Number of lookups answered by the database.
    pub misses: u64,
    /// Number of entries that were found but invalid because the directory had changed. Included in the misses.
    pub invalidations: u64,
    /// Current number of entries.
    pub entries: u64,
    /// Current size of the entries in bytes.
    pub bytes: u64,
    /// Maximum size of the entries in bytes.
    pub bytes_max: u64,
}

/// A cache of lookups by name, shared by all sessions.
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

impl<V: MemorySize> Weighter<String, Entry<V>> for Weight {
    fn weight(&self, key: &String, entry: &Entry<V>) -> u64 {
        ENTRY_BYTES + key.len() as u64 + entry.value.bytes() as u64
    }
}

/// A generation that was read before the snapshot for a cache miss is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation(u64);

impl Generation {
    /// Wraps the current generation. Must not be called after the snapshot is taken.
    #[must_use]
    pub const fn before_snapshot(present: u64) -> Self {
        Self(present)
    }
}

impl<V: Clone + MemorySize> NameCache<V> {
    /// Creates an empty cache of at most `bytes_max` bytes; 0 disables the cache.
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

    /// Returns the value of a key from the cache or from `load`, which takes its snapshot itself.
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

    /// Returns the cached value of a key if it is valid for this generation.
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

    /// Adds a value that was read from a snapshot taken after `generation` was read.
    pub fn insert(&self, key: &str, generation: Generation, value: V) {
        if self.bytes_max > 0 {
            self.entries.insert(key.to_owned(), Entry { generation: generation.0, value });
        }
    }

    /// Returns the statistics.
    pub fn statistics(&self) -> CacheStatistics {
        let lookups = self.lookups.load(Ordering::Relaxed);
        let hits = self.hits.load(Ordering::Relaxed);
        CacheStatistics {
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
