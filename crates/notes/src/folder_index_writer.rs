//! The index of a folder within a transaction.
//!
//! A [`FolderIndexWriter`] exists while the lock of its database is held, one per folder and transaction. It collects
//! the changes of the transaction to the folder: for the index, into which they are written at the end, and for the
//! cached folder ([`crate::folder_cache`]), which follows them when the transaction is published.
//!
//! The entries that it replaces or removes come from the cached folder, if that is as of the modseq that the
//! transaction found in the index, and otherwise from the index. UIDs above all those in the index are new and need no
//! lookup.

use std::collections::HashMap;
use std::sync::Arc;

use base::{Modseq, NoteId, Uid, ViewId};
use collection::CollectionWriter;
use store::{Batch, Table};

use crate::database::Database;
use crate::error::{Error, Result};
use crate::folder::{self, FolderEntry, FolderState, FolderWeights};
use crate::folder_cache::{CachedFolder, FolderChange};

/// A folder's index that changes.
pub(crate) struct FolderIndexWriter<'t> {
    entries: CollectionWriter<'t>,
    pub(crate) state: FolderState,
    /// No stored entry has this UID or a later one.
    first_new_uid: Uid,
    /// `true` if this transaction has shown entries that were held.
    pub(crate) has_released: bool,
    /// The UIDs of other replicas that this transaction has taken over.
    pub(crate) claimed: HashMap<Uid, NoteId>,
    /// The stored entries, if they are in memory. They are released before the transaction is published, so that the
    /// cache can change them in place.
    cached: Option<Arc<CachedFolder>>,
    change: FolderChange,
}

impl<'t> FolderIndexWriter<'t> {
    /// Opens a folder as the last transaction left it.
    pub(crate) fn open(database: &'t Database, view: ViewId) -> Result<Self> {
        let id = folder::collection_id(database.number, view);
        let entries = CollectionWriter::open(database.store.as_ref(), id, &FolderWeights)?;
        let state = FolderState::decode(entries.state())
            .map_err(|_| Error::not_found(format!("folder {view} of {}", database.path())))?;
        let cached = database.folder_cache.peek(view, state.highest_modseq);
        Ok(Self { cached, ..Self::new(entries, state) })
    }

    /// Creates the index of a new folder.
    pub(crate) fn create(database: &'t Database, view: ViewId, state: FolderState) -> Result<Self> {
        let id = folder::collection_id(database.number, view);
        let mut entries = CollectionWriter::open(database.store.as_ref(), id, &FolderWeights)?;
        entries.set_state(&state.encode());
        Ok(Self::new(entries, state))
    }

    fn new(entries: CollectionWriter<'t>, state: FolderState) -> Self {
        let change = FolderChange { before: state.highest_modseq, entries: Vec::new() };
        Self {
            entries,
            state,
            first_new_uid: state.end(),
            has_released: false,
            claimed: HashMap::new(),
            cached: None,
            change,
        }
    }

    /// Adds an entry, or replaces the one with its UID. An entry that is replaced keeps the time at which the note was
    /// added to the folder.
    pub(crate) fn put_entry(&mut self, mut entry: FolderEntry) -> Result<()> {
        let uid = entry.uid;
        let key = uid.to_key();
        assert!(uid < self.state.end(), "the UID was allocated by the folder");
        if uid >= self.first_new_uid {
            self.entries.insert(&key, &entry.encode())?;
        } else if let Some(old) = self.cached.as_ref().and_then(|cached| cached.entry(uid)) {
            entry.saved = old.saved;
            self.entries.put_known(&key, &entry.encode(), old.weight())?;
        } else {
            let stored = self.entries.find(&key)?;
            if let Some(old) = stored.and_then(|value| FolderEntry::decode(uid, &value).ok()) {
                entry.saved = old.saved;
            }
            self.entries.put(&key, &entry.encode())?;
        }
        self.change.entries.push((uid, Some(entry)));
        Ok(())
    }

    /// Returns the note of the stored entry with a UID, or `None` if there is none.
    pub(crate) fn stored_note(&mut self, uid: Uid) -> Result<Option<NoteId>> {
        if uid >= self.first_new_uid {
            return Ok(None);
        }
        let stored = self.entries.find(&uid.to_key())?;
        Ok(stored.and_then(|value| FolderEntry::decode(uid, &value).ok()).map(|entry| entry.note))
    }

    /// Removes the stored entry with a UID.
    pub(crate) fn remove_entry(&mut self, uid: Uid) -> Result<()> {
        let key = uid.to_key();
        if let Some(old) = self.cached.as_ref().and_then(|cached| cached.entry(uid)) {
            self.entries.remove_known(&key, old.weight())?;
        } else {
            // Every folder membership has an entry.
            self.entries.remove(&key)?.ok_or_else(|| crate::error::damaged(Table::View, &key))?;
        }
        self.change.entries.push((uid, None));
        Ok(())
    }

    /// Writes the changes into the batch, and returns them for the cache.
    pub(crate) fn finish(mut self, modseq: Modseq, batch: &mut Batch) -> Result<FolderChange> {
        self.state.highest_modseq = modseq;
        self.entries.set_state(&self.state.encode());
        self.entries.finish(batch)?;
        Ok(self.change)
    }
}
