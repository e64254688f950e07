//! Durations in options.

use std::time::Duration;

use config::units::ConfigDuration;

use crate::AdminError;

/// Seconds per minute.
pub(crate) const MINUTE_SECONDS: u64 = 60;

/// Seconds per hour.
pub(crate) const HOUR_SECONDS: u64 = 3_600;

/// Seconds per day.
pub(crate) const DAY_SECONDS: u64 = 86_400;

/// Parses a duration as a whole number of units, at least one. `units` describes them in the error.
pub(crate) fn parse_whole<N: TryFrom<u64>>(text: &str, unit_seconds: u64, units: &str) -> Result<N, AdminError> {
    let span = ConfigDuration::parse(text).map_err(AdminError::Refused)?.0;
    let count = span.as_secs() / unit_seconds;
    let is_whole = count > 0 && span == Duration::from_secs(count * unit_seconds);
    let count = if is_whole { N::try_from(count).ok() } else { None };
    count.ok_or_else(|| AdminError::Refused(format!("{text:?} is not a whole number of {units}")))
}
