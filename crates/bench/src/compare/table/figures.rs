//! The figures of a level of a stored run, with their spreads.

use serde::Serialize;

use crate::compare::spreads::is_response;
use crate::compare::statistics::{Spread, mean_of};
use crate::record::blocks::{BLOCKS, Blocks};
use crate::record::histograms::Kind;
use crate::record::log::TagSubject;
use crate::report::model::Phases;
use crate::report::stored::StoredReport;

const MICROS_PER_MILLI: f64 = 1_000.0;
const MICROS_PER_MINUTE: f64 = 60e6;

/// A figure with its spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % interval of the mean, if it is known.
    pub half_width: Option<f64>,
}

/// A figure with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedFigure {
    /// The name of a row, or `VERB (CLASS)`.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// The figure.
    pub figure: Figure,
}

/// A measured interval.
#[derive(Debug, Clone, Copy)]
struct Interval {
    start_us: u64,
    end_us: u64,
}

impl Interval {
    fn of(phases: &Phases) -> Option<Self> {
        Some(Self { start_us: phases.measure_start_us?, end_us: phases.measure_end_us? })
    }

    /// Returns the block of a sample that ended at this time, or `None` if it is not in the interval.
    fn block(&self, end_us: u64) -> Option<usize> {
        let is_within = self.start_us < end_us && end_us <= self.end_us;
        let length_us = (self.end_us - self.start_us) as f64 / BLOCKS as f64;
        // A sample that ends at the border of two blocks belongs to the first one.
        let index = || ((end_us - self.start_us) as f64 / length_us).ceil() as usize - 1;
        is_within.then(|| index().min(BLOCKS - 1))
    }
}

/// Returns the figures of a level: the driver's, the server's, and the responses of the verbs.
pub fn of_level(stored: &StoredReport, index: usize) -> Vec<NamedFigure> {
    let phases = &stored.report.phases[index];
    let Some(interval) = Interval::of(phases) else { return Vec::new() };
    let blocks = u8::try_from(index + 1).ok().and_then(|number| stored.spreads.level(number));
    let mut figures = Vec::new();
    figures.extend(notesmark(stored, phases.users, interval));
    if let Some(figure) = blocks.and_then(|blocks| response(blocks, is_response)) {
        figures.push(NamedFigure { name: "response_time_msec".to_owned(), unit: "ms".to_owned(), figure });
    }
    for row in stored.report.server.rows.iter().filter(|row| row.users == phases.users) {
        let half_width = spread_of_row(stored, &row.resource, row.mean, interval);
        let figure = Figure { mean: row.mean, half_width };
        figures.push(NamedFigure { name: row.resource.clone(), unit: row.unit.clone(), figure });
    }
    for verb in stored.report.verbs.iter().filter(|verb| verb.users == phases.users) {
        let name = format!("{} ({})", verb.verb, verb.class);
        let wanted = TagSubject::Steps { verb: verb.verb.clone(), class: verb.class.clone(), kind: Kind::Response };
        if let Some(figure) = blocks.and_then(|blocks| response(blocks, |subject| *subject == wanted)) {
            figures.push(NamedFigure { name, unit: "ms".to_owned(), figure });
        }
    }
    figures
}

/// Returns the mean response in milliseconds of the subjects that satisfy a condition.
fn response(blocks: &Blocks, condition: impl Fn(&TagSubject) -> bool) -> Option<Figure> {
    let mean = blocks.sum(&condition).mean_us()? / MICROS_PER_MILLI;
    let means = blocks.means_us(&condition).map(|mean_us| Some(mean_us? / MICROS_PER_MILLI));
    Some(Figure { mean, half_width: Spread::of_blocks(mean, &means).map(|spread| spread.half_width) })
}

/// Returns the NotesMark of a level. Its blocks follow from the transactions of the samples.
fn notesmark(stored: &StoredReport, users: u64, interval: Interval) -> Option<NamedFigure> {
    let level = stored.report.headline.iter().flatten().find(|level| level.users == users)?;
    let mut transactions = [None; BLOCKS];
    for sample in &stored.report.samples {
        if let Some(index) = interval.block(sample.end_us) {
            *transactions[index].get_or_insert(0.0) += sample.transactions as f64;
        }
    }
    let minutes = (interval.end_us - interval.start_us) as f64 / BLOCKS as f64 / MICROS_PER_MINUTE;
    let rates = transactions.map(|transactions: Option<f64>| Some(transactions? / minutes));
    let half_width = Spread::of_blocks(level.notesmark, &rates).map(|spread| spread.half_width);
    let figure = Figure { mean: level.notesmark, half_width };
    Some(NamedFigure { name: "notesmark".to_owned(), unit: "transactions a minute".to_owned(), figure })
}

/// Returns half the width of the 95 % interval of a row of the server, from the samples.
fn spread_of_row(stored: &StoredReport, resource: &str, mean: f64, interval: Interval) -> Option<f64> {
    let mut values: [Vec<f64>; BLOCKS] = Default::default();
    for sample in stored.samples.iter().filter(|sample| sample.resource == resource) {
        if let Some(index) = interval.block(sample.end_us) {
            values[index].push(sample.value);
        }
    }
    let means = values.each_ref().map(|values| mean_of(values));
    Spread::of_blocks(mean, &means).map(|spread| spread.half_width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_belong_to_the_block_that_they_end() {
        let interval = Interval { start_us: 1_000, end_us: 13_000 };
        let blocks = [1_000, 1_001, 2_000, 2_001, 12_001, 13_000, 13_001].map(|end_us| interval.block(end_us));
        assert_eq!(blocks, [None, Some(0), Some(0), Some(1), Some(11), Some(11), None]);
    }
}
