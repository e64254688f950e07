//! User queries as a tree.
//!
//! The language is described in `docs/full-text.md`. [`Query::parse`] is pure and accepts any text. The size and depth
//! of the resulting tree are limited.

mod parser;
mod scan;
mod value;

#[cfg(test)]
mod tests;

use base::Timestamp;

use crate::error::QueryError;

/// A parsed query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub(crate) root: QueryNode,
}

impl Query {
    /// Parses a query.
    ///
    /// # Errors
    ///
    /// The error describes the problem and the character at which it was detected.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        parser::parse(text).map(|root| Self { root })
    }

    /// Returns the query that matches every document.
    #[must_use]
    pub fn all() -> Self {
        Self { root: QueryNode::All }
    }
}

/// The part of a document in which words are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every part.
    Any,
    /// The body.
    Body,
    /// The item with this name, which is in lower case.
    Item(String),
}

/// A property that every note has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoteProperty {
    /// The time at which the note was received or created.
    Received,
    Created,
    /// The time at which the note was last saved.
    Modified,
    Size,
}

/// A range of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Range {
    /// The numbers between two bounds. Each bound has a flag that is `true` if the bound itself belongs to the range.
    Numbers { from: Option<(f64, bool)>, to: Option<(f64, bool)> },
    /// The times from `from` on, and before `before`.
    Times { from: Option<Timestamp>, before: Option<Timestamp> },
}

/// A node of a query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum QueryNode {
    /// Matches every document.
    All,
    /// Matches the words one after the other.
    Phrase { scope: Scope, words: Vec<String> },
    /// Matches the words in any order, with at most `distance` other words between them.
    Near { scope: Scope, words: Vec<String>, distance: u32 },
    /// Matches words with a pattern that contains `*` and `?`.
    Pattern { scope: Scope, pattern: String },
    /// Matches an item whose value is in a range.
    Item { name: String, range: Range },
    /// Matches a property whose value is in a range.
    Property { property: NoteProperty, range: Range },
    /// Matches if all nodes match.
    And(Vec<QueryNode>),
    /// Matches if any node matches.
    Or(Vec<QueryNode>),
    /// Matches if the node does not match.
    Not(Box<QueryNode>),
}
