//! Headers and summaries of many notes at once: those that lie close together are read with one scan, the others by themselves.

use std::collections::{HashMap, HashSet};

use base::NoteId;
use formula::{Formula, Host};
use store::{Direction, KeyRange, Read, Table};

use crate::database::{Database, damaged};
use crate::error::Result;
use crate::evaluate::subject;
use crate::keys::{self, Part};
use crate::note::Header;
use crate::reading::{self, Reading, damaged_note};

/// So far apart are two notes that a scan still goes from one to the other.
const GAP_MAX: u32 = 8;

/// So many notes are worth a scan, which costs as much as a few look-ups before it gives anything.
const RUN_MIN: usize = 4;

/// Takes a header and the summary record behind it, if there is one.
type Each<'e> = dyn FnMut(Header, Option<&[u8]>) -> Result<()> + 'e;

/// Calls `each` with the header and the summary record of every one of these notes that there is, in the order of their numbers.
fn each_record(
    reader: &dyn Read,
    database: &Database,
    notes: impl IntoIterator<Item = NoteId>,
    each: &mut Each<'_>,
) -> Result<()> {
    let mut notes: Vec<NoteId> = notes.into_iter().collect();
    notes.sort_unstable();
    notes.dedup();
    for run in notes.chunk_by(|one, next| next.0 - one.0 <= GAP_MAX) {
        if run.len() >= RUN_MIN {
            each_of_run(reader, database, run, each)?;
            continue;
        }
        for note in run {
            let (header, summary) = reading::load_header_and_summary_bytes(reader, database, *note)?;
            if let Some(header) = header {
                each(header, summary.as_deref())?;
            }
        }
    }
    Ok(())
}

/// Reads notes with one scan from the first to the last.
fn each_of_run(reader: &dyn Read, database: &Database, run: &[NoteId], each: &mut Each<'_>) -> Result<()> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
    let [start, end] = [*first, last.next()].map(|note| keys::summary(database.number(), note, Part::Header).to_vec());
    let mut cursor = reader.scan(Table::Summary, &KeyRange { start, end: Some(end) }, Direction::Forward)?;
    // A header waits for the summary that stands behind it.
    let mut waiting: Option<Header> = None;
    while let Some((key, value)) = cursor.next()? {
        let (note, part) = keys::split_summary(key).ok_or_else(|| damaged(Table::Summary, key))?;
        if run.binary_search(&note).is_err() {
            continue;
        }
        if part == Part::Header as u8 {
            let header = Header::decode(note, value).map_err(|_| damaged_note(database, note, "header"))?;
            if let Some(before) = waiting.replace(header) {
                each(before, None)?;
            }
        } else if let Some(header) = waiting.take_if(|header| header.note == note) {
            each(header, Some(value))?;
        }
    }
    waiting.map_or(Ok(()), |header| each(header, None))
}

impl Reading<'_> {
    /// Gives those of some notes that Readers items hide from the reader.
    pub(crate) fn hidden_among(&self, notes: impl IntoIterator<Item = NoteId>) -> Result<HashSet<NoteId>> {
        let mut hidden = HashSet::new();
        if self.grant().is_server_itself() {
            return Ok(hidden);
        }
        each_record(&self.snapshot, self.database(), notes, &mut |header, _| {
            if self.hides(&header)? {
                hidden.insert(header.note);
            }
            Ok(())
        })?;
        Ok(hidden)
    }

    /// Gives the headers of those of some notes that a selection takes, or of all where there is none, among those whose header `is_meant`. What is
    /// hidden or deleted is not among them, and neither is a note over which the formula comes to a limit.
    pub fn selected(
        &self,
        selection: Option<&Formula>,
        host: &dyn Host,
        notes: impl IntoIterator<Item = NoteId>,
        is_meant: &dyn Fn(&Header) -> bool,
    ) -> Result<HashMap<NoteId, Header>> {
        let mut taken = HashMap::new();
        each_record(&self.snapshot, self.database(), notes, &mut |header, summary| {
            if header.is_stub() || !is_meant(&header) || self.hides(&header)? {
                return Ok(());
            }
            let is_taken = match (selection, summary) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(selection), Some(bytes)) => {
                    let subject = subject(&header, bytes, self.database())?;
                    selection.evaluate(&subject, host).is_ok_and(|outcome| outcome.selected)
                }
            };
            if is_taken {
                taken.insert(header.note, header);
            }
            Ok(())
        })?;
        Ok(taken)
    }
}
