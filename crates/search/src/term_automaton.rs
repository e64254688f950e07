//! Search for pieces of words in the term dictionary of the index.
//!
//! [`SubstringAutomaton`] is an automaton that walks the character tree of the dictionary. Branches outside of the
//! database's prefix are not entered, and for words that do not match, nothing but their characters is read. The
//! automaton tracks how much of the piece the last characters match (Knuth, Morris, Pratt), so that each character
//! costs the same.

use std::cell::Cell;

use tantivy_fst::Automaton;

/// Matches the words of one database that contain a piece of text.
pub(crate) struct SubstringAutomaton<'w> {
    /// The prefix of the words, beginning with the database.
    pub(crate) start: &'w [u8],
    piece: &'w [u8],
    /// `true` if the piece must be at the end of the word.
    ends: bool,
    /// The length of the shorter match that remains if the next character does not match, indexed by the length of the
    /// current match.
    fallback: Vec<usize>,
    /// Number of characters that may still be examined.
    steps: &'w Cell<usize>,
}

/// The state from which no match is possible.
const DEAD: usize = usize::MAX;

impl<'w> SubstringAutomaton<'w> {
    /// Creates an automaton for words with the piece anywhere after the start, or only at the end if `ends` is `true`.
    pub(crate) fn new(start: &'w [u8], piece: &'w [u8], ends: bool, steps: &'w Cell<usize>) -> Self {
        let mut fallback = vec![0; piece.len() + 1];
        let mut fits = 0;
        for place in 1..piece.len() {
            while fits > 0 && piece[place] != piece[fits] {
                fits = fallback[fits];
            }
            fits += usize::from(piece[place] == piece[fits]);
            fallback[place + 1] = fits;
        }
        Self { start, piece, ends, fallback, steps }
    }

    fn is_found(&self, state: usize) -> bool {
        state == self.start.len() + self.piece.len()
    }
}

impl Automaton for SubstringAutomaton<'_> {
    /// The matched length of the start, plus that of the piece once the start is complete.
    type State = usize;

    fn start(&self) -> usize {
        0
    }

    fn is_match(&self, state: &usize) -> bool {
        self.is_found(*state)
    }

    fn can_match(&self, state: &usize) -> bool {
        *state != DEAD
    }

    fn will_always_match(&self, state: &usize) -> bool {
        self.is_found(*state) && !self.ends
    }

    fn accept(&self, state: &usize, byte: u8) -> usize {
        let steps = self.steps.get();
        if *state == DEAD || steps == 0 {
            return DEAD;
        }
        self.steps.set(steps - 1);
        if let Some(expected) = self.start.get(*state) {
            return if *expected == byte { *state + 1 } else { DEAD };
        }
        if self.is_found(*state) && !self.ends {
            return *state;
        }
        let mut fits = *state - self.start.len();
        while fits > 0 && self.piece.get(fits) != Some(&byte) {
            fits = self.fallback[fits];
        }
        fits += usize::from(self.piece.get(fits) == Some(&byte));
        self.start.len() + fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(start: &str, piece: &str, ends: bool, word: &str) -> bool {
        let steps = Cell::new(1_000);
        let automaton = SubstringAutomaton::new(start.as_bytes(), piece.as_bytes(), ends, &steps);
        let mut state = automaton.start();
        for byte in word.bytes() {
            assert!(!automaton.will_always_match(&state) || automaton.is_match(&state));
            state = automaton.accept(&state, byte);
        }
        assert!(!automaton.is_match(&state) || automaton.can_match(&state));
        automaton.is_match(&state)
    }

    #[test]
    fn automaton_matches_substrings_and_suffixes() {
        let words: Vec<String> = (0..2_usize.pow(10))
            .map(|number| {
                (0..number.max(2).ilog2()).map(|bit| if number >> bit & 1 == 1 { 'b' } else { 'a' }).collect()
            })
            .collect::<Vec<String>>();
        for piece in ["", "a", "ab", "aab", "abab", "aabaa", "bbb"] {
            for word in &words {
                let whole = format!("db{word}");
                assert_eq!(fits("db", piece, false, &whole), word.contains(piece), "{piece} {word}");
                if !piece.is_empty() {
                    assert_eq!(fits("db", piece, true, &whole), word.ends_with(piece), "{piece} {word}");
                }
                assert!(!fits("dc", piece, false, &whole));
                assert_eq!(fits("dba", "", false, &whole), word.starts_with('a'));
            }
        }
    }

    #[test]
    fn automaton_stops_at_its_step_limit() {
        let steps = Cell::new(3);
        let automaton = SubstringAutomaton::new(b"d", b"b", false, &steps);
        let state = b"dab".iter().fold(automaton.start(), |state, byte| automaton.accept(&state, *byte));
        assert!(automaton.is_match(&state) && steps.get() == 0);
        assert!(!automaton.can_match(&automaton.accept(&automaton.start(), b'd')));
    }
}
