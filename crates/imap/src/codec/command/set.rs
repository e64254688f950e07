//! Sets of messages as the client wrote them: `1:5,9,12:*`, or `$` for the saved result.
//!
//! A set is kept as written, unordered and with `*` unresolved, because only the session that executes the command
//! knows the meaning of `*`. [`SequenceSet::resolve`] returns the numbers as a [`UidSet`].

use std::ops::RangeInclusive;

use base::UidSet;

/// One end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A number, never zero.
    Number(u32),
    /// `*`: the largest number in use.
    Last,
}

impl Bound {
    /// Returns the number, with `last` in place of `*`.
    #[must_use]
    pub fn resolve(self, last: u32) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Last => last,
        }
    }
}

/// A range of numbers, with both ends included and in any order. A single number is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceRange {
    /// The end that was written first.
    pub first: Bound,
    /// The end that was written last.
    pub last: Bound,
}

/// Message numbers in the order in which the client wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SequenceSet {
    /// The ranges. A set from a client has at least one.
    pub ranges: Vec<SequenceRange>,
}

impl SequenceSet {
    /// Creates a set from resolved numbers.
    #[must_use]
    pub fn from_numbers(numbers: &UidSet) -> Self {
        let bound = |range: RangeInclusive<u32>| SequenceRange {
            first: Bound::Number(*range.start()),
            last: Bound::Number(*range.end()),
        };
        Self { ranges: numbers.ranges().map(bound).collect() }
    }

    /// Returns the numbers, with `last` in place of `*`.
    ///
    /// A range with `*` includes the last message even if its other end is larger (RFC 9051 §9, `seq-range`).
    #[must_use]
    pub fn resolve(&self, last: u32) -> UidSet {
        self.ranges.iter().map(|range| range.resolve(last)).collect()
    }

    /// Returns `true` if the number is in the set, with `last` in place of `*`. Linear, so meant for small sets.
    #[must_use]
    pub fn contains(&self, number: u32, last: u32) -> bool {
        self.ranges.iter().any(|range| range.resolve(last).contains(&number))
    }

    /// Returns at most `count_max` numbers in the order written. Ranges with `*` are omitted.
    pub fn numbers_in_order(&self, count_max: usize) -> impl Iterator<Item = u32> + '_ {
        self.ranges
            .iter()
            .flat_map(|range| match (range.first, range.last) {
                (Bound::Number(first), Bound::Number(last)) => first.min(last)..=first.max(last),
                #[allow(clippy::reversed_empty_ranges, reason = "an empty range is intended")]
                _ => 1..=0,
            })
            .take(count_max)
    }
}

impl SequenceRange {
    fn resolve(&self, last: u32) -> RangeInclusive<u32> {
        let first = self.first.resolve(last);
        let last = self.last.resolve(last);
        first.min(last)..=first.max(last)
    }
}

/// The messages that a command addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageSet {
    /// `$`: the result saved by the last `SEARCH RETURN (SAVE)` (RFC 5182).
    Saved,
    /// Message numbers.
    Numbers(SequenceSet),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(Bound, Bound)]) -> SequenceSet {
        SequenceSet { ranges: ranges.iter().map(|&(first, last)| SequenceRange { first, last }).collect() }
    }

    #[test]
    fn resolved_ranges_are_sorted_and_merged() {
        use Bound::{Last, Number};
        let check = |ranges: &[(Bound, Bound)], last, expected: &str| {
            assert_eq!(set(ranges).resolve(last).to_string(), expected);
        };
        check(&[(Number(9), Number(7)), (Number(1), Number(1)), (Number(2), Number(3))], 20, "1:3,7:9");
        check(&[(Number(5), Last)], 3, "3:5");
        check(&[(Last, Last), (Number(2), Number(30))], 8, "2:30");
        check(&[(Number(u32::MAX), Number(u32::MAX)), (Number(1), Last)], u32::MAX, "1:4294967295");
    }

    #[test]
    fn reversed_range_contains_its_numbers() {
        let set = set(&[(Bound::Last, Bound::Number(4))]);
        assert!(set.contains(5, 6));
        assert!(!set.contains(7, 6));
    }
}
