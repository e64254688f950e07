//! Transfer encodings (RFC 2045 §6), decoded as leniently as mail requires.
//!
//! Characters outside the base64 alphabet are skipped. Text after base64 padding is decoded as well, because some
//! programs join encoded texts. In quoted-printable, an invalid `=` is kept, and white space before a line end is
//! removed, as the RFC requires. Decoding never fails.
//!
//! Encoding to exactly the original text is left out; that is the task of the skeleton.

use std::borrow::Cow;
use std::sync::LazyLock;

use base::hex;
use base::line_ends::{line_end, without_line_end};
use base64::Engine;
use base64::engine::general_purpose::{NO_PAD, PAD, PAD_INDIFFERENT};
use base64::engine::{GeneralPurposeConfig, Simd};

use crate::mime::structure::TransferEncoding;

/// Base64 with padding. Decoding is strict.
pub(crate) static STANDARD: LazyLock<Simd> = LazyLock::new(|| Simd::standard(PAD));
/// Base64 without padding. Decoding is strict.
pub(crate) static STANDARD_NO_PAD: LazyLock<Simd> = LazyLock::new(|| Simd::standard(NO_PAD));

/// Base64 with or without padding, whose last character may have further bits.
static FORGIVING: LazyLock<Simd> = LazyLock::new(|| {
    const CONFIG: GeneralPurposeConfig = PAD_INDIFFERENT.with_decode_allow_trailing_bits(true);
    Simd::standard(CONFIG)
});

/// Decodes a body. Returns `None` if the encoding is unknown.
///
/// Decoding stops after about `size_bytes_max` bytes. The result may be a little longer, but it is shorter only if the
/// body ends.
#[must_use]
pub fn decode<'a>(encoding: &TransferEncoding, body: &'a [u8], size_bytes_max: usize) -> Option<Cow<'a, [u8]>> {
    match encoding {
        TransferEncoding::SevenBit | TransferEncoding::EightBit | TransferEncoding::Binary => {
            Some(Cow::Borrowed(body.get(..size_bytes_max).unwrap_or(body)))
        }
        TransferEncoding::Base64 => Some(Cow::Owned(base64_lenient(body, size_bytes_max))),
        TransferEncoding::QuotedPrintable => Some(Cow::Owned(quoted_printable_lenient(body, size_bytes_max))),
        TransferEncoding::Other(_) => None,
    }
}

/// Decodes base64.
#[must_use]
pub fn base64_lenient(encoded: &[u8], size_bytes_max: usize) -> Vec<u8> {
    // Twice the number of wanted bytes contains enough characters, even with line ends.
    let prefix = encoded.get(..size_bytes_max.saturating_mul(2).saturating_add(64)).unwrap_or(encoded);
    let mut characters = Vec::with_capacity(prefix.len());
    prefix.split(|byte| *byte == b'\n').for_each(|line| characters.extend_from_slice(line.trim_ascii()));
    if let Ok(decoded) = FORGIVING.decode(characters)
        && (prefix.len() == encoded.len() || decoded.len() >= size_bytes_max)
    {
        return decoded;
    }
    let mut decoded = Vec::new();
    let mut bits = 0_u32;
    let mut count = 0_u32;
    for byte in encoded {
        if decoded.len() >= size_bytes_max {
            break;
        }
        if *byte == b'=' {
            // This is padding. The remaining bits of the last character do not form a whole byte.
            count = 0;
            continue;
        }
        let Some(value) = base64_value(*byte) else { continue };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count & 0xFF) as u8);
        }
    }
    decoded
}

/// Decodes quoted-printable.
#[must_use]
pub fn quoted_printable_lenient(encoded: &[u8], size_bytes_max: usize) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(encoded.len().min(size_bytes_max));
    let mut rest = encoded;
    while !rest.is_empty() && decoded.len() < size_bytes_max {
        let end = line_end(rest, 0);
        let (line, after) = rest.split_at(end);
        let content = without_line_end(line);
        let text = content.trim_ascii_end();
        // White space at the very end is kept, because the line has not ended.
        let has_end = content.len() < line.len();
        let (text, ending) = match text.strip_suffix(b"=") {
            Some(text) => (text, &line[..0]),
            None if has_end => (text, &line[content.len()..]),
            None => (content, &line[..0]),
        };
        unescape(text, &mut decoded);
        decoded.extend_from_slice(ending);
        rest = after;
    }
    decoded
}

fn unescape(mut text: &[u8], decoded: &mut Vec<u8>) {
    while let Some(position) = memchr::memchr(b'=', text) {
        decoded.extend_from_slice(&text[..position]);
        match &text[position + 1..] {
            [high, low, after @ ..] if let Some(value) = hex::parse_byte(*high, *low) => {
                decoded.push(value);
                text = after;
            }
            after => {
                decoded.push(b'=');
                text = after;
            }
        }
    }
    decoded.extend_from_slice(text);
}

/// Returns the value of a base64 character. Returns `None` for other characters.
pub(crate) fn base64_value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_decoding_skips_foreign_characters() {
        let check = |encoded: &str, expected: &str| {
            assert_eq!(base64_lenient(encoded.as_bytes(), usize::MAX), expected.as_bytes(), "{encoded}");
        };
        check("aGVsbG8gd29ybGQ=", "hello world");
        check("aGVs\r\nbG8g\r\n d29ybGQ", "hello world");
        check("aGVs-bG8g!d29ybGQ", "hello world");
        check("aGVsbG8=aGVsbG8=", "hellohello");
        check("aA==aA==", "hh");
        check("====", "");
        check("a", "");
    }

    #[test]
    fn malformed_quoted_printable_is_decoded() {
        let check = |encoded: &str, expected: &str| {
            let decoded = quoted_printable_lenient(encoded.as_bytes(), usize::MAX);
            assert_eq!(decoded, expected.as_bytes(), "{encoded}");
        };
        check("a=3Db=\r\nc=3d\r\nd  \r\ne", "a=bc=\r\nd\r\ne");
        check("soft=  \nbreak", "softbreak");
        check("=C3=A9=4", "\u{e9}=4");
        check("=ZZ=\nx =", "=ZZx ");
        check("tail  ", "tail  ");
    }

    #[test]
    fn decoding_stops_at_the_limit() {
        let encoded = STANDARD.encode(vec![7; 100_000]);
        let decoded = decode(&TransferEncoding::Base64, encoded.as_bytes(), 1_000).map_or(0, |decoded| decoded.len());
        assert!((1_000..2_000).contains(&decoded), "{decoded}");
        assert_eq!(decode(&TransferEncoding::SevenBit, b"abcdef", 3).as_deref(), Some(&b"abc"[..]));
        assert_eq!(
            decode(&TransferEncoding::Other(crate::mime::structure::InternedText::new(b"x-uue")), b"abc", 3),
            None
        );
    }
}
