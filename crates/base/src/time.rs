//! Time as a value and as a parameter.
//!
//! A [`Timestamp`] is a count of microseconds since 1970-01-01T00:00:00Z. Leap seconds are not counted. The calendar is
//! that of the crate `jiff` in UTC; time zones belong to the crates that need them.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, civil};

const EPOCH: civil::DateTime = civil::date(1970, 1, 1).at(0, 0, 0, 0);

/// A point in time, in microseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Creates a timestamp from whole seconds since the epoch. Saturates at the ends of the range.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Returns the whole seconds since the epoch, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Returns the time `duration` later. Saturates at a closing angle bracket.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// Returns the time `duration` earlier. Saturates at the start of the range.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// Returns the time that has passed since `earlier`, or zero if `earlier` is in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the date and time in UTC. Saturates at the ends of the calendar, the years -9999 and 9999.
    #[must_use]
    pub fn to_utc(self) -> civil::DateTime {
        EPOCH.saturating_add(SignedDuration::from_micros(self.0))
    }

    /// Formats the timestamp according to RFC 3339, in UTC, in whole seconds: `2026-01-01T00:00:00Z`.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        self.to_utc().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Formats the timestamp according to RFC 5322 §3.3, in UTC: `Thu, 01 Jan 2026 00:00:00 +0000`.
    #[must_use]
    pub fn to_rfc5322(self) -> String {
        self.to_utc().strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
    }
}

/// Returns the number of days from 1970-01-01 to a date, which is negative for earlier dates.
#[must_use]
pub fn days_since_epoch(date: civil::Date) -> i64 {
    date.duration_since(EPOCH.date()).as_hours() / 24
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({} us)", self.0)
    }
}

/// A source of time. It is implemented by `instance` and by the simulator.
pub trait Clock: Send + Sync {
    /// Returns the wall-clock time. It may step backwards when the machine's clock is set.
    fn now(&self) -> Timestamp;

    /// Returns the time since a fixed point in time. It never steps backwards. Intended for measuring intervals.
    fn monotonic(&self) -> Duration;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_arithmetic_saturates() {
        let start = Timestamp::from_seconds(10);
        assert_eq!(start.after(Duration::from_secs(5)).seconds(), 15);
        assert_eq!(start.before(Duration::from_secs(15)).seconds(), -5);
        assert_eq!(Timestamp(i64::MAX).after(Duration::from_secs(1)), Timestamp(i64::MAX));
        assert_eq!(start.since(start.after(Duration::from_secs(1))), Duration::ZERO);
    }

    #[test]
    fn days_are_counted_from_the_epoch() {
        let check = |year, month, day, days| {
            let date = civil::date(year, month, day);
            assert_eq!(days_since_epoch(date), days, "{date}");
            assert_eq!(Timestamp::from_seconds(days * 86_400 + 86_399).to_utc().date(), date, "{days}");
        };
        check(1970, 1, 1, 0);
        check(1969, 12, 31, -1);
        check(1, 1, 1, -719_162);
        check(2000, 2, 29, 11_016);
        check(2000, 3, 1, 11_017);
        check(2100, 3, 1, 47_541);
        check(9999, 12, 31, 2_932_896);
    }

    #[test]
    fn times_are_formatted_in_utc() {
        let check = |seconds, rfc3339: &str, rfc5322: &str| {
            let timestamp = Timestamp::from_seconds(seconds);
            assert_eq!((timestamp.to_rfc3339().as_str(), timestamp.to_rfc5322().as_str()), (rfc3339, rfc5322));
        };
        check(0, "1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 +0000");
        check(-1, "1969-12-31T23:59:59Z", "Wed, 31 Dec 1969 23:59:59 +0000");
        check(951_827_696, "2000-02-29T12:34:56Z", "Tue, 29 Feb 2000 12:34:56 +0000");
        check(1_767_225_599, "2025-12-31T23:59:59Z", "Wed, 31 Dec 2025 23:59:59 +0000");
        check(i64::MAX, "9999-12-31T23:59:59Z", "Fri, 31 Dec 9999 23:59:59 +0000");
    }

    #[test]
    fn seconds_round_down_before_the_epoch() {
        assert_eq!(Timestamp(-1).seconds(), -1);
    }
}
