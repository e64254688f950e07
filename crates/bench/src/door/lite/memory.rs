//! What a user of the lite web mail knows.

use super::form::Form;
use super::list::{ListPage, ListRow};
use crate::door::rows::KnownRows;

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
}

impl UserMemory {
    /// Keeps a list that was shown.
    pub(super) fn show(&mut self, mut list: ListPage) {
        self.rows.set_screen(std::mem::take(&mut list.rows));
        self.list = list;
    }
}
