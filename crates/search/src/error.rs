//! Errors of full-text search, grouped by the party that must act.

use std::fmt;

/// The result of an operation on the full-text index.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of an operation on the full-text index.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The query is malformed or exceeds a limit. The user must change it.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The database has no full-text index, or not yet. The operator must create it, or its creation must be awaited.
    #[error("{database} has no full-text index")]
    NotIndexed { database: String },
    /// The query exceeded its time limit. The user must make it narrower.
    #[error("the query took too long")]
    TooLong,
    /// A database or note failed. The inner error states who must act.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// The stored contents of a note are damaged. The rest of the note is indexed.
    #[error("damaged contents: {0}")]
    Contents(String),
    /// The index failed. It can be deleted at any time and is rebuilt from the databases.
    #[error("full-text index: {0}")]
    Index(String),
}

impl Error {
    /// Returns `true` if stored data is damaged, so that a retry does not help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Contents(_) => true,
            Self::Notes(error) => error.is_damage(),
            _ => false,
        }
    }
}

impl From<tantivy::TantivyError> for Error {
    fn from(error: tantivy::TantivyError) -> Self {
        Self::Index(error.to_string())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Index(error.to_string())
    }
}

impl From<base::Interrupted> for Error {
    fn from(error: base::Interrupted) -> Self {
        Self::Notes(error.into())
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Notes(error.into())
    }
}

/// The error in a query and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    /// The index of the character at which the error was detected, starting at 0.
    pub position: usize,
    /// The description of the error.
    pub message: String,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query, character {}: {}", self.position + 1, self.message)
    }
}

impl std::error::Error for QueryError {}
