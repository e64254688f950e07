//! Limits of views that shape their rows: values above them are cut, always alike (`docs/views.md`, "Limits of rows").
//! [`crate::limits`] holds the other limits.
//!
//! A change of any of these limits changes the rows of documents, so [`ROW_RULES`](crate::view::index_record) must be
//! incremented with it.

use std::time::Duration;

/// Maximum size of the texts of one cell, in bytes.
pub const CELL_BYTES_MAX: usize = 32 << 10;

/// Maximum size of the cells of one row, in bytes as [`Cell::byte_count`](crate::view::cell::Cell::byte_count) counts
/// them.
pub const ROW_BYTES_MAX: usize = 64 << 10;

/// Maximum size of the cells of all rows that one document has in all orders of a view together, in bytes.
pub const NOTE_ROWS_BYTES_MAX: usize = 1 << 20;

/// Maximum size of a document's spelling of a category, in bytes.
pub const SPELLING_BYTES_MAX: usize = 1_024;

/// Size in bytes with which a category counts in the size of an index, in addition to its keys.
pub const CATEGORY_BYTES: usize = 64;

/// Size of rows in bytes at which a batch of changes to an index ends, so that its memory is bounded.
pub const REFRESH_BYTES_MAX: usize = 1 << 20;

/// Time after which a batch of changes to an index ends, so that slow formulas do not keep a worker from other users.
pub const REFRESH_TIME_MAX: Duration = Duration::from_millis(50);

/// Maximum number of columns that determine the position of a main document besides its categories.
pub const SORTED_COLUMNS_MAX: usize = 64;

/// Maximum number of columns that determine the position of a response.
pub const RESPONSE_SORTED_COLUMNS_MAX: usize = 8;

/// Number of key bytes reserved for each sorted column: a number or a time, or a text of 6 bytes.
pub const COMPONENT_BYTES_MIN: usize = 9;

/// Number of key bytes reserved for each level of categories: 3 bytes of a text and a digest.
pub const CATEGORY_BYTES_MIN: usize = 16;
