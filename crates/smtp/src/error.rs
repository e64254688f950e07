//! What can go wrong in the SMTP room, sorted by who must act, and how the peer is told.
//!
//! [`Error`] ends a session or an operation and is for the log. A [`Refusal`] is an answer: the reply code, the
//! enhanced status code (RFC 3463) and one line of text that the peer sees. What the peer sees and what is logged are
//! different things; a refusal never carries the text of an inner error.

use std::borrow::Cow;
use std::fmt;

/// The result of an SMTP operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a session or an operation ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection broke or the peer left. Nobody has to act.
    #[error("the connection failed: {0}")]
    Connection(#[from] std::io::Error),
    /// The peer was silent, or took too long. Nobody has to act.
    #[error("the peer took longer than {0}")]
    TooSlow(&'static str),
    /// The TLS handshake failed. The peer's administrator may have to act.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The peer does not speak SMTP as it must.
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
    /// A signing key cannot be made or read. The operator has to act.
    #[error("signing key for {domain}: {why}")]
    Key { domain: String, why: String },
    /// The resolver cannot be set up. The operator has to act.
    #[error("name resolution: {0}")]
    Resolver(String),
    /// The workers are gone or a job panicked. A fault of ours, or the server ends.
    #[error("the worker pool failed: {0}")]
    Pool(String),
}

/// An enhanced status code (RFC 3463): class, subject, detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Status(pub u8, pub u16, pub u16);

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// A negative answer to the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The reply code, 400 to 599.
    pub code: u16,
    /// The enhanced status code.
    pub status: Status,
    /// One line of text, without code.
    pub text: Cow<'static, str>,
}

impl Refusal {
    /// Makes a refusal.
    pub fn new(code: u16, status: Status, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, status, text: text.into() }
    }

    /// Says that the failure is ours and will pass.
    #[must_use]
    pub fn later() -> Self {
        Self::new(451, Status(4, 3, 0), "Local error, try again later")
    }

    /// Says that there is no room for the message now (queue or disk full).
    #[must_use]
    pub fn no_room() -> Self {
        Self::new(452, Status(4, 3, 1), "Insufficient system storage, try again later")
    }

    /// Tells whether trying again is pointless.
    #[must_use]
    pub fn permanent(&self) -> bool {
        self.code >= 500
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.code, self.status, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_reads_as_on_the_wire() {
        assert_eq!(Refusal::no_room().to_string(), "452 4.3.1 Insufficient system storage, try again later");
        assert!(!Refusal::later().permanent());
        assert!(Refusal::new(550, Status(5, 1, 1), "Unknown user").permanent());
    }
}
