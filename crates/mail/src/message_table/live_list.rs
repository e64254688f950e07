//! Lists that follow the messages: each change of a message changes its place in them, at a cost that hardly depends on
//! the length of the list.
//!
//! A list is one whose order never changes for a message, and whose filter needs no contents of messages. For a change,
//! the entries that it may touch are removed while the table still has the old rows, and those of the new rows are
//! inserted: of the message alone, or of its threads if the list depends on them.

use std::cmp::Ordering;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use base::NoteId;

use super::row_order::RowOrder;
use super::{MessageRow, MessageTable};
use crate::error::Result;
use crate::limits::LIVE_LISTS_MAX;
use crate::mailbox::MailSnapshot;

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
    /// The order.
    pub arrangement: Arrangement,
}

/// The order of a list, and the messages of threads that are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    /// The order.
    pub order: RowOrder,
    /// The message of each thread that is in the list. `None` if all of them are.
    pub collapsed_to: Option<CollapsedTo>,
}

/// The message of a thread that is in a list, among those that match its filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollapsedTo {
    /// The first one in the order of the list (RFC 8621 §4.4.3).
    First,
    /// The newest one.
    Newest,
}

impl Arrangement {
    /// Returns the messages of the list in their order. `rows` are those that match its filter.
    pub fn arrange(&self, mut rows: Vec<&MessageRow>, snapshot: &MailSnapshot<'_>) -> Result<Vec<NoteId>> {
        if self.collapsed_to == Some(CollapsedTo::Newest) {
            RowOrder::newest_first().sort(&mut rows, snapshot)?;
            keep_first_of_threads(&mut rows);
        }
        self.order.sort(&mut rows, snapshot)?;
        if self.collapsed_to == Some(CollapsedTo::First) {
            keep_first_of_threads(&mut rows);
        }
        Ok(rows.into_iter().map(|row| row.note).collect())
    }
}

/// Keeps the first message of each thread.
pub fn keep_first_of_threads(rows: &mut Vec<&MessageRow>) {
    let mut threads = HashSet::with_capacity(rows.len());
    rows.retain(|row| threads.insert(&*row.thread));
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
    /// Returns the entries of the list that a change of a message in some threads may touch.
    fn entries(&self, table: &MessageTable, note: NoteId, threads: &[Arc<str>]) -> Vec<NoteId> {
        let is_entry = |row: &&MessageRow| self.filter.matches(row, table);
        let Arrangement { order, collapsed_to } = &self.arrangement;
        let newest_first = RowOrder::newest_first();
        let only_first_by = collapsed_to.map(|message| match message {
            CollapsedTo::First => order,
            CollapsedTo::Newest => &newest_first,
        });
        if only_first_by.is_none() && !self.filter.depends_on_threads() {
            return table.row(note).filter(is_entry).map(|row| row.note).into_iter().collect();
        }
        let mut entries = Vec::new();
        for thread in threads {
            let rows = table.thread(thread).filter(is_entry);
            match only_first_by {
                Some(order) => entries.extend(rows.min_by(|a, b| order.compare(a, b)).map(|row| row.note)),
                None => entries.extend(rows.map(|row| row.note)),
            }
        }
        entries
    }
}

impl LiveList {
    /// Returns the place of a message: where it is, or where it belongs.
    fn place(&self, table: &MessageTable, note: NoteId) -> std::result::Result<usize, usize> {
        let Some(row) = table.row(note) else { return Err(self.notes.len()) };
        self.notes.binary_search_by(|other| match table.row(*other) {
            Some(other) => self.definition.arrangement.order.compare(other, row),
            None => Ordering::Less,
        })
    }
}

impl LiveLists {
    /// Returns `true` if the texts of messages must be read before they are inserted.
    pub(super) fn need_texts(&self) -> bool {
        self.lists.iter().any(|list| list.definition.arrangement.order.needs_texts())
    }

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
