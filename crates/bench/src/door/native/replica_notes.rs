//! Versions of documents as local replicas bring them (docs/replication.md, "Local replicas"): their revisions, and the
//! call that writes them.

use std::collections::BTreeMap;

use base::codec::Encoder;
use client::v1;
use client::v1::write_replica_notes_request::Part;
use client::v1::written_note::Outcome;

use super::session::{CallCount, CallError, Session};
use super::skeleton::ContentId;

/// The size of a piece of a content, as the protocol limits it.
const PIECE_BYTES: usize = 256 << 10;
/// Version of the history of a note (docs/note-format.md, "Revisions").
const HISTORY_VERSION: u8 = 1;

/// A save of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Revision {
    /// The number of saves up to this one.
    pub(super) sequence: u32,
    /// Its identifier.
    pub(super) id: [u8; 16],
}

/// The ancestors of a version that its list lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// There are none.
    Nothing = 0,
    /// All others precede the list.
    MainPath = 1,
}

impl Revision {
    /// Returns the first revision of a document that was created at a time, in microseconds since 1970.
    pub(super) fn first(unid: [u8; 16], time_us: i64) -> Self {
        Self { sequence: 1, id: id(time_us, &unid[8..]) }
    }

    /// Returns the revision of a save at a time. `tail` distinguishes it from others.
    pub(super) fn child(self, time_us: i64, tail: u64) -> Self {
        Self { sequence: self.sequence.saturating_add(1), id: id(time_us, &tail.to_be_bytes()) }
    }

    /// Reads a revision, or returns `None` if it is not valid.
    pub(super) fn of_proto(revision: Option<v1::Revision>) -> Option<Self> {
        let revision = revision?;
        Some(Self { sequence: revision.sequence, id: revision.id.try_into().ok()? })
    }

    /// Returns the form of the protocol.
    pub(super) fn to_proto(self) -> v1::Revision {
        v1::Revision { sequence: self.sequence, id: self.id.to_vec() }
    }

    /// Returns the time of the save that the identifier contains, in microseconds since 1970.
    pub(super) fn time_us(self) -> i64 {
        let [a, b, c, d, e, f, g, h, ..] = self.id;
        (u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ (1 << 63)).cast_signed()
    }
}

/// Returns the identifier of a save: its time, in a form that has the order of the times, and eight further bytes.
fn id(time_us: i64, tail: &[u8]) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(time_us.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    id[8..].copy_from_slice(tail);
    id
}

/// Returns the history of a version with these ancestors, the greatest first, and without changes of items.
fn history(revision: Revision, ancestors: &[Revision], cut: Cut) -> Vec<u8> {
    let mut out = Encoder::new();
    out.u8(HISTORY_VERSION).u8(cut as u8).varint(ancestors.len() as u64);
    let mut before = revision.sequence;
    for ancestor in ancestors {
        out.u8(1).varint(u64::from(before.saturating_sub(ancestor.sequence))).raw(&ancestor.id);
        before = ancestor.sequence;
    }
    out.varint(0);
    out.finish()
}

/// Returns the first version of a document that was created at a time.
pub(super) fn first_version(unid: [u8; 16], time_us: i64, items: Vec<v1::Item>) -> v1::ReplicaNote {
    let revision = Revision::first(unid, time_us);
    v1::ReplicaNote {
        unid: unid.to_vec(),
        note_class: v1::NoteClass::Document.into(),
        revision: Some(revision.to_proto()),
        sequence_time_us: time_us,
        history: history(revision, &[], Cut::Nothing),
        created_us: time_us,
        received_us: time_us,
        items,
        ..v1::ReplicaNote::default()
    }
}

/// Returns the version `revision` that was saved from `parent`. Items, contents and times of creation are those of
/// `note`.
pub(super) fn next_version(note: v1::ReplicaNote, parent: Revision, revision: Revision) -> v1::ReplicaNote {
    v1::ReplicaNote {
        revision: Some(revision.to_proto()),
        sequence_time_us: revision.time_us(),
        history: history(revision, &[parent], Cut::MainPath),
        states: Vec::new(),
        size_bytes: None,
        ..note
    }
}

/// Returns the identifier of a content: its BLAKE3 hash.
pub(super) fn content_id(content: &[u8]) -> ContentId {
    *blake3::hash(content).as_bytes()
}

/// Splits a content into the pieces of the protocol.
fn pieces(content: &[u8], index: u32) -> impl Iterator<Item = v1::ContentPiece> + '_ {
    let count = content.len().div_ceil(PIECE_BYTES);
    (1..).zip(content.chunks(PIECE_BYTES)).map(move |(number, piece)| v1::ContentPiece {
        index,
        content: piece.to_vec(),
        last: number == count,
        ..v1::ContentPiece::default()
    })
}

impl Session {
    /// Brings versions of documents with their contents.
    ///
    /// Fails with the code `refused` if the server refuses one of them. The others are written.
    pub(super) async fn write_versions(
        &self,
        count: &mut CallCount,
        versions: Vec<v1::ReplicaNote>,
        contents: &[Vec<u8>],
    ) -> Result<(), CallError> {
        let refused = self.bring_versions(count, versions, contents).await?;
        first_refusal(refused).map_or(Ok(()), Err)
    }

    /// Brings versions of documents with their contents. Returns why versions were refused, by their index.
    pub(super) async fn bring_versions(
        &self,
        count: &mut CallCount,
        versions: Vec<v1::ReplicaNote>,
        contents: &[Vec<u8>],
    ) -> Result<BTreeMap<usize, String>, CallError> {
        let pieces = (0..).zip(contents).flat_map(|(index, content)| pieces(content, index));
        let parts = [Part::Database(self.database())].into_iter().chain(pieces.map(Part::Content));
        let parts = parts.chain(versions.into_iter().map(Part::Note));
        let requests = client::request_stream(parts.map(|part| v1::WriteReplicaNotesRequest { part: Some(part) }));
        let reply = self.call(count, self.client().replication().write_replica_notes(requests)).await?;
        let refused = reply.notes.into_iter().enumerate().filter(|(_, note)| note.outcome() == Outcome::Refused);
        Ok(refused.map(|(index, note)| (index, note.refusal)).collect())
    }
}

/// Returns the error of the first version that was refused.
pub(super) fn first_refusal(refused: BTreeMap<usize, String>) -> Option<CallError> {
    refused.into_values().next().map(|refusal| CallError::kept("refused", refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_the_order_of_their_times() {
        let times = [-5, 0, 1, 1_767_600_000_000_000];
        let revisions = times.map(|time_us| Revision::first([7; 16], time_us));
        assert!(revisions.is_sorted_by(|one, next| one.id < next.id));
        assert_eq!(revisions.map(Revision::time_us), times);
        assert_eq!(revisions[0].id[8..], [7; 8]);
    }

    #[test]
    fn histories_have_the_form_of_the_note_format() {
        let first = Revision::first([7; 16], 1);
        let second = first.child(2, 9);
        assert_eq!((second.sequence, second.time_us()), (2, 2));
        assert_eq!(history(first, &[], Cut::Nothing), [1, 0, 0, 0]);
        let expected = [vec![1, 1, 1, 1, 1], first.id.to_vec(), vec![0]].concat();
        assert_eq!(history(second, &[first], Cut::MainPath), expected);
    }

    #[test]
    fn contents_are_divided_into_pieces() {
        let lengths = |bytes: usize| {
            pieces(&vec![1; bytes], 3).map(|piece| (piece.index, piece.content.len(), piece.last)).collect::<Vec<_>>()
        };
        assert_eq!(lengths(PIECE_BYTES), [(3, PIECE_BYTES, true)]);
        assert_eq!(lengths(PIECE_BYTES + 1), [(3, PIECE_BYTES, false), (3, 1, true)]);
    }
}
