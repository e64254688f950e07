//! Reading a folder's index: counts, positions, entries.
//!
//! A [`FolderReader`] belongs to one snapshot and agrees with everything else that is read from it. If the folder's
//! entries are in memory ([`crate::folder_cache`]) as of the same change, they are read from there. A folder of at most
//! [`FOLDER_CACHE_LOADED_ENTRIES_MAX`] entries is loaded as a whole by the first question about positions, because that
//! reads a block of the index anyway; larger folders are cached after they were listed as a whole. What Readers items
//! hide is left out of all of it ([`crate::hidden_entries`]).

use std::sync::{Arc, OnceLock};

use base::{Pacer, Uid, ViewId};
use collection::CollectionReader;
use store::{Direction, Table, TableReader};

use crate::database::Database;
use crate::error::{Error, Result, damaged};
use crate::folder::{self, FolderEntry, FolderState, FolderTotals};
use crate::folder_cache::CachedFolder;
use crate::grant::Grant;
use crate::hidden_entries::HiddenEntries;
use crate::limits::{FOLDER_CACHE_ENTRIES_MAX, FOLDER_CACHE_LOADED_ENTRIES_MAX};
use crate::note::Marks;

/// The index of a folder in a snapshot.
pub struct FolderReader<'r> {
    entries: CollectionReader<'r>,
    database: &'r Database,
    known: FolderContext,
}

/// Data of a folder other than its index.
#[derive(Clone)]
struct FolderContext {
    view: ViewId,
    state: FolderState,
    /// The entries in memory, as of `state.highest_modseq`, once they were found there or loaded.
    cached_folder: Arc<OnceLock<Arc<CachedFolder>>>,
    hidden: Arc<HiddenEntries>,
}

/// The data that a reader collected when it was opened, for another reader of the same folder in the same snapshot.
#[derive(Clone)]
pub(crate) struct FolderReaderState {
    index: collection::reader::OpenedRoot,
    known: FolderContext,
}

impl<'r> FolderReader<'r> {
    pub(crate) fn open(reader: &'r dyn TableReader, database: &'r Database, view: ViewId) -> Result<Self> {
        let id = folder::collection_id(database.number, view);
        let entries = CollectionReader::open(reader, id)?;
        let state = FolderState::decode(entries.state()).map_err(|_| Error::not_found(format!("folder {view}")))?;
        let known = FolderContext { view, state, cached_folder: Arc::default(), hidden: Arc::default() };
        Ok(Self { entries, database, known })
    }

    /// Opens the folder again. `reader` must show the same moment, to the same identity.
    pub(crate) fn reopen(reader: &'r dyn TableReader, database: &'r Database, opening: &FolderReaderState) -> Self {
        Self { entries: CollectionReader::reopen(reader, &opening.index), database, known: opening.known.clone() }
    }

    /// Returns the data that was collected when this reader was opened.
    pub(crate) fn opening(&self) -> FolderReaderState {
        FolderReaderState { index: self.entries.opening(), known: self.known.clone() }
    }

    /// Leaves out the entries that Readers items hide from the holder of a grant, and those that are held.
    pub(crate) fn hide_entries(mut self, reader: &dyn TableReader, grant: &Grant, pacer: &dyn Pacer) -> Result<Self> {
        let mut hidden = HiddenEntries::find(reader, self.database, grant, &self.entries, pacer)?;
        if self.known.state.may_hold_entries() {
            hidden.add_held(&self.entries, self.known.state.uid_next)?;
        }
        self.known.hidden = Arc::new(hidden);
        Ok(self)
    }

    /// Returns UIDVALIDITY, the next UID and the highest modseq.
    #[must_use]
    pub fn state(&self) -> FolderState {
        self.known.state
    }

    /// Returns the greatest UID that a client may know of this folder, also from another server.
    #[must_use]
    pub fn last_uid_anywhere(&self) -> Uid {
        self.known.state.last_uid_anywhere(self.database.clock.now())
    }

    /// Returns the counts.
    pub fn totals(&self) -> Result<FolderTotals> {
        let totals = self.entries.totals()?;
        let sum = |index: usize| u64::try_from(totals.sums.value(index)).unwrap_or(0);
        let totals =
            FolderTotals { count: totals.count, unseen: sum(0), deleted: sum(1), size: sum(2), restricted: sum(3) };
        Ok(self.known.hidden.subtract_from(totals))
    }

    /// Returns the entry with a UID.
    pub fn entry(&self, uid: Uid) -> Result<Option<FolderEntry>> {
        if self.known.hidden.contains(uid) {
            return Ok(None);
        }
        if let Some(cached) = self.cached_folder() {
            return Ok(cached.entry(uid).cloned());
        }
        let Some(value) = self.entries.find(&uid.to_key())? else { return Ok(None) };
        FolderEntry::decode(uid, &value).map(Some).map_err(|_| damaged(Table::View, &uid.to_key()))
    }

    /// Returns the number of entries with smaller UIDs.
    pub fn rank(&self, uid: Uid) -> Result<u64> {
        let hidden = self.known.hidden.count_before(uid);
        if let Some(cached) = self.cached_or_loaded_folder()? {
            return Ok((cached.rank(uid) as u64).saturating_sub(hidden));
        }
        Ok(self.entries.rank(&uid.to_key())?.saturating_sub(hidden))
    }

    /// Returns the UID at a position, counted from 0.
    pub fn uid_at(&self, position: u64) -> Result<Option<Uid>> {
        self.any_uid_at(self.known.hidden.position_among_all(position))
    }

    fn any_uid_at(&self, position: u64) -> Result<Option<Uid>> {
        if let Some(cached) = self.cached_or_loaded_folder()? {
            let entry = usize::try_from(position).ok().and_then(|position| cached.entries().get(position));
            return Ok(entry.map(|entry| entry.uid));
        }
        let Some(entry) = self.entries.entry_at(position)? else { return Ok(None) };
        folder::uid_of_key(&entry.key).map(Some).ok_or_else(|| damaged(Table::View, &entry.key))
    }

    /// Returns entry number `position`, counted from 0, of those that the owner has not read.
    pub fn unseen_at(&self, position: u64) -> Result<Option<FolderEntry>> {
        let is_unseen = |marks: Marks| !marks.contains(Marks::SEEN);
        let any = |number| {
            let found = self.nth(0, number, |entry| is_unseen(entry.marks))?;
            Ok(found.map(|entry| (entry.uid, entry)))
        };
        self.known.hidden.nth(position, is_unseen, any)
    }

    /// Returns entry number `position`, counted from 0, of those that are marked as deleted.
    pub fn deleted_at(&self, position: u64) -> Result<Option<FolderEntry>> {
        let is_deleted = |marks: Marks| marks.contains(Marks::DELETED);
        let any = |number| {
            let found = self.nth(1, number, |entry| is_deleted(entry.marks))?;
            Ok(found.map(|entry| (entry.uid, entry)))
        };
        self.known.hidden.nth(position, is_deleted, any)
    }

    /// Returns entry number `position` of those that a sum counts. `counts` returns `true` for these entries.
    fn nth(&self, sum: usize, position: u64, counts: impl Fn(&FolderEntry) -> bool) -> Result<Option<FolderEntry>> {
        if let Some(cached) = self.cached_or_loaded_folder()? {
            let position = usize::try_from(position).unwrap_or(usize::MAX);
            return Ok(cached.entries().iter().filter(|entry| counts(entry)).nth(position).cloned());
        }
        let found = self.entries.entry_at_sum(sum, position, &folder::FolderWeights)?;
        let Some((_, entry)) = found else { return Ok(None) };
        entry_of(&entry.key, &entry.value).map(Some)
    }

    /// Calls `each` for the entries from UID `first` on, in ascending order, until it returns `false`.
    pub fn for_each_entry(&self, first: Uid, each: &mut dyn FnMut(FolderEntry) -> Result<bool>) -> Result<()> {
        let mut each = |entry: FolderEntry| if self.known.hidden.contains(entry.uid) { Ok(true) } else { each(entry) };
        if let Some(cached) = self.cached_or_loaded_folder()? {
            for entry in cached.entries_from(first) {
                if !each(entry.clone())? {
                    break;
                }
            }
            return Ok(());
        }
        let range = store::KeyRange { start: first.to_key().to_vec(), end: None };
        let mut cursor = self.entries.scan(&range, Direction::Forward)?;
        let mut scan = CompleteScan::new(self.entries.count()?);
        while let Some((key, value)) = cursor.next()? {
            let entry = entry_of(key, value)?;
            scan.add(&entry);
            if !each(entry)? {
                return Ok(());
            }
        }
        if let Some(entries) = scan.finish() {
            self.cache(entries);
        }
        Ok(())
    }

    /// Returns the folder's entries if they are in memory.
    fn cached_folder(&self) -> Option<&CachedFolder> {
        let known = &self.known;
        if known.cached_folder.get().is_none() {
            let cached = self.database.folder_cache.get(known.view, known.state.highest_modseq)?;
            return Some(known.cached_folder.get_or_init(|| cached));
        }
        known.cached_folder.get().map(AsRef::as_ref)
    }

    /// Returns the folder's entries if they are in memory, or few enough to be loaded.
    fn cached_or_loaded_folder(&self) -> Result<Option<&CachedFolder>> {
        if let Some(cached) = self.cached_folder() {
            return Ok(Some(cached));
        }
        let count = self.entries.count()?;
        if count > FOLDER_CACHE_LOADED_ENTRIES_MAX {
            return Ok(None);
        }
        let mut cursor = self.entries.scan(&store::KeyRange::all(), Direction::Forward)?;
        let mut scan = CompleteScan::new(count);
        while let Some((key, value)) = cursor.next()? {
            scan.add(&entry_of(key, value)?);
        }
        // A folder that does not agree with its counts is left to the index, which reports it.
        Ok(scan.finish().map(|entries| self.cache(entries)))
    }

    /// Caches all entries of the folder, for this reader and for later ones.
    fn cache(&self, entries: Vec<FolderEntry>) -> &CachedFolder {
        let known = &self.known;
        known.cached_folder.get_or_init(|| {
            let cached = Arc::new(CachedFolder::new(known.state.highest_modseq, entries));
            self.database.folder_cache.insert(known.view, Arc::clone(&cached));
            cached
        })
    }
}

/// Decodes an entry of the index.
fn entry_of(key: &[u8], value: &[u8]) -> Result<FolderEntry> {
    let uid = folder::uid_of_key(key).ok_or_else(|| damaged(Table::View, key))?;
    FolderEntry::decode(uid, value).map_err(|_| damaged(Table::View, key))
}

/// The entries of a scan, collected to cache them if the scan was complete.
struct CompleteScan {
    count: usize,
    entries: Option<Vec<FolderEntry>>,
}

impl CompleteScan {
    fn new(count: u64) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Self { count, entries: (count <= FOLDER_CACHE_ENTRIES_MAX).then(|| Vec::with_capacity(count)) }
    }

    fn add(&mut self, entry: &FolderEntry) {
        if let Some(entries) = &mut self.entries {
            entries.push(entry.clone());
        }
    }

    fn finish(self) -> Option<Vec<FolderEntry>> {
        self.entries.filter(|entries| entries.len() == self.count)
    }
}
