//! What a user of the JMAP door knows.

use super::account::{BlobFile, Mailbox};
use crate::door::http::OpenStream;
use crate::door::rows::KnownRows;

/// The identifier of a message.
pub(super) type EmailId = String;

/// A message that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadEmail {
    /// The message.
    pub(super) id: EmailId,
    /// The address of its sender.
    pub(super) from: Option<String>,
    /// The subject.
    pub(super) subject: String,
    /// Its `Message-ID`.
    pub(super) message_id: Option<String>,
    /// Its attachments.
    pub(super) files: Vec<BlobFile>,
}

/// The mailbox that a user has opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenMailbox {
    /// The identifier.
    pub(super) id: String,
    /// The messages when the list was read last.
    pub(super) total: usize,
    /// The position of the row with which the next screen begins.
    pub(super) next: usize,
}

/// What a user remembers.
#[derive(Debug, Default)]
pub(super) struct UserMemory {
    /// The mailboxes, once they are known.
    pub(super) mailboxes: Vec<Mailbox>,
    /// The identity with which messages are sent, once it is known.
    pub(super) identity: Option<String>,
    /// The mailbox that is open.
    pub(super) open: Option<OpenMailbox>,
    /// The message that was read last.
    pub(super) last: Option<ReadEmail>,
    /// The state of the messages at the last poll.
    pub(super) state: Option<String>,
    /// The messages.
    pub(super) rows: KnownRows<EmailId>,
    /// The event source.
    pub(super) events: Option<OpenStream>,
}
