//! Transfer encodings (RFC 2045 §6), decoded as leniently as mail requires.
//!
//! Characters outside the base64 alphabet are skipped. Text after base64 padding is decoded as well, because some
//! programs join encoded texts. In quoted-printable, an invalid `=` is kept, and white space before a line end is
//! removed, as the RFC requires. Decoding never fails. A body may come in pieces ([`TransferDecoder`]).
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

/// Maximum length of the incomplete line of quoted-printable that a [`TransferDecoder`] keeps.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Decodes a body that comes in pieces. The result is the same as that of [`decode`] for the whole body. Only a line of
/// quoted-printable of more than 16 KiB is decoded in parts, so that white space at the end of a part
/// stays.
#[derive(Debug, Clone)]
pub struct TransferDecoder {
    encoding: PieceEncoding,
    /// The end of the previous piece that can only be decoded together with the next one: up to three characters of
    /// base64, or a line of quoted-printable without its end.
    held: Vec<u8>,
}

/// The encodings of a [`TransferDecoder`].
#[derive(Debug, Clone, Copy)]
enum PieceEncoding {
    Identity,
    Base64,
    QuotedPrintable,
}

impl TransferDecoder {
    /// Creates a decoder. Returns `None` if the encoding is unknown.
    #[must_use]
    pub fn new(encoding: &TransferEncoding) -> Option<Self> {
        let encoding = match encoding {
            TransferEncoding::SevenBit | TransferEncoding::EightBit | TransferEncoding::Binary => {
                PieceEncoding::Identity
            }
            TransferEncoding::Base64 => PieceEncoding::Base64,
            TransferEncoding::QuotedPrintable => PieceEncoding::QuotedPrintable,
            TransferEncoding::Other(_) => return None,
        };
        Some(Self { encoding, held: Vec::new() })
    }

    /// Decodes the next piece and appends the result, as far as it does not depend on the piece after it.
    pub fn push(&mut self, piece: &[u8], decoded: &mut Vec<u8>) {
        match self.encoding {
            PieceEncoding::Identity => decoded.extend_from_slice(piece),
            PieceEncoding::Base64 => self.push_base64(piece, decoded),
            PieceEncoding::QuotedPrintable => self.push_quoted_printable(piece, decoded),
        }
    }

    /// Appends the rest at the end of the body.
    pub fn finish(&mut self, decoded: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        match self.encoding {
            PieceEncoding::Identity => {}
            PieceEncoding::Base64 => append_characters(&held, decoded),
            PieceEncoding::QuotedPrintable if held.is_empty() => {}
            PieceEncoding::QuotedPrintable => decode_line(&held, decoded),
        }
    }

    fn push_base64(&mut self, piece: &[u8], decoded: &mut Vec<u8>) {
        let mut characters = std::mem::take(&mut self.held);
        let held = characters.len();
        characters.reserve(piece.len());
        piece.split(|byte| *byte == b'\n').for_each(|line| characters.extend_from_slice(line.trim_ascii()));
        let complete = characters.len() - characters.len() % 4;
        let (complete, rest) = characters.split_at(complete);
        let start = decoded.len();
        if rest.iter().all(|byte| base64_value(*byte).is_some()) && FORGIVING.decode_vec(complete, decoded).is_ok() {
            self.held = rest.to_vec();
            return;
        }
        decoded.truncate(start);
        let mut group: Vec<u8> = characters[..held].to_vec();
        for byte in piece {
            if *byte == b'=' {
                // This is padding. The remaining bits of the last character do not form a whole byte.
                append_characters(&group, decoded);
                group.clear();
            } else if base64_value(*byte).is_some() {
                group.push(*byte);
            }
            if group.len() == 4 {
                append_characters(&group, decoded);
                group.clear();
            }
        }
        self.held = group;
    }

    fn push_quoted_printable(&mut self, piece: &[u8], decoded: &mut Vec<u8>) {
        let joined = match self.held.is_empty() {
            true => Cow::Borrowed(piece),
            false => Cow::Owned([&std::mem::take(&mut self.held)[..], piece].concat()),
        };
        let mut rest = &joined[..];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            decode_line(line, decoded);
            rest = after;
        }
        if rest.len() > LINE_BYTES_MAX {
            // The end of the line stays, because white space and escape sequences at it depend on what follows.
            let (part, after) = rest.split_at(rest.len() - LINE_BYTES_MAX / 2);
            let escape = part.iter().rev().take(2).position(|byte| *byte == b'=').map_or(0, |position| position + 1);
            let (part, _) = part.split_at(part.len() - escape);
            unescape(part, decoded);
            rest = &rest[rest.len() - after.len() - escape..];
        }
        self.held.extend_from_slice(rest);
    }
}

/// Decodes up to four characters of base64 that are not padding.
fn append_characters(characters: &[u8], decoded: &mut Vec<u8>) {
    let value = |index: usize| characters.get(index).copied().and_then(base64_value).map_or(0, u32::from);
    let bits = value(0) << 18 | value(1) << 12 | value(2) << 6 | value(3);
    let [_, bytes @ ..] = bits.to_be_bytes();
    decoded.extend_from_slice(&bytes[..characters.len().saturating_sub(1)]);
}

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
        decode_line(line, &mut decoded);
        rest = after;
    }
    decoded
}

/// Decodes a line of quoted-printable. Its line end may be missing at the end of a body.
fn decode_line(line: &[u8], decoded: &mut Vec<u8>) {
    let content = without_line_end(line);
    let text = content.trim_ascii_end();
    // White space at the very end is kept, because the line has not ended.
    let has_end = content.len() < line.len();
    let (text, ending) = match text.strip_suffix(b"=") {
        Some(text) => (text, &line[..0]),
        None if has_end => (text, &line[content.len()..]),
        None => (content, &line[..0]),
    };
    unescape(text, decoded);
    decoded.extend_from_slice(ending);
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
    fn pieces_are_decoded_like_the_whole_body() {
        let check = |encoding: TransferEncoding, body: &str| {
            let whole = decode(&encoding, body.as_bytes(), usize::MAX).map(Cow::into_owned);
            for length in 1..=body.len().max(1) {
                let pieces = TransferDecoder::new(&encoding).map(|mut decoder| {
                    let mut decoded = Vec::new();
                    body.as_bytes().chunks(length).for_each(|piece| decoder.push(piece, &mut decoded));
                    decoder.finish(&mut decoded);
                    decoded
                });
                assert_eq!(pieces, whole, "{body:?} in pieces of {length}");
            }
        };
        for body in [
            "aGVsbG8gd29ybGQ=",
            "aGVs\r\nbG8g\r\n d29ybGQ",
            "aGVs-bG8g!d29ybGQ",
            "aGVsbG8=aGVsbG8=",
            "aA==aA==\r\naA==\r\n",
            "aGVsbG8=\n=====a=b\nYWJj ZGVm\nYR==",
            "a",
            "",
        ] {
            check(TransferEncoding::Base64, body);
        }
        for body in ["a=3Db=\r\nc=3d\r\nd  \r\ne", "soft=  \nbreak  ", "=C3=A9=4", "=ZZ=\nx =", "a\r\r\n\r", ""] {
            check(TransferEncoding::QuotedPrintable, body);
            check(TransferEncoding::EightBit, body);
        }
        check(TransferEncoding::Other(crate::mime::structure::InternedText::new(b"x-uue")), "abc");
    }

    #[test]
    fn endless_line_is_decoded_in_parts() {
        let line = "=3D=".repeat(LINE_BYTES_MAX) + "  ";
        for length in [1, 1_000, 100_000] {
            let mut decoder = TransferDecoder::new(&TransferEncoding::QuotedPrintable).expect("it is known");
            let mut decoded = Vec::new();
            for piece in line.as_bytes().chunks(length) {
                decoder.push(piece, &mut decoded);
                assert!(decoder.held.len() <= LINE_BYTES_MAX);
            }
            decoder.finish(&mut decoded);
            assert_eq!(decoded, quoted_printable_lenient(line.as_bytes(), usize::MAX), "in pieces of {length}");
        }
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
