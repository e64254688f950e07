//! Times: instants, dates, times of day and ranges, and the zone in which they are read.
//!
//! An instant has a precision of a hundredth of a second, as in Domino. Calendar and zones are those of `jiff` with its
//! bundled database. This module never reads the machine's clock or time zone.

use std::cmp::Ordering;

use base::Timestamp;
use jiff::civil;
use jiff::tz::{Dst, TimeZone};

/// Number of hundredths of a second in a day.
pub const DAY: u32 = 8_640_000;

const MICROS_PER_HUNDREDTH: i64 = 10_000;

/// A time as an element of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// An instant.
    At(Timestamp),
    /// An instant that was written in a zone.
    Zoned(Timestamp, Offset),
    /// A date without a time.
    Date(civil::Date),
    /// A time of day without a date, in hundredths of a second since midnight.
    TimeOfDay(u32),
    /// A range from one instant to another.
    Range(Timestamp, Timestamp),
    /// A range from one date to another, both inclusive.
    DateRange(civil::Date, civil::Date),
    /// A range from one time of day to another.
    TimesOfDay(u32, u32),
}

/// The offset of a zone from GMT, in the form in which Domino stores it with an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Minutes to add to the zone's standard time to get GMT. Positive in the west.
    pub minutes_west: i16,
    /// `true` during daylight saving time, which subtracts one hour from `minutes_west`.
    pub summer: bool,
}

/// Abbreviations of zones, with the minutes west of GMT in standard time and `true` for a daylight saving time.
///
/// An abbreviation used for several zones has the most common meaning. In addition, `ZE1` to `ZE12` and `ZW1` to `ZW12`
/// are whole hours east and west.
const ABBREVIATIONS: [(&str, i16, bool); 42] = [
    ("Z", 0, false),
    ("GMT", 0, false),
    ("UTC", 0, false),
    ("WET", 0, false),
    ("WEST", 0, true),
    ("BST", 0, true),
    ("GDT", 0, true),
    ("CET", -60, false),
    ("CEST", -60, true),
    ("CEDT", -60, true),
    ("MET", -60, false),
    ("MEST", -60, true),
    ("EET", -120, false),
    ("EEST", -120, true),
    ("EEDT", -120, true),
    ("MSK", -180, false),
    ("SAST", -120, false),
    ("IST", -330, false),
    ("HKT", -480, false),
    ("JST", -540, false),
    ("KST", -540, false),
    ("AWST", -480, false),
    ("ACST", -570, false),
    ("ACDT", -570, true),
    ("AEST", -600, false),
    ("AEDT", -600, true),
    ("NZST", -720, false),
    ("NZDT", -720, true),
    ("NST", 210, false),
    ("NDT", 210, true),
    ("AST", 240, false),
    ("ADT", 240, true),
    ("EST", 300, false),
    ("EDT", 300, true),
    ("CST", 360, false),
    ("CDT", 360, true),
    ("MST", 420, false),
    ("MDT", 420, true),
    ("PST", 480, false),
    ("PDT", 480, true),
    ("AKST", 540, false),
    ("AKDT", 540, true),
];

impl Offset {
    /// Returns the offset of a zone's abbreviation. ASCII case is ignored.
    #[must_use]
    pub fn from_abbreviation(word: &str) -> Option<Self> {
        if let Some((_, minutes_west, summer)) = ABBREVIATIONS.iter().find(|(a, ..)| a.eq_ignore_ascii_case(word)) {
            return Some(Self { minutes_west: *minutes_west, summer: *summer });
        }
        let (side, hours) = word.split_at_checked(2)?;
        let hours = hours.parse().ok().filter(|hours: &i16| (1..=12).contains(hours))?;
        let minutes_west = match side.to_ascii_uppercase().as_str() {
            "ZE" => -60 * hours,
            "ZW" => 60 * hours,
            _ => return None,
        };
        Some(Self { minutes_west, summer: false })
    }

    /// Returns the instant of a date and time of day at this offset. `clock` is in hundredths of a second.
    #[must_use]
    pub fn instant(self, date: civil::Date, clock: u32) -> Option<Timestamp> {
        let minutes = i64::from(self.minutes_west) - if self.summer { 60 } else { 0 };
        let there = Zone::default().instant(date, clock)?;
        Some(Timestamp(there.0.checked_add(minutes * 60_000_000)?))
    }

    /// Returns Domino's number for the offset: the hours, plus the minutes times 100, plus 0.1 for daylight saving
    /// time; negative in the east.
    #[must_use]
    pub fn number(self) -> f64 {
        let hours = self.minutes_west.unsigned_abs() / 60;
        let minutes = self.minutes_west.unsigned_abs() % 60;
        let number = f64::from(minutes * 100 + hours) + if self.summer { 0.1 } else { 0.0 };
        if self.minutes_west < 0 { -number } else { number }
    }
}

impl Moment {
    /// Creates an instant, truncated to hundredths of a second.
    #[must_use]
    pub fn at(instant: Timestamp) -> Self {
        Self::At(Timestamp(instant.0.saturating_sub(instant.0.rem_euclid(MICROS_PER_HUNDREDTH))))
    }

    /// Returns the instant. Returns `None` for other kinds of times.
    #[must_use]
    pub fn instant(self) -> Option<Timestamp> {
        match self {
            Self::At(instant) | Self::Zoned(instant, _) => Some(instant),
            _ => None,
        }
    }

    /// Returns the date in a zone. For a range this is the date of its start.
    #[must_use]
    pub fn date(self, zone: &Zone) -> Option<civil::Date> {
        match self {
            Self::Date(date) | Self::DateRange(date, _) => Some(date),
            Self::TimeOfDay(_) | Self::TimesOfDay(..) => None,
            Self::At(instant) | Self::Zoned(instant, _) | Self::Range(instant, _) => {
                zone.civil(instant).map(|c| c.date())
            }
        }
    }

    /// Returns the time of day in a zone, in hundredths of a second. For a range this is the time of its start.
    #[must_use]
    pub fn clock(self, zone: &Zone) -> Option<u32> {
        match self {
            Self::TimeOfDay(clock) | Self::TimesOfDay(clock, _) => Some(clock),
            Self::Date(_) | Self::DateRange(..) => None,
            Self::At(instant) | Self::Zoned(instant, _) | Self::Range(instant, _) => {
                zone.civil(instant).map(|c| hundredths(c.time()))
            }
        }
    }

    /// Returns `true` if this is a range.
    #[must_use]
    pub fn is_range(self) -> bool {
        matches!(self, Self::Range(..) | Self::DateRange(..) | Self::TimesOfDay(..))
    }

    /// Returns the start and the end of a range. For other times both are the time itself.
    #[must_use]
    pub fn ends(self) -> (Self, Self) {
        match self {
            Self::Range(from, to) => (Self::At(from), Self::At(to)),
            Self::DateRange(from, to) => (Self::Date(from), Self::Date(to)),
            Self::TimesOfDay(from, to) => (Self::TimeOfDay(from), Self::TimeOfDay(to)),
            single => (single, single),
        }
    }

    /// Creates a range of two times of the same kind. Returns `None` if the kinds differ.
    #[must_use]
    pub fn range(from: Self, to: Self) -> Option<Self> {
        match (from, to) {
            (Self::Date(from), Self::Date(to)) => Some(Self::DateRange(from, to)),
            (Self::TimeOfDay(from), Self::TimeOfDay(to)) => Some(Self::TimesOfDay(from, to)),
            _ => Some(Self::Range(from.instant()?, to.instant()?)),
        }
    }

    /// Compares two times.
    ///
    /// If either time has no date, only the times of day are compared; if either has no time of day, only the dates. A
    /// date without a time sorts after a time of day without a date, because they have no common part.
    #[must_use]
    pub fn compare(self, other: Self, zone: &Zone) -> Ordering {
        if let (Some(one), Some(other)) = (self.instant(), other.instant()) {
            return one.cmp(&other);
        }
        let dates = (self.date(zone), other.date(zone));
        let clocks = (self.clock(zone), other.clock(zone));
        match (dates, clocks) {
            ((Some(one), Some(other)), (Some(one_clock), Some(other_clock))) => {
                (one, one_clock).cmp(&(other, other_clock))
            }
            ((Some(one), Some(other)), _) => one.cmp(&other),
            (_, (Some(one), Some(other))) => one.cmp(&other),
            ((one, other), _) => one.is_some().cmp(&other.is_some()),
        }
    }

    /// Returns the number of seconds from `other` to this time.
    #[must_use]
    pub fn seconds_since(self, other: Self, zone: &Zone) -> Option<f64> {
        match (self, other) {
            (Self::TimeOfDay(one), Self::TimeOfDay(other)) => Some((f64::from(one) - f64::from(other)) / 100.0),
            (Self::Date(one), Self::Date(other)) => Some(days_between(other, one) as f64 * 86_400.0),
            _ => {
                let one = zone.start(self)?;
                let other = zone.start(other)?;
                Some((one.0.saturating_sub(other.0) / MICROS_PER_HUNDREDTH) as f64 / 100.0)
            }
        }
    }
}

/// Returns the number of days from one date to another.
#[must_use]
pub fn days_between(from: civil::Date, to: civil::Date) -> i64 {
    let day = |date: civil::Date| date.duration_since(civil::Date::constant(1970, 1, 1)).as_hours() / 24;
    day(to) - day(from)
}

/// Returns the date a number of days later.
#[must_use]
pub fn add_days(date: civil::Date, days: i64) -> Option<civil::Date> {
    date.checked_add(jiff::Span::new().try_days(days).ok()?).ok()
}

fn hundredths(time: civil::Time) -> u32 {
    let seconds = i64::from(time.hour()) * 3_600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    let hundredths = seconds * 100 + i64::from(time.subsec_nanosecond()) / 10_000_000;
    u32::try_from(hundredths).unwrap_or(0)
}

/// Creates a time of day. Returns `None` if a part is out of range.
#[must_use]
pub fn clock(hour: i64, minute: i64, second: i64, hundredth: i64) -> Option<u32> {
    let within = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !within || !(0..100).contains(&hundredth) {
        return None;
    }
    u32::try_from(((hour * 60 + minute) * 60 + second) * 100 + hundredth).ok()
}

/// Creates a date. Returns `None` if the date does not exist.
#[must_use]
pub fn date(year: i64, month: i64, day: i64) -> Option<civil::Date> {
    let year = year.try_into().ok()?;
    let month = month.try_into().ok()?;
    let day = day.try_into().ok()?;
    civil::Date::new(year, month, day).ok()
}

/// A time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// Returns the zone with a name of the IANA database (`Europe/Berlin`), or with a notation returned by
    /// [`Zone::to_domino_text`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.rsplit_once("ZN=").map_or(name, |(_, name)| name.split('$').next().unwrap_or(name));
        TimeZone::get(name.trim()).ok().map(Self)
    }

    /// Returns the name in the IANA database.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns Domino's notation of the zone: the offset, whether daylight saving time is observed now or half a year
    /// later, and the name.
    #[must_use]
    pub fn to_domino_text(&self, now: Timestamp) -> String {
        let half_a_year = std::time::Duration::from_secs(182 * 86_400);
        let observed = [now, now.after(half_a_year)].iter().any(|at| self.offset(*at).is_some_and(|o| o.summer));
        let number = self.offset(now).map_or(0.0, |offset| Offset { summer: false, ..offset }.number());
        format!("Z={number}$DO={}$ZN={}", u8::from(observed), self.name())
    }

    /// Returns the date and time of day at an instant.
    #[must_use]
    pub fn civil(&self, instant: Timestamp) -> Option<civil::DateTime> {
        jiff::Timestamp::from_microsecond(instant.0).ok().map(|instant| self.0.to_datetime(instant))
    }

    /// Returns the instant of a date and time of day.
    ///
    /// A time that the change to daylight saving time skips is moved one hour later. Of a time that the change back
    /// repeats, the first occurrence is used.
    #[must_use]
    pub fn instant(&self, date: civil::Date, clock: u32) -> Option<Timestamp> {
        let clock = clock.min(DAY - 1);
        let nanosecond = i32::try_from(clock % 100).ok()? * 10_000_000;
        let seconds = i32::try_from(clock / 100).ok()?;
        let part = |value: i32| i8::try_from(value).ok();
        let hour = part(seconds / 3_600)?;
        let minute = part(seconds / 60 % 60)?;
        let second = part(seconds % 60)?;
        let time = civil::Time::new(hour, minute, second, nanosecond).ok()?;
        let instant = self.0.to_timestamp(date.to_datetime(time)).ok()?;
        Some(Timestamp(instant.as_microsecond()))
    }

    /// Returns the offset at an instant.
    #[must_use]
    pub fn offset(&self, instant: Timestamp) -> Option<Offset> {
        let instant = jiff::Timestamp::from_microsecond(instant.0).ok()?;
        let info = self.0.to_offset_info(instant);
        let summer = info.dst() == Dst::Yes;
        let minutes_east = info.offset().seconds() / 60 - if summer { 60 } else { 0 };
        Some(Offset { minutes_west: i16::try_from(-minutes_east).ok()?, summer })
    }

    /// Returns the abbreviation at an instant, such as `CET`.
    #[must_use]
    pub fn abbreviation(&self, instant: Timestamp) -> String {
        let Ok(instant) = jiff::Timestamp::from_microsecond(instant.0) else { return String::new() };
        self.0.to_offset_info(instant).abbreviation().to_owned()
    }

    /// Returns the instant at which a time begins. Returns `None` for a time of day without a date.
    #[must_use]
    pub fn start(&self, moment: Moment) -> Option<Timestamp> {
        match moment {
            Moment::At(instant) | Moment::Zoned(instant, _) | Moment::Range(instant, _) => Some(instant),
            Moment::Date(date) | Moment::DateRange(date, _) => self.instant(date, 0),
            Moment::TimeOfDay(_) | Moment::TimesOfDay(..) => None,
        }
    }
}
