//! Encodings of header fields and bodies: encoded words (RFC 2047), parameters (RFC 2231), quoted-printable and base64
//! (RFC 2045).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The bytes in a line of base64.
const BASE64_LINE_BYTES: usize = 57;
/// The longest line of quoted-printable, without its end.
const QUOTED_LINE_MAX: usize = 76;
/// The most bytes of a text that an encoded word has: 60 characters of base64, with 12 of frame.
const WORD_BYTES_MAX: usize = 45;
/// The longest line of ASCII that is sent as it is.
const PLAIN_LINE_MAX: usize = 200;
/// A text of which at most one byte of so many is not ASCII is sent as quoted-printable.
const QUOTED_PART: usize = 6;

/// How a text is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferEncoding {
    SevenBit,
    QuotedPrintable,
    Base64,
}

impl TransferEncoding {
    /// Returns the encoding of a text.
    pub(super) fn of(text: &str) -> Self {
        let foreign = text.bytes().filter(|byte| !byte.is_ascii()).count();
        let is_short = || text.split("\r\n").all(|line| line.len() <= PLAIN_LINE_MAX);
        match foreign {
            0 if is_short() => Self::SevenBit,
            foreign if foreign * QUOTED_PART <= text.len() => Self::QuotedPrintable,
            _ => Self::Base64,
        }
    }

    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SevenBit => "7bit",
            Self::QuotedPrintable => "quoted-printable",
            Self::Base64 => "base64",
        }
    }

    /// Adds a text whose lines end in CRLF.
    pub(super) fn push(self, out: &mut String, text: &str) {
        match self {
            Self::SevenBit => out.push_str(text),
            Self::QuotedPrintable => push_quoted(out, text),
            Self::Base64 => push_base64(out, text.as_bytes()),
        }
    }
}

/// Adds lines of base64.
pub(super) fn push_base64(out: &mut String, bytes: &[u8]) {
    out.reserve(bytes.len() / 2 * 3);
    for line in bytes.chunks(BASE64_LINE_BYTES) {
        STANDARD.encode_string(line, out);
        out.push_str("\r\n");
    }
}

fn push_quoted(out: &mut String, text: &str) {
    for line in text.split_inclusive("\r\n") {
        let (line, end) = line.strip_suffix("\r\n").map_or((line, ""), |line| (line, "\r\n"));
        let mut column = 0;
        let last = line.len().saturating_sub(1);
        for (index, byte) in line.bytes().enumerate() {
            let is_final_space = index == last && byte == b' ';
            let is_plain = byte == b' ' || (byte.is_ascii_graphic() && byte != b'=');
            let width = if is_plain && !is_final_space { 1 } else { 3 };
            if column + width >= QUOTED_LINE_MAX {
                out.push_str("=\r\n");
                column = 0;
            }
            column += width;
            if width == 1 {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "={byte:02X}");
            }
        }
        out.push_str(end);
    }
}

/// Returns a text of a header field as it is if it is short ASCII, or as encoded words. `column` characters precede it.
pub(super) fn encoded_words(text: &str, column: usize) -> String {
    let is_plain = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if is_plain && !text.contains("=?") && text.len() + column <= QUOTED_LINE_MAX {
        return text.to_owned();
    }
    encode_words(text, column)
}

fn encode_words(text: &str, column: usize) -> String {
    let mut words = Vec::new();
    let mut rest: String = text.chars().filter(|c| !c.is_control()).collect();
    // The first word leaves room for the name of the field.
    let mut most = WORD_BYTES_MAX.saturating_sub(column);
    while !rest.is_empty() {
        let tail = rest.split_off(rest.floor_char_boundary(most));
        words.push(format!("=?utf-8?B?{}?=", STANDARD.encode(&rest)));
        rest = tail;
        most = WORD_BYTES_MAX;
    }
    words.join("\r\n ")
}

/// Returns a name before an address.
pub(super) fn phrase(name: &str, column: usize) -> String {
    let is_atoms = name.bytes().all(|byte| byte == b' ' || byte.is_ascii_alphanumeric() || b"'-".contains(&byte));
    if is_atoms { name.to_owned() } else { encode_words(name, column) }
}

/// Returns the parameter of `Content-Disposition` that has the name of a file.
pub(super) fn file_name_parameter(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte)) {
        return format!("filename=\"{name}\"");
    }
    let mut encoded = String::from("filename*=utf-8''");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_lines_are_short_and_keep_spaces() {
        let mut out = String::new();
        push_quoted(&mut out, &format!("a=b \r\n{}\r\n", "é".repeat(30)));
        assert!(out.starts_with("a=3Db=20\r\n=C3=A9"), "{out}");
        assert!(out.split("\r\n").all(|line| line.len() <= QUOTED_LINE_MAX), "{out}");
    }

    #[test]
    fn words_of_headers_are_encoded_if_necessary() {
        assert_eq!(encoded_words("Minutes of Monday", 9), "Minutes of Monday");
        assert_eq!(encoded_words("Grüße", 9), "=?utf-8?B?R3LDvMOfZQ==?=");
        let long = encoded_words(&"Ω".repeat(60), 9);
        assert!(long.split("\r\n ").all(|word| word.len() <= 75 && word.ends_with("?=")), "{long}");
        assert_eq!(phrase("Ana O'Neil", 6), "Ana O'Neil");
        assert_eq!(phrase("A, B", 6), "=?utf-8?B?QSwgQg==?=");
        assert_eq!(file_name_parameter("plan.pdf"), "filename=\"plan.pdf\"");
        assert_eq!(file_name_parameter("план.pdf"), "filename*=utf-8''%D0%BF%D0%BB%D0%B0%D0%BD.pdf");
    }
}
