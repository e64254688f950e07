//! The syntax of IMAP: commands as values, the decoder that makes them from bytes, and the writer of responses.
//!
//! Everything in here is pure: bytes in, values out. Nothing knows of sockets, mailboxes or time.

pub mod ast;
pub mod utf7;
mod writer;

pub use writer::{Encoding, MONTHS, Status, Writer, is_atom_byte};
