//! Values that change without a save: marks, keywords, memberships in folders.

use base::Timestamp;

/// A value that is set or not, with the time of its last change.
///
/// Of two values the later counts, and with equal times the one that is set. So joining is commutative, associative and
/// idempotent, and replicas agree in whatever order changes arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Register {
    /// `true` if the mark is set, or the note is in the folder.
    pub is_set: bool,
    /// The time of the last change.
    pub time: Timestamp,
}

impl Register {
    /// Changes the value at a time. If the clock is behind the last change, the time is the next microsecond after it,
    /// so a change always replaces the value that its author saw.
    #[must_use]
    pub fn changed(self, is_set: bool, now: Timestamp) -> Self {
        if is_set == self.is_set {
            return self;
        }
        Self { is_set, time: now.max(Timestamp(self.time.0.saturating_add(1))) }
    }

    /// Returns the value that counts of two.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        if (self.time, self.is_set) >= (other.time, other.is_set) { self } else { other }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn register() -> impl Strategy<Value = Register> {
        (any::<bool>(), 0..4i64).prop_map(|(is_set, time)| Register { is_set, time: Timestamp(time) })
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
