//! Languages of the population: words by frequency, names of persons, and phrases of letters.
//!
//! Each language has a file in the folder `language`, written for this program: common words of offices, the most
//! frequent first, given and family names, greetings, closings, and the line before a quotation. The frequency of the
//! word of rank *r* is proportional to 1 / (*r* + 2.7), the law of Zipf and Mandelbrot with the exponent 1. The shares
//! of the languages among the persons are assumed.

use std::sync::LazyLock;

use crate::random::SplitMix64;

/// The slots of a frequency table. A word has as many of them as its frequency says.
const SLOTS: u64 = 1 << SLOT_BITS;
/// The bits of a number that choose a word.
pub const SLOT_BITS: u32 = 12;

/// A language in which persons write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    English,
    German,
    French,
    Spanish,
    Polish,
    Russian,
    Greek,
    Chinese,
    Japanese,
    Korean,
    Arabic,
    Hebrew,
}

/// The script of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Script {
    Latin,
    Cyrillic,
    Greek,
    /// Han, kana and Hangul.
    EastAsian,
    Arabic,
    Hebrew,
}

/// How sentences of a language are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Punctuation {
    /// After a part of a sentence.
    pub comma: &'static str,
    /// After a statement.
    pub stop: &'static str,
    /// After a question.
    pub question: &'static str,
    /// Between words.
    pub space: &'static str,
}

struct Definition {
    language: Language,
    code: &'static str,
    script: Script,
    /// The share of the persons who write in it, in percent.
    percent: u64,
    punctuation: Punctuation,
    file: &'static str,
}

const WESTERN: Punctuation = Punctuation { comma: ",", stop: ".", question: "?", space: " " };
const GREEK: Punctuation = Punctuation { question: ";", ..WESTERN };
const ARABIC: Punctuation = Punctuation { comma: "،", question: "؟", ..WESTERN };
const UNSPACED: Punctuation = Punctuation { comma: "，", stop: "。", question: "？", space: "" };
const JAPANESE: Punctuation = Punctuation { comma: "、", ..UNSPACED };

macro_rules! definition {
    ($language:ident, $code:literal, $script:ident, $percent:literal, $punctuation:expr, $file:literal) => {
        Definition {
            language: Language::$language,
            code: $code,
            script: Script::$script,
            percent: $percent,
            punctuation: $punctuation,
            file: include_str!(concat!("language/", $file, ".txt")),
        }
    };
}

/// All languages, in the order of [`Language`].
const DEFINITIONS: &[Definition] = &[
    definition!(English, "en", Latin, 36, WESTERN, "english"),
    definition!(German, "de", Latin, 12, WESTERN, "german"),
    definition!(French, "fr", Latin, 9, WESTERN, "french"),
    definition!(Spanish, "es", Latin, 9, WESTERN, "spanish"),
    definition!(Polish, "pl", Latin, 4, WESTERN, "polish"),
    definition!(Russian, "ru", Cyrillic, 6, WESTERN, "russian"),
    definition!(Greek, "el", Greek, 3, GREEK, "greek"),
    definition!(Chinese, "zh", EastAsian, 7, UNSPACED, "chinese"),
    definition!(Japanese, "ja", EastAsian, 6, JAPANESE, "japanese"),
    definition!(Korean, "ko", EastAsian, 3, WESTERN, "korean"),
    definition!(Arabic, "ar", Arabic, 3, ARABIC, "arabic"),
    definition!(Hebrew, "he", Hebrew, 2, WESTERN, "hebrew"),
];

/// The words and phrases of a language.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// The words, the most frequent first.
    pub words: Vec<&'static str>,
    /// The given names.
    pub given: Vec<&'static str>,
    /// The family names.
    pub family: Vec<&'static str>,
    /// How a letter begins, with `{}` for the name of the reader.
    pub greetings: Vec<&'static str>,
    /// How a letter ends.
    pub closings: Vec<&'static str>,
    /// The line before a quotation, with `{date}` and `{name}`.
    pub wrote: &'static str,
    /// The number of the word of each slot.
    slots: Vec<u16>,
}

static VOCABULARIES: LazyLock<Vec<Vocabulary>> =
    LazyLock::new(|| DEFINITIONS.iter().map(|definition| Vocabulary::parse(definition.file)).collect());

impl Language {
    /// Returns all languages.
    pub fn all() -> impl Iterator<Item = Self> {
        DEFINITIONS.iter().map(|definition| definition.language)
    }

    /// Draws a language, each as often as its share says.
    pub fn draw(numbers: &mut SplitMix64) -> Self {
        let mut percent = numbers.below(100) as u64;
        let drawn = DEFINITIONS.iter().find(|definition| {
            let is_drawn = percent < definition.percent;
            percent = percent.saturating_sub(definition.percent);
            is_drawn
        });
        drawn.expect("the shares add up to 100").language
    }

    /// Returns its code (ISO 639-1).
    pub fn code(self) -> &'static str {
        self.definition().code
    }

    /// Returns its script.
    pub fn script(self) -> Script {
        self.definition().script
    }

    /// Returns how its sentences are written.
    pub fn punctuation(self) -> Punctuation {
        self.definition().punctuation
    }

    /// Returns `true` if it is written from right to left.
    pub fn is_right_to_left(self) -> bool {
        matches!(self.script(), Script::Arabic | Script::Hebrew)
    }

    /// Returns `true` if the family name comes first and no space follows.
    pub fn is_family_first(self) -> bool {
        self.script() == Script::EastAsian
    }

    /// Returns its words and phrases.
    pub fn vocabulary(self) -> &'static Vocabulary {
        &VOCABULARIES[self as usize]
    }

    fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }
}

impl Vocabulary {
    /// Parses a file: sections with a name in brackets; words are separated by white space, phrases by lines.
    fn parse(file: &'static str) -> Self {
        let mut vocabulary = Self::default();
        let mut section = "";
        for line in file.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = name;
                continue;
            }
            match section {
                "words" => vocabulary.words.extend(line.split_whitespace()),
                "given" => vocabulary.given.extend(line.split_whitespace()),
                "family" => vocabulary.family.extend(line.split_whitespace()),
                "greetings" => vocabulary.greetings.push(line),
                "closings" => vocabulary.closings.push(line),
                "wrote" => vocabulary.wrote = line,
                other => unreachable!("the files of languages have no section {other:?}"),
            }
        }
        vocabulary.slots = slots(vocabulary.words.len());
        vocabulary
    }

    /// Returns the word of a number of [`SLOT_BITS`] bits. Over all numbers, each word has its frequency.
    pub fn word(&self, bits: u64) -> &'static str {
        let slot = bits % SLOTS;
        self.words[usize::from(self.slots[slot as usize])]
    }
}

/// Returns the number of the word of each slot, for so many words.
fn slots(words: usize) -> Vec<u16> {
    /// Returns the weight of a rank, in whole numbers, which are the same on every machine.
    fn weight(index: usize) -> u64 {
        1_000_000_000_000 / (10 * (index as u64 + 1) + 27)
    }
    let all: u64 = (0..words).map(weight).sum();
    let mut table = Vec::with_capacity(SLOTS as usize);
    let mut sum = 0;
    for index in 0..words {
        sum += weight(index);
        let end = (u128::from(sum) * u128::from(SLOTS) / u128::from(all)) as usize;
        table.resize(end, index as u16);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn definitions_are_in_order_and_complete() {
        assert!(DEFINITIONS.iter().enumerate().all(|(index, definition)| definition.language as usize == index));
        assert_eq!(DEFINITIONS.iter().map(|definition| definition.percent).sum::<u64>(), 100);
        for language in Language::all() {
            let vocabulary = language.vocabulary();
            assert!(vocabulary.words.len() >= 110, "{language:?}: {}", vocabulary.words.len());
            assert!(vocabulary.given.len() >= 15 && vocabulary.family.len() >= 15, "{language:?}");
            assert!(vocabulary.greetings.iter().all(|greeting| greeting.contains("{}")), "{language:?}");
            assert!(!vocabulary.greetings.is_empty() && vocabulary.closings.len() >= 3, "{language:?}");
            assert!(vocabulary.wrote.contains("{date}") && vocabulary.wrote.contains("{name}"), "{language:?}");
            let mut distinct = vocabulary.words.clone();
            distinct.sort_unstable();
            let repeated = distinct.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(repeated, None, "{language:?}");
        }
    }

    /// Checks the frequencies: all slots are used, the first word is about twice as frequent as the fifth, and the last
    /// one occurs.
    #[test]
    fn frequencies_follow_the_rank() {
        for language in Language::all() {
            let vocabulary = language.vocabulary();
            let mut counts = BTreeMap::new();
            for slot in 0..SLOTS {
                *counts.entry(vocabulary.word(slot)).or_insert(0_u64) += 1;
            }
            let count = |rank: usize| counts[vocabulary.words[rank - 1]] as f64;
            assert_eq!(counts.len(), vocabulary.words.len(), "{language:?}: every word occurs");
            for (rank, other) in [(1, 5), (5, 20), (20, 100)] {
                let expected = (other as f64 + 2.7) / (rank as f64 + 2.7);
                let ratio = count(rank) / count(other);
                assert!((ratio / expected - 1.0).abs() < 0.2, "{language:?}: {rank} {other} {ratio} {expected}");
            }
        }
    }

    #[test]
    fn languages_are_drawn_by_their_shares() {
        let mut numbers = SplitMix64::new(3);
        let mut counts = BTreeMap::new();
        for _ in 0..100_000 {
            *counts.entry(Language::draw(&mut numbers)).or_insert(0_u64) += 1;
        }
        for definition in DEFINITIONS {
            let drawn = counts[&definition.language] as f64 / 1_000.0;
            assert!((drawn - definition.percent as f64).abs() < 0.6, "{:?}: {drawn} %", definition.language);
        }
    }
}
