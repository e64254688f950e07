//! Header fields as they stand in a message.
//!
//! A header is a sequence of lines. A line that begins with a space or a tab continues the field before it. A line that
//! is neither a field (a name without white space and control characters, then `:`) nor a continuation is *stray*. It
//! is returned as a [`HeaderField`] without a name, so that the fields together are the header, byte for byte.
//!
//! Only [`unfold`] and [`decode_value`] copy. The scanner of the structure determines the end of a header. These
//! functions take a header that is already separated from the message and stop at its blank line. The module
//! `message_header` separates it.

use std::borrow::Cow;

use base::line_ends::{line_end, without_line_end};

use crate::limits::FIELD_BYTES_MAX;
use crate::mime::encoded_word;

/// A field of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderField<'a> {
    /// The name as written. It is empty for a stray line.
    pub name: &'a [u8],
    /// The text after the colon, still folded, without the line end.
    pub value: &'a [u8],
    /// All lines of the field with their line ends.
    pub raw: &'a [u8],
}

impl HeaderField<'_> {
    /// Returns `true` if the field has this name, ignoring case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Returns the fields of a header in their order.
#[must_use]
pub fn fields(header: &[u8]) -> HeaderFieldIterator<'_> {
    HeaderFieldIterator { rest: header }
}

/// Returns the folded value of the first field with this name, ignoring case.
#[must_use]
pub fn first<'a>(header: &'a [u8], name: &str) -> Option<&'a [u8]> {
    fields(header).find(|field| field.is(name)).map(|field| field.value)
}

/// Returns a value on one line, without line ends and without white space at both ends.
#[must_use]
pub fn unfold(value: &[u8]) -> Cow<'_, [u8]> {
    let value = value.trim_ascii();
    if memchr::memchr2(b'\r', b'\n', value).is_none() {
        return Cow::Borrowed(value);
    }
    Cow::Owned(value.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect())
}

/// Returns a value in readable form: unfolded, with its encoded words and character sets decoded.
///
/// No more than [`FIELD_BYTES_MAX`] bytes are examined.
#[must_use]
pub fn decode_value(value: &[u8]) -> String {
    encoded_word::decode(&unfold(value.get(..FIELD_BYTES_MAX).unwrap_or(value)))
}

/// An iterator over the fields of a header, created by [`fields`].
#[derive(Debug, Clone)]
pub struct HeaderFieldIterator<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for HeaderFieldIterator<'a> {
    type Item = HeaderField<'a>;

    fn next(&mut self) -> Option<HeaderField<'a>> {
        let mut end = line_end(self.rest, 0);
        if is_blank_line(&self.rest[..end]) {
            return None;
        }
        while matches!(self.rest.get(end), Some(b' ' | b'\t')) {
            end = line_end(self.rest, end);
        }
        let (raw, rest) = self.rest.split_at(end);
        self.rest = rest;
        let (name, value) = match split_name(raw) {
            Some((name_length, colon)) => (&raw[..name_length], &raw[colon + 1..]),
            None => (&raw[..0], raw),
        };
        Some(HeaderField { name, value: without_line_end(value), raw })
    }
}

/// Returns `true` if a line consists of only its line end. An empty slice counts as a blank line.
pub(crate) fn is_blank_line(line: &[u8]) -> bool {
    let content = line.strip_suffix(b"\n").unwrap_or(line);
    // Some programs end lines with CR CR LF.
    content.iter().all(|byte| *byte == b'\r')
}

/// Returns the length of the name of the field that begins here and the index of the colon. Returns `None` if no field
/// begins here.
pub(crate) fn split_name(line: &[u8]) -> Option<(usize, usize)> {
    let name_length = line.iter().position(|byte| !matches!(byte, 33..=57 | 59..=126))?;
    if name_length == 0 {
        return None;
    }
    let blanks = line[name_length..].iter().position(|byte| !matches!(byte, b' ' | b'\t'))?;
    let colon = name_length + blanks;
    (line[colon] == b':').then_some((name_length, colon))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: &[(&str, &str)]) {
        let found: Vec<_> = fields(header.as_bytes())
            .map(|field| (String::from_utf8_lossy(field.name), String::from_utf8_lossy(field.value)))
            .collect();
        let expected: Vec<_> = expected.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn header_is_split_into_fields() {
        check("A: 1\r\nB:2\r\n\r\nbody: no", &[("A", " 1"), ("B", "2")]);
        check("A : 1\n\tfolded\n  twice\nB: 2", &[("A", " 1\n\tfolded\n  twice"), ("B", " 2")]);
        check("From x Mon 10:00\nA: 1\n\n", &[("", "From x Mon 10:00"), ("A", " 1")]);
        check(": no name\nA:\n", &[("", ": no name"), ("A", "")]);
        check(" lead\r\nA: 1\r\n", &[("", " lead"), ("A", " 1")]);
        check("A: 1\r\r\nB: 2\r\r\n\r\r\nC: 3", &[("A", " 1\r"), ("B", " 2\r")]);
        check("", &[]);
        check("\r\nA: 1", &[]);
    }

    #[test]
    fn fields_join_to_the_header() {
        let header = b"A: 1\r\nstray\r\n B: 2\nC:\r\n\t\r\nD";
        let joined: Vec<u8> = fields(header).flat_map(|field| field.raw.to_vec()).collect();
        assert_eq!(joined, header);
    }

    #[test]
    fn first_matching_field_is_found_ignoring_case() {
        let header = b"To: a\r\nSUBJECT: one\r\nSubject: two\r\n\r\n";
        assert_eq!(first(header, "Subject"), Some(&b" one"[..]));
        assert_eq!(first(header, "Sub"), None);
    }

    #[test]
    fn unfolding_removes_only_line_ends() {
        assert_eq!(unfold(b" a\r\n  b\n\tc ").as_ref(), b"a  b\tc");
        assert_eq!(decode_value(b" =?utf-8?q?caf=C3=A9?=\r\n x"), "caf\u{e9} x");
    }
}
