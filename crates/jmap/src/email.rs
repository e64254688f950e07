//! The Email object (RFC 8621 §4): a message as JSON, and JSON as a message.
//!
//! | module | contents |
//! |---|---|
//! | [`property`] | the names of the properties of Email and EmailBodyPart, with the header forms that are allowed |
//! | [`object`] | the Email object of a message; parts as downloads; the preview |
//! | [`compose`](mod@compose) | the message that Email/set create describes |
//! | [`snippet`](mod@snippet) | highlighted sections of texts for SearchSnippet |
//!
//! Everything here is pure: messages and JSON in, JSON and bytes out. Ids, mailboxes, keywords and blobs come from the
//! caller. Any bytes are a message; a damaged one yields the parts that can be recognized. `mail::mime` bounds the
//! number and the depth of parts.
//!
//! An encapsulated message is a leaf here, because RFC 8621 shows it as an attachment. Email/parse opens it.

pub mod compose;
pub mod limits;
pub mod object;
pub mod property;
pub mod snippet;

mod body_parts;
mod body_value;
mod charset;
mod header_form;
mod header_text;
mod part_reader;
mod part_tree;

pub use compose::{ComposeBlobs, ComposeDefaults, ComposeError, compose};
pub use object::{
    EmailMetadata, LocatedPart, email_object, has_attachment, located_part, metadata_object, part_blob_id,
    part_content, split_part_blob_id,
};
pub use property::{BodyOptions, BodyProperty, EmailProperty, HeaderForm, HeaderProperty};
pub use snippet::{searchable_body_text, snippet};
