//! The message data as sent after DATA.
//!
//! All lines end with CRLF, a dot at the beginning of a line is doubled, and CRLF.CRLF ends the data. The result has a
//! single interpretation, regardless of how strictly the receiver treats line ends. It contains no bare CR or LF. It
//! also contains no NUL, because some receivers drop NULs and would read a line of a NUL and a dot as the end. A NUL is
//! replaced by a space, like a bare CR.

use std::borrow::Cow;

use base::line_ends::{has_bare_line_end, normalize_line_ends};
use mail::mime::structure::header_end;
use memchr::{memchr, memmem};

/// Returns the data to send, including its end.
#[must_use]
pub fn dot_stuff(message: &[u8]) -> Vec<u8> {
    let open_end = message.last() == Some(&b'\r');
    let message = if open_end || has_bare_line_end(0, message) {
        Cow::Owned(normalize_line_ends(message))
    } else {
        Cow::Borrowed(message)
    };
    let message = if memchr(0, &message).is_some() {
        Cow::Owned(message.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect())
    } else {
        message
    };
    let mut text = Vec::with_capacity(message.len() + message.len() / 64 + 8);
    if message.first() == Some(&b'.') {
        text.push(b'.');
    }
    let mut copied = 0;
    for found in memmem::find_iter(&message, b"\r\n.") {
        // The dot is copied twice: at the end of this piece and at the beginning of the next.
        text.extend_from_slice(message.get(copied..found + 3).unwrap_or_default());
        copied = found + 2;
    }
    text.extend_from_slice(message.get(copied..).unwrap_or_default());
    if !message.is_empty() && !message.ends_with(b"\r\n") {
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b".\r\n");
    text
}

/// Returns whether a message has non-ASCII bytes in its header section, and whether it has any at all.
#[must_use]
pub fn detect_eight_bit(message: &[u8]) -> (bool, bool) {
    let end = header_end(message);
    let in_header = !message.get(..end).unwrap_or_default().is_ascii();
    (in_header, in_header || !message.get(end..).unwrap_or_default().is_ascii())
}

#[cfg(test)]
mod tests {
    use base::memory::{MemoryBudget, MeteredBuffer};
    use proptest::prelude::*;

    use super::*;
    use crate::codec::data::{DataProgress, DataReader, ReceivedData};

    fn check(message: &str, text: &str) {
        assert_eq!(String::from_utf8_lossy(&dot_stuff(message.as_bytes())), text, "{message:?}");
    }

    #[test]
    fn dots_are_doubled_and_lines_end_with_crlf() {
        check("a\r\n", "a\r\n.\r\n");
        check("a", "a\r\n.\r\n");
        check("", ".\r\n");
        check(".\r\n..\r\n", "..\r\n...\r\n.\r\n");
        check("a\r\n.", "a\r\n..\r\n.\r\n");
        check("a\n.\nb\r", "a\r\n..\r\nb \r\n.\r\n");
        check("a\r\n\r\n.\r\n.b", "a\r\n\r\n..\r\n..b\r\n.\r\n");
        check("a\r\n\0.\r\n.\0\r\n\0", "a\r\n .\r\n.. \r\n \r\n.\r\n");
    }

    #[test]
    fn eight_bit_bytes_are_found_in_header_and_body() {
        assert_eq!(detect_eight_bit(b"A: b\r\n\r\nc"), (false, false));
        assert_eq!(detect_eight_bit("A: b\r\n\r\nü".as_bytes()), (false, true));
        assert_eq!(detect_eight_bit("A: ü\r\n\r\nc".as_bytes()), (true, true));
        assert_eq!(detect_eight_bit("A: b\r\nstray\r\nB: ü\r\n\r\nc".as_bytes()), (true, true));
    }

    proptest! {
        #[test]
        fn stuffed_message_is_unstuffed_by_the_receiver(message in "(\r\n|\\.|\r|\n|\0|a){0,60}") {
            let text = dot_stuff(message.as_bytes());
            prop_assert!(!has_bare_line_end(0, &text) && !text.contains(&0));
            let buffer = MeteredBuffer::new(&MemoryBudget::unlimited());
            let content = ReceivedData::new(b"", 1 << 20, 0, buffer).expect("there is memory");
            let mut reader = DataReader::new(content);
            prop_assert_eq!(reader.push(&text), (text.len(), DataProgress::End));
            let kept = reader.into_content().finish().bytes;
            let mut expected = normalize_line_ends(message.replace('\0', " ").as_bytes());
            if !expected.is_empty() && !expected.ends_with(b"\r\n") {
                expected.extend_from_slice(b"\r\n");
            }
            prop_assert_eq!(kept, expected);
        }
    }
}
