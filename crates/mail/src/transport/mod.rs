//! Import and export of messages: mbox, Maildir and single files.
//!
//! | module | what it holds |
//! |---|---|
//! | [`mbox`] | reading and writing the mbox format (RFC 4155, with the quoting of `mboxrd`) |
//! | [`maildir`] | what Maildir tells in file and folder names |
//! | [`status`] | flags that stand in header fields |
//! | [`line_ends`] | LF outside, CRLF inside |
//! | [`form`] | what a file had beside the message's bytes |
//! | [`import`] | putting many messages into a mail file, resumable |
//!
//! Files are opened by `server`; this takes and gives bytes. A message that goes out in any format and comes in again is the
//! same on the wire, to the byte, whatever it consists of. A file that comes in and goes out in the same format is the same to
//! the byte, too; the one thing that is not kept is an mbox file whose lines `From ` are not quoted: they are when it is written.

pub mod form;
pub mod import;
pub mod line_ends;
pub mod maildir;
pub mod mbox;
pub mod status;

pub use form::FileForm;
pub use import::{ImportOptions, ImportReport, ImportedMessage, Importer, Position};
