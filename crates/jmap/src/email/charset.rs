//! Conversion of character sets to Unicode, with a report of malformed text (`isEncodingProblem`).
//!
//! Malformed sequences become U+FFFD. If a text names no character set, or ASCII, its bytes are UTF-8 as far as they
//! are valid UTF-8, and otherwise Windows-1252, which is what programs send that say nothing. An unknown character set
//! is treated in the same way, and is a problem itself. Text that claims to be UTF-8 is Windows-1252 if it has several
//! malformed sequences and not a single valid one.

use encoding_rs::Encoding;
use mail_parser::decoders::charsets::map::charset_decoder;

/// Number of malformed sequences from which a text without valid ones is not UTF-8, although it says so.
const MALFORMED_UTF8_MIN: usize = 3;

/// A text that was converted to Unicode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConvertedText {
    pub(crate) text: String,
    /// `true` if the character set is unknown, or the text has malformed sequences.
    pub(crate) is_problem: bool,
}

/// The ways to convert a character set.
enum Converter {
    /// UTF-8.
    Utf8,
    /// No character set.
    None,
    /// ASCII, which stands for anything.
    Ascii,
    /// A character set of the WHATWG encoding standard.
    Standard(&'static Encoding),
    /// Another one that the mail parser knows.
    Other(fn(&[u8]) -> String),
    /// An unknown character set.
    Unknown,
}

impl Converter {
    fn of(charset: Option<&[u8]>) -> Self {
        const UTF8: [&[u8]; 2] = [b"utf-8", b"utf8"];
        const ASCII: [&[u8]; 5] = [b"us-ascii", b"ascii", b"ansi_x3.4-1968", b"iso646-us", b"unknown-8bit"];
        let Some(name) = charset.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) else { return Self::None };
        let is_one_of = |names: &[&[u8]]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if is_one_of(&UTF8) {
            Self::Utf8
        } else if is_one_of(&ASCII) {
            Self::Ascii
        } else if let Some(encoding) = Encoding::for_label_no_replacement(name) {
            Self::Standard(encoding)
        } else {
            charset_decoder(name).map_or(Self::Unknown, Self::Other)
        }
    }
}

/// Returns `true` if texts of this character set can be converted.
pub(crate) fn is_known(charset: &[u8]) -> bool {
    !matches!(Converter::of(Some(charset)), Converter::Unknown | Converter::None)
}

/// Converts a text. The name of its character set is compared ignoring case.
pub(crate) fn to_unicode(charset: Option<&[u8]>, bytes: &[u8]) -> ConvertedText {
    match Converter::of(charset) {
        Converter::Utf8 => utf8_or_windows(bytes, MALFORMED_UTF8_MIN),
        Converter::None => utf8_or_windows(bytes, 1),
        Converter::Ascii => ConvertedText { is_problem: !bytes.is_ascii(), ..utf8_or_windows(bytes, 1) },
        Converter::Unknown => ConvertedText { is_problem: true, ..utf8_or_windows(bytes, 1) },
        Converter::Standard(encoding) => {
            let (text, _, is_problem) = encoding.decode(bytes);
            ConvertedText { text: text.into_owned(), is_problem }
        }
        Converter::Other(decode) => {
            let text = decode(bytes);
            let is_problem = text.contains('\u{fffd}');
            ConvertedText { text, is_problem }
        }
    }
}

/// Converts a text that is UTF-8, unless it has at least `malformed_min` malformed sequences and no valid ones beyond
/// ASCII.
fn utf8_or_windows(bytes: &[u8], malformed_min: usize) -> ConvertedText {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let Err(_) = std::str::from_utf8(bytes) else {
        return ConvertedText { text: String::from_utf8_lossy(bytes).into_owned(), is_problem: false };
    };
    let has_valid = bytes.utf8_chunks().any(|chunk| !chunk.valid().is_ascii());
    let malformed = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    let text = if has_valid || malformed < malformed_min {
        String::from_utf8_lossy(bytes)
    } else {
        encoding_rs::WINDOWS_1252.decode(bytes).0
    };
    ConvertedText { text: text.into_owned(), is_problem: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(charset: Option<&str>, bytes: &[u8], expected: &str, is_problem: bool) {
        let found = to_unicode(charset.map(str::as_bytes), bytes);
        assert_eq!(found, ConvertedText { text: expected.to_owned(), is_problem }, "{charset:?} {bytes:?}");
    }

    #[test]
    fn named_character_sets_are_converted() {
        check(Some("UTF-8"), b"caf\xc3\xa9", "caf\u{e9}", false);
        check(Some("iso-8859-1"), b"caf\xe9", "caf\u{e9}", false);
        check(Some(" KOI8-R "), b"\xd1", "\u{44f}", false);
        check(Some("iso-2022-jp"), b"\x1b$B$\"\x1b(B", "\u{3042}", false);
        check(Some("utf-7"), b"+AOk-", "\u{e9}", false);
        check(Some("us-ascii"), b"plain", "plain", false);
    }

    #[test]
    fn malformed_sequences_are_replaced_and_reported() {
        check(Some("utf-8"), b"a\xffb", "a\u{fffd}b", true);
        check(Some("utf-8"), b"\xc3\xa9 \xff\xfe\xe9", "\u{e9} \u{fffd}\u{fffd}\u{fffd}", true);
        check(Some("utf-8"), b"f\xfcr M\xe4nner, gr\xfcn", "f\u{fc}r M\u{e4}nner, gr\u{fc}n", true);
        check(Some("shift_jis"), b"a\x81", "a\u{fffd}", true);
        check(Some("us-ascii"), b"caf\xe9", "caf\u{e9}", true);
        check(Some("us-ascii"), b"caf\xc3\xa9", "caf\u{e9}", true);
    }

    #[test]
    fn missing_and_unknown_character_sets_are_guessed() {
        check(None, b"caf\xc3\xa9", "caf\u{e9}", false);
        check(None, b"caf\xe9", "caf\u{e9}", true);
        check(None, b"\xc3\xa9 \xff", "\u{e9} \u{fffd}", true);
        check(Some("x-nobody-knows"), b"caf\xc3\xa9", "caf\u{e9}", true);
        assert!(is_known(b"UTF-8") && is_known(b"us-ascii") && !is_known(b"x-nobody-knows") && !is_known(b""));
    }
}
