//! Figures of several runs beside each other (docs/notesbench.md, "Comparisons").

pub mod statistics;
