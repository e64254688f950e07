//! Recipients: the users to whom a message goes.

use std::collections::BTreeSet;

use super::stream::Stream;

/// The user numbers from which recipients are drawn. It has at least one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecipientRange {
    first: u64,
    last: u64,
}

impl RecipientRange {
    /// Creates the range of a run with `users` users. Users of `[first, last]` that the run does not have are left out.
    /// Returns `None` if no user is left.
    pub fn new([first, last]: [u64; 2], users: u64) -> Option<Self> {
        let last = last.min(users);
        (1 <= first && first <= last).then_some(Self { first, last })
    }

    /// Draws recipients uniformly, without repetition and without the sender, in ascending order.
    ///
    /// If the range has fewer others than `count`, all of them are returned; if it has none, the sender alone.
    pub fn draw(self, stream: &mut Stream, count: u64, sender: u64) -> Vec<u64> {
        let has_sender = (self.first..=self.last).contains(&sender);
        let others = self.last - self.first + 1 - u64::from(has_sender);
        if others == 0 {
            return vec![sender];
        }
        let user = |index| {
            let user = self.first + index;
            if has_sender && user >= sender { user + 1 } else { user }
        };
        sample(stream, count.min(others), others).into_iter().map(user).collect()
    }
}

/// Draws `count` numbers below `end` without repetition (Floyd's algorithm): as many draws as numbers.
fn sample(stream: &mut Stream, count: u64, end: u64) -> BTreeSet<u64> {
    let mut drawn = BTreeSet::new();
    for limit in end - count..end {
        let number = stream.below(limit + 1);
        if !drawn.insert(number) {
            drawn.insert(limit);
        }
    }
    drawn
}
