//! Who a message really comes from: results for what comes in, signatures for what goes out.
//!
//! `verify` checks SPF, DKIM, DMARC and ARC of a stranger's message and says whether its domain's policy refuses it;
//! `results` writes and strips `Authentication-Results`; `sign` puts DKIM signatures on our users' messages; `key`
//! makes the keys and the DNS records that go with them.

pub mod key;
pub mod results;
pub mod sign;
pub mod verify;
