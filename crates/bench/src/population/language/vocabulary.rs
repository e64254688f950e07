//! The words and phrases of a language, and how frequent they are.
//!
//! The frequency of the word of rank *r* is proportional to 1 / (*r* + 2.7), the law of Zipf and Mandelbrot with the
//! exponent 1. The common words come from a file. They are followed by rare words, which are composed: the beginning
//! of one common word and the end of another. There are 6,500 to 17,000 of them in a language, and somewhat more than
//! half of the words of a text are rare ones, as in a real language; an index and a compressor have as much work.

use std::collections::HashSet;

use crate::random::SplitMix64;

/// The bits of a number that choose a word, or that it is a rare one.
pub const SLOT_BITS: u32 = 12;
/// The bits of a number that choose a rare word.
pub const RARE_BITS: u32 = 20;
/// The slots of a frequency table. A common word has as many of them as its frequency says, and so have the rare words
/// together.
const SLOTS: usize = 1 << SLOT_BITS;
/// The slots of the table of rare words.
const RARE_SLOTS: usize = 1 << RARE_SLOT_BITS;
/// The bits of a number that choose a slot of rare words. The others choose one of its words.
const RARE_SLOT_BITS: u32 = 12;
/// The words that are searched have ranks from those of the rarer common words up to this one.
const SEARCHED_RANKS_END: usize = 2_000;
/// The seed of the order of rare words.
const ORDER_SEED: u64 = 0x5eed;

/// The words and phrases of a language.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// The common words, the most frequent first.
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
    /// The number of the common word of each slot. The slots after these are those of rare words.
    slots: Vec<u16>,
    rare: RareWords,
}

/// Words that are composed of the common words of a language.
#[derive(Debug, Default)]
struct RareWords {
    /// All words, the most frequent first.
    text: String,
    /// Where each word begins in the text, and the end of the last one.
    starts: Vec<u32>,
    /// The first word of each slot. All slots are equally frequent, and so are the words of a slot.
    slots: Vec<u16>,
}

impl Vocabulary {
    /// Parses a file: sections with a name in brackets; words are separated by white space, phrases by lines.
    pub(super) fn parse(file: &'static str) -> Self {
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
        vocabulary.rare = RareWords::compose(&vocabulary.words);
        vocabulary.slots = common_slots(vocabulary.words.len(), vocabulary.rare.count());
        vocabulary
    }

    /// Returns the common word of a number of [`SLOT_BITS`] bits, or `None` if it stands for a rare word. Over all
    /// numbers, each word has its frequency.
    pub fn common_word(&self, bits: u64) -> Option<&'static str> {
        let slot = bits as usize % SLOTS;
        self.slots.get(slot).map(|index| self.words[usize::from(*index)])
    }

    /// Returns the rare word of a number of [`RARE_BITS`] bits. Over all numbers, each word has about its frequency.
    pub fn rare_word(&self, bits: u64) -> &str {
        let slot = bits as usize % RARE_SLOTS;
        let first = usize::from(self.rare.slots[slot]);
        let end = self.rare.slots.get(slot + 1).map_or(self.rare.count(), |next| usize::from(*next));
        let choice = (bits >> RARE_SLOT_BITS) as usize;
        self.rare.word(first + choice % (end - first).max(1))
    }

    /// Draws a word that a user searches: neither one of the most frequent words nor one of the rarest.
    pub fn draw_searched_word(&self, numbers: &mut SplitMix64) -> &str {
        let common = self.words.len();
        let end = SEARCHED_RANKS_END.min(common + self.rare.count());
        let index = common / 4 + numbers.below(end - common / 4);
        if index < common { self.words[index] } else { self.rare.word(index - common) }
    }

    /// Returns how many rare words there are.
    pub fn rare_words(&self) -> usize {
        self.rare.count()
    }
}

impl RareWords {
    /// Creates the rare words of some common words.
    fn compose(words: &[&str]) -> Self {
        let halves: Vec<_> = words.iter().filter_map(|word| halves(word)).collect();
        let known: HashSet<&str> = words.iter().copied().collect();
        let mut composed: Vec<_> = halves
            .iter()
            .flat_map(|[start, _]| halves.iter().map(move |[_, end]| format!("{start}{end}")))
            .filter(|word| !known.contains(word.as_str()))
            .collect();
        composed.sort_unstable();
        composed.dedup();
        shuffle(&mut composed, &mut SplitMix64::new(ORDER_SEED));
        let mut rare = Self { slots: rare_slots(words.len(), composed.len()), ..Self::default() };
        for word in composed {
            rare.starts.push(rare.text.len() as u32);
            rare.text.push_str(&word);
        }
        rare.starts.push(rare.text.len() as u32);
        rare
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn word(&self, index: usize) -> &str {
        &self.text[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}

/// Returns the beginning and the end of a word, or `None` if it is a single letter.
fn halves(word: &str) -> Option<[&str; 2]> {
    let letters = word.chars().count();
    let (middle, _) = word.char_indices().nth(letters.div_ceil(2))?;
    Some([&word[..middle], &word[middle..]])
}

/// Brings words into an order that the numbers give.
fn shuffle(words: &mut [String], numbers: &mut SplitMix64) {
    for last in (1..words.len()).rev() {
        words.swap(last, numbers.below(last + 1));
    }
}

/// Returns the weight of a rank from 0, in whole numbers, which are the same on every machine.
fn weight(index: usize) -> u64 {
    1_000_000_000_000 / (10 * (index as u64 + 1) + 27)
}

/// Returns the number of the word of each slot, for so many common words before so many rare ones. The rare words have
/// the slots that are missing.
fn common_slots(common: usize, rare: usize) -> Vec<u16> {
    let all: u64 = (0..common + rare).map(weight).sum();
    let mut table = Vec::with_capacity(SLOTS);
    let mut sum = 0;
    for index in 0..common {
        sum += weight(index);
        table.resize(share(sum, all, SLOTS), index as u16);
    }
    table
}

/// Returns the first rare word of each slot, for so many rare words after so many common ones.
fn rare_slots(common: usize, rare: usize) -> Vec<u16> {
    let all: u64 = (common..common + rare).map(weight).sum();
    let mut table = Vec::with_capacity(RARE_SLOTS);
    let mut sum = 0;
    for index in 0..rare {
        sum += weight(common + index);
        table.resize(share(sum, all, RARE_SLOTS), index as u16);
    }
    table
}

/// Returns which part of so many slots a sum of weights has.
fn share(sum: u64, all: u64, slots: usize) -> usize {
    (u128::from(sum) * slots as u128 / u128::from(all)) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::population::language::Language;

    /// Checks the frequencies: the first word is about twice as frequent as the fifth, every common word occurs, and
    /// the rare words have the rest.
    #[test]
    fn frequencies_follow_the_rank() {
        for language in Language::all() {
            let vocabulary = language.vocabulary();
            let mut counts = BTreeMap::new();
            for slot in 0..SLOTS {
                *counts.entry(vocabulary.common_word(slot as u64)).or_insert(0_u64) += 1;
            }
            let count = |rank: usize| counts[&Some(vocabulary.words[rank - 1])] as f64;
            assert_eq!(counts.len(), vocabulary.words.len() + 1, "{language:?}: every word occurs");
            for (rank, other) in [(1, 5), (5, 20), (20, 60)] {
                let expected = (other as f64 + 2.7) / (rank as f64 + 2.7);
                let ratio = count(rank) / count(other);
                assert!((ratio / expected - 1.0).abs() < 0.2, "{language:?}: {rank} {other} {ratio} {expected}");
            }
            let rare = counts[&None] as f64 / SLOTS as f64;
            assert!((0.5..0.6).contains(&rare), "{language:?}: {rare}");
        }
    }

    /// Checks the frequencies of rare words: those of a half, a quarter … of the ranks are as frequent as the law says.
    #[test]
    fn rare_words_follow_the_rank_and_are_new() {
        for language in Language::all() {
            let vocabulary = language.vocabulary();
            let common = vocabulary.words.len();
            let rare = vocabulary.rare_words();
            assert!((6_500..=17_000).contains(&rare), "{language:?}: {rare}");
            let words: Vec<_> = (0..rare).map(|index| vocabulary.rare.word(index)).collect();
            let distinct: HashSet<_> = words.iter().copied().chain(vocabulary.words.iter().copied()).collect();
            assert_eq!(distinct.len(), rare + common, "{language:?}");
            let ranks: BTreeMap<_, _> = words.iter().enumerate().map(|(index, word)| (*word, index)).collect();
            let mut numbers = SplitMix64::new(7);
            let draws = 50_000;
            let drawn: Vec<_> = (0..draws).map(|_| ranks[vocabulary.rare_word(numbers.number())]).collect();
            let law = |end: usize| (0..end).map(|index| weight(common + index)).sum::<u64>() as f64;
            for end in [rare / 64, rare / 8, rare / 2] {
                let share = drawn.iter().filter(|index| **index < end).count() as f64 / f64::from(draws);
                let expected = law(end) / law(rare);
                assert!((share - expected).abs() < 0.02, "{language:?}: {end} {share} {expected}");
            }
            let seen: HashSet<_> = drawn.iter().collect();
            assert!(seen.len() * 2 > rare, "{language:?}: {} of {rare}", seen.len());
        }
    }

    #[test]
    fn words_are_divided_between_letters() {
        assert_eq!(halves("order"), Some(["ord", "er"]));
        assert_eq!(halves("日程"), Some(["日", "程"]));
        assert_eq!(halves("a"), None);
    }
}
