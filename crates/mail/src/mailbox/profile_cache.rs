//! In-memory cache of profile documents: preferences, identities, out of office replies. Each page of the web mail
//! needs some of them (Domino: `iNotes_WA_ProfileCacheSize`).
//!
//! An entry is used only if the header of the note, which is read with the snapshot of the request, still has the same
//! modseq, so every change by any client counts at once. All mail files share the capacity. The profiles that are
//! requested least are evicted first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{DbNumber, NoteId};
use notes::{DatabaseSnapshot, Note, NoteClass};
use quick_cache::sync::Cache;

use crate::error::Result;
use crate::limits::CACHED_PROFILE_BYTES_MAX;

/// A cache of profile documents for all mail files of a server.
#[derive(Debug)]
pub(crate) struct ProfileCache {
    notes: Cache<(DbNumber, NoteId), Arc<Note>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What the cache of profile documents has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileCacheStatistics {
    /// Requests that were answered from the cache.
    pub hits: u64,
    /// Requests for which the document was read.
    pub misses: u64,
    /// Documents in the cache.
    pub entries: u64,
}

impl ProfileCache {
    /// Creates a cache for a number of documents. With 0, nothing is cached.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { notes: Cache::new(entries_max), hits: AtomicU64::new(0), misses: AtomicU64::new(0) }
    }

    /// Returns a profile document, or `None` if it is absent or hidden.
    pub(crate) fn get(&self, reading: &DatabaseSnapshot<'_>, note: NoteId) -> Result<Option<Arc<Note>>> {
        let header = reading.header(note)?.filter(|header| header.class == NoteClass::PROFILE && !header.is_stub());
        let Some(header) = header else { return Ok(None) };
        let key = (reading.database().number(), note);
        if let Some(cached) = self.notes.get(&key).filter(|cached| cached.header.modseq == header.modseq) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(cached));
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let Some(read) = reading.note(note)?.map(Arc::new) else { return Ok(None) };
        let bytes: usize = read.items.iter().map(notes::Item::encoded_len).sum();
        if bytes <= CACHED_PROFILE_BYTES_MAX {
            self.notes.insert(key, Arc::clone(&read));
        }
        Ok(Some(read))
    }

    pub(crate) fn statistics(&self) -> ProfileCacheStatistics {
        ProfileCacheStatistics {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            entries: self.notes.len() as u64,
        }
    }
}
