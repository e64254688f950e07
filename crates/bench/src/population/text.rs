//! Texts of a language, generated from numbers: words with their frequencies, in sentences and paragraphs.
//!
//! Between the words there are numbers, dates, codes and names, as in letters of offices. Sentences have no meaning.
//! The same numbers give the same text, and a text that is cut at another length begins with the same sentences.
//!
//! [`prose`] and [`WORDS`] are those of the old works, whose figures would change with other texts.

use std::fmt::{self, Write as _};

use super::language::{Language, RARE_BITS, SLOT_BITS, Vocabulary};
use crate::random::SplitMix64;

/// The words of the texts of [`prose`].
pub const WORDS: &[&str] = &[
    "about", "account", "agenda", "answer", "attached", "before", "budget", "by", "could", "customer", "date",
    "decision", "delivery", "draft", "for", "friday", "from", "have", "in", "invoice", "issue", "meeting", "minutes",
    "next", "office", "on", "order", "plan", "please", "project", "question", "regards", "release", "review", "send",
    "server", "team", "that", "the", "this", "to", "tomorrow", "travel", "until", "update", "version", "week", "will",
    "with", "you",
];

/// The column after which a line ends.
const COLUMN_MAX: usize = 68;
/// The words of a sentence, at least and at most.
const SENTENCE_WORDS: [usize; 2] = [5, 18];
/// The sentences of a paragraph, at least and at most.
const PARAGRAPH_SENTENCES: [usize; 2] = [2, 6];
/// The words of a subject, at least and at most.
const SUBJECT_WORDS: [usize; 2] = [3, 7];
/// The bits of a number that decide what follows a word.
const EVENT_BITS: u32 = 8;

/// Generates lines of words, about `size` bytes in total. Lines end in CRLF, the last one too.
pub fn prose(numbers: &mut SplitMix64, size: usize) -> String {
    let mut text = String::with_capacity(size + 16);
    let mut column = 0;
    while text.len() < size {
        let word = *numbers.pick(WORDS);
        text.push_str(word);
        column += word.len() + 1;
        if column > COLUMN_MAX {
            text.push_str("\r\n");
            column = 0;
        } else {
            text.push(' ');
        }
    }
    text.push_str("\r\n");
    text
}

/// Writes texts of a language.
#[derive(Debug)]
pub struct TextWriter<'a> {
    numbers: &'a mut SplitMix64,
    language: Language,
    vocabulary: &'static Vocabulary,
    /// The rest of the last number.
    bits: u64,
    /// How many bits are left.
    bits_left: u32,
}

/// What is written at a place of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Word,
    WordAndComma,
    Number,
    Date,
    Code,
    Name,
}

impl Event {
    /// Returns the event of a number of [`EVENT_BITS`] bits.
    fn of(bits: u64) -> Self {
        match bits {
            0..=15 => Self::WordAndComma,
            16..=25 => Self::Number,
            26..=29 => Self::Date,
            30..=32 => Self::Code,
            33..=36 => Self::Name,
            _ => Self::Word,
        }
    }
}

impl<'a> TextWriter<'a> {
    /// Creates a writer that draws from numbers.
    pub fn new(numbers: &'a mut SplitMix64, language: Language) -> Self {
        Self { numbers, language, vocabulary: language.vocabulary(), bits: 0, bits_left: 0 }
    }

    /// Returns a subject: a few words without a stop.
    pub fn subject(&mut self) -> String {
        let mut subject = String::new();
        self.push_subject(&mut subject);
        subject
    }

    /// Adds a line of a table: a date, a name, a subject and an amount of money.
    pub fn push_table_line(&mut self, text: &mut String) {
        self.push_date(text);
        text.push(';');
        self.push_name(text);
        text.push(';');
        self.push_subject(text);
        let cents = self.numbers.below(5_000_000);
        write_into(text, format_args!(";{}.{:02}\r\n", cents / 100, cents % 100));
    }

    fn push_subject(&mut self, text: &mut String) {
        for index in 0..self.between(SUBJECT_WORDS) {
            let space = if index > 0 { self.language.punctuation().space } else { "" };
            let (word, _) = self.draw_word();
            text.push_str(space);
            push_word(text, word, index == 0);
        }
        if self.numbers.below(4) == 0 {
            text.push(' ');
            self.push_code(text);
        }
    }

    /// Writes a paragraph in lines that end in CRLF, until it is complete or has at least `room` bytes.
    pub fn paragraph(&mut self, text: &mut String, room: usize) {
        let start = text.len();
        let mut line_start = start;
        for _ in 0..self.between(PARAGRAPH_SENTENCES) {
            self.sentence(text, &mut line_start, start + room);
            if text.len() >= start + room {
                break;
            }
        }
        text.push_str("\r\n");
    }

    /// Writes a sentence, or its beginning up to `end`.
    fn sentence(&mut self, text: &mut String, line_start: &mut usize, end: usize) {
        let marks = self.language.punctuation();
        let words = self.between(SENTENCE_WORDS);
        for index in 0..words {
            let is_first_of_line = text.len() == *line_start;
            if text.len() - *line_start > COLUMN_MAX {
                text.push_str("\r\n");
                *line_start = text.len();
            } else if !is_first_of_line {
                text.push_str(marks.space);
            }
            let (word, event) = self.draw_word();
            match event {
                Event::Number => self.push_number(text),
                Event::Date => self.push_date(text),
                Event::Code => self.push_code(text),
                Event::Name => self.push_name(text),
                Event::Word | Event::WordAndComma => push_word(text, word, index == 0),
            }
            if event == Event::WordAndComma && index + 1 < words {
                text.push_str(marks.comma);
            }
            if text.len() >= end {
                break;
            }
        }
        text.push_str(if words.is_multiple_of(7) { marks.question } else { marks.stop });
    }

    /// Returns the name of a person of the language.
    pub fn name(&mut self) -> String {
        let mut name = String::new();
        self.push_name(&mut name);
        name
    }

    fn push_name(&mut self, text: &mut String) {
        let given = *self.numbers.pick(&self.vocabulary.given);
        let family = *self.numbers.pick(&self.vocabulary.family);
        push_full_name(text, self.language, [given, family]);
    }

    fn push_date(&mut self, text: &mut String) {
        let [month, day] = [1 + self.numbers.below(12), 1 + self.numbers.below(28)];
        write_into(text, format_args!("2026-{month:02}-{day:02}"));
    }

    fn push_number(&mut self, text: &mut String) {
        let number = self.numbers.below(1_000_000);
        match number % 4 {
            0 => write_into(text, format_args!("{}", 2 + number % 97)),
            1 => write_into(text, format_args!("{}.{:02} €", number / 40, number % 100)),
            2 => write_into(text, format_args!("{:02}:{:02}", 8 + number % 10, number % 4 * 15)),
            _ => write_into(text, format_args!("{} %", 1 + number % 99)),
        }
    }

    fn push_code(&mut self, text: &mut String) {
        let letters = ["AB", "DX", "KT", "LP", "PR", "QS", "SN", "VW"];
        let prefix = *self.numbers.pick(&letters);
        write_into(text, format_args!("{prefix}-{:05}", self.numbers.below(100_000)));
    }

    fn between(&mut self, [least, most]: [usize; 2]) -> usize {
        least + self.numbers.below(most - least + 1)
    }

    fn draw_word(&mut self) -> (&'static str, Event) {
        let event = Event::of(self.bits(EVENT_BITS));
        let common = self.bits(SLOT_BITS);
        let word = match self.vocabulary.common_word(common) {
            Some(word) => word,
            None => self.vocabulary.rare_word(self.bits(RARE_BITS)),
        };
        (word, event)
    }

    /// Returns the next so many bits of the numbers.
    fn bits(&mut self, count: u32) -> u64 {
        if self.bits_left < count {
            self.bits = self.numbers.number();
            self.bits_left = u64::BITS;
        }
        let bits = self.bits & ((1 << count) - 1);
        self.bits >>= count;
        self.bits_left -= count;
        bits
    }
}

/// Returns the name of a person as it is written in a language.
pub fn full_name(language: Language, given: &str, family: &str) -> String {
    let mut name = String::new();
    push_full_name(&mut name, language, [given, family]);
    name
}

fn push_full_name(text: &mut String, language: Language, [given, family]: [&str; 2]) {
    text.extend(if language.is_family_first() { [family, "", given] } else { [given, " ", family] });
}

/// Adds formatted words, without a text of their own.
fn write_into(text: &mut String, words: fmt::Arguments<'_>) {
    text.write_fmt(words).expect("a text takes all");
}

fn push_word(text: &mut String, word: &str, is_first: bool) {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) if is_first => {
            text.extend(first.to_uppercase());
            text.push_str(letters.as_str());
        }
        _ => text.push_str(word),
    }
}

/// Draws words to search, all of one language.
pub fn search_words(numbers: &mut SplitMix64, count: usize) -> Vec<&'static str> {
    let vocabulary = Language::draw(numbers).vocabulary();
    (0..count).map(|_| vocabulary.draw_searched_word(numbers)).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    fn text(language: Language, seed: u64, room: usize) -> String {
        let mut numbers = SplitMix64::new(seed);
        let mut writer = TextWriter::new(&mut numbers, language);
        let mut text = String::new();
        while text.len() < room {
            let rest = room - text.len();
            writer.paragraph(&mut text, rest);
        }
        text
    }

    #[test]
    fn texts_are_of_their_language_in_short_lines() {
        for language in Language::all() {
            let text = text(language, 5, 4_000);
            assert!((4_000..4_100).contains(&text.len()), "{language:?}: {}", text.len());
            assert!(text.ends_with("\r\n") && !text.replace("\r\n", "").contains(['\r', '\n']));
            let longest = text.split("\r\n").map(str::len).max();
            assert!(longest < Some(150), "{language:?}: {longest:?}");
            let vocabulary = language.vocabulary();
            let found = vocabulary.words.iter().filter(|word| text.contains(**word)).count();
            assert!(found * 4 > vocabulary.words.len(), "{language:?}: {found}");
        }
    }

    #[test]
    fn a_shorter_text_begins_alike() {
        let short = text(Language::Greek, 8, 300);
        let long = text(Language::Greek, 8, 3_000);
        assert!(long.starts_with(&short[..short.floor_char_boundary(290)]));
        assert_ne!(text(Language::Greek, 9, 300), short);
    }

    /// Checks the compressibility that the page states.
    #[test]
    fn texts_are_as_compressible_as_stated() {
        for language in Language::all() {
            let text = text(language, 5, 50_000);
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text.as_bytes()).expect("memory takes all");
            let compressed = encoder.finish().expect("memory takes all").len();
            let percent = compressed * 100 / text.len();
            assert!((28..=50).contains(&percent), "{language:?}: {percent} %");
        }
    }
}
