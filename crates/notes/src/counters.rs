//! The counters of a database: one small record that every transaction rewrites.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{Modseq, NoteId};

/// Counters that every transaction advances, and sums over the notes of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Note id of the next new note.
    pub next_note: NoteId,
    /// Modseq of the last transaction.
    pub modseq: Modseq,
    /// Modseq of the last transaction that changed a design note or the ACL.
    pub design_modseq: Modseq,
    /// Modseq before which changes may have been purged.
    pub purged_modseq: Modseq,
    /// Number of notes, without deletion stubs.
    pub notes: u64,
    /// Upper bound for the number of deletion stubs and left records.
    pub stubs: u64,
    /// Total size of all documents in bytes, according to their headers.
    pub bytes: u64,
    /// The greatest UIDVALIDITY that any folder has received so far.
    pub uid_validity: u32,
}

impl Counters {
    /// Counters of an empty database.
    pub const START: Self = Self {
        next_note: NoteId(1),
        modseq: Modseq(1),
        design_modseq: Modseq(1),
        purged_modseq: Modseq(0),
        notes: 0,
        stubs: 0,
        bytes: 0,
        uid_validity: 0,
    };

    /// Returns the stored form (version 1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.next_note > NoteId(0), "note numbers start at 1");
        assert!(self.design_modseq <= self.modseq, "the design modseq does not exceed the modseq");
        assert!(self.purged_modseq <= self.modseq, "the purged modseq does not exceed the modseq");
        let mut out = Encoder::with_capacity(48);
        out.u8(1).u32(self.next_note.0).u64(self.modseq.0).u64(self.design_modseq.0).u64(self.purged_modseq.0);
        out.varint(self.notes).varint(self.stubs).varint(self.bytes).u32(self.uid_validity);
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        let counters = Self {
            next_note: NoteId(input.u32()?),
            modseq: Modseq(input.u64()?),
            design_modseq: Modseq(input.u64()?),
            purged_modseq: Modseq(input.u64()?),
            notes: input.varint()?,
            stubs: input.varint()?,
            bytes: input.varint()?,
            uid_validity: input.u32()?,
        };
        let is_in_order = counters.next_note > NoteId(0)
            && counters.design_modseq <= counters.modseq
            && counters.purged_modseq <= counters.modseq;
        if is_in_order { Ok(counters) } else { Err(InvalidRecord) }
    }
}
