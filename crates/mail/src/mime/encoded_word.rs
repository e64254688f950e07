//! Encoded words (RFC 2047) and the character sets of header fields.
//!
//! The decoder is as lenient as mail requires. Words may be longer than 75 bytes, contain white space, stand inside
//! other text, or split a character between two words, as long as both name the same character set. Text that cannot be
//! decoded stays as written. Bytes outside words are UTF-8, or else Windows-1252.
//!
//! Decoding takes linear time: the decoder never searches the same bytes twice for the end of a word.

use std::borrow::Cow;

use base::hex;
use mail_parser::decoders::charsets::map::charset_decoder;

use crate::mime::transfer_encoding;

/// Maximum length of the name of a character set.
const CHARSET_BYTES_MAX: usize = 64;

/// Decodes all encoded words of an unfolded value.
#[must_use]
pub fn decode(value: &[u8]) -> String {
    let mut decoder = Decoder::default();
    let mut rest = value;
    let mut words_ahead = true;
    while words_ahead && let Some(start) = memchr::memmem::find(rest, b"=?") {
        let (before, from_start) = rest.split_at(start);
        match EncodedWord::parse(from_start) {
            WordParse::Word(word, after) => {
                decoder.add_plain_before_word(before);
                decoder.add_word(&word);
                rest = after;
            }
            WordParse::NoWord => {
                decoder.add_plain(&rest[..start + 2]);
                rest = &rest[start + 2..];
            }
            WordParse::NoEnd => words_ahead = false,
        }
    }
    decoder.add_plain(rest);
    decoder.finish()
}

/// Converts text of a named character set to Unicode. A missing or unknown character set is guessed.
#[must_use]
pub fn charset_to_unicode(charset: Option<&[u8]>, bytes: Vec<u8>) -> String {
    match decoder_of(charset) {
        Some(decode) => decode(&bytes),
        None => decode_guessed(bytes),
    }
}

/// Converts text of a named character set that comes in pieces. A text of one piece is converted as
/// [`charset_to_unicode`] does. A missing or unknown character set is guessed for each piece.
#[derive(Debug, Clone)]
pub(crate) struct CharsetReader {
    decode: Option<CharsetDecoder>,
    /// The unit of a character set in which the end of a line is not a single byte.
    wide: Option<WideUnits>,
    /// The end of the previous piece, which may be a part of a character.
    held: Vec<u8>,
}

/// The order of bytes in units of 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WideUnits {
    /// A byte order mark at the start of the text may determine the order.
    AtStart,
    /// The order is the usual one of the character set.
    Usual,
    /// A byte order mark has determined that the more significant byte comes first.
    BigEndian,
}

impl CharsetReader {
    pub(crate) fn new(charset: Option<&[u8]>) -> Self {
        const WIDE: [&str; 8] =
            ["utf-16", "utf_16", "csutf16", "unicode", "csunicode", "ucs", "iso-10646-ucs", "iso_10646_ucs"];
        let name = String::from_utf8_lossy(charset.unwrap_or_default().trim_ascii()).to_ascii_lowercase();
        let is_wide = WIDE.iter().any(|wide| name.starts_with(*wide));
        let has_fixed_order = ["le", "be", "fffe"].iter().any(|end| name.ends_with(*end));
        let wide = is_wide.then_some(if has_fixed_order { WideUnits::Usual } else { WideUnits::AtStart });
        Self { decode: decoder_of(charset), wide, held: Vec::new() }
    }

    /// Converts the next piece, except for the characters at its end that may be incomplete.
    pub(crate) fn push(&mut self, piece: Vec<u8>) -> String {
        let mut bytes = self.join(piece);
        self.held = bytes.split_off(self.complete_length(&bytes));
        self.convert(bytes)
    }

    /// Converts the last piece.
    pub(crate) fn finish(&mut self, piece: Vec<u8>) -> String {
        let bytes = self.join(piece);
        self.convert(bytes)
    }

    /// Returns a piece, preceded by the end of the previous one.
    fn join(&mut self, piece: Vec<u8>) -> Vec<u8> {
        if self.held.is_empty() {
            return piece;
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(&piece);
        bytes
    }

    /// Returns the length of the beginning that consists of complete characters. If a piece in a character set of
    /// several bytes has no line end, its last character may be lost.
    fn complete_length(&self, bytes: &[u8]) -> usize {
        match (self.decode, self.wide) {
            (None, _) => match std::str::from_utf8(bytes) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => bytes.len(),
            },
            (Some(_), Some(_)) => bytes.len() - bytes.len() % 2,
            // In none of these character sets is a line end a part of another character, and it ends a shift state.
            (Some(_), None) => memchr::memrchr(b'\n', bytes).map_or(bytes.len(), |position| position + 1),
        }
    }

    fn convert(&mut self, mut bytes: Vec<u8>) -> String {
        const BIG_ENDIAN_MARK: [u8; 2] = [0xfe, 0xff];
        let Some(decode) = self.decode else { return decode_guessed(bytes) };
        if bytes.is_empty() {
            return String::new();
        }
        match self.wide {
            Some(WideUnits::AtStart) => {
                let is_big_endian = bytes.starts_with(&BIG_ENDIAN_MARK);
                self.wide = Some(if is_big_endian { WideUnits::BigEndian } else { WideUnits::Usual });
            }
            Some(WideUnits::BigEndian) => drop(bytes.splice(0..0, BIG_ENDIAN_MARK)),
            Some(WideUnits::Usual) | None => {}
        }
        decode(&bytes)
    }
}

/// Converts text of one character set.
type CharsetDecoder = fn(&[u8]) -> String;

/// Returns the decoder of a character set. Returns `None` if the character set must be guessed.
fn decoder_of(charset: Option<&[u8]>) -> Option<CharsetDecoder> {
    charset.map(<[u8]>::trim_ascii).filter(|name| !is_unicode_or_ascii(name)).and_then(charset_decoder)
}

/// Decodes valid UTF-8 as UTF-8 and other bytes as Windows-1252.
fn decode_guessed(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let bytes = error.into_bytes();
        match charset_decoder(b"windows-1252") {
            Some(decode) => decode(&bytes),
            None => String::from_utf8_lossy(&bytes).into_owned(),
        }
    })
}

/// Returns `true` if texts of this character set are best guessed. Many texts that claim ASCII are something else.
fn is_unicode_or_ascii(charset: &[u8]) -> bool {
    const NAMES: [&[u8]; 5] = [b"utf-8", b"utf8", b"us-ascii", b"ascii", b"unknown-8bit"];
    charset.is_empty() || NAMES.iter().any(|name| charset.eq_ignore_ascii_case(name))
}

/// Converts text that was truncated at a limit. If the character set is guessed, an incomplete UTF-8 character at the
/// end is dropped.
pub(crate) fn truncated_to_unicode(charset: Option<&[u8]>, mut bytes: Vec<u8>) -> String {
    if decoder_of(charset).is_none()
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    charset_to_unicode(charset, bytes)
}

struct EncodedWord<'a> {
    charset: &'a [u8],
    bytes: Cow<'a, [u8]>,
}

enum WordParse<'a> {
    /// A word and the text after it.
    Word(EncodedWord<'a>, &'a [u8]),
    /// The text is not a word, although it looks like one.
    NoWord,
    /// Neither this text nor any text after it can be a word.
    NoEnd,
}

impl<'a> EncodedWord<'a> {
    /// Parses the word at the start of `text`, which begins with `=?`.
    fn parse(text: &'a [u8]) -> WordParse<'a> {
        let inside = &text[2..];
        let head = inside.get(..CHARSET_BYTES_MAX).unwrap_or(inside);
        let Some(charset_length) = memchr::memchr(b'?', head) else { return WordParse::NoWord };
        let (charset, rest) = inside.split_at(charset_length);
        let (encoding, encoded) = match rest {
            [b'?', encoding, b'?', encoded @ ..] => (encoding.to_ascii_lowercase(), encoded),
            _ => return WordParse::NoWord,
        };
        if charset.is_empty() || charset.iter().any(u8::is_ascii_whitespace) || !matches!(encoding, b'b' | b'q') {
            return WordParse::NoWord;
        }
        let Some(length) = memchr::memmem::find(encoded, b"?=") else { return WordParse::NoEnd };
        let after = &encoded[length + 2..];
        let encoded = &encoded[..length];
        let bytes = match encoding {
            b'b' => transfer_encoding::base64_lenient(encoded, usize::MAX),
            _ => decode_q(encoded),
        };
        // RFC 2231 §5: a language may follow the character set.
        let charset = charset.split(|byte| *byte == b'*').next().unwrap_or(charset);
        WordParse::Word(EncodedWord { charset, bytes: Cow::Owned(bytes) }, after)
    }
}

/// Decodes the "Q" encoding.
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
struct Decoder {
    text: String,
    /// The bytes of words that may continue in the next word. `charset` is their character set.
    pending: Vec<u8>,
    charset: Vec<u8>,
}

impl Decoder {
    fn add_plain(&mut self, bytes: &[u8]) {
        self.flush();
        if !bytes.is_empty() {
            self.text.push_str(&charset_to_unicode(None, bytes.to_vec()));
        }
    }

    /// Adds the text before a word. White space between two words is dropped.
    fn add_plain_before_word(&mut self, bytes: &[u8]) {
        let between_words = !self.charset.is_empty();
        if !between_words || !bytes.iter().all(u8::is_ascii_whitespace) {
            self.add_plain(bytes);
        }
    }

    fn add_word(&mut self, word: &EncodedWord<'_>) {
        if !self.charset.eq_ignore_ascii_case(word.charset) {
            self.flush();
            self.charset = word.charset.to_vec();
        }
        self.pending.extend_from_slice(&word.bytes);
    }

    fn flush(&mut self) {
        if !self.charset.is_empty() {
            let bytes = std::mem::take(&mut self.pending);
            self.text.push_str(&charset_to_unicode(Some(&self.charset), bytes));
            self.charset.clear();
        }
    }

    fn finish(mut self) -> String {
        self.flush();
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &[u8], expected: &str) {
        assert_eq!(decode(value), expected, "{}", String::from_utf8_lossy(value));
    }

    #[test]
    fn rfc_examples_are_decoded() {
        check(b"=?US-ASCII?Q?Keith_Moore?= <moore@cs.utk.edu>", "Keith Moore <moore@cs.utk.edu>");
        check(b"=?ISO-8859-1?Q?Keld_J=F8rn_Simonsen?=", "Keld J\u{f8}rn Simonsen");
        check(b"=?ISO-8859-1?Q?Andr=E9?= Pirard", "Andr\u{e9} Pirard");
        check(
            b"=?ISO-8859-1?B?SWYgeW91IGNhbiByZWFkIHRoaXMgeW8=?= =?ISO-8859-2?B?dSB1bmRlcnN0YW5kIHRoZSBleGFtcGxlLg==?=",
            "If you can read this you understand the example.",
        );
        check(b"(=?ISO-8859-1?Q?a?=)", "(a)");
        check(b"(=?ISO-8859-1?Q?a?= b)", "(a b)");
        check(b"(=?ISO-8859-1?Q?a?=  =?ISO-8859-1?Q?b?=)", "(ab)");
        check(b"(=?ISO-8859-1?Q?a_b?=)", "(a b)");
        check(b"(=?ISO-8859-1?Q?a?= =?ISO-8859-2?Q?_b?=)", "(a b)");
    }

    #[test]
    fn nonconforming_words_are_decoded() {
        check(b"=?utf-8?q?=C3?= =?UTF-8?q?=A9?=", "\u{e9}");
        check(b"=?utf-8*de?q?a b?=c", "a bc");
        check(b"=?utf-8?b?w6k?=", "\u{e9}");
        let katakana = "\u{30c9}\u{30f1}\u{30e5}\u{30fc}\u{30e1}\u{30f3}\u{30c8}";
        check(b"=?iso-2022-jp?b?GyRCJUklcSVlITwlYSVzJUgbKEI=?=", katakana);
        check(b"caf\xc3\xa9", "caf\u{e9}");
        check(b"caf\xe9", "caf\u{e9}");
    }

    #[test]
    fn text_that_is_no_encoded_word_is_kept() {
        for text in ["=?", "=?utf-8?x?abc?=", "=?utf-8?q?abc", "=??q?abc?=", "a =? b ?= c", "=?a b?q?c?=", "1=2"] {
            check(text.as_bytes(), text);
        }
        check(b"=?utf-8?q?a=ZZ=?=", "a=ZZ=");
        check(b"=?x =?utf-8?q?y?=", "=?x y");
    }

    #[test]
    fn unknown_charset_is_guessed() {
        check(b"=?x-nobody-knows?q?caf=C3=A9?=", "caf\u{e9}");
        check(b"=?us-ascii?q?caf=E9?=", "caf\u{e9}");
    }

    #[test]
    fn pieces_of_text_are_converted_like_the_whole_text() {
        let check = |charset: &[u8], bytes: &[u8], length_min: usize| {
            let whole = charset_to_unicode(Some(charset), bytes.to_vec());
            assert!(!whole.contains('\u{fffd}'), "{whole:?}");
            for length in length_min..=bytes.len() {
                let mut reader = CharsetReader::new(Some(charset));
                let mut pieces = bytes.chunks(length).map(<[u8]>::to_vec);
                let last = pieces.next_back().unwrap_or_default();
                let mut found: String = pieces.map(|piece| reader.push(piece)).collect();
                found.push_str(&reader.finish(last));
                assert_eq!(found, whole, "{} in pieces of {length}", String::from_utf8_lossy(charset));
            }
        };
        let wide =
            |text: &str, to_bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(to_bytes).collect::<Vec<u8>>();
        let text = "\u{e9}\u{4e2d}\u{6587}\r\nabc\n\u{fc}";
        let marked = format!("\u{feff}{text}");
        check(b"utf-8", format!("{text}\u{1f600}").as_bytes(), 1);
        check(b"", b"caf\xe9", 1);
        check(b"iso-8859-1", b"caf\xe9\n\xe9", 1);
        check(b"utf-16", &wide(text, u16::to_le_bytes), 1);
        check(b"utf-16", &wide(&marked, u16::to_le_bytes), 1);
        check(b" UTF-16", &wide(&marked, u16::to_be_bytes), 1);
        check(b"utf-16be", &wide(text, u16::to_be_bytes), 1);
        // A piece that contains a line end is divided there, which ends the shift state.
        check(b"iso-2022-jp", b"\x1b$B%I\x1b(B\n\x1b$B%e\x1b(B\n", 9);
    }
}
