//! Times: instants, dates, times of day and ranges, and the zone in which they are read.
//!
//! An instant is kept to the hundredth of a second, as the original does. Calendar and zones are those of `jiff` with its
//! bundled database; nothing here asks the machine for its clock or its zone.

use std::cmp::Ordering;

use base::Timestamp;
use jiff::civil;
use jiff::tz::{Dst, TimeZone};

/// Hundredths of a second in a day.
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
    Clock(u32),
    /// From one instant to another.
    Range(Timestamp, Timestamp),
    /// From one date to another, both included.
    Dates(civil::Date, civil::Date),
    /// From one time of day to another.
    Clocks(u32, u32),
}

/// How far a zone is from Greenwich, as the original keeps it with an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Minutes to be added to get the time of Greenwich in winter: positive in the west.
    pub minutes_west: i16,
    /// Whether summer time holds, which takes one hour from that.
    pub summer: bool,
}

/// Abbreviations of zones: minutes west of Greenwich in winter, whether it is the one of summer time. Those that stand for several zones are of the one that is
/// written most. `ZE1` to `ZE12` and `ZW1` to `ZW12` are whole hours east and west.
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
    /// Finds what the abbreviation of a zone says, in whatever case.
    #[must_use]
    pub fn abbreviated(word: &str) -> Option<Self> {
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

    /// Gives the instant of a date and time of day, in hundredths, there.
    #[must_use]
    pub fn instant(self, date: civil::Date, clock: u32) -> Option<Timestamp> {
        let minutes = i64::from(self.minutes_west) - if self.summer { 60 } else { 0 };
        let there = Zone::default().instant(date, clock)?;
        Some(Timestamp(there.0.checked_add(minutes * 60_000_000)?))
    }

    /// Gives the number that stands for it: hours, with minutes times hundred before them, and `.1` for summer.
    #[must_use]
    pub fn number(self) -> f64 {
        let (hours, minutes) = (self.minutes_west.unsigned_abs() / 60, self.minutes_west.unsigned_abs() % 60);
        let number = f64::from(minutes * 100 + hours) + if self.summer { 0.1 } else { 0.0 };
        if self.minutes_west < 0 { -number } else { number }
    }
}

impl Moment {
    /// Makes an instant, without what is finer than a hundredth of a second.
    #[must_use]
    pub fn at(instant: Timestamp) -> Self {
        Self::At(Timestamp(instant.0.saturating_sub(instant.0.rem_euclid(MICROS_PER_HUNDREDTH))))
    }

    /// Gives the instant, if this is one.
    #[must_use]
    pub fn instant(self) -> Option<Timestamp> {
        match self {
            Self::At(instant) | Self::Zoned(instant, _) => Some(instant),
            _ => None,
        }
    }

    /// Gives the date in a zone; a range's is that of its beginning.
    #[must_use]
    pub fn date(self, zone: &Zone) -> Option<civil::Date> {
        match self {
            Self::Date(date) | Self::Dates(date, _) => Some(date),
            Self::Clock(_) | Self::Clocks(..) => None,
            Self::At(instant) | Self::Zoned(instant, _) | Self::Range(instant, _) => {
                zone.civil(instant).map(|c| c.date())
            }
        }
    }

    /// Gives the time of day in a zone, in hundredths; a range's is that of its beginning.
    #[must_use]
    pub fn clock(self, zone: &Zone) -> Option<u32> {
        match self {
            Self::Clock(clock) | Self::Clocks(clock, _) => Some(clock),
            Self::Date(_) | Self::Dates(..) => None,
            Self::At(instant) | Self::Zoned(instant, _) | Self::Range(instant, _) => {
                zone.civil(instant).map(|c| hundredths(c.time()))
            }
        }
    }

    /// Tells whether this is a range.
    #[must_use]
    pub fn is_range(self) -> bool {
        matches!(self, Self::Range(..) | Self::Dates(..) | Self::Clocks(..))
    }

    /// Gives the two ends of a range; other times are both of their ends.
    #[must_use]
    pub fn ends(self) -> (Self, Self) {
        match self {
            Self::Range(from, to) => (Self::At(from), Self::At(to)),
            Self::Dates(from, to) => (Self::Date(from), Self::Date(to)),
            Self::Clocks(from, to) => (Self::Clock(from), Self::Clock(to)),
            single => (single, single),
        }
    }

    /// Makes a range of two times of one kind.
    #[must_use]
    pub fn range(from: Self, to: Self) -> Option<Self> {
        match (from, to) {
            (Self::Date(from), Self::Date(to)) => Some(Self::Dates(from, to)),
            (Self::Clock(from), Self::Clock(to)) => Some(Self::Clocks(from, to)),
            _ => Some(Self::Range(from.instant()?, to.instant()?)),
        }
    }

    /// Compares two times. Where one has no date, only the times of day are compared; where one has no time, only the dates. A date
    /// comes after a time of day, because they have nothing in common.
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

    /// Gives the seconds from `other` to this.
    #[must_use]
    pub fn seconds_since(self, other: Self, zone: &Zone) -> Option<f64> {
        match (self, other) {
            (Self::Clock(one), Self::Clock(other)) => Some((f64::from(one) - f64::from(other)) / 100.0),
            (Self::Date(one), Self::Date(other)) => Some(days_between(other, one) as f64 * 86_400.0),
            _ => {
                let (one, other) = (zone.start(self)?, zone.start(other)?);
                Some((one.0.saturating_sub(other.0) / MICROS_PER_HUNDREDTH) as f64 / 100.0)
            }
        }
    }
}

/// Gives the days from one date to another.
#[must_use]
pub fn days_between(from: civil::Date, to: civil::Date) -> i64 {
    let day = |date: civil::Date| date.duration_since(civil::Date::constant(1970, 1, 1)).as_hours() / 24;
    day(to) - day(from)
}

/// Gives the date so many days later.
#[must_use]
pub fn add_days(date: civil::Date, days: i64) -> Option<civil::Date> {
    date.checked_add(jiff::Span::new().try_days(days).ok()?).ok()
}

fn hundredths(time: civil::Time) -> u32 {
    let seconds = i64::from(time.hour()) * 3_600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    let hundredths = seconds * 100 + i64::from(time.subsec_nanosecond()) / 10_000_000;
    u32::try_from(hundredths).unwrap_or(0)
}

/// Makes a time of day.
#[must_use]
pub fn clock(hour: i64, minute: i64, second: i64, hundredth: i64) -> Option<u32> {
    let within = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !within || !(0..100).contains(&hundredth) {
        return None;
    }
    u32::try_from(((hour * 60 + minute) * 60 + second) * 100 + hundredth).ok()
}

/// Makes a date.
#[must_use]
pub fn date(year: i64, month: i64, day: i64) -> Option<civil::Date> {
    let (year, month, day) = (year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
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
    /// Finds a zone by its name in the IANA database (`Europe/Berlin`), or by what [`Zone::canonical`] gives.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = name.rsplit_once("ZN=").map_or(name, |(_, name)| name.split('$').next().unwrap_or(name));
        TimeZone::get(name.trim()).ok().map(Self)
    }

    /// Gives the name in the IANA database.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Gives the original's way to write a zone: its offset, whether it has summer time at that moment's year, its name.
    #[must_use]
    pub fn canonical(&self, now: Timestamp) -> String {
        let half_a_year = std::time::Duration::from_secs(182 * 86_400);
        let observed = [now, now.after(half_a_year)].iter().any(|at| self.offset(*at).is_some_and(|o| o.summer));
        let number = self.offset(now).map_or(0.0, |offset| Offset { summer: false, ..offset }.number());
        format!("Z={number}$DO={}$ZN={}", u8::from(observed), self.name())
    }

    /// Gives date and time of day at an instant.
    #[must_use]
    pub fn civil(&self, instant: Timestamp) -> Option<civil::DateTime> {
        jiff::Timestamp::from_microsecond(instant.0).ok().map(|instant| self.0.to_datetime(instant))
    }

    /// Gives the instant of a date and time of day. What a change to summer time leaves out is taken as an hour later, what a change to
    /// winter time repeats as the first of the two.
    #[must_use]
    pub fn instant(&self, date: civil::Date, clock: u32) -> Option<Timestamp> {
        let clock = clock.min(DAY - 1);
        let nanosecond = i32::try_from(clock % 100).ok()? * 10_000_000;
        let seconds = i32::try_from(clock / 100).ok()?;
        let part = |value: i32| i8::try_from(value).ok();
        let (hour, minute, second) = (part(seconds / 3_600)?, part(seconds / 60 % 60)?, part(seconds % 60)?);
        let time = civil::Time::new(hour, minute, second, nanosecond).ok()?;
        let instant = self.0.to_timestamp(date.to_datetime(time)).ok()?;
        Some(Timestamp(instant.as_microsecond()))
    }

    /// Gives the offset at an instant.
    #[must_use]
    pub fn offset(&self, instant: Timestamp) -> Option<Offset> {
        let instant = jiff::Timestamp::from_microsecond(instant.0).ok()?;
        let info = self.0.to_offset_info(instant);
        let summer = info.dst() == Dst::Yes;
        let minutes_east = info.offset().seconds() / 60 - if summer { 60 } else { 0 };
        Some(Offset { minutes_west: i16::try_from(-minutes_east).ok()?, summer })
    }

    /// Gives the abbreviation at an instant, `CET` for instance.
    #[must_use]
    pub fn abbreviation(&self, instant: Timestamp) -> String {
        let Ok(instant) = jiff::Timestamp::from_microsecond(instant.0) else { return String::new() };
        self.0.to_offset_info(instant).abbreviation().to_owned()
    }

    /// Gives the instant at which a time begins; a time of day has none.
    #[must_use]
    pub fn start(&self, moment: Moment) -> Option<Timestamp> {
        match moment {
            Moment::At(instant) | Moment::Zoned(instant, _) | Moment::Range(instant, _) => Some(instant),
            Moment::Date(date) | Moment::Dates(date, _) => self.instant(date, 0),
            Moment::Clock(_) | Moment::Clocks(..) => None,
        }
    }
}
