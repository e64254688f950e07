//! Import and export of messages: mbox, Maildir and single files.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mbox`] | reading and writing the mbox format (RFC 4155, with the quoting of `mboxrd`) |
//! | [`maildir`] | what Maildir tells in file and folder names |
//! | [`line_ends`] | LF outside, CRLF inside |
//! | [`import`] | putting many messages into a mail file, resumable |
//!
//! Files are opened by `server`; this takes and gives bytes. A message that goes out and comes in again is the same to
//! the byte; see [`line_ends`] for the one thing that is not.

pub mod import;
pub mod line_ends;
pub mod maildir;
pub mod mbox;

pub use import::{ImportOptions, ImportReport, ImportedMessage, Importer};
