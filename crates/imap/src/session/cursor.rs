//! A cursor over the messages of a command, which are visited in slices.
//!
//! The messages are given as ranges of UIDs. A slice visits those that exist, with their entries and their sequence
//! numbers, and leaves the rest for the next slice. Sequence numbers cost at most one lookup per range, not one per
//! message. A rank that is known from a snapshot with the same mod-sequence is not looked up again.

use std::ops::{ControlFlow, RangeInclusive};

use base::{Modseq, Uid, UidSet};
use mail::mailbox::MailSnapshot;
use notes::FolderEntry;

use super::selected::{SelectedMailbox, selected_mailbox_error};
use super::sequence_numbers::{FolderPositions, UidRange};
use crate::error::Result;

/// The messages that remain to be visited.
#[derive(Debug)]
pub struct MessageCursor {
    /// The remaining ranges, in reverse order.
    remaining: Vec<UidRange>,
    /// Mod-sequence of the snapshot in which the ranks are valid.
    ranked_at: Modseq,
    skipped_vanished: bool,
}

impl MessageCursor {
    /// Creates a cursor over ranges of UIDs in ascending order, which were resolved in this snapshot.
    #[must_use]
    pub fn new(mut remaining: Vec<UidRange>, snapshot: &MailSnapshot<'_>) -> Self {
        remaining.reverse();
        Self { remaining, ranked_at: snapshot.modseq(), skipped_vanished: false }
    }

    /// Returns `true` if all messages have been visited.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Takes all remaining UIDs if there are at most `count_max`, without checking which of them exist.
    pub fn take_remaining_up_to(&mut self, selected: &SelectedMailbox, count_max: usize) -> Option<UidSet> {
        let span = |uid_range: &UidRange| u64::from(uid_range.uids.end().saturating_sub(*uid_range.uids.start())) + 1;
        let count: u64 = self.remaining.iter().map(span).sum();
        if count > count_max as u64 {
            return None;
        }
        self.skipped_vanished |= self.remaining.iter().any(|uid_range| contains_vanished(selected, &uid_range.uids));
        Some(std::mem::take(&mut self.remaining).into_iter().rev().map(|uid_range| uid_range.uids).collect())
    }

    /// Returns `true` if the cursor has skipped messages that vanished without a report to the client.
    #[must_use]
    pub fn has_skipped_vanished(&self) -> bool {
        self.skipped_vanished
    }

    /// Calls `each` with the sequence numbers and entries of the next messages, until it breaks or has been called
    /// `count_max` times. A message at which it breaks counts as visited.
    pub fn visit(
        &mut self,
        selected: &SelectedMailbox,
        snapshot: &MailSnapshot<'_>,
        count_max: usize,
        each: &mut dyn FnMut(u32, FolderEntry) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut slice = SliceState { left: count_max, flow: ControlFlow::Continue(()), failed: None };
        let ranks_hold = std::mem::replace(&mut self.ranked_at, snapshot.modseq()) == snapshot.modseq();
        if !ranks_hold {
            self.remaining.iter_mut().for_each(|uid_range| uid_range.rank = None);
        }
        while let Some(uid_range) = self.remaining.pop() {
            self.skipped_vanished |= contains_vanished(selected, &uid_range.uids);
            let rest = slice.visit_range(selected, snapshot, uid_range, each)?;
            let finished = rest.is_none() && slice.flow.is_continue();
            self.remaining.extend(rest);
            if !finished {
                break;
            }
        }
        Ok(())
    }
}

struct SliceState {
    left: usize,
    flow: ControlFlow<()>,
    failed: Option<crate::error::Error>,
}

impl SliceState {
    /// Visits a range. Returns the rest of the range if it was not finished.
    fn visit_range(
        &mut self,
        selected: &SelectedMailbox,
        snapshot: &MailSnapshot<'_>,
        UidRange { uids, rank }: UidRange,
        each: &mut dyn FnMut(u32, FolderEntry) -> Result<ControlFlow<()>>,
    ) -> Result<Option<UidRange>> {
        let mut rank = match rank {
            Some(rank) => rank,
            None => selected.folder_in(snapshot).rank(*uids.start()).map_err(selected_mailbox_error)?,
        };
        let first = Uid(*uids.start());
        let last = Uid(*uids.end());
        let mut rest = None;
        let mut visit = |entry: FolderEntry| {
            if self.left == 0 || self.flow.is_break() {
                rest = Some(UidRange { uids: entry.uid.0..=last.0, rank: Some(rank) });
                return Ok(ControlFlow::Break(()));
            }
            self.left -= 1;
            rank = rank.saturating_add(1);
            match each(rank.saturating_add(selected.sequence_numbers.vanished_below(entry.uid.0)), entry) {
                Ok(flow) => self.flow = flow,
                Err(error) => {
                    self.failed = Some(error);
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        if first == last {
            // A single message is looked up, which is cheaper than a scan.
            if let Some(entry) = snapshot.entry(selected.folder, first).map_err(selected_mailbox_error)? {
                let _ = visit(entry)?;
            }
        } else {
            snapshot.entries(selected.folder, first..=last, &mut visit).map_err(selected_mailbox_error)?;
        }
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(rest),
        }
    }
}

fn contains_vanished(selected: &SelectedMailbox, range: &RangeInclusive<u32>) -> bool {
    let vanished = selected.sequence_numbers.unreported_vanished();
    vanished.get(vanished.partition_point(|uid| uid < range.start())).is_some_and(|uid| range.contains(uid))
}
