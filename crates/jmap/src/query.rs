//! Lists (RFC 8620 §5.5 and §5.6): the window of a `/query`, and the messages of an Email/query.
//!
//! The list of an Email/query is computed once. If its filter needs no contents and its order never changes for a
//! message, it follows the messages; otherwise it is kept for the next pages until a message changes.

use std::collections::HashSet;
use std::sync::Arc;

use base::NoteId;
use mail::message_table::{Arrangement, CollapsedTo, ListDefinition, MessageRow, keep_first_of_threads};
use serde_json::{Map, Value, json};

use crate::account::AccountView;
use crate::arguments::Arguments;
use crate::backend::Accounts;
use crate::error::{MethodError, MethodResult};
use crate::filter::Filter;
use crate::limits::QUERY_IDS_MAX;
use crate::sort::EmailSort;

/// The properties of a list that do not depend on the part that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueriedList<'q> {
    /// The account.
    pub account_id: &'q str,
    /// The state of the list.
    pub state: &'q str,
    /// `true` if `/queryChanges` may know the changes of the list.
    pub can_calculate_changes: bool,
}

/// The part of a list that a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    position: i64,
    anchor: Option<String>,
    anchor_offset: i64,
    limit: Option<u64>,
    wants_total: bool,
}

impl Window {
    /// Takes the arguments `position`, `anchor`, `anchorOffset`, `limit` and `calculateTotal`.
    pub fn parse(arguments: &mut Arguments) -> MethodResult<Self> {
        Ok(Self {
            position: arguments.integer("position")?.unwrap_or(0),
            anchor: arguments.text("anchor")?,
            anchor_offset: arguments.integer("anchorOffset")?.unwrap_or(0),
            limit: arguments.unsigned("limit")?,
            wants_total: arguments.flag("calculateTotal")?,
        })
    }

    /// Returns the reply of a `/query`: what `list` says, `position`, `ids`, and `total` and `limit` where they belong.
    pub fn answer(
        &self,
        list: &QueriedList<'_>,
        count: usize,
        find: impl FnOnce(&str) -> Option<usize>,
        id_at: impl Fn(usize) -> Option<String>,
    ) -> MethodResult<Map<String, Value>> {
        let start = self.start(count, find)?;
        let limit = self.limit.unwrap_or(QUERY_IDS_MAX).min(QUERY_IDS_MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let ids: Vec<String> = (start..count).take(limit).filter_map(id_at).collect();
        let mut reply = Map::new();
        reply.insert("accountId".to_owned(), json!(list.account_id));
        reply.insert("queryState".to_owned(), json!(list.state));
        reply.insert("canCalculateChanges".to_owned(), json!(list.can_calculate_changes));
        reply.insert("position".to_owned(), json!(start));
        if self.wants_total {
            reply.insert("total".to_owned(), json!(count));
        }
        let is_shortened = self.limit.is_none() && count.saturating_sub(start) > limit;
        if is_shortened || self.limit.is_some_and(|limit| limit > QUERY_IDS_MAX) {
            reply.insert("limit".to_owned(), json!(QUERY_IDS_MAX));
        }
        reply.insert("ids".to_owned(), json!(ids));
        Ok(reply)
    }

    fn start(&self, count: usize, find: impl FnOnce(&str) -> Option<usize>) -> MethodResult<usize> {
        let length = i64::try_from(count).unwrap_or(i64::MAX);
        let start = match &self.anchor {
            Some(anchor) => {
                let index = find(anchor).ok_or_else(|| MethodError::new("anchorNotFound"))?;
                i64::try_from(index).unwrap_or(i64::MAX).saturating_add(self.anchor_offset)
            }
            None if self.position < 0 => length.saturating_add(self.position),
            None => self.position,
        };
        Ok(usize::try_from(start.max(0)).unwrap_or(usize::MAX))
    }
}

/// A list of messages: filter, order, and whether a thread is told once.
#[derive(Clone, Debug)]
pub struct EmailQuery {
    /// The filter.
    pub filter: Filter,
    /// The order.
    pub sort: EmailSort,
    /// `true` if only the first message of each thread is told.
    pub collapses_threads: bool,
    key: String,
}

impl EmailQuery {
    /// Parses the arguments that define a list.
    pub fn parse(arguments: &QueryArguments, view: &AccountView<'_>) -> MethodResult<Self> {
        let keywords = view.snapshot.keywords();
        let filter = Filter::of_messages(arguments.filter.as_ref(), view.table.mailboxes(), keywords)?;
        let sort = EmailSort::parse(arguments.sort.as_deref(), keywords)?;
        let key = json!([arguments.filter, arguments.sort, arguments.collapses_threads]).to_string();
        Ok(Self { filter, sort, collapses_threads: arguments.collapses_threads, key })
    }

    /// Returns the messages in their order.
    pub fn run(&mut self, view: &mut AccountView<'_>, accounts: &dyn Accounts) -> MethodResult<Arc<Vec<NoteId>>> {
        if let Some(notes) = view.table.list_used(&self.key).or_else(|| view.table.cached_query(&self.key)) {
            return Ok(notes);
        }
        if self.filter.has_texts() {
            self.consult_index(view, accounts);
        }
        let candidates: Vec<&MessageRow> = match self.filter.mailbox() {
            Some(Some(mailbox)) => view.table.members(mailbox).collect(),
            Some(None) => Vec::new(),
            None => view.table.rows().collect(),
        };
        let mut rows = Vec::new();
        for row in candidates {
            if self.filter.matches(row, view)? {
                rows.push(row);
            }
        }
        let arrangement = self.arrangement();
        let notes = match &arrangement {
            Some(arrangement) => arrangement.arrange(rows, &view.snapshot)?,
            None => {
                self.sort.sort(&mut rows, view)?;
                if self.collapses_threads {
                    keep_first_of_threads(&mut rows);
                }
                rows.iter().map(|row| row.note).collect()
            }
        };
        let notes = Arc::new(notes);
        let key = self.key.clone();
        match arrangement.filter(|_| self.filter.is_decided_by_table()) {
            Some(arrangement) => {
                let definition = ListDefinition { key, filter: Box::new(self.filter.clone()), arrangement };
                view.table.keep_list(definition, Arc::clone(&notes));
            }
            None => view.table.cache_query(key, Arc::clone(&notes)),
        }
        Ok(notes)
    }

    /// Returns the order and the messages of threads, if the place of a message never changes.
    fn arrangement(&self) -> Option<Arrangement> {
        let collapsed_to = self.collapses_threads.then_some(CollapsedTo::First);
        Some(Arrangement { order: self.sort.fixed()?, collapsed_to })
    }

    fn consult_index(&mut self, view: &AccountView<'_>, accounts: &dyn Accounts) {
        let consulted = accounts.full_text().and_then(|index| match index {
            Some(index) => self.filter.consult(&index, view),
            None => Ok(()),
        });
        if let Err(error) = consulted {
            tracing::warn!(%error, "the full-text index cannot be used, searching the messages instead");
        }
    }

    /// Returns the place of a message in the list.
    #[must_use]
    pub fn place(&self, view: &AccountView<'_>, notes: &[NoteId], note: NoteId) -> Option<usize> {
        let place = view.table.place_in_list(&self.key, note);
        place.unwrap_or_else(|| notes.iter().position(|other| *other == note))
    }

    /// Returns the places of some messages in the list, in order.
    #[must_use]
    pub fn places(&self, view: &AccountView<'_>, notes: &[NoteId], wanted: &HashSet<NoteId>) -> Vec<(usize, NoteId)> {
        if view.table.list(&self.key).is_none() {
            let all = notes.iter().copied().enumerate();
            return all.filter(|(_, note)| wanted.contains(note)).collect();
        }
        let place = |note: &NoteId| Some((view.table.place_in_list(&self.key, *note)??, *note));
        let mut places: Vec<(usize, NoteId)> = wanted.iter().filter_map(place).collect();
        places.sort_unstable();
        places
    }

    /// Returns `true` if a change of a message can change the place of others of its thread.
    #[must_use]
    pub fn depends_on_threads(&self) -> bool {
        self.collapses_threads || self.filter.depends_on_threads() || self.sort.depends_on_threads()
    }

    /// Returns `true` if a message that stays can come to the list, leave it, or move in it.
    #[must_use]
    pub fn is_mutable(&self) -> bool {
        self.depends_on_threads() || self.filter.is_mutable() || self.sort.is_mutable()
    }
}

/// The arguments that define a list of messages.
#[derive(Clone, Debug)]
pub struct QueryArguments {
    filter: Option<Value>,
    sort: Option<Vec<Value>>,
    collapses_threads: bool,
}

impl QueryArguments {
    /// Takes the arguments `filter`, `sort` and `collapseThreads`.
    pub fn parse(arguments: &mut Arguments) -> MethodResult<Self> {
        Ok(Self {
            filter: arguments.value("filter"),
            sort: arguments.list("sort")?,
            collapses_threads: arguments.flag("collapseThreads")?,
        })
    }
}
