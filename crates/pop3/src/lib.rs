//! POP3: the protocol crate for the Post Office Protocol over the inbox of a mail file.
//!
//! Implemented: RFC 1939 with TOP, UIDL and USER; CAPA, RESP-CODES, PIPELINING and EXPIRE (RFC 2449); AUTH-RESP-CODE
//! (3206); STLS (2595); AUTH with the mechanisms of the crate `sasl` (5034); UTF8 and UTF8 USER (6856).
//!
//! Left out: APOP (it requires plain-text passwords on the server), LANG, and the downgrading of messages with 8-bit
//! headers for clients without UTF8, which are sent byte for byte. The maildrop is not locked. A session sees the inbox
//! as it was at login while other sessions continue, and a message that has vanished in the meantime is an error for
//! the command that requests it. If a part of the message has been sent, the connection ends.
//!
//! | Module | Contents |
//! |---|---|
//! | [`codec`] | lines to commands, messages to dot-stuffed bytes; pure |
//! | [`session`] | the state machine of one connection, which executes no request itself; pure |
//! | `cmd` | the table of verbs, one file per verb |
//! | [`backend_request`] | the requests that workers execute: logins, and every access to the mail file |
//! | [`connection`] | the only module that uses tokio |
//! | [`backend`] | the interfaces that the crate needs from the rest of the server |

pub mod backend;
pub mod backend_request;
mod cmd;
pub mod codec;
pub mod connection;
pub mod limits;
pub mod session;

pub use connection::{ListenerServices, serve};
