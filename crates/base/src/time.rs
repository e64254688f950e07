//! Time as a value and as a parameter.
//!
//! A [`Timestamp`] is a count of microseconds since 1970-01-01T00:00:00Z. Leap seconds are not counted. Formatting for
//! people and for protocols belongs to the crates that need it.

use std::fmt;
use std::time::Duration;

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
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({} us)", self.0)
    }
}

/// A source of time. It is implemented by `server` and by the simulator.
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
    fn arithmetic_stops_at_the_ends() {
        let start = Timestamp::from_seconds(10);
        assert_eq!(start.after(Duration::from_secs(5)).seconds(), 15);
        assert_eq!(start.before(Duration::from_secs(15)).seconds(), -5);
        assert_eq!(Timestamp(i64::MAX).after(Duration::from_secs(1)), Timestamp(i64::MAX));
        assert_eq!(start.since(start.after(Duration::from_secs(1))), Duration::ZERO);
    }

    #[test]
    fn seconds_round_down_before_the_epoch() {
        assert_eq!(Timestamp(-1).seconds(), -1);
    }
}
