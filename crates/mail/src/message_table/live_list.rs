//! Lists that follow the messages: each change of a message changes its place in them, at a cost that hardly depends on
//! the length of the list.
//!
//! A list is one whose order is the time of receipt, which never changes, and whose filter needs no contents of
//! messages. For a change, the entries that it may touch are removed while the table still has the old rows, and those
//! of the new rows are inserted: of the message alone, or of its threads if the list depends on them.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use base::NoteId;

use super::{MessageRow, MessageTable};
use crate::limits::LIVE_LISTS_MAX;

/// A condition on messages that the table alone decides.
pub trait RowFilter: fmt::Debug + Send + Sync {
    /// Returns `true` if a message matches.
    fn matches(&self, row: &MessageRow, table: &MessageTable) -> bool;

    /// Returns `true` if a message may match or not because of others of its thread.
    fn depends_on_threads(&self) -> bool;
}

/// The definition of a list.
#[derive(Debug)]
pub struct ListDefinition {
    /// What distinguishes the list from others.
    pub key: String,
    /// The filter.
    pub filter: Box<dyn RowFilter>,
    /// `true` if the oldest message comes first.
    pub is_ascending: bool,
    /// `true` if only the first message of each thread is in the list.
    pub collapses_threads: bool,
}

/// A list and its messages.
#[derive(Debug)]
struct LiveList {
    definition: ListDefinition,
    notes: Arc<Vec<NoteId>>,
}

/// The lists of a table.
#[derive(Debug, Default)]
pub(super) struct LiveLists {
    lists: VecDeque<LiveList>,
}

impl ListDefinition {
    fn order(&self, a: &MessageRow, b: &MessageRow) -> Ordering {
        let by_time = a.received.cmp(&b.received);
        let by_time = if self.is_ascending { by_time } else { by_time.reverse() };
        by_time.then(a.note.cmp(&b.note))
    }

    /// Returns the entries of the list that a change of a message in some threads may touch.
    fn entries(&self, table: &MessageTable, note: NoteId, threads: &[Arc<str>]) -> Vec<NoteId> {
        let is_entry = |row: &&MessageRow| self.filter.matches(row, table);
        if !self.collapses_threads && !self.filter.depends_on_threads() {
            return table.row(note).filter(is_entry).map(|row| row.note).into_iter().collect();
        }
        let mut entries = Vec::new();
        for thread in threads {
            let rows = table.thread(thread).filter(is_entry);
            if self.collapses_threads {
                entries.extend(rows.min_by(|a, b| self.order(a, b)).map(|row| row.note));
            } else {
                entries.extend(rows.map(|row| row.note));
            }
        }
        entries
    }
}

impl LiveList {
    /// Returns the place of a message: where it is, or where it belongs.
    fn place(&self, table: &MessageTable, note: NoteId) -> Result<usize, usize> {
        let Some(row) = table.row(note) else { return Err(self.notes.len()) };
        self.notes.binary_search_by(|other| match table.row(*other) {
            Some(other) => self.definition.order(other, row),
            None => Ordering::Less,
        })
    }
}

impl LiveLists {
    /// Removes the entries that a change may touch. The table has the old rows.
    pub(super) fn remove(&mut self, table: &MessageTable, note: NoteId, threads: &[Arc<str>]) {
        for list in &mut self.lists {
            for entry in list.definition.entries(table, note, threads) {
                if let Ok(place) = list.place(table, entry) {
                    Arc::make_mut(&mut list.notes).remove(place);
                }
            }
        }
    }

    /// Inserts the entries that a change may have touched. The table has the new rows.
    pub(super) fn insert(&mut self, table: &MessageTable, note: NoteId, threads: &[Arc<str>]) {
        for list in &mut self.lists {
            for entry in list.definition.entries(table, note, threads) {
                if let Err(place) = list.place(table, entry) {
                    Arc::make_mut(&mut list.notes).insert(place, entry);
                }
            }
        }
    }
}

impl MessageTable {
    /// Returns the messages of a list that is kept.
    #[must_use]
    pub fn list(&self, key: &str) -> Option<Arc<Vec<NoteId>>> {
        self.lists.lists.iter().find(|list| list.definition.key == key).map(|list| Arc::clone(&list.notes))
    }

    /// Returns the messages of a list that is kept, and keeps it longer than the others.
    pub fn list_used(&mut self, key: &str) -> Option<Arc<Vec<NoteId>>> {
        let lists = &mut self.lists.lists;
        let place = lists.iter().position(|list| list.definition.key == key)?;
        // The list that was not used for the longest time is dropped first.
        let list = lists.remove(place)?;
        let notes = Arc::clone(&list.notes);
        lists.push_back(list);
        Some(notes)
    }

    /// Returns the place of a message in a list that is kept. The outer value is `None` if the list is not kept.
    #[must_use]
    pub fn place_in_list(&self, key: &str, note: NoteId) -> Option<Option<usize>> {
        let list = self.lists.lists.iter().find(|list| list.definition.key == key)?;
        Some(list.place(self, note).ok())
    }

    /// Keeps a list, and drops the one that was not used for the longest time if there are too many. `notes` are its
    /// messages now.
    pub fn keep_list(&mut self, definition: ListDefinition, notes: Arc<Vec<NoteId>>) {
        let lists = &mut self.lists.lists;
        lists.retain(|list| list.definition.key != definition.key);
        lists.push_back(LiveList { definition, notes });
        if lists.len() > LIVE_LISTS_MAX {
            lists.pop_front();
        }
    }
}
