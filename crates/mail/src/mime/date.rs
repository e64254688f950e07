//! Dates of header fields (RFC 5322 §3.3, and the deviations of real Date fields).
//!
//! The parser reads the day, the month by its name, the year of two to four digits, the time with or without seconds,
//! and the zone as an offset or as one of the old names. It skips the day of the week and comments. It accepts the
//! order "month day time year" of `asctime`.
//!
//! A date without a zone is in UTC. The day must exist in its month, and the time must be valid. A leap second counts
//! as the second before it.

use base::time::days_since_epoch;
use base::{Timestamp, civil};

/// Maximum length of a text that is examined.
const DATE_BYTES_MAX: usize = 256;

/// A point in time and the zone in which the sender wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderDate {
    /// The point in time.
    pub timestamp: Timestamp,
    /// The zone's offset from UTC in minutes. East is positive.
    pub offset_minutes: i32,
}

impl HeaderDate {
    /// Parses the value of a Date field.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut reading = DateFields::default();
        for token in Tokens::new(value) {
            reading.take(token);
        }
        reading.finish()
    }

    /// Returns the day as it was written, ignoring its zone, in days since 1970-01-01.
    #[must_use]
    pub fn local_day(self) -> i64 {
        (self.timestamp.seconds() + i64::from(self.offset_minutes) * 60).div_euclid(86_400)
    }
}

#[derive(Clone, Copy)]
enum Token<'a> {
    Number(i64, usize),
    Time([i64; 3]),
    Signed { sign: i32, value: i64, digits: usize },
    Name(&'a [u8]),
}

/// The tokens of a date, without comments and punctuation.
struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    fn new(value: &'a [u8]) -> Self {
        Self { rest: value.get(..DATE_BYTES_MAX).unwrap_or(value) }
    }

    /// Skips white space and comments before a colon. Returns `false` and consumes nothing if there is no colon.
    fn skip_to_colon(&mut self) -> bool {
        let before = self.rest;
        loop {
            self.rest = self.rest.trim_ascii_start();
            match self.rest {
                [b'(', ..] => self.skip_comment(),
                [b':', ..] => return true,
                _ => break,
            }
        }
        self.rest = before;
        false
    }

    fn skip_comment(&mut self) {
        let mut depth = 0_usize;
        while let Some((byte, rest)) = self.rest.split_first() {
            self.rest = rest;
            match byte {
                b'(' => depth += 1,
                b')' if depth <= 1 => return,
                b')' => depth -= 1,
                _ => {}
            }
        }
    }

    fn take_while(&mut self, wanted: fn(&u8) -> bool) -> &'a [u8] {
        let length = self.rest.iter().position(|byte| !wanted(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn number(&mut self) -> (i64, usize) {
        let digits = self.take_while(u8::is_ascii_digit);
        let value = digits.iter().take(9).fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        (value, digits.len())
    }

    /// Consumes the text after the hour: `:mm` and optionally `:ss`.
    fn time(&mut self, hour: i64) -> Token<'a> {
        let mut time = [hour, 0, 0];
        for part in &mut time[1..] {
            if !self.skip_to_colon() {
                break;
            }
            self.rest = self.rest[1..].trim_ascii_start();
            *part = self.number().0;
        }
        if let [b'.', ..] = self.rest {
            self.rest = &self.rest[1..];
            self.number();
        }
        Token::Time(time)
    }

    /// Consumes the digits after a sign, and the minutes after a colon.
    fn signed(&mut self, sign: i32) -> Token<'a> {
        let (mut value, mut digits) = self.number();
        if let [b':', ..] = self.rest {
            self.rest = &self.rest[1..];
            let (minutes, minute_digits) = self.number();
            value = value.saturating_mul(100).saturating_add(minutes);
            digits += minute_digits;
        }
        Token::Signed { sign, value, digits }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let (byte, rest) = self.rest.split_first()?;
            match byte {
                b'(' => self.skip_comment(),
                b'0'..=b'9' => {
                    let (value, digits) = self.number();
                    return Some(if self.skip_to_colon() { self.time(value) } else { Token::Number(value, digits) });
                }
                b'+' | b'-' if rest.first().is_some_and(u8::is_ascii_digit) => {
                    self.rest = rest;
                    return Some(self.signed(if *byte == b'-' { -1 } else { 1 }));
                }
                byte if byte.is_ascii_alphabetic() => {
                    return Some(Token::Name(self.take_while(u8::is_ascii_alphabetic)));
                }
                _ => self.rest = rest,
            }
        }
    }
}

/// The parsed fields of a date.
#[derive(Default)]
struct DateFields {
    day: Option<i64>,
    month: Option<i64>,
    year: Option<i64>,
    time: Option<[i64; 3]>,
    offset_minutes: Option<i32>,
}

impl DateFields {
    fn take(&mut self, token: Token<'_>) {
        match token {
            Token::Number(value, digits) if self.day.is_none() && digits <= 2 => self.day = Some(value),
            Token::Number(value, digits) if self.year.is_none() => self.year = year(value, digits),
            Token::Number(..) => {}
            Token::Time(time) => self.time = self.time.or(Some(time)),
            // `21-Nov-97 10:00`: before the time, a hyphen precedes the year.
            Token::Signed { value, digits, .. } if self.time.is_none() && self.year.is_none() => {
                self.year = year(value, digits);
            }
            Token::Signed { sign, value, digits } => {
                self.offset_minutes = self.offset_minutes.or(Some(offset_minutes(sign, value, digits)));
            }
            Token::Name(name) => self.name(name),
        }
    }

    fn name(&mut self, name: &[u8]) {
        const MONTHS: [&[u8]; 12] =
            [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
        let lower = name.to_ascii_lowercase();
        let month = MONTHS.iter().position(|month| lower.starts_with(month));
        match month {
            Some(index) if self.month.is_none() => self.month = i64::try_from(index + 1).ok(),
            _ if self.time.is_some() && self.offset_minutes.is_none() => self.offset_minutes = zone(&lower),
            _ => {}
        }
    }

    fn finish(self) -> Option<HeaderDate> {
        let year = self.year?;
        let month = self.month?;
        let day = self.day?;
        let [hour, minute, second] = self.time.unwrap_or_default();
        let date = civil::Date::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?).ok()?;
        if hour > 24 || minute > 59 || second > 60 {
            return None;
        }
        let offset_minutes = self.offset_minutes.unwrap_or(0);
        let local = days_since_epoch(date) * 86_400 + hour * 3_600 + minute * 60 + second.min(59);
        let timestamp = Timestamp::from_seconds(local - i64::from(offset_minutes) * 60);
        Some(HeaderDate { timestamp, offset_minutes })
    }
}

/// Completes a year by the rules of RFC 5322 §4.3.
fn year(value: i64, digits: usize) -> Option<i64> {
    match (digits, value) {
        (..=2, 0..=49) => Some(2_000 + value),
        (..=3, _) => Some(1_900 + value),
        (4, 1..) => Some(value),
        _ => None,
    }
}

/// Parses `+hh` or `+hhmm`. An impossible offset counts as UTC.
fn offset_minutes(sign: i32, value: i64, digits: usize) -> i32 {
    let (hours, minutes) = if digits <= 2 { (value, 0) } else { (value / 100, value % 100) };
    let minutes = hours.saturating_mul(60).saturating_add(minutes);
    if minutes < 24 * 60 { i32::try_from(minutes).unwrap_or(0) * sign } else { 0 }
}

/// Returns the offset of a zone name. A single letter and an unknown name count as UTC (RFC 5322 §4.3). Returns `None`
/// for `am` and `pm`.
fn zone(lower: &[u8]) -> Option<i32> {
    let hours = match lower {
        b"edt" => -4,
        b"est" | b"cdt" => -5,
        b"cst" | b"mdt" => -6,
        b"mst" | b"pdt" => -7,
        b"pst" => -8,
        b"cet" | b"met" | b"bst" => 1,
        b"cest" | b"mest" | b"eet" => 2,
        b"am" | b"pm" => return None,
        _ => 0,
    };
    Some(hours * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, expected: Option<(i64, i32)>) {
        let found = HeaderDate::parse(value.as_bytes()).map(|date| (date.timestamp.seconds(), date.offset_minutes));
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn rfc_examples_are_parsed() {
        check("Fri, 21 Nov 1997 09:55:06 -0600", Some((880_127_706, -360)));
        check("Tue, 1 Jul 2003 10:52:37 +0200", Some((1_057_049_557, 120)));
        check(
            "Thu,\r\n      13\r\n        Feb\r\n          1969\r\n      23:32\r\n               -0330 (Newfoundland Time)",
            Some((-27_723_480, -210)),
        );
        check("21 Nov 97 09:55:06 GMT", Some((880_106_106, 0)));
        check("Fri, 21 Nov 1997 09(comment):   55  :  06 -0600", Some((880_127_706, -360)));
    }

    #[test]
    fn nonconforming_dates_are_parsed() {
        check("21-Nov-1997 09:55:06 +0100", Some((880_102_506, 60)));
        check("21-Nov-97 09:55:06 +0100", Some((880_102_506, 60)));
        check("Fri Nov 21 09:55:06 1997", Some((880_106_106, 0)));
        check("Fri Nov 21 09:55:06 EST 1997", Some((880_124_106, -300)));
        check("21 November 1997 09:55", Some((880_106_100, 0)));
        check("Fri, 21 Nov 1997", Some((880_070_400, 0)));
        check("Fri, 21 Nov 1997 09:55:06.123 +01:00", Some((880_102_506, 60)));
        check("21 Nov 102 00:00:00 Z", Some((1_037_836_800, 0)));
        check("31 Dec 2016 23:59:60 +0000", Some((1_483_228_799, 0)));
    }

    #[test]
    fn invalid_dates_are_refused() {
        for text in
            ["", "yesterday", "32 Jan 2020 00:00:00 +0000", "29 Feb 2021 10:00:00", "1 Foo 2020", "10 Jan 2020 25:00"]
        {
            check(text, None);
        }
        check("1 Jan 99999999999999999999 10:00:00 +0000", None);
        check("1 Jan 2020 10:00:00 +99999999999", Some((1_577_872_800, 0)));
    }

    #[test]
    fn local_day_uses_the_senders_time_zone() {
        let day = |text: &str| HeaderDate::parse(text.as_bytes()).map(HeaderDate::local_day);
        assert_eq!(day("1 Jan 1970 23:59:00 -1200"), Some(0));
        assert_eq!(day("2 Jan 1970 00:30:00 +1400"), Some(1));
    }
}
