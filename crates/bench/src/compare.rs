//! Figures of several runs beside each other (docs/notesbench.md, "Comparisons").
//!
//! [`statistics`] has the spreads and when a difference is none; [`spreads`] forms the blocks of a run from its log;
//! [`table`] compares stored runs, and [`output`] shows the comparison to people. [`max_users`] searches for the
//! largest number of users. [`alternate`] compares two settings that were run in turns, and [`experiment`] has the
//! options that the articles varied.

pub mod alternate;
pub mod experiment;
pub mod max_users;
pub mod output;
pub mod spreads;
pub mod statistics;
pub mod table;
