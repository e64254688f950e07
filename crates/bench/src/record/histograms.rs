//! Histograms of times, and the keys under which they are kept.
//!
//! A histogram has three significant digits, from 1 µs to 1 h: a value read from it differs from the recorded one by
//! less than 0.1 %. Longer times are recorded as 1 h and counted, because a report must not hide them.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that a histogram holds, in microseconds.
pub const TIME_US_MAX: u64 = 3_600_000_000;
/// The significant digits of all histograms.
pub const DIGITS: u8 = 3;

/// The number of a verb in the list of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerbIndex(pub u16);

/// The number of a user class in the list of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIndex(pub u16);

/// A verb of a user class: the unit in which steps are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action {
    /// The verb.
    pub verb: VerbIndex,
    /// The class of the user.
    pub class: ClassIndex,
}

/// Which time of a step is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// From the intended time to the end, of steps that made calls and of steps that did not begin.
    Response,
    /// From the real start to the end, of steps that made calls.
    Service,
    /// From the intended time to the end, of steps that failed.
    Failed,
}

/// What the times of a histogram belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The steps of a verb and class.
    Steps(Action, Kind),
    /// The lateness of the driver.
    Lateness,
}

/// The phase to which a time belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Outside of all measured intervals.
    Other,
    /// In the measured interval of a level. Levels are counted from 1.
    Measured(u8),
}

/// The key of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistogramKey {
    /// The verb, class and kind, or the lateness.
    pub subject: Subject,
    /// The phase.
    pub phase: Phase,
}

/// A histogram of times.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeHistogram {
    counts: Histogram<u64>,
}

impl Default for TimeHistogram {
    fn default() -> Self {
        Self { counts: Histogram::new(DIGITS).expect("three digits are permitted") }
    }
}

impl TimeHistogram {
    /// Takes a histogram that was read. Returns `None` if its digits or its values are not those of this type.
    pub fn from_counts(counts: &Histogram<u64>) -> Option<Self> {
        let mut times = Self::default();
        let is_same_kind = counts.sigfig() == DIGITS && counts.low() == 1;
        if !is_same_kind || counts.max() > counts.highest_equivalent(TIME_US_MAX) {
            return None;
        }
        times.counts.add(counts).ok()?;
        Some(times)
    }

    /// Records a time. Returns `true` if it was above the maximum and has been cut.
    pub fn record(&mut self, time: Duration) -> bool {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.counts.record(time_us.min(TIME_US_MAX)).expect("the histogram grows to its maximum");
        time_us > TIME_US_MAX
    }

    /// Adds the times of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("the histogram grows to the maximum of both");
    }

    /// Deletes all times, and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.reset();
    }

    /// Returns `true` if no time is recorded.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Returns the mean in microseconds, or `None` without any time.
    pub fn mean_us(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.counts.mean())
    }

    /// Returns the smallest value, in microseconds, that at least this percentage of the times does not exceed, or
    /// `None` without any time.
    pub fn percentile_us(&self, percentile: f64) -> Option<u64> {
        (!self.is_empty()).then(|| self.counts.value_at_percentile(percentile))
    }

    /// Returns the largest time in microseconds, or `None` without any time.
    pub fn max_us(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.counts.max())
    }

    /// Returns the memory of the counts in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.counts.distinct_values() * size_of::<u64>()
    }

    /// Returns the counts.
    pub fn counts(&self) -> &Histogram<u64> {
        &self.counts
    }
}

/// Histograms by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistogramSet {
    by_key: BTreeMap<HistogramKey, TimeHistogram>,
    /// The number of times that were above the maximum.
    cut: u64,
}

impl HistogramSet {
    /// Records a time.
    pub fn record(&mut self, key: HistogramKey, time: Duration) {
        let was_cut = self.by_key.entry(key).or_default().record(time);
        self.cut += u64::from(was_cut);
    }

    /// Adds a histogram.
    pub fn add(&mut self, key: HistogramKey, times: &TimeHistogram) {
        self.by_key.entry(key).or_default().add(times);
    }

    /// Adds all histograms of another set.
    pub fn merge(&mut self, other: &Self) {
        for (key, times) in other.iter() {
            self.add(key, times);
        }
        self.cut += other.cut;
    }

    /// Deletes all times, and keeps the memory.
    pub fn clear(&mut self) {
        self.by_key.values_mut().for_each(TimeHistogram::clear);
        self.cut = 0;
    }

    /// Returns the histograms that have times, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (HistogramKey, &TimeHistogram)> {
        self.by_key.iter().filter(|(_, times)| !times.is_empty()).map(|(key, times)| (*key, times))
    }

    /// Returns the sum of the histograms whose key satisfies a condition.
    pub fn sum(&self, condition: impl Fn(&HistogramKey) -> bool) -> TimeHistogram {
        let mut sum = TimeHistogram::default();
        self.iter().filter(|(key, _)| condition(key)).for_each(|(_, times)| sum.add(times));
        sum
    }

    /// Returns the memory of all counts in bytes, of histograms without times, too.
    pub fn memory_bytes(&self) -> usize {
        self.by_key.values().map(TimeHistogram::memory_bytes).sum()
    }

    /// Adds times that were above the maximum in another part.
    pub fn add_cut(&mut self, count: u64) {
        self.cut = self.cut.saturating_add(count);
    }

    /// Returns the number of times that were above the maximum.
    pub fn cut(&self) -> u64 {
        self.cut
    }
}
