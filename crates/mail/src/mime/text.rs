//! The texts of a message's parts in Unicode, and the preview.
//!
//! The transfer encoding and the character set are decoded, both leniently: an unknown character set is guessed. A
//! limit determines how much is examined, and no more than that is read from the [`MimeSource`].

use search::html;

use crate::limits::{PREVIEW_CHARACTERS_MAX, PREVIEW_PARTS_MAX, PREVIEW_SOURCE_BYTES_MAX};
use crate::mime::structure::{Part, TransferEncoding};
use crate::mime::{MimeSource, encoded_word, transfer_encoding};

/// Number of bytes of a part that are examined first for a preview.
const PREVIEW_SOURCE_BYTES_MIN: usize = 1 << 10;

/// Decodes the body of a part to text. Returns `None` if its transfer encoding is unknown.
///
/// About `size_bytes_max` bytes of the transfer encoding are decoded. The text may be longer in UTF-8.
#[must_use]
pub fn decode(part: &Part, body: &[u8], size_bytes_max: usize) -> Option<String> {
    let bytes = transfer_encoding::decode(&part.content.encoding, body, size_bytes_max)?.into_owned();
    let charset = part.content.parameter("charset");
    let was_cut = bytes.len() >= size_bytes_max || (body.len() as u64) < part.size();
    Some(if was_cut {
        encoded_word::truncated_to_unicode(charset, bytes)
    } else {
        encoded_word::charset_to_unicode(charset, bytes)
    })
}

/// Reads a part by its index and decodes it. See [`decode`].
///
/// # Errors
///
/// Returns the errors of the source.
pub fn of_part<S: MimeSource + ?Sized>(
    source: &S,
    index: usize,
    size_bytes_max: usize,
) -> Result<Option<String>, S::Error> {
    let Some(part) = source.structure().parts().get(index) else { return Ok(None) };
    let encoded_max = match part.content.encoding {
        TransferEncoding::Base64 => size_bytes_max.saturating_mul(2),
        TransferEncoding::QuotedPrintable => size_bytes_max.saturating_mul(3),
        _ => size_bytes_max,
    };
    let end = part.body.end.min(part.body.start.saturating_add(encoded_max as u64));
    let body = source.range(part.body.start..end)?;
    Ok(decode(part, &body, size_bytes_max))
}

/// Returns the text of an HTML document, approximately as a reader sees it.
#[must_use]
pub fn of_html(html: &str) -> String {
    html::to_text(html)
}

/// Returns the beginning of the displayed text of the message, on one line. Returns an empty string if there is no
/// text.
///
/// The text is taken from the first part with plain or HTML text that is not an attachment.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn preview<S: MimeSource + ?Sized>(source: &S) -> Result<String, S::Error> {
    let shown =
        |part: &Part| (part.is_media("text", "plain") || part.is_media("text", "html")) && !part.is_attachment();
    let parts = source.structure().parts().iter().enumerate();
    for (index, part) in parts.filter(|(_, part)| shown(part) && part.size() > 0).take(PREVIEW_PARTS_MAX) {
        let line = preview_of_part(source, index, part)?;
        if !line.is_empty() {
            return Ok(line);
        }
    }
    Ok(String::new())
}

/// Returns the preview of one part. Reads as little of the part as possible.
fn preview_of_part<S: MimeSource + ?Sized>(source: &S, index: usize, part: &Part) -> Result<String, S::Error> {
    let mut size_bytes = PREVIEW_SOURCE_BYTES_MIN;
    loop {
        let text = of_part(source, index, size_bytes)?.unwrap_or_default();
        let text = if part.is_media("text", "html") { html::to_text(&text) } else { text };
        let line = on_one_line(&text, PREVIEW_CHARACTERS_MAX);
        let enough = line.chars().count() + 2 > PREVIEW_CHARACTERS_MAX;
        if enough || size_bytes as u64 >= part.size() || size_bytes >= PREVIEW_SOURCE_BYTES_MAX {
            return Ok(line);
        }
        size_bytes = (size_bytes * 8).min(PREVIEW_SOURCE_BYTES_MAX);
    }
}

/// Joins the words of a text with single spaces, up to a number of characters. Control characters and invisible filler
/// characters are removed.
#[must_use]
pub fn on_one_line(text: &str, characters_max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    let mut blank_before = false;
    for character in text.chars() {
        if character.is_whitespace() {
            blank_before = count > 0;
            continue;
        }
        // These are soft hyphens, joiners and similar characters. Newsletters fill their previews with them.
        let fills = matches!(character, '\u{ad}' | '\u{34f}' | '\u{200b}' | '\u{feff}')
            || (matches!(character, '\u{200c}' | '\u{200d}') && (blank_before || count == 0));
        if fills || character.is_control() {
            continue;
        }
        if count + 1 + usize::from(blank_before) > characters_max {
            break;
        }
        if std::mem::take(&mut blank_before) {
            line.push(' ');
            count += 1;
        }
        line.push(character);
        count += 1;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mime::{InMemoryMessage, parse};

    fn preview_of(raw: &str) -> String {
        let structure = parse(raw.as_bytes());
        match preview(&InMemoryMessage::new(raw.as_bytes(), &structure)) {
            Ok(preview) => preview,
            Err(never) => match never {},
        }
    }

    #[test]
    fn preview_is_taken_from_the_first_text_part() {
        assert_eq!(preview_of("Subject: x\n\n Hello,\n\n\tworld  \n"), "Hello, world");
        assert_eq!(preview_of("Content-Type: text/html\n\n<style>x</style><p>Hello</p>world"), "Hello world");
        let mixed = "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: image/png\n\nPNG\n--b\n\
            Content-Disposition: attachment\n\nattached\n--b\nContent-Transfer-Encoding: base64\n\nw6kgw6k=\n--b--\n";
        assert_eq!(preview_of(mixed), "\u{e9} \u{e9}");
        assert_eq!(preview_of("Content-Type: image/png\n\nPNG"), "");
        assert_eq!(preview_of("Content-Type: text/plain; charset=utf-16le\n\nh\0i\0"), "hi");
    }

    #[test]
    fn preview_length_is_limited() {
        let preview = preview_of(&format!("\n{}", "w\u{f6}rd ".repeat(10_000)));
        assert_eq!(preview.chars().count(), 199);
        assert_eq!(on_one_line("abc def", 3), "abc");
        assert_eq!(on_one_line("abc def", 4), "abc");
        assert_eq!(on_one_line("abc def", 5), "abc d");
        assert_eq!(on_one_line("\u{200c} \u{34f}a\u{200c}b\u{0}", 9), "a\u{200c}b");
    }

    #[test]
    fn text_truncated_within_a_character_stays_valid() {
        let raw = "\n\u{e9}\u{e9}\u{e9}";
        let structure = parse(raw.as_bytes());
        assert_eq!(decode(structure.root(), &raw.as_bytes()[1..], 3), Some("\u{e9}".into()));
        assert_eq!(decode(structure.root(), &raw.as_bytes()[1..], 100), Some("\u{e9}\u{e9}\u{e9}".into()));
    }

    #[test]
    fn last_byte_of_an_untruncated_part_is_decoded() {
        let check = |charset: &str, byte: u8, size_bytes_max: usize, expected: &str| {
            let head = format!("Content-Type: text/plain; charset={charset}\n\n");
            let raw = [head.as_bytes(), b"caf", &[byte]].concat();
            let structure = parse(&raw);
            let decoded = decode(structure.root(), &raw[head.len()..], size_bytes_max);
            assert_eq!(decoded.as_deref(), Some(expected), "{charset} {size_bytes_max}");
        };
        // Each of these bytes would begin a character in UTF-8. The limit of 4 may have truncated the text, the limit
        // of 100 has not.
        for size_bytes_max in [4, 100] {
            check("iso-8859-1", 0xe9, size_bytes_max, "caf\u{e9}");
            check("iso-8859-15", 0xe9, size_bytes_max, "caf\u{e9}");
            check("windows-1252", 0xe9, size_bytes_max, "caf\u{e9}");
            check("koi8-r", 0xd1, size_bytes_max, "caf\u{44f}");
        }
        check("utf-8", 0xe9, 100, "caf\u{e9}");
        check("utf-8", 0xe9, 4, "caf");
        check("x-unknown", 0xe9, 4, "caf");
    }
}
