//! Times and counts of the works that have no workload file, and their output.
//!
//! All users of a work record in the same histograms, one for each operation ([`TimeHistogram`]: three significant
//! digits), so that the memory does not grow with the users and their times. Of the failures, the number and the first
//! one are kept.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use base::sync::Mutex;
use bench::door::Session;
use bench::door::call::CallError;
use bench::record::histograms::TimeHistogram;
use serde::Serialize;
use tokio::time::Instant;

/// A clock that measures from its start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    start: Instant,
}

impl Stopwatch {
    /// Starts measuring.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Returns the time since the start.
    pub fn elapsed(self) -> Duration {
        self.start.elapsed()
    }
}

/// Measured times by operation. Clones record in the same histograms.
#[derive(Debug, Default, Clone)]
pub struct Measurements {
    /// The lock is never held across an await.
    figures: Arc<Mutex<Figures>>,
}

#[derive(Debug, Default)]
struct Figures {
    times: BTreeMap<&'static str, TimeHistogram>,
    failures: u64,
    first_failure: Option<String>,
}

impl Measurements {
    /// Records one time.
    pub fn add(&self, name: &'static str, time: Duration) {
        self.figures.lock().times.entry(name).or_default().record(time);
    }

    /// Counts a command that a server refused or answered wrongly.
    pub fn add_failure(&self, failure: String) {
        let mut figures = self.figures.lock();
        figures.failures += 1;
        figures.first_failure.get_or_insert(failure);
    }

    /// Waits for the end of a command and records its time, and its failure if it fails.
    ///
    /// # Errors
    ///
    /// The failure, if nothing more can be sent over the connection.
    pub async fn timed(
        &self,
        name: &'static str,
        command: impl Future<Output = Result<(), CallError>>,
    ) -> Result<(), CallError> {
        let watch = Stopwatch::start();
        let done = command.await;
        self.add(name, watch.elapsed());
        match done {
            Err(error) if error.session == Session::Lost => Err(error),
            Err(error) => {
                self.add_failure(format!("{name}: {error}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Returns what was measured in this number of seconds.
    pub fn summary(&self, seconds: f64) -> Summary {
        let figures = self.figures.lock();
        Summary {
            seconds: (seconds * 1_000.0).round() / 1_000.0,
            count: figures.times.values().map(TimeHistogram::count).sum(),
            failures: figures.failures,
            first_failure: figures.first_failure.clone(),
            times_us: figures.times.iter().map(|(name, times)| (*name, Spread::of(times))).collect(),
        }
    }
}

/// The output of a work, which `scripts/bench` reads.
#[derive(Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The total duration.
    seconds: f64,
    /// The number of recorded times.
    count: u64,
    failures: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<String>,
    times_us: BTreeMap<&'static str, Spread>,
}

/// Count, mean, median, 99th percentile and maximum of times.
#[derive(Debug, PartialEq, Serialize)]
struct Spread {
    count: u64,
    mean: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

impl Spread {
    fn of(times: &TimeHistogram) -> Self {
        let percentile = |percent| times.percentile_us(percent).unwrap_or(0);
        Self {
            count: times.count(),
            mean: times.mean_us().unwrap_or(0.0).round() as u64,
            p50: percentile(50.0),
            p99: percentile(99.0),
            max: times.max_us().unwrap_or(0),
        }
    }
}

/// Prints the output of a work as one line of JSON.
pub fn print(output: &impl Serialize) -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string(output)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(figures: &Measurements, seconds: f64) -> String {
        serde_json::to_string(&figures.summary(seconds)).expect("numbers and texts")
    }

    #[test]
    fn times_are_counted_with_percentiles() {
        let figures = Measurements::default();
        (1..=101).rev().for_each(|time| figures.add("FETCH", Duration::from_micros(time)));
        figures.add_failure("NO \"such\" thing".into());
        figures.add_failure("NO other".into());
        let expected = "{\"seconds\":2.0,\"count\":101,\"failures\":2,\"first_failure\":\"NO \\\"such\\\" thing\",\
                        \"times_us\":{\"FETCH\":{\"count\":101,\"mean\":51,\"p50\":51,\"p99\":100,\"max\":101}}}";
        assert_eq!(text(&figures, 2.0), expected);
    }

    #[test]
    fn percentiles_are_measured_times() {
        let check = |times: &[u64], [mean, p50, p99, max]: [u64; 4]| {
            let mut histogram = TimeHistogram::default();
            times.iter().for_each(|time| _ = histogram.record(Duration::from_micros(*time)));
            let count = times.len() as u64;
            assert_eq!(Spread::of(&histogram), Spread { count, mean, p50, p99, max }, "{times:?}");
        };
        check(&[], [0, 0, 0, 0]);
        check(&[7], [7, 7, 7, 7]);
        check(&[1, 3], [2, 1, 3, 3]);
        check(&[1, 2, 9], [4, 2, 9, 9]);
        let thousand: Vec<u64> = (0..=1_000).collect();
        check(&thousand, [500, 500, 990, 1_000]);
    }

    #[test]
    fn long_times_have_three_digits() {
        let figures = Measurements::default();
        [123_456, 7_654_321].iter().for_each(|time| figures.add("FETCH", Duration::from_micros(*time)));
        let spread = &figures.summary(1.0).times_us["FETCH"];
        for (measured, shown) in [(123_456, spread.p50), (7_654_321, spread.max), (3_888_888, spread.mean)] {
            assert!(shown.abs_diff(measured) * 1_000 < measured, "{shown} instead of {measured}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn times_of_failed_commands_are_measured() {
        let figures = Measurements::default();
        let refused = async {
            tokio::time::advance(Duration::from_micros(1_500)).await;
            Err(CallError::kept("no", "NOOP: NO later"))
        };
        figures.timed("NOOP", refused).await.expect("the connection is open");
        figures.clone().timed("NOOP", async { Ok(()) }).await.expect("no failure");
        let summary = figures.summary(1.0);
        assert_eq!((summary.count, summary.failures), (2, 1));
        assert_eq!(summary.first_failure.as_deref(), Some("NOOP: NOOP: NO later"));
        assert_eq!(summary.times_us["NOOP"].max, 1_500);
        let lost = figures.timed("NOOP", async { Err(CallError::lost("connection", "NOOP: closed")) }).await;
        assert_eq!(lost.expect_err("nothing more can be sent").code, "connection");
    }

    #[test]
    fn run_without_commands_gives_valid_json() {
        let expected = "{\"seconds\":0.063,\"count\":0,\"failures\":0,\"times_us\":{}}";
        assert_eq!(text(&Measurements::default(), 0.0625), expected);
    }
}
