//! Bodies in several parts (RFC 2046): documents with their attachments, as CouchDB's `multipart/related` has them. All
//! functions are pure.
//!
//! The first part of such a body is a JSON document. An attachment with `"follows": true` has its content in a later
//! part, in the order of the attachments in the document, or under its name in `Content-Disposition`. The same form is
//! sent, so that contents need not be coded as base64.

use crate::error::{Error, Result};
use crate::limits::{PART_HEADER_BYTES_MAX, PARTS_MAX};

/// Maximum length of a boundary (RFC 2046, section 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyPart<'b> {
    /// The header, without the empty line behind it.
    header: &'b str,
    /// The content.
    pub content: &'b [u8],
}

impl<'b> BodyPart<'b> {
    /// Returns the value of a header field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'b str> {
        let mut fields = self.header.split("\r\n").filter_map(|line| line.split_once(':'));
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// Returns the name of the file that the part names.
    #[must_use]
    pub fn file_name(&self) -> Option<String> {
        parameter(self.field("content-disposition")?, "filename")
    }
}

/// Returns the boundary that a media type names, or `None` if it is not `multipart/related`.
pub fn boundary_of(media_type: &str) -> Option<String> {
    let (kind, _) = media_type.split_once(';')?;
    let boundary = parameter(media_type, "boundary").filter(|_| kind.trim().eq_ignore_ascii_case("multipart/related"));
    boundary.filter(|boundary| (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()))
}

/// Returns a parameter of a header field, without its quotes.
fn parameter(field: &str, name: &str) -> Option<String> {
    let mut rest = field;
    loop {
        rest = rest.split_once(';')?.1.trim_start();
        let (known, value) = rest.split_once('=')?;
        let is_wanted = known.trim().eq_ignore_ascii_case(name);
        let Some(quoted) = value.trim_start().strip_prefix('"') else {
            let end = value.find(';').unwrap_or(value.len());
            if is_wanted {
                return Some(value[..end].trim().to_owned());
            }
            rest = &value[end..];
            continue;
        };
        let (text, behind) = unquoted(quoted)?;
        if is_wanted {
            return Some(text);
        }
        rest = behind;
    }
}

/// Returns the text up to the closing quote, and what is behind it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut characters = text.char_indices();
    while let Some((index, c)) = characters.next() {
        match c {
            '"' => return Some((out, &text[index + 1..])),
            '\\' => out.push(characters.next()?.1),
            c => out.push(c),
        }
    }
    None
}

/// Splits a body into its parts. Fails if it is not whole, or has more than [`PARTS_MAX`] parts.
pub fn parts_of<'b>(body: &'b [u8], boundary: &str) -> Result<Vec<BodyPart<'b>>> {
    let invalid = |reason: &str| Error::BadRequest(format!("the multipart body is not valid: {reason}"));
    let delimiter = format!("\r\n--{boundary}");
    let finder = memchr::memmem::Finder::new(delimiter.as_bytes());
    // The first delimiter may begin the body. What is in front of it does not count.
    let mut rest = match body.strip_prefix(&delimiter.as_bytes()[2..]) {
        Some(rest) => rest,
        None => {
            let begin = finder.find(body).ok_or_else(|| invalid("the boundary does not occur"))?;
            &body[begin + delimiter.len()..]
        }
    };
    let mut parts = Vec::new();
    while !rest.starts_with(b"--") {
        if parts.len() >= PARTS_MAX {
            return Err(Error::TooLarge(format!("a body can have at most {PARTS_MAX} parts")));
        }
        let line = memchr::memmem::find(rest, b"\r\n").ok_or_else(|| invalid("it ends behind a boundary"))?;
        if !rest[..line].iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(invalid("there is text behind a boundary"));
        }
        // The line end in front of the delimiter belongs to it, so an empty header and content are two line ends.
        let part = &rest[line..];
        let end = finder.find(part).ok_or_else(|| invalid("the last boundary is missing"))?;
        parts.push(part_of(&part[..end])?);
        rest = &part[end + delimiter.len()..];
    }
    Ok(parts)
}

/// Parses a part, which begins with a line end.
fn part_of(part: &[u8]) -> Result<BodyPart<'_>> {
    let invalid = || Error::BadRequest("the header of a part of the body is not valid".to_owned());
    let searched = &part[..part.len().min(PART_HEADER_BYTES_MAX)];
    let end = memchr::memmem::find(searched, b"\r\n\r\n").ok_or_else(invalid)?;
    let header = part.get(2..end).unwrap_or_default();
    let header = std::str::from_utf8(header).map_err(|_| invalid())?;
    Ok(BodyPart { header, content: &part[end + 4..] })
}

/// Returns a parameter of a header field in quotes. Characters that end a line are left out.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_is_a_parameter_of_the_media_type() {
        let check = |media_type: &str, expected: Option<&str>| {
            assert_eq!(boundary_of(media_type).as_deref(), expected, "{media_type}");
        };
        check("multipart/related; boundary=abc", Some("abc"));
        check("Multipart/Related;type=\"a;b\"; Boundary=\"a \\\"b\"", Some("a \"b"));
        check("multipart/related; x=1; boundary=abc ; y=2", Some("abc"));
        check("multipart/mixed; boundary=abc", None);
        check("multipart/related", None);
        check("multipart/related; boundary=", None);
        check("application/json", None);
    }

    #[test]
    fn bodies_are_split_at_their_boundaries() {
        let body =
            b"before\r\n--b\r\nContent-Type: application/json\r\n\r\n{}\r\n--b \r\n\r\n\r\n--bx\r\n--\r\n--b\r\n\
            content-disposition: attachment; filename=\"a \\\"b\\\".txt\"\r\n\r\n\r\n--b--\r\nbehind";
        let parts = parts_of(body, "b");
        assert!(parts.is_err(), "a boundary that only begins like it");
        let body = b"--b\r\nContent-Type: application/json\r\n\r\n{}\r\n--b \r\n\r\n\r\n--a\r\n--b\r\n\
            content-disposition: attachment; filename=\"a \\\"b\\\".txt\"\r\n\r\n\r\n--b--\r\nbehind";
        let parts = parts_of(body, "b").expect("a body");
        let contents: Vec<&[u8]> = parts.iter().map(|part| part.content).collect();
        assert_eq!(contents, [&b"{}"[..], b"\r\n--a", b""]);
        assert_eq!(parts[0].field("content-type"), Some("application/json"));
        assert_eq!((parts[1].file_name(), parts[2].file_name().as_deref()), (None, Some("a \"b\".txt")));
    }

    #[test]
    fn bodies_that_are_not_whole_are_refused() {
        for body in
            ["", "--b", "--b\r\n", "--b\r\n\r\nx", "--b\r\n\r\nx\r\n--b", "--b\r\nx\r\n--b--", "--b x\r\n\r\n\r\n--b--"]
        {
            assert!(parts_of(body.as_bytes(), "b").is_err(), "{body:?}");
        }
        assert_eq!(parts_of(b"--b--", "b").map(|parts| parts.len()).ok(), Some(0));
        let many = "--b\r\n\r\n\r\n".repeat(PARTS_MAX + 1) + "--b--";
        assert!(parts_of(many.as_bytes(), "b").is_err());
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("a \"b\"\r\nc\\"), "\"a \\\"b\\\"c\\\\\"");
    }
}
