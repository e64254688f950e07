//! The comparison of stored runs: baseline, new and change of each row and verb (docs/notesbench.md, "Comparisons").
//!
//! The mean of a figure is that of the report, and that of a response is computed from the histograms. Its spread is
//! that of the 12 blocks of the measured interval. Without a spread on both sides, a difference is not judged.

mod differences;
mod figures;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::statistics::{Difference, Spread, difference};
use crate::report::model::Phases;
use crate::report::stored::StoredReport;
use crate::report::verdict::State;
pub use figures::{Figure, NamedFigure, of_level as figures_of_level};

/// Version of the JSON object. It is raised when a reader of the old one would misread the new one.
const FORMAT: u32 = 1;
/// Maximum number of runs beside each other.
pub const RUNS_MAX: usize = 16;

/// A run that is compared.
#[derive(Debug)]
pub struct ComparedRun {
    /// The directory of its report.
    pub folder: PathBuf,
    /// The report.
    pub stored: StoredReport,
}

/// Whether runs without a valid state are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidRuns {
    /// They are refused.
    Refused,
    /// They are compared, with a remark.
    Compared,
}

/// Why runs are not compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too few or too many runs.
    #[error("{0} runs: a comparison has 2 to {RUNS_MAX}")]
    Count(usize),
    /// The weights of transactions differ.
    #[error("{run} has version {version} of the weights of transactions, and the baseline has {baseline}")]
    Weights {
        /// The directory of the run.
        run: String,
        /// Its version.
        version: u32,
        /// The version of the baseline.
        baseline: u32,
    },
    /// A run has no figures that stand.
    #[error("{run} is {state}; --anyway compares it nevertheless")]
    Invalid {
        /// The directory of the run.
        run: String,
        /// Its state.
        state: String,
    },
}

/// Runs beside each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    format: u32,
    /// The baseline, and the new runs in their order.
    pub runs: Vec<RunLabel>,
    /// What a reader should know before reading the figures.
    pub remarks: Vec<String>,
    /// The levels of the baseline.
    pub levels: Vec<ComparedLevel>,
}

/// What identifies a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunLabel {
    /// `baseline`, `new`, or `new 1` and so on.
    pub label: String,
    /// The directory.
    pub folder: String,
    /// The title.
    pub title: String,
    /// The state.
    pub state: String,
    /// When the run began.
    pub started: String,
    /// The commit of the driver.
    pub commit: String,
    /// The digest of the plan.
    pub plan: String,
}

/// A level of the baseline beside those of the new runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedLevel {
    /// The users of each run; `None` of one that has no such level.
    pub users: Vec<Option<u64>>,
    /// The figures.
    pub rows: Vec<ComparedRow>,
}

/// A figure of all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRow {
    /// Its name: that of a row, or `VERB (CLASS)`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// The figure of the baseline, if it has one.
    pub baseline: Option<Figure>,
    /// The figures of the new runs.
    pub new: Vec<NewFigure>,
}

/// A figure of a new run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewFigure {
    /// The figure, if the run has one.
    pub figure: Option<Figure>,
    /// By how many percent of the baseline it differs; `None` if one is missing or the baseline is 0.
    pub change_percent: Option<f64>,
    /// What the difference is worth.
    pub judgement: Judgement,
}

/// What a difference is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The difference is within the spread.
    None,
    /// The figures differ.
    Differs,
    /// A figure or a spread is missing.
    NotJudged,
}

/// Compares runs with the first of them.
///
/// # Errors
///
/// If there are fewer than two runs or more than [`RUNS_MAX`], if the weights of transactions differ, or if a run has
/// no valid state and such runs are refused.
pub fn compare(runs: &[ComparedRun], invalid: InvalidRuns) -> Result<Comparison, Refusal> {
    let Some((baseline, new)) = runs.split_first().filter(|(_, new)| !new.is_empty() && runs.len() <= RUNS_MAX) else {
        return Err(Refusal::Count(runs.len()));
    };
    for run in new {
        check_weights(baseline, run)?;
    }
    if invalid == InvalidRuns::Refused {
        runs.iter().try_for_each(check_state)?;
    }
    let labels: Vec<RunLabel> = (0..).zip(runs).map(|(index, run)| label(index, runs.len(), run)).collect();
    let mut remarks: Vec<String> =
        labels.iter().zip(runs).filter_map(|(label, run)| state_remark(label, run)).collect();
    for (label, run) in labels[1..].iter().zip(new) {
        let found = differences::differences(&baseline.stored, &run.stored);
        remarks
            .extend(found.into_iter().map(|difference| format!("{} and baseline differ: {difference}", label.label)));
    }
    let baseline_levels = baseline.stored.report.phases.iter().enumerate();
    let levels = baseline_levels.map(|(index, phases)| compare_level(runs, index, phases)).collect();
    Ok(Comparison { format: FORMAT, runs: labels, remarks, levels })
}

fn check_weights(baseline: &ComparedRun, run: &ComparedRun) -> Result<(), Refusal> {
    let baseline = baseline.stored.report.run.transactions_version;
    let version = run.stored.report.run.transactions_version;
    if version == baseline {
        return Ok(());
    }
    Err(Refusal::Weights { run: run.folder.display().to_string(), version, baseline })
}

fn check_state(run: &ComparedRun) -> Result<(), Refusal> {
    let state = &run.stored.report.state.name;
    let stands = [State::Valid, State::Overloaded].iter().any(|known| known.name() == state);
    if stands {
        return Ok(());
    }
    Err(Refusal::Invalid { run: run.folder.display().to_string(), state: state.clone() })
}

fn label(index: usize, runs: usize, run: &ComparedRun) -> RunLabel {
    let label = match index {
        0 => "baseline".to_owned(),
        1 if runs == 2 => "new".to_owned(),
        number => format!("new {number}"),
    };
    let report = &run.stored.report;
    RunLabel {
        label,
        folder: run.folder.display().to_string(),
        title: report.title.clone(),
        state: report.state.name.clone(),
        started: report.run.started.clone(),
        commit: report.run.commit.clone(),
        plan: report.run.plan.clone(),
    }
}

/// Returns the line about a run that is not valid.
fn state_remark(label: &RunLabel, run: &ComparedRun) -> Option<String> {
    let state = &run.stored.report.state;
    let reasons: Vec<&str> = state.reasons.iter().map(|reason| reason.text.as_str()).collect();
    let is_valid = state.name == State::Valid.name();
    (!is_valid).then(|| format!("{} is {}: {}", label.label, state.name, reasons.join("; ")))
}

/// Returns the number of the level of a run that is compared with a level of the baseline: the one with as many users,
/// or the only one if both runs have one level.
fn matching_level(run: &ComparedRun, baseline: &Phases, levels: usize) -> Option<usize> {
    let phases = &run.stored.report.phases;
    let same = phases.iter().position(|phases| phases.users == baseline.users);
    same.or_else(|| (levels == 1 && phases.len() == 1).then_some(0))
}

fn compare_level(runs: &[ComparedRun], index: usize, baseline: &Phases) -> ComparedLevel {
    let levels = runs[0].stored.report.phases.len();
    let new_levels = runs[1..].iter().map(|run| matching_level(run, baseline, levels));
    let numbers: Vec<Option<usize>> = [Some(index)].into_iter().chain(new_levels).collect();
    let figures: Vec<Vec<NamedFigure>> = runs
        .iter()
        .zip(&numbers)
        .map(|(run, number)| number.map(|number| figures::of_level(&run.stored, number)).unwrap_or_default())
        .collect();
    let users = runs.iter().zip(&numbers).map(|(run, number)| Some(run.stored.report.phases[(*number)?].users));
    ComparedLevel { users: users.collect(), rows: compare_figures(&figures) }
}

/// Compares the figures of all runs. Those that the baseline does not have follow at the end.
fn compare_figures(runs: &[Vec<NamedFigure>]) -> Vec<ComparedRow> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for figure in runs.iter().flatten() {
        let name = (figure.name.as_str(), figure.unit.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let row = |(name, unit): (&str, &str)| {
        let find = |run: &Vec<NamedFigure>| {
            run.iter().find(|named| named.name == name && named.unit == unit).map(|named| named.figure)
        };
        let baseline = find(&runs[0]);
        let new = runs[1..].iter().map(|run| new_figure(baseline, find(run))).collect();
        ComparedRow { name: name.to_owned(), unit: unit.to_owned(), baseline, new }
    };
    names.into_iter().map(row).collect()
}

fn new_figure(baseline: Option<Figure>, figure: Option<Figure>) -> NewFigure {
    let both = baseline.zip(figure);
    let change = both.filter(|(baseline, _)| baseline.mean != 0.0);
    let change_percent = change.map(|(baseline, new)| 100.0 * (new.mean - baseline.mean) / baseline.mean);
    let spread = |figure: Figure| Some(Spread { mean: figure.mean, half_width: figure.half_width? });
    let spreads = both.and_then(|(baseline, new)| spread(baseline).zip(spread(new)));
    let judgement = match spreads.map(|(baseline, new)| difference(&baseline, &new)) {
        None => Judgement::NotJudged,
        Some(Difference::None) => Judgement::None,
        Some(Difference::Percent(_) | Difference::FromZero) => Judgement::Differs,
    };
    NewFigure { figure, change_percent, judgement }
}
