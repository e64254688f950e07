//! SMTP and LMTP: reception, submission, transfer.
//!
//! | peer | purpose | entry point |
//! |---|---|---|
//! | other servers | reception, port 25 | [`connection::serve`] with [`listener_rules::ListenerRules::reception`] |
//! | clients of local users | submission, ports 587 and 465 | [`connection::serve`] with [`listener_rules::ListenerRules::submission`] |
//! | a front-end server | LMTP | [`connection::serve`] with [`listener_rules::ListenerRules::lmtp`] |
//! | the router of this server | transfer to other servers | [`client::SmtpClient`] |
//!
//! The crate implements SMTP (RFC 5321), LMTP (2033), submission (6409), STARTTLS (3207), AUTH (4954) with PLAIN,
//! LOGIN, SCRAM-SHA-256 and SCRAM-SHA-256-PLUS, PIPELINING (2920), SIZE (1870), 8BITMIME (6152), SMTPUTF8 (6531),
//! CHUNKING (3030), DSN (3461), ENHANCEDSTATUSCODES (2034, 3463), LIMITS (9422), transmission types (3848) and null MX
//! (7505). For incoming messages it implements SPF (7208), DKIM (6376, 8463), DMARC (7489), ARC (8617) and
//! `Authentication-Results` (8601).
//!
//! A message takes the path that `mail::submission` defines for all protocols: the session asks for its steps, and the
//! last one deposits the message.
//!
//! The crate leaves out BINARYMIME (most servers accept such a message only after its parts are rewritten, which breaks
//! its signatures), ETRN and TURN (obsolete), REQUIRETLS, MTA-STS and DANE (planned), and BURL.
//!
//! [`codec`] and [`session`] are pure. `cmd` has one file per verb. [`connection`] is the only user of tokio on the
//! server side. [`backend`] defines the services that the crate needs from the rest of the server.

pub mod auth;
pub mod backend;
pub mod client;
mod cmd;
pub mod codec;
pub mod connection;
pub mod dns;
pub mod error;
pub mod fuzz;
pub mod limits;
pub mod listener_rules;
pub mod session;

pub use error::{EnhancedStatus, Error, NegativeReply, Result};
