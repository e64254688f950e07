//! A walk over the messages of a command, in slices.
//!
//! The messages are ranges of UIDs; a slice visits those that exist, with their entries and the numbers that the client
//! gives them, and leaves the rest for the next one. A number costs one look-up a range, not one a message.

use std::ops::{ControlFlow, RangeInclusive};

use base::Uid;
use mail::mailbox::MailView;
use notes::Entry;

use super::roster::Positions;
use super::selected::{Selected, gone};
use crate::error::Result;

/// What is left to visit.
#[derive(Debug)]
pub struct Walk {
    /// The first range last.
    ranges: Vec<RangeInclusive<u32>>,
    missed: bool,
}

impl Walk {
    /// Begins a walk over rising ranges of UIDs.
    #[must_use]
    pub fn new(mut ranges: Vec<RangeInclusive<u32>>) -> Self {
        ranges.reverse();
        Self { ranges, missed: false }
    }

    /// Whether everything was visited.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether messages were passed that are gone without the client knowing.
    #[must_use]
    pub fn missed(&self) -> bool {
        self.missed
    }

    /// Calls `each` with the numbers and entries of the next messages, until it breaks (the message counts as visited) or
    /// was called `count_max` times.
    pub fn visit(
        &mut self,
        selected: &Selected,
        view: &MailView<'_>,
        count_max: usize,
        each: &mut dyn FnMut(u32, Entry) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut slice = Slice { left: count_max, flow: ControlFlow::Continue(()), failed: None };
        while let Some(range) = self.ranges.pop() {
            self.missed |= has_gone(selected, &range);
            let last = *range.end();
            let resume_at = slice.visit_range(selected, view, range, each)?;
            if let Some(uid) = resume_at {
                self.ranges.push(uid..=last);
            }
            if resume_at.is_some() || slice.flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}

struct Slice {
    left: usize,
    flow: ControlFlow<()>,
    failed: Option<crate::error::Error>,
}

impl Slice {
    /// Visits a range; gives the UID at which to go on when it was not finished.
    fn visit_range(
        &mut self,
        selected: &Selected,
        view: &MailView<'_>,
        range: RangeInclusive<u32>,
        each: &mut dyn FnMut(u32, Entry) -> Result<ControlFlow<()>>,
    ) -> Result<Option<u32>> {
        let mut rank = selected.place(view).rank(*range.start()).map_err(gone)?;
        let mut resume_at = None;
        view.entries(selected.folder, Uid(*range.start())..=Uid(*range.end()), &mut |entry| {
            if self.left == 0 || self.flow.is_break() {
                resume_at = Some(entry.uid.0);
                return Ok(ControlFlow::Break(()));
            }
            self.left -= 1;
            rank = rank.saturating_add(1);
            match each(rank.saturating_add(selected.roster.gone_below(entry.uid.0)), entry) {
                Ok(flow) => self.flow = flow,
                Err(error) => {
                    self.failed = Some(error);
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
        .map_err(gone)?;
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(resume_at),
        }
    }
}

fn has_gone(selected: &Selected, range: &RangeInclusive<u32>) -> bool {
    let gone = selected.roster.gone();
    gone.get(gone.partition_point(|uid| uid < range.start())).is_some_and(|uid| range.contains(uid))
}
