//! What the SMTP room needs from the rest of the server, as three narrow traits.
//!
//! `server` implements them over `directory` and `mail`; the tests implement them in memory. All methods may block and
//! are called on worker threads, except [`Recipients::known`] and [`Acceptor::room`], which must answer at once.

use std::future::Future;
use std::pin::Pin;

use wire::Peer;

use crate::envelope::{Envelope, Sender};
use crate::error::{Refusal, Status};

/// Becomes ready when an accepted message can no longer be lost.
pub type Durable = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>;

/// What the directory says about a recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecipientReply {
    /// It lives here and can be delivered to.
    Local,
    /// Its domain is not ours. Only those who may relay can send there.
    Remote,
    /// The domain is ours, the user is not known.
    Unknown,
    /// The account is switched off.
    Disabled,
    /// The mailbox is full.
    OverQuota,
    /// It cannot be told now.
    Unavailable,
    /// Anything else.
    Refused(Refusal),
}

impl RecipientReply {
    /// Gives the refusal that this reply stands for, if it is one.
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

/// Knows who lives here.
pub trait Recipients: Send + Sync {
    /// Says what becomes of mail from `sender` to `address`.
    fn check(&self, sender: &Sender, address: &str) -> RecipientReply;

    /// The same, if it can be said without waiting for anything; spares the way over a worker.
    fn known(&self, _sender: &Sender, _address: &str) -> Option<RecipientReply> {
        None
    }

    /// Gives the members of a mailing list for EXPN; none if there is no such list.
    fn expand(&self, _sender: &Sender, _list: &str) -> Option<Vec<String>> {
        None
    }
}

/// Why nobody was logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginError {
    /// Unknown login or wrong password; which of them is not told.
    Wrong,
    /// The account is switched off.
    Disabled,
    /// Too many failures of late.
    Throttled,
    /// It cannot be told now.
    Unavailable,
}

/// How a SASL exchange goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExchangeStep {
    /// The server says this and waits for more.
    Challenge(Vec<u8>),
    /// The client has proved who it is: the login, and what the server says last.
    Done { login: String, last: Vec<u8> },
}

/// The server's side of a SASL mechanism that takes several steps, such as SCRAM-SHA-256.
pub trait Exchange: Send {
    /// Takes the client's next message.
    fn step(&mut self, response: &[u8]) -> Result<ExchangeStep, LoginError>;
}

/// Knows passwords, and who may send in whose name.
pub trait Credentials: Send + Sync {
    /// Checks a password; gives the login in its proper spelling.
    fn authenticate(&self, peer: &Peer, login: &str, password: &[u8]) -> Result<String, LoginError>;

    /// Begins an exchange of SCRAM-SHA-256; none if the mechanism is not there.
    fn scram_sha_256(&self, peer: &Peer) -> Option<Box<dyn Exchange>>;

    /// Tells whether a user may send with this reverse path (never `<>`, which everybody may).
    fn may_send_as(&self, login: &str, address: &str) -> bool;
}

/// A message that the backend has taken.
pub struct Accepted {
    /// What the peer is told that it was queued as.
    pub id: String,
    /// The reply leaves when this is ready.
    pub durable: Durable,
    /// Recipients, by index, for which it was not taken. Only for [`crate::envelope::Protocol::Lmtp`]: elsewhere the
    /// backend takes all or nothing.
    pub refused: Vec<(usize, Refusal)>,
}

/// Takes messages.
pub trait Acceptor: Send + Sync {
    /// Takes a message with its trace fields, or says why not. Nothing is kept of a message that is refused.
    fn accept(&self, envelope: Envelope, message: Vec<u8>) -> Result<Accepted, Refusal>;

    /// Says at once whether there is room for a message of this size (0: not known): queue, disk, load.
    fn room(&self, _size_bytes: u64) -> Result<(), Refusal> {
        Ok(())
    }
}
