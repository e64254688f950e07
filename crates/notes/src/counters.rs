//! The counters of a database: one small record, rewritten by every transaction.

use base::codec::{Decoder, Encoder, Truncated};
use base::{Modseq, NoteId};

/// Numbers that every transaction moves on, and sums that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// The note id that the next note will get.
    pub next_note: NoteId,
    /// The modseq of the last transaction.
    pub modseq: Modseq,
    /// The modseq of the last transaction that changed a design note or the ACL.
    pub design_modseq: Modseq,
    /// Changes before this one may have been purged.
    pub purged_modseq: Modseq,
    /// How many notes there are, stubs not counted.
    pub notes: u64,
    /// How many deletion stubs and left records there are, at most.
    pub stubs: u64,
    /// Bytes of all documents, as their headers say.
    pub bytes: u64,
    /// The greatest UIDVALIDITY given to a folder so far.
    pub uid_validity: u32,
}

impl Counters {
    /// The counters of an empty database.
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

    /// Gives the stored form (version 1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.next_note > NoteId(0), "no note has the number 0");
        assert!(self.design_modseq <= self.modseq, "the last change of the design is among the changes");
        assert!(self.purged_modseq <= self.modseq, "only what happened is forgotten");
        let mut out = Encoder::with_capacity(48);
        out.u8(1).u32(self.next_note.0).u64(self.modseq.0).u64(self.design_modseq.0).u64(self.purged_modseq.0);
        out.varint(self.notes).varint(self.stubs).varint(self.bytes).u32(self.uid_validity);
        out.finish()
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, Truncated> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(Truncated);
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
        if is_in_order { Ok(counters) } else { Err(Truncated) }
    }
}
