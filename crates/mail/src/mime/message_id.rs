//! Message ids in header fields (RFC 5322 §3.6.4): Message-ID, In-Reply-To, References.
//!
//! An id is the text between angle brackets. It counts only if it contains an `@` and has at most
//! [`MESSAGE_ID_BYTES_MAX`] bytes, so phrases and empty brackets connect no messages. Ids are compared byte for byte.
//!
//! Left out: the folded form of quoted local parts, which no program writes.

use crate::limits::MESSAGE_ID_BYTES_MAX;

/// Returns the message ids of a field, without their angle brackets. Time is linear.
pub fn message_ids(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b'>').filter_map(|piece| {
        let start = memchr::memrchr(b'<', piece)?;
        let id = piece[start + 1..].trim_ascii();
        (id.contains(&b'@') && id.len() <= MESSAGE_ID_BYTES_MAX).then_some(id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_from_a_field() {
        let check = |value: &str, expected: &[&str]| {
            let found: Vec<_> =
                message_ids(value.as_bytes()).map(|id| String::from_utf8_lossy(id).into_owned()).collect();
            assert_eq!(found, expected, "{value}");
        };
        check("<a@x>", &["a@x"]);
        check(" <a@x>\r\n\t<b@x> , <c@x", &["a@x", "b@x", "c@x"]);
        check("Message of Monday <a@x> from \"b\" <b>", &["a@x"]);
        check("<> <@> <<a@x>> plain@x", &["@", "a@x"]);
        check("", &[]);
        check(&format!("<{}@x> <a@x>", "a".repeat(MESSAGE_ID_BYTES_MAX)), &["a@x"]);
    }
}
