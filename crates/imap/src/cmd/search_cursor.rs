//! The part that SEARCH, SORT and THREAD share: visiting the matching messages in slices.
//!
//! Sequence numbers and `$` in the keys are first replaced by UIDs. A message is opened only if its entry does not
//! decide the match, or if the command needs its contents. A slice ends after a maximum number of entries, of opened
//! messages, of compared bytes, or after a maximum time, whichever comes first. It may end within a message.
//!
//! A damaged message matches nothing that must be read in it, and the log names it.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::{Uid, UidSet};
use mail::mailbox::MailSnapshot;
use notes::FolderEntry;
use search::{ExcludedNotes, FullTextIndex, SubstringKey};

use super::content::{MessageEntry, OpenedMessage};
use super::fetch;
use crate::backend::FullTextProvider;
use crate::codec::ResponseWriter;
use crate::codec::command::{MessageSet, Numbering, SearchKey, SequenceSet};
use crate::error::Result;
use crate::limits;
use crate::message::{MessageMatch, SearchBudget, SearchPlan};
use crate::session::cursor::MessageCursor;
use crate::session::selected::{selected_mailbox_error, uids_of_ranges};
use crate::session::sequence_numbers::UidRange;
use crate::session::{SelectedMailbox, Session, SliceTimer};

/// A search in progress.
pub struct SearchCursor {
    plan: SearchPlan,
    cursor: MessageCursor,
    /// The message whose match has begun.
    unfinished: Option<UnfinishedMatch>,
    /// Which messages are opened.
    opens: OpenPolicy,
    /// The lookup in the full-text index, until it is complete.
    lookup: Option<IndexLookup>,
    /// For each text of the plan, by its number, the messages that the full-text index rules out.
    excluded: Vec<ExcludedNotes>,
}

/// The texts of a search that remain to be looked up in the full-text index.
struct IndexLookup {
    index: Arc<FullTextIndex>,
    texts: std::vec::IntoIter<Vec<SubstringKey>>,
}

/// The match of a message that continues in the next slice.
struct UnfinishedMatch {
    number: u32,
    uid: Uid,
    progress: MessageMatch,
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
        let uses_index = known.len() > limits::SEARCH_WITHOUT_INDEX_MESSAGES_MAX;
        let lookup = if uses_index { IndexLookup::begin(&plan, &full_text) } else { None };
        let uid_ranges = known.ranges().map(UidRange::from).collect();
        let cursor = MessageCursor::new(uid_ranges, &snapshot);
        Ok(Self { plan, cursor, unfinished: None, opens, lookup, excluded: Vec::new() })
    }

    /// Calls `each` for the matching messages of the next slice. Returns `true` if this was the last slice.
    pub fn slice(&mut self, session: &mut Session, each: &mut dyn FnMut(&SearchMatch<'_>)) -> Result<bool> {
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        session.selected()?.record_vanished(&snapshot)?;
        if let Some(lookup) = &mut self.lookup {
            if !lookup.proceed(&snapshot, &mut self.excluded) {
                return Ok(false);
            }
            self.lookup = None;
        }
        let timer = SliceTimer::start(&session.context);
        let is_over = || timer.is_over();
        let selected: &SelectedMailbox = session.selected()?;
        let mut slice = SearchSlice {
            plan: &self.plan,
            opens: self.opens,
            excluded: &self.excluded,
            snapshot: &snapshot,
            selected,
            budget: SearchBudget::new(limits::SEARCH_SLICE_WORK, &is_over),
            opened: 0,
        };
        if let Some(UnfinishedMatch { number, uid, progress }) = self.unfinished.take() {
            // The message may have vanished since the last slice.
            if let Some(entry) = snapshot.entry(selected.folder, uid).map_err(selected_mailbox_error)? {
                self.unfinished = slice.examine((number, &entry), Some(progress), each)?;
            }
            if slice.is_full() {
                return Ok(self.is_done());
            }
        }
        let unfinished = &mut self.unfinished;
        self.cursor.visit(selected, &snapshot, limits::SLICE_MESSAGES, &mut |number, entry| {
            *unfinished = slice.examine((number, &entry), None, each)?;
            Ok(if slice.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(self.is_done())
    }

    fn is_done(&self) -> bool {
        self.cursor.is_done() && self.unfinished.is_none()
    }
}

/// A slice in progress.
struct SearchSlice<'s> {
    plan: &'s SearchPlan,
    opens: OpenPolicy,
    excluded: &'s [ExcludedNotes],
    snapshot: &'s MailSnapshot<'s>,
    selected: &'s SelectedMailbox,
    budget: SearchBudget<'s>,
    /// Number of messages that were opened.
    opened: usize,
}

impl SearchSlice<'_> {
    /// Returns `true` if the slice should end.
    fn is_full(&self) -> bool {
        self.opened >= limits::SLICE_CONTENTS || self.budget.is_used_up()
    }

    /// Matches a message, and calls `each` if it matches. `progress` is its match if it has begun. Returns the match if
    /// it has to continue in the next slice, in which case this slice is full.
    fn examine(
        &mut self,
        (number, entry): (u32, &FolderEntry),
        progress: Option<MessageMatch>,
        each: &mut dyn FnMut(&SearchMatch<'_>),
    ) -> Result<Option<UnfinishedMatch>> {
        let facts = MessageEntry {
            entry,
            snapshot: self.snapshot,
            selected: self.selected,
            excluded: self.excluded,
            failure: RefCell::default(),
        };
        let decided = if progress.is_some() { None } else { self.plan.decide(&facts) };
        let opens_it = decided.is_none() || (decided == Some(true) && self.opens == OpenPolicy::Matching);
        let mut message = None;
        if opens_it {
            let snapshot = self.snapshot;
            message = readable(snapshot.message_of(entry), entry)?.flatten().map(OpenedMessage);
            self.opened += 1;
        }
        let matches = match (decided, &message) {
            (Some(matches), _) => matches,
            (None, None) => false,
            (None, Some(message)) => {
                let mut progress = progress.unwrap_or_else(|| self.plan.begin_match(&facts));
                let matched = self.plan.continue_match((&facts, message), &mut progress, &mut self.budget);
                match readable(matched, entry)? {
                    None => false,
                    Some(Some(matches)) => matches,
                    Some(None) => {
                        let unfinished = UnfinishedMatch { number, uid: entry.uid, progress };
                        return facts.failure.into_inner().map_or(Ok(Some(unfinished)), |error| Err(error.into()));
                    }
                }
            }
        };
        if matches {
            each(&SearchMatch { number, facts: &facts, message: message.as_ref() });
        }
        facts.failure.into_inner().map_or(Ok(None), |error| Err(error.into()))
    }
}

/// Returns what was read of a message, or `None` if the message is damaged, which is logged.
fn readable<T>(read: mail::Result<T>, entry: &FolderEntry) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_damage() => {
            tracing::warn!(target: "imap", note = %entry.note, %error, "a search passes over a damaged message");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

impl IndexLookup {
    /// Begins a lookup of the texts of a plan. Returns `None` if the index cannot be used: the search is then slower
    /// but its result is the same.
    fn begin(plan: &SearchPlan, full_text: &FullTextProvider) -> Option<Self> {
        let mut texts = plan.sought_texts();
        texts.truncate(limits::SEARCH_INDEXED_TEXTS_MAX);
        if texts.is_empty() {
            return None;
        }
        let index = full_text().unwrap_or_else(|error| {
            warn(&error);
            None
        });
        index.map(|index| Self { index, texts: texts.into_iter() })
    }

    /// Asks the index about the next text: which messages need not be opened for it. Returns `true` if no texts are
    /// left.
    fn proceed(&mut self, snapshot: &MailSnapshot<'_>, excluded: &mut Vec<ExcludedNotes>) -> bool {
        for text in self.texts.by_ref() {
            match snapshot.messages_without(&self.index, std::slice::from_ref(&text)) {
                // The mail file is not indexed.
                Ok(found) if found.is_empty() => return true,
                Ok(found) => excluded.extend(found),
                Err(error) => {
                    warn(&error);
                    excluded.clear();
                    return true;
                }
            }
            if !text.is_empty() {
                break;
            }
        }
        self.texts.as_slice().is_empty()
    }
}

fn warn(error: &search::Error) {
    tracing::warn!(target: "imap", %error, "the full-text index cannot be used, searching the messages instead");
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
