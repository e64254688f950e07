//! POP3: the protocol room for the Post Office Protocol over the inbox of a mail file.
//!
//! Covered: RFC 1939 with TOP, UIDL and USER; CAPA, RESP-CODES, PIPELINING and EXPIRE (RFC 2449); AUTH-RESP-CODE (3206); STLS
//! (2595); AUTH with PLAIN, LOGIN and SCRAM-SHA-256 (5034, 7677); UTF8 and UTF8 USER (6856).
//!
//! Left out: APOP (it needs passwords in clear on the server), LANG, and the downgrading of messages with 8-bit headers for
//! clients without UTF8: they go out byte for byte. The maildrop is not locked: a session sees the inbox as it was at login,
//! other sessions go on, and what is gone meanwhile is an error for the command that asks for it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`codec`] | lines to commands, messages to dot-stuffed bytes; pure |
//! | [`session`] | one connection's state machine; does no work itself; pure |
//! | `cmd` | the table of verbs, one file each |
//! | [`work`] | what runs on a worker: logins and everything that touches the mail file |
//! | [`conn`] | the only tokio |
//! | [`backend`] | what the room needs from the rest of the server |

pub mod backend;
mod cmd;
pub mod codec;
pub mod conn;
pub mod limits;
pub mod session;
pub mod work;

pub use conn::{Service, serve};
