//! Text comparison by `i;unicode-casemap` (RFC 5051), the collation of IMAP SEARCH, SORT and THREAD.
//!
//! Letters become upper case, and characters are decomposed into base characters and combining marks. So neither case
//! nor the encoding of accents makes a difference. An accent itself does make a difference, but a search for `cafe`
//! finds `café`, because the mark comes after the letter.

use std::borrow::Cow;

use memchr::memmem;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

/// Maximum length of the end of a piece that a [`PieceFolder`] holds back.
const HELD_BYTES_MAX: usize = 1_024;

/// The comparison of texts (RFC 4790).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation {
    /// `i;ascii-casemap`.
    Ascii,
    /// `i;unicode-casemap`.
    Unicode,
}

impl Collation {
    /// Returns a text in the form in which it is compared.
    #[must_use]
    pub fn fold(self, text: &str) -> String {
        match self {
            Self::Ascii => text.to_ascii_uppercase(),
            Self::Unicode => fold(text),
        }
    }
}

/// Returns the form of a text that is compared.
#[must_use]
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    append_folded(text, &mut folded);
    folded
}

fn append_folded(text: &str, folded: &mut String) {
    let mut rest = text;
    while !rest.is_empty() {
        let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let (plain, after) = rest.split_at(ascii);
        let start = folded.len();
        folded.push_str(plain);
        folded[start..].make_ascii_uppercase();
        let other = after.bytes().position(|byte| byte.is_ascii()).unwrap_or(after.len());
        let (other, after) = after.split_at(other);
        // Decomposition can produce lower-case letters: `ª` becomes a small `a`.
        folded.extend(other.chars().flat_map(char::to_uppercase).nfkd().flat_map(char::to_uppercase));
        rest = after;
    }
}

/// Folds a text that comes in pieces. The result is the same as that of [`fold`] for the whole text, unless more than
/// 1 KiB of combining marks follow each other.
#[derive(Debug, Clone, Default)]
pub struct PieceFolder {
    /// The end of the previous piece: a character to which combining marks of the next piece may belong.
    held: String,
}

impl PieceFolder {
    /// Appends the folded form of the next piece, except for its last characters, which the next call adds.
    pub fn push(&mut self, piece: &str, folded: &mut String) {
        let joined = match self.held.is_empty() {
            true => Cow::Borrowed(piece),
            false => Cow::Owned(std::mem::take(&mut self.held) + piece),
        };
        let (complete, rest) = joined.split_at(complete_length(&joined));
        append_folded(complete, folded);
        self.held.push_str(rest);
    }

    /// Appends the rest at the end of the text. Another text may follow.
    pub fn finish(&mut self, folded: &mut String) {
        append_folded(&std::mem::take(&mut self.held), folded);
    }
}

/// Returns the length of the beginning of a text whose folded form does not depend on the text that follows.
fn complete_length(text: &str) -> usize {
    for (index, character) in text.char_indices().rev() {
        if character.is_ascii() {
            // No mark is reordered with an ASCII character.
            return index + 1;
        }
        if is_starter(character) || text.len() - index > HELD_BYTES_MAX {
            return index;
        }
    }
    0
}

/// Returns `true` if the folded form of a character begins with a character that is not a combining mark. Marks are put
/// into their canonical order only between two such characters.
fn is_starter(character: char) -> bool {
    character.to_uppercase().nfkd().next().is_none_or(|first| canonical_combining_class(first) == 0)
}

/// Replaces each run of white space by one space. How a field was folded into lines then makes no difference (RFC 5322
/// §2.2.3).
#[must_use]
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let bytes = text.as_bytes();
    let plain = |pair: &[u8]| !is_blank(&pair[0]) || (pair[0] == b' ' && !is_blank(&pair[1]));
    if bytes.windows(2).all(plain) && bytes.last().is_none_or(|last| *last == b' ' || !is_blank(last)) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ' ' | '\t' | '\r' | '\n' if line.ends_with(' ') => {}
            ' ' | '\t' | '\r' | '\n' => line.push(' '),
            other => line.push(other),
        }
    }
    Cow::Owned(line)
}

/// Returns the form of a header field that is compared.
#[must_use]
pub fn fold_field(text: &str) -> String {
    fold(&on_one_line(text))
}

/// A text to search for in other texts.
#[derive(Debug, Clone)]
pub struct Needle {
    finder: Box<memmem::Finder<'static>>,
    /// The finder for header fields. `None` if it is the same as `finder`.
    field_finder: Option<Box<memmem::Finder<'static>>>,
}

impl Needle {
    /// Prepares a text to be searched for.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let finder = |text: &str| Box::new(memmem::Finder::new(fold(text).as_bytes()).into_owned());
        let field_finder = match on_one_line(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(line) => Some(finder(&line)),
        };
        Self { finder: finder(text), field_finder }
    }

    /// Returns `true` if the text is empty. An empty text is found everywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.finder.needle().is_empty()
    }

    /// Returns `true` if the text occurs in the text of a header field. Differences in white space between words are
    /// ignored.
    #[must_use]
    pub fn is_in_field(&self, text: &str) -> bool {
        self.field_finder().find(fold_field(text).as_bytes()).is_some()
    }

    /// Returns the folded text as it is compared with ordinary texts and as it is compared with header fields.
    #[must_use]
    pub fn folded(&self) -> [&str; 2] {
        [self.finder(), self.field_finder()].map(|finder| std::str::from_utf8(finder.needle()).unwrap_or_default())
    }

    /// Returns the finder of the text in texts that were already folded with [`fold`].
    #[must_use]
    pub fn finder(&self) -> &memmem::Finder<'static> {
        &self.finder
    }

    /// Returns the finder of the text in header fields that were already folded with [`fold_field`].
    #[must_use]
    pub fn field_finder(&self) -> &memmem::Finder<'static> {
        self.field_finder.as_ref().unwrap_or(&self.finder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_ignores_case_and_unicode_form() {
        for (a, b) in [
            ("Hello", "hELLO"),
            ("\u{e9}", "E\u{301}"),
            ("stra\u{df}e", "STRASSE"),
            ("\u{fb01}n", "FIN"),
            ("\u{aa}", "A"),
        ] {
            assert_eq!(fold(a), fold(b));
        }
        assert_ne!(fold("\u{e9}"), fold("e"));
        assert_eq!(fold("aBC \u{fc}"), "ABC U\u{308}");
    }

    #[test]
    fn pieces_are_folded_like_the_whole_text() {
        let marks = "\u{316}\u{301}\u{323}";
        // The fourth and the fifth text begin with characters that decompose into marks.
        for text in [
            "plain text".to_owned(),
            format!("a{marks}b\u{e9}{marks}\u{fc}{marks}"),
            format!("\u{1e69}{marks}\u{d55c}\u{fb01}{marks}\u{3b1}\u{345}{marks}"),
            format!("\u{344}{marks}\u{f73}\u{f71}x\u{f73}"),
            "\u{4e2d}\u{f73}\u{344}\u{6587}\u{316}".to_owned(),
            "stra\u{df}e \u{fdfa}".to_owned(),
        ] {
            let characters: Vec<char> = text.chars().collect();
            for length in 1..=characters.len() {
                let mut folder = PieceFolder::default();
                let mut folded = String::new();
                for piece in characters.chunks(length) {
                    folder.push(&piece.iter().collect::<String>(), &mut folded);
                }
                folder.finish(&mut folded);
                assert_eq!(folded, fold(&text), "{text} in pieces of {length}");
            }
        }
    }

    #[test]
    fn endless_combining_marks_are_not_held_back() {
        let mut folder = PieceFolder::default();
        let mut folded = String::new();
        for _ in 0..100 {
            folder.push(&"\u{301}".repeat(100), &mut folded);
            assert!(folder.held.len() <= 2 * HELD_BYTES_MAX);
        }
        folder.finish(&mut folded);
        assert_eq!(folded, "\u{301}".repeat(10_000));
    }

    #[test]
    fn a_needle_is_found_anywhere() {
        assert!(Needle::new("M\u{dc}L").is_in_field("bei m\u{fc}ller"));
        assert!(Needle::new("cafe").is_in_field("Caf\u{e9}"));
        assert!(Needle::new("").is_in_field("") && Needle::new("").is_empty());
        assert!(!Needle::new("caf\u{e9}").is_in_field("cafe"));
    }

    #[test]
    fn whitespace_in_fields_is_equivalent() {
        for text in ["a folded subject", "a folded\tsubject", "a folded \t subject\t"] {
            for needle in ["folded subject", "folded\tsubject", "FOLDED  SUBJECT", " folded"] {
                assert!(Needle::new(needle).is_in_field(text), "{needle:?} in {text:?}");
            }
            assert!(!Needle::new("foldedsubject").is_in_field(text));
        }
        for text in ["", " ", "a b", " a b "] {
            assert!(matches!(on_one_line(text), Cow::Borrowed(_)), "{text:?}");
        }
        for (text, line) in [("\t", " "), ("a\t", "a "), ("\tb", " b"), ("  ", " "), ("a\r\n b", "a b")] {
            assert_eq!(on_one_line(text), line);
        }
    }
}
