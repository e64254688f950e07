//! Reading and writing of the records of the index of threads ([`crate::thread_index`]).
//!
//! The cost of a search does not depend on the size of the database: it reads one range of a few records for each key.
//! The records of a note are written where its contents are ([`Writer::put_items`]), and deleted where they are.

use base::{DbNumber, NoteId};
use store::{Batch, Direction, Table, TableReader as _};

use crate::acl::AclLevel;
use crate::error::{Result, damaged};
use crate::item::Item;
use crate::keys;
use crate::limits::THREAD_NOTES_EXAMINED_MAX;
use crate::records;
use crate::thread_index::{ThreadKey, entries_of};
use crate::writer::Writer;

/// Deletes the records of a note with these items.
pub(crate) fn delete_entries(batch: &mut Batch, (database, note): (DbNumber, NoteId), items: &[Item]) {
    for key in entries_of(items).map(|(keys, _)| keys).unwrap_or_default() {
        batch.delete(Table::Meta, &keys::thread_entry(database, key, note));
    }
}

impl Writer<'_, '_> {
    /// Returns the thread of the first key that a message of this database has, changes of this transaction included,
    /// or `None` if no message has any of the keys. Of several messages with one key, the oldest counts.
    ///
    /// Messages that Readers items hide from the caller count as absent.
    pub fn thread_find(&mut self, keys: &[ThreadKey]) -> Result<Option<String>> {
        self.require_level(AclLevel::Reader)?;
        for key in keys {
            let stored = self.stored_thread(*key)?;
            if let Some(thread) = stored.or_else(|| self.part.threads.get(key).cloned()) {
                return Ok(Some(thread));
            }
        }
        Ok(None)
    }

    fn stored_thread(&self, key: ThreadKey) -> Result<Option<String>> {
        let database = self.part.database;
        let range = keys::thread_entries_of(database.number, key);
        let mut cursor = self.store.scan(Table::Meta, &range, Direction::Forward)?;
        for _ in 0..THREAD_NOTES_EXAMINED_MAX {
            let Some((stored, value)) = cursor.next()? else { break };
            let (_, note) = keys::split_thread_entry(stored).ok_or_else(|| damaged(Table::Meta, stored))?;
            let thread = std::str::from_utf8(value).map_err(|_| damaged(Table::Meta, stored))?;
            if self.part.grant.is_server_itself() {
                return Ok(Some(thread.to_owned()));
            }
            let header = records::load_header(self.store, database, note)?;
            let is_hidden = |header| records::is_hidden(self.store, database, &self.part.grant, header);
            if header.as_ref().map(is_hidden).transpose()? == Some(false) {
                return Ok(Some(thread.to_owned()));
            }
        }
        Ok(None)
    }

    /// Deletes the records of a note with these items.
    pub(crate) fn delete_thread_entries(&mut self, note: NoteId, items: &[Item]) {
        delete_entries(self.batch, (self.number(), note), items);
    }

    /// Writes the records of a note with these items.
    pub(crate) fn put_thread_entries(&mut self, note: NoteId, items: &[Item]) {
        let Some((keys, thread)) = entries_of(items) else { return };
        for key in keys {
            self.batch.put(Table::Meta, &keys::thread_entry(self.number(), key, note), thread.as_bytes());
            self.part.threads.entry(key).or_insert_with(|| thread.to_owned());
        }
    }
}
