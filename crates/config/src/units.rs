//! Sizes and durations in readable form: `256MiB`, `1h30min`.
//!
//! Sizes are whole numbers with `B`, `KiB`, `MiB`, `GiB` or `TiB` (powers of 1024; `K`, `M`, `G`, `T` mean the same); a
//! number without a unit counts bytes. Durations are whole numbers with `ms`, `s`, `min`, `h`, `d` or `w`, and several
//! can follow each other. A duration without a unit is refused, except zero, because its unit would be a guess. Both
//! are formatted in the largest unit that divides them without remainder.

use std::fmt;
use std::time::Duration;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ByteSize(pub u64);

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ConfigDuration(pub Duration);

const SIZE_UNITS: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

const TIME_UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

impl ByteSize {
    /// Parses a size.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (number, unit) = split_number(text.trim()).ok_or_else(|| size_error(text))?;
        let factor = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            _ => return Err(size_error(text)),
        };
        number.checked_mul(factor).map(Self).ok_or_else(|| format!("{text:?} is too large"))
    }

    /// Returns the number of bytes as a `usize`, or `usize::MAX` if it does not fit.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl ConfigDuration {
    /// Parses a duration.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Self::default());
        }
        let mut total_ms: u64 = 0;
        while !rest.is_empty() {
            let (number, after) = split_number(rest).ok_or_else(|| duration_error(text))?;
            let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
            let (unit, next) = after.split_at_checked(end).unwrap_or((after, ""));
            let factor = time_factor(unit).ok_or_else(|| duration_error(text))?;
            let part = number.checked_mul(factor);
            total_ms =
                part.and_then(|part| total_ms.checked_add(part)).ok_or_else(|| format!("{text:?} is too long"))?;
            rest = next.trim_start();
        }
        if text.trim().is_empty() { Err(duration_error(text)) } else { Ok(Self(Duration::from_millis(total_ms))) }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = SIZE_UNITS.iter().find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor));
        let (name, factor) = unit.copied().unwrap_or(("B", 1));
        write!(f, "{}{name}", self.0 / factor)
    }
}

impl fmt::Display for ConfigDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total_ms = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let unit = TIME_UNITS.iter().find(|(_, factor)| total_ms != 0 && total_ms.is_multiple_of(*factor));
        let (name, factor) = unit.copied().unwrap_or(("s", 1_000));
        write!(f, "{}{name}", total_ms / factor)
    }
}

/// Splits off the leading digits of a text. Returns `None` if there are none or the number is too large.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

fn time_factor(unit: &str) -> Option<u64> {
    let unit = match unit.to_ascii_lowercase().as_str() {
        "sec" => "s".to_owned(),
        "m" => "min".to_owned(),
        other => other.to_owned(),
    };
    TIME_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

fn size_error(text: &str) -> String {
    format!("{text:?} is not a size; write a number and a unit, as in 256MiB")
}

fn duration_error(text: &str) -> String {
    format!("{text:?} is not a duration; write numbers and units, as in 30s, 15min or 1h30min")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check_size(text: &str, bytes: u64, shown: &str) {
        let size = ByteSize::parse(text).expect("a size");
        assert_eq!((size.0, size.to_string().as_str()), (bytes, shown), "{text}");
    }

    fn check_duration(text: &str, milliseconds: u64, shown: &str) {
        let span = ConfigDuration::parse(text).expect("a duration");
        assert_eq!((span.0.as_millis(), span.to_string().as_str()), (u128::from(milliseconds), shown), "{text}");
    }

    #[test]
    fn sizes_read_in_every_unit() {
        check_size("0", 0, "0B");
        check_size("4096", 4_096, "4KiB");
        check_size("1000 B", 1_000, "1000B");
        check_size("256MiB", 256 << 20, "256MiB");
        check_size("256m", 256 << 20, "256MiB");
        check_size("2048GiB", 2 << 40, "2TiB");
        check_size("1536KiB", 1_536 << 10, "1536KiB");
    }

    #[test]
    fn durations_read_in_every_unit() {
        check_duration("0", 0, "0s");
        check_duration("250ms", 250, "250ms");
        check_duration("90s", 90_000, "90s");
        check_duration("15min", 900_000, "15min");
        check_duration("15m", 900_000, "15min");
        check_duration("1h30min", 5_400_000, "90min");
        check_duration("1d 12h", 129_600_000, "36h");
        check_duration("14d", 1_209_600_000, "2w");
    }

    #[test]
    fn invalid_sizes_and_durations_are_refused() {
        for text in ["", "MiB", "1.5GiB", "-1", "12 parsecs", "99999999999999TiB", "1MiB2", "١MiB"] {
            assert!(ByteSize::parse(text).is_err(), "{text:?}");
        }
        for text in ["", "s", "30", "1.5h", "-1s", "99999999999999999w", "1h30", "1h min", "१s"] {
            assert!(ConfigDuration::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn sizes_and_durations_round_trip(bytes: u64, seconds in 0u64..1 << 40) {
            let size = ByteSize(bytes);
            prop_assert_eq!(ByteSize::parse(&size.to_string()), Ok(size));
            let span = ConfigDuration(Duration::from_secs(seconds));
            prop_assert_eq!(ConfigDuration::parse(&span.to_string()), Ok(span));
        }

        #[test]
        fn parsing_never_panics(text in ".{0,24}") {
            let _ = (ByteSize::parse(&text), ConfigDuration::parse(&text));
        }
    }
}
