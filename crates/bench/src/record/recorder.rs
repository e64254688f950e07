//! The recorder: sets of histograms and counts that users record into, merged at the borders of samples.
//!
//! Users are distributed by number over [`Shard`]s, as many as there are worker threads, so two threads rarely wait for
//! each other. At a border [`Recorder::border`] takes what each shard has, adds it to the totals, and appends the
//! histograms to the log. A shard is locked only while two sets are exchanged.
//!
//! A step belongs to a measured interval if its intended time is in it. [`Recorder::measure`] must therefore be called
//! before the interval begins: a step that was recorded earlier keeps its phase.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base::sync::Mutex;
use serde::{Deserialize, Serialize};

use super::counters::{CountSet, ErrorCounts};
use super::histograms::{Action, HistogramKey, HistogramSet, Kind, Phase, Subject};
use super::log::HistogramLog;

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepResult {
    /// The step ended without an error.
    Completed {
        /// Requests on the wire. A step without any has no times.
        calls: u32,
        /// The weight of the verb.
        transactions: u32,
        /// Connections that had to be opened again.
        reopened: u32,
    },
    /// There was no document for the step.
    Skipped {
        /// Requests on the wire.
        calls: u32,
        /// Connections that had to be opened again.
        reopened: u32,
    },
    /// The step failed.
    Failed {
        /// Requests on the wire.
        calls: u32,
        /// Connections that had to be opened again.
        reopened: u32,
        /// The code under which the error is counted.
        code: Cow<'static, str>,
        /// The error as the server or the driver worded it.
        text: String,
    },
}

/// A step that has ended. Times count from the start signal of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRecord {
    /// Verb and class.
    pub action: Action,
    /// When the step was due.
    pub intended: Duration,
    /// When it began.
    pub started: Duration,
    /// When the last byte of its last answer had come.
    pub ended: Duration,
    /// What became of it.
    pub result: StepResult,
}

/// A sample: what ended between two borders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The borders, from the start signal.
    pub interval: Range<Duration>,
    /// Steps that ended, with or without an error. Skipped steps are not among them.
    pub steps_ended: u64,
    /// Steps that failed.
    pub steps_failed: u64,
    /// Transactions of the steps that ended without an error.
    pub transactions: u64,
    /// The mean response of the steps that made calls, in microseconds.
    pub response_mean_us: Option<f64>,
}

/// Everything that was recorded since the start signal, or in one sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recording {
    /// Times.
    pub histograms: HistogramSet,
    /// Steps, calls and transactions.
    pub counts: CountSet,
    /// Errors by verb and code.
    pub errors: ErrorCounts,
}

impl Recording {
    /// Adds what was recorded elsewhere.
    pub fn merge(&mut self, other: &Self) {
        self.histograms.merge(&other.histograms);
        self.counts.merge(&other.counts);
        self.errors.merge(&other.errors);
    }

    fn clear(&mut self) {
        self.histograms.clear();
        self.counts.clear();
        self.errors.clear();
    }
}

/// The set into which some of the users record.
#[derive(Debug, Default)]
pub struct Shard {
    state: Mutex<ShardState>,
}

#[derive(Debug, Default)]
struct ShardState {
    recording: Recording,
    sample: SampleCounts,
    /// The measured intervals of the levels, in order.
    measured: Vec<Range<Duration>>,
}

/// The counts of a sample that do not depend on verb, class and phase.
#[derive(Debug, Clone, Copy, Default)]
struct SampleCounts {
    ended: u64,
    failed: u64,
    transactions: u64,
}

impl Shard {
    /// Records a step that has ended.
    pub fn record(&self, step: &StepRecord) {
        let mut state = self.state.lock();
        let due_phase = state.phase(step.intended);
        let end_phase = state.phase(step.ended);
        let due = state.recording.counts.entry(step.action, due_phase);
        due.due += 1;
        due.ended += u64::from(due_phase == end_phase);
        match step.result {
            StepResult::Completed { .. } => {}
            StepResult::Skipped { .. } => due.skipped += 1,
            StepResult::Failed { .. } => due.failed += 1,
        }
        state.record_end(step, end_phase);
        state.record_times(step, due_phase);
    }

    /// Records the calls of a logout between two iterations. It is no step, so they count as those of logins.
    pub fn record_logout(&self, log_in: Action, ended: Duration, calls: u32) {
        let mut state = self.state.lock();
        let phase = state.phase(ended);
        state.recording.counts.entry(log_in, phase).calls += u64::from(calls);
    }

    /// Records a step that was due and had not begun when the run ended. The time for which it had waited counts as its
    /// response.
    pub fn record_not_begun(&self, action: Action, intended: Duration, run_end: Duration) {
        let mut state = self.state.lock();
        let phase = state.phase(intended);
        let counts = state.recording.counts.entry(action, phase);
        counts.due += 1;
        counts.not_begun += 1;
        let key = HistogramKey { subject: Subject::Steps(action, Kind::Response), phase };
        state.recording.histograms.record(key, run_end.saturating_sub(intended));
    }

    /// Records how late the driver began a step whose user was idle.
    pub fn record_lateness(&self, intended: Duration, lateness: Duration) {
        let mut state = self.state.lock();
        let phase = state.phase(intended);
        state.recording.histograms.record(HistogramKey { subject: Subject::Lateness, phase }, lateness);
    }
}

impl ShardState {
    fn phase(&self, time: Duration) -> Phase {
        let level = self.measured.iter().position(|interval| interval.contains(&time));
        level.map_or(Phase::Other, level_phase)
    }

    fn record_end(&mut self, step: &StepRecord, phase: Phase) {
        let counts = self.recording.counts.entry(step.action, phase);
        let (StepResult::Completed { calls, reopened, .. }
        | StepResult::Skipped { calls, reopened }
        | StepResult::Failed { calls, reopened, .. }) = &step.result;
        counts.calls += u64::from(*calls);
        counts.reopened += u64::from(*reopened);
        match &step.result {
            StepResult::Completed { calls, transactions, .. } => {
                let transactions = u64::from(*transactions);
                counts.completed += 1;
                counts.transactions += transactions;
                counts.transactions_without_call += if *calls == 0 { transactions } else { 0 };
                self.sample.ended += 1;
                self.sample.transactions += transactions;
            }
            StepResult::Skipped { .. } => {}
            StepResult::Failed { code, text, .. } => {
                self.sample.ended += 1;
                self.sample.failed += 1;
                self.recording.errors.record(step.action.verb, code, text);
            }
        }
    }

    fn record_times(&mut self, step: &StepRecord, phase: Phase) {
        let key = |kind| HistogramKey { subject: Subject::Steps(step.action, kind), phase };
        let response = step.ended.saturating_sub(step.intended);
        let histograms = &mut self.recording.histograms;
        match step.result {
            StepResult::Completed { calls: 0, .. } | StepResult::Skipped { .. } => {}
            StepResult::Completed { .. } => {
                histograms.record(key(Kind::Response), response);
                histograms.record(key(Kind::Service), step.ended.saturating_sub(step.started));
            }
            StepResult::Failed { .. } => histograms.record(key(Kind::Failed), response),
        }
    }
}

fn level_phase(index: usize) -> Phase {
    Phase::Measured(u8::try_from(index + 1).unwrap_or(u8::MAX))
}

/// The shards, the totals, and the log. `W` is the file of the log.
pub struct Recorder<W> {
    shards: Vec<Arc<Shard>>,
    totals: Recording,
    /// What is taken out of a shard at a border. It is empty between borders.
    taken: Recording,
    log: HistogramLog<W>,
    last_border: Duration,
}

impl<W: Write> Recorder<W> {
    /// Creates a recorder with as many shards as there are worker threads, at least one.
    pub fn new(workers: usize, log: HistogramLog<W>) -> Self {
        let shards = (0..workers.max(1)).map(|_| Arc::default()).collect();
        Self { shards, totals: Recording::default(), taken: Recording::default(), log, last_border: Duration::ZERO }
    }

    /// Returns the shard of a user.
    pub fn shard(&self, user: u64) -> Arc<Shard> {
        let count = self.shards.len() as u64;
        Arc::clone(&self.shards[(user % count) as usize])
    }

    /// Sets the measured interval of the next level. It must begin in the future.
    pub fn measure(&mut self, interval: &Range<Duration>) {
        assert!(interval.start >= self.last_border, "the steps of a closed sample have their phase");
        for shard in &self.shards {
            shard.state.lock().measured.push(interval.clone());
        }
    }

    /// Closes the sample that ends at `border`: empties the shards, adds to the totals, and appends to the log.
    ///
    /// A step that ended at the border may be in either of the two samples.
    ///
    /// # Errors
    ///
    /// If the log cannot be written. The totals are complete nevertheless.
    pub fn border(&mut self, border: Duration) -> io::Result<Sample> {
        let interval = self.last_border..border;
        self.last_border = border;
        let mut merged = Recording::default();
        let mut sample = SampleCounts::default();
        for shard in &self.shards {
            let mut state = shard.state.lock();
            std::mem::swap(&mut state.recording, &mut self.taken);
            let counts = std::mem::take(&mut state.sample);
            drop(state);
            sample.ended += counts.ended;
            sample.failed += counts.failed;
            sample.transactions += counts.transactions;
            merged.merge(&self.taken);
            self.taken.clear();
        }
        self.totals.merge(&merged);
        let is_response = |key: &HistogramKey| matches!(key.subject, Subject::Steps(_, Kind::Response));
        let sample = Sample {
            interval: interval.clone(),
            steps_ended: sample.ended,
            steps_failed: sample.failed,
            transactions: sample.transactions,
            response_mean_us: merged.histograms.sum(is_response).mean_us(),
        };
        self.log.append(&interval, &merged.histograms)?;
        Ok(sample)
    }

    /// Returns the memory of all histograms in bytes.
    pub fn memory_bytes(&self) -> usize {
        let shards = self.shards.iter().map(|shard| shard.state.lock().recording.histograms.memory_bytes());
        shards.sum::<usize>() + self.totals.histograms.memory_bytes() + self.taken.histograms.memory_bytes()
    }

    /// Returns the totals and the file of the log, after the last border.
    ///
    /// # Errors
    ///
    /// If the log cannot be written.
    pub fn finish(self) -> io::Result<(Recording, W)> {
        Ok((self.totals, self.log.finish()?))
    }
}
