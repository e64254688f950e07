//! The rate of events within an hour: how many there were, in a form that forgets them evenly.
//!
//! Each event occupies its share of an hour. An event is permitted if all occupied shares together fit into one hour.
//! So as many events as permitted may happen at once, and the next one is permitted when a share has passed.

use std::time::Duration;

const HOUR: Duration = Duration::from_hours(1);

/// The recent events of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HourlyRate {
    /// The monotonic time at which all events are forgotten.
    forgotten_at: Duration,
}

impl HourlyRate {
    /// Returns the rate after `count` further events, or `None` if there are more than `per_hour` then.
    #[must_use]
    pub(crate) fn after(self, count: u64, per_hour: u64, now: Duration) -> Option<Self> {
        let shares_ns = HOUR.as_nanos().saturating_mul(u128::from(count)).checked_div(u128::from(per_hour))?;
        let shares = Duration::from_nanos(u64::try_from(shares_ns).ok()?);
        let forgotten_at = self.forgotten_at.max(now).saturating_add(shares);
        (forgotten_at <= now.saturating_add(HOUR)).then_some(Self { forgotten_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of single events that are permitted at a time.
    fn permitted(rate: &mut HourlyRate, per_hour: u64, minute: u64) -> usize {
        let mut count = 0;
        while let Some(next) = rate.after(1, per_hour, Duration::from_mins(minute)) {
            *rate = next;
            count += 1;
        }
        count
    }

    #[test]
    fn events_are_permitted_up_to_the_rate() {
        for per_hour in [1, 7, 60, 100, 50_000] {
            let mut rate = HourlyRate::default();
            assert_eq!(permitted(&mut rate, per_hour, 5), per_hour as usize);
            assert_eq!(permitted(&mut rate, per_hour, 65), per_hour as usize, "all are forgotten after an hour");
        }
        assert_eq!(permitted(&mut HourlyRate::default(), 0, 5), 0);
    }

    #[test]
    fn events_are_forgotten_evenly() {
        let mut rate = HourlyRate::default();
        assert_eq!(permitted(&mut rate, 60, 0), 60);
        assert_eq!(permitted(&mut rate, 60, 1), 1);
        assert_eq!(permitted(&mut rate, 60, 11), 10);
    }

    #[test]
    fn several_events_are_permitted_together_or_not_at_all() {
        let now = Duration::from_secs(5);
        let rate = HourlyRate::default().after(7, 10, now).expect("7 of 10");
        assert_eq!(rate.after(4, 10, now), None);
        assert!(rate.after(3, 10, now).is_some());
        assert_eq!(HourlyRate::default().after(u64::MAX, 10, now), None);
    }
}
