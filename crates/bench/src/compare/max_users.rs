//! The search for the largest number of users (`max-users`): which level is played next, whether a level meets the
//! criterion, and which limit one that does not has met.
//!
//! Pure: levels are judged by their reports and samples. [`output`] formats the result.

mod limit;
pub mod output;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::model::{Headline, Report};
use crate::report::samples::SampleValue;
use crate::report::verdict::State;
pub use limit::Limit;

/// Version of the format of a result. It is raised when a reader of the old one would misread the new one.
pub const FORMAT: u32 = 1;
/// The search ends if the distance between a number that meets the criterion and one that misses it is smaller than
/// this part of the first one.
const PARTS_OF_DISTANCE: u64 = 50;

/// What a level must meet besides the state *valid*: steady, at most 1 % errors, not overloaded, and not limited by
/// the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// The longest average response.
    pub response_mean_us_max: u64,
}

impl Criterion {
    /// Creates the criterion of a longest average response.
    pub fn new(response_mean_max: Duration) -> Self {
        Self { response_mean_us_max: crate::report::model::micros(response_mean_max) }
    }
}

/// The numbers of users that were tried.
///
/// Numbers are doubled until one misses the criterion. Then the distance to the largest one that has met it is halved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    from: u64,
    to: u64,
    /// The largest number that has met the criterion, or 0.
    low: u64,
    /// The smallest number that has missed it.
    high: Option<u64>,
}

impl Search {
    /// Begins a search. Returns `None` unless `from` is at least 1 and at most `to`.
    pub fn new(from: u64, to: u64) -> Option<Self> {
        (1 <= from && from <= to).then_some(Self { from, to, low: 0, high: None })
    }

    /// Returns the number that is tried next, or `None` if the search is over.
    pub fn next(&self) -> Option<u64> {
        match self.high {
            None if self.low == 0 => Some(self.from),
            None => (self.low < self.to).then(|| self.low.saturating_mul(2).min(self.to)),
            Some(high) => {
                let distance = high - self.low;
                let is_small = distance <= 1 || distance.saturating_mul(PARTS_OF_DISTANCE) < self.low;
                (!is_small).then(|| self.low + distance / 2)
            }
        }
    }

    /// Takes the result of the number that was tried.
    pub fn record(&mut self, users: u64, is_met: bool) {
        if is_met {
            self.low = self.low.max(users);
        } else {
            self.high = Some(self.high.map_or(users, |high| high.min(users)));
        }
    }

    /// Returns the largest number that has met the criterion.
    pub fn found(&self) -> Option<u64> {
        (self.low > 0).then_some(self.low)
    }

    /// Returns the smallest number that has missed the criterion.
    pub fn missed(&self) -> Option<u64> {
        self.high
    }
}

/// A level of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// The users, as `--users` of `run` states them.
    pub users: u64,
    /// The level meets the criterion.
    pub is_met: bool,
    /// Why it does not.
    pub reasons: Vec<String>,
    /// The limits that it has met. A level that meets the criterion has none.
    pub limits: Vec<Limit>,
    /// The state of its run.
    pub state: String,
    /// The figures of its measured interval, if there was one.
    pub headline: Option<Headline>,
    /// The directory of its report, below that of the search.
    pub report: String,
}

impl Level {
    /// Determines whether a level meets the criterion, from its report and its samples. `folder` is the name of the
    /// directory of the report.
    pub fn judge(users: u64, criterion: Criterion, report: &Report, samples: &[SampleValue], folder: &str) -> Self {
        let headline = report.headline.iter().flatten().next().cloned();
        let mut reasons = Vec::new();
        if report.state.name != State::Valid.name() {
            reasons.push(format!("the run is {}", report.state.name));
            reasons.extend(report.state.reasons.iter().map(|reason| reason.text.clone()));
        }
        let response = headline.as_ref().and_then(|headline| headline.response.as_ref());
        if let Some(response) = response.filter(|response| response.mean_us > criterion.response_mean_us_max) {
            let [mean, max] = [response.mean_us, criterion.response_mean_us_max].map(millis);
            reasons.push(format!("the average response is {mean} ms, above {max} ms"));
        }
        let is_met = reasons.is_empty();
        let limits = if is_met { Vec::new() } else { limit::limits(report, samples) };
        let state = report.state.name.clone();
        Self { users, is_met, reasons, limits, state, headline, report: folder.to_owned() }
    }

    /// Records the level in a search, unless it was stopped.
    pub fn record_in(&self, search: &mut Search) {
        if !self.is_stopped() {
            search.record(self.users, self.is_met);
        }
    }

    /// Returns a word for what became of the criterion.
    pub fn verdict(&self) -> &'static str {
        match self.is_met {
            true => "met",
            false if self.is_stopped() => "not decided",
            false => "missed",
        }
    }

    /// Returns `true` if the level was played to its end and misses the criterion.
    pub fn is_missed(&self) -> bool {
        !self.is_met && !self.is_stopped()
    }

    /// Returns `true` if the level was stopped before its end.
    fn is_stopped(&self) -> bool {
        self.state == State::BrokenOff.name()
    }

    /// Returns the figures, or the reasons why the criterion is missed, as a line.
    pub fn summary(&self) -> String {
        let response = self.headline.as_ref().and_then(|headline| headline.response.as_ref());
        match response {
            _ if !self.is_met => self.reasons.join("; "),
            Some(response) => format!("an average response of {} ms", millis(response.mean_us)),
            None => "no step made a call".to_owned(),
        }
    }
}

/// Why a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The largest number is known to 2 %, or there is none.
    Found,
    /// The largest number that may be tried meets the criterion.
    Permitted,
    /// The server has ended.
    ServerEnded,
    /// The search was stopped.
    BrokenOff,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// [`FORMAT`].
    pub format: u32,
    /// The name of the workload.
    pub workload: String,
    /// The title of the runs, with the largest number that could be tried.
    pub title: String,
    /// The command, without secrets.
    pub command: String,
    /// By how much the times of the plan were divided.
    pub speedup: f64,
    /// What a level must meet.
    pub criterion: Criterion,
    /// Why the search has ended.
    pub end: End,
    /// The largest number of users that has met the criterion.
    pub users: Option<u64>,
    /// The smallest number that has missed it.
    pub users_missed: Option<u64>,
    /// The limits that this number has met; empty if none is known.
    pub limits: Vec<Limit>,
    /// The levels in the order in which they were played.
    pub levels: Vec<Level>,
}

impl SearchResult {
    /// Takes over what a search has found.
    pub fn take(&mut self, search: &Search) {
        self.users = search.found();
        self.users_missed = search.missed();
        let missed = self.levels.iter().find(|level| Some(level.users) == search.missed());
        self.limits = missed.map(|level| level.limits.clone()).unwrap_or_default();
    }

    /// Returns the end of a search after a level in this state, or `None` if it goes on.
    pub fn end_after(search: &Search, report: &Report) -> Option<End> {
        if report.state.name == State::BrokenOff.name() {
            return Some(End::BrokenOff);
        }
        if report.state.reasons.iter().any(|reason| reason.rule == "server-ended") {
            return Some(End::ServerEnded);
        }
        match (search.next(), search.missed()) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(End::Found),
            (None, None) => Some(End::Permitted),
        }
    }

    /// Returns the exit code: 0 if a number was found, 3 if no number meets the criterion, and those of runs that have
    /// failed or were stopped.
    pub fn exit_code(&self) -> u8 {
        match (self.end, self.users) {
            (End::BrokenOff, _) => State::BrokenOff.exit_code(),
            (End::ServerEnded, _) => State::Failed.exit_code(),
            (_, Some(_)) => State::Valid.exit_code(),
            (_, None) => State::NotSteady.exit_code(),
        }
    }
}

fn millis(time_us: u64) -> String {
    format!("{:.1}", time_us as f64 / 1_000.0)
}
