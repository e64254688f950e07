//! MIME: the structure of a message, its lossless storage, and its decoded texts.
//!
//! | module | contents |
//! |---|---|
//! | [`structure`] | the tree of parts with exact byte ranges, created by [`parse`]; its stored form |
//! | [`header`] | header fields as they stand in the message, unfolded and decoded |
//! | [`message_header`] | the header of a message as all checks read it, and its faults |
//! | [`authentication_results`] | removal of forged `Authentication-Results` fields |
//! | [`skeleton`] | a message without its large parts, which are stored decoded; restored byte for byte |
//! | [`transfer_encoding`] | base64 and quoted-printable, as leniently as mail requires |
//! | [`text`] | texts of parts in Unicode, and the preview |
//! | [`address`], [`date`], [`encoded_word`], [`base_subject`], [`message_id`] | the contents of header fields |
//! | [`message_source`] | access to the bytes of a stored message |
//!
//! No input makes any of this panic, nest deeper than `base::limits::MIME_DEPTH_MAX`, or take more time than its length
//! warrants. A malformed message is parsed as far as possible, and a section that cannot be divided stays within one
//! part. Only LF ends a line, with or without a CR before it. A CR alone is an ordinary byte.
//!
//! The formats are described in `docs/message-storage.md`, the reasons for own parsers in `docs/mime.md`.

pub mod address;
pub mod authentication_results;
pub mod base_subject;
pub mod date;
pub mod encoded_word;
pub mod header;
pub mod message_header;
pub mod message_id;
pub mod message_source;
pub mod skeleton;
pub mod structure;
pub mod text;
pub mod transfer_encoding;

mod damaged;
mod fuzzing;
#[cfg(test)]
mod tests;

pub use damaged::DamagedRecord;
pub use fuzzing::check_arbitrary_bytes;
pub use message_source::{InMemoryMessage, MimeSource, slice};
pub use structure::{Part, PartKind, Structure, parse};
