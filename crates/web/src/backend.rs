//! What the lite web mail needs from the rest of the server besides logins: the mail file of a person, addresses,
//! submission and the full-text index.
//!
//! The crate `server` implements it over the directory. All methods may block and are called on workers.

use std::sync::Arc;

use http::Caller;
use mail::mailbox::MailFile;
use mail::router::SentCopy;
use mail::submission::{AcceptedSubmission, NotifiedMessage, RefusedRequest, SubmissionRequest};
use search::FullTextIndex;
use store::Ticket;

/// The account of a person.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// The name that recipients see.
    pub name: String,
    /// The addresses. The first is the one with which the person sends.
    pub addresses: Vec<String>,
}

/// The kind of an entry of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A person.
    Person,
    /// A group.
    Group,
}

/// An entry of the directory with an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressEntry {
    /// The name.
    pub name: String,
    /// The address.
    pub address: String,
    /// The kind.
    pub kind: EntryKind,
}

/// Reason why the backend cannot answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// The person has no mail file.
    #[error("this account has no mail file")]
    NoMailFile,
    /// The mail file is on another server.
    #[error("the mail file of this account is on another server")]
    MailFileElsewhere,
    /// The server cannot answer at present. It has logged why.
    #[error("the server cannot answer now")]
    Unavailable,
}

/// The services of the server.
pub trait WebBackend: Send + Sync {
    /// Returns the account of a person.
    fn account(&self, caller: &Caller) -> Result<Account, BackendError>;

    /// Opens the mail file of a person with the rights of that person.
    fn open(&self, caller: &Caller) -> Result<MailFile, BackendError>;

    /// Returns entries of the directory whose names or addresses have all of these words, at most `limit`.
    fn find_addresses(&self, caller: &Caller, words: &str, limit: usize) -> Result<Vec<AddressEntry>, BackendError>;

    /// Returns the address of the person or the group with exactly this name.
    fn address_of(&self, caller: &Caller, name: &str) -> Result<Option<String>, BackendError>;

    /// Submits a message. With the path of a mail file and a copy for it, both happen or none.
    fn submit(
        &self,
        request: SubmissionRequest,
        copy: Option<(String, SentCopy)>,
    ) -> Result<AcceptedSubmission, RefusedRequest>;

    /// Submits a notification about a message, which is marked in the same transaction. Returns the ticket that must be
    /// durable before the person is told.
    fn submit_notification(&self, request: SubmissionRequest, about: NotifiedMessage)
    -> Result<Ticket, RefusedRequest>;

    /// Returns the full-text index, or `None` if the server has none.
    fn full_text(&self) -> search::Result<Option<Arc<FullTextIndex>>>;
}
