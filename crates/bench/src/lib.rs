//! The parts of NotesBench, the load generator: what the users do, what is recorded, and what follows from it
//! (docs/notesbench.md).
//!
//! - [`record`]: histograms and counts of steps, by sample.
//! - [`compare`]: figures of several runs beside each other.
//!
//! The program `doublet-bench` is `main.rs`.

pub mod compare;
pub mod record;
