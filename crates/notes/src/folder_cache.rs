//! Cache of folders: the entries of folders that were recently read completely.
//!
//! A list of messages, a search or a sequence number in a mailbox of some hundred messages repeatedly reads all its
//! entries or their neighbors. The store looks them up by key, newest version first. For entries whose marks just
//! changed, this costs more than using them. A [`CachedFolder`] contains the entries of a folder in an array, as of
//! the folder's last change. A transaction that changes or removes an entry takes the stored one from there, too.
//!
//! Invariants: a folder returned from the cache has the same entries as the index in every snapshot with the same
//! [`crate::FolderState::highest_modseq`], because no transaction changes a folder without raising that. A transaction
//! that changes a cached folder updates it before it releases the database's lock. A repair drops the cached folders,
//! also under the lock.
//!
//! Only folders of at most [`FOLDER_CACHE_ENTRIES_MAX`] entries are cached, and at most [`FOLDER_CACHE_BYTES_MAX`] in
//! total per server. Those that were not used for a while are dropped ([`FolderCache::evict_unused`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::sync::{Mutex, MutexGuard};
use base::{Modseq, Uid, ViewId};

use crate::folder::FolderEntry;
use crate::limits::{FOLDER_CACHE_BYTES_MAX, FOLDER_CACHE_ENTRIES_MAX};

/// The entries of a folder as of its last change.
#[derive(Clone, Debug)]
pub(crate) struct CachedFolder {
    highest_modseq: Modseq,
    /// Sorted by UID.
    entries: Vec<FolderEntry>,
}

impl CachedFolder {
    /// Creates a cached folder from all its entries, sorted by UID.
    pub(crate) fn new(highest_modseq: Modseq, entries: Vec<FolderEntry>) -> Self {
        Self { highest_modseq, entries }
    }

    /// Returns the entries from a UID on.
    pub(crate) fn entries_from(&self, first: Uid) -> &[FolderEntry] {
        &self.entries[self.rank(first)..]
    }

    /// Returns all entries.
    pub(crate) fn entries(&self) -> &[FolderEntry] {
        &self.entries
    }

    /// Returns the entry with a UID.
    pub(crate) fn entry(&self, uid: Uid) -> Option<&FolderEntry> {
        self.entries.binary_search_by_key(&uid, |entry| entry.uid).ok().map(|index| &self.entries[index])
    }

    /// Returns the number of entries with smaller UIDs.
    pub(crate) fn rank(&self, uid: Uid) -> usize {
        self.entries.partition_point(|entry| entry.uid < uid)
    }

    fn apply(&mut self, uid: Uid, entry: Option<FolderEntry>) {
        match (self.entries.binary_search_by_key(&uid, |entry| entry.uid), entry) {
            (Ok(index), Some(entry)) => self.entries[index] = entry,
            (Ok(index), None) => drop(self.entries.remove(index)),
            (Err(index), Some(entry)) => self.entries.insert(index, entry),
            (Err(_), None) => {}
        }
    }

    fn byte_count(&self) -> usize {
        self.entries.capacity() * size_of::<FolderEntry>()
    }
}

/// The changes of a transaction to a folder.
#[derive(Debug)]
pub(crate) struct FolderChange {
    /// Modseq of the folder's previous change.
    pub(crate) before: Modseq,
    /// The new and changed entries. `None` marks a removed entry.
    pub(crate) entries: Vec<(Uid, Option<FolderEntry>)>,
}

/// Total size of the cached folders of all databases in bytes.
pub(crate) type CacheBudget = Arc<AtomicUsize>;

/// The cached folders of one database.
#[derive(Debug)]
pub(crate) struct FolderCache {
    folders: Mutex<HashMap<ViewId, CacheSlot>>,
    budget: CacheBudget,
}

#[derive(Debug)]
struct CacheSlot {
    cached_folder: Arc<CachedFolder>,
    /// Number of bytes that this folder added to the budget.
    byte_count: usize,
    /// `true` if the folder was requested since the last eviction.
    used: bool,
}

impl FolderCache {
    pub(crate) fn new(budget: CacheBudget) -> Self {
        Self { folders: Mutex::default(), budget }
    }

    /// Returns the entries of a folder whose last change is `highest_modseq`, if they are cached.
    pub(crate) fn get(&self, folder: ViewId, highest_modseq: Modseq) -> Option<Arc<CachedFolder>> {
        let mut folders = self.lock();
        let slot = folders.get_mut(&folder).filter(|slot| slot.cached_folder.highest_modseq == highest_modseq)?;
        slot.used = true;
        Some(Arc::clone(&slot.cached_folder))
    }

    /// Returns the entries like [`Self::get`], for a writer. This does not count as a use, since otherwise folders that
    /// only receive mail would stay cached.
    pub(crate) fn peek(&self, folder: ViewId, highest_modseq: Modseq) -> Option<Arc<CachedFolder>> {
        let folders = self.lock();
        folders
            .get(&folder)
            .map(|slot| &slot.cached_folder)
            .filter(|cached| cached.highest_modseq == highest_modseq)
            .cloned()
    }

    /// Caches a folder, unless a newer state of it is cached or the limits are exceeded.
    pub(crate) fn insert(&self, folder: ViewId, cached_folder: Arc<CachedFolder>) {
        let mut folders = self.lock();
        if folders.get(&folder).is_some_and(|slot| slot.cached_folder.highest_modseq >= cached_folder.highest_modseq) {
            return;
        }
        if let Some(older) = folders.remove(&folder) {
            self.budget.fetch_sub(older.byte_count, Ordering::Relaxed);
        }
        self.insert_slot(&mut folders, folder, CacheSlot { cached_folder, byte_count: 0, used: true });
    }

    /// Updates a cached folder after a transaction with the modseq `after`. The caller holds the database's lock.
    pub(crate) fn apply_transaction(&self, folder: ViewId, after: Modseq, change: FolderChange) {
        let mut folders = self.lock();
        // A reader may have cached a newer state already: it can read the writes of the transaction before the
        // transaction updates the cached folder.
        if folders.get(&folder).is_none_or(|slot| slot.cached_folder.highest_modseq >= after) {
            return;
        }
        let Some(mut slot) = folders.remove(&folder) else { return };
        self.budget.fetch_sub(slot.byte_count, Ordering::Relaxed);
        if slot.cached_folder.highest_modseq != change.before {
            return;
        }
        let changed = Arc::make_mut(&mut slot.cached_folder);
        for (uid, entry) in change.entries {
            changed.apply(uid, entry);
        }
        changed.highest_modseq = after;
        self.insert_slot(&mut folders, folder, slot);
    }

    /// Drops all cached folders.
    pub(crate) fn clear(&self) {
        for (_, slot) in self.lock().drain() {
            self.budget.fetch_sub(slot.byte_count, Ordering::Relaxed);
        }
    }

    /// Drops the cached folders that were not requested since the last call.
    pub(crate) fn evict_unused(&self) {
        self.lock().retain(|_, slot| {
            let used = std::mem::take(&mut slot.used);
            if !used {
                self.budget.fetch_sub(slot.byte_count, Ordering::Relaxed);
            }
            used
        });
    }

    fn insert_slot(&self, folders: &mut HashMap<ViewId, CacheSlot>, folder: ViewId, mut slot: CacheSlot) {
        slot.byte_count = slot.cached_folder.byte_count();
        let fits = slot.cached_folder.entries.len() <= FOLDER_CACHE_ENTRIES_MAX
            && self.budget.load(Ordering::Relaxed).saturating_add(slot.byte_count) <= FOLDER_CACHE_BYTES_MAX;
        if fits {
            self.budget.fetch_add(slot.byte_count, Ordering::Relaxed);
            folders.insert(folder, slot);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ViewId, CacheSlot>> {
        self.folders.lock()
    }
}

impl Drop for FolderCache {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use base::{NoteId, Timestamp};

    use super::*;
    use crate::note::Marks;

    const FOLDER: ViewId = ViewId(7);

    fn entry(uid: u32) -> FolderEntry {
        FolderEntry {
            uid: Uid(uid),
            note: NoteId(uid),
            marks: Marks::default(),
            composed: false,
            restricted: false,
            modseq: Modseq(1),
            size: 1,
            crlf_growth: 0,
            received: Timestamp(0),
            saved: Timestamp(0),
            keywords: Vec::new(),
        }
    }

    fn cached_folder(modseq: u64, uids: &[u32]) -> Arc<CachedFolder> {
        Arc::new(CachedFolder::new(Modseq(modseq), uids.iter().copied().map(entry).collect()))
    }

    fn uids(cache: &FolderCache, modseq: u64) -> Option<Vec<u32>> {
        let found = cache.get(FOLDER, Modseq(modseq))?;
        Some(found.entries().iter().map(|entry| entry.uid.0).collect())
    }

    #[test]
    fn cached_folder_follows_transactions() {
        let cache = FolderCache::new(CacheBudget::default());
        cache.insert(FOLDER, cached_folder(5, &[1, 3]));
        let entries = vec![(Uid(1), None), (Uid(2), Some(entry(2))), (Uid(9), Some(entry(9))), (Uid(8), None)];
        cache.apply_transaction(FOLDER, Modseq(6), FolderChange { before: Modseq(5), entries });
        assert_eq!((uids(&cache, 5), uids(&cache, 6)), (None, Some(vec![2, 3, 9])));
    }

    #[test]
    fn cached_folder_that_missed_a_transaction_is_dropped() {
        let cache = FolderCache::new(CacheBudget::default());
        cache.insert(FOLDER, cached_folder(5, &[1]));
        cache.apply_transaction(FOLDER, Modseq(8), FolderChange { before: Modseq(7), entries: Vec::new() });
        assert_eq!(uids(&cache, 8), None);
        assert_eq!(cache.budget.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn reader_may_cache_a_folder_before_its_transaction_applies() {
        let cache = FolderCache::new(CacheBudget::default());
        cache.insert(FOLDER, cached_folder(5, &[1]));
        cache.insert(FOLDER, cached_folder(6, &[1, 2]));
        cache.apply_transaction(
            FOLDER,
            Modseq(6),
            FolderChange { before: Modseq(5), entries: vec![(Uid(2), Some(entry(2)))] },
        );
        assert_eq!(uids(&cache, 6), Some(vec![1, 2]));
    }

    #[test]
    fn older_cached_folder_does_not_replace_a_newer_one() {
        let cache = FolderCache::new(CacheBudget::default());
        cache.insert(FOLDER, cached_folder(6, &[1, 2]));
        cache.insert(FOLDER, cached_folder(5, &[1]));
        assert_eq!(uids(&cache, 6), Some(vec![1, 2]));
    }

    #[test]
    fn memory_is_bounded_and_released() {
        let budget = CacheBudget::default();
        let cache = FolderCache::new(Arc::clone(&budget));
        let large: Vec<u32> = (1..=u32::try_from(FOLDER_CACHE_ENTRIES_MAX).unwrap() + 1).collect();
        cache.insert(FOLDER, cached_folder(5, &large));
        assert_eq!(uids(&cache, 5), None, "the folder is too large");
        cache.insert(FOLDER, cached_folder(5, &[1]));
        cache.evict_unused();
        assert!(cache.peek(FOLDER, Modseq(5)).is_some(), "a new entry survives one eviction");
        cache.evict_unused();
        assert!(cache.peek(FOLDER, Modseq(5)).is_none(), "a writer does not keep it");
        cache.insert(FOLDER, cached_folder(5, &[1]));
        assert!(uids(&cache, 5).is_some());
        cache.evict_unused();
        cache.evict_unused();
        assert_eq!((uids(&cache, 5), budget.load(Ordering::Relaxed)), (None, 0));
        budget.store(FOLDER_CACHE_BYTES_MAX, Ordering::Relaxed);
        cache.insert(FOLDER, cached_folder(5, &[1]));
        assert_eq!(uids(&cache, 5), None, "the budget is used up");
    }

    #[test]
    fn dropped_cache_releases_its_memory() {
        let budget = CacheBudget::default();
        let cache = FolderCache::new(Arc::clone(&budget));
        cache.insert(FOLDER, cached_folder(5, &[1, 2, 3]));
        assert!(budget.load(Ordering::Relaxed) > 0);
        drop(cache);
        assert_eq!(budget.load(Ordering::Relaxed), 0);
    }
}
