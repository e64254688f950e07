//! The changes of a database, as `_changes` tells them.
//!
//! A row names a document and its leaves. Rows are in the order of the change log; a document that changes again while
//! a client reads is told again. A conflict document is told with the document to which it belongs.

use std::collections::HashSet;

use base::{Modseq, NoteId};
use notes::change_log::{ChangeCursor, ChangeEntry, NoteChange};
use notes::{DatabaseSnapshot, NoteHeader};
use serde_json::{Value, json};

use crate::document::push_text;
use crate::error::{Error, Result};
use crate::leaves::{Leaves, is_shown};
use crate::read::{DocumentOptions, document_id, document_json};
use crate::selector::{Examined, Selector, SelectorOutcome};
use crate::sequence::Sequence;

/// Number of changes that one step reads.
const CHANGES_PER_STEP: usize = 500;

/// Size in bytes at which the rows of one step end.
const BYTES_PER_STEP: usize = 1 << 20;

/// Work after which one step ends: bytes of documents that a selector has examined, and 64 for each comparison.
const EXAMINED_PER_STEP: u64 = 8 << 20;

/// Which documents a client wants to be told of.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Filter {
    /// All of them.
    #[default]
    None,
    /// Those with these ids.
    Ids(HashSet<String>),
    /// Those whose winner fulfils conditions.
    Selector(Selector),
    /// Those with the ids of design documents.
    Design,
}

/// The options of a question for changes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangesOptions {
    /// `true` if all leaves are told, otherwise only the winner.
    pub all_leaves: bool,
    /// The documents, if they are sent with the rows.
    pub documents: Option<DocumentOptions>,
    /// Which documents are told of.
    pub filter: Filter,
}

/// The rows of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangesStep {
    /// The rows, each a JSON object.
    pub rows: Vec<String>,
    /// The place behind them.
    pub next: ChangeCursor,
    /// The sequence of that place.
    pub sequence: Sequence,
    /// `true` if nothing is left.
    pub is_last: bool,
}

/// Reads the next changes, at most `rows_max` rows.
pub fn read_step(
    reading: &DatabaseSnapshot<'_>,
    from: ChangeCursor,
    rows_max: usize,
    options: &ChangesOptions,
) -> Result<ChangesStep> {
    let page = reading.changes_page(from, CHANGES_PER_STEP)?;
    let mut step = StepRows::default();
    let mut stopped = None;
    for entry in &page.entries {
        if step.is_full(rows_max) {
            break;
        }
        stopped = Some(entry);
        step.add(reading, entry, options)?;
    }
    let is_whole =
        stopped.map(|entry| (entry.modseq, entry.note)) == page.entries.last().map(|entry| (entry.modseq, entry.note));
    let (next, sequence) = match stopped.filter(|_| !is_whole) {
        Some(entry) => {
            (ChangeCursor::after_note(entry.modseq, entry.note), Sequence::of(reading, entry.modseq, Some(entry.note))?)
        }
        None => {
            // Hidden notes behind the last row are passed, too.
            let sequence = match page.next.is_at_transaction_boundary() {
                true => Sequence::of(reading, page.next.modseq, None)?,
                false => {
                    let last = page.entries.last().or(stopped);
                    let (modseq, note) = last.map_or((page.next.modseq, None), |last| (last.modseq, Some(last.note)));
                    Sequence::of(reading, modseq, note)?
                }
            };
            (page.next, sequence)
        }
    };
    let is_last = is_whole && next.is_at_transaction_boundary() && next.modseq >= reading.modseq();
    Ok(ChangesStep { rows: step.rows, next, sequence, is_last })
}

/// The rows of a step, and the work that they have taken.
#[derive(Default)]
struct StepRows {
    rows: Vec<String>,
    bytes: usize,
    /// The work of the selector.
    examined: u64,
}

impl StepRows {
    /// Returns `true` if the step should end.
    fn is_full(&self, rows_max: usize) -> bool {
        self.rows.len() >= rows_max || self.bytes >= BYTES_PER_STEP || self.examined >= EXAMINED_PER_STEP
    }

    /// Adds the row of a change. Returns its sequence, or `None` if the client gets no row for it.
    fn add(
        &mut self,
        reading: &DatabaseSnapshot<'_>,
        entry: &ChangeEntry,
        options: &ChangesOptions,
    ) -> Result<Option<Sequence>> {
        if matches!(entry.change, NoteChange::Left { .. }) {
            return Ok(None);
        }
        let Some(header) = reading.header(entry.note)? else { return Ok(None) };
        let sequence = Sequence::of(reading, entry.modseq, Some(entry.note))?;
        let Some(row) = row_of(reading, header, sequence, (options, &mut self.examined))? else { return Ok(None) };
        self.bytes += row.len();
        self.rows.push(row);
        Ok(Some(sequence))
    }
}

/// The rows of one step back.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangesBack {
    /// The rows, each a JSON object, the last change first.
    pub rows: Vec<String>,
    /// The sequence of the last row, or that of the database if there was none.
    pub sequence: Sequence,
    /// The place before which the next step begins, or `None` if nothing is left.
    pub next: Option<(Modseq, NoteId)>,
}

/// Reads the last changes before a place, or of all changes without one, the last one first: at most `rows_max` rows of
/// changes after `since`.
pub fn read_step_back(
    reading: &DatabaseSnapshot<'_>,
    (since, before): (ChangeCursor, Option<(Modseq, NoteId)>),
    rows_max: usize,
    options: &ChangesOptions,
) -> Result<ChangesBack> {
    let page = reading.changes_before(before, CHANGES_PER_STEP)?;
    let mut step = StepRows::default();
    let mut sequence = Sequence::of(reading, reading.modseq(), None)?;
    let mut next = page.next;
    for entry in &page.entries {
        if since.has_passed(entry.modseq, entry.note) {
            next = None;
            break;
        }
        if let Some(reached) = step.add(reading, entry, options)? {
            sequence = reached;
        }
        if step.is_full(rows_max) {
            next = Some((entry.modseq, entry.note));
            break;
        }
    }
    Ok(ChangesBack { rows: step.rows, sequence, next })
}

/// Returns `true` if a document fulfils a selector. One that would take too many comparisons does not: it may not stop
/// the replication of the others.
fn is_selected(
    reading: &DatabaseSnapshot<'_>,
    (id, document): (&str, &str),
    (selector, work): (&Selector, &mut u64),
) -> bool {
    *work = work.saturating_add(document.len() as u64);
    let Ok(value) = serde_json::from_str::<Value>(document) else { return false };
    let Examined { outcome, steps } = selector.examine(&value);
    *work = work.saturating_add(steps.saturating_mul(64));
    if outcome == SelectorOutcome::TooCostly {
        let database = reading.database().path();
        tracing::warn!(
            target: "couchdb", %database, id,
            "a selector needs too many comparisons for a document and leaves it out; use shorter lists in one of them"
        );
    }
    outcome == SelectorOutcome::Holds
}

/// Returns the row of a changed note, or `None` if it is no document, or none that the client asked for.
fn row_of(
    reading: &DatabaseSnapshot<'_>,
    header: NoteHeader,
    sequence: Sequence,
    (options, examined): (&ChangesOptions, &mut u64),
) -> Result<Option<String>> {
    if !is_shown(&header) {
        return Ok(None);
    }
    let leaves = match reading.winner_of(&header)? {
        Some(unid) => Leaves::read(reading, unid)?,
        None => Some(Leaves::of_note(reading, header)?),
    };
    let Some(leaves) = leaves else { return Ok(None) };
    let id = document_id(reading, &leaves.header)?;
    let winner = leaves.winner();
    let is_wanted = match &options.filter {
        Filter::None => true,
        Filter::Ids(ids) => ids.contains(&id),
        Filter::Design => id.starts_with("_design/"),
        Filter::Selector(selector) => {
            match document_json(reading, (&id, &leaves), winner, DocumentOptions::default()) {
                Ok(document) => is_selected(reading, (&id, &document), (selector, examined)),
                // It could not be sent either.
                Err(Error::TooLarge(_)) => false,
                Err(error) => return Err(error),
            }
        }
    };
    if !is_wanted {
        return Ok(None);
    }
    let mut row = format!("{{\"seq\":\"{sequence}\",\"id\":");
    push_text(&mut row, &id);
    let shown = if options.all_leaves { &leaves.list[..] } else { &leaves.list[..1] };
    let revisions: Vec<Value> = shown.iter().map(|leaf| json!({ "rev": leaf.revision().to_string() })).collect();
    row.push_str(&format!(",\"changes\":{}", Value::Array(revisions)));
    if winner.is_deletion() {
        row.push_str(",\"deleted\":true");
    }
    if let Some(documents) = options.documents {
        row.push_str(",\"doc\":");
        row.push_str(&document_json(reading, (&id, &leaves), winner, documents)?);
    }
    row.push('}');
    Ok(Some(row))
}
