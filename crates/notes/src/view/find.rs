//! Finding rows by the values of their sorted columns (the original's FIND_BY_KEY, `domino.md` §3).
//!
//! Values are given for the leading sorted columns from left to right, the last of them perhaps as the beginning of a text. Rows with these values lie
//! together; the answer is the first of them and how many there are. Case and accents count where the column says that they do.

use store::engine::prefix_end;

use crate::error::{Error, Result};
use crate::view::cell::One;
use crate::view::reader::ViewReader;

/// Rows that lie together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The key of the first.
    pub first: Vec<u8>,
    /// The first key behind them; nothing at the end of the view.
    pub end: Option<Vec<u8>>,
    /// The position of the first, counted from 0.
    pub position: u64,
    /// How many rows there are, rows of categories and responses included.
    pub rows: u64,
}

impl ViewReader<'_> {
    /// Finds the rows whose leading sorted columns have these values; `partial` the last text is the beginning of one.
    pub fn find_by_key(&self, values: &[One<'_>], partial: bool) -> Result<Option<Found>> {
        let start = self.key_prefix(values, partial)?;
        let end = prefix_end(&start);
        self.found_between(&start, end)
    }

    /// Finds the rows from those with some values up to those with others, both included.
    pub fn find_range(&self, from: &[One<'_>], to: &[One<'_>]) -> Result<Option<Found>> {
        let start = self.key_prefix(from, false)?;
        let end = prefix_end(&self.key_prefix(to, false)?);
        if end.as_ref().is_some_and(|end| *end < start) {
            return Ok(None);
        }
        self.found_between(&start, end)
    }

    fn key_prefix(&self, values: &[One<'_>], partial: bool) -> Result<Vec<u8>> {
        if values.is_empty() {
            return Err(Error::invalid("key", "at least one value is needed"));
        }
        let prefix = self.keys().prefix(values, partial);
        prefix.ok_or_else(|| Error::invalid("key", "it has more values than the view has sorted columns"))
    }

    fn found_between(&self, start: &[u8], end: Option<Vec<u8>>) -> Result<Option<Found>> {
        let position = self.position(start)?;
        let up_to = end.as_ref().map_or_else(|| self.count(), |end| self.position(end))?;
        if up_to == position {
            return Ok(None);
        }
        let first = self.first_from(start)?;
        Ok(first.map(|first| Found { first: first.key, end, position, rows: up_to - position }))
    }
}
