//! The state of a run: whether its figures are worth anything (docs/notesbench.md, "Validity").
//!
//! Pure: [`judge`] is given the figures of a run, and returns the worst state that applies with all reasons. A figure
//! that was not measured has no rule, but without the driver's share of its cores a run is not valid.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::run::{Outcome, RunEnd};
use crate::record::histograms::{HistogramKey, HistogramSet, Phase, Subject, TimeHistogram};

/// The share of the steps of a measured interval that may fail.
pub const FAILED_SHARE_MAX: f64 = 0.01;
/// The 99th percentile of the driver's lateness.
pub const LATENESS_P99_MAX: Duration = Duration::from_millis(5);
/// The share of its cores that the driver may use.
pub const PROCESSOR_SHARE_MAX: f64 = 0.75;
/// The share of the steps due in a measured interval that end in it.
pub const ENDED_SHARE_MIN: f64 = 0.99;
/// The share by which the server's count of calls may differ from the driver's.
pub const CALLS_DIFFERENCE_MAX: f64 = 0.01;
/// The share of the steps that may be skipped.
pub const SKIPPED_SHARE_MAX: f64 = 0.01;
/// The difference between the clocks of parts.
pub const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_millis(5);
/// Maximum length of the reason of an incomplete part, in bytes. It may repeat what another machine has sent.
const REASON_BYTES_MAX: usize = 500;
/// The load of a core before the run.
pub const LOAD_BEFORE_MAX: f64 = 0.5;
/// The rule of the state *overloaded*, with which figures stand.
pub const ENDED_RULE: &str = "ended";

/// The state of a run, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The figures stand.
    Valid,
    /// The figures stand, and are those of a server that does not keep up.
    Overloaded,
    /// The figures may be those of the driver.
    NotValid,
    /// There was no steady state, or it was lost. There is no headline figure.
    NotSteady,
    /// Too many steps failed, or the server ended.
    Failed,
    /// The run was stopped, or a part is not complete.
    BrokenOff,
}

impl State {
    /// Returns the name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Overloaded => "overloaded",
            Self::NotValid => "not valid",
            Self::NotSteady => "not steady",
            Self::Failed => "failed",
            Self::BrokenOff => "broken off",
        }
    }

    /// Returns the state of a run that has ended so, if nothing else makes it worse.
    pub fn of_end(end: RunEnd) -> Self {
        match end {
            RunEnd::Complete => Self::Valid,
            RunEnd::NotSteady | RunEnd::SteadyLost => Self::NotSteady,
            RunEnd::ServerEnded => Self::Failed,
            RunEnd::BrokenOff => Self::BrokenOff,
        }
    }

    /// Returns the state of a name, or `None` if there is no such state.
    pub fn of_name(name: &str) -> Option<Self> {
        let states = [Self::Valid, Self::Overloaded, Self::NotValid, Self::NotSteady, Self::Failed, Self::BrokenOff];
        states.into_iter().find(|state| state.name() == name)
    }

    /// Returns the exit code of the program.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Valid | Self::Overloaded => 0,
            Self::NotValid | Self::NotSteady => 3,
            Self::Failed => 4,
            Self::BrokenOff => 130,
        }
    }
}

/// A rule that a run does not keep, or a warning.
#[derive(Debug, Clone, PartialEq)]
pub struct Remark {
    /// The word by which programs know the rule.
    pub rule: &'static str,
    /// The remark for people.
    pub text: String,
    /// The figure, if the rule has a limit.
    pub value: Option<f64>,
    /// The limit. Times are in microseconds.
    pub limit: Option<f64>,
    /// The users of the level that it concerns. `None` if it concerns all levels, or if the run has only one.
    pub users: Option<u64>,
}

impl Remark {
    /// Adds the level that the remark concerns, if the run has several.
    fn of_level(self, users: Option<u64>) -> Self {
        match users {
            Some(of_level) => Self { text: format!("{of_level} users: {}", self.text), users, ..self },
            None => self,
        }
    }
}

/// The state of a run with all reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The worst state that applies.
    pub state: State,
    /// Why the run is not valid, the worst first.
    pub reasons: Vec<Remark>,
    /// What a reader should know besides.
    pub warnings: Vec<Remark>,
}

/// The figures of the measured interval of a level.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LevelFigures {
    /// The users of the level, if the run has several levels.
    pub users: Option<u64>,
    /// Steps that were due.
    pub due: u64,
    /// Those of `due` that ended in the interval.
    pub ended: u64,
    /// Those of `due` that failed.
    pub failed: u64,
    /// Those of `due` that were skipped.
    pub skipped: u64,
    /// The lateness of the driver, if there was any: of several parts, that of the worst.
    pub lateness: Option<Lateness>,
    /// The share of its cores that the driver used, if it is known of each level.
    pub processor_share: Option<f64>,
}

/// How late a driver began the steps of a measured interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lateness {
    /// The 99th percentile.
    pub p99: Duration,
    /// The part that was so late, if there are several.
    pub part: Option<u64>,
}

/// The lateness of one of several parts.
///
/// Parts are judged one by one: of many parts, one that is late all the time has few of the steps of all.
#[derive(Debug, Clone, PartialEq)]
pub struct PartLateness {
    /// The number of the part.
    pub part: u64,
    /// Its lateness in all measured intervals.
    pub times: TimeHistogram,
    /// The 99th percentile in the measured interval of each level, from level 1.
    p99: Vec<Option<Duration>>,
}

impl PartLateness {
    /// Collects the lateness of a part from what it has recorded in so many levels.
    pub fn of_histograms(part: u64, histograms: &HistogramSet, levels: usize) -> Self {
        let levels = (1_u8..).take(levels).map(Phase::Measured);
        let times = histograms.sum(|key| key.subject == Subject::Lateness && key.phase != Phase::Other);
        Self { part, times, p99: levels.map(|phase| p99(&lateness(histograms, phase))).collect() }
    }

    fn of_level(&self, number: u8) -> Option<Lateness> {
        let p99 = *self.p99.get(usize::from(number).checked_sub(1)?)?;
        Some(Lateness { p99: p99?, part: Some(self.part) })
    }
}

/// Returns the part with the largest 99th percentile in all measured intervals, the first one of several.
pub fn latest_part(parts: &[PartLateness]) -> Option<&PartLateness> {
    parts.iter().rev().filter(|part| !part.times.is_empty()).max_by_key(|part| p99(&part.times))
}

/// A part that did not finish, or whose figures are missing, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncompletePart {
    /// The number of the part.
    pub part: u64,
    /// Why it is not complete.
    pub reason: String,
}

impl IncompletePart {
    /// Creates it. Only the beginning of a long reason is kept.
    pub fn new(part: u64, reason: &str) -> Self {
        Self { part, reason: reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned() }
    }
}

/// The share of its cores that the driver used in the measured intervals: the largest of all levels and parts.
#[derive(Debug, Clone, PartialEq)]
pub enum ProcessorShare {
    /// As much.
    Known(f64),
    /// It is not known of each level and part, for this reason.
    Unknown(String),
}

impl ProcessorShare {
    /// Combines the shares of levels and parts. One that is not known may be the largest.
    pub fn of_all<E: ToString>(shares: impl Iterator<Item = Result<f64, E>>) -> Self {
        let shares: Result<Vec<f64>, E> = shares.collect();
        let largest = shares.map(|shares| shares.into_iter().reduce(f64::max));
        match largest {
            Ok(Some(share)) => Self::Known(share),
            Ok(None) => Self::Unknown("no measured interval has ended".to_owned()),
            Err(reason) => Self::Unknown(reason.to_string()),
        }
    }

    /// Returns the share, if it is known.
    pub fn share(&self) -> Option<f64> {
        match self {
            Self::Known(share) => Some(*share),
            Self::Unknown(_) => None,
        }
    }

    /// Returns why the share is not known.
    pub fn missing(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Unknown(reason) => Some(reason),
        }
    }
}

impl Default for ProcessorShare {
    fn default() -> Self {
        Self::Unknown("it was not observed".to_owned())
    }
}

/// The figures of the driver and of the machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DriverFigures {
    /// Parts that are not complete.
    pub incomplete: Vec<IncompletePart>,
    /// The share of its cores that the driver used.
    pub processor_share: ProcessorShare,
    /// The share in the measured interval of each level, from level 1. Empty if one of them is not known.
    pub level_shares: Vec<Option<f64>>,
    /// The driver has reached its limit of open files.
    pub is_out_of_files: bool,
    /// The lateness of each part, if there are several.
    pub lateness: Vec<PartLateness>,
    /// Requests that the driver counted.
    pub calls: u64,
    /// Requests that the server counted.
    pub server_calls: Option<u64>,
    /// By how much the clocks of two parts may differ.
    pub clock_difference: Option<Duration>,
    /// The machine has swapped.
    pub has_swapped: bool,
    /// The load of the machine before the run, divided by its cores.
    pub load_before: Option<f64>,
}

/// The figures from which the state of a run follows.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFigures {
    /// Why the run ended.
    pub end: RunEnd,
    /// The users of the level in which it ended, if it has several levels.
    pub end_users: Option<u64>,
    /// The levels that had a measured interval.
    pub levels: Vec<LevelFigures>,
    /// Times that were above the maximum of histograms.
    pub cut: u64,
    /// The driver and the machine.
    pub driver: DriverFigures,
}

impl RunFigures {
    /// Collects the figures of a run.
    pub fn of_outcome<W>(outcome: &Outcome<W>, driver: DriverFigures) -> Self {
        let measured = outcome.levels.iter().zip(1_u8..).filter(|(level, _)| level.times.measured.is_some());
        let has_several_levels = outcome.levels.len() > 1;
        let levels = measured.map(|(level, number)| {
            let phase = Phase::Measured(number);
            let counts = outcome.recording.counts.sum(phase);
            let alone = || Some(Lateness { p99: p99(&lateness(&outcome.recording.histograms, phase))?, part: None });
            let of_parts = driver.lateness.iter().rev().filter_map(|part| part.of_level(number));
            LevelFigures {
                users: has_several_levels.then_some(level.users),
                due: counts.due,
                ended: counts.ended,
                failed: counts.failed,
                skipped: counts.skipped,
                lateness: if driver.lateness.is_empty() { alone() } else { of_parts.max_by_key(|one| one.p99) },
                processor_share: driver.level_shares.get(usize::from(number) - 1).copied().flatten(),
            }
        });
        let levels = levels.collect();
        let end_users = outcome.levels.last().filter(|_| has_several_levels).map(|level| level.users);
        Self { end: outcome.end, end_users, levels, cut: outcome.recording.histograms.cut(), driver }
    }
}

/// Returns the lateness in a phase.
fn lateness(histograms: &HistogramSet, phase: Phase) -> TimeHistogram {
    histograms.sum(|key| *key == HistogramKey { subject: Subject::Lateness, phase })
}

fn p99(times: &TimeHistogram) -> Option<Duration> {
    times.percentile_us(99.0).map(Duration::from_micros)
}

/// Determines the state of a run, and lists the reasons and warnings.
pub fn judge(figures: &RunFigures) -> Verdict {
    let mut reasons = end_reasons(figures);
    reasons.extend(figures.levels.iter().flat_map(level_reasons));
    reasons.extend(driver_reasons(figures));
    reasons.sort_by_key(|(state, _)| std::cmp::Reverse(*state));
    Verdict {
        state: reasons.first().map_or(State::Valid, |(state, _)| *state),
        reasons: reasons.into_iter().map(|(_, remark)| remark).collect(),
        warnings: warnings(figures),
    }
}

fn end_reasons(figures: &RunFigures) -> Vec<(State, Remark)> {
    let of_part = |IncompletePart { part, reason }: &IncompletePart| {
        (State::BrokenOff, remark("parts", format!("part {part} is not complete: {reason}")))
    };
    let mut reasons: Vec<_> = figures.driver.incomplete.iter().map(of_part).collect();
    let of_end = match figures.end {
        RunEnd::Complete => None,
        RunEnd::NotSteady => Some(remark("steady", "no steady state within the limit of time")),
        RunEnd::SteadyLost => Some(remark("steady-lost", "users were disconnected in the measured interval")),
        RunEnd::ServerEnded => Some(remark("server-ended", "the server ended during the run")),
        RunEnd::BrokenOff => Some(remark("stopped", "the run was stopped")),
    };
    let of_end = of_end.map(|remark| remark.of_level(figures.end_users));
    reasons.extend(of_end.map(|remark| (State::of_end(figures.end), remark)));
    reasons
}

fn level_reasons(level: &LevelFigures) -> Vec<(State, Remark)> {
    let mut reasons = Vec::new();
    let failed = share(level.failed, level.due);
    if failed > FAILED_SHARE_MAX {
        let text = format!("{:.2} % of the steps failed", 100.0 * failed);
        reasons.push((State::Failed, limited("errors", text, failed, FAILED_SHARE_MAX)));
    }
    if let Some(used) = level.processor_share.filter(|used| *used > PROCESSOR_SHARE_MAX) {
        reasons.push((State::NotValid, processor_remark(used)));
    }
    if let Some(Lateness { p99, part }) = level.lateness.filter(|lateness| lateness.p99 > LATENESS_P99_MAX) {
        let driver = part.map_or_else(|| "the driver".to_owned(), |part| format!("part {part}"));
        let text = format!("{driver} began 1 % of the steps {:.1} ms late or later", millis(p99));
        let remark = limited("lateness", text, micros(p99), micros(LATENESS_P99_MAX));
        reasons.push((State::NotValid, remark));
    }
    let ended = 1.0 - share(level.due.saturating_sub(level.ended), level.due);
    if ended < ENDED_SHARE_MIN {
        let text = format!("{:.2} % of the steps due in the measured interval ended in it", 100.0 * ended);
        reasons.push((State::Overloaded, limited(ENDED_RULE, text, ended, ENDED_SHARE_MIN)));
    }
    reasons.into_iter().map(|(state, remark)| (state, remark.of_level(level.users))).collect()
}

fn processor_remark(used: f64) -> Remark {
    let text = format!("the driver used {:.0} % of its cores", 100.0 * used);
    limited("processor", text, used, PROCESSOR_SHARE_MAX)
}

fn driver_reasons(figures: &RunFigures) -> Vec<(State, Remark)> {
    let mut reasons = Vec::new();
    match &figures.driver.processor_share {
        // If the shares of the levels are known, each level has its own reason.
        ProcessorShare::Known(used) if *used > PROCESSOR_SHARE_MAX && figures.driver.level_shares.is_empty() => {
            reasons.push((State::NotValid, processor_remark(*used)));
        }
        // Without the end of the measured interval, the run has a worse state.
        ProcessorShare::Unknown(reason) if !figures.levels.is_empty() && figures.end < RunEnd::ServerEnded => {
            let text = format!("how much of its cores the driver used is not known: {reason}");
            reasons.push((State::NotValid, remark("processor-unknown", text)));
        }
        _ => {}
    }
    if figures.cut > 0 {
        let text = format!("{} times were longer than an hour and were cut", figures.cut);
        reasons.push((State::NotValid, limited("cut", text, figures.cut as f64, 0.0)));
    }
    if figures.driver.is_out_of_files {
        reasons.push((State::NotValid, remark("open-files", "the driver reached its limit of open files")));
    }
    reasons
}

fn warnings(figures: &RunFigures) -> Vec<Remark> {
    let driver = &figures.driver;
    let mut warnings = Vec::new();
    if let Some(server_calls) = driver.server_calls {
        let difference = share(driver.calls.abs_diff(server_calls), driver.calls.max(1));
        if difference > CALLS_DIFFERENCE_MAX {
            let text = format!("the driver counted {} calls and the server {server_calls}", driver.calls);
            warnings.push(limited("calls", text, difference, CALLS_DIFFERENCE_MAX));
        }
    }
    for level in &figures.levels {
        let skipped = share(level.skipped, level.due);
        if skipped > SKIPPED_SHARE_MAX {
            let text = format!("{:.2} % of the steps were skipped for want of a document", 100.0 * skipped);
            warnings.push(limited("skipped", text, skipped, SKIPPED_SHARE_MAX).of_level(level.users));
        }
        if level.due == 0 {
            let text = "no step was due in the measured interval, so that there is neither response nor NotesMark";
            warnings.push(remark("no-steps", text).of_level(level.users));
        }
    }
    if let Some(difference) = driver.clock_difference.filter(|difference| *difference > CLOCK_DIFFERENCE_MAX) {
        let text = format!("the clocks of two parts may differ by {:.1} ms", millis(difference));
        warnings.push(limited("clocks", text, micros(difference), micros(CLOCK_DIFFERENCE_MAX)));
    }
    if driver.has_swapped {
        warnings.push(remark("swap", "the machine swapped"));
    }
    if let Some(load) = driver.load_before.filter(|load| *load > LOAD_BEFORE_MAX) {
        let text = format!("the load before the run was {load:.2} a core");
        warnings.push(limited("load", text, load, LOAD_BEFORE_MAX));
    }
    warnings
}

/// Returns the share of a part, or 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn micros(time: Duration) -> f64 {
    time.as_micros() as f64
}

fn millis(time: Duration) -> f64 {
    micros(time) / 1_000.0
}

fn remark(rule: &'static str, text: impl Into<String>) -> Remark {
    Remark { rule, text: text.into(), value: None, limit: None, users: None }
}

fn limited(rule: &'static str, text: String, value: f64, limit: f64) -> Remark {
    Remark { rule, text, value: Some(value), limit: Some(limit), users: None }
}
