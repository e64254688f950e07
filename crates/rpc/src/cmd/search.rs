//! Searching notes by formula and time window, step by step.
//!
//! The search follows the order of changes. Therefore the cost of a search that starts after a modseq depends on the
//! changes since then, and every message can state how far the search has come. A step examines a bounded number of
//! notes on its own snapshot.

use std::collections::HashMap;
use std::time::Duration;

use base::{Modseq, NoteId, Timestamp};
use formula::Formula;
use notes::batch_read::SelectedNotes;
use notes::change_log::{ChangeCursor, ChangeEntry, NoteChange};
use notes::limits::LOOKUP_COST_MAX;
use notes::lookup::LookupContext;
use notes::{DatabaseSnapshot, NoteClass, NoteHeader, level};
use prost::Message;
use proto::v1;

use super::CallContext;
use super::change::check_known;
use super::note::{ItemSelection, read_selected};
use crate::convert::class_from_proto;
use crate::error::{Error, Result};
use crate::limits::{FORMULA_BYTES_MAX, MESSAGE_BYTES_MAX, STEP_BYTES, STEP_CHANGES};
use crate::service::CallOutcome;

/// Number of bytes of a message that are reserved for everything except notes.
const ENVELOPE_BYTES: usize = 64 << 10;

/// Maximum size of one note in bytes.
const NOTE_BYTES_MAX: usize = MESSAGE_BYTES_MAX - STEP_BYTES - ENVELOPE_BYTES;

/// Time after which a step ends.
const STEP_TIME_MAX: Duration = Duration::from_millis(50);

/// Maximum number of notes that are examined before any of them is added to the reply. If the message is full after the
/// first of them, the others are examined again later.
const NOTES_PER_EVALUATION_MAX: usize = 64;

/// A search in progress.
pub(crate) struct Search {
    database: Option<v1::DatabaseKey>,
    selection: Option<Formula>,
    classes: Vec<NoteClass>,
    since: Timestamp,
    until: Timestamp,
    wanted: ItemSelection,
    deletions: bool,
    /// Number of notes that may still be returned.
    left: u64,
    /// The position up to which everything has been examined.
    at: ChangeCursor,
    /// Number of notes that are examined before any of them is added to the reply.
    at_once: usize,
    /// Number of notes for which the formula failed so far.
    failed: u64,
    /// The first failure of the formula.
    failure: String,
}

/// The result of a step, and the rest of the search.
pub(crate) struct SearchStep {
    /// The reply for the client.
    pub reply: v1::SearchNotesReply,
    /// The remaining search; `None` after the last step.
    pub rest: Option<Search>,
}

impl Search {
    /// Starts a search. Returns an error if the formula is too long or does not compile.
    pub(crate) fn begin(request: v1::SearchNotesRequest) -> Result<Self> {
        if request.formula.len() > FORMULA_BYTES_MAX {
            return Err(Error::Limit { what: "bytes of a formula", max: FORMULA_BYTES_MAX as u64 });
        }
        let is_given = !request.formula.trim().is_empty();
        let selection = is_given
            .then(|| {
                Formula::compile(
                    &request.formula,
                    &formula::FormulaOptions {
                        permissions: formula::Permissions::NONE,
                        ..formula::FormulaOptions::default()
                    },
                )
            })
            .transpose();
        let mut classes =
            request.note_classes.iter().map(|class| class_from_proto(*class)).collect::<Result<Vec<_>>>()?;
        if classes.is_empty() {
            classes.push(NoteClass::DOCUMENT);
        }
        let end = |moment| if moment == 0 { Timestamp(i64::MAX) } else { Timestamp(moment) };
        Ok(Self {
            database: request.database,
            selection: selection.map_err(|error| Error::Formula {
                what: "formula",
                position: error.position,
                text: error.render(&request.formula),
            })?,
            classes,
            since: Timestamp(request.since_us),
            until: end(request.until_us),
            wanted: ItemSelection::read(request.items)?,
            deletions: request.deletions && request.since_modseq > 0,
            left: if request.limit == 0 { u64::MAX } else { request.limit.into() },
            at: ChangeCursor::after(Modseq(request.since_modseq)),
            at_once: 4,
            failed: 0,
            failure: String::new(),
        })
    }

    /// Examines the next notes.
    pub(crate) fn step(mut self, context: &CallContext) -> Result<CallOutcome<SearchStep>> {
        let access = context.access::<level::Reader>(self.database.clone())?;
        let reading = access.read()?;
        if self.deletions {
            check_known(&reading, self.at.modseq)?;
        }
        let lookups = LookupContext::new(&reading);
        let some = reading.changes_page(self.at, STEP_CHANGES)?;
        let mut reply = v1::SearchNotesReply::default();
        let mut bytes = 0;
        let mut next = some.next;
        let mut taken = HashMap::new();
        let clock = &context.services.clock;
        let began = clock.monotonic();
        let until = began.saturating_add(STEP_TIME_MAX);
        // Number of entries examined so far.
        let mut looked = 0;
        for (index, entry) in some.entries.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| &some.entries[before]);
            let is_begun = before.map_or(self.at.is_partly_read(entry.modseq), |before| before.modseq == entry.modseq);
            // A client can resume only between two transactions, so all notes of a transaction are returned, whatever
            // the limits say.
            let is_late = index == looked && index > 0 && clock.monotonic() >= until;
            if bytes > STEP_BYTES || is_late || (self.left == 0 && !is_begun) {
                next = match before {
                    Some(before) if is_begun => ChangeCursor::after_entry(before),
                    Some(before) => ChangeCursor::after(before.modseq),
                    None => self.at,
                };
                break;
            }
            if index == looked {
                let next = &some.entries[index..];
                let (selected, examined) = self.select(context, &reading, &lookups, next, until)?;
                looked += examined;
                taken = selected;
            }
            match &entry.change {
                NoteChange::Deleted { .. } if self.deletions => reply.deleted.push(entry.note.0),
                NoteChange::Changed { .. } => {
                    if let Some(header) = taken.get(&entry.note) {
                        let note = read_selected(&reading, header, &self.wanted, NOTE_BYTES_MAX)?;
                        bytes += note.encoded_len();
                        self.left = self.left.saturating_sub(1);
                        reply.notes.push(note);
                    }
                }
                _ => {}
            }
        }
        self.at = next;
        reply.end = self.at.is_at_transaction_boundary() && (self.left == 0 || self.at.modseq >= reading.modseq());
        if reply.end {
            reply.modseq = self.at.modseq.0;
            reply.failed = self.failed;
            reply.failure = std::mem::take(&mut self.failure);
        }
        let ticket = reading.ticket();
        let rest = (!reply.end).then_some(self);
        Ok(CallOutcome::when_durable(SearchStep { reply, rest }, ticket))
    }

    /// Examines the next of the changes: at most `at_once`, or the first if the time is over before all of these are
    /// examined. Returns the headers of the notes that the search selects, and the number of examined changes.
    fn select(
        &mut self,
        context: &CallContext,
        reading: &DatabaseSnapshot<'_>,
        lookups: &LookupContext<'_>,
        entries: &[ChangeEntry],
        until: Duration,
    ) -> Result<(HashMap<NoteId, NoteHeader>, usize)> {
        let clock = &context.services.clock;
        let began = clock.monotonic();
        let mut examined = self.at_once.min(entries.len());
        let mut selected = self.select_among(reading, lookups, &entries[..examined], until.saturating_sub(began))?;
        if selected.is_out_of_time {
            // The notes were examined in another order than that of the changes, so a part of them is of no use.
            examined = 1;
            selected = self.select_among(reading, lookups, &entries[..examined], Duration::ZERO)?;
        }
        let SelectedNotes { notes, failed, failure, .. } = selected;
        if let Some(error) = lookups.take_error() {
            return Err(error.into());
        }
        if lookups.is_exhausted() {
            let what = "view rows looked up by a formula for 500 documents";
            return Err(Error::Limit { what, max: LOOKUP_COST_MAX });
        }
        self.failed += failed;
        if self.failure.is_empty() {
            self.failure = failure.unwrap_or_default();
        }
        // A slow formula is evaluated over few notes at a time, so that the step does not take too long.
        let is_slow = clock.monotonic() - began > STEP_TIME_MAX / 4;
        self.at_once = if is_slow { 1 } else { (self.at_once * 2).min(NOTES_PER_EVALUATION_MAX) };
        Ok((notes, examined))
    }

    /// Selects among the notes of some changes.
    fn select_among(
        &self,
        reading: &DatabaseSnapshot<'_>,
        lookups: &LookupContext<'_>,
        entries: &[ChangeEntry],
        time_max: Duration,
    ) -> Result<SelectedNotes> {
        let changed = entries.iter().filter(|entry| matches!(entry.change, NoteChange::Changed { .. }));
        let notes = changed.map(|entry| entry.note);
        let selection = self.selection.as_ref();
        Ok(reading.select_notes(selection, lookups, notes, &|header| self.is_in_range(header), time_max)?)
    }

    fn is_in_range(&self, header: &NoteHeader) -> bool {
        self.classes.contains(&header.class) && header.modified >= self.since && header.modified < self.until
    }
}
