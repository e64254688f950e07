//! The header of a message, as every decision about the message reads it.
//!
//! Programs disagree about malformed headers. At a line that is not a field, some end the header and others read on. A
//! line such as `--a:b` is a field for some and a boundary for others. A sender can use this to show one header to the
//! program that checks a message, and another one to the program that displays it. Two rules prevent it:
//!
//! - A decision about a message considers all fields that IMAP shows. They are the [`top_fields`], up to the end that
//!   the scanner of the structure determines, however long the header is.
//! - A header in which other programs may see other fields has a [`HeaderFault`]. Submission refuses a message with
//!   such a header, and it is never signed.
//!
//! So there is one reader of headers in all crates. The DKIM library has its own, which sees the same fields if the
//! header has no fault; `smtp` compares the two for messages from other servers. `docs/mail-flow.md` describes the
//! rules.

use std::ops::Range;

use crate::limits::HEADER_BYTES_MAX;
use crate::mime::header::{self, HeaderField};
use crate::mime::structure::{header_end, header_end_within};

/// The reason why programs may see different fields in the header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderFault {
    /// A line is neither a field nor the continuation of a field. It ends the header for some programs.
    StrayLine,
    /// The name of a field begins with `--`. The line is a boundary for some programs.
    DashedName,
    /// The header ends without a blank line, and text follows.
    NoBlankLine,
    /// The header is longer than [`HEADER_BYTES_MAX`].
    TooLong,
}

impl HeaderFault {
    /// Returns the fault as a sentence for the peer, without a full stop.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::StrayLine => "The header of the message has a line that is not a field",
            Self::DashedName => "The header of the message has a field whose name begins with --",
            Self::NoBlankLine => "The header of the message does not end with a blank line",
            Self::TooLong => "The header of the message is too long",
        }
    }
}

/// Returns the header of a message with its blank line.
#[must_use]
pub fn top_header(message: &[u8]) -> &[u8] {
    message.get(..header_end(message)).unwrap_or_default()
}

/// Returns the fields in the header of a message with their ranges. Stray lines are left out.
pub fn top_fields(message: &[u8]) -> impl Iterator<Item = (Range<usize>, HeaderField<'_>)> {
    let mut start = 0;
    let fields = header::fields(top_header(message)).map(move |field| {
        let range = start..start + field.raw.len();
        start = range.end;
        (range, field)
    });
    fields.filter(|(_, field)| !field.name.is_empty())
}

/// Returns `true` if the header of a message is longer than [`HEADER_BYTES_MAX`].
#[must_use]
pub fn is_too_long(message: &[u8]) -> bool {
    header_end_within(message, HEADER_BYTES_MAX).is_none()
}

/// Returns the first fault of a message's header, or `None` if all programs see the same fields in it.
///
/// A header that ends at the end of the message needs no blank line.
#[must_use]
pub fn find_fault(message: &[u8]) -> Option<HeaderFault> {
    let Some(end) = header_end_within(message, HEADER_BYTES_MAX) else { return Some(HeaderFault::TooLong) };
    let mut fields_end = 0;
    for field in header::fields(message.get(..end).unwrap_or_default()) {
        if field.name.is_empty() {
            return Some(HeaderFault::StrayLine);
        }
        if field.name.starts_with(b"--") {
            return Some(HeaderFault::DashedName);
        }
        fields_end += field.raw.len();
    }
    (fields_end == end && end < message.len()).then_some(HeaderFault::NoBlankLine)
}

/// Appends bytes to `out` without the given ranges, which are in ascending order and do not overlap.
pub fn append_without(out: &mut Vec<u8>, bytes: &[u8], removed: impl IntoIterator<Item = Range<usize>>) {
    let mut copied = 0;
    for range in removed {
        out.extend_from_slice(bytes.get(copied..range.start).unwrap_or_default());
        copied = range.end;
    }
    out.extend_from_slice(bytes.get(copied..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the fields and the fault of a header.
    fn check(text: &str, expected: &[&str], fault: Option<HeaderFault>) {
        let found: Vec<_> = top_fields(text.as_bytes()).map(|(range, _)| &text[range]).collect();
        assert_eq!(found, expected, "{text:?}");
        assert_eq!(find_fault(text.as_bytes()), fault, "{text:?}");
    }

    #[test]
    fn header_without_a_fault_ends_with_its_blank_line_or_with_the_message() {
        check("A: 1\r\nB : 2\r\n 3\r\n\t4\r\n\r\nC: 5\r\n", &["A: 1\r\n", "B : 2\r\n 3\r\n\t4\r\n"], None);
        check("A: 1\n-B: 2\n\n--c\n", &["A: 1\n", "-B: 2\n"], None);
        check("A: 1\r\r\n\r\r\nB: 2\r\r\n", &["A: 1\r\r\n"], None);
        check("A: 1\r\n \r\nB: 2\r\n\r\n", &["A: 1\r\n \r\n", "B: 2\r\n"], None);
        check("A:", &["A:"], None);
        check("A: 1\r\n", &["A: 1\r\n"], None);
        check("\r\nA: 1\r\n", &[], None);
        check("", &[], None);
    }

    #[test]
    fn fields_after_a_stray_line_are_found() {
        let stray = Some(HeaderFault::StrayLine);
        check("A: 1\r\nno field\r\nB: 2\r\n\r\nC: 3\r\n", &["A: 1\r\n", "B: 2\r\n"], stray);
        check("From a Mon 10:00\r\nA: 1\r\n\r\n", &["A: 1\r\n"], stray);
        check(" A: 1\r\nB: 2\r\n\r\n", &["B: 2\r\n"], stray);
        check(": 1\r\nB: 2\r\n\r\n", &["B: 2\r\n"], stray);
        check("\u{c4}: 1\r\n\r\n", &[], stray);
    }

    #[test]
    fn other_faults_are_found() {
        let unseparated = Some(HeaderFault::NoBlankLine);
        check("A: 1\r\nHello,\r\nhow are you\r\n", &["A: 1\r\n"], unseparated);
        check("A: 1\r\nHello", &["A: 1\r\n"], unseparated);
        check("Hello,\r\nhow are you\r\n", &[], unseparated);
        let boundary = "Content-Type: multipart/mixed; boundary=\"a:b\"\r\n";
        check(&format!("{boundary}--a:b\r\nB: 2\r\n\r\n"), &[boundary], unseparated);
        check("A: 1\r\n--a:b\r\nB: 2\r\n\r\n", &["A: 1\r\n", "--a:b\r\n", "B: 2\r\n"], Some(HeaderFault::DashedName));
    }

    #[test]
    fn fields_of_a_long_header_are_all_found() {
        let line = "A: 1\r\n";
        let count = HEADER_BYTES_MAX / line.len();
        let longest = format!("{}\r\nbody", line.repeat(count));
        assert_eq!((is_too_long(longest.as_bytes()), find_fault(longest.as_bytes())), (false, None));
        let longer = format!("{}B: 2\r\n\r\nbody", line.repeat(count + 1));
        assert!(is_too_long(longer.as_bytes()));
        assert_eq!(find_fault(longer.as_bytes()), Some(HeaderFault::TooLong));
        let last = top_fields(longer.as_bytes()).last().map(|(range, _)| &longer[range]);
        assert_eq!(last, Some("B: 2\r\n"));
        let endless = format!("A: {}", "x".repeat(HEADER_BYTES_MAX));
        assert!(is_too_long(endless.as_bytes()), "a line without an end");
    }
}
