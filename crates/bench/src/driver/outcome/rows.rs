//! The rows about server and driver, from what was observed at the borders.

mod rules;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use super::CoreCounts;
use crate::driver::observer::{BorderRecord, RunRecord};
use crate::engine::run::LevelOutcome;
use crate::report::model::{MissingRow, Row, Server, micros};
use crate::report::samples::SampleValue;
use rules::{DRIVER, Origin, RowRule, SERVER, USERS, Value};

const MICROS_PER_SECOND: f64 = 1e6;

/// The unit of shares of the cores, if the server is bound to some of them. They are compared with no others.
const OF_OWN_CORES: &str = "percent of the server's own cores";

/// The values of a row in each sample: the ends of the samples, and the values.
type Values = Vec<(Duration, f64)>;

/// Returns the names of the rows about the server.
#[cfg(test)]
pub(crate) fn row_names() -> impl Iterator<Item = &'static str> {
    SERVER.iter().map(|rule| rule.resource)
}

/// Returns the share of its cores that the driver used in an interval, or why it is not known. Returns `None` if the
/// interval did not end.
pub(crate) fn driver_share(
    borders: &[BorderRecord],
    interval: &Range<Duration>,
    cores: u64,
) -> Option<Result<f64, &'static str>> {
    borders.iter().find(|border| border.sample.interval.end == interval.end)?;
    let used_us = difference(borders, interval, |border| Some(border.driver?.processor_us as f64));
    let length_us = (interval.end - interval.start).as_micros() as f64;
    let share = used_us.map(|used_us| used_us / (length_us * cores.max(1) as f64));
    Some(share.ok_or("the system does not tell it (/proc/PID/stat)"))
}

/// Returns by how much a counter of the server grew in the measured intervals, or `None` if it has not always told.
pub(super) fn server_calls<'a>(
    borders: &[BorderRecord],
    intervals: impl Iterator<Item = &'a Range<Duration>>,
    calls: impl Fn(&BorderRecord) -> Option<f64>,
) -> Option<u64> {
    let calls = intervals.map(|interval| difference(borders, interval, &calls));
    let calls: Vec<f64> = calls.collect::<Option<_>>()?;
    (!calls.is_empty()).then(|| calls.iter().sum::<f64>() as u64)
}

/// Returns the rows of all levels, and those without a value in the measured intervals, with the reason.
pub(super) fn server_rows(record: &RunRecord, levels: &[LevelOutcome], cores: CoreCounts) -> Server {
    let mut server = Server::default();
    for level in levels {
        let Some(interval) = &level.times.measured else { continue };
        let within = within(&record.borders, interval);
        let rows = SERVER.iter().filter_map(|rule| {
            let values = values(&within, rule, cores.server);
            let row = row(rule, &values, level.users, record)?;
            let is_of_own_cores = cores.is_pinned && matches!(rule.value, Value::ProcessorShare(_));
            Some(if is_of_own_cores { Row { unit: OF_OWN_CORES.to_owned(), ..row } } else { row })
        });
        server.rows.extend(rows);
    }
    let is_missing = |rule: &&RowRule| server.rows.iter().all(|row| row.resource != rule.resource);
    let missing = SERVER
        .iter()
        .filter(is_missing)
        .map(|rule| MissingRow { resource: rule.resource.to_owned(), reason: reason(rule, record, levels) });
    server.missing = missing.collect();
    server
}

/// Returns why a row has no value.
fn reason(rule: &RowRule, record: &RunRecord, levels: &[LevelOutcome]) -> String {
    if levels.iter().all(|level| level.times.measured.is_none()) {
        return "there is no measured interval".to_owned();
    }
    let has = |observed: fn(&BorderRecord) -> bool| record.borders.iter().any(observed);
    match rule.origin {
        Origin::Process(_) if !has(|border| border.server.is_some()) => "no process of the server is known".to_owned(),
        Origin::Metrics if !has(|border| border.counters.is_some()) => "the server has no /metrics".to_owned(),
        Origin::Metrics => "the server does not count it, or has not counted it yet".to_owned(),
        Origin::Disk => record.disk.origin(),
        Origin::Process(file) => format!("the system does not tell it ({file})"),
        Origin::Machine(file) => format!("the system does not tell it ({file})"),
        Origin::Driver => "it was not observed".to_owned(),
    }
}

fn row(rule: &RowRule, values: &Values, users: u64, record: &RunRecord) -> Option<Row> {
    let all = || values.iter().map(|(_, value)| *value);
    Some(Row {
        users,
        resource: rule.resource.to_owned(),
        unit: rule.unit.to_owned(),
        min: all().reduce(f64::min)?,
        max: all().reduce(f64::max)?,
        mean: all().sum::<f64>() / values.len() as f64,
        origin: match rule.origin {
            Origin::Process(file) | Origin::Machine(file) => file.to_owned(),
            Origin::Metrics => "/metrics".to_owned(),
            Origin::Disk => record.disk.origin(),
            Origin::Driver => "the driver".to_owned(),
        },
    })
}

/// Returns the values of each sample of a run, in the order of their times: the rows of the users, the driver and the
/// server.
pub fn samples(borders: &[BorderRecord], cores: u64) -> Vec<SampleValue> {
    let borders: Vec<&BorderRecord> = borders.iter().collect();
    let rules = USERS.iter().chain(DRIVER).chain(SERVER);
    let mut samples: Vec<SampleValue> = rules
        .flat_map(|rule| {
            let values = values(&borders, rule, cores);
            values.into_iter().map(|(end, value)| SampleValue {
                end_us: micros(end),
                resource: rule.resource.to_owned(),
                value,
            })
        })
        .collect();
    samples.sort_by_key(|sample| sample.end_us);
    samples
}

/// Returns the borders of a measured interval, the first one included.
fn within<'a>(borders: &'a [BorderRecord], interval: &Range<Duration>) -> Vec<&'a BorderRecord> {
    let is_within = |border: &&BorderRecord| {
        let end = border.sample.interval.end;
        interval.start <= end && end <= interval.end
    };
    borders.iter().filter(is_within).collect()
}

/// Returns the values of a row. One that follows from counters has none for the first border, and none beside a border
/// at which the counter is not known.
fn values(borders: &[&BorderRecord], rule: &RowRule, cores: u64) -> Values {
    let end = |border: &BorderRecord| border.sample.interval.end;
    let grown = |pair: &[&BorderRecord], counter: fn(&BorderRecord) -> Option<f64>| {
        // A counter that falls is that of a server that was started again.
        Some((counter(pair[1])? - counter(pair[0])?).max(0.0))
    };
    let pairs = || borders.windows(2);
    match rule.value {
        Value::Level(level) => borders.iter().filter_map(|border| Some((end(border), level(border)?))).collect(),
        Value::Rate { counter, factor } => {
            let rate = |pair: &[&BorderRecord]| {
                let length_s = (end(pair[1]) - end(pair[0])).as_secs_f64();
                Some((end(pair[1]), grown(pair, counter)? * factor / length_s))
            };
            pairs().filter_map(rate).collect()
        }
        Value::ProcessorShare(counter) => {
            let share = |pair: &[&BorderRecord]| {
                let length_us = (end(pair[1]) - end(pair[0])).as_secs_f64() * MICROS_PER_SECOND;
                Some((end(pair[1]), 100.0 * grown(pair, counter)? / (length_us * cores.max(1) as f64)))
            };
            pairs().filter_map(share).collect()
        }
        Value::Ratio { part, whole, factor } => {
            let ratio = |pair: &[&BorderRecord]| {
                let whole = grown(pair, whole)?;
                (whole > 0.0).then_some((end(pair[1]), grown(pair, part)? * factor / whole))
            };
            pairs().filter_map(ratio).collect()
        }
    }
}

/// Returns by how much a counter grew in an interval, from the records at its two borders.
fn difference(
    borders: &[BorderRecord],
    interval: &Range<Duration>,
    value: impl Fn(&BorderRecord) -> Option<f64>,
) -> Option<f64> {
    let at = |time: Duration| {
        let border = borders.iter().find(|border| border.sample.interval.end == time)?;
        value(border)
    };
    Some(at(interval.end)? - at(interval.start)?)
}
