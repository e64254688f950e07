//! The words and phrases of a language, and how frequent they are.

/// The slots of a frequency table. A word has as many of them as its frequency says.
const SLOTS: u64 = 1 << SLOT_BITS;
/// The bits of a number that choose a word.
pub const SLOT_BITS: u32 = 12;

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
    use crate::population::language::Language;

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
}
