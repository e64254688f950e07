//! SMTP and LMTP: reception, submission, transfer.
//!
//! | who | what | where |
//! |---|---|---|
//! | other servers | reception, port 25 | [`conn::serve`] with [`rules::Rules::reception`] |
//! | our users | submission, ports 587 and 465 | [`conn::serve`] with [`rules::Rules::submission`] |
//! | a server in front of us | LMTP | [`conn::serve`] with [`rules::Rules::lmtp`] |
//! | our router | transfer to other servers | [`client::Transfer`] |
//!
//! Covered: SMTP (RFC 5321), LMTP (2033), submission (6409), STARTTLS (3207), AUTH (4954) with PLAIN, LOGIN and
//! SCRAM-SHA-256, PIPELINING (2920), SIZE (1870), 8BITMIME (6152), SMTPUTF8 (6531), CHUNKING (3030), DSN (3461),
//! ENHANCEDSTATUSCODES (2034, 3463), LIMITS (9422), transmission types (3848), null MX (7505); for messages that come
//! in SPF (7208), DKIM (6376, 8463), DMARC (7489), ARC (8617), `Authentication-Results` (8601); DKIM signatures for those
//! that go out.
//!
//! Left out: BINARYMIME (a message with it could not be sent on to most servers without rewriting its parts, which
//! would break its signatures), ETRN and TURN (obsolete), REQUIRETLS, MTA-STS and DANE (later), BURL.
//!
//! Inside: [`codec`] and [`session`] are pure; `cmd` has one file a verb; [`conn`] is the only tokio of the serving side.
//! [`backend`] says what the room needs from the rest of the server.

pub mod auth;
pub mod backend;
pub mod client;
mod cmd;
pub mod codec;
pub mod conn;
pub mod dns;
pub mod envelope;
pub mod error;
pub mod fuzz;
pub mod header;
pub mod limits;
pub mod rules;
pub mod session;
pub mod submission;
pub mod trace;

pub use error::{Error, Refusal, Result, Status};
