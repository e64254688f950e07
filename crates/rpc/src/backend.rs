//! The traits by which this crate uses the rest of the server: login, building the indexes of views, creating
//! databases, and submitting messages.
//!
//! The crate `server` implements them over `directory` and `mail`; the tests implement them in memory. All methods may
//! block and are called on worker threads.

use std::pin::Pin;
use std::sync::Arc;

use base::{DbNumber, NoteId};
use notes::{Database, Identity};
use tokio::sync::watch;
use wire::{Peer, SessionTermination};

/// The reason why a login failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginError {
    /// The login is unknown or the password is wrong. The client cannot tell which.
    InvalidCredentials,
    /// The account is disabled.
    Disabled,
    /// There were too many failed logins recently.
    Throttled,
    /// The client's message violates the rules of the mechanism.
    Malformed,
    /// The credentials cannot be checked at present.
    Unavailable,
}

/// The next step of a SASL exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SaslExchangeStep {
    /// The server sends this challenge and waits for the response.
    Challenge(Vec<u8>),
    /// The client is authenticated.
    Done {
        /// The canonical form of the login.
        login: String,
        /// The server's last message.
        last: Vec<u8>,
    },
}

/// The server side of a SASL mechanism with several steps, such as SCRAM-SHA-256.
pub trait SaslExchange: Send {
    /// Processes the client's next message.
    fn step(&mut self, response: &[u8]) -> Result<SaslExchangeStep, LoginError>;
}

/// A registered login session; dropping it removes the registration.
pub trait SessionSlot: Send + Sync {
    /// Returns the number that identifies the session in a login ([`Peer::connection`]).
    fn number(&self) -> u64;

    /// Returns the signal that the account has changed and the session must end.
    fn dismissal(&self) -> &SessionTermination;
}

/// Checks passwords.
pub trait Credentials: Send + Sync {
    /// Registers a session for a client that is about to log in.
    fn register_session(&self) -> Box<dyn SessionSlot>;

    /// Checks a password and returns the canonical form of the login.
    fn authenticate(&self, peer: &Peer, login: &str, password: &[u8]) -> Result<String, LoginError>;

    /// Starts a SCRAM-SHA-256 exchange. Returns `None` if the mechanism is not available.
    fn scram_sha_256(&self, peer: &Peer) -> Option<Box<dyn SaslExchange>>;
}

/// Progress of the build of a view's index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BuildProgress {
    /// Documents processed so far.
    pub done: u64,
    /// Total number of documents; 0 before the build has started.
    pub documents: u64,
}

/// Builds the indexes of views, one after the other.
pub trait Indexer: Send + Sync {
    /// Requests that the index of a view is built next. Returns a receiver of its progress, whose channel closes when
    /// the build has ended, successfully or not. Returns `None` if too many requests are waiting.
    fn build(&self, database: DbNumber, view: NoteId) -> Option<watch::Receiver<BuildProgress>>;

    /// Returns `true` if the view was updated less than `hours` hours ago, by any caller.
    fn is_recent(&self, database: DbNumber, view: NoteId, hours: u16) -> bool;

    /// Records that a view that is refreshed every given number of hours was updated now.
    fn record_refresh(&self, database: DbNumber, view: NoteId);
}

/// A template from which databases can be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The name that identifies the template.
    pub name: String,
    /// The default title of databases created from the template.
    pub title: String,
    /// A description of the template's purpose.
    pub description: String,
}

/// The reason why a database was not created.
#[derive(Debug)]
pub enum CreateDatabaseError {
    /// The caller is not permitted to create databases.
    NotAllowed,
    /// The template does not exist.
    NoTemplate,
    /// The request is not valid. The text is for users.
    Refused(String),
    /// The directory or the databases returned an error.
    Directory(directory::Error),
}

/// Creates databases.
pub trait DatabaseCreator: Send + Sync {
    /// Returns the available templates.
    fn templates(&self) -> Vec<Template>;

    /// Creates a database with the identity `maker` as Manager, from a template unless `template` is empty. The
    /// database is durable on return.
    fn create(
        &self,
        maker: &Identity,
        path: &str,
        title: &str,
        template: &str,
    ) -> Result<Arc<Database>, CreateDatabaseError>;
}

/// A message to be submitted to the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The canonical name of the logged-in user.
    pub login: String,
    /// The peer that submits the message.
    pub peer: Peer,
    /// The envelope sender; empty for the first address of the login.
    pub sender: String,
    /// The recipients' addresses.
    pub recipients: Vec<String>,
    /// The message as it was received.
    pub message: Vec<u8>,
}

/// The reason why a message is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmissionError {
    /// The sender or an author is not an address of the logged-in user.
    Sender(String),
    /// A recipient is not valid.
    Recipient(String),
    /// The message or its list of recipients is too large.
    TooLarge(String),
    /// A mailbox is full.
    MailboxFull(String),
    /// The message is not valid.
    Invalid(String),
    /// The message cannot be accepted at present.
    Unavailable(String),
}

/// A future that is ready when an accepted message is durable.
pub type Durable = Pin<Box<dyn Future<Output = Result<(), SubmissionError>> + Send>>;

/// An accepted message.
pub struct Accepted {
    /// The server's identifier of the message.
    pub id: String,
    /// The condition for the reply to the client.
    pub durable: Durable,
}

/// Accepts messages from users.
pub trait SubmissionService: Send + Sync {
    /// Accepts a message, or returns the reason why it is refused. No part of a refused message is kept.
    fn deposit(&self, deposit: Submission) -> Result<Accepted, SubmissionError>;

    /// Returns the maximum size of a message in bytes.
    fn message_bytes_max(&self) -> u64;

    /// Returns the maximum number of recipients of a message.
    fn recipients_max(&self) -> usize;
}
