//! A scanner over the characters of a query.

use crate::error::QueryError;

/// A position in the text of a query.
#[derive(Clone, Copy)]
pub(super) struct Scanner<'q> {
    text: &'q str,
    at: usize,
}

impl<'q> Scanner<'q> {
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

    /// Consumes a text if it is at the current position, regardless of the text after it.
    pub(super) fn take(&mut self, expected: &str) -> bool {
        let is_here = self.rest().starts_with(expected);
        if is_here {
            self.at += expected.len();
        }
        is_here
    }

    /// Consumes characters as long as a condition holds.
    pub(super) fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'q str {
        let rest = self.rest();
        let length = rest.find(|character| !wanted(character)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Consumes a keyword if it is at the current position as a whole word. With `Case::Upper`, it must be in upper
    /// case.
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

    /// Creates an error at the current position.
    pub(super) fn error(&self, what: impl Into<String>) -> QueryError {
        QueryError { position: self.text[..self.at].chars().count(), message: what.into() }
    }
}

/// The permitted case of a keyword.
#[derive(Clone, Copy)]
pub(super) enum Case {
    Any,
    Upper,
}
