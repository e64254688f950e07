//! Views: saved questions with an order, and the index that answers them (`docs/views.md`).
//!
//! | module | what it holds |
//! |---|---|
//!
//! | [`design`] | what the design note of a view says |
//! | [`question`] | what a view asks of each document |
//! | [`cell`] | the value of a column in a row |
//! | [`row`] | rows and their keys |
//! | [`category`] | what a category counts and sums up |
//! | [`index`] | how the rows follow the documents |
//! | [`reader`] | rows, and where they stand |
//! | [`sort_key`] | bytes whose order is the order of values |
//! | [`exact_sum`] | totals that do not drift |

pub mod category;
pub mod cell;
pub mod design;
pub mod exact_sum;
pub mod index;
pub mod question;
pub mod reader;
pub mod row;
pub mod sort_key;
