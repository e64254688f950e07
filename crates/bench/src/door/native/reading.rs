//! Reading documents and attachments.

use client::v1;
use client::v1::item_selection::Extent;

use super::documents::Mark;
use super::items::{note_key, read_document};
use super::memory::{FileOfDocument, ReadDocument, Row};
use super::session::CallError;
use super::skeleton::{ContentId, SKELETON_ITEM, separate_parts};
use super::{DONE, NOT_FOUND, StepContext, StepOutcome, StepResult};
use crate::workload::NoteRead;
use crate::workload::action::{Action, Document};

/// The item with the text of a document. Messages have [`SKELETON_ITEM`].
const BODY_ITEM: &str = "Body";
/// Maximum length of a skeleton that is read with a call of its own. A longer one has no parts that are read.
const SKELETON_BYTES_MAX: usize = 1 << 20;
/// The item with header and structure of a message, which only messages have.
const MESSAGE_ITEM: &str = "$Head";
/// The items with attachments.
const FILE_ITEM: &str = "$FILE";

impl StepContext<'_> {
    /// Reads a document, or takes it from those that were read together.
    pub(super) async fn read(&mut self, of: Document) -> StepResult {
        let repetition = self.action.repetition();
        if self.action.workload().native.batch && self.action.is_simultaneous() {
            if repetition == 0 {
                self.read_batch(of).await?;
            }
            if let Some(document) = self.memory.take_batched(repetition) {
                return Ok(document.map_or(StepOutcome::Skipped, |document| self.remember(document)));
            }
        }
        let Some(row) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let document = match self.action.workload().native.read {
            NoteRead::Whole => self.open_note(row, Extent::All, &[]).await?,
            NoteRead::Items => self.read_items(row).await?,
        };
        let Some(mut document) = document else { return Ok(DONE) };
        self.read_texts(&mut [&mut document]).await?;
        Ok(self.remember(document))
    }

    /// Reads the attachment that the step has drawn, or the first one of a document.
    pub(super) async fn read_attachment(&mut self, keys: &Action) -> StepResult {
        let document = match (self.action.attachment(), keys) {
            (None, Action::Document { of }) if *of != Document::Last => {
                let Some(row) = self.document(*of).await? else { return Ok(StepOutcome::Skipped) };
                self.open_note(row, Extent::Summary, &[FILE_ITEM]).await?
            }
            _ => self.memory.last.clone(),
        };
        let number = self.action.attachment().unwrap_or(0) as usize;
        let Some(document) = document else { return Ok(StepOutcome::Skipped) };
        let row = document.row;
        let file_name = match document.files.get(number) {
            None => return Ok(StepOutcome::Skipped),
            Some(FileOfDocument::Named(name)) => name.clone(),
            Some(FileOfDocument::Part(content)) => return self.read_part(*content, document, number).await,
        };
        let request = v1::ReadAttachmentRequest {
            database: self.database(),
            note: note_key(row.note_id),
            file_name,
            offset_bytes: 0,
        };
        let mut stub = self.session.client().notes();
        let chunks = self.session.call(self.count, stub.read_attachment(request)).await?;
        self.drain(chunks).await?;
        Ok(DONE)
    }

    /// Reads an attachment of a message that has arrived. The server leaves out a content that it names otherwise in
    /// items, so its hash is looked up then.
    async fn read_part(&mut self, content: ContentId, mut document: ReadDocument, number: usize) -> StepResult {
        let unid = document.row.unid;
        if self.read_contents(&[(unid, content)]).await? > 0 {
            return Ok(DONE);
        }
        self.find_hashes(&mut [&mut document], &[unid]).await?;
        let read = match document.files.get(number) {
            Some(FileOfDocument::Part(content)) => self.read_contents(&[(unid, *content)]).await?,
            _ => 0,
        };
        if read == 0 {
            return Err(CallError::kept(NOT_FOUND, "the server has not sent the attachment"));
        }
        if let Some(last) = self.memory.last.as_mut().filter(|last| last.row == document.row) {
            *last = document;
        }
        Ok(DONE)
    }

    /// Returns the document of the step.
    pub(super) async fn document(&mut self, of: Document) -> Result<Option<Row>, CallError> {
        let repetition = self.action.repetition();
        if of == Document::Newest && repetition == 0 {
            self.read_newest(self.action.repetitions()).await?;
        }
        Ok(self.memory.pick(of, self.action.document_fraction(), repetition))
    }

    /// Reads the documents of all repetitions of the step with one call, and marks them as read with another.
    async fn read_batch(&mut self, of: Document) -> Result<(), CallError> {
        self.memory.batch.clear();
        let mut rows = Vec::new();
        for repetition in 0..self.action.repetitions() {
            if of == Document::Newest && repetition == 0 {
                self.read_newest(self.action.repetitions()).await?;
            }
            let fraction = self.action.at_repetition(repetition).document_fraction();
            rows.push(self.memory.pick(of, fraction, repetition));
        }
        let mut wanted: Vec<u32> = rows.iter().flatten().map(|row| row.note_id).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut documents = self.open_notes(&wanted).await?;
        self.read_texts(&mut documents.iter_mut().collect::<Vec<_>>()).await?;
        self.session.mark(self.count, &wanted, Mark::Read).await?;
        let find = |row: Row| documents.iter().find(|document| document.row == row).cloned();
        self.memory.batch = (0..).zip(rows).map(|(repetition, row)| (repetition, row.and_then(find))).collect();
        Ok(())
    }

    async fn open_notes(&mut self, note_ids: &[u32]) -> Result<Vec<ReadDocument>, CallError> {
        let mut documents = Vec::new();
        let mut left = note_ids;
        while !left.is_empty() {
            let request = v1::OpenNotesRequest {
                database: self.database(),
                notes: left.iter().filter_map(|note_id| note_key(*note_id)).collect(),
                items: selection(Extent::All, &[]),
            };
            let mut stub = self.session.client().notes();
            let reply = self.session.call(self.count, stub.open_notes(request)).await?;
            let rest = reply.rest as usize;
            if rest >= left.len() {
                return Err(CallError::kept("malformed", "the server has read none of the notes"));
            }
            documents.extend(reply.notes.into_iter().filter_map(read_document));
            left = &left[left.len() - rest..];
        }
        Ok(documents)
    }

    /// Opens a note and marks it as read.
    async fn open_note(&mut self, row: Row, extent: Extent, names: &[&str]) -> Result<Option<ReadDocument>, CallError> {
        let request = v1::OpenNoteRequest {
            database: self.database(),
            note: note_key(row.note_id),
            items: selection(extent, names),
            mark_read: true,
        };
        let mut stub = self.session.client().notes();
        let note = self.session.call(self.count, stub.open_note(request)).await?;
        Ok(read_document(note))
    }

    /// Reads the summary of a note with one call, and its text with another. Of a message, the latter has the parts
    /// below 4 KiB, and says where the others are.
    async fn read_items(&mut self, row: Row) -> Result<Option<ReadDocument>, CallError> {
        let request = v1::OpenNoteRequest {
            database: self.database(),
            note: note_key(row.note_id),
            items: selection(Extent::Summary, &[FILE_ITEM, MESSAGE_ITEM]),
            mark_read: true,
        };
        let mut stub = self.session.client().notes();
        let note = self.session.call(self.count, stub.open_note(request)).await?;
        let is_message = note.items.iter().any(|item| item.name.eq_ignore_ascii_case(MESSAGE_ITEM));
        let request = v1::ReadItemRequest {
            database: self.database(),
            note: note_key(row.note_id),
            name: if is_message { SKELETON_ITEM } else { BODY_ITEM }.to_owned(),
            index: 0,
            offset_bytes: 0,
        };
        let mut stub = self.session.client().notes();
        let mut chunks = self.session.call(self.count, stub.read_item(request)).await?;
        let mut text = Vec::new();
        while let Some(chunk) = chunks.message().await.map_err(|status| self.session.failed(&status))? {
            if is_message && text.len() < SKELETON_BYTES_MAX {
                text.extend(chunk.content);
            }
        }
        let mut document = read_document(note);
        if let Some(document) = document.as_mut().filter(|_| is_message) {
            document.set_parts(separate_parts(&text));
        }
        Ok(document)
    }

    /// Reads a content and drops it.
    async fn drain(&mut self, mut chunks: client::Streaming<v1::Chunk>) -> Result<(), CallError> {
        while chunks.message().await.map_err(|status| self.session.failed(&status))?.is_some() {}
        Ok(())
    }

    /// Keeps a document as the one that was read last, and reports its attachments.
    fn remember(&mut self, document: ReadDocument) -> StepOutcome {
        let attachments = u32::try_from(document.files.len()).unwrap_or(u32::MAX);
        self.memory.last = Some(document);
        StepOutcome::Performed { attachments }
    }
}

fn selection(extent: Extent, names: &[&str]) -> Option<v1::ItemSelection> {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Some(v1::ItemSelection { extent: extent.into(), names })
}
