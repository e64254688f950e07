//! The form *Text* of a header field (RFC 8621 §4.1.2.2), which names in addresses use as well.
//!
//! RFC 8621 forbids to decode what violates the placement and white-space rules of RFC 2047. So an encoded word is
//! decoded only if white space, or the start or end of the value, surrounds it, and only if its character set is known.
//! The words may be longer than the RFC allows, because many programs write such words. Adjacent words of the same
//! character set are joined before they are converted, because programs split characters between words.
//!
//! Control characters in encoded words are dropped. The result is in NFC.

use base::hex;
use mail::mime::transfer_encoding;
use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::email::charset;

/// Returns a folded value as decoded text.
pub(crate) fn decode(value: &[u8]) -> String {
    let line = unfold(value);
    let mut decoder = TextDecoder::default();
    let mut rest = &line[..];
    while !rest.is_empty() {
        let gap_length = rest.iter().position(|byte| !is_blank(*byte)).unwrap_or(rest.len());
        let (gap, after) = rest.split_at(gap_length);
        let token_length = after.iter().position(|byte| is_blank(*byte)).unwrap_or(after.len());
        let (token, after) = after.split_at(token_length);
        match EncodedWord::parse(token) {
            Some(word) => decoder.add_word(gap, word),
            None => decoder.add_plain(gap, token),
        }
        rest = after;
    }
    decoder.finish()
}

/// Returns a text in Unicode's normalization form NFC.
pub(crate) fn to_nfc(text: String) -> String {
    if is_nfc(&text) { text } else { text.nfc().collect() }
}

/// Returns a value on one line, without NUL bytes and without white space at its start.
fn unfold(value: &[u8]) -> Vec<u8> {
    let start = value.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(value.len());
    value[start..].iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)).collect()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// An encoded word.
struct EncodedWord<'a> {
    charset: &'a [u8],
    bytes: Vec<u8>,
}

impl<'a> EncodedWord<'a> {
    /// Parses a token that consists of exactly one encoded word in a known character set.
    fn parse(token: &'a [u8]) -> Option<Self> {
        let inside = token.strip_prefix(b"=?")?.strip_suffix(b"?=")?;
        let mut pieces = inside.split(|byte| *byte == b'?');
        let charset = pieces.next()?;
        let encoding = pieces.next()?;
        let encoded = pieces.next()?;
        // RFC 2231 §5: a language may follow the character set.
        let charset = charset.split(|byte| *byte == b'*').next().unwrap_or(charset);
        if pieces.next().is_some() || !charset::is_known(charset) {
            return None;
        }
        let bytes = match encoding {
            b"b" | b"B" => transfer_encoding::base64_lenient(encoded, usize::MAX),
            b"q" | b"Q" => decode_q(encoded),
            _ => return None,
        };
        Some(Self { charset, bytes })
    }
}

/// Decodes the "Q" encoding. An invalid escape sequence is kept.
fn decode_q(encoded: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'_', _) => bytes.push(b' '),
            (b'=', [high, low, after @ ..]) if let Some(value) = hex::parse_byte(*high, *low) => {
                bytes.push(value);
                rest = after;
            }
            _ => bytes.push(*byte),
        }
    }
    bytes
}

/// An accumulator of the decoded text.
#[derive(Default)]
struct TextDecoder {
    text: String,
    /// The text outside words that has not been converted.
    plain: Vec<u8>,
    /// The content of adjacent words that has not been converted, and its character set.
    words: Vec<u8>,
    charset: Vec<u8>,
    is_after_word: bool,
}

impl TextDecoder {
    /// Adds a word and the white space before it, which is dropped between two words.
    fn add_word(&mut self, gap: &[u8], word: EncodedWord<'_>) {
        if !self.is_after_word {
            self.plain.extend_from_slice(gap);
            self.flush_plain();
        }
        if !self.charset.eq_ignore_ascii_case(word.charset) {
            self.flush_words();
            self.charset = word.charset.to_vec();
        }
        self.words.extend_from_slice(&word.bytes);
        self.is_after_word = true;
    }

    fn add_plain(&mut self, gap: &[u8], token: &[u8]) {
        self.flush_words();
        self.is_after_word = false;
        self.plain.extend_from_slice(gap);
        self.plain.extend_from_slice(token);
    }

    fn flush_plain(&mut self) {
        let plain = std::mem::take(&mut self.plain);
        self.text.push_str(&charset::to_unicode(None, &plain).text);
    }

    fn flush_words(&mut self) {
        let words = std::mem::take(&mut self.words);
        let converted = charset::to_unicode(Some(&std::mem::take(&mut self.charset)), &words);
        self.text.extend(converted.text.chars().filter(|character| !character.is_control()));
    }

    fn finish(mut self) -> String {
        self.flush_words();
        self.flush_plain();
        to_nfc(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &[u8], expected: &str) {
        assert_eq!(decode(value), expected, "{}", String::from_utf8_lossy(value));
    }

    #[test]
    fn encoded_words_are_decoded() {
        check(b" =?ISO-8859-1?Q?Andr=E9?= Pirard", "Andr\u{e9} Pirard");
        check(b" Re: =?utf-8?b?w6k=?=\r\n =?utf-8?q?_x?= y", "Re: \u{e9} x y");
        check(b"=?utf-8?q?=C3?= =?UTF-8?q?=A9?=", "\u{e9}");
        check(b"=?utf-8*de?Q?a?= \t =?iso-8859-1?q?b?=", "ab");
        check(b"=?utf-8?q?e=CC=81?=", "\u{e9}");
        check(b"=?utf-8?q?a=00b=0D=0Ac=07?=", "abc");
        check(b"=?utf-8?q?=FF?=", "\u{fffd}");
    }

    #[test]
    fn words_in_the_wrong_place_or_an_unknown_character_set_are_kept() {
        for text in
            ["a=?utf-8?q?b?=", "(=?utf-8?q?b?=)", "=?utf-8?q?b?=c", "=?utf-8?x?b?=", "=?x-nobody?q?b?=", "=?utf-8?q?b"]
        {
            check(text.as_bytes(), text);
        }
        check(b"=?utf-8?q?a b?=", "=?utf-8?q?a b?=");
        check(b"=?utf-8?q?a?==?utf-8?q?b?=", "=?utf-8?q?a?==?utf-8?q?b?=");
    }

    #[test]
    fn white_space_is_unfolded_and_removed_at_the_start_only() {
        check(b"  a\r\n  b\r\n\tc ", "a  b\tc ");
        check(b"\r\n\tfolded", "folded");
        check(b" a\0b", "ab");
        check(b"   ", "");
        check(b"", "");
    }

    #[test]
    fn bytes_outside_words_are_utf_8_or_else_windows_1252() {
        check(b" caf\xc3\xa9", "caf\u{e9}");
        check(b" caf\xe9", "caf\u{e9}");
    }
}
