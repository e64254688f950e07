//! EmailBodyValue: the text of a part (RFC 8621 §4.1.4).
//!
//! The text is in Unicode, and its lines end with LF. A text that is too long is cut at the end of a character, and
//! HTML also outside of a tag.

use mail::mime::MimeSource;
use serde_json::{Value, json};

use crate::email::part_reader::PartReader;

/// Returns the EmailBodyValue of a text part. The text has at most `bytes_max` bytes, or any number if that is 0.
pub(crate) fn body_value<S: MimeSource + ?Sized>(
    reader: &PartReader<'_, S>,
    index: usize,
    bytes_max: u64,
) -> Result<Value, S::Error> {
    let converted = reader.text(index)?;
    let mut text = converted.text;
    if text.contains("\r\n") {
        text = with_lf(&text);
    }
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let is_truncated = bytes_max > 0 && text.len() > bytes_max;
    if is_truncated {
        let is_html = reader.tree().media_type(index) == "text/html";
        let length = if is_html { html_length(&text, bytes_max) } else { text.floor_char_boundary(bytes_max) };
        text.truncate(length);
    }
    Ok(json!({ "value": text, "isEncodingProblem": converted.is_problem, "isTruncated": is_truncated }))
}

/// Returns a text whose lines end with LF alone. Some programs end lines with CR CR LF.
fn with_lf(text: &str) -> String {
    let mut converted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        converted.push_str(line.trim_end_matches('\r'));
        converted.push('\n');
        rest = after;
    }
    converted.push_str(rest);
    converted
}

/// Returns the length of the beginning of an HTML text that has at most `bytes_max` bytes and does not end within a
/// tag. If a tag is all that fits, its beginning is kept.
fn html_length(html: &str, bytes_max: usize) -> usize {
    let length = html.floor_char_boundary(bytes_max);
    match open_tag(&html[..length]) {
        Some(start) if start > 0 => start,
        _ => length,
    }
}

/// Returns the start of the tag in which a text ends. A `>` in a quoted attribute value does not end a tag.
fn open_tag(html: &str) -> Option<usize> {
    let bytes = html.as_bytes();
    let mut position = 0;
    while let Some(offset) = memchr::memchr(b'<', bytes.get(position..)?) {
        let start = position + offset;
        let begins_tag = bytes.get(start + 1).is_none_or(|next| next.is_ascii_alphabetic() || b"/!?".contains(next));
        if !begins_tag {
            position = start + 1;
            continue;
        }
        match tag_end(bytes, start) {
            Some(end) => position = end,
            None => return Some(start),
        }
    }
    None
}

/// Returns the position after the tag that begins at `start`. Returns `None` if the text ends within it.
fn tag_end(html: &[u8], start: usize) -> Option<usize> {
    if html[start..].starts_with(b"<!--") {
        return memchr::memmem::find(&html[start..], b"-->").map(|offset| start + offset + 3);
    }
    let mut quote = None;
    let mut previous = b' ';
    for (position, byte) in html.iter().copied().enumerate().skip(start + 1) {
        match (quote, byte) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, b'>') => return Some(position + 1),
            (None, b'"' | b'\'') if previous == b'=' => quote = Some(byte),
            (None, _) => {}
        }
        if !byte.is_ascii_whitespace() {
            previous = byte;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(html: &str, bytes_max: usize, expected: &str) {
        assert_eq!(&html[..html_length(html, bytes_max)], expected, "{html:?} {bytes_max}");
    }

    #[test]
    fn html_is_not_cut_within_a_tag() {
        let html = "<p>Hi <a href=\"http://x>y\">link</a> 1 < 2";
        check(html, 3, "<p>");
        check(html, 7, "<p>Hi ");
        check(html, 8, "<p>Hi ");
        check(html, 26, "<p>Hi ");
        check(html, 27, "<p>Hi <a href=\"http://x>y\">");
        check(html, 29, "<p>Hi <a href=\"http://x>y\">li");
        check(html, 33, "<p>Hi <a href=\"http://x>y\">link");
        check(html, 39, "<p>Hi <a href=\"http://x>y\">link</a> 1 ");
        check(html, 40, "<p>Hi <a href=\"http://x>y\">link</a> 1 < ");
        check("a<!-- > -->b", 9, "a");
        check("a<!-- > -->b", 11, "a<!-- > -->");
        check("<averylongtag>", 5, "<aver");
        check("<p title=it's>abc", 16, "<p title=it's>ab");
        check("\u{e9}\u{e9}", 3, "\u{e9}");
    }
}
