//! Durations, spreads and shares, as they are written and as they are kept.
//!
//! Durations are whole microseconds, and shares are whole millionths, so that no sum is rounded and every machine draws
//! the same.

use serde::{Serialize, Serializer};

use super::fraction::Fraction;
use super::limits::DURATION_US_MAX;

const UNITS: &[(&str, u64)] = &[("ms", 1_000), ("s", 1_000_000), ("min", 60_000_000), ("h", 3_600_000_000)];

/// One hour in microseconds.
pub const HOUR_US: u64 = 3_600_000_000;

/// Parses a duration such as `15 min`. Returns `None` if the text is none, or if it exceeds 168 hours.
pub fn parse_duration(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = text[digits..].strip_prefix(' ').unwrap_or(&text[digits..]);
    let (_, unit_us) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let duration_us = text[..digits].parse::<u64>().ok()?.checked_mul(*unit_us)?;
    Some(duration_us).filter(|us| *us <= DURATION_US_MAX)
}

/// Formats a duration in the largest unit of which it is a whole number.
pub fn format_duration(duration_us: u64) -> String {
    let whole = UNITS.iter().rev().find(|(_, unit_us)| duration_us.is_multiple_of(*unit_us) && duration_us > 0);
    match whole {
        Some((name, unit_us)) => format!("{} {name}", duration_us / unit_us),
        None if duration_us == 0 => "0 s".to_owned(),
        None => format!("{} us", duration_us),
    }
}

/// Formats an integer with commas between groups of three digits.
pub fn format_integer(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Durations between which values are drawn uniformly, both included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The shortest one, in microseconds.
    pub min_us: u64,
    /// The longest one, in microseconds.
    pub max_us: u64,
}

/// A part of a whole, from 0 to 1, in whole millionths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    millionths: u32,
}

impl Share {
    /// The whole.
    pub const ALL: Self = Self { millionths: 1_000_000 };

    /// Creates a share from a number, rounded to millionths. Returns `None` if it is not from 0 to 1.
    pub fn from_f64(number: f64) -> Option<Self> {
        (0.0..=1.0).contains(&number).then(|| Self { millionths: (number * 1e6).round() as u32 })
    }

    /// Creates a share from millionths. Returns `None` if there are more than a million.
    pub fn from_millionths(millionths: u32) -> Option<Self> {
        (millionths <= Self::ALL.millionths).then_some(Self { millionths })
    }

    /// Returns the millionths.
    pub fn millionths(self) -> u32 {
        self.millionths
    }

    /// Returns the share as a fraction.
    pub fn fraction(self) -> Fraction {
        Fraction::new(self.millionths.into(), Self::ALL.millionths.into())
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.millionths) / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_whole_number_and_a_unit() {
        let check = |text, expected| assert_eq!(parse_duration(text), expected, "{text:?}");
        check("15 min", Some(900_000_000));
        check("90s", Some(90_000_000));
        check("0 s", Some(0));
        check("5 ms", Some(5_000));
        check("168 h", Some(DURATION_US_MAX));
        check("169 h", None);
        check("18446744073709551615 h", None);
        check("99999999999999999999 s", None);
        for text in ["", "15", "min", " 15 min", "15  min", "-1 s", "1.5 h", "1 day", "1 s ", "1 S"] {
            check(text, None);
        }
    }

    #[test]
    fn formatted_durations_are_parsed_again() {
        for (duration_us, text) in
            [(0, "0 s"), (900_000_000, "15 min"), (90_000_000, "90 s"), (1_500_000, "1500 ms"), (HOUR_US, "1 h")]
        {
            assert_eq!(format_duration(duration_us), text);
            assert_eq!(parse_duration(text), Some(duration_us));
        }
    }

    #[test]
    fn integers_have_groups_of_three_digits() {
        let formatted = [0, 999, 1_000, 97_305, 1_000_000].map(format_integer);
        assert_eq!(formatted, ["0", "999", "1,000", "97,305", "1,000,000"]);
    }

    #[test]
    fn shares_are_rounded_to_millionths() {
        assert_eq!(Share::from_f64(0.2).map(Share::millionths), Some(200_000));
        assert_eq!(Share::from_f64(1.0 / 3.0).map(Share::millionths), Some(333_333));
        for number in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            assert_eq!(Share::from_f64(number), None, "{number}");
        }
        assert_eq!((Share::from_millionths(1_000_000), Share::from_millionths(1_000_001)), (Some(Share::ALL), None));
    }
}
