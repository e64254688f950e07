//! When a connection is due. This module is pure: the times are parameters.
//!
//! A connection is due only while a window of its schedule is open. In a window it is due at once, unless it was used
//! in it before; then after the pause of the schedule, or not at all if the window belongs to a single time. After a
//! failure it is due after a minute, then after twice that time, up to an hour or its pause if that is longer.

use std::time::Duration;

use base::Timestamp;
use directory::ConnectionSchedule;

/// Time after which a connection that failed once is due again.
const RETRY_TIME_MIN: Duration = Duration::from_secs(60);

/// Time after which a connection that failed often is due again.
const RETRY_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Maximum number of doublings of the time until the next try.
const DOUBLINGS_MAX: u32 = 6;

/// A moment in both kinds of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// The time of day.
    pub(super) wall: Timestamp,
    /// The measured time.
    pub(super) measured: Duration,
}

/// The last use of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastUse {
    /// The time of day when it began.
    pub(super) began: Timestamp,
    /// The measured time when it ended.
    pub(super) ended_at: Duration,
    /// Number of failures since the last success.
    pub(super) failures: u32,
}

/// Returns `true` if a connection is due.
pub(super) fn is_due(schedule: &ConnectionSchedule, last: Option<LastUse>, now: Moment) -> bool {
    let windows = schedule.windows_at(now.wall);
    let Some(last) = last else { return !windows.is_empty() };
    let has_passed = |pause: Duration| last.ended_at.saturating_add(pause) <= now.measured;
    windows.iter().any(|window| {
        if last.began < window.begin {
            return true;
        }
        // The clock was ahead when it was used, so that use says nothing about this range.
        if window.is_once && last.began > now.wall {
            return true;
        }
        match last.failures {
            0 => !window.is_once && has_passed(schedule.interval()),
            failures => has_passed(retry_pause(failures, schedule.interval())),
        }
    })
}

/// Returns the pause after a number of failures.
fn retry_pause(failures: u32, interval: Duration) -> Duration {
    (RETRY_TIME_MIN * (1 << (failures - 1).min(DOUBLINGS_MAX))).min(RETRY_TIME_MAX.max(interval))
}

#[cfg(test)]
mod tests {
    use base::Clock;
    use base::sim::SimClock;
    use directory::connection_schedule::{Days, TimeRange};

    use super::*;

    /// Uses a connection in simulated minutes from Thursday, 2026-01-01, 00:00. `outcome` says whether a use fails.
    /// Returns the minutes at which a use began; each takes two.
    fn uses(schedule: &ConnectionSchedule, minutes: u64, outcome: &dyn Fn(u64) -> bool) -> Vec<u64> {
        let clock = SimClock::new();
        let start = clock.now();
        let minute = Duration::from_secs(60);
        let mut last: Option<LastUse> = None;
        let mut found = Vec::new();
        while clock.now().since(start) < minute * u32::try_from(minutes).expect("few") {
            let now = Moment { wall: clock.now(), measured: clock.monotonic() };
            if is_due(schedule, last, now) {
                let at = now.wall.since(start).as_secs() / 60;
                found.push(at);
                clock.advance(minute * 2);
                let before = last.map_or(0, |last| last.failures);
                let failures = if outcome(at) { before + 1 } else { 0 };
                last = Some(LastUse { began: now.wall, ended_at: clock.monotonic(), failures });
            } else {
                clock.advance(minute);
            }
        }
        found
    }

    fn schedule(every: u32, days: &str, times: &str) -> ConnectionSchedule {
        let times = if times.is_empty() { Vec::new() } else { TimeRange::parse_list(times).expect("valid") };
        let days = Days::parse(days).expect("valid");
        ConnectionSchedule { days, times, ..ConnectionSchedule::every_minutes(every) }
    }

    const DAY: u64 = 24 * 60;

    #[test]
    fn a_connection_is_due_at_the_start_and_after_each_pause() {
        assert_eq!(uses(&schedule(15, "Mon-Sun", ""), 60, &|_| false), [0, 17, 34, 51]);
        // A pause that is longer than a day is not cut short at midnight.
        assert_eq!(uses(&schedule(3_000, "Mon-Sun", ""), 3 * DAY, &|_| false), [0, 3_002]);
    }

    #[test]
    fn ranges_begin_with_a_use_and_end_the_uses() {
        let begins = |day: u64| day * DAY + 8 * 60;
        let expected = [begins(0), begins(0) + 62, begins(1), begins(1) + 62];
        assert_eq!(uses(&schedule(60, "Mon-Fri", "08:00-10:00"), 4 * DAY, &|_| false), expected);
        // Thursday only, and a pause that is longer than the range.
        assert_eq!(uses(&schedule(600, "Thu", "08:00-10:00"), 8 * DAY, &|_| false), [begins(0), begins(7)]);
    }

    #[test]
    fn a_single_time_is_one_use_a_day() {
        let expected = [3 * 60, DAY + 3 * 60];
        assert_eq!(uses(&schedule(15, "Mon-Sun", "03:00"), 2 * DAY, &|_| false), expected);
        // Failures are retried for an hour, and the next day is as if nothing had been.
        let fails = |at: u64| at < DAY;
        let expected = [180, 183, 187, 193, 203, 221, DAY + 180];
        assert_eq!(uses(&schedule(15, "Mon-Sun", "03:00"), 2 * DAY, &fails), expected);
    }

    #[test]
    fn failures_are_retried_sooner_than_the_pause_and_ever_later() {
        let minutes = |failures, minutes: u64| retry_pause(failures, Duration::from_secs(minutes * 60)).as_secs() / 60;
        assert_eq!([1, 2, 3, 9, u32::MAX].map(|failures| minutes(failures, 15)), [1, 2, 4, 60, 60]);
        assert_eq!(minutes(9, 600), 64);
        // One failure, then none.
        assert_eq!(uses(&schedule(15, "Mon-Sun", ""), 30, &|at| at == 0), [0, 3, 20]);
    }

    #[test]
    fn a_clock_that_is_set_back_neither_delays_nor_repeats() {
        let schedule = schedule(15, "Mon-Sun", "");
        let clock = SimClock::new();
        let last = Some(LastUse { began: clock.now(), ended_at: clock.monotonic(), failures: 0 });
        clock.step_back(Duration::from_secs(86_400));
        let now = |clock: &SimClock| Moment { wall: clock.now(), measured: clock.monotonic() };
        assert!(!is_due(&schedule, last, now(&clock)));
        clock.advance(Duration::from_secs(900));
        assert!(is_due(&schedule, last, now(&clock)));
    }
}
