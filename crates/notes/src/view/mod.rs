//! Views: saved questions with an order, and the index that answers them (`docs/views.md`).
//!
//! | module | what it holds |
//! |---|---|
//!
//! | [`note`](mod@note), [`design`] | what the design note of a view says |
//! | [`record`] | which index it has |
//! | [`question`] | what a view asks of each document |
//! | [`cell`] | the value of a column in a row |
//! | [`row`] | rows and their keys |
//! | [`category`] | what a category counts and sums up |
//! | [`index`] | how the rows follow the documents |
//! | `cycle` | documents that answer each other |
//! | [`build`] | a new index over many documents at once |
//! | [`reader`] | rows, and where they stand |
//! | [`navigate`], [`find`], [`entries`] | from row to row; rows by their values; what a client asks for |
//! | [`served`] | views as they are opened |
//! | [`sort_key`] | bytes whose order is the order of values |
//! | [`exact_sum`] | totals that do not drift |
//! | [`limits`] | what rows are cut to |

pub mod build;
pub mod category;
pub mod cell;
pub(crate) mod check;
mod cycle;
pub mod design;
pub mod entries;
mod entry;
pub mod exact_sum;
pub mod find;
mod hidden;
pub mod index;
pub mod limits;
pub mod navigate;
pub mod note;
pub mod question;
pub mod reader;
pub mod record;
mod root_order;
pub mod row;
pub mod served;
pub mod sort_key;
