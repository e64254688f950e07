//! The parts of NotesBench, the load generator: what the users do, what is recorded, and what follows from it
//! (docs/notesbench.md).
//!
//! - [`workload`]: workload files, read and checked.
//! - [`plan`]: what each user does and when, from the seed; [`random`] has its numbers.
//! - [`population`]: the people of a run, and the contents of their mail files.
//! - [`door`]: the protocols behind one trait.
//! - [`engine`]: users on a timetable, the phases of a run.
//! - [`parts`]: a run of several processes.
//! - [`driver`]: a run from its options to its report.
//! - [`record`]: histograms and counts of steps, by sample.
//! - [`target`]: the server under test, started by the driver or running already.
//! - [`stub`]: a server that answers at once, for the driver's own figures.
//! - [`report`]: what a run is worth.
//! - [`compare`]: figures of several runs beside each other.
//!
//! The program `doublet-bench` is `main.rs`.

pub mod compare;
pub mod door;
pub mod driver;
pub mod engine;
pub mod parts;
pub mod plan;
pub mod population;
pub mod random;
pub mod record;
pub mod report;
pub mod stub;
pub mod target;
pub mod wall_clock;
pub mod workload;
