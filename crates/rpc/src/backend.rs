//! What the room needs from the rest of the server: who may log in, who builds the index of a view, and who takes a message.
//!
//! `server` implements this over `directory` and `mail`; the tests implement it in memory. All methods may block and
//! are called on worker threads.

use std::pin::Pin;
use std::sync::Arc;

use base::{DbNumber, NoteId};
use notes::{Database, Identity};
use tokio::sync::watch;
use wire::{Dismissal, Peer};

/// Why nobody was logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginError {
    /// Unknown login or wrong password; which of them is not told.
    Wrong,
    /// The account is switched off.
    Disabled,
    /// Too many failures of late.
    Throttled,
    /// The client's message breaks the rules of the mechanism.
    Malformed,
    /// It cannot be told now.
    Unavailable,
}

/// How a SASL exchange goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExchangeStep {
    /// The server says this and waits for more.
    Challenge(Vec<u8>),
    /// The client has proved who it is.
    Done {
        /// The login in its proper spelling.
        login: String,
        /// The server's last message.
        last: Vec<u8>,
    },
}

/// The server's side of a SASL mechanism that takes several steps, such as SCRAM-SHA-256.
pub trait Exchange: Send {
    /// Takes the client's next message.
    fn step(&mut self, response: &[u8]) -> Result<ExchangeStep, LoginError>;
}

/// A place among those who are logged in; given back when dropped.
pub trait Seat: Send + Sync {
    /// The number by which a login names it ([`Peer::connection`]).
    fn number(&self) -> u64;

    /// Tells when the account is not what it was.
    fn dismissal(&self) -> &Dismissal;
}

/// Knows passwords.
pub trait Credentials: Send + Sync {
    /// Takes a place for somebody who is about to log in.
    fn seat(&self) -> Box<dyn Seat>;

    /// Checks a password; gives the login in its proper spelling.
    fn authenticate(&self, peer: &Peer, login: &str, password: &[u8]) -> Result<String, LoginError>;

    /// Begins an exchange of SCRAM-SHA-256; none if the mechanism is not there.
    fn scram_sha_256(&self, peer: &Peer) -> Option<Box<dyn Exchange>>;
}

/// How far the index of a view is that is being built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BuildProgress {
    /// Documents that were looked at.
    pub done: u64,
    /// Documents that there are; 0 before it has begun.
    pub documents: u64,
}

/// Builds the indexes of views, one after the other.
pub trait Indexer: Send + Sync {
    /// Asks for the index of a view to be built next. Tells how far it is; the channel closes when it is over, however it went. Nothing when too much
    /// waits already.
    fn build(&self, database: DbNumber, view: NoteId) -> Option<watch::Receiver<BuildProgress>>;

    /// Tells whether a view was brought up to date, by anybody, less than so many hours ago.
    fn is_recent(&self, database: DbNumber, view: NoteId, hours: u16) -> bool;

    /// Notes down that a view that is refreshed every so many hours was brought up to date.
    fn refreshed(&self, database: DbNumber, view: NoteId);
}

/// A design that databases are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// By which it is asked for.
    pub name: String,
    /// The title of databases that are made from it, unless another one is given.
    pub title: String,
    /// What it is for.
    pub about: String,
}

/// Why a database is not made.
#[derive(Debug)]
pub enum MakeError {
    /// The caller is none of those who may make some.
    NotAllowed,
    /// There is no such template.
    NoTemplate,
    /// It cannot be made so; what is told to people.
    Refused(String),
    /// The directory or the databases say no.
    Directory(directory::Error),
}

/// Makes databases.
pub trait Maker: Send + Sync {
    /// Lists the templates there are.
    fn templates(&self) -> Vec<Template>;

    /// Makes a database that its maker manages, from a template if one is named. Durable on return.
    fn create(&self, maker: &Identity, path: &str, title: &str, template: &str) -> Result<Arc<Database>, MakeError>;
}

/// A message on its way to the router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deposit {
    /// Who has logged in.
    pub login: String,
    /// Where from.
    pub peer: Peer,
    /// The envelope sender; empty for the first address of the login.
    pub sender: String,
    /// Addresses.
    pub recipients: Vec<String>,
    /// The message as it came.
    pub message: Vec<u8>,
}

/// Why a message is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DepositError {
    /// The sender or an author is not an address of the one who has logged in.
    Sender(String),
    /// A recipient cannot be.
    Recipient(String),
    /// The message or its list of recipients is too large.
    TooLarge(String),
    /// A mailbox is full.
    MailboxFull(String),
    /// The message breaks the rules.
    Invalid(String),
    /// Not now.
    Unavailable(String),
}

/// Becomes ready when a message that was taken can no longer be lost.
pub type Durable = Pin<Box<dyn Future<Output = Result<(), DepositError>> + Send>>;

/// A message that was taken.
pub struct Deposited {
    /// The server's identifier of it.
    pub id: String,
    /// The client is told when this is ready.
    pub durable: Durable,
}

/// Takes messages from users.
pub trait Depositor: Send + Sync {
    /// Takes a message, or says why not. Nothing is kept of a message that is refused.
    fn deposit(&self, deposit: Deposit) -> Result<Deposited, DepositError>;

    /// The most bytes of a message.
    fn message_bytes_max(&self) -> u64;

    /// The most recipients of a message.
    fn recipients_max(&self) -> usize;
}
