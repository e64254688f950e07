//! Check and repair of the index of threads ([`crate::thread_index`]).
//!
//! Invariant: its records are those that follow from the summary items of the notes with contents. A repair deletes and
//! writes the wrong ones; if the records cannot be read, it writes all of them again.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{DbNumber, NoteId};
use store::{Batch, Table, TableReader};

use super::salvage::read_from_both_ends;
use crate::error::Result;
use crate::item::Item;
use crate::keys;
use crate::thread_index::{self, ThreadKey};

/// What is wrong with the index of threads.
#[derive(Default)]
pub(super) struct ThreadSurvey {
    /// The records as they must be.
    expected: Vec<(ThreadKey, NoteId, Arc<str>)>,
    /// The notes whose records are wrong.
    pub(super) wrong: BTreeSet<NoteId>,
    /// Keys of records that no note has.
    surplus: Vec<Vec<u8>>,
    /// Description of damage for which the records cannot be read.
    pub(super) damage: Option<String>,
}

impl ThreadSurvey {
    /// Adds a note with contents.
    pub(super) fn add(&mut self, note: NoteId, items: &[Item]) {
        let Some((keys, thread)) = thread_index::entries_of(items) else { return };
        let thread: Arc<str> = Arc::from(thread);
        self.expected.extend(keys.into_iter().map(|key| (key, note, Arc::clone(&thread))));
    }

    /// Compares the records of a database with the notes that were added.
    pub(super) fn check(&mut self, reader: &dyn TableReader, database: DbNumber) -> Result<()> {
        self.expected.sort_unstable();
        let (stored, damage) = read_from_both_ends(reader, Table::Meta, &keys::thread_entries(database))?;
        self.damage = damage;
        let mut found = stored.iter().peekable();
        for (key, note, thread) in &self.expected {
            let expected = keys::thread_entry(database, *key, *note);
            while let Some((surplus, _)) = found.next_if(|(stored, _)| stored.as_slice() < expected.as_slice()) {
                self.surplus.push(surplus.clone());
            }
            let same = found.next_if(|(stored, _)| stored.as_slice() == expected.as_slice());
            if same.is_none_or(|(_, value)| value != thread.as_bytes()) {
                self.wrong.insert(*note);
            }
        }
        self.surplus.extend(found.map(|(key, _)| key.clone()));
        self.wrong
            .extend(self.surplus.iter().map(|key| keys::split_thread_entry(key).map_or(NoteId(0), |(_, note)| note)));
        Ok(())
    }

    /// Adds the repair to a batch.
    pub(super) fn repair(&self, database: DbNumber, batch: &mut Batch) {
        if self.damage.is_some() {
            let all = keys::thread_entries(database);
            let end = all.end.expect("a prefix that ends with a letter has an end");
            batch.delete_range(Table::Meta, &all.start, &end);
        }
        self.surplus.iter().for_each(|key| batch.delete(Table::Meta, key));
        for (key, note, thread) in &self.expected {
            if self.damage.is_some() || self.wrong.contains(note) {
                batch.put(Table::Meta, &keys::thread_entry(database, *key, *note), thread.as_bytes());
            }
        }
    }
}
