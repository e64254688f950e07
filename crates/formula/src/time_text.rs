//! Conversion of times to text and back.

use base::Timestamp;
use jiff::civil;

use crate::locale::{DateOrder, Locale};
use crate::options::FormulaOptions;
use crate::time::{Moment, Offset, Zone, add_days, clock, date};

/// The meaning of a bracketed literal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum BracketedLiteral {
    /// A time.
    Time(Moment),
    /// A day relative to now, as the name of the function that computes it.
    Relative(&'static str),
    /// A time that depends on the current date, for example because it has no year. It is parsed at run time.
    DependsOnToday,
    /// A malformed time: the text begins like a time but is not one.
    Malformed,
    /// A keyword.
    Keyword,
}

/// A day in a leap year. Every text that can be parsed on some day can be parsed on this day.
const LEAP_DAY: civil::Date = civil::date(2024, 2, 29);

/// Parses the content of brackets. Content that begins with a digit must be a time.
#[must_use]
pub fn parse_bracketed(text: &str, options: &FormulaOptions) -> BracketedLiteral {
    let relative = [("today", "@Today"), ("tomorrow", "@Tomorrow"), ("yesterday", "@Yesterday")];
    if let Some((_, function)) = relative.iter().find(|(word, _)| text.trim().eq_ignore_ascii_case(word)) {
        return BracketedLiteral::Relative(function);
    }
    let begins_with_digit = text.starts_with(|c: char| c.is_ascii_digit());
    let first = text.split_whitespace().next().unwrap_or_default();
    if !begins_with_digit && !relative.iter().any(|(word, _)| first.eq_ignore_ascii_case(word)) {
        return BracketedLiteral::Keyword;
    }
    if let Some(time) = moment(text, options, None) {
        return BracketedLiteral::Time(time);
    }
    match moment(text, options, Some(LEAP_DAY)) {
        Some(_) => BracketedLiteral::DependsOnToday,
        None if begins_with_digit => BracketedLiteral::Malformed,
        None => BracketedLiteral::Keyword,
    }
}

/// Parses a time: a date, a time of day, both, or a range of these.
#[must_use]
pub fn parse(text: &str, options: &FormulaOptions, now: Timestamp) -> Option<Moment> {
    moment(text, options, Moment::at(now).date(&options.zone))
}

fn moment(text: &str, options: &FormulaOptions, today: Option<civil::Date>) -> Option<Moment> {
    match text.split_once(" - ") {
        Some((from, to)) => Moment::range(single(from, options, today)?, single(to, options, today)?),
        None => single(text, options, today),
    }
}

fn single(text: &str, options: &FormulaOptions, today: Option<civil::Date>) -> Option<Moment> {
    let mut parts = Parts::default();
    // ISO 8601 separates date and time by a `T`.
    let separated = split_iso(text.trim());
    let mut words = separated.split_whitespace().peekable();
    while let Some(word) = words.next() {
        // A bare hour before `PM`, as in `5 PM`, would otherwise not parse as a time of day.
        if words.peek().copied().and_then(half_of_day).is_some()
            && let Some(hour) = number(word)
        {
            parts.clock = Some(clock(hour, 0, 0, 0)?);
        } else {
            parts.word(word, &options.locale, today)?;
        }
    }
    parts.moment(&options.zone)
}

fn split_iso(text: &str) -> String {
    let is_iso = text.as_bytes().get(10) == Some(&b'T') && text.as_bytes().get(4) == Some(&b'-');
    if !is_iso {
        return text.to_owned();
    }
    let date = &text[..10];
    let time = &text[11..];
    match time.strip_suffix('Z') {
        Some(time) => format!("{date} {time} Z"),
        None => format!("{date} {time}"),
    }
}

/// The parts of a time parsed so far.
#[derive(Default)]
struct Parts {
    date: Option<civil::Date>,
    clock: Option<u32>,
    place: Option<ZoneOrOffset>,
}

/// The zone or offset in which a time is written.
enum ZoneOrOffset {
    Zone(Zone),
    Offset(Offset),
}

impl ZoneOrOffset {
    fn named(word: &str) -> Option<Self> {
        Offset::from_abbreviation(word).map(Self::Offset).or_else(|| Zone::named(word).map(Self::Zone))
    }

    fn moment(&self, date: civil::Date, clock: u32) -> Option<Moment> {
        let (instant, offset) = match self {
            Self::Zone(zone) => {
                let instant = zone.instant(date, clock)?;
                (instant, zone.offset(instant)?)
            }
            Self::Offset(offset) => (offset.instant(date, clock)?, *offset),
        };
        Some(Moment::Zoned(instant, offset))
    }
}

const NOON: u32 = crate::time::DAY / 2;

/// Returns the time that `AM` or `PM` adds to an hour before noon. Returns `None` for other words.
fn half_of_day(word: &str) -> Option<u32> {
    let is = |spellings: [&str; 2]| spellings.iter().any(|spelling| word.eq_ignore_ascii_case(spelling));
    match word {
        _ if is(["am", "a.m."]) => Some(0),
        _ if is(["pm", "p.m."]) => Some(NOON),
        _ => None,
    }
}

impl Parts {
    fn word(&mut self, word: &str, locale: &Locale, today: Option<civil::Date>) -> Option<()> {
        let begins_with_digit = word.starts_with(|c: char| c.is_ascii_digit());
        if let Some(half) = half_of_day(word) {
            self.clock = Some(self.clock.filter(|clock| *clock < NOON + NOON / 12)? % NOON + half);
        } else if begins_with_digit && word.ends_with(|c: char| c.is_ascii_alphabetic()) {
            let (time, half) = word.split_at(word.find(|c: char| c.is_ascii_alphabetic())?);
            self.clock = Some(if time.contains(':') { read_clock(time)? } else { clock(number(time)?, 0, 0, 0)? });
            half_of_day(half)?;
            self.word(half, locale, today)?;
        } else if begins_with_digit && word.contains(':') {
            self.clock = Some(read_clock(word)?);
        } else if begins_with_digit {
            self.date = Some(read_date(word, locale, today)?);
        } else {
            match word.to_ascii_lowercase().as_str() {
                "today" => self.date = Some(today?),
                "yesterday" => self.date = Some(add_days(today?, -1)?),
                "tomorrow" => self.date = Some(add_days(today?, 1)?),
                _ => self.place = Some(ZoneOrOffset::named(word)?),
            }
        }
        Some(())
    }

    /// Combines the parts. A zone has no effect on a date or a time of day alone.
    fn moment(self, local: &Zone) -> Option<Moment> {
        match (self.date, self.clock, self.place) {
            (Some(date), Some(clock), Some(place)) => place.moment(date, clock),
            (Some(date), Some(clock), None) => local.instant(date, clock).map(Moment::At),
            (Some(date), None, _) => Some(Moment::Date(date)),
            (None, Some(clock), _) => Some(Moment::TimeOfDay(clock)),
            (None, None, _) => None,
        }
    }
}

fn read_clock(word: &str) -> Option<u32> {
    let mut hundredth = 0;
    let mut numbers = [0; 3];
    let mut count = 0;
    for part in word.split(':') {
        let (whole, fraction) = part.split_once(['.', ',']).unwrap_or((part, ""));
        *numbers.get_mut(count)? = number(whole)?;
        count += 1;
        if !fraction.is_empty() {
            hundredth = number(&format!("{fraction:0<2.2}"))?;
        }
    }
    (count > 1).then(|| clock(numbers[0], numbers[1], numbers[2], hundredth))?
}

fn number(digits: &str) -> Option<i64> {
    let plausible = !digits.is_empty() && digits.len() < 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plausible { digits.parse().ok() } else { None }
}

/// Parses two or three numbers separated by `/`, `-` or `.`. If the first of three numbers has four digits, it is the
/// year. Two numbers are a date of the current year.
fn read_date(word: &str, locale: &Locale, today: Option<civil::Date>) -> Option<civil::Date> {
    let parts: Vec<&str> = word.split(['/', '-', '.', locale.date_separator]).collect();
    let numbers: Vec<i64> = parts.iter().map(|part| number(part)).collect::<Option<_>>()?;
    match (numbers[..].as_ref(), locale.date_order) {
        (&[year, month, day], _) if parts[0].len() == 4 => date(year, month, day),
        (&[year, month, day], DateOrder::YearMonthDay) => date(century(year, parts[0]), month, day),
        (&[month, day, year], DateOrder::MonthDayYear) => date(century(year, parts[2]), month, day),
        (&[day, month, year], DateOrder::DayMonthYear) => date(century(year, parts[2]), month, day),
        (&[day, month], DateOrder::DayMonthYear) => date(i64::from(today?.year()), month, day),
        (&[month, day], _) => date(i64::from(today?.year()), month, day),
        _ => None,
    }
}

/// Completes a year of two digits. The years 50 to 99 belong to the 20th century.
fn century(year: i64, digits: &str) -> i64 {
    match digits.len() {
        1 | 2 if year < 50 => year + 2000,
        1 | 2 => year + 1900,
        _ => year,
    }
}

/// The format of a time, given by the format text of `@Text`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeFormat {
    date: u8,
    time: u8,
    zone: u8,
    part: u8,
}

/// The part style that formats whichever of date and time the value has.
const PART_AS_IS: u8 = 2;
/// The zone style that appends the zone to every instant. Instants are always formatted in the zone of the options, so
/// a style that names only other zones would name none.
const ZONE_ALWAYS: u8 = 2;

impl TimeFormat {
    /// Parses format texts, such as `D0T1S2` or its parts one by one. Other characters are ignored.
    #[must_use]
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut format = Self { date: 0, time: 0, zone: 0, part: PART_AS_IS };
        for pair in texts.into_iter().flat_map(|text| text.as_bytes().windows(2)) {
            let digit = pair[1].wrapping_sub(b'0');
            match (pair[0].to_ascii_uppercase(), digit) {
                (b'D', 0..=3) => format.date = digit,
                (b'T', 0..=1) => format.time = digit,
                (b'Z', 0..=2) => format.zone = digit,
                (b'S', 0..=3) => format.part = digit,
                _ => {}
            }
        }
        format
    }
}

/// Formats a time. The ends of a range are separated by a hyphen.
#[must_use]
pub fn format(moment: Moment, format: &TimeFormat, options: &FormulaOptions, now: Timestamp) -> String {
    if moment.is_range() {
        let (from, to) = moment.ends();
        return format!("{} - {}", self::format(from, format, options, now), self::format(to, format, options, now));
    }
    let date = moment.date(&options.zone).filter(|_| format.part != 1);
    let clock = moment.clock(&options.zone).filter(|_| format.part != 0);
    let mut words = Vec::new();
    words.extend(date.map(|date| write_date(date, format, options, now)));
    words.extend(clock.map(|clock| write_clock(clock, format.time == 0, &options.locale)));
    if let (Some(_), Some(instant)) = (clock, moment.instant()) {
        words.extend((format.zone == ZONE_ALWAYS).then(|| options.zone.abbreviation(instant)));
    }
    words.join(" ")
}

fn write_date(date: civil::Date, format: &TimeFormat, options: &FormulaOptions, now: Timestamp) -> String {
    let today = Moment::at(now).date(&options.zone);
    if format.part == 3 && today == Some(date) {
        return "Today".to_owned();
    }
    if format.part == 3 && today.and_then(|today| add_days(today, -1)) == Some(date) {
        return "Yesterday".to_owned();
    }
    let locale = &options.locale;
    let year = format!("{:04}", date.year());
    let month = format!("{:02}", date.month());
    let day = format!("{:02}", date.day());
    let this_year = today.is_some_and(|today| today.year() == date.year());
    let ordered = match locale.date_order {
        DateOrder::MonthDayYear => [('m', month), ('d', day), ('y', year)],
        DateOrder::DayMonthYear => [('d', day), ('m', month), ('y', year)],
        DateOrder::YearMonthDay => [('y', year), ('m', month), ('d', day)],
    };
    let wanted = match format.date {
        1 if this_year => "md",
        2 => "md",
        3 => "my",
        _ => "mdy",
    };
    let parts = ordered.into_iter().filter(|(part, _)| wanted.contains(*part)).map(|(_, digits)| digits);
    parts.collect::<Vec<_>>().join(&locale.date_separator.to_string())
}

fn write_clock(clock: u32, seconds: bool, locale: &Locale) -> String {
    let hour = clock / 360_000;
    let minute = clock / 6_000 % 60;
    let second = clock / 100 % 60;
    let shown = if locale.twelve_hours { (hour + 11) % 12 + 1 } else { hour };
    let separator = locale.time_separator;
    let mut text = format!("{shown:02}{separator}{minute:02}");
    if seconds {
        text.push_str(&format!("{separator}{second:02}"));
    }
    if locale.twelve_hours {
        text.push_str(if hour < 12 { " AM" } else { " PM" });
    }
    text
}
