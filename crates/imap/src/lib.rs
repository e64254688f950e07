//! IMAP: the protocol crate for IMAP4rev1 (RFC 3501) and IMAP4rev2 (RFC 9051) with their extensions.
//!
//! - [`backend`] defines the interfaces that this crate needs from the rest of the server.
//! - [`codec`] turns bytes into commands and writes responses. Pure and incremental.
//! - [`message`] renders messages and matches them against searches. Pure.
//! - [`session`] holds the state of one connection, [`cmd`] executes its commands, one file per verb. Pure.
//! - [`connection`] is the task of one connection, the only module that uses tokio.
//! - [`error`] defines the errors.
//! - [`limits`] names every limit that a client can encounter.
//!
//! The RFCs that are implemented, and the parts that are left out, are listed in `docs/imap.md`.

pub mod backend;
pub mod cmd;
pub mod codec;
pub mod connection;
pub mod error;
pub mod limits;
pub mod message;
pub mod session;

pub use connection::{ListenerServices, serve};
