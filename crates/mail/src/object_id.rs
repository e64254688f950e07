//! Identifiers of messages, threads and mailboxes as clients of several protocols see them.
//!
//! IMAP (RFC 8474 §4) and JMAP (RFC 8620 §1.2) permit the same identifiers.

use crate::limits::OBJECT_ID_CHARACTERS_MAX;

/// Returns `true` for a valid identifier.
#[must_use]
pub fn is_object_id(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=OBJECT_ID_CHARACTERS_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}
