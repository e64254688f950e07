//! Formula evaluation over the notes of a database: searches by formula.
//!
//! [`DatabaseSnapshot::search`] evaluates a selection over the documents of a database that changed since a modseq, as
//! NSFSearch does in Domino. Each document is a [`FormulaDocument`], in the context
//! [`DatabaseSnapshot::evaluation_context`].

use base::{Modseq, NoteId};
use formula::Formula;

use crate::change_log::ChangeCursor;
use crate::database::Database;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::Result;
use crate::evaluation_context::EvaluationContext;
use crate::formula_document::FormulaDocument;
use crate::limits::{DOCUMENT_LIMITS, STEPS_PER_RECORD};
use crate::note::{self, BodyDirectoryEntry, NoteClass, NoteHeader};
use crate::records::{self, load_summary_bytes};
use crate::timed_host::TimedHost;

impl DatabaseSnapshot<'_> {
    /// Creates the context of this database and its reader.
    #[must_use]
    pub fn evaluation_context(&self) -> EvaluationContext {
        let database = self.database();
        let grant = self.grant();
        let access = formula::host::UserAccess {
            level: grant.level() as u8,
            creates: grant.may_create(),
            deletes: !grant.flags().contains(crate::acl::AclFlags::NO_DELETE),
        };
        EvaluationContext {
            user: grant.name().map_or_else(String::new, |name| name.canonical().to_owned()),
            user_names: grant.names().map(str::to_owned).collect(),
            roles: grant.roles().map(str::to_owned).collect(),
            access: Some(access),
            ..EvaluationContext::from_record(&database.record(), database.clock.now())
        }
    }

    /// Returns the body items of the note that a search passed as a document. [`DatabaseSnapshot::body_item`] reads
    /// them. A document that is not stored has none.
    pub fn body_items(&self, document: &FormulaDocument<'_>) -> Result<Vec<BodyDirectoryEntry>> {
        if document.body_bytes.is_empty() {
            return Ok(Vec::new());
        }
        let damaged = |_| records::damaged_note(self.database(), document.header.note, "summary");
        note::body_items(document.body_bytes).map_err(damaged)
    }

    /// Calls `each` for the documents that changed after `since` and that the selection selects, in the order of their
    /// changes, until it returns `false`.
    ///
    /// Documents that Readers items hide are skipped.
    pub fn search(
        &self,
        selection: &Formula,
        since: Modseq,
        each: &mut dyn FnMut(&FormulaDocument<'_>) -> Result<bool>,
    ) -> Result<SearchStats> {
        let context = self.evaluation_context();
        let mut searched = SearchStats { up_to: since, examined: 0, over_limit: 0 };
        self.scan_changes(ChangeCursor::after(since), &mut |entry| {
            // A document that left a folder also has the entry of its change, in the same transaction.
            if entry.is_departure() {
                return Ok(true);
            }
            let Some(header) = self.header(entry.note)? else { return Ok(true) };
            if header.is_stub() || header.class != NoteClass::DOCUMENT || header.modseq != entry.modseq {
                return Ok(true);
            }
            let Some(bytes) = load_summary_bytes(&self.snapshot, self.database(), entry.note)? else { return Ok(true) };
            let document = stored_document(&header, &bytes, self.database())?;
            searched.examined += 1;
            let goes_on = match selection.evaluate_within(&document, &context, DOCUMENT_LIMITS) {
                Ok(outcome) if outcome.selected => each(&document)?,
                Ok(_) => true,
                Err(_) => {
                    searched.over_limit += 1;
                    true
                }
            };
            searched.up_to = entry.modseq;
            Ok(goes_on)
        })?;
        Ok(searched)
    }
}

impl DatabaseSnapshot<'_> {
    /// Returns `true` if a formula selects a note. It selects no note for which it hits a limit, nor one that is absent
    /// or hidden from the reader.
    pub fn is_selected(&self, note: NoteId, selection: &Formula, context: &EvaluationContext) -> Result<bool> {
        Ok(self.try_select(note, selection, context)?.unwrap_or(false))
    }

    /// Returns `true` if a formula selects a note, or `None` if it hits a limit. It selects no note that is absent or
    /// hidden from the reader.
    pub fn try_select(&self, note: NoteId, selection: &Formula, context: &EvaluationContext) -> Result<Option<bool>> {
        let Some(header) = self.header(note)? else { return Ok(Some(false)) };
        let Some(bytes) = load_summary_bytes(&self.snapshot, self.database(), note)? else { return Ok(Some(false)) };
        let document = stored_document(&header, &bytes, self.database())?;
        let clock = self.database().clock.as_ref();
        let began = clock.monotonic();
        let host = TimedHost::new(context, clock);
        let outcome = selection.evaluate_within(&document, &host, DOCUMENT_LIMITS);
        let is_selected = outcome.ok().map(|outcome| outcome.selected);
        // Steps of a pacer are microseconds, and many documents may be evaluated one after the other.
        let took = clock.monotonic().saturating_sub(began).as_micros();
        self.spend(STEPS_PER_RECORD.saturating_add(u64::try_from(took).unwrap_or(u64::MAX)))?;
        Ok(is_selected)
    }
}

/// Statistics of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchStats {
    /// Modseq of the last document that was examined.
    pub up_to: Modseq,
    /// Number of documents that were examined.
    pub examined: u64,
    /// Number of documents for which the formula hit a limit. They count as not selected.
    pub over_limit: u64,
}

/// Creates the document of a header and a stored summary record.
pub(crate) fn stored_document<'n>(
    header: &'n NoteHeader,
    bytes: &'n [u8],
    database: &Database,
) -> Result<FormulaDocument<'n>> {
    let damaged = |_| records::damaged_note(database, header.note, "summary");
    let (items, behind) = note::split_summary(bytes).map_err(damaged)?;
    Ok(FormulaDocument { body_bytes: behind, ..FormulaDocument::new(header, items) })
}
