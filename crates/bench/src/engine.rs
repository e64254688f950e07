//! The engine: plays the steps of many users against a door, at their intended times.
//!
//! [`run`] owns the tasks of all [`user`]s, closes a sample at each border, and asks [`phases`] what the border means.
//! [`share`] divides a run between several processes. [`steps`] is what the engine needs to know of a plan, and
//! [`pace`] says when a step is due.
//!
//! Time is the clock of tokio. All times count from the start signal of the run.

pub mod pace;
pub mod phases;
pub mod run;
pub mod share;
pub mod states;
pub mod steps;
#[cfg(test)]
mod tests;
pub mod user;
