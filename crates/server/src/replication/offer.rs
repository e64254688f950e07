//! The server to which a local replica brings its changes, over the native protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use admin::AdminError;
use base::Unid;
use client::{Code, v1};
use notes::instance::Position;
use notes::replica::{ListedNote, ReplicaNote};
use prost::Message as _;
use proto::v1::write_replica_notes_request::Part;
use proto::v1::written_note::Outcome;
use replica::{PushStatistics, PushTarget, Written};
use rpc::convert::replication::{note_to_proto, offered_to_proto, position_from_proto};
use rpc::limits::{CHUNK_BYTES, MESSAGE_BYTES_MAX};
use store::blob::BlobId;

use super::source::{RemoteDatabase, content_of};

/// Bytes of a message besides its note.
const MESSAGE_OVERHEAD_BYTES: usize = 1_024;

/// A database of a server, and the report of a push to it.
pub(super) struct PushedDatabase<'p, 's> {
    pub(super) database: &'p mut RemoteDatabase<'s>,
    pub(super) report: &'p mut dyn FnMut(&PushStatistics) -> Result<(), AdminError>,
}

impl PushTarget for PushedDatabase<'_, '_> {
    type Error = AdminError;

    fn offer(&mut self, notes: &[ListedNote]) -> Result<(Vec<usize>, u64), AdminError> {
        let notes = notes.iter().cloned().map(offered_to_proto).collect();
        let reply =
            self.call_offer(v1::OfferReplicaNotesRequest { notes, ..v1::OfferReplicaNotesRequest::default() })?;
        Ok((indexes(reply.missing_notes), u64::from(reply.states_changed)))
    }

    fn missing_contents(&mut self, contents: &[(Unid, BlobId)]) -> Result<Vec<usize>, AdminError> {
        let contents = contents.iter().map(|(unid, blob)| content_of(*unid, blob)).collect();
        let request = v1::OfferReplicaNotesRequest { contents, ..v1::OfferReplicaNotesRequest::default() };
        Ok(indexes(self.call_offer(request)?.missing_contents))
    }

    fn write(&mut self, notes: Vec<ReplicaNote>, contents: Vec<(BlobId, Vec<u8>)>) -> Result<Vec<Written>, AdminError> {
        let notes: Vec<v1::ReplicaNote> = notes.into_iter().map(note_to_proto).collect();
        let is_too_large = |note: &v1::ReplicaNote| note.encoded_len() + MESSAGE_OVERHEAD_BYTES > MESSAGE_BYTES_MAX;
        let outcome = |note: &v1::ReplicaNote| {
            let reason = || format!("it is larger than {} MiB without its attachments", MESSAGE_BYTES_MAX >> 20);
            is_too_large(note).then(|| Written::Refused(reason()))
        };
        let mut outcomes: Vec<Option<Written>> = notes.iter().map(outcome).collect();
        let sent: Vec<v1::ReplicaNote> = notes.into_iter().filter(|note| !is_too_large(note)).collect();
        let mut written = self.write_or_divide(sent, contents)?.into_iter();
        outcomes.iter_mut().filter(|outcome| outcome.is_none()).for_each(|outcome| *outcome = written.next());
        Ok(outcomes.into_iter().flatten().collect())
    }

    fn has(&mut self, state: Position) -> Result<bool, AdminError> {
        Ok(self.database.describe(Some(state))?.has_known)
    }

    fn state(&mut self) -> Result<Option<Position>, AdminError> {
        let position = self.database.describe(None)?.position;
        position.as_ref().map(position_from_proto).transpose().map_err(AdminError::refused)
    }

    fn report(&mut self, statistics: &PushStatistics) -> Result<(), AdminError> {
        (self.report)(statistics)
    }
}

impl PushedDatabase<'_, '_> {
    fn call_offer(&self, request: v1::OfferReplicaNotesRequest) -> Result<v1::OfferReplicaNotesReply, AdminError> {
        let server = self.database.server;
        let request = v1::OfferReplicaNotesRequest { database: Some(self.database.key.clone()), ..request };
        server.call(server.client.replication().offer_replica_notes(request))
    }

    /// Sends documents. If the server cannot hold them together, sends each alone, and counts those as refused that the
    /// server cannot hold.
    fn write_or_divide(
        &self,
        notes: Vec<v1::ReplicaNote>,
        contents: Vec<(BlobId, Vec<u8>)>,
    ) -> Result<Vec<Written>, AdminError> {
        if notes.is_empty() {
            return Ok(Vec::new());
        }
        let status = match self.call_write(&notes, &contents) {
            Err(status) if status.code() == Code::ResourceExhausted => status,
            written => return written.map_err(|status| self.database.server.failed(&status)),
        };
        if notes.len() == 1 {
            return Ok(vec![Written::Refused(status.message().to_owned())]);
        }
        let mut written = Vec::with_capacity(notes.len());
        for note in notes {
            let is_of_note = |content: &&(BlobId, Vec<u8>)| note.content_ids.iter().any(|id| *id == content.0.0);
            let contents = contents.iter().filter(is_of_note).cloned().collect();
            written.extend(self.write_or_divide(vec![note], contents)?);
        }
        Ok(written)
    }

    fn call_write(
        &self,
        notes: &[v1::ReplicaNote],
        contents: &[(BlobId, Vec<u8>)],
    ) -> Result<Vec<Written>, client::Status> {
        let server = self.database.server;
        let database = Part::Database(self.database.key.clone());
        let pieces = (0_u32..).zip(contents).flat_map(|(index, (_, content))| pieces_of(index, content));
        let parts = std::iter::once(database)
            .chain(pieces.map(Part::Content))
            .chain(notes.iter().cloned().map(Part::Note))
            .map(|part| v1::WriteReplicaNotesRequest { part: Some(part) });
        let parts: Vec<_> = parts.collect();
        let mut stub = server.client.replication();
        let reply = server.upload(parts, |stream| async move { stub.write_replica_notes(stream).await })?;
        Ok(reply.into_inner().notes.into_iter().map(written_from_proto).collect())
    }
}

/// Splits a content into pieces. An empty one has one piece.
fn pieces_of(index: u32, content: &[u8]) -> Vec<v1::ContentPiece> {
    let mut pieces: Vec<v1::ContentPiece> = content
        .chunks(CHUNK_BYTES)
        .map(|piece| v1::ContentPiece { index, content: piece.to_vec(), ..v1::ContentPiece::default() })
        .collect();
    if pieces.is_empty() {
        pieces.push(v1::ContentPiece { index, ..v1::ContentPiece::default() });
    }
    if let Some(last) = pieces.last_mut() {
        last.last = true;
    }
    pieces
}

fn written_from_proto(written: v1::WrittenNote) -> Written {
    match written.outcome() {
        Outcome::Known => Written::Known,
        Outcome::Taken => Written::Taken,
        Outcome::Merged => Written::Merged,
        Outcome::Conflict => Written::Conflict,
        Outcome::Refused => Written::Refused(written.refusal),
        Outcome::Unspecified => Written::Refused("the server has given an unknown answer".to_owned()),
    }
}

fn indexes(list: Vec<u32>) -> Vec<usize> {
    list.into_iter().filter_map(|index| usize::try_from(index).ok()).collect()
}

/// Counts the parts of an upload that were taken from it, so that a slow line can be told from a silent server.
pub(super) struct Upload<T> {
    parts: std::vec::IntoIter<T>,
    taken: Arc<AtomicU64>,
}

impl<T> Upload<T> {
    /// Creates an upload, and the counter of the parts that were taken.
    pub(super) fn new(parts: Vec<T>) -> (Self, Arc<AtomicU64>) {
        let taken = Arc::<AtomicU64>::default();
        (Self { parts: parts.into_iter(), taken: Arc::clone(&taken) }, taken)
    }
}

impl<T> Iterator for Upload<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.parts.next()
    }
}
