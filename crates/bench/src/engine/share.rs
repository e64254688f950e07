//! The share of a process in a run that several processes play: which users it has, and what they tell each other at a
//! border.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::phases::Border;
use super::run::RunEnd;

/// How long a part may be silent after its counts were due.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Which part of a run a process plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartShare {
    part: u64,
    parts: u64,
}

impl Default for PartShare {
    fn default() -> Self {
        Self { part: 1, parts: 1 }
    }
}

impl PartShare {
    /// Creates the share of a part, counted from 1. Returns `None` unless it is one of the parts.
    pub fn new(part: u64, parts: u64) -> Option<Self> {
        (1..=parts).contains(&part).then_some(Self { part, parts })
    }

    /// Returns the number of the part.
    pub fn part(self) -> u64 {
        self.part
    }

    /// Returns the number of parts.
    pub fn parts(self) -> u64 {
        self.parts
    }

    /// Returns the users of this part among those that join with a level: equal ranges in the order of the parts.
    pub fn users(self, joining: RangeInclusive<u64>) -> RangeInclusive<u64> {
        let first = *joining.start();
        let count = u128::from(joining.end().saturating_add(1).saturating_sub(first));
        let border = |part: u64| first + (count * u128::from(part) / u128::from(self.parts)) as u64;
        border(self.part - 1)..=border(self.part).saturating_sub(1)
    }
}

/// What follows from the counts of all parts at a border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchanged {
    /// The sums of all parts.
    Counts(Border),
    /// The run ends.
    End(RunEnd),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_equal_and_complete() {
        for (count, parts) in [(10, 3), (1, 2), (64, 64), (20_000, 7), (5, 1)] {
            let mut next = 101;
            for part in 1..=parts {
                let users = PartShare::new(part, parts).expect("a part").users(101..=100 + count);
                assert_eq!(*users.start(), next);
                let length = (users.end() + 1) - users.start();
                assert!((count / parts..=count / parts + 1).contains(&length), "{count} {parts} {part}");
                next = users.end() + 1;
            }
            assert_eq!(next, 101 + count);
        }
        assert_eq!([PartShare::new(0, 2), PartShare::new(3, 2)], [None, None]);
    }
}
