//! What can go wrong with full-text search, sorted by who must act.

use std::fmt;

/// The result of an operation on the full-text index.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on the full-text index failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The query cannot be understood, or asks for too much. The one who asked changes it.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The database has no full-text index, or none yet. A manager turns it on, or everybody waits.
    #[error("{database} has no full-text index")]
    NotIndexed { database: String },
    /// The query took longer than it may. The one who asked makes it narrower.
    #[error("the query took too long")]
    TooLong,
    /// Databases or notes failed; see there who must act.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// The contents of a note are not what was written; the rest of it is indexed.
    #[error("damaged contents: {0}")]
    Contents(String),
    /// The index failed; it can be deleted at any time and is made again from the databases.
    #[error("full-text index: {0}")]
    Index(String),
}

impl Error {
    /// Tells whether stored bytes are not what was written, so that trying again does not help.
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

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Notes(error.into())
    }
}

/// What is wrong with a query, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryError {
    /// The character at which it was noticed, from 0.
    pub position: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query, character {}: {}", self.position + 1, self.what)
    }
}

impl std::error::Error for QueryError {}
