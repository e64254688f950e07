//! Documents of the index: creation, counts and reading back.

use std::collections::HashMap;

use base::{DbNumber, Modseq, NoteId, Timestamp};
use notes::NoteHeader;
use notes::note::NoteFlags;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Searcher, SegmentReader, TERMINATED, TantivyDocument, Term};

use crate::error::Result;
use crate::schema::{self, Schema};
use crate::text::NoteText;

/// Creates the document of a note.
pub(crate) fn document(schema: &Schema, database: DbNumber, header: &NoteHeader, text: NoteText) -> TantivyDocument {
    let mut document = TantivyDocument::default();
    let is_restricted = header.flags.contains(NoteFlags::HAS_READERS);
    document.add_u64(schema.key, schema::key(database, header.note));
    document.add_u64(schema.database, u64::from(database.0));
    if is_restricted {
        document.add_u64(schema.restricted, u64::from(database.0));
    }
    document.add_u64(schema.note, u64::from(header.note.0) << 1 | u64::from(is_restricted));
    document.add_u64(schema.sequence, u64::from(header.sequence));
    document.add_i64(schema.modified, header.sequence_time.0);
    document.add_i64(schema.received, header.received.0);
    document.add_i64(schema.created, header.created.0);
    document.add_u64(schema.size, header.size);
    document.add_text(schema.main, text.main);
    document.add_text(schema.body, text.body);
    document.add_text(schema.named, text.named);
    if let Some(searched) = text.substring_words {
        document.add_text(schema.searched, searched);
    }
    for value in text.values {
        document.add_text(schema.values, value);
    }
    document
}

/// Creates the document that records the applied modseq of a database.
pub(crate) fn progress_document(schema: &Schema, database: DbNumber, applied: Modseq) -> TantivyDocument {
    let mut document = TantivyDocument::default();
    document.add_u64(schema.state, u64::from(database.0));
    document.add_u64(schema.applied, applied.0);
    document
}

/// Reads the applied modseq of each database.
pub(crate) fn applied(schema: &Schema, searcher: &Searcher) -> Result<HashMap<DbNumber, Modseq>> {
    let mut found = HashMap::new();
    for segment in searcher.segment_readers() {
        let index = segment.inverted_index(schema.state)?;
        let column = segment.fast_fields().column_first_or_default::<u64>(schema::APPLIED)?;
        let mut terms = index.terms().stream()?;
        while terms.advance() {
            let number = terms.key().try_into().map(u64::from_be_bytes).unwrap_or_default();
            let database = DbNumber(u32::try_from(number).unwrap_or_default());
            for doc in live_documents(segment, &schema.state_term(database))? {
                found.insert(database, Modseq(column.get_val(doc)));
            }
        }
    }
    Ok(found)
}

/// Reads the sequence number and the time of the last save that the index holds for a note.
pub(crate) fn saved_version(searcher: &Searcher, key: &Term) -> Result<Option<(u64, Timestamp)>> {
    for segment in searcher.segment_readers() {
        let Some(doc) = live_documents(segment, key)?.pop() else { continue };
        let sequence = segment.fast_fields().column_first_or_default::<u64>(schema::SEQUENCE)?;
        let modified = segment.fast_fields().column_first_or_default::<i64>(schema::MODIFIED)?;
        return Ok(Some((sequence.get_val(doc), Timestamp(modified.get_val(doc)))));
    }
    Ok(None)
}

/// Returns the notes of a database that are in the index.
pub(crate) fn notes(searcher: &Searcher, database: &Term) -> Result<Vec<NoteId>> {
    let mut found = Vec::new();
    for segment in searcher.segment_readers() {
        let notes = segment.fast_fields().column_first_or_default::<u64>(schema::NOTE)?;
        let note = |doc| NoteId(u32::try_from(notes.get_val(doc) >> 1).unwrap_or_default());
        found.extend(live_documents(segment, database)?.into_iter().map(note));
    }
    Ok(found)
}

/// Returns the number of documents that have a term.
pub(crate) fn count(searcher: &Searcher, term: &Term) -> Result<u64> {
    let mut count = 0;
    for segment in searcher.segment_readers() {
        count += live_documents(segment, term)?.len() as u64;
    }
    Ok(count)
}

/// Returns the documents of a segment that have a term and are not deleted.
fn live_documents(segment: &SegmentReader, term: &Term) -> Result<Vec<DocId>> {
    let index = segment.inverted_index(term.field())?;
    let mut found = Vec::new();
    if let Some(mut postings) = index.read_postings(term, IndexRecordOption::Basic)? {
        while postings.doc() != TERMINATED {
            if !segment.is_deleted(postings.doc()) {
                found.push(postings.doc());
            }
            postings.advance();
        }
    }
    Ok(found)
}
