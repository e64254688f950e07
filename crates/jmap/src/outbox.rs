//! Sending: what this crate needs from submission and the queue.
//!
//! The service of the crate `mail` implements it. The tests implement it with the router alone, without a directory.

use std::collections::HashSet;

use base::sync::{Condvar, Mutex};
use mail::router::{QueueEntry, SubmissionRecord};
use mail::submission::{NotifiedMessage, RecordedSubmission, RefusedRequest, SubmissionRequest, SubmissionService};
use store::Ticket;

/// The requests to send that are carried out now.
///
/// A client repeats a request whose answer was lost, perhaps while the first one is still carried out. The repetition
/// waits, and then finds the submission of the first one. Other requests are not waited for.
#[derive(Default)]
pub struct RunningRequests {
    running: Mutex<HashSet<(String, String)>>,
    ended: Condvar,
}

/// A request to send that is carried out until this is dropped.
pub struct RunningRequest<'r> {
    requests: &'r RunningRequests,
    key: (String, String),
}

impl RunningRequests {
    /// Begins a request of an account with a digest, after an equal one has ended.
    #[must_use]
    pub fn begin(&self, account: &str, digest: &str) -> RunningRequest<'_> {
        let key = (account.to_owned(), digest.to_owned());
        let mut running = self.running.lock();
        while !running.insert(key.clone()) {
            self.ended.wait(&mut running);
        }
        RunningRequest { requests: self, key }
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        self.requests.running.lock().remove(&self.key);
        self.requests.ended.notify_all();
    }
}

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

    /// Returns those of some recipients that are refused, and not only for the present.
    fn refused_recipients(&self, addresses: &[String]) -> Vec<String>;

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

    fn refused_recipients(&self, addresses: &[String]) -> Vec<String> {
        let is_refused = |address: &&String| {
            let answer = self.resolve(address.trim());
            answer.is_err_and(|refusal| refusal.codes().0 >= 500)
        };
        addresses.iter().filter(is_refused).cloned().collect()
    }

    fn recipients_max(&self) -> usize {
        self.options().recipients_max
    }

    fn message_bytes_max(&self) -> u64 {
        self.options().message_bytes_max
    }
}
