//! Reports of runs (docs/notesbench.md, "Report").
//!
//! [`verdict`] determines what the figures are worth, [`model`] is the report as it is stored, [`markdown`] shows it to
//! people, and [`directory`] writes both with the raw data.

pub mod directory;
pub mod markdown;
pub mod model;
pub mod verdict;
