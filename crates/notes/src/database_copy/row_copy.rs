//! The steps of a copy: reads records of the snapshot and writes them under the number of the copy.

use base::NoteId;
use base::codec::Encoder;
use store::{Batch, Direction, KeyRange, Table, TableReader as _};

use super::note_rows::CopiedNotes;
use super::{COPY_BYTES_PER_STEP, COPY_RECORDS_PER_STEP, DatabaseCopy};
use crate::change_log;
use crate::error::{Result, damaged};
use crate::item::Item;
use crate::keys::{self, REVISIONS_ORDINAL, SummaryRecord};
use crate::limits::BODY_CHUNK_BYTES;
use crate::note::{NoteHeader, summary_items};
use crate::records;

/// Which records of a range of keys a copy has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowFilter {
    /// All of them.
    None,
    /// Body items, of notes in the copy. References to other notes are translated.
    Body,
    /// Changes of notes in the copy. A new database has no deletions and departures from folders.
    Changes,
    /// Unread marks, but not of the owner, whose marks are in the notes.
    UnreadMarks,
    /// Entries of the index of threads, of notes in the copy.
    Threads,
}

/// A body item with references to other notes, while its pieces are copied.
struct TranslatedItem {
    note: NoteId,
    ordinal: u16,
    bytes: Vec<u8>,
}

impl TranslatedItem {
    /// Returns `true` if a key is that of a piece of the item.
    fn has_piece(&self, key: &[u8]) -> bool {
        keys::split_body(key).is_some_and(|(note, ordinal, _)| (self.note, self.ordinal) == (note, ordinal))
    }
}

impl DatabaseCopy<'_> {
    /// Finds documents that keep their UNIDs. Returns `true` if these were the last notes.
    pub(super) fn find_kept(&mut self) -> Result<bool> {
        let from = self.source.database().number;
        let range = self.rest(&KeyRange::prefix(&from.to_key()));
        let mut cursor = self.snapshot.scan(Table::Summary, &range, Direction::Forward)?;
        let mut header: Option<NoteHeader> = None;
        let mut count = 0;
        let mut after = self.after.take();
        while let Some((key, value)) = cursor.next()? {
            let (note, part) = keys::split_summary(key).ok_or_else(|| damaged(Table::Summary, key))?;
            if part == SummaryRecord::Header as u8 {
                if count >= COPY_RECORDS_PER_STEP {
                    self.after = after;
                    return Ok(false);
                }
                header = Some(NoteHeader::decode(note, value).map_err(|_| damaged(Table::Summary, key))?);
            } else if let Some(header) = header.as_ref().filter(|header| header.note == note) {
                let items = summary_items(value).map_err(|_| damaged(Table::Summary, key))?;
                self.notes.keep_if_client_document(header, &items);
            }
            after = Some(key.to_vec());
            count += 1;
        }
        Ok(true)
    }

    /// Copies headers and summaries. Returns `true` if these were the last notes.
    pub(super) fn copy_notes(&mut self) -> Result<bool> {
        let source = self.source;
        let database = source.database();
        let range = self.rest(&KeyRange::prefix(&database.number.to_key()));
        let databases = self.databases;
        // The gate is held until the batch is committed, so the content to which the notes refer stays.
        let gate = databases.store().blobs().writer();
        let mut batch = Batch::new();
        let mut cursor = self.snapshot.scan(Table::Summary, &range, Direction::Forward)?;
        let mut header: Option<NoteHeader> = None;
        let mut after = self.after.take();
        let mut count = 0;
        let is_last = loop {
            let Some((key, value)) = cursor.next()? else { break true };
            let (note, part) = keys::split_summary(key).ok_or_else(|| damaged(Table::Summary, key))?;
            let mut added = CopiedNotes { gate: &gate, batch: &mut batch, progress: &mut self.progress };
            if part == SummaryRecord::Header as u8 {
                let next = NoteHeader::decode(note, value);
                let next = next.map_err(|_| records::damaged_note(database, note, "header"))?;
                if let Some(stub) = header.take() {
                    self.notes.copy(&self.snapshot, (stub, None), &mut added)?;
                }
                if count >= COPY_RECORDS_PER_STEP || batch.byte_count() >= COPY_BYTES_PER_STEP {
                    break false;
                }
                header = Some(next);
            } else {
                let known = header.take().filter(|header| header.note == note);
                let known = known.ok_or_else(|| records::damaged_note(database, note, "header"))?;
                self.notes.copy(&self.snapshot, (known, Some(value)), &mut added)?;
            }
            after = Some(key.to_vec());
            count += 1;
        };
        if let Some(stub) = header.take() {
            let mut added = CopiedNotes { gate: &gate, batch: &mut batch, progress: &mut self.progress };
            self.notes.copy(&self.snapshot, (stub, None), &mut added)?;
        }
        drop(cursor);
        self.after = after;
        self.commit(&batch)?;
        drop(gate);
        if is_last {
            self.add_folders();
        }
        Ok(is_last)
    }

    /// Copies the records of a range of keys. Returns `true` if these were the last ones.
    pub(super) fn copy_rows(
        &mut self,
        (table, range): (Table, &KeyRange),
        filter: RowFilter,
        batch: &mut Batch,
    ) -> Result<bool> {
        let owner = self.notes.new_owner_key();
        let mut cursor = self.snapshot.scan(table, &self.rest(range), Direction::Forward)?;
        let mut after = self.after.take();
        let mut translated: Option<TranslatedItem> = None;
        let mut count = 0;
        while let Some((key, value)) = cursor.next()? {
            let is_full = count >= COPY_RECORDS_PER_STEP || batch.byte_count() >= COPY_BYTES_PER_STEP;
            // All pieces of a translated item are copied by one step. It has references, of which there is a limit.
            if is_full && !translated.as_ref().is_some_and(|item| item.has_piece(key)) {
                self.after = after;
                return Ok(false);
            }
            if self.has_row((table, key), filter, owner.as_deref())? {
                let new_key = keys::in_database(self.notes.target(), key);
                match filter {
                    RowFilter::Body => {
                        let piece = self.body_piece((key, value), &mut translated)?;
                        batch.put(table, &new_key, piece.unwrap_or(value));
                    }
                    _ => batch.put(table, &new_key, value),
                }
            }
            after = Some(key.to_vec());
            count += 1;
        }
        Ok(true)
    }

    fn has_row(&self, (table, key): (Table, &[u8]), filter: RowFilter, owner: Option<&str>) -> Result<bool> {
        let damaged = || damaged(table, key);
        Ok(match filter {
            RowFilter::None => true,
            RowFilter::Body => {
                let (note, ..) = keys::split_body(key).ok_or_else(damaged)?;
                !self.notes.leaves_out(note)
            }
            RowFilter::Changes => {
                let (_, note, kind) = keys::split_bymod(key).ok_or_else(damaged)?;
                let is_current = !self.notes.is_new_database() || change_log::is_change(kind);
                is_current && !self.notes.leaves_out(note)
            }
            RowFilter::UnreadMarks => {
                let (user, _) = keys::split_unread_block(key).ok_or_else(damaged)?;
                owner != Some(user)
            }
            RowFilter::Threads => {
                let (_, note) = keys::split_thread_entry(key).ok_or_else(damaged)?;
                !self.notes.leaves_out(note)
            }
        })
    }

    /// Returns a piece of a body item in the copy, or `None` if it is the same.
    fn body_piece<'t>(
        &self,
        (key, value): (&[u8], &[u8]),
        translated: &'t mut Option<TranslatedItem>,
    ) -> Result<Option<&'t [u8]>> {
        let (note, ordinal, piece) = keys::split_body(key).ok_or_else(|| damaged(Table::Body, key))?;
        if ordinal == REVISIONS_ORDINAL || !self.notes.is_new_database() {
            return Ok(None);
        }
        if piece == 0 {
            *translated = None;
            if Item::begins_with_references(value) {
                *translated = self.translated_item(note, ordinal)?;
            }
        }
        let Some(item) = translated.as_ref().filter(|item| item.has_piece(key)) else { return Ok(None) };
        let start = usize::try_from(piece).unwrap_or(usize::MAX).saturating_mul(BODY_CHUNK_BYTES);
        let end = start.saturating_add(value.len());
        item.bytes.get(start..end).map(Some).ok_or_else(|| damaged(Table::Body, key))
    }

    fn translated_item(&self, note: NoteId, ordinal: u16) -> Result<Option<TranslatedItem>> {
        let database = self.source.database();
        let Some(mut item) = records::load_body(&self.snapshot, database, note, ordinal)? else { return Ok(None) };
        if !self.notes.translate_references(&self.snapshot, &mut item.value)? {
            return Ok(None);
        }
        let mut out = Encoder::new();
        item.encode(&mut out);
        Ok(Some(TranslatedItem { note, ordinal, bytes: out.finish() }))
    }
}
