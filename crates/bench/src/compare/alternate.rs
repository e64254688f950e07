//! Two settings in turns: the order of the turns, and the ratios of their figures (docs/notesbench.md, "Comparisons").
//!
//! The order is A B B A A B B A …, so that what grows or shrinks steadily over the turns, such as the temperature of a
//! machine, falls on both alike. Pure: the turns are played by the program, one process each.

pub mod output;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::statistics::{PAIRS_MIN, RatioInterval, interval_coverage, median};
use super::table::{Judgement, NamedFigure};
use crate::report::verdict::State;

/// Version of the stored result. It is raised when a reader of the old one would misread the new one.
pub const FORMAT: u32 = 1;
/// The fewest turns of each setting.
pub const TURNS_MIN: usize = PAIRS_MIN;
/// The most turns of each setting.
pub const TURNS_MAX: usize = 100;

/// One of both settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Side {
    /// The setting with which the other one is compared.
    A,
    /// The other one.
    B,
}

impl Side {
    /// Returns the letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// Returns the order of so many turns of each setting.
pub fn order(turns: usize) -> impl Iterator<Item = Side> {
    let pair = |number: usize| if number.is_multiple_of(2) { [Side::A, Side::B] } else { [Side::B, Side::A] };
    (0..turns).flat_map(pair)
}

/// A turn that has been played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its setting.
    pub side: Side,
    /// The directory of its report, below that of the result.
    pub report: String,
    /// The state of the run.
    pub state: String,
    /// Its figures.
    pub figures: Vec<TurnFigure>,
}

/// A figure of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnFigure {
    /// The name of a row, or `VERB (CLASS)`.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// The mean over the measured interval.
    pub value: f64,
}

impl From<NamedFigure> for TurnFigure {
    fn from(named: NamedFigure) -> Self {
        Self { name: named.name, unit: named.unit, value: named.figure.mean }
    }
}

/// The settings that were played, and what is the same in both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The workload.
    pub workload: String,
    /// The settings of A.
    pub a: Vec<String>,
    /// The settings of B.
    pub b: Vec<String>,
    /// The options of `run` in both.
    pub run: Vec<String>,
    /// Each setting had a population of its own, made from the same seed.
    pub has_own_populations: bool,
}

/// The result of the turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternation {
    /// [`FORMAT`].
    pub format: u32,
    /// What was played.
    pub settings: Settings,
    /// The title of the first report.
    pub title: String,
    /// The command, without secrets.
    pub command: String,
    /// The commit of the driver.
    pub commit: String,
    /// The worst state of the turns. With one that is worse than *not valid*, they ended early, and there are no
    /// figures.
    #[serde(default)]
    pub state: String,
    /// The probability that the true median is within the spread.
    pub coverage: f64,
    /// The turns in the order in which they were played.
    pub turns: Vec<Turn>,
    /// The figures.
    pub rows: Vec<RatioRow>,
}

/// A figure of both settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RatioRow {
    /// The name.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// The median of A.
    pub a: f64,
    /// The median of B.
    pub b: f64,
    /// The ratio B / A, unless a figure of A is 0.
    pub ratio: Option<Ratio>,
    /// What the difference is worth.
    pub judgement: Judgement,
}

/// The median of the ratios, and their spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The lower end of the spread.
    pub low: f64,
    /// The upper end of the spread.
    pub high: f64,
}

impl Alternation {
    /// Computes the figures of turns that have all been played.
    pub fn new(settings: Settings, turns: Vec<Turn>) -> Self {
        let pairs = turns.iter().filter(|turn| turn.side == Side::A).count();
        Self { coverage: interval_coverage(pairs), rows: rows(&turns), ..Self::incomplete(settings, turns) }
    }

    /// Creates the result of turns that ended early: without figures, because each setting has too few turns.
    pub fn incomplete(settings: Settings, turns: Vec<Turn>) -> Self {
        Self {
            format: FORMAT,
            settings,
            title: String::new(),
            command: String::new(),
            commit: String::new(),
            state: State::Valid.name().to_owned(),
            coverage: 0.0,
            rows: Vec::new(),
            turns,
        }
    }

    /// Returns `true` if all turns have been played, so that there are figures.
    pub fn is_complete(&self) -> bool {
        State::of_name(&self.state).is_some_and(|state| state <= State::NotValid)
    }

    /// Returns a row by its name.
    pub fn row(&self, name: &str) -> Option<&RatioRow> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// Returns the rows that all turns have, in the order of the first turn.
fn rows(turns: &[Turn]) -> Vec<RatioRow> {
    let Some(first) = turns.first() else { return Vec::new() };
    let row = |figure: &TurnFigure| {
        let values = |side: Side| -> Option<Vec<f64>> {
            let of_side = turns.iter().filter(|turn| turn.side == side);
            of_side.map(|turn| value(turn, figure)).collect()
        };
        let a = values(Side::A)?;
        let b = values(Side::B)?;
        let interval = RatioInterval::of_pairs(&a, &b);
        let is_same = a.iter().chain(&b).all(|value| *value == a[0]);
        Some(RatioRow {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            a: median(&a)?,
            b: median(&b)?,
            ratio: interval.map(|RatioInterval { median, low, high }| Ratio { median, low, high }),
            judgement: match interval {
                Some(interval) if interval.is_none() => Judgement::None,
                Some(_) => Judgement::Differs,
                None if is_same => Judgement::None,
                None => Judgement::NotJudged,
            },
        })
    };
    first.figures.iter().filter_map(row).collect()
}

fn value(turn: &Turn, wanted: &TurnFigure) -> Option<f64> {
    let found = turn.figures.iter().find(|figure| figure.name == wanted.name && figure.unit == wanted.unit);
    found.map(|figure| figure.value)
}
