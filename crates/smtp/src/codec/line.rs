//! Splits the input into command lines.
//!
//! A line ends with CRLF. The caller chooses whether a bare LF may also end it ([`BareLineEndPolicy`]). A CR without LF
//! always makes the line invalid. A line that exceeds the maximum length is discarded up to its end, in whatever pieces
//! it arrives.

use memchr::memchr;

/// The handling of CR without LF and LF without CR, in commands and in messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BareLineEndPolicy {
    /// Commands are refused and the connection is closed; messages are refused. For other servers.
    Reject,
    /// LF counts as CRLF in commands; messages are normalized. The end of a message remains CRLF.CRLF. For local users.
    Normalize,
}

/// The result of splitting the beginning of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line<'input> {
    /// The input has no line end yet.
    Incomplete,
    /// A line without its line end, and the number of bytes it occupies including the line end.
    Complete(&'input [u8], usize),
    /// A line with a forbidden bare CR or LF, and the number of bytes it occupies.
    BareLineEnd(usize),
    /// A line that exceeds the maximum length. The given number of bytes must be discarded.
    TooLong(usize),
}

/// Returns the first line of the input. `bytes_max` includes the CRLF.
#[must_use]
pub fn first_line(input: &[u8], bytes_max: usize, endings: BareLineEndPolicy) -> Line<'_> {
    let Some(end) = memchr(b'\n', input) else {
        return if input.len() >= bytes_max { Line::TooLong(input.len()) } else { Line::Incomplete };
    };
    let taken = end + 1;
    if taken > bytes_max {
        return Line::TooLong(taken);
    }
    let line = input.get(..end).unwrap_or_default();
    let (line, is_crlf) = match line.strip_suffix(b"\r") {
        Some(line) => (line, true),
        None => (line, false),
    };
    if (!is_crlf && endings == BareLineEndPolicy::Reject) || memchr(b'\r', line).is_some() {
        return Line::BareLineEnd(taken);
    }
    Line::Complete(line, taken)
}

/// Splits a command line at its first blank. Blanks around the arguments are removed.
#[must_use]
pub fn split_verb(line: &str) -> (&str, &str) {
    let line = line.trim_end_matches([' ', '\t']);
    match line.split_once([' ', '\t']) {
        Some((verb, arguments)) => (verb, arguments.trim_start_matches([' ', '\t'])),
        None => (line, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, endings: BareLineEndPolicy, expected: Line<'_>) {
        assert_eq!(first_line(input.as_bytes(), 16, endings), expected, "{input:?}");
    }

    #[test]
    fn lines_end_with_crlf() {
        check("NOOP", BareLineEndPolicy::Reject, Line::Incomplete);
        check("NOOP\r", BareLineEndPolicy::Reject, Line::Incomplete);
        check("NOOP\r\nQUIT\r\n", BareLineEndPolicy::Reject, Line::Complete(b"NOOP", 6));
        check("\r\n", BareLineEndPolicy::Reject, Line::Complete(b"", 2));
    }

    #[test]
    fn bare_line_ends_are_rejected_or_normalized() {
        check("NOOP\nQUIT\r\n", BareLineEndPolicy::Reject, Line::BareLineEnd(5));
        check("NOOP\nQUIT\r\n", BareLineEndPolicy::Normalize, Line::Complete(b"NOOP", 5));
        check("NO\rOP\r\n", BareLineEndPolicy::Reject, Line::BareLineEnd(7));
        check("NO\rOP\r\n", BareLineEndPolicy::Normalize, Line::BareLineEnd(7));
        check("NOOP\r\r\n", BareLineEndPolicy::Normalize, Line::BareLineEnd(7));
    }

    #[test]
    fn too_long_lines_are_refused() {
        check("0123456789012345", BareLineEndPolicy::Reject, Line::TooLong(16));
        check("01234567890123456\r\nQ", BareLineEndPolicy::Reject, Line::TooLong(19));
        check("01234567890123\r\n", BareLineEndPolicy::Reject, Line::Complete(b"01234567890123", 16));
    }

    #[test]
    fn verb_ends_at_the_first_blank() {
        assert_eq!(split_verb("MAIL  FROM:<a@b> "), ("MAIL", "FROM:<a@b>"));
        assert_eq!(split_verb("quit \t"), ("quit", ""));
        assert_eq!(split_verb(""), ("", ""));
    }
}
