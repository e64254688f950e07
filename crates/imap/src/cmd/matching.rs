//! The part that SEARCH, SORT and THREAD share: visiting the messages that match, in slices.
//!
//! Sequence numbers and `$` in the keys become UIDs first. What the entry settles is settled without opening the message; a
//! slice ends after so many entries or so many opened messages, whichever comes first.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use mail::mailbox::MailView;
use search::Lacking;

use super::content::{Facts, Opened};
use super::fetch;
use crate::backend::FullText;
use crate::codec::Writer;
use crate::codec::ast::{MessageSet, Numbering, SearchKey, SequenceSet};
use crate::error::Result;
use crate::limits;
use crate::message::Plan;
use crate::session::roster::Stretch;
use crate::session::selected::uids_of;
use crate::session::walk::Walk;
use crate::session::{Selected, Session};

/// A search that is being made.
pub struct Matching {
    plan: Plan,
    walk: Walk,
    /// Whether matching messages are opened even when their entries settle it.
    opens: Opens,
    /// Which messages the full-text index rules out, for the texts by their numbers.
    lacking: Vec<Lacking>,
}

/// Which messages are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opens {
    /// Only those that must be to know whether they match.
    WhenNeeded,
    /// Every one that matches.
    Matching,
}

/// A message that matches.
pub struct Matched<'m> {
    /// The client's number of it.
    pub number: u32,
    /// What its entry tells.
    pub facts: &'m Facts<'m>,
    /// The message, where it was opened.
    pub message: Option<&'m Opened<'m>>,
}

impl Matching {
    /// Begins a search in the selected mailbox.
    pub fn begin(
        session: &mut Session,
        (key, opens): (&SearchKey, Opens),
        numbering: Numbering,
        out: &mut Writer,
    ) -> Result<Self> {
        let file = session.file()?;
        let view = file.view()?;
        session.wait_for(view.ticket());
        if asks_modseq(key) {
            session.enable_condstore(&view, out)?;
        }
        fetch::begin(session, &view, numbering, out)?;
        let now = session.site.clock.now();
        let full_text = Arc::clone(&session.site.full_text);
        let selected = session.selected()?;
        let plan = Plan::new(&resolved(key, selected, &view)?, now);
        let last = selected.roster.uid_next().saturating_sub(1);
        let ranges = plan.uids().map_or_else(|| vec![1..=last], <[_]>::to_vec);
        let known = selected.known_uids(ranges);
        let lacking = if spans(&known) > limits::SEARCH_READ_MESSAGES_MAX {
            lacking(&plan, &view, &full_text)
        } else {
            Vec::new()
        };
        let stretches = known.into_iter().map(Stretch::from).collect();
        Ok(Self { plan, walk: Walk::new(stretches, &view), opens, lacking })
    }

    /// Calls `each` for the messages that match in the next slice; tells whether it was the last one.
    pub fn slice(&mut self, session: &mut Session, each: &mut dyn FnMut(&Matched<'_>)) -> Result<bool> {
        let file = session.file()?;
        let view = file.view()?;
        session.wait_for(view.ticket());
        let selected = session.selected()?;
        selected.look(&view)?;
        let (plan, lacking, opens, mut opened) = (&self.plan, &self.lacking, self.opens, 0_usize);
        self.walk.visit(selected, &view, limits::SLICE_MESSAGES, &mut |number, entry| {
            let facts = Facts { entry: &entry, view: &view, selected, lacking };
            let decided = plan.decide(&facts);
            let opens_it = decided.is_none() || (decided == Some(true) && opens == Opens::Matching);
            let mut message = None;
            if opens_it {
                message = view.message_of(&entry)?.map(Opened);
                opened += 1;
            }
            let matches = match (decided, &message) {
                (Some(matches), _) => matches,
                (None, Some(message)) => plan.matches(&facts, message)?,
                (None, None) => false,
            };
            if matches {
                each(&Matched { number, facts: &facts, message: message.as_ref() });
            }
            let full = opened >= limits::SLICE_CONTENTS;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(self.walk.is_done())
    }
}

/// Asks the index which messages need no look. An index that fails, or that there is not, costs time and nothing else.
fn lacking(plan: &Plan, view: &MailView<'_>, full_text: &FullText) -> Vec<Lacking> {
    let mut sought = plan.sought();
    sought.truncate(limits::SEARCH_INDEXED_TEXTS_MAX);
    if sought.is_empty() {
        return Vec::new();
    }
    let found = full_text().and_then(|index| match index {
        Some(index) => view.lacking(&index, &sought),
        None => Ok(Vec::new()),
    });
    found.unwrap_or_else(|error| {
        tracing::warn!(target: "imap", %error, "the full-text index is of no help, messages are read");
        Vec::new()
    })
}

/// Counts UIDs.
fn spans(ranges: &[RangeInclusive<u32>]) -> u64 {
    ranges.iter().map(|range| u64::from(range.end().saturating_sub(*range.start())) + 1).sum()
}

/// Whether a key asks for mod-sequences, which the answer then tells too.
pub fn asks_modseq(key: &SearchKey) -> bool {
    match key {
        SearchKey::ModSeq(_) => true,
        SearchKey::And(keys) => keys.iter().any(asks_modseq),
        SearchKey::Or(one, other) => asks_modseq(one) || asks_modseq(other),
        SearchKey::Not(key) => asks_modseq(key),
        _ => false,
    }
}

/// Replaces sequence numbers and saved results by UIDs. The depth of keys is limited by the decoder.
fn resolved(key: &SearchKey, selected: &Selected, view: &MailView<'_>) -> Result<SearchKey> {
    let resolve = |key: &SearchKey| resolved(key, selected, view);
    Ok(match key {
        SearchKey::Sequence(set) => uids(uids_of(selected.resolve_existing(view, set, Numbering::Sequence)?)),
        SearchKey::Uid(set) => uids(uids_of(selected.resolve_existing(view, set, Numbering::Uid)?)),
        SearchKey::And(keys) => SearchKey::And(keys.iter().map(resolve).collect::<Result<_>>()?),
        SearchKey::Or(one, other) => SearchKey::Or(Box::new(resolve(one)?), Box::new(resolve(other)?)),
        SearchKey::Not(key) => SearchKey::Not(Box::new(resolve(key)?)),
        other => other.clone(),
    })
}

fn uids(ranges: Vec<RangeInclusive<u32>>) -> SearchKey {
    SearchKey::Uid(MessageSet::Numbers(SequenceSet::of(&ranges)))
}
