//! DKIM signatures on outgoing messages (RFC 6376, RFC 8463): keys, their DNS records, and the signing itself.
//!
//! [`key`] generates the keys of a domain and the records that an operator publishes. [`sign`] adds signatures to the
//! messages of a domain. Both are pure: keys are stored by the caller. The verification of incoming messages is in
//! `smtp::auth`.

pub mod key;
pub mod sign;

/// The result of an operation on keys.
pub type Result<T> = std::result::Result<T, Error>;

/// The error returned if a signing key cannot be generated, read or used. The operator must act.
#[derive(Debug, thiserror::Error)]
#[error("signing key for {domain}: {reason}")]
pub struct Error {
    /// The domain, or "a domain" if the key does not belong to one yet.
    pub domain: String,
    /// The reason.
    pub reason: String,
}
