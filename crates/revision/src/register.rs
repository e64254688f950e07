//! Values that change without a save: marks, keywords, memberships in folders.

use base::Timestamp;

/// A value that is set or not, with the time of its last change.
///
/// Of two values the later counts, with equal times the one that is set, and of two that are set the one with the
/// greater number. So joining is commutative, associative and idempotent, and replicas agree in whatever order changes
/// arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Register {
    /// `true` if the mark is set, or the note is in the folder.
    pub is_set: bool,
    /// The time of the last change.
    pub time: Timestamp,
    /// The UID of the note in the folder, or 0: it has none that other replicas know, or the value is not that of a
    /// folder. A replica may replace it by a greater one.
    pub number: u32,
}

impl Register {
    /// Creates a value without a number.
    #[must_use]
    pub fn new(is_set: bool, time: Timestamp) -> Self {
        Self { is_set, time, number: 0 }
    }

    /// Changes the value at a time. If the clock is behind the last change, the time is the next microsecond after it,
    /// so a change always replaces the value that its author saw.
    #[must_use]
    pub fn changed(self, is_set: bool, now: Timestamp) -> Self {
        if is_set == self.is_set {
            return self;
        }
        Self::new(is_set, now.max(Timestamp(self.time.0.saturating_add(1))))
    }

    /// Returns the value that counts of two.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        let order = |register: Self| (register.time, register.is_set, register.number);
        if order(self) >= order(other) { self } else { other }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn register() -> impl Strategy<Value = Register> {
        (any::<bool>(), 0..4i64, 0..3u32).prop_map(|(is_set, time, number)| {
            let number = if is_set { number } else { 0 };
            Register { is_set, time: Timestamp(time), number }
        })
    }

    proptest! {
        #[test]
        fn joining_is_commutative_associative_and_idempotent(a in register(), b in register(), c in register()) {
            prop_assert_eq!(a.join(b), b.join(a));
            prop_assert_eq!(a.join(b).join(c), a.join(b.join(c)));
            prop_assert_eq!(a.join(a), a);
        }

        #[test]
        fn a_change_replaces_what_its_author_saw(a in register(), is_set: bool, now in 0..4i64) {
            let changed = a.changed(is_set, Timestamp(now));
            prop_assert_eq!(changed.is_set, is_set);
            prop_assert_eq!(a.join(changed), changed);
        }
    }
}
