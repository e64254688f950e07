//! The limit that a level has met: what was used up when it missed the criterion.

use serde::{Deserialize, Serialize};

use crate::report::model::Report;
use crate::report::samples::SampleValue;

/// The percentage of its cores, or of the time of its disk, from which a server is limited by it.
const BUSY_PERCENT_MIN: f64 = 90.0;
/// The share of the errors with which their cause is the limit.
const ERRORS_SHARE_MIN: f64 = 0.5;

/// Codes of a server that has no memory for a request (docs/native-protocol.md, "Errors").
const MEMORY_CODES: &[&str] = &["full", "resource-exhausted"];
/// Codes of connections that were refused.
const CONNECTION_CODES: &[&str] = &["connect"];
/// The rules of a run whose figures may be those of the driver. That of a driver that was not observed names no limit.
const DRIVER_RULES: &[&str] = &["lateness", "processor", "cut", "open-files"];

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The server used 90 % of its cores, together with the driver if both have the same cores.
    Processor,
    /// The disk was busy for 90 % of the time.
    Disk,
    /// Requests were refused for want of memory, or the machine swapped.
    Memory,
    /// Connections were refused.
    Connections,
    /// The driver did not keep up.
    Driver,
}

impl Limit {
    /// Returns the name, as in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processor => "processor",
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::Connections => "connections",
            Self::Driver => "driver",
        }
    }
}

/// Returns the limits that a level has met.
pub(super) fn limits(report: &Report, samples: &[SampleValue]) -> Vec<Limit> {
    let processor = processor_percent(report, samples);
    let disk = mean(report, samples, "data_disk_percent_busy_percent");
    let is_busy = |percent: Option<f64>| percent.is_some_and(|percent| percent >= BUSY_PERCENT_MIN);
    let has_swapped = report.state.warnings.iter().any(|warning| warning.rule == "swap");
    let has_driver_rule = report.state.reasons.iter().any(|reason| DRIVER_RULES.contains(&reason.rule.as_str()));
    let limits = [
        (Limit::Processor, is_busy(processor)),
        (Limit::Disk, is_busy(disk)),
        (Limit::Memory, has_swapped || are_most_errors(report, MEMORY_CODES)),
        (Limit::Connections, are_most_errors(report, CONNECTION_CODES)),
        (Limit::Driver, has_driver_rule),
    ];
    limits.into_iter().filter(|(_, is_met)| *is_met).map(|(limit, _)| limit).collect()
}

/// Returns the percentage of its cores that the server has used, with what the driver has used of the same cores. The
/// server's share is known only if its processes are on the machine of the driver.
///
/// With `--pin` each of them has cores of its own (`pinned`), so the percentages cannot be added.
fn processor_percent(report: &Report, samples: &[SampleValue]) -> Option<f64> {
    let server = mean(report, samples, "processor_percent_busy")?;
    let driver = if report.driver.pinned { None } else { driver_percent(report, samples) };
    Some(server + driver.unwrap_or(0.0))
}

/// Returns the percentage of its cores that the driver has used, if it is known.
fn driver_percent(report: &Report, samples: &[SampleValue]) -> Option<f64> {
    if has_interval(report) {
        return report.driver.processor_share.map(|share| 100.0 * share);
    }
    let of_one_core = mean_of_end(samples, "driver_processor_percent_of_one_core")?;
    Some(of_one_core / report.driver.cores.max(1) as f64)
}

/// Returns the mean of a row of the server in the measured interval. A run without one was not steady: it has the mean
/// of the second half of its samples.
fn mean(report: &Report, samples: &[SampleValue], resource: &str) -> Option<f64> {
    if has_interval(report) {
        return report.server.rows.iter().find(|row| row.resource == resource).map(|row| row.mean);
    }
    mean_of_end(samples, resource)
}

fn has_interval(report: &Report) -> bool {
    report.phases.iter().any(|phases| phases.measure_end_us.is_some())
}

/// Returns the mean of the second half of the samples of a row.
fn mean_of_end(samples: &[SampleValue], resource: &str) -> Option<f64> {
    let values: Vec<f64> =
        samples.iter().filter(|sample| sample.resource == resource).map(|sample| sample.value).collect();
    let last = values.get(values.len() / 2..)?;
    (!last.is_empty()).then(|| last.iter().sum::<f64>() / last.len() as f64)
}

/// Returns `true` if most errors have one of some codes.
fn are_most_errors(report: &Report, codes: &[&str]) -> bool {
    let all: u64 = report.errors.iter().map(|error| error.count).sum();
    let with_code = report.errors.iter().filter(|error| codes.contains(&error.code.as_str()));
    let of_codes: u64 = with_code.map(|error| error.count).sum();
    of_codes > 0 && of_codes as f64 >= all as f64 * ERRORS_SHARE_MIN
}
