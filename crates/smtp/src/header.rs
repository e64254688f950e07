//! Iterates over the header section of a message, for the few fields that SMTP itself must know.
//!
//! This is not a message parser (that is `mail::mime`); it only finds the boundaries of fields. A field is a line with
//! a colon after a name of printable ASCII, together with the following lines that begin with a blank. The section ends
//! at an empty line, at a line that is not a field, or after [`HEADER_BYTES_MAX`].

use std::ops::Range;

use memchr::memchr;

use crate::limits::HEADER_BYTES_MAX;

/// A field of a header section, as slices of the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field<'text> {
    /// The name, without the colon and the blanks before it.
    pub name: &'text [u8],
    /// The value, including folding and CRLF.
    pub value: &'text [u8],
    /// The range of the field, including its last CRLF.
    pub range: Range<usize>,
}

impl Field<'_> {
    /// Returns `true` if the field has this name. Case is ignored.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Returns the fields of a message's header section, in order.
pub fn fields(text: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let text = text.get(..HEADER_BYTES_MAX).unwrap_or(text);
    let mut position = 0;
    std::iter::from_fn(move || {
        let field = field_at(text, position)?;
        position = field.range.end;
        Some(field)
    })
}

/// Returns the length of the header section, without the empty line that ends it.
#[must_use]
pub fn section_length(text: &[u8]) -> usize {
    fields(text).last().map_or(0, |field| field.range.end)
}

/// Returns the number of `Received` fields.
#[must_use]
pub fn hop_count(text: &[u8]) -> usize {
    fields(text).filter(|field| field.is("Received")).count()
}

fn field_at(text: &[u8], start: usize) -> Option<Field<'_>> {
    let rest = text.get(start..)?;
    let first_end = line_end(rest, 0)?;
    let first_line = rest.get(..first_end)?;
    let colon = memchr(b':', first_line)?;
    let name = first_line.get(..colon)?.trim_ascii_end();
    if name.is_empty() || !name.iter().all(|byte| matches!(byte, 33..=126)) {
        return None;
    }
    let mut end = first_end;
    while matches!(rest.get(end), Some(b' ' | b'\t')) {
        end = line_end(rest, end)?;
    }
    Some(Field { name, value: rest.get(colon + 1..end)?, range: start..start + end })
}

/// Returns the end of the line that begins at `start`. The last line may lack its LF.
fn line_end(text: &[u8], start: usize) -> Option<usize> {
    let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
    Some(memchr(b'\n', rest).map_or(text.len(), |end| start + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let found: Vec<(String, String)> = fields(text.as_bytes())
            .map(|field| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                (text(field.name), text(field.value))
            })
            .collect();
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn fields_are_found_with_their_folding() {
        check("A: 1\r\nB : 2\r\n 3\r\n\t4\r\n\r\nC: 5\r\n", &[("A", " 1\r\n"), ("B", " 2\r\n 3\r\n\t4\r\n")]);
        check("A:", &[("A", "")]);
        check("A: 1\r\nno field\r\nB: 2\r\n", &[("A", " 1\r\n")]);
        check("\r\nA: 1\r\n", &[]);
        check(" A: 1\r\n", &[]);
        check("", &[]);
        check(": 1\r\n", &[]);
        check("Ä: 1\r\n", &[]);
    }

    #[test]
    fn hops_are_counted() {
        assert_eq!(hop_count(b"Received: a\r\nRECEIVED: b\r\n\tc\r\nX: d\r\n\r\nReceived: no\r\n"), 2);
        assert_eq!(section_length(b"A: b\r\n\r\nc"), 6);
    }
}
