//! The engine: plays the steps of many users against a door, at their intended times.
//!
//! [`phases`] says what follows from the counts at a border of samples, and [`pace`] when a step is due.
//!
//! Time is the clock of tokio. All times count from the start signal of the run.

pub mod pace;
pub mod phases;
