//! Marking, moving, deleting and adding messages.

use std::sync::Arc;

use super::connection::Command;
use super::memory::Row;
use super::response::{Response, StatusResponse};
use super::views::{fetched, uid_of};
use super::{DONE, StepContext, StepOutcome, StepResult};
use crate::door::call::CallError;
use crate::plan::stream::Draw;
use crate::population::content::Purpose;
use crate::workload::action::{Document, Size};

/// The labels that messages get when they are changed, as mail clients have them: `$label1` to `$label5`.
const LABELS: u64 = 5;
/// The flags of a message that a user adds.
const ADDED_FLAGS: &str = "(\\Seen)";

impl StepContext<'_> {
    /// Sets a label of a message instead of the one that it has.
    pub(super) async fn update(&mut self, of: Document) -> StepResult {
        let Some(row) = self.selected_document(of).await? else { return Ok(StepOutcome::Skipped) };
        let label = 1 + self.action.stream(Draw::Content).below(LABELS);
        if self.store(&row, &format!("FLAGS (\\Seen $label{label})")).await? {
            return Ok(DONE);
        }
        self.memory.forget(&row);
        Ok(StepOutcome::Skipped)
    }

    pub(super) async fn delete(&mut self, of: Document) -> StepResult {
        let Some(row) = self.selected_document(of).await? else { return Ok(StepOutcome::Skipped) };
        let is_found = self.expunge(&row).await?;
        self.memory.forget(&row);
        Ok(if is_found { DONE } else { StepOutcome::Skipped })
    }

    /// Moves a message to a mailbox, which is created if there is none.
    pub(super) async fn move_message(&mut self, of: Document, to: &str) -> StepResult {
        let Some(row) = self.selected_document(of).await? else { return Ok(StepOutcome::Skipped) };
        let to = self.mailbox(to).await?;
        let is_found = if self.offers("MOVE") {
            let transfer = self.transfer("UID MOVE", &row, &to).await?;
            if self.offers("UIDPLUS") { transfer.is_copied } else { transfer.is_expunged }
        } else {
            let transfer = self.transfer("UID COPY", &row, &to).await?;
            (transfer.is_copied || !self.offers("UIDPLUS")) && self.expunge(&row).await?
        };
        self.memory.forget(&row);
        Ok(if is_found { DONE } else { StepOutcome::Skipped })
    }

    /// Appends a message to the inbox. Without UIDPLUS the user does not learn where it is.
    pub(super) async fn add(&mut self, size: &Size) -> StepResult {
        let address = self.address();
        let content = self.action.content(Purpose::Message, size, self.settings.mail.size_scale, None);
        let message = content.message(&address, std::slice::from_ref(&address));
        let inbox = self.inbox();
        let appended = self.append(&inbox, message).await?;
        if let Some((uid_validity, uid)) = appended_uid(&appended) {
            self.memory.add_own(Row { mailbox: inbox, uid_validity, uid });
        }
        Ok(DONE)
    }

    /// Appends a message that the user has read to a mailbox.
    pub(super) async fn append(&mut self, mailbox: &Arc<str>, message: Vec<u8>) -> Result<StatusResponse, CallError> {
        let command = Command::new("APPEND").string(mailbox).words(ADDED_FLAGS).literal(message);
        self.connection.call(self.count, command).await
    }

    fn offers(&self, word: &str) -> bool {
        self.connection.capabilities.as_ref().is_some_and(|offered| offered.has(word))
    }

    /// Returns the message of the step, after its mailbox has been selected.
    async fn selected_document(&mut self, of: Document) -> Result<Option<Row>, CallError> {
        let Some(row) = self.document(of).await? else { return Ok(None) };
        Ok(self.select_row(&row).await?.then_some(row))
    }

    /// Changes the flags of a message of the mailbox that is selected. Returns `false` if it is no longer there: a
    /// server answers with `OK` then, and without the flags. Some servers also leave out flags that have not changed,
    /// so the message is looked up before it counts as missing.
    async fn store(&mut self, row: &Row, change: &str) -> Result<bool, CallError> {
        let stored = Command::new("UID STORE").words(&format!("{} {change}", row.uid));
        let lookup = Command::new("UID FETCH").words(&format!("{} (UID)", row.uid));
        Ok(self.has_row(row, stored).await? || self.has_row(row, lookup).await?)
    }

    /// Returns `true` if a command has a `FETCH` response about a message.
    async fn has_row(&mut self, row: &Row, command: Command) -> Result<bool, CallError> {
        let mut is_found = false;
        let each = |response| {
            is_found |= fetched(&response).is_some_and(|(_, values)| uid_of(values) == Some(row.uid));
        };
        let ended = self.connection.call_with(self.count, command, each).await;
        unless_expunged(ended)?;
        Ok(is_found)
    }

    /// Copies or moves a message to a mailbox.
    async fn transfer(&mut self, name: &'static str, row: &Row, to: &str) -> Result<Transfer, CallError> {
        let command = Command::new(name).words(&row.uid.to_string()).string(to);
        let mut transfer = Transfer::default();
        let each = |response| match response {
            Response::Status(status) => transfer.is_copied |= has_copied(&status, row.uid),
            Response::Numbered { name, .. } => transfer.is_expunged |= name == "EXPUNGE",
            _ => {}
        };
        let ended = self.connection.call_with(self.count, command, each).await;
        let ended = unless_expunged(ended)?;
        transfer.is_copied |= ended.is_some_and(|ended| has_copied(&ended, row.uid));
        Ok(transfer)
    }

    /// Removes a message of the mailbox that is selected. Returns `false` if it is no longer there.
    async fn expunge(&mut self, row: &Row) -> Result<bool, CallError> {
        if !self.store(row, "+FLAGS (\\Deleted)").await? {
            return Ok(false);
        }
        let command = match self.offers("UIDPLUS") {
            true => Command::new("UID EXPUNGE").words(&row.uid.to_string()),
            false => Command::new("EXPUNGE"),
        };
        self.connection.call(self.count, command).await?;
        Ok(true)
    }
}

/// What a server has said of a message that is copied or moved.
#[derive(Debug, Default)]
struct Transfer {
    /// It has a UID in the other mailbox. Servers with UIDPLUS say so.
    is_copied: bool,
    /// A message has left the mailbox.
    is_expunged: bool,
}

/// Returns `None` for a command that the server has refused because the message is no longer there (RFC 5530).
fn unless_expunged(ended: Result<StatusResponse, CallError>) -> Result<Option<StatusResponse>, CallError> {
    match ended {
        Err(error) if error.code == "no-expungeissued" => Ok(None),
        ended => ended.map(Some),
    }
}

/// Returns `true` if a server says that the message of a UID was copied.
fn has_copied(status: &StatusResponse, uid: u32) -> bool {
    let copied = status.code_after("COPYUID").and_then(|numbers| numbers.split(' ').nth(1));
    copied.is_some_and(|copied| copied.parse() == Ok(uid))
}

/// Returns the number of validity and the UID of a message that was appended.
fn appended_uid(appended: &StatusResponse) -> Option<(u32, u32)> {
    let (uid_validity, uid) = appended.code_after("APPENDUID")?.split_once(' ')?;
    Some((uid_validity.parse().ok()?, uid.parse().ok()?))
}
