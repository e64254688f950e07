//! What a user knows of its mail file: the rows that it has read, the documents that it has added, the open view.

use std::collections::VecDeque;

use super::skeleton::{ContentId, SeparatePart};
use crate::door::rows::{FILES_MAX, KnownRows};
use crate::plan::steps::DocumentFraction;
use crate::workload::action::Document;

/// A document of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// The note id.
    pub(super) note_id: u32,
    /// The universal identifier.
    pub(super) unid: [u8; 16],
}

/// A document that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadDocument {
    /// The document.
    pub(super) row: Row,
    /// The sender of a message.
    pub(super) from: Option<String>,
    /// The subject.
    pub(super) subject: String,
    /// Its attachments, at most [`FILES_MAX`].
    pub(super) files: Vec<FileOfDocument>,
    /// The parts of a message that are stored apart from its note.
    pub(super) parts: Vec<SeparatePart>,
}

/// An attachment of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileOfDocument {
    /// A file of this name, which is attached to a document.
    Named(String),
    /// A part of a message that has arrived.
    Part(ContentId),
}

impl ReadDocument {
    /// Returns a document of which nothing but its place is known.
    pub(super) fn without_contents(row: Row) -> Self {
        Self { row, from: None, subject: String::new(), files: Vec::new(), parts: Vec::new() }
    }

    /// Replaces the separate parts of a message. Those that are attachments become its files.
    pub(super) fn set_parts(&mut self, parts: Vec<SeparatePart>) {
        self.files.retain(|file| matches!(file, FileOfDocument::Named(_)));
        let attachments = parts.iter().filter(|part| part.is_attachment);
        self.files.extend(attachments.map(|part| FileOfDocument::Part(part.content)));
        self.files.truncate(FILES_MAX);
        self.parts = parts;
    }
}

/// The view or folder that a user has opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenView {
    /// The note id of its design.
    pub(super) view_id: u32,
    /// The rows of the whole collection when it was opened.
    pub(super) entries: u64,
    /// The newest rows are at the end: the view is a folder of mail.
    pub(super) is_oldest_first: bool,
    /// The key of the row with which the next screen begins, or `None` for the first screen.
    pub(super) next: Option<Vec<u8>>,
}

/// What a user remembers.
#[derive(Debug, Default)]
pub(super) struct UserMemory {
    /// The view that is open.
    pub(super) view: Option<OpenView>,
    /// The note id of the inbox, once it is known.
    pub(super) inbox: Option<u32>,
    /// The note id of the folder with sent messages, once it is known.
    pub(super) sent: Option<u32>,
    /// The document that was read last.
    pub(super) last: Option<ReadDocument>,
    /// The documents of simultaneous reads that were read with one call, by repetition. `None`: there was no document.
    pub(super) batch: VecDeque<(u64, Option<ReadDocument>)>,
    /// The state of the last poll for new mail.
    pub(super) poll_state: Vec<u8>,
    /// The server names contents in items otherwise than in notes for replication: it encrypts them.
    pub(super) has_keyed_contents: bool,
    /// The documents.
    pub(super) rows: KnownRows<Row>,
}

impl UserMemory {
    /// Returns the document of a step, or `None` if there is none. `Newest` is that of the repetition.
    pub(super) fn pick(&self, of: Document, fraction: DocumentFraction, repetition: u64) -> Option<Row> {
        self.rows.pick(of, fraction, repetition, self.last.as_ref().map(|last| &last.row))
    }

    /// Forgets a document that is no longer at its place.
    pub(super) fn forget(&mut self, row: Row) {
        self.rows.forget(&row);
        self.last.take_if(|last| last.row == row);
    }

    /// Takes the result of a read that was made together with others. Results of earlier repetitions are dropped.
    pub(super) fn take_batched(&mut self, repetition: u64) -> Option<Option<ReadDocument>> {
        while let Some((of, document)) = self.batch.pop_front() {
            if of == repetition {
                return Some(document);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::rows::ROWS_MAX;

    fn row(note_id: u32) -> Row {
        Row { note_id, unid: [note_id as u8; 16] }
    }

    fn read(note_id: u32) -> ReadDocument {
        ReadDocument::without_contents(row(note_id))
    }

    fn fraction() -> DocumentFraction {
        DocumentFraction::from_bits(1 << 31)
    }

    #[test]
    fn documents_are_picked_from_what_the_user_knows() {
        let mut memory = UserMemory::default();
        for of in [Document::Screen, Document::Own, Document::Newest, Document::Last] {
            assert_eq!(memory.pick(of, fraction(), 0), None);
        }
        memory.rows.set_screen((1..=4).map(row).collect());
        memory.rows.set_newest((11..=12).map(row).collect());
        memory.rows.add_own(row(21));
        memory.last = Some(read(31));
        let picked = |of, repetition| memory.pick(of, fraction(), repetition).map(|row| row.note_id);
        assert_eq!(picked(Document::Screen, 0), Some(3));
        assert_eq!(picked(Document::Own, 0), Some(21));
        assert_eq!(picked(Document::Last, 0), Some(31));
        assert_eq!([0, 1, 2].map(|repetition| picked(Document::Newest, repetition)), [Some(11), Some(12), None]);
    }

    #[test]
    fn a_document_is_deleted_once() {
        let mut memory = UserMemory::default();
        memory.rows.set_screen(vec![row(1), row(2)]);
        memory.rows.add_own(row(2));
        memory.last = Some(read(2));
        memory.forget(row(2));
        assert_eq!(memory.pick(Document::Screen, DocumentFraction::from_bits(u32::MAX), 0), Some(row(1)));
        assert_eq!((memory.pick(Document::Own, fraction(), 0), &memory.last), (None, &None));
        memory.forget(row(1));
        assert_eq!(memory.pick(Document::Screen, fraction(), 0), None);
    }

    #[test]
    fn at_most_the_maximum_of_rows_is_kept() {
        let mut memory = UserMemory::default();
        memory.rows.set_screen((0..2_000).map(row).collect());
        (0..2_000).for_each(|note_id| memory.rows.add_own(row(note_id)));
        let first = DocumentFraction::from_bits(0);
        let last = DocumentFraction::from_bits(u32::MAX);
        assert_eq!(memory.pick(Document::Screen, last, 0), Some(row(ROWS_MAX as u32 - 1)));
        assert_eq!(memory.pick(Document::Own, first, 0), Some(row(1_000)), "the oldest are forgotten");
    }

    #[test]
    fn batched_reads_are_taken_in_their_turn() {
        let batch = [(0, Some(read(1))), (1, None), (2, Some(read(3)))].into();
        let mut memory = UserMemory { batch, ..UserMemory::default() };
        assert_eq!(memory.take_batched(0), Some(Some(read(1))));
        assert_eq!(memory.take_batched(2), Some(Some(read(3))));
        assert_eq!(memory.take_batched(3), None);
    }
}
