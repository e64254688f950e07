//! Reports of runs (docs/notesbench.md, "Report").
//!
//! [`verdict`] determines what the figures are worth, and [`model`] is the report as it is stored. [`validity`] says
//! of which levels the figures stand, and [`population`] for people what the mail files had. [`markdown`] shows
//! it to people, and [`html`] with the [`published`] rows of the articles and [`curves`]. [`samples`] is the file of
//! the samples, [`directory`] writes all of them, and [`stored`] reads them again.

pub mod curves;
pub mod directory;
pub mod html;
pub mod markdown;
pub mod model;
pub mod population;
pub mod published;
pub mod samples;
pub mod stored;
pub mod validity;
pub mod verdict;
