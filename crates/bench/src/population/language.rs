//! Languages of the population: words by frequency, names of persons, and phrases of letters.
//!
//! Each language has a file in the folder `language`, written for this program: common words of offices, the most
//! frequent first, given and family names, greetings, closings, and the line before a quotation. Rare words are
//! composed of the common ones. The shares of the languages among the persons are assumed.

mod vocabulary;

use std::sync::LazyLock;

use crate::random::SplitMix64;
pub use vocabulary::{RARE_BITS, SLOT_BITS, Vocabulary};

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
