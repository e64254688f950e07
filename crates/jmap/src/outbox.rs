//! Sending: what this crate needs from submission and the queue.
//!
//! The service of the crate `mail` implements it. The tests implement it with the router alone, without a directory.

use mail::router::{QueueEntry, SubmissionRecord};
use mail::submission::{NotifiedMessage, RecordedSubmission, RefusedRequest, SubmissionRequest, SubmissionService};
use store::Ticket;

/// Sending of messages.
pub trait Outbox: Send + Sync {
    /// Accepts a message, and writes the document about it in the same transaction.
    fn submit(&self, request: SubmissionRequest, recorded: RecordedSubmission) -> Result<Ticket, RefusedRequest>;

    /// Accepts a notification about a message, which is marked in the same transaction.
    fn submit_notification(&self, request: SubmissionRequest, about: NotifiedMessage)
    -> Result<Ticket, RefusedRequest>;

    /// Removes a message that is held from the queue, and changes the document about it in the same transaction.
    /// Returns `None` if it is too late.
    fn withdraw(&self, id: &str, record: SubmissionRecord) -> mail::Result<Option<Ticket>>;

    /// Returns the queued message with an identifier.
    fn queued_message(&self, id: &str) -> Option<QueueEntry>;

    /// Returns the maximum number of recipients of a message.
    fn recipients_max(&self) -> usize;

    /// Returns the maximum number of bytes of a message.
    fn message_bytes_max(&self) -> u64;
}

impl Outbox for SubmissionService {
    fn submit(&self, request: SubmissionRequest, recorded: RecordedSubmission) -> Result<Ticket, RefusedRequest> {
        self.submit_recorded(request, recorded)
    }

    fn submit_notification(
        &self,
        request: SubmissionRequest,
        about: NotifiedMessage,
    ) -> Result<Ticket, RefusedRequest> {
        Self::submit_notification(self, request, about)
    }

    fn withdraw(&self, id: &str, record: SubmissionRecord) -> mail::Result<Option<Ticket>> {
        Self::withdraw(self, id, record)
    }

    fn queued_message(&self, id: &str) -> Option<QueueEntry> {
        Self::queued_message(self, id)
    }

    fn recipients_max(&self) -> usize {
        self.options().recipients_max
    }

    fn message_bytes_max(&self) -> u64 {
        self.options().message_bytes_max
    }
}
