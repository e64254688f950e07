//! Import and export of messages: mbox, Maildir and single files.
//!
//! | module | contents |
//! |---|---|
//! | [`mbox`] | reading and writing of the mbox format (RFC 4155, with the quoting of `mboxrd`) |
//! | [`maildir`] | the information in the file and folder names of a Maildir |
//! | [`status`] | flags in header fields |
//! | [`line_endings`] | LF in files, CRLF in mail files |
//! | [`file_quirks`] | the properties of a file beside the message's bytes |
//! | [`import`] | resumable import of many messages into a mail file |
//!
//! The `server` crate opens the files; this module only handles bytes. A message that is exported in any format and
//! imported again is the same on the wire, byte for byte, whatever its content. A file that is imported and exported in
//! the same format is also the same, byte for byte. The only exception is an mbox file with unquoted lines `From `:
//! they are quoted when it is written.

pub mod file_quirks;
pub mod import;
pub mod line_endings;
pub mod maildir;
pub mod mbox;
pub mod status;

pub use file_quirks::FileQuirks;
pub use import::{ImportOptions, ImportPosition, ImportReport, ImportedMessage, Importer};
