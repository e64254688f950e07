//! Authentication of messages from other servers.
//!
//! `verify` checks SPF, DKIM, DMARC and ARC, and determines whether the policy of the author's domain rejects a
//! message. `local_claims` finds the local domains that a message claims to be from. `results` writes and strips
//! `Authentication-Results`. Outgoing messages are signed by the crate `dkim`.

pub mod local_claims;
pub mod results;
pub mod verify;
