//! Reads headers and summaries of many notes at once. Notes with close note ids are read with one scan, the others with
//! single lookups.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use base::{Clock, NoteId};
use formula::{Formula, Host, Value};
use store::{Direction, KeyRange, Table, TableReader};

use crate::database::Database;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Result, damaged};
use crate::evaluate::stored_document;
use crate::formula_document::FormulaDocument;
use crate::item::ItemRef;
use crate::keys::{self, SummaryRecord};
use crate::limits::DOCUMENT_LIMITS;
use crate::note::{NoteHeader, summary_items};
use crate::records::{self, damaged_note};
use crate::timed_host::TimedHost;

/// Maximum distance of two note ids that a scan covers together.
const GAP_MAX: u32 = 8;

/// Minimum number of notes for a scan. Starting a scan costs as much as a few lookups.
const RUN_MIN: usize = 4;

/// Maximum number of bytes of unwanted records that a scan reads. After that, lookups replace it.
const UNWANTED_BYTES_MAX: usize = 1 << 20;

/// A callback that receives a header and, if wanted and present, the summary record that follows it. It ends the
/// reading by returning `ControlFlow::Break`.
type RecordCallback<'e> = dyn FnMut(NoteHeader, Option<&[u8]>) -> Result<ControlFlow<()>> + 'e;

/// Calls `each` for those of the notes that exist, in the order of their note ids. It receives the header, or header
/// and summary, as `part` specifies.
fn for_each_record(
    reader: &dyn TableReader,
    database: &Database,
    notes: impl IntoIterator<Item = NoteId>,
    part: SummaryRecord,
    each: &mut RecordCallback<'_>,
) -> Result<()> {
    let mut notes: Vec<NoteId> = notes.into_iter().collect();
    notes.sort_unstable();
    notes.dedup();
    for mut run in notes.chunk_by(|one, next| next.0 - one.0 <= GAP_MAX) {
        if run.len() >= RUN_MIN {
            run = match scan_run(reader, database, run, part, each)? {
                ControlFlow::Continue(rest) => rest,
                ControlFlow::Break(()) => return Ok(()),
            };
        }
        for note in run {
            let (header, summary) = match part {
                SummaryRecord::Header => (records::load_header(reader, database, *note)?, None),
                SummaryRecord::Summary => records::load_header_and_summary_bytes(reader, database, *note)?,
            };
            if let Some(header) = header
                && each(header, summary.as_deref())?.is_break()
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Reads notes with one scan from the first to the last. If the scan reads too many unwanted records, it stops and
/// returns the remaining notes. Returns `ControlFlow::Break` if `each` ended the reading.
fn scan_run<'n>(
    reader: &dyn TableReader,
    database: &Database,
    run: &'n [NoteId],
    part: SummaryRecord,
    each: &mut RecordCallback<'_>,
) -> Result<ControlFlow<(), &'n [NoteId]>> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(ControlFlow::Continue(run)) };
    let [start, end] =
        [*first, last.next()].map(|note| keys::summary(database.number(), note, SummaryRecord::Header).to_vec());
    let mut cursor = reader.scan(Table::Summary, &KeyRange { start, end: Some(end) }, Direction::Forward)?;
    // A header waits here for its summary, which is the next record.
    let mut waiting: Option<NoteHeader> = None;
    let mut vain_bytes = 0;
    while let Some((key, value)) = cursor.next()? {
        let (note, found) = keys::split_summary(key).ok_or_else(|| damaged(Table::Summary, key))?;
        let is_header = found == SummaryRecord::Header as u8;
        let is_requested = run.binary_search(&note).is_ok();
        if is_requested && is_header {
            let header = NoteHeader::decode(note, value).map_err(|_| damaged_note(database, note, "header"))?;
            if let Some(before) = waiting.replace(header)
                && each(before, None)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        } else if is_requested && part == SummaryRecord::Summary {
            if let Some(header) = waiting.take_if(|header| header.note == note)
                && each(header, Some(value))?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        } else {
            vain_bytes += value.len();
        }
        if vain_bytes > UNWANTED_BYTES_MAX {
            // The waiting header is read again.
            let next = waiting.map_or(note.next(), |header| header.note);
            return Ok(ControlFlow::Continue(&run[run.partition_point(|note| *note < next)..]));
        }
    }
    if let Some(header) = waiting
        && each(header, None)?.is_break()
    {
        return Ok(ControlFlow::Break(()));
    }
    let rest: &[NoteId] = &[];
    Ok(ControlFlow::Continue(rest))
}

/// The notes that a selection selected.
#[derive(Debug, Default)]
pub struct SelectedNotes {
    /// The headers of the selected notes.
    pub notes: HashMap<NoteId, NoteHeader>,
    /// Number of notes for which the formula failed or hit a limit. They are not selected.
    pub failed: u64,
    /// Description of the first of these failures.
    pub failure: Option<String>,
    /// `true` if the time was over before all notes were examined.
    pub is_out_of_time: bool,
}

impl SelectedNotes {
    /// Returns `true` if the formula selects a note. Counts failures.
    fn selects(&mut self, selection: &Formula, document: &FormulaDocument<'_>, host: &TimedHost<'_>) -> bool {
        let failure = match selection.evaluate_within(document, host, DOCUMENT_LIMITS) {
            Ok(outcome) => match &outcome.value {
                Value::Error(failure) if !outcome.selected => failure.kind.to_string(),
                _ => return outcome.selected,
            },
            Err(stop) => stop.to_string(),
        };
        self.failed += 1;
        self.failure.get_or_insert(failure);
        false
    }
}

impl DatabaseSnapshot<'_> {
    /// Returns those of the notes that Readers items hide from the reader.
    pub(crate) fn hidden_among(&self, notes: impl IntoIterator<Item = NoteId>) -> Result<HashSet<NoteId>> {
        let mut hidden = HashSet::new();
        if self.grant().is_server_itself() {
            return Ok(hidden);
        }
        for_each_record(&self.snapshot, self.database(), notes, SummaryRecord::Header, &mut |header, _| {
            if self.hides(&header)? {
                hidden.insert(header.note);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(hidden)
    }

    /// Calls `each` with the headers and the summary items of those of the notes that the reader may see, in the order
    /// of their note ids, until it returns `false`. Deleted notes are left out.
    pub fn for_each_summary(
        &self,
        notes: impl IntoIterator<Item = NoteId>,
        each: &mut dyn FnMut(NoteHeader, &[ItemRef<'_>]) -> Result<bool>,
    ) -> Result<()> {
        for_each_record(&self.snapshot, self.database(), notes, SummaryRecord::Summary, &mut |header, summary| {
            if header.is_stub() || self.hides(&header)? {
                return Ok(ControlFlow::Continue(()));
            }
            let missing = || damaged_note(self.database(), header.note, "summary");
            let items = summary_items(summary.ok_or_else(missing)?).map_err(|_| missing())?;
            Ok(if each(header, &items)? { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })
    }

    /// Returns the headers of those of the notes that the selection selects and for whose header `header_filter`
    /// returns `true`.
    ///
    /// Without a selection, all of the latter are returned. Hidden and deleted notes are left out. The first note is
    /// always examined. After `time_max`, no further note is examined, and the result is incomplete.
    pub fn select_notes(
        &self,
        selection: Option<&Formula>,
        host: &dyn Host,
        notes: impl IntoIterator<Item = NoteId>,
        header_filter: &dyn Fn(&NoteHeader) -> bool,
        time_max: Duration,
    ) -> Result<SelectedNotes> {
        let clock: &dyn Clock = &*self.database().clock;
        let until = clock.monotonic().saturating_add(time_max);
        let mut taken = SelectedNotes::default();
        let mut is_first = true;
        for_each_record(&self.snapshot, self.database(), notes, SummaryRecord::Summary, &mut |header, summary| {
            if !is_first && clock.monotonic() >= until {
                taken.is_out_of_time = true;
                return Ok(ControlFlow::Break(()));
            }
            is_first = false;
            if header.is_stub() || !header_filter(&header) || self.hides(&header)? {
                return Ok(ControlFlow::Continue(()));
            }
            let is_taken = match (selection, summary) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(selection), Some(bytes)) => {
                    let document = stored_document(&header, bytes, self.database())?;
                    taken.selects(selection, &document, &TimedHost::new(host, clock))
                }
            };
            if is_taken {
                taken.notes.insert(header.note, header);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(taken)
    }
}
