//! Authentication of messages: verification of incoming messages, and signatures for outgoing ones.
//!
//! `verify` checks SPF, DKIM, DMARC and ARC of messages from other servers, and determines whether the policy of the
//! author's domain rejects them. `results` writes and strips `Authentication-Results`. `sign` adds DKIM signatures to
//! messages of local users. `key` generates the keys and their DNS records.

pub mod key;
pub mod results;
pub mod sign;
pub mod verify;
