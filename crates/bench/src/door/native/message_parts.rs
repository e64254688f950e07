//! The parts of messages that are stored apart from their notes ([`skeleton`](super::skeleton)). A client that has read
//! a note finds their identifiers in it, and reads their contents with the calls of replication.
//!
//! A server that encrypts its attachments names contents by a key in items, and by their hashes only in notes for
//! replication. Then such a note is read, too.

use client::{Streaming, v1};

use super::StepContext;
use super::exchange::RequestedNotes;
use super::memory::ReadDocument;
use super::session::CallError;
use super::skeleton::{ContentId, PARTS_MAX, parts_of_note};

impl StepContext<'_> {
    /// Reads the separate texts of documents with one call, and drops them. Attachments are read by steps of their own.
    pub(super) async fn read_texts(&mut self, documents: &mut [&mut ReadDocument]) -> Result<(), CallError> {
        if self.memory.has_keyed_contents {
            return self.read_hashed_texts(documents).await;
        }
        let wanted = texts(documents);
        if self.read_contents(&wanted).await? < wanted.len() {
            self.read_hashed_texts(documents).await?;
        }
        Ok(())
    }

    /// Reads contents of notes, by UNID, with as few calls as possible. Returns the number of those that the notes
    /// have.
    pub(super) async fn read_contents(&mut self, wanted: &[([u8; 16], ContentId)]) -> Result<usize, CallError> {
        let mut read = 0;
        for part in wanted.chunks(PARTS_MAX) {
            let contents = part.iter().map(|(unid, content)| v1::ContentOfNote {
                unid: unid.to_vec(),
                content_id: content.to_vec(),
                offset_bytes: 0,
            });
            let request = v1::ReadContentsRequest { database: self.database(), contents: contents.collect() };
            let mut stub = self.session.client().replication();
            let pieces = self.session.call(self.count, stub.read_contents(request)).await?;
            read += self.count_contents(pieces).await?;
        }
        Ok(read)
    }

    async fn count_contents(&mut self, mut pieces: Streaming<v1::ContentPiece>) -> Result<usize, CallError> {
        let mut contents = 0;
        while let Some(piece) = pieces.message().await.map_err(|status| self.session.failed(&status))? {
            contents += usize::from(piece.last);
        }
        Ok(contents)
    }

    /// Reads the texts of documents by the hashes that notes for replication have. The server names contents otherwise
    /// in items, unless a document was deleted meanwhile.
    async fn read_hashed_texts(&mut self, documents: &mut [&mut ReadDocument]) -> Result<(), CallError> {
        let with_texts: Vec<_> = documents.iter().filter(|one| has_text(one)).map(|one| one.row.unid).collect();
        if with_texts.is_empty() {
            return Ok(());
        }
        self.find_hashes(documents, &with_texts).await?;
        self.read_contents(&texts(documents)).await?;
        Ok(())
    }

    /// Replaces the parts of documents by those that their notes for replication have. A server that sends more notes
    /// than it was asked for is not listened to any longer.
    pub(super) async fn find_hashes(
        &mut self,
        documents: &mut [&mut ReadDocument],
        unids: &[[u8; 16]],
    ) -> Result<(), CallError> {
        let request = v1::ReadReplicaNotesRequest {
            database: self.database(),
            unids: unids.iter().map(|unid| unid.to_vec()).collect(),
            ..v1::ReadReplicaNotesRequest::default()
        };
        let mut stub = self.session.client().replication();
        let mut replies = self.session.call(self.count, stub.read_replica_notes(request)).await?;
        let mut requested = RequestedNotes::new(unids.len());
        while let Some(reply) = replies.message().await.map_err(|status| self.session.failed(&status))? {
            requested.take_message()?;
            for note in reply.notes {
                requested.take_note(&note.unid)?;
                let document = documents.iter_mut().find(|document| document.row.unid[..] == note.unid[..]);
                let Some(document) = document else { continue };
                let parts = parts_of_note(&note.items);
                self.memory.has_keyed_contents |= parts != document.parts;
                document.set_parts(parts);
            }
        }
        Ok(())
    }
}

fn has_text(document: &ReadDocument) -> bool {
    document.parts.iter().any(|part| !part.is_attachment)
}

fn texts(documents: &[&mut ReadDocument]) -> Vec<([u8; 16], ContentId)> {
    let of = |document: &ReadDocument| {
        let texts = document.parts.iter().filter(|part| !part.is_attachment);
        texts.map(|part| (document.row.unid, part.content)).collect::<Vec<_>>()
    };
    documents.iter().flat_map(|document| of(document)).collect()
}
