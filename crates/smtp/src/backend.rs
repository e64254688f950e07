//! The services that this crate needs from the rest of the server, as three narrow traits.
//!
//! `server` implements them over `directory` and `mail`; the tests implement them in memory. All methods may block and
//! are called on worker threads, except [`Recipients::check_now`] and [`Acceptor::check_capacity`], which must return
//! immediately.

use std::future::Future;
use std::pin::Pin;

use wire::Peer;

use crate::envelope::{Envelope, Sender};
use crate::error::{Refusal, Status};

/// A future that completes when an accepted message is durable.
pub type DurableFuture = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>;

/// The directory's reply about a recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecipientReply {
    /// The recipient is local and can receive mail.
    Local,
    /// The domain is not local. Only clients that may relay can send to it.
    Remote,
    /// The domain is local, but the user does not exist.
    Unknown,
    /// The account is disabled.
    Disabled,
    /// The mailbox is full.
    OverQuota,
    /// The directory cannot answer now.
    Unavailable,
    /// Any other refusal.
    Refused(Refusal),
}

impl RecipientReply {
    /// Returns the refusal that this reply stands for, if it is one.
    #[must_use]
    pub fn refusal(self) -> Option<Refusal> {
        let (code, status, text) = match self {
            Self::Local | Self::Remote => return None,
            Self::Unknown => (550, Status(5, 1, 1), "User unknown"),
            Self::Disabled => (550, Status(5, 2, 1), "Mailbox disabled"),
            Self::OverQuota => (452, Status(4, 2, 2), "Mailbox full"),
            Self::Unavailable => (451, Status(4, 3, 0), "Cannot look up the recipient now, try again later"),
            Self::Refused(refusal) => return Some(refusal),
        };
        Some(Refusal::new(code, status, text))
    }
}

/// Provides the lookup of recipients.
pub trait Recipients: Send + Sync {
    /// Returns whether and how mail from `sender` to `address` can be delivered.
    fn check(&self, sender: &Sender, address: &str) -> RecipientReply;

    /// Checks as [`Recipients::check`] does, but returns `None` if the reply would have to wait for anything. A reply
    /// saves the call on a worker thread.
    fn check_now(&self, _sender: &Sender, _address: &str) -> Option<RecipientReply> {
        None
    }

    /// Returns the members of a mailing list for EXPN, or `None` if the list does not exist.
    fn expand(&self, _sender: &Sender, _list: &str) -> Option<Vec<String>> {
        None
    }
}

/// The reason why a login failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginError {
    /// Unknown login or wrong password. The client is not told which.
    InvalidCredentials,
    /// The account is disabled.
    Disabled,
    /// Too many recent failures.
    Throttled,
    /// The login cannot be checked now.
    Unavailable,
}

/// The next step of a SASL exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SaslExchangeStep {
    /// The server sends this challenge and waits for a response.
    Challenge(Vec<u8>),
    /// The client is authenticated. `login` is its login, `last` the final message of the server.
    Done { login: String, last: Vec<u8> },
}

/// The server's side of a SASL mechanism with several steps, such as SCRAM-SHA-256.
pub trait SaslExchange: Send {
    /// Processes the client's next message.
    fn step(&mut self, response: &[u8]) -> Result<SaslExchangeStep, LoginError>;
}

/// Checks passwords and the right to send in another's name.
pub trait Credentials: Send + Sync {
    /// Checks a password. Returns the login in its canonical spelling.
    fn authenticate(&self, peer: &Peer, login: &str, password: &[u8]) -> Result<String, LoginError>;

    /// Begins a SCRAM-SHA-256 exchange. Returns `None` if the mechanism is not available.
    fn scram_sha_256(&self, peer: &Peer) -> Option<Box<dyn SaslExchange>>;

    /// Returns `true` if a user may send with this reverse path. It is never `<>`, which every user may use.
    fn may_send_as(&self, login: &str, address: &str) -> bool;
}

/// A message accepted by the backend.
pub struct Accepted {
    /// The queue ID reported to the peer.
    pub id: String,
    /// Completes when the message is durable. The reply is sent after that.
    pub durable: DurableFuture,
    /// The indexes of recipients for which the message was refused. Used only for [`crate::envelope::Protocol::Lmtp`];
    /// in other protocols the backend accepts the message for all recipients or for none.
    pub refused: Vec<(usize, Refusal)>,
}

/// Accepts messages.
pub trait Acceptor: Send + Sync {
    /// Accepts a message that has its trace fields, or refuses it. Nothing of a refused message is kept.
    fn accept(&self, envelope: Envelope, message: Vec<u8>) -> Result<Accepted, Refusal>;

    /// Checks immediately whether there is capacity for a message of this size: queue, disk, load. A size of 0 means
    /// unknown.
    fn check_capacity(&self, _size_bytes: u64) -> Result<(), Refusal> {
        Ok(())
    }
}
