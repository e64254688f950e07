//! UIDs that several servers give out for one folder, under one UIDVALIDITY: the numbers themselves.
//!
//! Each server has a rank below [`UID_RANKS`] that no other server with a replica of the mail file has, and gives out
//! only UIDs whose remainder is its rank. A run of the server begins behind what runs before can have given out, even
//! if they are lost. [`crate::uid_allocation`] has the rules of giving out and taking over.

use base::{Timestamp, Uid};

use crate::instance::InstanceId;
use crate::limits::SHARED_UID_MAX;

/// Number of servers that can share the UIDs of a folder.
pub const UID_RANKS: u8 = 8;

/// Number of seconds since UIDVALIDITY for which the first UID of a new run of the server rises by one, so that each
/// server has one in sixteen seconds. Fewer would use up the UIDs sooner, and leave larger gaps.
const SECONDS_PER_UID: i64 = 2;

/// Number by which UIDs of other servers may exceed those of this one and those that follow from the clock.
pub(crate) const UIDS_AHEAD: u32 = 1 << 20;

/// The place of a server among those that share the UIDs of a mail file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct UidRank(u8);

impl UidRank {
    /// Creates the rank with a number, or returns `None` if there are not so many.
    #[must_use]
    pub fn new(number: u8) -> Option<Self> {
        (number < UID_RANKS).then_some(Self(number))
    }

    /// Returns the first number from `least` on that only a server of this rank gives out.
    pub(crate) fn next_from(self, least: u32) -> u32 {
        let ranks = u32::from(UID_RANKS);
        let ahead = (u32::from(self.0) + ranks - least % ranks) % ranks;
        least.saturating_add(ahead)
    }
}

/// The state of a folder whose UIDs are given out by several servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedUids {
    /// The first UID above all those in the index, and above all that this server has given out.
    pub end: Uid,
    /// The run of the server that gave out the last one.
    pub run: InstanceId,
}

impl SharedUids {
    /// The state of a folder of which this server has given out no UID.
    pub(crate) const START: Self = Self { end: Uid(1), run: InstanceId(0) };
}

/// Returns the least UID that a run of a server gives out.
///
/// The database may have been restored from a backup before this run. What was given out since is lost here, but not in
/// the caches of clients. So the first UID follows from the clock: it is beyond those of the lost runs unless they gave
/// out more than one in sixteen seconds, on average since they began.
pub(crate) fn first_uid_of_run(uid_validity: u32, now: Timestamp) -> u32 {
    let seconds = now.seconds().saturating_sub(i64::from(uid_validity)).max(0);
    u32::try_from(seconds / SECONDS_PER_UID).unwrap_or(u32::MAX).min(SHARED_UID_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_give_out_different_numbers() {
        let ranks: Vec<UidRank> = (0..UID_RANKS).filter_map(UidRank::new).collect();
        assert_eq!(ranks.len(), usize::from(UID_RANKS));
        for least in 1..40 {
            let mut numbers: Vec<u32> = ranks.iter().map(|rank| rank.next_from(least)).collect();
            assert!(numbers.iter().all(|number| (least..least + 8).contains(number)), "{numbers:?}");
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), ranks.len());
        }
        assert_eq!(UidRank::new(UID_RANKS), None);
    }

    #[test]
    fn a_run_begins_behind_what_a_run_before_can_have_given_out() {
        let begin = 1_700_000_000;
        let first = |seconds| first_uid_of_run(begin, Timestamp::from_seconds(i64::from(begin) + seconds));
        assert_eq!((first(-5), first(0), first(1_000)), (0, 0, 500));
        let years = 365 * 86_400;
        assert!(first(100 * years) < SHARED_UID_MAX / 2, "the numbers are enough");
        assert_eq!(first(900 * years), SHARED_UID_MAX);
    }
}
