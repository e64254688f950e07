//! Patterns of `@Matches` and `@Like`.
//!
//! A pattern is a row of pieces, each of which takes one character, or any number of them. Matching keeps the set of pieces that could be next, so
//! it costs at most the length of the text times that of the pattern, whatever the pattern.
//!
//! `@Matches`: a character stands for itself in either case, `?` for any, `*` for any number of any, `{A-F}` for one of a set (case counts), `{!A-F}`
//! for one that is not in it, `+` before one of those for any number of it, `\` before a character for just that. `!` before a pattern means that it does
//! not match, `&` between two that both do, `|` that one does; `|` is looser than `&`.
//!
//! `@Like`: `_` for any, `%` for any number of any, an escape character that the formula chooses; case counts.

use crate::limits::PATTERN_CHARS_MAX;

/// A pattern that is ready to be matched.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern {
    /// One of these must hold; of each, all parts must.
    alternatives: Vec<Vec<Part>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Part {
    negated: bool,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq)]
struct Piece {
    takes: Takes,
    any_number: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Takes {
    Any,
    Exactly(char),
    /// In either case; kept in small letters.
    Letter(char),
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Takes {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(wanted) => *wanted == c,
            Self::Letter(wanted) => *wanted == c || small(c) == *wanted,
            Self::Set { negated, ranges } => ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated,
        }
    }
}

/// Gives the small letter where it is a single one.
fn small(c: char) -> char {
    let mut letters = c.to_lowercase();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => letter,
        _ => c,
    }
}

impl Pattern {
    /// Reads a pattern of `@Matches`.
    #[must_use]
    pub fn matches(text: &str) -> Option<Self> {
        let chars: Vec<char> = text.chars().collect();
        if chars.len() > PATTERN_CHARS_MAX {
            return None;
        }
        let mut reader = Reader { chars: &chars, position: 0 };
        let mut alternatives = Vec::new();
        loop {
            let mut parts = vec![reader.part()?];
            while reader.take('&') {
                parts.push(reader.part()?);
            }
            alternatives.push(parts);
            if !reader.take('|') {
                return Some(Self { alternatives });
            }
        }
    }

    /// Reads a pattern of `@Like`.
    #[must_use]
    pub fn like(text: &str, escape: Option<char>) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            pieces.push(match c {
                _ if Some(c) == escape => Piece { takes: Takes::Exactly(chars.next()?), any_number: false },
                '_' => Piece { takes: Takes::Any, any_number: false },
                '%' => Piece { takes: Takes::Any, any_number: true },
                _ => Piece { takes: Takes::Exactly(c), any_number: false },
            });
        }
        let part = Part { negated: false, pieces };
        (text.len() <= PATTERN_CHARS_MAX).then(|| Self { alternatives: vec![vec![part]] })
    }

    /// Tells whether a whole text is as the pattern says.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        self.alternatives.iter().any(|parts| parts.iter().all(|part| part.fits(text) != part.negated))
    }

    /// Gives the number of pieces: matching costs this for each character at most.
    #[must_use]
    pub fn size(&self) -> usize {
        self.alternatives.iter().flatten().map(|part| part.pieces.len() + 1).sum()
    }
}

impl Part {
    fn fits(&self, text: &str) -> bool {
        let end = self.pieces.len();
        let mut next = vec![false; end + 1];
        let mut after = vec![false; end + 1];
        next[0] = true;
        self.skip(&mut next);
        for c in text.chars() {
            after.fill(false);
            for (index, piece) in self.pieces.iter().enumerate() {
                if next[index] && piece.takes.takes(c) {
                    after[if piece.any_number { index } else { index + 1 }] = true;
                }
            }
            self.skip(&mut after);
            std::mem::swap(&mut next, &mut after);
        }
        next[end]
    }

    /// What may take no character at all is passed.
    fn skip(&self, next: &mut [bool]) {
        for (index, piece) in self.pieces.iter().enumerate() {
            if next[index] && piece.any_number {
                next[index + 1] = true;
            }
        }
    }
}

struct Reader<'c> {
    chars: &'c [char],
    position: usize,
}

impl Reader<'_> {
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

    fn part(&mut self) -> Option<Part> {
        let mut negated = false;
        while self.take('!') {
            negated = !negated;
        }
        let mut pieces = Vec::new();
        while let Some(c) = self.peek() {
            if matches!(c, '&' | '|') {
                break;
            }
            pieces.push(self.piece()?);
        }
        Some(Part { negated, pieces })
    }

    fn piece(&mut self) -> Option<Piece> {
        let mut any_number = self.take('+');
        let takes = match self.next()? {
            '\\' => Takes::Exactly(self.next()?),
            '?' => Takes::Any,
            '*' => {
                any_number = true;
                Takes::Any
            }
            '{' => self.set()?,
            c => Takes::Letter(small(c)),
        };
        Some(Piece { takes, any_number })
    }

    fn set(&mut self) -> Option<Takes> {
        let negated = self.take('!');
        let mut ranges = Vec::new();
        loop {
            match self.next()? {
                '}' if ranges.is_empty() => return None,
                '}' => return Some(Takes::Set { negated, ranges }),
                from if self.take('-') => match self.next()? {
                    '}' => {
                        ranges.push((from, char::MAX));
                        return Some(Takes::Set { negated, ranges });
                    }
                    to => ranges.push((from, to)),
                },
                single => ranges.push((single, single)),
            }
        }
    }
}
