//! The times of retries, of the warning to the sender, and of giving up (RFC 5321 §4.5.4.1).

use std::time::Duration;

use base::Timestamp;

/// The schedule of the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueSchedule {
    /// The wait after the first failure. Each later wait is twice as long.
    pub retry_first: Duration,
    /// The longest wait.
    pub retry_max: Duration,
    /// The time after which the sender is warned, once.
    pub warn_after: Duration,
    /// The time after which the message is returned.
    pub expire_after: Duration,
}

impl Default for QueueSchedule {
    fn default() -> Self {
        Self {
            retry_first: Duration::from_secs(5 * 60),
            retry_max: Duration::from_secs(4 * 3600),
            warn_after: Duration::from_secs(4 * 3600),
            expire_after: Duration::from_secs(5 * 24 * 3600),
        }
    }
}

impl QueueSchedule {
    /// Returns the time of the next attempt after `attempts` failures, the last of them now.
    #[must_use]
    pub fn next_attempt_at(&self, attempts: u32, now: Timestamp) -> Timestamp {
        let doublings = attempts.saturating_sub(1).min(20);
        let wait = self.retry_first.saturating_mul(1 << doublings).min(self.retry_max);
        now.after(wait)
    }

    /// Returns `true` if a message that arrived at `arrived` is to be given up.
    #[must_use]
    pub fn is_expired(&self, arrived: Timestamp, now: Timestamp) -> bool {
        now.since(arrived) >= self.expire_after
    }

    /// Returns `true` if the sender of a message that arrived at `arrived` is to be warned.
    #[must_use]
    pub fn is_warning_due(&self, arrived: Timestamp, now: Timestamp) -> bool {
        now.since(arrived) >= self.warn_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delays_double_up_to_the_maximum() {
        let schedule = QueueSchedule::default();
        let start = Timestamp::from_seconds(0);
        let minutes: Vec<i64> =
            (1..=8).map(|attempts| schedule.next_attempt_at(attempts, start).seconds() / 60).collect();
        assert_eq!(minutes, [5, 10, 20, 40, 80, 160, 240, 240]);
        assert_eq!(schedule.next_attempt_at(u32::MAX, start).seconds(), 4 * 3600);
    }
}
