//! Patterns of `@Matches` and `@Like`.
//!
//! A pattern is a sequence of pieces, each of which matches one character or any number of them. Matching maintains the
//! set of pieces that could match next. Its cost is therefore at most the product of the lengths of text and pattern,
//! for every pattern.
//!
//! `@Matches`: a character matches itself in either case, `?` any character, `*` any number of characters, `{A-F}` one
//! character of a set (case-sensitive), `{!A-F}` one character outside of the set. `+` before one of these matches any
//! number of them. `\` before a character matches exactly that character. `!` before a pattern negates it, `&` between
//! two patterns requires both, `|` requires one of them; `|` binds looser than `&`.
//!
//! `@Like`: `_` matches any character, `%` any number of characters. The formula may choose an escape character.
//! Matching is case-sensitive.

use crate::limits::PATTERN_CHARS_MAX;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct TextPattern {
    /// The alternatives, one of which must match. An alternative matches if all of its parts match.
    alternatives: Vec<Vec<Conjunct>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Conjunct {
    negated: bool,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq)]
struct Piece {
    takes: CharMatcher,
    any_number: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum CharMatcher {
    Any,
    Exactly(char),
    /// A letter that matches in either case, stored in lower case.
    Letter(char),
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl CharMatcher {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(wanted) => *wanted == c,
            Self::Letter(wanted) => *wanted == c || to_single_lowercase(c) == *wanted,
            Self::Set { negated, ranges } => ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated,
        }
    }

    /// Returns the maximum number of comparisons for one character.
    fn size(&self) -> usize {
        match self {
            Self::Any | Self::Exactly(_) | Self::Letter(_) => 1,
            Self::Set { ranges, .. } => 1 + ranges.len(),
        }
    }
}

/// Returns the lower-case letter if it is a single character, else the character itself.
fn to_single_lowercase(c: char) -> char {
    let mut letters = c.to_lowercase();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => letter,
        _ => c,
    }
}

impl TextPattern {
    /// Parses a pattern of `@Matches`. Returns `None` if the pattern is malformed or too long.
    #[must_use]
    pub fn parse_matches(text: &str) -> Option<Self> {
        let chars: Vec<char> = text.chars().collect();
        if chars.len() > PATTERN_CHARS_MAX {
            return None;
        }
        let mut parser = PatternParser { chars: &chars, position: 0 };
        let mut alternatives = Vec::new();
        loop {
            let mut parts = vec![parser.parse_conjunct()?];
            while parser.take('&') {
                parts.push(parser.parse_conjunct()?);
            }
            alternatives.push(parts);
            if !parser.take('|') {
                return Some(Self { alternatives });
            }
        }
    }

    /// Parses a pattern of `@Like`. Returns `None` if the pattern ends with the escape character or is too long.
    #[must_use]
    pub fn parse_like(text: &str, escape: Option<char>) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            pieces.push(match c {
                _ if Some(c) == escape => Piece { takes: CharMatcher::Exactly(chars.next()?), any_number: false },
                '_' => Piece { takes: CharMatcher::Any, any_number: false },
                '%' => Piece { takes: CharMatcher::Any, any_number: true },
                _ => Piece { takes: CharMatcher::Exactly(c), any_number: false },
            });
        }
        let part = Conjunct { negated: false, pieces };
        (text.len() <= PATTERN_CHARS_MAX).then(|| Self { alternatives: vec![vec![part]] })
    }

    /// Returns `true` if the pattern matches the whole text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.alternatives.iter().any(|parts| parts.iter().all(|part| part.matches(text) != part.negated))
    }

    /// Returns the maximum cost of matching one character: the number of pieces and of their ranges, plus one for each
    /// part.
    #[must_use]
    pub fn size(&self) -> usize {
        let pieces = |part: &Conjunct| part.pieces.iter().map(|piece| piece.takes.size()).sum::<usize>();
        self.alternatives.iter().flatten().map(|part| pieces(part) + 1).sum()
    }
}

impl Conjunct {
    fn matches(&self, text: &str) -> bool {
        let end = self.pieces.len();
        let mut next = vec![false; end + 1];
        let mut after = vec![false; end + 1];
        next[0] = true;
        self.skip(&mut next);
        for c in text.chars() {
            after.fill(false);
            for (index, piece) in self.pieces.iter().enumerate() {
                if next[index] && piece.takes.matches(c) {
                    after[if piece.any_number { index } else { index + 1 }] = true;
                }
            }
            self.skip(&mut after);
            std::mem::swap(&mut next, &mut after);
        }
        next[end]
    }

    /// Adds the positions after all pieces that may match no character.
    fn skip(&self, next: &mut [bool]) {
        for (index, piece) in self.pieces.iter().enumerate() {
            if next[index] && piece.any_number {
                next[index + 1] = true;
            }
        }
    }
}

struct PatternParser<'c> {
    chars: &'c [char],
    position: usize,
}

impl PatternParser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.position).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.position += 1;
        Some(c)
    }

    fn take(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        self.position += usize::from(there);
        there
    }

    fn parse_conjunct(&mut self) -> Option<Conjunct> {
        let mut negated = false;
        while self.take('!') {
            negated = !negated;
        }
        let mut pieces = Vec::new();
        while let Some(c) = self.peek() {
            if matches!(c, '&' | '|') {
                break;
            }
            pieces.push(self.parse_piece()?);
        }
        Some(Conjunct { negated, pieces })
    }

    fn parse_piece(&mut self) -> Option<Piece> {
        let mut any_number = self.take('+');
        let takes = match self.next()? {
            '\\' => CharMatcher::Exactly(self.next()?),
            '?' => CharMatcher::Any,
            '*' => {
                any_number = true;
                CharMatcher::Any
            }
            '{' => self.parse_set()?,
            c => CharMatcher::Letter(to_single_lowercase(c)),
        };
        Some(Piece { takes, any_number })
    }

    fn parse_set(&mut self) -> Option<CharMatcher> {
        let negated = self.take('!');
        let mut ranges = Vec::new();
        loop {
            match self.next()? {
                '}' if ranges.is_empty() => return None,
                '}' => return Some(CharMatcher::Set { negated, ranges }),
                from if self.take('-') => match self.next()? {
                    '}' => {
                        ranges.push((from, char::MAX));
                        return Some(CharMatcher::Set { negated, ranges });
                    }
                    to => ranges.push((from, to)),
                },
                single => ranges.push((single, single)),
            }
        }
    }
}
