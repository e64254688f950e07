//! Views: stored queries with a sort order, and the indexes that hold their rows (`docs/views.md`).
//!
//! | module | contents |
//! |---|---|
//! | [`note`](mod@note), [`view_format`] | the design note of a view |
//! | [`index_record`] | the record that names a view's index |
//! | [`selection`] | selection and column formulas |
//! | [`cell`] | the value of a column in a row |
//! | [`row`], `row_change` | rows and their keys; changes and weights of rows |
//! | [`category`] | counts and totals of a category |
//! | [`index`], `index_state`, [`index_update`] | the index, and how it follows the documents |
//! | `index_size`, `index_growth` | the size of an index, and its limits |
//! | `cycle` | detection of response cycles |
//! | [`build`] | bulk build of an index over many documents |
//! | [`reader`] | rows and their positions |
//! | [`navigate`], [`find_by_key`], [`read_entries`] | steps from row to row; search by values; entries for clients |
//! | [`entries`], [`folder_entries`] | views and folders as one; entries of folders without columns |
//! | [`open`], [`view_cache`] | opening views; the cache of open views |
//! | [`sort_key`] | bytes that sort like the values |
//! | [`exact_sum`] | totals without rounding drift |
//! | [`limits`] | limits to which rows are cut |

pub mod build;
pub mod category;
pub mod cell;
pub(crate) mod check;
mod cycle;
mod document_entries;
pub mod entries;
pub mod exact_sum;
pub mod find_by_key;
pub mod folder_entries;
mod hidden_rows;
pub mod index;
mod index_growth;
pub mod index_record;
mod index_size;
mod index_state;
pub mod index_update;
pub mod limits;
pub mod navigate;
pub mod note;
pub mod open;
pub mod read_entries;
pub mod reader;
mod root_order;
pub mod row;
mod row_change;
pub mod selection;
pub mod sort_key;
pub mod view_cache;
pub mod view_format;
