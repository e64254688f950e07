//! Reports of runs (docs/notesbench.md, "Report").

pub mod verdict;
