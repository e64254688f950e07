//! Reading messages and attachments.

use super::connection::Command;
use super::memory::{ReadMessage, Row};
use super::message_parts::attachment_sections;
use super::response::{Value, value_of};
use super::views::{fetched, uid_of};
use super::{DONE, StepContext, StepOutcome, StepResult};
use crate::door::call::CallError;
use crate::door::message_head::MessageHead;
use crate::workload::action::{Action, Document};
use crate::workload::units::Share;

/// What a server has sent of a message.
#[derive(Debug, Default)]
struct FetchedMessage {
    is_found: bool,
    head: Vec<u8>,
    parts: Option<Vec<String>>,
}

impl StepContext<'_> {
    /// Reads a message, which marks it as read. Its structure is read with it if attachments are to be read.
    pub(super) async fn read(&mut self, of: Document, attachments: Share) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let items = if attachments > Share::default() { "(BODYSTRUCTURE BODY[])" } else { "BODY[]" };
        let message = self.fetch_message(&row, items).await?;
        if !message.is_found {
            self.memory.forget(&row);
            return Ok(StepOutcome::Skipped);
        }
        let count = message.parts.as_ref().map_or(0, Vec::len);
        self.memory.last = Some(ReadMessage { row, head: MessageHead::read(&message.head), parts: message.parts });
        Ok(StepOutcome::Performed { attachments: u32::try_from(count).unwrap_or(u32::MAX) })
    }

    /// Reads the attachment that the step has drawn, or the first one of a message. The structure of the message is
    /// read first, unless it is known.
    pub(super) async fn read_attachment(&mut self, keys: &Action) -> StepResult {
        let of = match (self.action.attachment(), keys) {
            (None, Action::Document { of }) => *of,
            _ => Document::Last,
        };
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let known = self.memory.last.as_ref().filter(|last| last.row == row).and_then(|last| last.parts.clone());
        let parts = match known {
            Some(parts) => parts,
            None => self.fetch_message(&row, "BODYSTRUCTURE").await?.parts.unwrap_or_default(),
        };
        let number = self.action.attachment().unwrap_or(0) as usize;
        let Some(section) = parts.get(number) else { return Ok(StepOutcome::Skipped) };
        if !self.select_row(&row).await? {
            return Ok(StepOutcome::Skipped);
        }
        let command = Command::new("UID FETCH").words(&format!("{} BODY.PEEK[{section}]", row.uid));
        let name = format!("BODY[{section}]");
        let mut is_found = false;
        let each = |response| {
            let values = fetched(&response).map(|(_, values)| values).filter(|values| uid_of(values) == Some(row.uid));
            is_found |= values.is_some_and(|values| value_of(values, &name).is_some());
        };
        self.connection.call_with(self.count, command, each).await?;
        Ok(if is_found { DONE } else { StepOutcome::Skipped })
    }

    /// Returns the message of the step.
    pub(super) async fn document(&mut self, of: Document) -> Result<Option<Row>, CallError> {
        let repetition = self.action.repetition();
        if of == Document::Newest && repetition == 0 {
            self.read_newest(self.action.repetitions()).await?;
        }
        Ok(self.memory.pick(of, self.action.document_fraction(), repetition))
    }

    async fn fetch_message(&mut self, row: &Row, items: &str) -> Result<FetchedMessage, CallError> {
        let mut message = FetchedMessage::default();
        if !self.select_row(row).await? {
            return Ok(message);
        }
        let each = |response| {
            let Some((_, values)) = fetched(&response) else { return };
            if uid_of(values) != Some(row.uid) {
                return;
            }
            if let Some(structure) = value_of(values, "BODYSTRUCTURE") {
                message.is_found = true;
                message.parts = Some(attachment_sections(structure));
            }
            match value_of(values, "BODY[]") {
                Some(Value::Literal { head, .. }) => {
                    message.is_found = true;
                    message.head.clone_from(head);
                }
                Some(other) => {
                    message.is_found = true;
                    message.head = other.text().map(|text| text.as_bytes().to_vec()).unwrap_or_default();
                }
                None => {}
            }
        };
        let command = Command::new("UID FETCH").words(&format!("{} {items}", row.uid));
        self.connection.call_with(self.count, command, each).await?;
        Ok(message)
    }
}
