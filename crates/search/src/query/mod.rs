//! Queries: what people ask, as a tree.
//!
//! The language is described in `docs/full-text.md`. [`Query::parse`] is pure and takes any text; what it makes is bounded in size and depth.

mod parser;
mod scan;
mod value;

#[cfg(test)]
mod tests;

use base::Timestamp;

use crate::error::QueryError;

/// A query that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(crate) root: Node,
}

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    ///
    /// Says what is wrong and at which character.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        parser::parse(text).map(|root| Self { root })
    }

    /// Makes the query that every document answers.
    #[must_use]
    pub fn all() -> Self {
        Self { root: Node::All }
    }
}

/// Where words are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Anywhere.
    Any,
    /// In the body.
    Body,
    /// In the item of this name, in lower case.
    Item(String),
}

/// Something known of every note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// When it was received or made.
    Received,
    Created,
    /// When it was last saved.
    Modified,
    Size,
}

/// A range of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Range {
    /// From the first number to the second, each with whether it belongs to the range.
    Numbers { from: Option<(f64, bool)>, to: Option<(f64, bool)> },
    /// From the first moment on, before the second.
    Times { from: Option<Timestamp>, before: Option<Timestamp> },
}

/// A part of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// Every document.
    All,
    /// These words, one after the other.
    Phrase { scope: Scope, words: Vec<String> },
    /// These words in any order, with at most so many others between them.
    Near { scope: Scope, words: Vec<String>, distance: u32 },
    /// A word with `*` and `?` in it.
    Pattern { scope: Scope, pattern: String },
    /// An item whose value is in a range.
    Item { name: String, range: Range },
    /// A fact that is in a range.
    Fact { fact: Fact, range: Range },
    /// All of these.
    And(Vec<Node>),
    /// Any of these.
    Or(Vec<Node>),
    /// Not this.
    Not(Box<Node>),
}
