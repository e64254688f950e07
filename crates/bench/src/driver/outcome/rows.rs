//! The rows about server and driver, from what was observed at the borders.

use std::ops::Range;
use std::time::Duration;

use crate::driver::observer::BorderRecord;
use crate::engine::run::LevelOutcome;
use crate::report::model::{MissingRow, Row, Server, micros};
use crate::report::samples::SampleValue;
use crate::target::process::Consumption;

/// The rows of the articles that this version does not have.
const MISSING: &[&str] = &[
    "total_disk_operations_per_second",
    "total_disk_mb_transferred_per_second",
    "network_mb_per_second",
    "paging_in_swap_per_second",
    "paging_out_swap_per_second",
    "data_disk_percent_busy_percent",
];
const NOT_MEASURED: &str = "this version does not measure it";
const BYTES_PER_MB: f64 = 1_048_576.0;
const MICROS_PER_SECOND: f64 = 1e6;

/// The values of a row in each sample of a measured interval.
struct Series {
    resource: &'static str,
    unit: &'static str,
    origin: &'static str,
    /// The ends of the samples, and the values.
    values: Vec<(Duration, f64)>,
}

impl Series {
    fn row(self, users: u64) -> Option<Row> {
        let count = self.values.len() as f64;
        let values = || self.values.iter().map(|(_, value)| *value);
        let fold = |fold: fn(f64, f64) -> f64| values().reduce(fold);
        Some(Row {
            users,
            resource: self.resource.to_owned(),
            unit: self.unit.to_owned(),
            mean: values().sum::<f64>() / count,
            min: fold(f64::min)?,
            max: fold(f64::max)?,
            origin: self.origin.to_owned(),
        })
    }
}

/// Returns the share of its cores that the driver used in an interval, or `None` if it was not observed.
pub(super) fn driver_share(borders: &[BorderRecord], interval: &Range<Duration>, cores: u64) -> Option<f64> {
    let used_us = difference(borders, interval, |border| Some(border.driver?.processor_us as f64))?;
    let length_us = (interval.end - interval.start).as_micros() as f64;
    Some(used_us / (length_us * cores.max(1) as f64))
}

/// Returns the calls that the server has counted in the measured intervals, or `None` if it has not always told.
pub(super) fn server_calls<'a>(
    borders: &[BorderRecord],
    intervals: impl Iterator<Item = &'a Range<Duration>>,
) -> Option<u64> {
    let calls = intervals.map(|interval| difference(borders, interval, |border| border.server_calls));
    let calls: Vec<f64> = calls.collect::<Option<_>>()?;
    (!calls.is_empty()).then(|| calls.iter().sum::<f64>() as u64)
}

/// Returns the rows of all levels, and those that are missing.
pub(super) fn server_rows(borders: &[BorderRecord], levels: &[LevelOutcome], cores: u64) -> Server {
    let mut rows = Vec::new();
    for level in levels {
        if let Some(interval) = &level.times.measured {
            let series = server_series(&within(borders, interval), cores);
            rows.extend(series.into_iter().filter_map(|series| series.row(level.users)));
        }
    }
    let missing =
        |resource: &str, reason: &str| MissingRow { resource: resource.to_owned(), reason: reason.to_owned() };
    let mut missing_rows: Vec<_> = MISSING.iter().map(|resource| missing(resource, NOT_MEASURED)).collect();
    if rows.is_empty() {
        missing_rows.push(missing("processor_percent_busy", "there is no measured interval, or no known process"));
    }
    Server { rows, missing: missing_rows }
}

/// Returns the values of each sample of a run, in the order of their times: the rows of the server, the driver and the
/// users.
pub fn samples(borders: &[BorderRecord], cores: u64) -> Vec<SampleValue> {
    let of = |value: fn(&BorderRecord) -> Option<Consumption>| -> Vec<(Duration, Consumption)> {
        borders.iter().filter_map(|border| Some((border.sample.interval.end, value(border)?))).collect()
    };
    let mut series = user_series(borders);
    series.extend(driver_series(&of(|border| border.driver)));
    series.extend(server_series(&of(|border| border.server), cores));
    let values = series.iter().flat_map(|series| {
        let resource = series.resource;
        series.values.iter().map(move |(end, value)| SampleValue {
            end_us: micros(*end),
            resource: resource.to_owned(),
            value: *value,
        })
    });
    let mut values: Vec<SampleValue> = values.collect();
    values.sort_by_key(|value| value.end_us);
    values
}

fn user_series(borders: &[BorderRecord]) -> Vec<Series> {
    let series = |resource, unit, value: fn(&BorderRecord) -> Option<f64>| Series {
        resource,
        unit,
        origin: "the driver",
        values: borders.iter().filter_map(|border| Some((border.sample.interval.end, value(border)?))).collect(),
    };
    vec![
        series("users_connected", "users", |border| Some(border.users_connected as f64)),
        series("steps_ended", "steps", |border| Some(border.sample.steps_ended as f64)),
        series("steps_failed", "steps", |border| Some(border.sample.steps_failed as f64)),
        series("transactions", "transactions", |border| Some(border.sample.transactions as f64)),
        series("response_time_msec", "ms", |border| Some(border.sample.response_mean_us? / 1_000.0)),
    ]
}

fn driver_series(observed: &[(Duration, Consumption)]) -> Vec<Series> {
    vec![
        Series {
            resource: "driver_processor_percent_of_one_core",
            unit: "percent of one core",
            origin: "/proc/PID/stat",
            values: rates(observed, |consumption| consumption.processor_us, 100.0 / MICROS_PER_SECOND),
        },
        Series {
            resource: "driver_resident_memory_in_mb",
            unit: "MB",
            origin: "/proc/PID/status, VmRSS",
            values: levels_in_mb(observed, |consumption| Some(consumption.resident_bytes)),
        },
    ]
}

/// Returns what the server had consumed at the borders of a measured interval.
fn within(borders: &[BorderRecord], interval: &Range<Duration>) -> Vec<(Duration, Consumption)> {
    let is_within = |border: &&BorderRecord| {
        let end = border.sample.interval.end;
        interval.start <= end && end <= interval.end
    };
    let within = borders.iter().filter(is_within);
    within.filter_map(|border| Some((border.sample.interval.end, border.server?))).collect()
}

/// Returns by how much a counter grew in a second, for each sample but the first one.
fn rates(observed: &[(Duration, Consumption)], value: fn(&Consumption) -> u64, factor: f64) -> Vec<(Duration, f64)> {
    let rate = |pair: &[(Duration, Consumption)]| {
        let length_s = (pair[1].0 - pair[0].0).as_secs_f64();
        (pair[1].0, value(&pair[1].1).saturating_sub(value(&pair[0].1)) as f64 * factor / length_s)
    };
    observed.windows(2).map(rate).collect()
}

/// Returns a number of bytes in MB, for each sample.
fn levels_in_mb(observed: &[(Duration, Consumption)], value: fn(&Consumption) -> Option<u64>) -> Vec<(Duration, f64)> {
    let level = |(end, consumption): &(Duration, Consumption)| Some((*end, value(consumption)? as f64 / BYTES_PER_MB));
    observed.iter().filter_map(level).collect()
}

/// Returns the series of the server. Those without a value are empty.
fn server_series(observed: &[(Duration, Consumption)], cores: u64) -> Vec<Series> {
    let percent_of_one = 100.0 / MICROS_PER_SECOND;
    let stat = "/proc/PID/stat";
    vec![
        Series {
            resource: "processor_percent_busy",
            unit: "percent of all cores",
            origin: stat,
            values: rates(observed, |consumption| consumption.processor_us, percent_of_one / cores.max(1) as f64),
        },
        Series {
            resource: "processor_percent_of_one_core",
            unit: "percent of one core",
            origin: stat,
            values: rates(observed, |consumption| consumption.processor_us, percent_of_one),
        },
        Series {
            resource: "process_resident_memory_in_mb",
            unit: "MB",
            origin: "/proc/PID/status, VmRSS",
            values: levels_in_mb(observed, |consumption| Some(consumption.resident_bytes)),
        },
        Series {
            resource: "process_proportional_memory_in_mb",
            unit: "MB",
            origin: "/proc/PID/smaps_rollup, Pss",
            values: levels_in_mb(observed, |consumption| consumption.proportional_bytes),
        },
        Series {
            resource: "base_pool_pages_per_second",
            unit: "major page faults a second",
            origin: stat,
            values: rates(observed, |consumption| consumption.page_faults, 1.0),
        },
    ]
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
