//! The part that SEARCH, SORT and THREAD share: visiting the matching messages in slices.
//!
//! Sequence numbers and `$` in the keys are first replaced by UIDs. A message is opened only if its entry does not
//! decide the match, or if the command needs its contents. A slice ends after a maximum number of entries or of opened
//! messages, whichever comes first.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::UidSet;
use mail::mailbox::MailSnapshot;
use search::ExcludedNotes;

use super::content::{MessageEntry, OpenedMessage};
use super::fetch;
use crate::backend::FullTextProvider;
use crate::codec::ResponseWriter;
use crate::codec::command::{MessageSet, Numbering, SearchKey, SequenceSet};
use crate::error::Result;
use crate::limits;
use crate::message::SearchPlan;
use crate::session::cursor::MessageCursor;
use crate::session::selected::uids_of_ranges;
use crate::session::sequence_numbers::UidRange;
use crate::session::{SelectedMailbox, Session, SliceTimer};

/// A search in progress.
pub struct SearchCursor {
    plan: SearchPlan,
    cursor: MessageCursor,
    /// Which messages are opened.
    opens: OpenPolicy,
    /// For each text of the plan, by its number, the messages that the full-text index rules out.
    excluded: Vec<ExcludedNotes>,
}

/// Selects the messages that a search opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenPolicy {
    /// Only messages whose entry does not decide whether they match.
    WhenNeeded,
    /// In addition, every message that matches.
    Matching,
}

/// A message that matches.
pub struct SearchMatch<'m> {
    /// The sequence number by which the client knows the message.
    pub number: u32,
    /// The data of its folder entry.
    pub facts: &'m MessageEntry<'m>,
    /// The opened message, or `None` if it was not opened.
    pub message: Option<&'m OpenedMessage<'m>>,
}

impl SearchCursor {
    /// Begins a search in the selected mailbox.
    pub fn begin(
        session: &mut Session,
        (key, opens): (&SearchKey, OpenPolicy),
        numbering: Numbering,
        out: &mut ResponseWriter,
    ) -> Result<Self> {
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        if contains_modseq(key) {
            session.enable_condstore(&snapshot, out)?;
        }
        fetch::synchronize(session, &snapshot, numbering, out)?;
        let now = session.context.clock.now();
        let full_text = Arc::clone(&session.context.full_text);
        let selected = session.selected()?;
        let plan = SearchPlan::new(&resolve_key(key, selected, &snapshot)?, now);
        let last = selected.sequence_numbers.uid_next().saturating_sub(1);
        let known = selected.known_uids(plan.uids().cloned().unwrap_or_else(|| UidSet::from(1..=last)));
        let excluded = if known.len() > limits::SEARCH_WITHOUT_INDEX_MESSAGES_MAX {
            find_excluded_notes(&plan, &snapshot, &full_text)
        } else {
            Vec::new()
        };
        let uid_ranges = known.ranges().map(UidRange::from).collect();
        Ok(Self { plan, cursor: MessageCursor::new(uid_ranges, &snapshot), opens, excluded })
    }

    /// Calls `each` for the matching messages of the next slice. Returns `true` if this was the last slice.
    pub fn slice(&mut self, session: &mut Session, each: &mut dyn FnMut(&SearchMatch<'_>)) -> Result<bool> {
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        session.selected()?.record_vanished(&snapshot)?;
        let plan = &self.plan;
        let excluded = &self.excluded;
        let opens = self.opens;
        let timer = SliceTimer::start(&session.context);
        let selected = session.selected()?;
        let mut opened = 0_usize;
        self.cursor.visit(selected, &snapshot, limits::SLICE_MESSAGES, &mut |number, entry| {
            let facts = MessageEntry { entry: &entry, snapshot: &snapshot, selected, excluded };
            let decided = plan.decide(&facts);
            let opens_it = decided.is_none() || (decided == Some(true) && opens == OpenPolicy::Matching);
            let mut message = None;
            if opens_it {
                message = snapshot.message_of(&entry)?.map(OpenedMessage);
                opened += 1;
            }
            let matches = match (decided, &message) {
                (Some(matches), _) => matches,
                (None, Some(message)) => plan.matches(&facts, message)?,
                (None, None) => false,
            };
            if matches {
                each(&SearchMatch { number, facts: &facts, message: message.as_ref() });
            }
            let full = opened >= limits::SLICE_CONTENTS || timer.is_over();
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(self.cursor.is_done())
    }
}

/// Asks the full-text index which messages need not be opened. If the index fails or does not exist, the search is
/// slower but its result is the same.
fn find_excluded_notes(
    plan: &SearchPlan,
    snapshot: &MailSnapshot<'_>,
    full_text: &FullTextProvider,
) -> Vec<ExcludedNotes> {
    let mut sought = plan.sought_texts();
    sought.truncate(limits::SEARCH_INDEXED_TEXTS_MAX);
    if sought.is_empty() {
        return Vec::new();
    }
    let found = full_text().and_then(|index| match index {
        Some(index) => snapshot.messages_without(&index, &sought),
        None => Ok(Vec::new()),
    });
    found.unwrap_or_else(|error| {
        tracing::warn!(target: "imap", %error, "the full-text index cannot be used, searching the messages instead");
        Vec::new()
    })
}

/// Returns `true` if the key contains MODSEQ, in which case the response includes mod-sequences.
pub fn contains_modseq(key: &SearchKey) -> bool {
    match key {
        SearchKey::ModSeq(_) => true,
        SearchKey::And(keys) => keys.iter().any(contains_modseq),
        SearchKey::Or(one, other) => contains_modseq(one) || contains_modseq(other),
        SearchKey::Not(key) => contains_modseq(key),
        _ => false,
    }
}

/// Replaces sequence numbers and saved results by UIDs. The recursion is bounded because the decoder limits the depth
/// of keys.
fn resolve_key(key: &SearchKey, selected: &SelectedMailbox, snapshot: &MailSnapshot<'_>) -> Result<SearchKey> {
    let resolve = |key: &SearchKey| resolve_key(key, selected, snapshot);
    Ok(match key {
        SearchKey::Sequence(set) => uid_key(selected.resolve_existing(snapshot, set, Numbering::Sequence)?),
        SearchKey::Uid(set) => uid_key(selected.resolve_existing(snapshot, set, Numbering::Uid)?),
        SearchKey::And(keys) => SearchKey::And(keys.iter().map(resolve).collect::<Result<_>>()?),
        SearchKey::Or(one, other) => SearchKey::Or(Box::new(resolve(one)?), Box::new(resolve(other)?)),
        SearchKey::Not(key) => SearchKey::Not(Box::new(resolve(key)?)),
        other => other.clone(),
    })
}

fn uid_key(ranges: Vec<UidRange>) -> SearchKey {
    SearchKey::Uid(MessageSet::Numbers(SequenceSet::from_numbers(&uids_of_ranges(ranges))))
}
