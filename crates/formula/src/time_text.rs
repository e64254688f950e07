//! Times as text and back.

use base::Timestamp;
use jiff::civil;

use crate::formula::Options;
use crate::locale::{DateOrder, Locale};
use crate::time::{Moment, Zone, add_days, clock, date};

/// What stands in brackets, if it is a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Literal {
    /// A time.
    Time(Moment),
    /// A day relative to now: the name of the function that gives it.
    Relative(&'static str),
}

/// Reads what stands in brackets; a keyword gives nothing.
#[must_use]
pub fn literal(text: &str, options: &Options) -> Option<Literal> {
    let relative = [("today", "@Today"), ("tomorrow", "@Tomorrow"), ("yesterday", "@Yesterday")];
    if let Some((_, function)) = relative.iter().find(|(word, _)| text.trim().eq_ignore_ascii_case(word)) {
        return Some(Literal::Relative(function));
    }
    if !text.contains(|c: char| c.is_ascii_digit()) || text.starts_with(char::is_alphabetic) {
        return None;
    }
    moment(text, options, None).map(Literal::Time)
}

/// Reads a time: date, time of day, both, or a range of those.
#[must_use]
pub fn parse(text: &str, options: &Options, now: Timestamp) -> Option<Moment> {
    moment(text, options, Some(now))
}

fn moment(text: &str, options: &Options, now: Option<Timestamp>) -> Option<Moment> {
    match text.split_once(" - ") {
        Some((from, to)) => Moment::range(single(from, options, now)?, single(to, options, now)?),
        None => single(text, options, now),
    }
}

fn single(text: &str, options: &Options, now: Option<Timestamp>) -> Option<Moment> {
    let mut parts = Parts::default();
    let today = || Moment::at(now?).date(&options.zone);
    // ISO 8601 has a T between date and time.
    let separated: String = split_iso(text.trim());
    for word in separated.split_whitespace() {
        parts.word(word, &options.locale, &today)?;
    }
    parts.moment(&options.zone)
}

fn split_iso(text: &str) -> String {
    let is_iso = text.as_bytes().get(10) == Some(&b'T') && text.as_bytes().get(4) == Some(&b'-');
    if !is_iso {
        return text.to_owned();
    }
    let (date, time) = (&text[..10], &text[11..]);
    match time.strip_suffix('Z') {
        Some(time) => format!("{date} {time} Z"),
        None => format!("{date} {time}"),
    }
}

/// What the words of a text said so far.
#[derive(Default)]
struct Parts {
    date: Option<civil::Date>,
    clock: Option<u32>,
    zone: Option<Zone>,
}

const NOON: u32 = crate::time::DAY / 2;

impl Parts {
    fn word(&mut self, word: &str, locale: &Locale, today: &dyn Fn() -> Option<civil::Date>) -> Option<()> {
        match word.to_ascii_lowercase().as_str() {
            "am" => self.clock = Some(self.clock.filter(|clock| *clock < NOON + NOON / 12)? % NOON),
            "pm" => self.clock = Some(self.clock.filter(|clock| *clock < NOON + NOON / 12)? % NOON + NOON),
            "today" => self.date = Some(today()?),
            "yesterday" => self.date = Some(add_days(today()?, -1)?),
            "tomorrow" => self.date = Some(add_days(today()?, 1)?),
            "z" | "gmt" | "utc" => self.zone = Some(Zone::default()),
            lower if lower.ends_with("am") || lower.ends_with("pm") => {
                let (time, half) = word.split_at_checked(word.len() - 2)?;
                self.word(time, locale, today)?;
                self.word(half, locale, today)?;
            }
            _ if word.contains(':') => self.clock = Some(read_clock(word)?),
            _ if self.date.is_none() => self.date = Some(read_date(word, locale, today)?),
            _ => self.zone = Some(Zone::named(word)?),
        }
        Some(())
    }

    fn moment(self, local: &Zone) -> Option<Moment> {
        match (self.date, self.clock) {
            (Some(date), Some(clock)) => {
                let zone = self.zone.as_ref().unwrap_or(local);
                let instant = zone.instant(date, clock)?;
                Some(match &self.zone {
                    Some(zone) => Moment::Zoned(instant, zone.offset(instant)?),
                    None => Moment::At(instant),
                })
            }
            (Some(date), None) => Some(Moment::Date(date)),
            (None, Some(clock)) => Some(Moment::Clock(clock)),
            (None, None) => None,
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

/// Reads two or three numbers with `/`, `-` or `.` between them. A first one of four digits is the year.
fn read_date(word: &str, locale: &Locale, today: &dyn Fn() -> Option<civil::Date>) -> Option<civil::Date> {
    let parts: Vec<&str> = word.split(['/', '-', '.', locale.date_separator]).collect();
    let numbers: Vec<i64> = parts.iter().map(|part| number(part)).collect::<Option<_>>()?;
    match (numbers[..].as_ref(), locale.date_order) {
        (&[year, month, day], _) if parts[0].len() == 4 => date(year, month, day),
        (&[year, month, day], DateOrder::YearMonthDay) => date(century(year, parts[0]), month, day),
        (&[month, day, year], DateOrder::MonthDayYear) => date(century(year, parts[2]), month, day),
        (&[day, month, year], DateOrder::DayMonthYear) => date(century(year, parts[2]), month, day),
        (&[day, month], DateOrder::DayMonthYear) => date(i64::from(today()?.year()), month, day),
        (&[month, day], _) => date(i64::from(today()?.year()), month, day),
        _ => None,
    }
}

/// Completes a year of two digits: 50 to 99 are of the last century.
fn century(year: i64, digits: &str) -> i64 {
    match digits.len() {
        1 | 2 if year < 50 => year + 2000,
        1 | 2 => year + 1900,
        _ => year,
    }
}

/// How a time is written: the format text of `@Text`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    date: u8,
    time: u8,
    zone: u8,
    part: u8,
}

/// Date and time as they come.
const PART_AS_IS: u8 = 2;
/// The zone behind every instant. Instants are always shown in the zone of the options, so there is no other zone to be told.
const ZONE_ALWAYS: u8 = 2;

impl Format {
    /// Reads a format text, `D0T1S2` for instance. What has no meaning is left out.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut format = Self { date: 0, time: 0, zone: 0, part: PART_AS_IS };
        let text = text.as_bytes();
        for pair in text.windows(2) {
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

/// Writes a time; a range with a dash between its ends.
#[must_use]
pub fn format(moment: Moment, format: &Format, options: &Options, now: Timestamp) -> String {
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

fn write_date(date: civil::Date, format: &Format, options: &Options, now: Timestamp) -> String {
    let today = Moment::at(now).date(&options.zone);
    if format.part == 3 && today == Some(date) {
        return "Today".to_owned();
    }
    if format.part == 3 && today.and_then(|today| add_days(today, -1)) == Some(date) {
        return "Yesterday".to_owned();
    }
    let locale = &options.locale;
    let (year, month, day) =
        (format!("{:04}", date.year()), format!("{:02}", date.month()), format!("{:02}", date.day()));
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
    let (hour, minute, second) = (clock / 360_000, clock / 6_000 % 60, clock / 100 % 60);
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
