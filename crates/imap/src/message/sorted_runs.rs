//! Sorting in slices: short runs of records, which are merged in the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::limits::SLICE_MESSAGES;

/// Records that are sorted in slices.
#[derive(Debug)]
pub struct SortedRuns<T> {
    /// The records that were added last.
    unsorted: Vec<T>,
    /// Runs of sorted records, the last record first.
    runs: Vec<Vec<T>>,
    /// The next record of each run, with the index of the run.
    heads: BinaryHeap<Reverse<(T, usize)>>,
}

impl<T: Ord> Default for SortedRuns<T> {
    fn default() -> Self {
        Self { unsorted: Vec::new(), runs: Vec::new(), heads: BinaryHeap::new() }
    }
}

impl<T: Ord> SortedRuns<T> {
    /// Adds a record.
    pub fn add(&mut self, record: T) {
        self.unsorted.push(record);
        if self.unsorted.len() >= SLICE_MESSAGES {
            self.end_run();
        }
    }

    /// Ends the addition of records.
    pub fn end(&mut self) {
        self.end_run();
        for (index, run) in self.runs.iter_mut().enumerate() {
            self.heads.extend(run.pop().map(|record| Reverse((record, index))));
        }
    }

    /// Removes the first of the remaining records.
    pub fn pop_first(&mut self) -> Option<T> {
        let Reverse((record, index)) = self.heads.pop()?;
        let next = self.runs.get_mut(index).and_then(Vec::pop);
        self.heads.extend(next.map(|record| Reverse((record, index))));
        Some(record)
    }

    /// Sorts the records that were added last.
    pub(super) fn end_run(&mut self) {
        let mut run = std::mem::take(&mut self.unsorted);
        run.sort_unstable_by(|a, b| b.cmp(a));
        self.runs.push(run);
    }
}
