//! Errors of this crate, grouped by the party that must act, and refusals sent to the peer.
//!
//! An [`Error`] ends a session or an operation and is written to the log. A [`NegativeReply`] is a reply: the reply
//! code, the enhanced status code (RFC 3463) and one line of text for the peer. The log and the peer receive different
//! information; a refusal never contains the text of an inner error.

use std::borrow::Cow;
use std::fmt;

use base::memory::Exhausted;

/// The result of an SMTP operation.
pub type Result<T> = std::result::Result<T, Error>;

/// The error that ended a session or an operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection broke or the peer closed it. No action is required.
    #[error("the connection failed: {0}")]
    Connection(#[from] std::io::Error),
    /// The peer was silent or took too long. No action is required.
    #[error("the peer took longer than {0}")]
    TooSlow(&'static str),
    /// The TLS handshake failed. The peer's administrator may have to act.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The peer violated the SMTP protocol.
    #[error("the peer violated the protocol: {0}")]
    Protocol(&'static str),
    /// The resolver cannot be set up. The operator must act.
    #[error("name resolution: {0}")]
    Resolver(String),
    /// The worker threads have ended or a job panicked. This is a bug in this program, or the server is stopping.
    #[error("the worker pool failed: {0}")]
    Pool(String),
}

/// An enhanced status code (RFC 3463): class, subject, detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct EnhancedStatus(pub u8, pub u16, pub u16);

impl fmt::Display for EnhancedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// A negative reply to the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NegativeReply {
    /// The reply code, 400 to 599.
    pub code: u16,
    /// The enhanced status code.
    pub status: EnhancedStatus,
    /// One line of text, without the code.
    pub text: Cow<'static, str>,
}

impl NegativeReply {
    /// Creates a refusal.
    pub fn new(code: u16, status: EnhancedStatus, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, status, text: text.into() }
    }

    /// Creates a refusal for a temporary failure of this server.
    #[must_use]
    pub fn temporary() -> Self {
        Self::new(451, EnhancedStatus(4, 3, 0), "Local error, try again later")
    }

    /// Creates a refusal for a lack of capacity (queue or disk full).
    #[must_use]
    pub fn insufficient_storage() -> Self {
        Self::new(452, EnhancedStatus(4, 3, 1), "Insufficient system storage, try again later")
    }

    /// Returns `true` if a retry is pointless.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.code >= 500
    }
}

impl From<Exhausted> for NegativeReply {
    fn from(_: Exhausted) -> Self {
        Self::new(452, EnhancedStatus(4, 3, 1), "No memory is left for this message, try again later")
    }
}

impl From<mail::submission::Refusal> for NegativeReply {
    fn from(refusal: mail::submission::Refusal) -> Self {
        let (code, (class, subject, detail)) = refusal.codes();
        Self::new(code, EnhancedStatus(class, subject, detail), refusal.to_string())
    }
}

impl fmt::Display for NegativeReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.code, self.status, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_displays_as_an_smtp_reply() {
        assert_eq!(
            NegativeReply::insufficient_storage().to_string(),
            "452 4.3.1 Insufficient system storage, try again later"
        );
        assert!(!NegativeReply::temporary().is_permanent());
        assert!(NegativeReply::new(550, EnhancedStatus(5, 1, 1), "Unknown user").is_permanent());
    }
}
