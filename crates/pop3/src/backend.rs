//! Interfaces that the `pop3` crate needs from the rest of the server: authentication, and the mail file of a login.
//!
//! The `server` crate implements them over `directory` and `mail`; the tests implement them in memory. All methods may
//! block and are called on worker threads.

use mail::mailbox::MailFile;
use wire::Peer;

/// Reason why a login failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoginError {
    /// Unknown login or wrong password. The client is not told which of the two.
    InvalidCredentials,
    /// The account is disabled.
    Disabled,
    /// Too many recent failures.
    Throttled,
    /// The client's message violates the rules of the mechanism.
    Malformed,
    /// Logins cannot be checked at present.
    Unavailable,
}

impl LoginError {
    /// Returns the text for the client, with its response code (RFC 3206).
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::InvalidCredentials => "[AUTH] wrong login or password",
            Self::Disabled => "[AUTH] the account is disabled",
            Self::Throttled => "[SYS/TEMP] too many failed logins, try again later",
            Self::Malformed => "[AUTH] invalid response for this authentication mechanism",
            Self::Unavailable => "[SYS/TEMP] cannot authenticate now, try again later",
        }
    }
}

/// Result of one step of a SASL exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SaslExchangeStep {
    /// The server sends this challenge and waits for a response.
    Challenge(Vec<u8>),
    /// The client has proved its identity.
    Done {
        /// The login in its canonical spelling.
        login: String,
        /// The server's last message. The client answers it with an empty line.
        last: Vec<u8>,
    },
}

/// The server side of a SASL mechanism with several steps, such as SCRAM-SHA-256.
pub trait SaslExchange: Send {
    /// Processes the client's next message.
    fn step(&mut self, response: &[u8]) -> Result<SaslExchangeStep, LoginError>;
}

/// Access to passwords and mail files.
pub trait Credentials: Send + Sync {
    /// Checks a password and returns the login in its canonical spelling.
    fn authenticate(&self, peer: &Peer, login: &str, password: &[u8]) -> Result<String, LoginError>;

    /// Begins a SCRAM-SHA-256 exchange. Returns `None` if the mechanism is not available.
    fn scram_sha_256(&self, peer: &Peer) -> Option<Box<dyn SaslExchange>>;

    /// Opens the mail file of an authenticated login.
    fn open(&self, login: &str) -> Result<MailFile, LoginError>;
}
