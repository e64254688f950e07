//! Weights: the contribution of an entry to the totals of its collection.
//!
//! A collection counts its entries and keeps up to [`SUMS_MAX`] sums in addition, for example the number of unseen
//! messages in a folder and their size in bytes. The contribution of one entry to each sum is its [`Weight`]. The
//! collection's [`EntryWeigher`] computes it from the entry's key and value, and callers never pass it in. Therefore a
//! sum cannot drift from the entries, a block can be split anywhere, and a lost tree can be rebuilt.
//!
//! All arithmetic is checked. Sums outside of the range of `i64` are an error, because weights come from stored bytes.

use crate::limits::SUMS_MAX;

/// The contribution of one entry to each sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weight {
    values: [i64; SUMS_MAX],
}

impl Weight {
    /// A weight that adds nothing to any sum.
    pub const ZERO: Self = Self { values: [0; SUMS_MAX] };

    /// Creates a weight of at most [`SUMS_MAX`] values. The remaining values are 0.
    #[must_use]
    pub fn new(values: &[i64]) -> Self {
        assert!(values.len() <= SUMS_MAX, "a collection keeps at most {SUMS_MAX} sums");
        let mut weight = Self::ZERO;
        weight.values[..values.len()].copy_from_slice(values);
        weight
    }

    /// Returns one value.
    #[must_use]
    pub fn value(&self, sum: usize) -> i64 {
        assert!(sum < SUMS_MAX, "a collection keeps at most {SUMS_MAX} sums");
        self.values[sum]
    }

    pub(crate) fn set(&mut self, sum: usize, value: i64) {
        self.values[sum] = value;
    }

    pub(crate) fn checked_add(&self, other: &Self) -> Option<Self> {
        let mut values = self.values;
        for (value, more) in values.iter_mut().zip(&other.values) {
            *value = value.checked_add(*more)?;
        }
        Some(Self { values })
    }

    pub(crate) fn checked_sub(&self, other: &Self) -> Option<Self> {
        let mut values = self.values;
        for (value, less) in values.iter_mut().zip(&other.values) {
            *value = value.checked_sub(*less)?;
        }
        Some(Self { values })
    }

    /// Returns `true` if only the first `sums` values are used.
    pub(crate) fn fits(&self, sums: usize) -> bool {
        self.values[sums..].iter().all(|value| *value == 0)
    }
}

/// Number of entries in a part of a collection, and the sums of their weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Number of entries.
    pub count: u64,
    /// Sums of their weights.
    pub sums: Weight,
}

impl Totals {
    /// Totals of no entries.
    pub const ZERO: Self = Self { count: 0, sums: Weight::ZERO };

    /// Creates the totals of one entry.
    pub(crate) fn one(weight: Weight) -> Self {
        Self { count: 1, sums: weight }
    }

    pub(crate) fn checked_add(&self, other: &Self) -> Option<Self> {
        Some(Self { count: self.count.checked_add(other.count)?, sums: self.sums.checked_add(&other.sums)? })
    }

    pub(crate) fn checked_sub(&self, other: &Self) -> Option<Self> {
        Some(Self { count: self.count.checked_sub(other.count)?, sums: self.sums.checked_sub(&other.sums)? })
    }

    pub(crate) fn changed(&self, change: &TotalsChange) -> Option<Self> {
        let count = self.count.checked_add_signed(change.count)?;
        Some(Self { count, sums: self.sums.checked_add(&change.sums)? })
    }
}

/// A change of totals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TotalsChange {
    pub(crate) count: i64,
    pub(crate) sums: Weight,
}

impl TotalsChange {
    pub(crate) const NONE: Self = Self { count: 0, sums: Weight::ZERO };

    /// Creates the change for an entry whose weight changes from `before` to `after`. `None` stands for an absent
    /// entry.
    pub(crate) fn between(before: Option<Weight>, after: Option<Weight>) -> Option<Self> {
        let count = i64::from(after.is_some()) - i64::from(before.is_some());
        let sums = after.unwrap_or_default().checked_sub(&before.unwrap_or_default())?;
        Some(Self { count, sums })
    }

    pub(crate) fn checked_add(&self, other: &Self) -> Option<Self> {
        Some(Self { count: self.count.checked_add(other.count)?, sums: self.sums.checked_add(&other.sums)? })
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.count == 0 && self.sums == Weight::ZERO
    }
}

/// A weigher, which computes the weights of a collection's entries.
pub trait EntryWeigher {
    /// Returns the number of sums that the collection keeps, at most [`SUMS_MAX`]. It never changes for an existing
    /// collection.
    fn sums(&self) -> usize;

    /// Returns the weight of an entry, or `None` if its value is damaged. The same entry always has the same weight.
    fn weigh(&self, key: &[u8], value: &[u8]) -> Option<Weight>;
}

/// A weigher for collections that only count: the weight of every entry is zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountOnly;

impl EntryWeigher for CountOnly {
    fn sums(&self) -> usize {
        0
    }

    fn weigh(&self, _key: &[u8], _value: &[u8]) -> Option<Weight> {
        Some(Weight::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_range_totals_are_refused() {
        let full = Totals { count: u64::MAX, sums: Weight::new(&[i64::MAX]) };
        assert_eq!(full.checked_add(&Totals::one(Weight::ZERO)), None);
        assert_eq!(Totals::ZERO.checked_sub(&Totals::one(Weight::ZERO)), None);
        let heavy = Totals { count: 0, sums: Weight::new(&[1]) };
        assert_eq!(full.checked_add(&heavy), None);
        assert_eq!(
            Totals { count: 7, sums: Weight::new(&[-5]) }.checked_sub(&heavy).map(|t| t.sums.value(0)),
            Some(-6)
        );
    }

    #[test]
    fn change_counts_added_and_removed_entries() {
        let light = Weight::new(&[1, 10]);
        let heavy = Weight::new(&[0, 50]);
        let check = |before, after, count, sums: &[i64]| {
            assert_eq!(TotalsChange::between(before, after), Some(TotalsChange { count, sums: Weight::new(sums) }));
        };
        check(None, Some(light), 1, &[1, 10]);
        check(Some(light), None, -1, &[-1, -10]);
        check(Some(light), Some(heavy), 0, &[-1, 40]);
        check(None, None, 0, &[]);
        assert_eq!(TotalsChange::between(Some(Weight::new(&[-1])), Some(Weight::new(&[i64::MAX]))), None);
    }
}
