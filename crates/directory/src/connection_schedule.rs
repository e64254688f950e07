//! When a connection is used: its days, its times of the day, and the pause between two uses.
//!
//! Corresponds to the schedule of Domino's Connection document. All times are UTC, because the documents replicate to
//! servers in several time zones. A range of times belongs to the day on which it begins, also beyond midnight. This
//! module is pure; the Replica task asks it with its clock.

use std::fmt;
use std::time::Duration;

use base::Timestamp;

use crate::error::{Error, Result};
use crate::limits::{CONNECTION_MINUTES_MAX, CONNECTION_TIMES_MAX};

/// The days of the week, from Monday.
const DAY_NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Minutes of a day.
const DAY_MINUTES: u16 = 24 * 60;

/// Minutes after a single time within which the connection is tried until it succeeds.
const ONCE_MINUTES: u16 = 60;

/// Seconds of a day.
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// When a connection is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSchedule {
    /// Number of minutes between two replications.
    pub interval_minutes: u32,
    /// The days.
    pub days: Days,
    /// The times of the day. Empty: all times.
    pub times: Vec<TimeRange>,
}

/// Days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days {
    /// Bit 0 is Monday.
    bits: u8,
}

/// A range of times of the day, or a single time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The first minute, counted from midnight.
    from: u16,
    /// The minute after the last one. If it is less than `from`, it is on the next day. Equal to `from` for a single
    /// time.
    to: u16,
}

/// A time during which a connection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The beginning.
    pub begin: Timestamp,
    /// `true` if one use in this window is enough: it belongs to a single time.
    pub is_once: bool,
}

impl ConnectionSchedule {
    /// Creates a schedule for all days and times.
    #[must_use]
    pub fn every_minutes(interval_minutes: u32) -> Self {
        Self { interval_minutes, days: Days::ALL, times: Vec::new() }
    }

    /// Returns the pause between two uses.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_secs(u64::from(self.interval_minutes) * 60)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=CONNECTION_MINUTES_MAX).contains(&self.interval_minutes) {
            let reason = "the pause between two replications must be from 1 minute to 30 days";
            return Err(Error::name(&self.interval_minutes.to_string(), reason));
        }
        if self.days.bits == 0 {
            return Err(Error::name("", "a connection needs a day on which it is used"));
        }
        if self.times.len() > CONNECTION_TIMES_MAX {
            return Err(Error::Limit { quantity: "times of a connection", max: CONNECTION_TIMES_MAX });
        }
        Ok(())
    }

    /// Returns the windows that are open at a time: none if the connection is not to be used then, and several if its
    /// times overlap.
    #[must_use]
    pub fn windows_at(&self, now: Timestamp) -> Vec<Window> {
        let today = now.seconds().div_euclid(DAY_SECONDS);
        if self.times.is_empty() {
            return self.days.contains(today).then(|| self.whole_days(today)).into_iter().collect();
        }
        let mut open = Vec::new();
        for time in &self.times {
            for day in [today - 1, today] {
                let begin = day * DAY_SECONDS + i64::from(time.from) * 60;
                let end = begin + i64::from(time.minutes()) * 60;
                if self.days.contains(day) && (begin..end).contains(&now.seconds()) {
                    open.push(Window { begin: Timestamp::from_seconds(begin), is_once: time.is_single() });
                }
            }
        }
        open
    }

    /// Returns the window of a schedule without times: it began with the first of the days in a row. Without a day on
    /// which the connection is not used, it has no beginning.
    fn whole_days(&self, today: i64) -> Window {
        let in_a_row = (0..7).take_while(|back| self.days.contains(today - back)).count() as i64;
        let begin = match in_a_row {
            7 => Timestamp(i64::MIN),
            days => Timestamp::from_seconds((today - days + 1) * DAY_SECONDS),
        };
        Window { begin, is_once: false }
    }
}

impl fmt::Display for ConnectionSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "every {}min", self.interval_minutes)?;
        if self.days != Days::ALL {
            write!(f, " on {}", self.days)?;
        }
        if !self.times.is_empty() {
            let times: Vec<String> = self.times.iter().map(TimeRange::to_string).collect();
            write!(f, " at {} UTC", times.join(","))?;
        }
        Ok(())
    }
}

impl Days {
    /// All days.
    pub const ALL: Self = Self { bits: 0x7F };

    /// Parses days such as `Mon,Wed-Fri`. A range may go beyond Sunday. Returns `None` if the text is not valid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let index = |name: &str| DAY_NAMES.iter().position(|known| known.eq_ignore_ascii_case(name.trim()));
        let mut bits = 0;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first = index(first)?;
            let last = index(last)?;
            let count = (last + 7 - first) % 7 + 1;
            bits |= (first..first + count).map(|day| 1 << (day % 7)).fold(0, |all, bit: u8| all | bit);
        }
        Some(Self { bits })
    }

    /// Returns the names of the days.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        (0..7).filter(|day| self.bits & (1 << day) != 0).map(|day| DAY_NAMES[day]).collect()
    }

    /// Returns `true` if a day, counted from 1970-01-01, is one of these.
    fn contains(self, day: i64) -> bool {
        // That day was a Thursday.
        self.bits & (1 << (day + 3).rem_euclid(7)) != 0
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(","))
    }
}

impl TimeRange {
    /// Parses times such as `08:00-22:00,23:30`: ranges, which may go beyond midnight, and single times. Returns `None`
    /// if one of them is not valid.
    #[must_use]
    pub fn parse_list(text: &str) -> Option<Vec<Self>> {
        text.split(',').map(Self::parse).collect()
    }

    /// Parses a range or a single time. Returns `None` if the text is not valid, or the range has no length.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let from = parse_minute(from).filter(|from| *from < DAY_MINUTES)?;
        let to = parse_minute(to)?;
        let is_empty = text.contains('-') && from == to;
        (!is_empty).then_some(Self { from, to })
    }

    fn is_single(self) -> bool {
        self.from == self.to
    }

    /// Returns the number of minutes in which a use may begin.
    fn minutes(self) -> u16 {
        match self.to {
            to if to == self.from => ONCE_MINUTES,
            to if to < self.from => to + DAY_MINUTES - self.from,
            to => to - self.from,
        }
    }
}

impl fmt::Display for TimeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{:02}:{:02}", from / 60, from % 60)?;
        match self.is_single() {
            true => Ok(()),
            false => write!(f, "-{:02}:{:02}", to / 60, to % 60),
        }
    }
}

/// Parses a time of the day. 24:00 is the end of the day.
fn parse_minute(time: &str) -> Option<u16> {
    let (hours, minutes) = time.trim().split_once(':')?;
    let count = |digits: &str| {
        let is_short = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|_| is_short)
    };
    let minute = count(hours)? * 60 + count(minutes).filter(|minutes| *minutes < 60)?;
    (minute <= DAY_MINUTES).then_some(minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(days: &str, times: &str) -> ConnectionSchedule {
        let days = Days::parse(days).expect("valid days");
        let times = if times.is_empty() { Vec::new() } else { TimeRange::parse_list(times).expect("valid times") };
        ConnectionSchedule { days, times, ..ConnectionSchedule::every_minutes(15) }
    }

    /// Returns a time in the week that began on Monday, 2026-01-05.
    fn at(day: usize, hour: i64, minute: i64) -> Timestamp {
        Timestamp::from_seconds(1_767_571_200 + (day as i64 * 24 * 60 + hour * 60 + minute) * 60)
    }

    #[test]
    fn days_and_times_read_back() {
        let check = |text: &str, expected: &str| assert_eq!(Days::parse(text).expect(text).to_string(), expected);
        check("Mon,wed-FRI", "Mon,Wed,Thu,Fri");
        check("Sat-Mon", "Mon,Sat,Sun");
        check("Tue-Tue", "Tue");
        check("Mon-Sun", "Mon,Tue,Wed,Thu,Fri,Sat,Sun");
        for text in ["", "Monday", "Mon,", "Mon-", "1"] {
            assert!(Days::parse(text).is_none(), "{text}");
        }
        let check = |text: &str, expected: &str| assert_eq!(TimeRange::parse(text).expect(text).to_string(), expected);
        check("8:00-22:00", "08:00-22:00");
        check("22:00-24:00", "22:00-24:00");
        check("22:00-6:30", "22:00-06:30");
        check("23:30", "23:30");
        for text in ["", "8", "24:00", "8:60", "8:00-25:00", "08:00-08:00", "8:00-", "-8:00", "+8:00", "008:00"] {
            assert!(TimeRange::parse(text).is_none(), "{text}");
        }
        assert_eq!(
            schedule("Mon-Fri", "08:00-22:00").to_string(),
            "every 15min on Mon,Tue,Wed,Thu,Fri at 08:00-22:00 UTC"
        );
    }

    #[test]
    fn schedules_without_a_day_or_with_too_many_times_are_refused() {
        assert!(schedule("Mon", "08:00").check().is_ok());
        let times = vec![TimeRange::parse("08:00").expect("valid"); CONNECTION_TIMES_MAX + 1];
        assert!(ConnectionSchedule { times, ..schedule("Mon", "") }.check().is_err());
        for minutes in [0, CONNECTION_MINUTES_MAX + 1] {
            assert!(ConnectionSchedule::every_minutes(minutes).check().is_err());
        }
    }

    #[test]
    fn windows_are_those_of_the_days_and_times() {
        let check = |(days, times): (&str, &str), now: Timestamp, expected: &[(Timestamp, bool)]| {
            let open: Vec<_> = schedule(days, times).windows_at(now).iter().map(|w| (w.begin, w.is_once)).collect();
            assert_eq!(open, expected, "{days} {times} at {}", now.to_rfc3339());
        };
        let always = Timestamp(i64::MIN);
        check(("Mon-Sun", ""), at(3, 12, 0), &[(always, false)]);
        check(("Mon-Fri", ""), at(2, 12, 0), &[(at(0, 0, 0), false)]);
        check(("Mon-Fri", ""), at(5, 0, 0), &[]);
        let office = ("Mon-Fri", "08:00-22:00");
        check(office, at(1, 7, 59), &[]);
        check(office, at(1, 8, 0), &[(at(1, 8, 0), false)]);
        check(office, at(1, 21, 59), &[(at(1, 8, 0), false)]);
        check(office, at(1, 22, 0), &[]);
        check(office, at(6, 12, 0), &[]);
        // The night that begins on Friday belongs to Friday.
        let night = ("Fri", "22:00-06:00");
        check(night, at(4, 5, 0), &[]);
        check(night, at(4, 23, 0), &[(at(4, 22, 0), false)]);
        check(night, at(5, 5, 59), &[(at(4, 22, 0), false)]);
        check(night, at(5, 6, 0), &[]);
        // A single time counts for an hour, and may be within a range.
        let lunch = ("Mon-Sun", "12:30,12:00-13:00");
        check(lunch, at(0, 12, 29), &[(at(0, 12, 0), false)]);
        check(lunch, at(0, 12, 30), &[(at(0, 12, 30), true), (at(0, 12, 0), false)]);
        check(lunch, at(0, 13, 29), &[(at(0, 12, 30), true)]);
        check(lunch, at(0, 13, 30), &[]);
    }
}
