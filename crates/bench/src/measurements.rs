//! Times and counts, and their output.
//!
//! This is the only module that reads the clock.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// A clock that measures from its start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    start: Instant,
}

impl Stopwatch {
    /// Starts measuring.
    #[expect(clippy::disallowed_methods, reason = "a load generator measures real time")]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Returns the time since the start.
    pub fn elapsed(self) -> Duration {
        self.start.elapsed()
    }
}

/// Measured times by operation.
#[derive(Debug, Default, Clone)]
pub struct Measurements {
    times_us: BTreeMap<&'static str, Vec<u64>>,
    /// Commands that a server refused or answered wrongly.
    pub failures: Vec<String>,
}

impl Measurements {
    /// Records one time.
    pub fn add(&mut self, name: &'static str, time: Duration) {
        self.times_us.entry(name).or_default().push(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds the records of other figures.
    pub fn merge(&mut self, other: Self) {
        for (name, mut times) in other.times_us {
            self.times_us.entry(name).or_default().append(&mut times);
        }
        self.failures.extend(other.failures);
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> usize {
        self.times_us.values().map(Vec::len).sum()
    }

    /// Formats everything as one JSON object, including the total duration.
    pub fn json(mut self, seconds: f64) -> String {
        let mut text =
            format!("{{\"seconds\": {seconds:.3}, \"count\": {}, \"failures\": {}", self.count(), self.failures.len());
        if let Some(first) = self.failures.first() {
            let _ = write!(text, ", \"first_failure\": {:?}", first);
        }
        text.push_str(", \"times_us\": {");
        for (index, (name, times)) in self.times_us.iter_mut().enumerate() {
            times.sort_unstable();
            let comma = if index == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}\"{name}\": {}", spread(times));
        }
        text.push_str("}}");
        text
    }
}

/// Formats count, mean, median, 99th percentile and maximum of sorted times.
fn spread(sorted: &[u64]) -> String {
    let at = |part: f64| sorted.get(((sorted.len().saturating_sub(1)) as f64 * part) as usize).copied().unwrap_or(0);
    let mean = sorted.iter().sum::<u64>().checked_div(sorted.len() as u64).unwrap_or(0);
    format!(
        "{{\"count\": {}, \"mean\": {mean}, \"p50\": {}, \"p99\": {}, \"max\": {}}}",
        sorted.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_with_percentiles() {
        let mut figures = Measurements::default();
        (1..=101).rev().for_each(|time| figures.add("FETCH", Duration::from_micros(time)));
        figures.failures.push("NO \"such\" thing".into());
        let text = figures.json(2.0);
        assert!(
            text.contains("\"FETCH\": {\"count\": 101, \"mean\": 51, \"p50\": 51, \"p99\": 100, \"max\": 101}"),
            "{text}"
        );
        assert!(text.contains("\"failures\": 1, \"first_failure\": \"NO \\\"such\\\" thing\""), "{text}");
    }
    #[test]
    fn percentiles_are_measured_times() {
        let check = |times: &[u64], expected: &str| assert_eq!(spread(times), expected, "{times:?}");
        check(&[], "{\"count\": 0, \"mean\": 0, \"p50\": 0, \"p99\": 0, \"max\": 0}");
        check(&[7], "{\"count\": 1, \"mean\": 7, \"p50\": 7, \"p99\": 7, \"max\": 7}");
        check(&[1, 2], "{\"count\": 2, \"mean\": 1, \"p50\": 1, \"p99\": 1, \"max\": 2}");
        check(&[1, 2, 9], "{\"count\": 3, \"mean\": 4, \"p50\": 2, \"p99\": 2, \"max\": 9}");
        let thousand: Vec<u64> = (0..=1_000).collect();
        check(&thousand, "{\"count\": 1001, \"mean\": 500, \"p50\": 500, \"p99\": 990, \"max\": 1000}");
    }

    #[test]
    fn merged_measurements_are_those_of_one_client() {
        let mut one = Measurements::default();
        let mut other = Measurements::default();
        let mut both = Measurements::default();
        for time in 1..=60 {
            let half = if time % 3 == 0 { &mut one } else { &mut other };
            let name = if time % 2 == 0 { "FETCH" } else { "STORE" };
            half.add(name, Duration::from_micros(time));
            both.add(name, Duration::from_micros(time));
        }
        other.failures.push("STORE: refused".to_owned());
        both.failures.push("STORE: refused".to_owned());
        one.merge(other);
        assert_eq!((one.count(), both.count()), (60, 60));
        assert_eq!(one.json(1.5), both.json(1.5));
    }

    #[test]
    fn run_without_commands_gives_valid_json() {
        let text = Measurements::default().json(0.0625);
        assert_eq!(text, "{\"seconds\": 0.062, \"count\": 0, \"failures\": 0, \"times_us\": {}}");
    }
}
