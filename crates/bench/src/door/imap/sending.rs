//! Sending messages and answers, and keeping their copies.

use super::folders::SENT;
use super::{DONE, StepContext, StepOutcome, StepResult};
use crate::door::mail_sending::Letter;
use crate::workload::action::{Document, Size};

impl StepContext<'_> {
    /// Answers a message.
    pub(super) async fn reply(&mut self, of: Document, size: &Size, copy: bool) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let answered = self.memory.last.as_ref().filter(|last| last.row == row).map(|last| &last.head);
        let message = self.settings.mail.reply(self.count, self.action, answered, size).await?;
        self.save_copy(message, copy).await
    }

    pub(super) async fn send(&mut self, letter: Letter<'_>, copy: bool) -> StepResult {
        let message = self.settings.mail.send(self.count, self.action, letter).await?;
        self.save_copy(message, copy).await
    }

    async fn save_copy(&mut self, message: Vec<u8>, copy: bool) -> StepResult {
        if copy {
            let sent = self.mailbox(SENT).await?;
            self.append(&sent, message).await?;
        }
        Ok(DONE)
    }
}
