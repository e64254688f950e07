//! What a user of the lite web mail knows.

use std::collections::VecDeque;

use super::form::Form;
use super::list::{ListPage, ListRow};
use crate::door::rows::{KnownRows, ROWS_MAX};

/// A message whose page was shown.
#[derive(Debug, Clone)]
pub(super) struct ShownMessage {
    /// The message.
    pub(super) row: ListRow,
    /// The path and query of its page.
    pub(super) target: String,
    /// The form of its page, by which it is deleted and moved.
    pub(super) form: Option<Form>,
    /// Where an answer is written.
    pub(super) reply: Option<String>,
    /// Its attachments.
    pub(super) files: Vec<String>,
}

/// What a user remembers.
#[derive(Debug, Default)]
pub(super) struct UserMemory {
    /// The list that is open: its first page.
    pub(super) open: Option<String>,
    /// The list that was shown last, without its rows.
    pub(super) list: ListPage,
    /// The messages.
    pub(super) rows: KnownRows<ListRow>,
    /// The message that was shown last.
    pub(super) last: Option<ShownMessage>,
    /// The paths and queries of the drafts that the user has saved, at most [`ROWS_MAX`].
    drafts: VecDeque<String>,
}

impl UserMemory {
    /// Keeps a list that was shown.
    pub(super) fn show(&mut self, mut list: ListPage) {
        self.rows.set_screen(std::mem::take(&mut list.rows));
        self.list = list;
    }

    /// Adds a draft that the user has saved. The oldest one is forgotten if there are too many.
    pub(super) fn add_draft(&mut self, target: String) {
        if self.drafts.len() == ROWS_MAX {
            self.drafts.pop_front();
        }
        self.drafts.push_back(target);
    }

    /// Returns `true` if the user has saved drafts.
    pub(super) fn has_drafts(&self) -> bool {
        !self.drafts.is_empty()
    }

    /// Returns `true` if a row is a draft that the user has saved.
    pub(super) fn has_draft(&self, row: &ListRow) -> bool {
        self.drafts.iter().any(|draft| leads_to(draft, row))
    }

    /// Forgets a message that is no longer at its place.
    pub(super) fn forget(&mut self, row: &ListRow) {
        self.rows.forget(row);
        self.last.take_if(|last| last.row == *row);
        self.drafts.retain(|draft| !leads_to(draft, row));
    }
}

/// Returns `true` if the page of a draft is that of a row. The page that was shown after saving may have a notice in
/// its query besides.
fn leads_to(draft: &str, row: &ListRow) -> bool {
    draft.strip_prefix(&row.link).is_some_and(|rest| rest.is_empty() || rest.starts_with('&'))
}
