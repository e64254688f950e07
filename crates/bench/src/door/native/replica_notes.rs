//! Versions of documents as local replicas bring them (docs/replication.md, "Local replicas"): their revisions, and the
//! call that writes them.

use client::v1;
use client::v1::write_replica_notes_request::Part;
use client::v1::written_note::Outcome;

use super::session::{CallCount, CallError, Session};

/// The size of a piece of a content, as the protocol limits it.
const PIECE_BYTES: usize = 256 << 10;
/// The history of a first version (docs/note-format.md, "Revisions"): version 1, no ancestors, no changes of items.
const FIRST_HISTORY: &[u8] = &[1, 0, 0, 0];

/// A save of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Revision {
    /// The number of saves up to this one.
    pub(super) sequence: u32,
    /// Its identifier.
    pub(super) id: [u8; 16],
}

impl Revision {
    /// Returns the first revision of a document that was created at a time, in microseconds since 1970.
    pub(super) fn first(unid: [u8; 16], time_us: i64) -> Self {
        Self { sequence: 1, id: id(time_us, &unid[8..]) }
    }

    /// Returns the form of the protocol.
    pub(super) fn to_proto(self) -> v1::Revision {
        v1::Revision { sequence: self.sequence, id: self.id.to_vec() }
    }
}

/// Returns the identifier of a save: its time, in a form that has the order of the times, and eight further bytes.
fn id(time_us: i64, tail: &[u8]) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(time_us.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    id[8..].copy_from_slice(tail);
    id
}

/// Returns the first version of a document that was created at a time.
pub(super) fn first_version(unid: [u8; 16], time_us: i64, items: Vec<v1::Item>) -> v1::ReplicaNote {
    let revision = Revision::first(unid, time_us);
    v1::ReplicaNote {
        unid: unid.to_vec(),
        note_class: v1::NoteClass::Document.into(),
        revision: Some(revision.to_proto()),
        sequence_time_us: time_us,
        history: FIRST_HISTORY.to_vec(),
        created_us: time_us,
        received_us: time_us,
        items,
        ..v1::ReplicaNote::default()
    }
}

/// A content of an attachment that is brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BroughtContent(pub(super) Vec<u8>);

impl BroughtContent {
    fn pieces(&self, index: u32) -> impl Iterator<Item = v1::ContentPiece> + '_ {
        let count = self.0.len().div_ceil(PIECE_BYTES);
        (1..).zip(self.0.chunks(PIECE_BYTES)).map(move |(number, piece)| v1::ContentPiece {
            index,
            content: piece.to_vec(),
            last: number == count,
            ..v1::ContentPiece::default()
        })
    }
}

impl Session {
    /// Brings versions of documents with their contents.
    ///
    /// Fails with the code `refused` if the server refuses one of them. Those before it are written.
    pub(super) async fn write_versions(
        &self,
        count: &mut CallCount,
        versions: Vec<v1::ReplicaNote>,
        contents: &[BroughtContent],
    ) -> Result<(), CallError> {
        let pieces = (0..).zip(contents).flat_map(|(index, content)| content.pieces(index));
        let parts = [Part::Database(self.database())].into_iter().chain(pieces.map(Part::Content));
        let parts = parts.chain(versions.into_iter().map(Part::Note));
        let requests = client::request_stream(parts.map(|part| v1::WriteReplicaNotesRequest { part: Some(part) }));
        let reply = self.call(count, self.client().replication().write_replica_notes(requests)).await?;
        match reply.notes.into_iter().find(|note| note.outcome() == Outcome::Refused) {
            Some(refused) => Err(CallError::kept("refused", refused.refusal)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_the_order_of_their_times() {
        let times = [-5, 0, 1, 1_767_600_000_000_000];
        let revisions = times.map(|time_us| Revision::first([7; 16], time_us));
        assert!(revisions.is_sorted_by(|one, next| one.id < next.id));
        assert_eq!(revisions[0].id[8..], [7; 8]);
    }

    #[test]
    fn contents_are_divided_into_pieces() {
        let pieces = |bytes: usize| {
            let content = BroughtContent(vec![1; bytes]);
            content.pieces(3).map(|piece| (piece.index, piece.content.len(), piece.last)).collect::<Vec<_>>()
        };
        assert_eq!(pieces(PIECE_BYTES), [(3, PIECE_BYTES, true)]);
        assert_eq!(pieces(PIECE_BYTES + 1), [(3, PIECE_BYTES, false), (3, 1, true)]);
    }
}
