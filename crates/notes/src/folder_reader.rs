//! Reading a folder's index: counts, positions, entries.
//!
//! A [`FolderReader`] belongs to one snapshot and agrees with everything else that is read from it.

use base::{DbNumber, Uid, ViewId};
use store::{Direction, Read, Table};

use crate::collection;
use crate::database::damaged;
use crate::error::{Error, Result};
use crate::folder::{self, Entry, FolderState, FolderTotals};

/// A folder's index in a snapshot.
pub struct FolderReader<'r> {
    entries: collection::Reader<'r>,
    state: FolderState,
}

impl<'r> FolderReader<'r> {
    pub(crate) fn open(reader: &'r dyn Read, database: DbNumber, view: ViewId) -> Result<Self> {
        let id = folder::collection_id(database, view);
        let entries = collection::Reader::open(reader, id)?;
        let state = FolderState::decode(entries.state()).map_err(|_| Error::not_found(format!("folder {view}")))?;
        Ok(Self { entries, state })
    }

    /// Gives UIDVALIDITY, the next UID and the last change.
    #[must_use]
    pub fn state(&self) -> FolderState {
        self.state
    }

    /// Gives the counts.
    pub fn totals(&self) -> Result<FolderTotals> {
        let totals = self.entries.totals()?;
        let sum = |index: usize| u64::try_from(totals.sums.value(index)).unwrap_or(0);
        Ok(FolderTotals { count: totals.count, unseen: sum(0), deleted: sum(1), size: sum(2), restricted: sum(3) })
    }

    /// Gives the entry with a UID.
    pub fn entry(&self, uid: Uid) -> Result<Option<Entry>> {
        let Some(value) = self.entries.find(&uid.to_key())? else { return Ok(None) };
        Entry::decode(uid, &value).map(Some).map_err(|_| damaged(Table::View, &uid.to_key()))
    }

    /// Counts the entries with smaller UIDs.
    pub fn rank(&self, uid: Uid) -> Result<u64> {
        Ok(self.entries.rank(&uid.to_key())?)
    }

    /// Gives the UID at a position, counted from 0.
    pub fn uid_at(&self, position: u64) -> Result<Option<Uid>> {
        let Some(entry) = self.entries.entry_at(position)? else { return Ok(None) };
        folder::uid_of_key(&entry.key).map(Some).ok_or_else(|| damaged(Table::View, &entry.key))
    }

    /// Finds the entry that is number `position`, counted from 0, among those the owner has not read.
    pub fn unseen_at(&self, position: u64) -> Result<Option<Entry>> {
        self.nth(0, position)
    }

    /// Finds the entry that is number `position`, counted from 0, among those marked as deleted.
    pub fn deleted_at(&self, position: u64) -> Result<Option<Entry>> {
        self.nth(1, position)
    }

    fn nth(&self, sum: usize, position: u64) -> Result<Option<Entry>> {
        let found = self.entries.entry_at_sum(sum, position, &folder::FolderWeigh)?;
        let Some((_, entry)) = found else { return Ok(None) };
        let uid = folder::uid_of_key(&entry.key).ok_or_else(|| damaged(Table::View, &entry.key))?;
        Entry::decode(uid, &entry.value).map(Some).map_err(|_| damaged(Table::View, &entry.key))
    }

    /// Calls `each` for the entries from UID `first` on, rising, until it says to stop.
    pub fn each_entry(&self, first: Uid, each: &mut dyn FnMut(Entry) -> Result<bool>) -> Result<()> {
        let range = store::KeyRange { start: first.to_key().to_vec(), end: None };
        let mut scan = self.entries.scan(&range, Direction::Forward)?;
        while let Some((key, value)) = scan.next()? {
            let uid = folder::uid_of_key(key).ok_or_else(|| damaged(Table::View, key))?;
            let entry = Entry::decode(uid, value).map_err(|_| damaged(Table::View, key))?;
            if !each(entry)? {
                break;
            }
        }
        Ok(())
    }
}
