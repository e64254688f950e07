//! The population: the people of a run, the contents of messages and documents, and the filling of mail files.
//!
//! [`people`], [`text`] and [`content`] are pure: the same seed gives the same bytes on every machine. [`fill`] writes
//! them through the native protocol.
//!
//! Not here yet: masters and their copies, the manifest of a data folder, texts in several languages, kinds of
//! attachments, and messages that arrive over LMTP.

pub mod content;
pub mod fill;
pub mod language;
pub mod people;
pub mod text;
