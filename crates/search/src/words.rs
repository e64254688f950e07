//! Splitting of texts and queries into words for comparison.
//!
//! A word is a run of letters, digits and the marks that belong to them. It is compared in lower case and without
//! accents. In scripts written without blanks (Han, Kana, Hangul, Thai and similar ones) each character is a word; a
//! query in such a script becomes a phrase of characters.
//!
//! Splitting takes linear time. Words are cut after [`WORD_BYTES_MAX`] bytes, in texts as in queries.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

use crate::limits::WORD_BYTES_MAX;

/// An iterator over the words of a text.
pub struct Words<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Words<'t> {
    /// Creates an iterator that begins at the start of a text.
    #[must_use]
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    /// Appends the folded form of the next word to `out`. Returns the word's range in the text.
    pub fn next_into(&mut self, out: &mut String) -> Option<Range<usize>> {
        let before = out.len();
        loop {
            let (start, end) = self.next_run()?;
            self.at = end;
            push_folded(&self.text[start..end], out);
            if out.len() > before {
                return Some(start..end);
            }
        }
    }

    /// Returns the next run of characters that form a word.
    fn next_run(&self) -> Option<(usize, usize)> {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        while bytes.get(at).is_some_and(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric()) {
            at += 1;
        }
        let mut end = at;
        while bytes.get(end).is_some_and(u8::is_ascii_alphanumeric) {
            end += 1;
        }
        match bytes.get(end) {
            None => (end > at).then_some((at, end)),
            Some(byte) if byte.is_ascii() => Some((at, end)),
            Some(_) => self.next_run_of_characters(at),
        }
    }

    fn next_run_of_characters(&self, from: usize) -> Option<(usize, usize)> {
        let rest = &self.text[from..];
        let (first, character) = rest.char_indices().find(|(_, character)| is_word_character(*character))?;
        if is_single_character_word(character) {
            return Some((from + first, from + first + character.len_utf8()));
        }
        let length = rest[first..].find(|next: char| !is_word_character(next) || is_single_character_word(next));
        Some((from + first, length.map_or(self.text.len(), |length| from + first + length)))
    }
}

/// Returns the words of a text.
#[must_use]
pub fn all(text: &str) -> Vec<String> {
    let mut words = Words::new(text);
    let mut found = Vec::new();
    let mut word = String::new();
    while words.next_into(&mut word).is_some() {
        found.push(std::mem::take(&mut word));
    }
    found
}

/// Appends the folded form of a text: lower case, without accents, with only letters, digits and marks.
pub fn push_folded(run: &str, out: &mut String) {
    let limit = out.len() + WORD_BYTES_MAX;
    if run.is_ascii() {
        let characters = run.bytes().take(WORD_BYTES_MAX).filter(u8::is_ascii_alphanumeric);
        return out.extend(characters.map(|byte| char::from(byte.to_ascii_lowercase())));
    }
    for character in run.chars().flat_map(char::to_lowercase).nfkd() {
        let length = out.len();
        match character {
            'ß' => out.push_str("ss"),
            'æ' => out.push_str("ae"),
            'œ' => out.push_str("oe"),
            'ø' => out.push('o'),
            'ł' => out.push('l'),
            'đ' | 'ð' => out.push('d'),
            'þ' => out.push_str("th"),
            'ı' => out.push('i'),
            'ς' => out.push('σ'),
            other if is_word_character(other) && !is_accent(other) => out.push(other),
            _ => {}
        }
        if out.len() > limit {
            out.truncate(length);
            return;
        }
    }
}

/// Returns `true` if a character is part of a word.
pub(crate) fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || unicode_normalization::char::is_combining_mark(character)
}

/// Returns `true` if a mark is ignored when words are compared.
fn is_accent(character: char) -> bool {
    matches!(u32::from(character),
        0x300..=0x36f | 0x591..=0x5c7 | 0x610..=0x61a | 0x64b..=0x65f | 0x670 | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff
        | 0x3099..=0x309c | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f)
}

/// Returns `true` if a character belongs to a script that is written without blanks, or nearly so.
pub(crate) fn is_single_character_word(character: char) -> bool {
    matches!(u32::from(character),
        0xe00..=0xeff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x3005..=0x3007 | 0x3040..=0x30ff | 0x31f0..=0x31ff | 0x3400..=0x4dbf
        | 0x4e00..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0xff66..=0xff9f | 0x2_0000..=0x3_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(all(text), expected, "{text}");
    }

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        check("Hello, World!", &["hello", "world"]);
        check("john.doe@example.com 3.14", &["john", "doe", "example", "com", "3", "14"]);
        check("", &[]);
        check("--- \u{1f600} ...", &[]);
        check("a\u{1f600}b \u{e9}", &["a", "b", "e"]);
    }

    #[test]
    fn case_and_accents_make_no_difference() {
        check("Müller MU\u{308}LLER Straße ÆØÅ İstanbul", &["muller", "muller", "strasse", "aeoa", "istanbul"]);
        check("ΣΊΣΥΦΟΣ Σίσυφος", &["σισυφοσ", "σισυφοσ"]);
        check("ﬁne ½ Ａ１", &["fine", "12", "a1"]);
        check("\u{301}\u{301} x", &["x"]);
    }

    #[test]
    fn scripts_without_blanks_are_cut_into_characters() {
        check("東京に行く", &["東", "京", "に", "行", "く"]);
        check("abc東京def", &["abc", "東", "京", "def"]);
        check("한국 हिन्दी", &["\u{1112}\u{1161}\u{11ab}", "\u{1100}\u{116e}\u{11a8}", "हिन्दी"]);
    }

    #[test]
    fn long_words_are_cut() {
        let words = all(&"a".repeat(1_000_000));
        assert_eq!(words, [("a".repeat(WORD_BYTES_MAX))]);
        assert!(all(&"é".repeat(100_000))[0].len() <= WORD_BYTES_MAX);
    }
}
