//! Marking, moving, deleting and adding messages.

use std::sync::Arc;

use super::connection::Command;
use super::memory::Row;
use super::response::StatusResponse;
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
        let command = Command::new("UID STORE").words(&format!("{} FLAGS.SILENT (\\Seen $label{label})", row.uid));
        self.connection.call(self.count, command).await?;
        Ok(DONE)
    }

    pub(super) async fn delete(&mut self, of: Document) -> StepResult {
        let Some(row) = self.selected_document(of).await? else { return Ok(StepOutcome::Skipped) };
        self.expunge(&row).await?;
        self.memory.forget(&row);
        Ok(DONE)
    }

    /// Moves a message to a mailbox, which is created if there is none.
    pub(super) async fn move_message(&mut self, of: Document, to: &str) -> StepResult {
        let Some(row) = self.selected_document(of).await? else { return Ok(StepOutcome::Skipped) };
        let to = self.mailbox(to).await?;
        if self.offers("MOVE") {
            let command = Command::new("UID MOVE").words(&row.uid.to_string()).string(&to);
            self.connection.call(self.count, command).await?;
        } else {
            let command = Command::new("UID COPY").words(&row.uid.to_string()).string(&to);
            self.connection.call(self.count, command).await?;
            self.expunge(&row).await?;
        }
        self.memory.forget(&row);
        Ok(DONE)
    }

    /// Appends a message to the inbox. Without UIDPLUS the user does not learn where it is.
    pub(super) async fn add(&mut self, size: &Size) -> StepResult {
        let address = self.address();
        let content = self.action.content(Purpose::Message, size, self.settings.size_scale, None);
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

    /// Removes a message of the mailbox that is selected.
    async fn expunge(&mut self, row: &Row) -> Result<(), CallError> {
        let command = Command::new("UID STORE").words(&format!("{} +FLAGS.SILENT (\\Deleted)", row.uid));
        self.connection.call(self.count, command).await?;
        let command = match self.offers("UIDPLUS") {
            true => Command::new("UID EXPUNGE").words(&row.uid.to_string()),
            false => Command::new("EXPUNGE"),
        };
        self.connection.call(self.count, command).await?;
        Ok(())
    }
}

/// Returns the number of validity and the UID of a message that was appended.
fn appended_uid(appended: &StatusResponse) -> Option<(u32, u32)> {
    let (uid_validity, uid) = appended.code_after("APPENDUID")?.split_once(' ')?;
    Some((uid_validity.parse().ok()?, uid.parse().ok()?))
}
