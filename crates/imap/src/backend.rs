//! What the IMAP room needs from the rest of the server besides mail files: who may log in, which file is theirs, and the full-text index.
//!
//! `server` implements this over `directory` and `mail`; the tests implement it in memory. All methods may block and
//! are called on worker threads.

use std::sync::Arc;

use mail::mailbox::MailFile;
use wire::Peer;

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

impl LoginError {
    /// Gives what the client is told, with the response code (RFC 5530).
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Wrong => "[AUTHENTICATIONFAILED] wrong login or password",
            Self::Disabled => "[AUTHORIZATIONFAILED] the account is switched off",
            Self::Throttled => "[LIMIT] too many failures, try again later",
            Self::Malformed => "[AUTHENTICATIONFAILED] not what the mechanism wants",
            Self::Unavailable => "[UNAVAILABLE] cannot check logins now, try again later",
        }
    }
}

/// How a SASL exchange goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExchangeStep {
    /// The server says this and waits for more.
    Challenge(Vec<u8>),
    /// The client has proved who it is: the login, and what the server says last.
    Done {
        /// The login in its proper spelling.
        login: String,
        /// The server's last message; the client answers it with an empty line.
        last: Vec<u8>,
    },
}

/// The server's side of a SASL mechanism that takes several steps, such as SCRAM-SHA-256.
pub trait Exchange: Send {
    /// Takes the client's next message.
    fn step(&mut self, response: &[u8]) -> Result<ExchangeStep, LoginError>;
}

/// Gives the full-text index, where there is one. May block.
pub type FullText = Arc<dyn Fn() -> search::Result<Option<Arc<search::Search>>> + Send + Sync>;

/// Knows passwords and mail files.
pub trait Credentials: Send + Sync {
    /// Checks a password; gives the login in its proper spelling.
    fn authenticate(&self, peer: &Peer, login: &str, password: &[u8]) -> Result<String, LoginError>;

    /// Begins an exchange of SCRAM-SHA-256; none if the mechanism is not there.
    fn scram_sha_256(&self, peer: &Peer) -> Option<Box<dyn Exchange>>;

    /// Opens the mail file of somebody who has logged in.
    fn open(&self, login: &str) -> Result<MailFile, LoginError>;
}
