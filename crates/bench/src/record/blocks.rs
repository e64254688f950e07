//! The blocks of a measured interval, whose means give the spread of the mean of the whole (docs/notesbench.md,
//! "Comparisons").
//!
//! A block is a twelfth of the measured interval and has whole samples. A step belongs to the block of the sample in
//! which it ended; steps that ended after the interval belong to the last block.

use std::array;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::histograms::{Phase, TimeHistogram};
use super::log::{LoggedHistogram, TagSubject};

/// The number of blocks of a measured interval.
pub const BLOCKS: usize = 12;

/// The histograms of the blocks of one measured interval.
#[derive(Debug)]
pub struct Blocks {
    phase: Phase,
    start: Duration,
    length: Duration,
    by_subject: BTreeMap<TagSubject, [TimeHistogram; BLOCKS]>,
}

impl Blocks {
    /// Creates empty blocks of the measured interval of a level.
    ///
    /// # Panics
    ///
    /// If the interval has less than 12 nanoseconds.
    pub fn new(level: u8, interval: &Range<Duration>) -> Self {
        let length = (interval.end - interval.start) / BLOCKS as u32;
        assert!(!length.is_zero(), "a block has a length");
        Self { phase: Phase::Measured(level), start: interval.start, length, by_subject: BTreeMap::new() }
    }

    /// Adds a histogram of the log. Those of other phases and levels are ignored.
    pub fn add(&mut self, logged: &LoggedHistogram) {
        if logged.tag.phase != self.phase {
            return;
        }
        let index = logged.sample.start.saturating_sub(self.start).as_nanos() / self.length.as_nanos();
        let index = usize::try_from(index).unwrap_or(usize::MAX).min(BLOCKS - 1);
        let blocks = self.by_subject.entry(logged.tag.subject.clone()).or_default();
        blocks[index].add(&logged.times);
    }

    /// Returns the mean of each block in microseconds, over the subjects that satisfy a condition. The mean of a block
    /// without times is `None`.
    pub fn means_us(&self, condition: impl Fn(&TagSubject) -> bool) -> [Option<f64>; BLOCKS] {
        let mut sums: [TimeHistogram; BLOCKS] = array::from_fn(|_| TimeHistogram::default());
        for (_, blocks) in self.by_subject.iter().filter(|(subject, _)| condition(subject)) {
            sums.iter_mut().zip(blocks).for_each(|(sum, block)| sum.add(block));
        }
        sums.each_ref().map(TimeHistogram::mean_us)
    }

    /// Returns the times of all blocks, over the subjects that satisfy a condition.
    pub fn sum(&self, condition: impl Fn(&TagSubject) -> bool) -> TimeHistogram {
        let mut sum = TimeHistogram::default();
        let chosen = self.by_subject.iter().filter(|(subject, _)| condition(subject));
        chosen.flat_map(|(_, blocks)| blocks).for_each(|block| sum.add(block));
        sum
    }
}
