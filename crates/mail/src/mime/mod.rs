//! MIME: what a message consists of, how it is kept losslessly, and what its texts say.
//!
//! | module | what it holds |
//! |---|---|
//! | [`structure`] | the tree of parts with exact byte ranges, made by [`parse`]; what is stored of it |
//! | [`header`] | header fields as they stand in the message, unfolded and decoded |
//! | [`skeleton`] | a message without its large parts, which are kept decoded; joined again byte for byte |
//! | [`transfer`] | base64 and quoted-printable, as leniently as mail needs it |
//! | [`text`] | texts of parts in Unicode, and the preview |
//! | [`address`], [`date`], [`word`] | what stands in header fields |
//! | [`source`] | how the bytes of a stored message are reached |
//!
//! Promises: no input makes any of this panic, nest deeper than `base::limits::MIME_DEPTH_MAX`, or take more time
//! than its length warrants. A message that is broken is taken apart as far as it can be; what cannot be told apart
//! stays within one part. Only LF ends a line, with or without a CR before it; a CR alone is an ordinary byte.
//!
//! The formats are described in `docs/message-storage.md`.

pub mod address;
pub mod date;
pub mod header;
pub mod skeleton;
pub mod source;
pub mod structure;
pub mod text;
pub mod transfer;
pub mod word;

mod damaged;
mod fuzzing;
#[cfg(test)]
mod tests;

pub use damaged::Damaged;
pub use fuzzing::fuzz;
pub use source::{Source, Whole};
pub use structure::{Kind, Part, Structure, parse};
