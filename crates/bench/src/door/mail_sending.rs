//! Messages that users of the older mail protocols send, whatever protocol they read with.
//!
//! A message goes over a connection of its own to the submission service, as mail clients do. One in the name of
//! another user goes over LMTP or SMTP, through connections that all users share.

use std::time::Duration;

use super::call::{CallCount, CallError, limited};
use super::line_connection::Place;
use super::message_head::MessageHead;
use super::smtp::delivery::DeliveryPool;
use super::smtp::{Envelope, SmtpConnection};
use crate::plan::steps::PlanAction;
use crate::population::content::{Answered, Content, Purpose};
use crate::population::memos::StoredMemo;
use crate::population::people::UserNames;
use crate::workload::action::{Recipients, Sender, Size};

/// Who the users are, and the services that take their messages.
pub struct MailSettings {
    /// Where messages are submitted; `None` if no step sends any.
    pub submission: Option<Place>,
    /// The connections for messages with drawn senders; `None` if the server takes none.
    pub delivery: Option<DeliveryPool>,
    /// The addresses of the users.
    pub names: UserNames,
    /// The password of all users.
    pub password: String,
    /// The factor by which messages are made smaller.
    pub size_scale: f64,
}

/// What a step sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letter<'a> {
    pub(super) recipients: Recipients,
    pub(super) from: Sender,
    pub(super) size: &'a Size,
}

impl MailSettings {
    /// Returns the address of the user of a step.
    pub(super) fn address_of(&self, action: &PlanAction) -> String {
        self.names.address(action.user())
    }

    /// Sends the message of a step, and returns it.
    pub(super) async fn send(
        &self,
        count: &mut CallCount,
        action: &PlanAction,
        letter: Letter<'_>,
    ) -> Result<Vec<u8>, CallError> {
        let to = action.recipients_of(letter.recipients);
        let content = action.content(Purpose::Message, letter.size, self.size_scale, None);
        match letter.from {
            Sender::Oneself => self.submit(count, action, &content, &to).await,
            Sender::Random => self.deliver(count, action.sender(letter.recipients), &content, &to).await,
        }
    }

    /// Answers a message, of which the user may know the head, and returns the answer. If it does not come from a user
    /// of the run, the answer goes to a user who is drawn.
    pub(super) async fn reply(
        &self,
        count: &mut CallCount,
        action: &PlanAction,
        answered: Option<&MessageHead>,
        size: &Size,
    ) -> Result<Vec<u8>, CallError> {
        let to = action.recipients_of_answer(&self.names, answered.and_then(|head| head.from.as_deref()));
        let answered = answered.and_then(|head| Answered::with_line(&head.subject));
        let content = action.content(Purpose::Message, size, self.size_scale, answered);
        self.submit(count, action, &content, &to).await
    }

    /// Sends a message over a connection of its own to the submission service.
    async fn submit(
        &self,
        count: &mut CallCount,
        action: &PlanAction,
        content: &Content,
        to: &[u64],
    ) -> Result<Vec<u8>, CallError> {
        let envelope = Envelope { from: self.address_of(action), to: self.addresses(to) };
        let message = content.message(&envelope.from, &envelope.to);
        let place = self.submission.as_ref();
        let place = place.ok_or_else(|| CallError::kept("no-submission", "the target has no submission service"))?;
        let mut connection = SmtpConnection::submission(place, count).await?;
        connection.log_in(count, [&envelope.from, &self.password]).await?;
        connection.transfer(count, &envelope, &message).await?;
        connection.quit(count).await;
        Ok(message)
    }

    /// Delivers a message whose sender is another user.
    async fn deliver(
        &self,
        count: &mut CallCount,
        sender: u64,
        content: &Content,
        to: &[u64],
    ) -> Result<Vec<u8>, CallError> {
        let envelope = Envelope { from: self.names.address(sender), to: self.addresses(to) };
        let message = content.message(&envelope.from, &envelope.to);
        let pool = self.delivery.as_ref();
        let pool = pool.ok_or_else(|| CallError::kept("no-delivery", "the target has neither LMTP nor SMTP"))?;
        pool.deliver(count, &envelope, &message).await?;
        Ok(message)
    }

    /// Delivers a message that a mail file has before the run, within a time limit.
    pub(super) async fn deliver_stored(
        &self,
        count: &mut CallCount,
        pool: &DeliveryPool,
        (owner, memo): (&str, &StoredMemo),
        time_limit: Duration,
    ) -> Result<(), CallError> {
        let envelope = Envelope { from: self.names.address(memo.sender), to: vec![owner.to_owned()] };
        let message = self.stored_message(owner, memo);
        limited(time_limit, pool.deliver(count, &envelope, &message)).await
    }

    /// Returns a message that a mail file has before the run, as it would have arrived.
    pub(super) fn stored_message(&self, owner: &str, memo: &StoredMemo) -> Vec<u8> {
        memo.content.message_with(&memo.header(&self.names, owner))
    }

    fn addresses(&self, users: &[u64]) -> Vec<String> {
        users.iter().map(|user| self.names.address(*user)).collect()
    }
}
