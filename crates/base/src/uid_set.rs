//! Sets of UIDs as ranges, in ascending order and without overlap.
//!
//! The size of a set depends on its number of gaps, not on its number of members: `1:*` of a folder with a million
//! messages is one range.

use std::ops::RangeInclusive;

use crate::Uid;

/// A set of UIDs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct UidSet {
    ranges: Vec<(u32, u32)>,
}

impl UidSet {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a set from ranges in any order. The ends of a range may be swapped.
    #[must_use]
    pub fn from_ranges(ranges: impl IntoIterator<Item = (Uid, Uid)>) -> Self {
        let mut sorted: Vec<(u32, u32)> = ranges.into_iter().map(|(a, b)| (a.0.min(b.0), a.0.max(b.0))).collect();
        sorted.sort_unstable();
        let mut set = Self::new();
        for (first, last) in sorted {
            set.append(first, last);
        }
        set
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
    pub fn contains(&self, uid: Uid) -> bool {
        let index = self.ranges.partition_point(|(_, last)| *last < uid.0);
        self.ranges.get(index).is_some_and(|(first, _)| *first <= uid.0)
    }

    /// Adds a UID that is not smaller than the greatest member. Panics if it is smaller.
    pub fn push(&mut self, uid: Uid) {
        assert!(self.ranges.last().is_none_or(|(_, last)| *last <= uid.0), "UIDs are added in ascending order");
        self.append(uid.0, uid.0);
    }

    /// Returns the ranges, ascending.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = RangeInclusive<Uid>> + '_ {
        self.ranges.iter().map(|(first, last)| Uid(*first)..=Uid(*last))
    }

    /// Returns the smallest member.
    #[must_use]
    pub fn first(&self) -> Option<Uid> {
        self.ranges.first().map(|(first, _)| Uid(*first))
    }

    /// Returns the greatest member.
    #[must_use]
    pub fn last(&self) -> Option<Uid> {
        self.ranges.last().map(|(_, last)| Uid(*last))
    }

    fn append(&mut self, first: u32, last: u32) {
        match self.ranges.last_mut() {
            Some(end) if first <= end.1.saturating_add(1) => end.1 = end.1.max(last),
            _ => self.ranges.push((first, last)),
        }
    }
}

impl FromIterator<Uid> for UidSet {
    fn from_iter<T: IntoIterator<Item = Uid>>(uids: T) -> Self {
        Self::from_ranges(uids.into_iter().map(|uid| (uid, uid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_sorted() {
        let set = UidSet::from_ranges([(Uid(9), Uid(7)), (Uid(1), Uid(2)), (Uid(3), Uid(3)), (Uid(8), Uid(12))]);
        let ranges: Vec<_> = set.ranges().collect();
        assert_eq!(ranges, [Uid(1)..=Uid(3), Uid(7)..=Uid(12)]);
        assert_eq!((set.len(), set.first(), set.last()), (9, Some(Uid(1)), Some(Uid(12))));
        assert!(set.contains(Uid(3)) && !set.contains(Uid(4)) && set.contains(Uid(12)) && !set.contains(Uid(13)));
    }

    #[test]
    fn ranges_may_include_the_greatest_uid() {
        let set = UidSet::from_ranges([(Uid(u32::MAX), Uid(u32::MAX)), (Uid(1), Uid(u32::MAX))]);
        assert_eq!(set.len(), u64::from(u32::MAX));
    }
}
