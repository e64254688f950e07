//! When a step is due.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How the times of the steps follow from the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// At the intended times of the plan, whatever the server does.
    Timetable,
    /// With the pauses of the plan, which begin when the previous step has ended.
    Closed,
    /// When the previous step has ended, without pauses.
    Unpaced,
}

/// By how much pauses and iterations are divided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speedup(f64);

impl Speedup {
    /// Creates a factor, or returns `None` if it is not a number from 0.001 to 1,000,000.
    pub fn new(factor: f64) -> Option<Self> {
        (0.001..=1_000_000.0).contains(&factor).then_some(Self(factor))
    }

    /// Returns a time of the plan divided by the factor, in whole microseconds.
    pub fn divide(self, time: Duration) -> Duration {
        if self.0 == 1.0 {
            return time;
        }
        let micros = time.as_nanos() as f64 / (self.0 * 1_000.0);
        // The conversion ends at the largest number, which is 584,000 years.
        Duration::from_micros(micros.round() as u64)
    }
}
