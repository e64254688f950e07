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
/// The digits of encoded bytes (RFC 2045 section 6.7).
const HEX_DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
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

/// Adds lines of quoted-printable. Most bytes are as they are and are copied in runs, because the bodies of a run of
/// thousands of users are encoded while it is measured.
fn push_quoted(out: &mut String, text: &str) {
    let is_plain = |byte: u8| byte == b' ' || (byte.is_ascii_graphic() && byte != b'=');
    for line in text.split_inclusive("\r\n") {
        let (line, end) = line.strip_suffix("\r\n").map_or((line, ""), |line| (line, "\r\n"));
        // A space at the end of a line is encoded.
        let plain_end = line.len() - usize::from(line.ends_with(' '));
        let mut column = 0;
        let mut index = 0;
        while index < line.len() {
            let rest = line.as_bytes()[index..plain_end.max(index)].iter();
            let run = rest.take(QUOTED_LINE_MAX - 1 - column).take_while(|byte| is_plain(**byte)).count();
            // Within a character there is no run.
            out.push_str(line.get(index..index + run).unwrap_or_default());
            column += run;
            index += run;
            let Some(byte) = line.as_bytes().get(index).copied() else { break };
            let is_encoded = index == plain_end || !is_plain(byte);
            if column + if is_encoded { 3 } else { 1 } >= QUOTED_LINE_MAX {
                out.push_str("=\r\n");
                column = 0;
            }
            if is_encoded {
                out.extend(['=', HEX_DIGITS[usize::from(byte >> 4)], HEX_DIGITS[usize::from(byte & 15)]]);
                column += 3;
                index += 1;
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quoted_lines_are_short_and_keep_spaces() {
        let mut out = String::new();
        push_quoted(&mut out, &format!("a=b \r\n{}\r\n", "é".repeat(30)));
        assert!(out.starts_with("a=3Db=20\r\n=C3=A9"), "{out}");
        assert!(out.split("\r\n").all(|line| line.len() <= QUOTED_LINE_MAX), "{out}");
    }

    proptest! {
        /// Compares with an encoder that looks at each byte, and with what a reader decodes.
        #[test]
        fn runs_are_encoded_as_single_bytes_are(text in "([ -~é=]{0,200}\r\n){0,4}[a-z =]{0,90}") {
            let mut out = String::new();
            push_quoted(&mut out, &text);
            prop_assert_eq!(&out, &encode_bytes(&text));
            let decoded = mail_parser::decoders::quoted_printable::quoted_printable_decode(out.as_bytes());
            prop_assert_eq!(decoded, Some(text.into_bytes()));
        }
    }

    fn encode_bytes(text: &str) -> String {
        let mut out = String::new();
        for line in text.split_inclusive("\r\n") {
            let (line, end) = line.strip_suffix("\r\n").map_or((line, ""), |line| (line, "\r\n"));
            let mut column = 0;
            for (left, byte) in (0..line.len()).rev().zip(line.bytes()) {
                let is_plain = byte == b' ' && left > 0 || byte.is_ascii_graphic() && byte != b'=';
                let word = if is_plain { char::from(byte).to_string() } else { format!("={byte:02X}") };
                if column + word.len() >= QUOTED_LINE_MAX {
                    out.push_str("=\r\n");
                    column = 0;
                }
                column += word.len();
                out.push_str(&word);
            }
            out.push_str(end);
        }
        out
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
