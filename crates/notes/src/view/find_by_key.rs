//! Search for rows by the values of their sorted columns (Domino's FIND_BY_KEY).
//!
//! Values are given for the leading sorted columns from left to right; the last one may be a prefix of a text. Rows
//! with these values are adjacent, so the result is the first row and the number of rows. Case and accents count if the
//! column says so.

use store::engine::prefix_end;

use crate::error::{Error, Result};
use crate::view::cell::CellValue;
use crate::view::reader::ViewReader;

/// A range of adjacent rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowRange {
    /// The key of the first row.
    pub first: Vec<u8>,
    /// The first key behind the range, or `None` at the end of the view.
    pub end: Option<Vec<u8>>,
    /// The position of the first row, counted from 0.
    pub position: u64,
    /// Number of rows, category rows and responses included.
    pub rows: u64,
}

impl ViewReader<'_> {
    /// Finds the rows with these values in the leading sorted columns. If `partial` is `true`, the last value is the
    /// prefix of a text.
    pub fn find_by_key(&self, values: &[CellValue<'_>], partial: bool) -> Result<Option<RowRange>> {
        let start = self.key_prefix(values, partial)?;
        let end = prefix_end(&start);
        self.found_between(&start, end)
    }

    /// Finds the rows from those with the values `from` up to those with the values `to`, both included.
    pub fn find_range(&self, from: &[CellValue<'_>], to: &[CellValue<'_>]) -> Result<Option<RowRange>> {
        let start = self.key_prefix(from, false)?;
        let end = prefix_end(&self.key_prefix(to, false)?);
        if end.as_ref().is_some_and(|end| *end < start) {
            return Ok(None);
        }
        self.found_between(&start, end)
    }

    fn key_prefix(&self, values: &[CellValue<'_>], partial: bool) -> Result<Vec<u8>> {
        if values.is_empty() {
            return Err(Error::invalid("key", "at least one value is needed"));
        }
        let prefix = self.keys().prefix(values, partial);
        prefix.ok_or_else(|| Error::invalid("key", "it has more values than the view has sorted columns"))
    }

    fn found_between(&self, start: &[u8], end: Option<Vec<u8>>) -> Result<Option<RowRange>> {
        let position = self.position(start)?;
        let up_to = end.as_ref().map_or_else(|| self.count(), |end| self.position(end))?;
        if up_to == position {
            return Ok(None);
        }
        let first = self.first_from(start)?;
        Ok(first.map(|first| RowRange { first: first.key, end, position, rows: up_to - position }))
    }
}
