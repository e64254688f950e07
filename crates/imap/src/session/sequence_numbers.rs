//! Sequence numbers of the selected mailbox, as the client counts its messages.
//!
//! A client numbers messages from 1 in the order of their UIDs. This numbering must not change before the server has
//! announced it (RFC 9051 §5.5, §7.5.1), although other sessions expunge and deliver in the meantime. Keeping all UIDs
//! of a large mailbox for every connection would cost megabytes. [`SequenceNumbers`] instead keeps three things: the
//! number of messages reported to the client, the first UID that has not been reported, and the UIDs that have vanished
//! but have not been reported as such. Everything else comes from the counted index of the folder
//! ([`FolderPositions`]), which returns ranks and positions in logarithmic time. The index is not read if the sequence
//! number alone determines the result, as with `1:*`.
//!
//! Invariants: `vanished` is strictly ascending, all its UIDs are below `uid_next`, and none of them exists in the
//! folder. The client's list is therefore the folder's UIDs below `uid_next` merged with `vanished`, and `count` is its
//! length.
//!
//! Pure: the folder is a parameter of every call. It is always a snapshot whose vanished UIDs have been passed to
//! [`SequenceNumbers::record_vanished`].

use std::ops::RangeInclusive;

use base::UidSet;

/// The positions of UIDs in the current folder.
pub trait FolderPositions {
    /// The error of a read.
    type Error;

    /// Returns the number of messages with smaller UIDs.
    fn rank(&self, uid: u32) -> Result<u32, Self::Error>;

    /// Returns the UID at a position, counted from 0.
    fn uid_at(&self, index: u32) -> Result<Option<u32>, Self::Error>;
}

/// The client's list of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceNumbers {
    uid_next: u32,
    count: u32,
    vanished: Vec<u32>,
}

/// A range of UIDs, with gaps, that a command addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UidRange {
    /// The first and the last UID.
    pub uids: RangeInclusive<u32>,
    /// Number of messages with UIDs smaller than the first, or `None` if it is unknown.
    pub rank: Option<u32>,
}

impl From<RangeInclusive<u32>> for UidRange {
    fn from(uids: RangeInclusive<u32>) -> Self {
        let rank = (*uids.start() <= 1).then_some(0);
        Self { uids, rank }
    }
}

impl SequenceNumbers {
    /// Creates the numbering of a mailbox as SELECT reports it: `count` messages in the folder, all with UIDs below
    /// `uid_next`.
    #[must_use]
    pub fn new(uid_next: u32, count: u32) -> Self {
        Self { uid_next, count, vanished: Vec::new() }
    }

    /// Returns the first UID that has not been reported to the client.
    #[must_use]
    pub fn uid_next(&self) -> u32 {
        self.uid_next
    }

    /// Returns `true` if messages have vanished without a report to the client.
    #[must_use]
    pub fn has_vanished(&self) -> bool {
        !self.vanished.is_empty()
    }

    /// Returns the vanished UIDs that have not been reported, in ascending order.
    #[must_use]
    pub fn unreported_vanished(&self) -> &[u32] {
        &self.vanished
    }

    /// Records UIDs that the folder has lost. UIDs that were never reported to the client are ignored.
    pub fn record_vanished(&mut self, uids: impl IntoIterator<Item = u32>) {
        let known = self.vanished.len();
        self.vanished.extend(uids.into_iter().filter(|uid| *uid < self.uid_next));
        if self.vanished.len() > known {
            // The stable sort is linear for a long sorted list with a short end.
            self.vanished.sort();
            self.vanished.dedup();
        }
    }

    /// Returns the number of messages that the client counts.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the sequence number of a UID that exists in the folder or has vanished without a report.
    pub fn number_of<P: FolderPositions>(&self, folder: &P, uid: u32) -> Result<u32, P::Error> {
        Ok(folder.rank(uid)?.saturating_add(self.vanished_below(uid)).saturating_add(1))
    }

    /// Returns the UID of a sequence number, even if the message has vanished.
    pub fn uid_of<P: FolderPositions>(&self, folder: &P, number: u32) -> Result<Option<u32>, P::Error> {
        let Some(index) = number.checked_sub(1) else { return Ok(None) };
        // The client's position of the k-th vanished UID is its rank in the folder plus k, which increases with k.
        let mut low = 0;
        let mut high = self.vanished.len();
        while low < high {
            let middle = low.midpoint(high);
            let uid = self.vanished[middle];
            let place = folder.rank(uid)?.saturating_add(narrow(middle));
            match place.cmp(&index) {
                std::cmp::Ordering::Equal => return Ok(Some(uid)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        let uid = folder.uid_at(index.saturating_sub(narrow(low)))?;
        Ok(uid.filter(|uid| *uid < self.uid_next))
    }

    /// Converts sequence numbers to ranges of UIDs. Numbers beyond the last message are omitted.
    pub fn uids_of<P: FolderPositions>(&self, folder: &P, numbers: &UidSet) -> Result<Vec<UidRange>, P::Error> {
        let mut uid_ranges = Vec::new();
        for range in numbers.ranges().take_while(|range| *range.start() <= self.count) {
            uid_ranges.extend(self.uid_range_of(folder, &range)?);
        }
        Ok(uid_ranges)
    }

    /// Converts a range of sequence numbers, the first of which exists, to UIDs.
    fn uid_range_of<P: FolderPositions>(
        &self,
        folder: &P,
        numbers: &RangeInclusive<u32>,
    ) -> Result<Option<UidRange>, P::Error> {
        let start = *numbers.start();
        let end = *numbers.end();
        let whole_end = self.uid_next.saturating_sub(1);
        let first = if start <= 1 { Some(1) } else { self.uid_of(folder, start)? };
        let Some(first) = first else { return Ok(None) };
        let last = match end {
            _ if end >= self.count => Some(whole_end),
            _ if end == start && start > 1 => Some(first),
            _ => self.uid_of(folder, end)?,
        };
        let rank = start.saturating_sub(1).checked_sub(self.vanished_below(first));
        Ok(last.map(|last| UidRange { uids: first..=last, rank }))
    }

    /// Forgets the first `count_max` vanished UIDs and calls `each` with the sequence number to report for each of
    /// them, one EXPUNGE after the other.
    pub fn report_expunged<P: FolderPositions>(
        &mut self,
        folder: &P,
        count_max: usize,
        mut each: impl FnMut(u32),
    ) -> Result<(), P::Error> {
        // When a UID is reported, the smaller ones have already been reported, so that only the folder's own messages
        // below it count. Adjacent vanished UIDs share their rank; the next existing UID marks the end of such a group.
        let mut last = None;
        let rest = self.vanished.split_off(self.vanished.len().min(count_max));
        let gone = std::mem::replace(&mut self.vanished, rest);
        self.count = self.count.saturating_sub(narrow(gone.len()));
        for uid in gone {
            let rank = match last {
                Some((rank, next)) if uid < next => rank,
                _ => {
                    let rank = folder.rank(uid)?;
                    last = Some((rank, folder.uid_at(rank)?.unwrap_or(u32::MAX)));
                    rank
                }
            };
            each(rank.saturating_add(1));
        }
        Ok(())
    }

    /// Forgets the vanished UIDs and returns them, for VANISHED.
    pub fn take_vanished(&mut self) -> UidSet {
        let gone = std::mem::take(&mut self.vanished);
        self.count = self.count.saturating_sub(narrow(gone.len()));
        gone.into_iter().collect()
    }

    /// Extends the client's list to the `count` messages in the folder, all with UIDs below `uid_next`.
    pub fn extend_to(&mut self, uid_next: u32, count: u32) {
        self.uid_next = self.uid_next.max(uid_next);
        self.count = count.saturating_add(narrow(self.vanished.len()));
    }

    /// Returns the number of unreported vanished messages with smaller UIDs. The sequence number of a UID exceeds its
    /// position in the folder by this number.
    #[must_use]
    pub fn vanished_below(&self, uid: u32) -> u32 {
        narrow(self.vanished.partition_point(|gone| *gone < uid))
    }
}

/// Converts a count of messages to 32 bits. It fits because UIDs have 32 bits.
fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// The folder of the model: a plain set.
    #[derive(Default, Debug)]
    struct Folder {
        uids: BTreeSet<u32>,
        uid_next: u32,
    }

    impl FolderPositions for Folder {
        type Error = Infallible;

        fn rank(&self, uid: u32) -> Result<u32, Infallible> {
            Ok(narrow(self.uids.range(..uid).count()))
        }

        fn uid_at(&self, index: u32) -> Result<Option<u32>, Infallible> {
            Ok(self.uids.iter().nth(index as usize).copied())
        }
    }

    /// A session with the list that an attentive client would keep.
    struct Session {
        sequence_numbers: SequenceNumbers,
        /// The client's list of messages, in its order.
        client: Vec<u32>,
        /// Vanished UIDs that the session has not read yet.
        unseen: Vec<u32>,
    }

    #[derive(Debug, Clone)]
    enum Step {
        Deliver(u32),
        /// Removes the n-th existing message.
        Expunge(usize),
        /// A session reads the changes without reporting them.
        Look(usize),
        /// A session reports expunges one by one, and new messages.
        ReportExpunged(usize),
        /// A session reports VANISHED, and new messages.
        ReportVanished(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1_u32..4).prop_map(Step::Deliver),
            4 => (0_usize..50).prop_map(Step::Expunge),
            3 => (0_usize..3).prop_map(Step::Look),
            1 => (0_usize..3).prop_map(Step::ReportExpunged),
            1 => (0_usize..3).prop_map(Step::ReportVanished),
        ]
    }

    fn ok<T>(result: Result<T, Infallible>) -> T {
        match result {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    impl Session {
        fn new(folder: &Folder) -> Self {
            let client = folder.uids.iter().copied().collect();
            Self {
                sequence_numbers: SequenceNumbers::new(folder.uid_next, narrow(folder.uids.len())),
                client,
                unseen: Vec::new(),
            }
        }

        fn look(&mut self) {
            self.sequence_numbers.record_vanished(self.unseen.drain(..));
        }

        fn report_expunged(&mut self, folder: &Folder) {
            self.look();
            let client = &mut self.client;
            while self.sequence_numbers.has_vanished() {
                ok(self.sequence_numbers.report_expunged(folder, 2, |number| {
                    client.remove(number as usize - 1);
                }));
                assert_eq!(self.sequence_numbers.count() as usize, client.len());
            }
            self.report_new(folder);
        }

        fn report_vanished(&mut self, folder: &Folder) {
            self.look();
            let vanished = self.sequence_numbers.take_vanished();
            self.client.retain(|uid| !vanished.contains(*uid));
            self.report_new(folder);
        }

        fn report_new(&mut self, folder: &Folder) {
            let known = self.sequence_numbers.uid_next();
            self.sequence_numbers.extend_to(folder.uid_next, narrow(folder.uids.len()));
            self.client.extend(folder.uids.range(known..));
        }

        /// Checks that the numbering agrees with the client about every sequence number.
        fn check(&self, folder: &Folder) {
            let sequence_numbers = &self.sequence_numbers;
            assert_eq!(sequence_numbers.count() as usize, self.client.len());
            for (index, uid) in self.client.iter().enumerate() {
                let number = narrow(index + 1);
                assert_eq!(ok(sequence_numbers.uid_of(folder, number)), Some(*uid), "number {number}");
                assert_eq!(ok(sequence_numbers.number_of(folder, *uid)), number, "UID {uid}");
            }
            assert_eq!(ok(sequence_numbers.uid_of(folder, 0)), None);
            assert_eq!(ok(sequence_numbers.uid_of(folder, narrow(self.client.len() + 1))), None);
            for (start, end) in [(1, u32::MAX), (1, 1), (2, 2), (2, 4), (narrow(self.client.len() / 3 + 1), u32::MAX)] {
                self.check_range(folder, start, end);
            }
        }

        /// Checks that a range contains exactly the addressed messages that still exist, and that its rank is correct.
        fn check_range(&self, folder: &Folder, start: u32, end: u32) {
            let ranges = ok(self.sequence_numbers.uids_of(folder, &UidSet::from(start..=end)));
            let mut contained = Vec::new();
            for uid_range in &ranges {
                assert_eq!(
                    uid_range.rank,
                    Some(ok(folder.rank(*uid_range.uids.start()))),
                    "{start}:{end} {uid_range:?}"
                );
                contained.extend(folder.uids.range(uid_range.uids.clone()).copied());
            }
            let addressed = self.client.iter().skip(start as usize - 1).take((end - start) as usize + 1);
            let existing: Vec<u32> = addressed.copied().filter(|uid| folder.uids.contains(uid)).collect();
            // Messages that arrived since the last report have larger UIDs and are not addressed.
            assert_eq!(contained, existing, "{start}:{end}");
        }
    }

    fn play(steps: &[Step]) {
        let mut folder = Folder { uids: (1..=10).collect(), uid_next: 11 };
        let mut sessions = Vec::from_iter((0..3).map(|_| Session::new(&folder)));
        for step in steps {
            match *step {
                Step::Deliver(count) => {
                    folder.uids.extend(folder.uid_next..folder.uid_next + count);
                    folder.uid_next += count;
                }
                Step::Expunge(nth) => {
                    let Some(uid) = folder.uids.iter().nth(nth % folder.uids.len().max(1)).copied() else { continue };
                    folder.uids.remove(&uid);
                    sessions.iter_mut().for_each(|session| session.unseen.push(uid));
                }
                Step::Look(session) => sessions[session].look(),
                Step::ReportExpunged(session) => sessions[session].report_expunged(&folder),
                Step::ReportVanished(session) => sessions[session].report_vanished(&folder),
            }
            // A session reports only about a folder whose changes it has read.
            sessions.iter().filter(|session| session.unseen.is_empty()).for_each(|session| session.check(&folder));
        }
    }

    proptest! {
        #[test]
        fn sequence_numbers_match_the_clients_list(steps in prop::collection::vec(step(), 0..80)) {
            play(&steps);
        }
    }

    #[test]
    fn message_added_and_expunged_unseen_is_never_reported() {
        let mut sequence_numbers = SequenceNumbers::new(5, 4);
        sequence_numbers.record_vanished([7, 3, 3]);
        assert_eq!(sequence_numbers.unreported_vanished(), [3]);
        assert_eq!(sequence_numbers.take_vanished(), UidSet::from(3..=3));
        assert!(!sequence_numbers.has_vanished());
    }
}
