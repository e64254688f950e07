//! What a run records: histograms of times and counts of steps, by verb, class and phase.
//!
//! [`recorder`] collects while the users work and closes a sample at each border; [`log`] is the file of the
//! histograms, which is read again for reports and comparisons; [`blocks`] forms means of parts of the measured
//! interval from it.
//!
//! The memory of all this depends on the number of verbs, classes and levels, and not on the length of a run.

pub mod blocks;
pub mod counters;
pub mod histograms;
pub mod log;
pub mod recorder;
#[cfg(test)]
mod tests;
