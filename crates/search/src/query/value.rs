//! Values in comparisons: numbers and dates.

use base::time::days_since_epoch;
use base::{Timestamp, civil};

use super::Range;

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value as written in a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum QueryValue {
    Number(f64),
    /// A day, minute or second, as its first moment and the first moment after it.
    Time(Timestamp, Timestamp),
}

const DAY: i64 = 86_400;

impl QueryValue {
    /// Parses a number (`12`, `-3.5`) or a date in UTC (`2024-01-31`, `2024-01-31T12:00`, `2024-01-31T12:00:30`).
    pub(super) fn parse(text: &str) -> Option<Self> {
        time(text).or_else(|| number(text))
    }

    /// Returns the range of values for which the comparison with this value holds.
    pub(super) fn range(self, comparison: Comparison) -> Range {
        match self {
            Self::Number(number) => {
                let (from, to) = match comparison {
                    Comparison::Equal => (Some((number, true)), Some((number, true))),
                    Comparison::Less => (None, Some((number, false))),
                    Comparison::LessOrEqual => (None, Some((number, true))),
                    Comparison::Greater => (Some((number, false)), None),
                    Comparison::GreaterOrEqual => (Some((number, true)), None),
                };
                Range::Numbers { from, to }
            }
            Self::Time(start, end) => {
                let (from, before) = match comparison {
                    Comparison::Equal => (Some(start), Some(end)),
                    Comparison::Less => (None, Some(start)),
                    Comparison::LessOrEqual => (None, Some(end)),
                    Comparison::Greater => (Some(end), None),
                    Comparison::GreaterOrEqual => (Some(start), None),
                };
                Range::Times { from, before }
            }
        }
    }
}

fn number(text: &str) -> Option<QueryValue> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| is_plain && number.is_finite()).map(QueryValue::Number)
}

fn time(text: &str) -> Option<QueryValue> {
    let (date, clock) = match text.split_once(['T', 't']) {
        Some((date, clock)) => (date, Some(clock.trim_end_matches(['Z', 'z']))),
        None => (text, None),
    };
    let separator = if date.contains('/') { '/' } else { '-' };
    let (year, month, day) = three_numbers(date, separator)?;
    let start = day_number(year, month, day)?.checked_mul(DAY)?;
    let (seconds, length) = match clock {
        None => (0, DAY),
        Some(clock) if clock.matches(':').count() == 1 => (seconds(&format!("{clock}:00"))?, 60),
        Some(clock) => (seconds(clock)?, 1),
    };
    let start = start.checked_add(seconds)?;
    Some(QueryValue::Time(Timestamp::from_seconds(start), Timestamp::from_seconds(start.checked_add(length)?)))
}

fn three_numbers(text: &str, separator: char) -> Option<(i64, i64, i64)> {
    let mut parts = text.split(separator);
    let mut next = || {
        parts
            .next()
            .filter(|part| !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let three = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
    parts.next().is_none().then_some(three)
}

fn seconds(clock: &str) -> Option<i64> {
    let (hours, minutes, seconds) = three_numbers(clock, ':')?;
    (hours < 24 && minutes < 60 && seconds < 60).then_some(hours * 3600 + minutes * 60 + seconds)
}

/// Returns the number of days since 1970-01-01. Returns `None` if the date does not exist.
fn day_number(year: i64, month: i64, day: i64) -> Option<i64> {
    let date = civil::Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
    date.ok().map(days_since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_minutes_or_seconds() {
        let check = |text: &str, start: i64, length: i64| {
            let expected = QueryValue::Time(Timestamp::from_seconds(start), Timestamp::from_seconds(start + length));
            assert_eq!(QueryValue::parse(text), Some(expected), "{text}");
        };
        check("1970-01-01", 0, DAY);
        check("2024-02-29", 1_709_164_800, DAY);
        check("2024/02/29", 1_709_164_800, DAY);
        check("2000-01-01T12:30", 946_729_800, 60);
        check("2000-01-01T12:30:15Z", 946_729_815, 1);
        check("1969-12-31", -DAY, DAY);
        for wrong in
            ["2023-02-29", "2024-13-01", "2024-00-01", "2024-01", "2024-01-01T25:00", "2024-1-1-1", "T", "99999-01-01"]
        {
            assert_eq!(QueryValue::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_are_finite() {
        assert_eq!(QueryValue::parse("-3.5"), Some(QueryValue::Number(-3.5)));
        assert_eq!(QueryValue::parse("1e3"), Some(QueryValue::Number(1000.0)));
        for wrong in ["inf", "NaN", "1e999", "", "x1", "1 2"] {
            assert_eq!(QueryValue::parse(wrong), None, "{wrong}");
        }
    }
}
