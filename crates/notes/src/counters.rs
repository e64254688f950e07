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
    /// Total size of the indexes of shared views, and of personal views of the owner of the database, in bytes.
    pub index_bytes: u64,
    /// Total size of the indexes of personal views of other users, in bytes. They do not count towards the quota.
    pub personal_index_bytes: u64,
}

/// Version of the stored form. Version 1 has no sizes of indexes.
const VERSION: u8 = 2;

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
        index_bytes: 0,
        personal_index_bytes: 0,
    };

    /// Returns the number of bytes that count towards the quota: those of documents and of indexes.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.bytes.saturating_add(self.index_bytes)
    }

    /// Returns the stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.next_note > NoteId(0), "note numbers start at 1");
        assert!(self.design_modseq <= self.modseq, "the design modseq does not exceed the modseq");
        assert!(self.purged_modseq <= self.modseq, "the purged modseq does not exceed the modseq");
        let mut out = Encoder::with_capacity(56);
        out.u8(VERSION).u32(self.next_note.0).u64(self.modseq.0).u64(self.design_modseq.0).u64(self.purged_modseq.0);
        out.varint(self.notes).varint(self.stubs).varint(self.bytes).u32(self.uid_validity);
        out.varint(self.index_bytes).varint(self.personal_index_bytes);
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(1..=VERSION).contains(&version) {
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
            index_bytes: if version == 1 { 0 } else { input.varint()? },
            personal_index_bytes: if version == 1 { 0 } else { input.varint()? },
        };
        let is_in_order = counters.next_note > NoteId(0)
            && counters.design_modseq <= counters.modseq
            && counters.purged_modseq <= counters.modseq;
        if is_in_order { Ok(counters) } else { Err(InvalidRecord) }
    }
}
