//! Reports of runs (docs/notesbench.md, "Report").
//!
//! [`verdict`] determines what the figures are worth, and [`model`] is the report as it is stored. [`validity`] says
//! of which levels the figures stand, and [`population`] for people what the mail files had. [`markdown`] and [`html`]
//! show the report to people with the same tables ([`mod@table`]): those of the [`articles`] with their [`published`]
//! rows, the figures over the [`levels`], and the [`sources`]. HTML has [`curves`], too. [`samples`] is the file of the
//! samples, [`directory`] writes all of them, and [`stored`] reads them again.

pub mod articles;
pub mod curves;
pub mod directory;
pub mod html;
pub mod levels;
pub mod markdown;
pub mod model;
pub mod population;
pub mod published;
pub mod samples;
pub mod sources;
pub mod stored;
pub mod table;
pub mod validity;
pub mod verdict;
