//! Mailboxes, their screens, searches, and waiting for new mail.

use std::sync::Arc;

use super::connection::Command;
use super::folders::INBOX;
use super::memory::{OpenView, ROWS_MAX, Rows};
use super::response::{Response, Value, value_of};
use super::{DONE, StepContext, StepOutcome, StepResult};
use crate::door::call::CallError;
use crate::plan::stream::Draw;
use crate::population::text::search_words;
use crate::workload::action::Position;

/// What a list of messages shows.
const LIST_ITEMS: &str = "(UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)";

impl StepContext<'_> {
    /// Lists the mailboxes, and reads the numbers of messages and of unread ones in the inbox.
    pub(super) async fn open_database(&mut self) -> StepResult {
        self.list_mailboxes().await?;
        let command = Command::new("STATUS").string(INBOX).words("(MESSAGES UNSEEN)");
        self.connection.call(self.count, command).await?;
        Ok(DONE)
    }

    /// Leaves the mailbox that is selected. Nothing in it is marked as deleted, so `CLOSE` removes nothing.
    pub(super) async fn close_database(&mut self) -> StepResult {
        self.memory.view = None;
        if self.connection.selected.is_some() {
            let offers = self.connection.capabilities.as_ref().is_some_and(|offered| offered.has("UNSELECT"));
            let command = Command::new(if offers { "UNSELECT" } else { "CLOSE" });
            self.connection.call(self.count, command).await?;
            self.connection.selected = None;
        }
        Ok(DONE)
    }

    pub(super) async fn open_view(&mut self, name: Option<&str>) -> StepResult {
        let mailbox = self.mailbox(name.unwrap_or(INBOX)).await?;
        self.select(&mailbox).await?;
        self.memory.view = Some(OpenView { mailbox, next: None });
        Ok(DONE)
    }

    pub(super) fn close_view(&mut self) -> StepOutcome {
        self.memory.view = None;
        DONE
    }

    /// Reads a screen. The first one has the newest messages; after the last one the first one follows.
    pub(super) async fn scroll_view(&mut self, rows: u64, at: Position) -> StepResult {
        let mailbox = self.opened().await?;
        let messages = self.messages().await?;
        let next = self.memory.view.as_mut().and_then(|view| view.next.take());
        let newest = match at {
            Position::Random => {
                let index = self.action.document_fraction().index_of(messages as usize);
                messages - index.map_or(0, |index| index as u32)
            }
            Position::Next => next.unwrap_or(messages).min(messages),
            Position::First => messages,
        };
        let (screen, next) = self.read_rows(newest, rows).await?;
        self.memory.set_screen(screen);
        self.memory.view = Some(OpenView { mailbox, next });
        Ok(DONE)
    }

    /// Reads the newest messages of the open mailbox, or of the inbox.
    pub(super) async fn read_newest(&mut self, count: u64) -> Result<(), CallError> {
        self.opened().await?;
        let messages = self.messages().await?;
        let (rows, _) = self.read_rows(messages, count).await?;
        self.memory.set_newest(rows);
        Ok(())
    }

    pub(super) async fn poll(&mut self) -> StepResult {
        self.connection.call(self.count, Command::new("NOOP")).await?;
        Ok(DONE)
    }

    /// Selects the inbox unless a mailbox is selected, because servers report new mail only of that one.
    pub(super) async fn wait(&mut self) -> StepResult {
        if self.connection.selected.is_none() {
            self.select(&self.inbox()).await?;
        }
        self.is_waiting = true;
        Ok(DONE)
    }

    pub(super) async fn list_unread(&mut self) -> StepResult {
        self.opened().await?;
        self.connection.call(self.count, Command::new("UID SEARCH").words("UNSEEN")).await?;
        Ok(DONE)
    }

    pub(super) async fn search(&mut self, words: u64) -> StepResult {
        self.opened().await?;
        let mut numbers = self.action.stream(Draw::Words).into_numbers();
        let words = search_words(&mut numbers, words as usize);
        let mut command = Command::new("UID SEARCH");
        if !words.iter().all(|word| word.is_ascii()) {
            command = command.words("CHARSET UTF-8");
        }
        for word in words {
            command = command.words("TEXT").string(word);
        }
        self.connection.call(self.count, command).await?;
        Ok(DONE)
    }

    /// Selects the mailbox that is open, or the inbox, and returns it.
    async fn opened(&mut self) -> Result<Arc<str>, CallError> {
        let mailbox = self.memory.view.as_ref().map_or_else(|| self.inbox(), |view| Arc::clone(&view.mailbox));
        self.ensure_selected(&mailbox).await?;
        Ok(mailbox)
    }

    /// Reads so many rows from the message of a number to older ones. Returns them, the newest first, and the number of
    /// the message after them.
    async fn read_rows(&mut self, newest: u32, count: u64) -> Result<(Rows, Option<u32>), CallError> {
        let Some(selected) = self.connection.selected.clone() else { return Ok((Rows::default(), None)) };
        let mut rows = Rows { mailbox: selected.name, uid_validity: selected.uid_validity, uids: Vec::new() };
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(ROWS_MAX as u32);
        if newest == 0 || count == 0 {
            return Ok((rows, None));
        }
        let oldest = newest.saturating_sub(count - 1).max(1);
        let mut found = Vec::new();
        let each = |response| {
            if found.len() < ROWS_MAX
                && let Some((number, values)) = fetched(&response)
            {
                found.extend(uid_of(values).map(|uid| (number, uid)));
            }
        };
        let command = Command::new("FETCH").words(&format!("{oldest}:{newest} {LIST_ITEMS}"));
        self.connection.call_with(self.count, command, each).await?;
        found.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        rows.uids = found.into_iter().map(|(_, uid)| uid).collect();
        Ok((rows, oldest.checked_sub(1).filter(|next| *next > 0)))
    }
}

/// Returns the number and the values of a `FETCH` response.
pub(super) fn fetched(response: &Response) -> Option<(u32, &[Value])> {
    match response {
        Response::Numbered { number, name, values } if name == "FETCH" => Some((*number, values.first()?.list()?)),
        _ => None,
    }
}

/// Returns the UID among the values of a `FETCH` response.
pub(super) fn uid_of(values: &[Value]) -> Option<u32> {
    value_of(values, "UID")?.text()?.parse().ok()
}
