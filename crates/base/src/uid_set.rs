//! Sets of UIDs as ranges, in ascending order and without overlap.
//!
//! The size of a set depends on its number of gaps, not on its number of members: `1:*` of a folder with a million
//! messages is one range. The same holds for the cost of every operation. Insertion at the end takes constant time, and
//! the test for membership logarithmic time.
//!
//! Sequence numbers, which have the same range and the same notation, are kept in such a set too. The text of a set is
//! that of a sequence set (RFC 9051 §9): `1:3,7`.
//!
//! Invariants: no range is empty, the ranges ascend, and at least one number lies between two of them. So equal sets
//! have equal ranges.

use std::fmt;
use std::ops::RangeInclusive;

use crate::Uid;

/// A set of UIDs.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct UidSet {
    ranges: Vec<(u32, u32)>,
}

impl UidSet {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `true` if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    /// Returns `true` if a UID is in the set.
    #[must_use]
    pub fn contains(&self, uid: u32) -> bool {
        let index = self.ranges.partition_point(|(_, last)| *last < uid);
        self.ranges.get(index).is_some_and(|(first, _)| *first <= uid)
    }

    /// Returns the ranges, ascending.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = RangeInclusive<u32>> + '_ {
        self.ranges.iter().map(|(first, last)| *first..=*last)
    }

    /// Returns the smallest member.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|(first, _)| *first)
    }

    /// Returns the greatest member.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|(_, last)| *last)
    }

    /// Adds a UID.
    pub fn insert(&mut self, uid: u32) {
        self.insert_range(uid..=uid);
    }

    /// Adds the UIDs of a range. An empty range adds nothing.
    pub fn insert_range(&mut self, uids: RangeInclusive<u32>) {
        if uids.is_empty() {
            return;
        }
        let (first, last) = uids.into_inner();
        if self.is_at_end(first) {
            return self.append(first, last);
        }
        let start = self.ranges.partition_point(|(_, highest)| highest.saturating_add(1) < first);
        let end = self.ranges.partition_point(|(lowest, _)| *lowest <= last.saturating_add(1));
        let joined = &self.ranges[start..end];
        let first = joined.first().map_or(first, |(lowest, _)| first.min(*lowest));
        let last = joined.last().map_or(last, |(_, highest)| last.max(*highest));
        self.ranges.splice(start..end, [(first, last)]);
    }

    /// Removes the UIDs of a range.
    pub fn remove_range(&mut self, uids: RangeInclusive<u32>) {
        if uids.is_empty() {
            return;
        }
        let (first, last) = uids.into_inner();
        let start = self.ranges.partition_point(|(_, highest)| *highest < first);
        let end = self.ranges.partition_point(|(lowest, _)| *lowest <= last);
        let cut = &self.ranges[start..end];
        let below = cut.first().filter(|(lowest, _)| *lowest < first).map(|(lowest, _)| (*lowest, first - 1));
        let above = cut.last().filter(|(_, highest)| *highest > last).map(|(_, highest)| (last + 1, *highest));
        self.ranges.splice(start..end, below.into_iter().chain(above));
    }

    /// Removes the UIDs outside of a range.
    pub fn retain_range(&mut self, uids: RangeInclusive<u32>) {
        if uids.is_empty() {
            return self.ranges.clear();
        }
        let (first, last) = uids.into_inner();
        self.ranges.truncate(self.ranges.partition_point(|(lowest, _)| *lowest <= last));
        self.ranges.drain(..self.ranges.partition_point(|(_, highest)| *highest < first));
        if let Some((lowest, _)) = self.ranges.first_mut() {
            *lowest = first.max(*lowest);
        }
        if let Some((_, highest)) = self.ranges.last_mut() {
            *highest = last.min(*highest);
        }
    }

    /// Returns the members that are also in another set.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut ranges = Vec::new();
        let mut left = self.ranges.as_slice();
        let mut right = other.ranges.as_slice();
        while let ([one, left_rest @ ..], [two, right_rest @ ..]) = (left, right) {
            let first = one.0.max(two.0);
            let last = one.1.min(two.1);
            if first <= last {
                ranges.push((first, last));
            }
            // The range that ends first meets no further range of the other set.
            if one.1 < two.1 {
                left = left_rest;
            } else {
                right = right_rest;
            }
        }
        Self { ranges }
    }

    /// Creates a set from ranges in any order. While they ascend, memory is used for their gaps only.
    fn from_ranges(ranges: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut set = Self::new();
        let mut unsorted = Vec::new();
        for (first, last) in ranges {
            if set.is_at_end(first) {
                set.append(first, last);
            } else {
                unsorted.push((first, last));
            }
        }
        if !unsorted.is_empty() {
            unsorted.append(&mut set.ranges);
            unsorted.sort_unstable();
            unsorted.into_iter().for_each(|(first, last)| set.append(first, last));
        }
        set
    }

    /// Returns `true` if a range with this first UID extends the last range, or follows it.
    fn is_at_end(&self, first: u32) -> bool {
        self.ranges.last().is_none_or(|(lowest, _)| *lowest <= first)
    }

    /// Adds a range that extends the last range, or follows it.
    fn append(&mut self, first: u32, last: u32) {
        match self.ranges.last_mut() {
            Some(end) if first <= end.1.saturating_add(1) => end.1 = end.1.max(last),
            _ => self.ranges.push((first, last)),
        }
    }
}

impl From<RangeInclusive<u32>> for UidSet {
    fn from(uids: RangeInclusive<u32>) -> Self {
        [uids].into_iter().collect()
    }
}

impl FromIterator<RangeInclusive<u32>> for UidSet {
    fn from_iter<T: IntoIterator<Item = RangeInclusive<u32>>>(ranges: T) -> Self {
        let ranges = ranges.into_iter().filter(|range| !range.is_empty());
        Self::from_ranges(ranges.map(RangeInclusive::into_inner))
    }
}

impl FromIterator<u32> for UidSet {
    fn from_iter<T: IntoIterator<Item = u32>>(uids: T) -> Self {
        Self::from_ranges(uids.into_iter().map(|uid| (uid, uid)))
    }
}

impl FromIterator<Uid> for UidSet {
    fn from_iter<T: IntoIterator<Item = Uid>>(uids: T) -> Self {
        uids.into_iter().map(|uid| uid.0).collect()
    }
}

impl fmt::Display for UidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (first, last) in &self.ranges {
            write!(f, "{separator}{first}")?;
            if first < last {
                write!(f, ":{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for UidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UidSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::Random;
    use crate::sim::SeededRandom;

    /// Returns a short range near one of the ends of the possible numbers. One range in twelve is empty.
    fn range(random: &SeededRandom) -> RangeInclusive<u32> {
        let low = random.below(60) as u32;
        let high = low + random.below(12) as u32;
        match random.below(12) {
            0 => high + 1..=low,
            number if number % 2 == 0 => u32::MAX - high..=u32::MAX - low,
            _ => low..=high,
        }
    }

    /// Changes the set and the model in the same way.
    fn change(set: &mut UidSet, model: &mut BTreeSet<u32>, random: &SeededRandom) {
        let uids = range(random);
        match random.below(12) {
            0 => {
                set.retain_range(uids.clone());
                model.retain(|uid| uids.contains(uid));
            }
            1..4 => {
                set.remove_range(uids.clone());
                model.retain(|uid| !uids.contains(uid));
            }
            4..6 => {
                set.insert(*uids.start());
                model.insert(*uids.start());
            }
            _ => {
                set.insert_range(uids.clone());
                model.extend(uids);
            }
        }
    }

    /// Checks that the set has the members of the model, and that its ranges are as long as possible.
    fn check(set: &UidSet, model: &BTreeSet<u32>, seed: u64) {
        let ranges: Vec<_> = set.ranges().collect();
        let is_separate = |pair: &[RangeInclusive<u32>]| u64::from(*pair[0].end()) + 1 < u64::from(*pair[1].start());
        assert!(ranges.iter().all(|range| !range.is_empty()), "seed {seed}: {set}");
        assert!(ranges.windows(2).all(is_separate), "seed {seed}: {set}");
        assert!(ranges.into_iter().flatten().eq(model.iter().copied()), "seed {seed}: {set} {model:?}");
        assert_eq!(set.len(), model.len() as u64, "seed {seed}: {set}");
        assert_eq!(set.is_empty(), model.is_empty(), "seed {seed}: {set}");
        assert_eq!(set.first(), model.first().copied(), "seed {seed}: {set}");
        assert_eq!(set.last(), model.last().copied(), "seed {seed}: {set}");
        let mut near_the_ends = (0..80).chain(u32::MAX - 80..=u32::MAX);
        assert!(near_the_ends.all(|uid| set.contains(uid) == model.contains(&uid)), "seed {seed}: {set} {model:?}");
    }

    /// Returns a set of some ranges, and the same members as a model.
    fn some_ranges(random: &SeededRandom) -> (UidSet, BTreeSet<u32>) {
        let ranges: Vec<_> = (0..random.below(12)).map(|_| range(random)).collect();
        (ranges.iter().cloned().collect(), ranges.into_iter().flatten().collect())
    }

    /// Reads a sequence set.
    fn parse(text: &str) -> UidSet {
        let number = |text: &str| text.parse::<u32>().expect("a number");
        let range = |text: &str| match text.split_once(':') {
            Some((first, last)) => number(first)..=number(last),
            None => number(text)..=number(text),
        };
        text.split(',').filter(|range| !range.is_empty()).map(range).collect()
    }

    #[test]
    fn changed_set_has_the_members_of_a_btree_set() {
        for seed in 0..200 {
            let random = SeededRandom::new(seed);
            let mut set = UidSet::new();
            let mut model = BTreeSet::new();
            for _ in 0..50 {
                change(&mut set, &mut model, &random);
                check(&set, &model, seed);
            }
            assert_eq!(parse(&set.to_string()), set, "seed {seed}");
        }
    }

    #[test]
    fn set_can_be_collected_in_any_order() {
        for seed in 0..200 {
            let random = SeededRandom::new(seed);
            let ranges: Vec<_> = (0..random.below(12)).map(|_| range(&random)).collect();
            let numbers: Vec<u32> = ranges.iter().cloned().flatten().collect();
            let model: BTreeSet<u32> = numbers.iter().copied().collect();
            let set: UidSet = ranges.into_iter().collect();
            check(&set, &model, seed);
            assert_eq!(numbers.iter().copied().collect::<UidSet>(), set, "seed {seed}");
            assert_eq!(numbers.into_iter().rev().map(Uid).collect::<UidSet>(), set, "seed {seed}");
        }
    }

    #[test]
    fn intersection_has_the_members_of_both_sets() {
        for seed in 0..200 {
            let random = SeededRandom::new(seed);
            let (one, one_model) = some_ranges(&random);
            let (other, other_model) = some_ranges(&random);
            let model: BTreeSet<u32> = one_model.intersection(&other_model).copied().collect();
            check(&one.intersection(&other), &model, seed);
            assert_eq!(one.intersection(&one), one, "seed {seed}");
        }
    }

    #[test]
    fn ranges_are_joined_and_sorted() {
        let set: UidSet = [7..=9, 1..=2, 3..=3, 8..=12].into_iter().collect();
        assert_eq!(set.ranges().collect::<Vec<_>>(), [1..=3, 7..=12]);
        assert_eq!((set.len(), set.first(), set.last()), (9, Some(1), Some(12)));
        assert!(set.contains(3) && !set.contains(4) && set.contains(12) && !set.contains(13));
    }

    #[test]
    fn ranges_may_include_the_greatest_uid() {
        let set: UidSet = [u32::MAX..=u32::MAX, 1..=u32::MAX].into_iter().collect();
        assert_eq!(set.len(), u64::from(u32::MAX));
    }

    #[test]
    fn text_is_a_sequence_set() {
        let check = |set: UidSet, expected: &str| assert_eq!(set.to_string(), expected);
        check(UidSet::new(), "");
        check([3, 1, 2, 7].into_iter().collect(), "1:3,7");
        check([Uid(u32::MAX), Uid(u32::MAX - 1)].into_iter().collect(), "4294967294:4294967295");
    }
}
