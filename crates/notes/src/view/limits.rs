//! The limits of views that shape their rows: what is above them is cut, always alike (`docs/views.md`, "Limits of rows"). The others stand in [`crate::limits`].
//!
//! A change of one of them changes the rows that documents get: then [`ROW_RULES`](crate::view::record) rises.

use std::time::Duration;

/// Most bytes of the texts of one cell.
pub const CELL_BYTES_MAX: usize = 32 << 10;

/// Most bytes of the cells of one row, as [`Cell::byte_count`](crate::view::cell::Cell::byte_count) counts them.
pub const ROW_BYTES_MAX: usize = 64 << 10;

/// Most bytes of the cells of all rows that one document has in one order of a view.
pub const NOTE_ROWS_BYTES_MAX: usize = 1 << 20;

/// Most bytes of what a document calls a category.
pub const SPELLING_BYTES_MAX: usize = 1_024;

/// Bytes of rows at which a batch of changes to an index ends, so that what it holds in memory is bounded.
pub const REFRESH_BYTES_MAX: usize = 8 << 20;

/// Time after which a batch of changes to an index ends, so that formulas that take long do not keep others from the database.
pub const REFRESH_TIME_MAX: Duration = Duration::from_millis(200);

/// Most columns that decide about the place of a main document beside its categories.
pub const SORTED_COLUMNS_MAX: usize = 64;

/// Most columns that decide about the place of a response.
pub const RESPONSE_SORTED_COLUMNS_MAX: usize = 8;

/// Bytes of a key that are kept free for each sorted column: a number or a time, or a text of 6 bytes.
pub const COMPONENT_BYTES_MIN: usize = 9;

/// Bytes of a key that are kept free for each level of categories: 3 bytes of a text and a digest.
pub const CATEGORY_BYTES_MIN: usize = 16;
