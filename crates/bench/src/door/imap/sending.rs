//! Sending messages and answers.

use super::folders::SENT;
use super::{DONE, StepContext, StepOutcome, StepResult};
use crate::door::call::CallError;
use crate::door::smtp::{Envelope, SmtpConnection};
use crate::population::content::{Answered, Content, Purpose};
use crate::workload::action::{Document, Recipients, Sender, Size};

impl StepContext<'_> {
    /// Answers a message. If it does not come from a user of the run, the answer goes to a user who is drawn.
    pub(super) async fn reply(&mut self, of: Document, size: &Size, copy: bool) -> StepResult {
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let answered = self.memory.last.as_ref().filter(|last| last.row == row);
        let from = answered.and_then(|last| last.head.from.as_deref());
        let to = self.action.recipients_of_answer(&self.settings.names, from);
        let answered = answered.and_then(|last| Answered::with_line(&last.head.subject));
        let content = self.action.content(Purpose::Message, size, self.settings.size_scale, answered);
        self.submit(&content, &to, copy).await
    }

    pub(super) async fn send(&mut self, recipients: Recipients, from: Sender, size: &Size, copy: bool) -> StepResult {
        let to = self.action.recipients_of(recipients);
        let content = self.action.content(Purpose::Message, size, self.settings.size_scale, None);
        match from {
            Sender::Oneself => self.submit(&content, &to, copy).await,
            Sender::Random => self.deliver(&content, self.action.sender(recipients), &to, copy).await,
        }
    }

    /// Sends a message over a connection of its own to the submission service.
    async fn submit(&mut self, content: &Content, to: &[u64], copy: bool) -> StepResult {
        let envelope = Envelope { from: self.address(), to: self.addresses(to) };
        let message = content.message(&envelope.from, &envelope.to);
        let place = self.settings.submission.as_ref();
        let place = place.ok_or_else(|| CallError::kept("no-submission", "the target has no submission service"))?;
        let mut connection = SmtpConnection::submission(place, self.count).await?;
        connection.log_in(self.count, [&envelope.from, &self.settings.password]).await?;
        connection.transfer(self.count, &envelope, &message).await?;
        connection.quit(self.count).await;
        self.save_copy(message, copy).await
    }

    /// Delivers a message whose sender is another user.
    async fn deliver(&mut self, content: &Content, sender: u64, to: &[u64], copy: bool) -> StepResult {
        let envelope = Envelope { from: self.settings.names.address(sender), to: self.addresses(to) };
        let message = content.message(&envelope.from, &envelope.to);
        let pool = self.settings.delivery.as_ref();
        let pool = pool.ok_or_else(|| CallError::kept("no-delivery", "the target has neither LMTP nor SMTP"))?;
        pool.deliver(self.count, &envelope, &message).await?;
        self.save_copy(message, copy).await
    }

    async fn save_copy(&mut self, message: Vec<u8>, copy: bool) -> StepResult {
        if copy {
            let sent = self.mailbox(SENT).await?;
            self.append(&sent, message).await?;
        }
        Ok(DONE)
    }

    fn addresses(&self, users: &[u64]) -> Vec<String> {
        users.iter().map(|user| self.settings.names.address(*user)).collect()
    }
}
