//! Reports of runs (docs/notesbench.md, "Report").
//!
//! [`verdict`] determines what the figures are worth, [`model`] is the report as it is stored, [`markdown`] shows it to
//! people, [`samples`] is the file of the samples, [`directory`] writes all of them, and [`stored`] reads them again.

pub mod directory;
pub mod markdown;
pub mod model;
pub mod samples;
pub mod stored;
pub mod verdict;
