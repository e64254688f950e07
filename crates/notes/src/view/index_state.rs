//! The state of an index: how far it has followed the documents. It is stored with the rows of each order, so that it
//! changes in the same batch as they do (`docs/views.md`, "Following the documents").

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{Modseq, NoteId};

use crate::change_log::ChangeCursor;

/// Version of the stored form. Version 2 has no size. Indexes with an older version follow older rules of rows and are
/// built anew.
const VERSION: u8 = 3;

/// Flags of the stored form.
const TIME_LIMITED: u8 = 1;
const WITHIN: u8 = 2;

/// The state of an index.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct IndexState {
    /// The modseq up to which the documents are in the index.
    pub(crate) applied: Modseq,
    /// The next transaction and the last of its notes that is in the index, if only a part of the transaction is.
    pub(crate) within: Option<(Modseq, NoteId)>,
    /// Number of batches that were applied since the index was built. An update whose state has another number by the
    /// time that it is written would overwrite the rows of another update.
    pub(crate) batches: u64,
    /// Number of documents whose formulas a limit has stopped, or that have more entries than are shown.
    pub(crate) limited_documents: u64,
    /// The size of the rows and categories of all orders, in bytes.
    pub(crate) bytes: u64,
    /// `true` if the time stopped the formulas of any document since the index was built.
    ///
    /// Another evaluation of such a document may have another result. So the rows that the index has cannot be computed
    /// from the documents and must be read.
    pub(crate) time_limited: bool,
}

impl IndexState {
    /// Returns the position in the change log after the changes that are in the index.
    pub(crate) fn cursor(&self) -> ChangeCursor {
        match self.within {
            Some((modseq, note)) => ChangeCursor::after_note(modseq, note),
            None => ChangeCursor::after(self.applied),
        }
    }

    /// Returns `true` if the change of a note in a transaction is in the index.
    pub(crate) fn contains(&self, modseq: Modseq, note: NoteId) -> bool {
        modseq <= self.applied || self.within.is_some_and(|(begun, last)| modseq == begun && note <= last)
    }

    /// Encodes the state.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flags = [(self.time_limited, TIME_LIMITED), (self.within.is_some(), WITHIN)];
        let mut out = Encoder::with_capacity(24);
        out.u8(VERSION).u64(self.applied.0);
        out.u8(flags.iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).sum());
        out.varint(self.batches).varint(self.limited_documents).varint(self.bytes);
        if let Some((modseq, note)) = self.within {
            out.u64(modseq.0).u32(note.0);
        }
        out.finish()
    }

    /// Decodes a stored state.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(2..=VERSION).contains(&version) {
            return Err(InvalidRecord);
        }
        let applied = Modseq(input.u64()?);
        let flags = input.u8()?;
        let batches = input.varint()?;
        let limited_documents = input.varint()?;
        let size_bytes = if version == 2 { 0 } else { input.varint()? };
        let within = match flags & WITHIN {
            0 => None,
            _ => Some((Modseq(input.u64()?), NoteId(input.u32()?))),
        };
        if within.is_some_and(|(modseq, _)| modseq <= applied) {
            return Err(InvalidRecord);
        }
        let time_limited = flags & TIME_LIMITED != 0;
        Ok(Self { applied, within, batches, limited_documents, bytes: size_bytes, time_limited })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_form_reads_back() {
        for (time_limited, within) in [(false, None), (true, None), (false, Some((Modseq(9), NoteId(4))))] {
            let limited_documents = 2;
            let size_bytes = 1 << 40;
            let applied = Modseq(7);
            let state =
                IndexState { applied, within, batches: 300, limited_documents, bytes: size_bytes, time_limited };
            let bytes = state.encode();
            assert_eq!(IndexState::decode(&bytes), Ok(state));
            for length in 0..bytes.len() {
                assert!(IndexState::decode(&bytes[..length]).is_err());
            }
        }
        assert!(IndexState::decode(&[1, 0, 0, 0, 0, 0, 0, 0, 7]).is_err());
        let old = IndexState::decode(&[2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 9, 4]).expect("version 2 is still read");
        assert_eq!((old.applied, old.batches, old.limited_documents, old.bytes), (Modseq(7), 9, 4, 0));
        let wrong = IndexState { applied: Modseq(7), within: Some((Modseq(7), NoteId(1))), ..IndexState::default() };
        assert!(IndexState::decode(&wrong.encode()).is_err());
    }

    #[test]
    fn part_of_a_transaction_is_contained() {
        let state = IndexState { applied: Modseq(7), within: Some((Modseq(9), NoteId(4))), ..IndexState::default() };
        let changes = [(7, 5), (8, 1), (9, 4), (9, 5), (10, 1)];
        let contained = changes.map(|(modseq, note)| state.contains(Modseq(modseq), NoteId(note)));
        assert_eq!(contained, [true, false, true, false, false]);
    }
}
