//! The times that a stub server takes for an answer.

use std::str::FromStr;
use std::time::Duration;

use crate::random::SplitMix64;
use crate::workload::units::parse_duration;

/// How long a call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseTime {
    /// No time.
    AtOnce,
    /// Always the same time.
    Constant(Duration),
    /// A time that is drawn uniformly between two.
    Uniform(Duration, Duration),
    /// A time that is drawn from the exponential distribution with this mean.
    Exponential(Duration),
}

impl ResponseTime {
    /// Draws the time of a call by its number.
    pub fn draw(self, seed: u64, number: u64) -> Duration {
        // 53 bits of the number, so that the fraction is below 1.
        let fraction = || {
            let state = SplitMix64::new(seed).number() ^ number;
            (SplitMix64::new(state).number() >> 11) as f64 / (1_u64 << 53) as f64
        };
        match self {
            Self::AtOnce => Duration::ZERO,
            Self::Constant(time) => time,
            Self::Uniform(least, most) => least + (most - least).mul_f64(fraction()),
            Self::Exponential(mean) => mean.mul_f64(-(1.0 - fraction()).ln()),
        }
    }
}

/// Parses `5 ms`, `1 ms-9 ms` or `exponential 5 ms`.
impl FromStr for ResponseTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| {
            let micros =
                parse_duration(text.trim()).ok_or("not a time such as \"5 ms\", \"1 ms-9 ms\", \"exponential 5 ms\"");
            micros.map(Duration::from_micros)
        };
        if let Some(mean) = text.strip_prefix("exponential ") {
            return Ok(Self::Exponential(time(mean)?));
        }
        let Some((least, most)) = text.split_once('-') else { return Ok(Self::Constant(time(text)?)) };
        let [least, most] = [time(least)?, time(most)?];
        if least > most { Err("the first time is the longer one".to_owned()) } else { Ok(Self::Uniform(least, most)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn times_are_parsed() {
        assert_eq!("5 ms".parse(), Ok(ResponseTime::Constant(millis(5))));
        assert_eq!("1 ms-9 ms".parse(), Ok(ResponseTime::Uniform(millis(1), millis(9))));
        assert_eq!("exponential 2 s".parse(), Ok(ResponseTime::Exponential(millis(2_000))));
        for text in ["", "5", "9 ms-1 ms", "exponential", "exponential x"] {
            assert!(text.parse::<ResponseTime>().is_err(), "{text}");
        }
    }

    /// Checks a quantile of 10,000 draws.
    fn check(time: ResponseTime, quantile: f64, expected: Duration) {
        let mut drawn: Vec<Duration> = (0..10_000).map(|number| time.draw(1, number)).collect();
        drawn.sort_unstable();
        let found = drawn[(quantile * 10_000.0) as usize];
        let is_near = (found.as_secs_f64() - expected.as_secs_f64()).abs() < 0.05 * expected.as_secs_f64();
        assert!(is_near, "{found:?}, not {expected:?}");
    }

    #[test]
    fn times_have_their_distribution() {
        check(ResponseTime::Uniform(millis(10), millis(110)), 0.5, millis(60));
        check(ResponseTime::Uniform(millis(10), millis(110)), 0.9, millis(100));
        // The median of the exponential distribution is ln 2 of the mean, and 95 % are below ln 20 of it.
        check(ResponseTime::Exponential(millis(100)), 0.5, Duration::from_micros(69_315));
        check(ResponseTime::Exponential(millis(100)), 0.95, Duration::from_micros(299_573));
        assert_eq!(ResponseTime::AtOnce.draw(1, 5), Duration::ZERO);
    }
}
