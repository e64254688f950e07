//! A query, character by character.

use crate::error::QueryError;

/// A place in the text of a query.
#[derive(Clone, Copy)]
pub(super) struct Scan<'q> {
    text: &'q str,
    at: usize,
}

impl<'q> Scan<'q> {
    pub(super) fn new(text: &'q str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'q str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes a text that stands here, whatever follows.
    pub(super) fn take(&mut self, expected: &str) -> bool {
        let is_here = self.rest().starts_with(expected);
        if is_here {
            self.at += expected.len();
        }
        is_here
    }

    /// Takes characters as long as they are wanted.
    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'q str {
        let rest = self.rest();
        let length = rest.find(|character| !wanted(character)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Takes a whole word that is one of those; `exact` ones must be in upper case.
    pub(super) fn take_keyword(&mut self, keyword: &str, is_exact: Case) -> bool {
        let rest = self.rest();
        let Some(found) = rest.get(..keyword.len()) else { return false };
        let is_same = match is_exact {
            Case::Upper => found == keyword,
            Case::Any => found.eq_ignore_ascii_case(keyword),
        };
        let ends = !rest[found.len()..].starts_with(|next: char| {
            next.is_alphanumeric() || matches!(next, '_' | '$' | ':' | '.' | '-' | '@' | '*' | '?')
        });
        if is_same && ends {
            self.at += keyword.len();
        }
        is_same && ends
    }

    /// Says what is wrong here.
    pub(super) fn error(&self, what: impl Into<String>) -> QueryError {
        QueryError { position: self.text[..self.at].chars().count(), what: what.into() }
    }
}

/// How a keyword may be written.
#[derive(Clone, Copy)]
pub(super) enum Case {
    Any,
    Upper,
}
