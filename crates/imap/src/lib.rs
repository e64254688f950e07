//! IMAP: the protocol room for IMAP4rev1 (RFC 3501) and IMAP4rev2 (RFC 9051) with their extensions.
//!
//! * [`backend`] is what this room needs from the rest of the server.
//! * [`codec`] turns bytes into commands and writes responses. Pure and incremental.
//! * [`message`] renders messages and matches them against searches. Pure.
//! * [`session`] is the state of one connection, [`cmd`] what its commands do, one file a verb. Pure.
//! * [`conn`] is the task of one connection, the only tokio.
//! * [`error`] is what can go wrong.
//! * [`limits`] names every maximum that a client can meet.
//!
//! Which RFCs are covered, and what is left out, stands in `docs/imap.md`.

pub mod backend;
pub mod cmd;
pub mod codec;
pub mod conn;
pub mod error;
pub mod limits;
pub mod message;
pub mod session;

pub use conn::{Service, serve};
