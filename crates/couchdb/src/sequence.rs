//! The update sequences of the protocol: opaque texts that name a place in the changes of a database.
//!
//! A sequence is the modseq of the change, as a number for people, and in hexadecimal digits the position
//! ([`notes::instance::Position`]) and the note, because a transaction changes several notes: `17-01…`. The position
//! has the instance of the replica, so a place of another server, or of this one before it was set back, is
//! recognised.

use base::{NoteId, hex};
use notes::DatabaseSnapshot;
use notes::change_log::ChangeCursor;
use notes::instance::Position;

use crate::error::{Error, Result};

/// Size of the parts of a sequence in bytes: the position and the note.
const SEQUENCE_BYTES: usize = 37;

/// A place in the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// The change.
    pub position: Position,
    /// The last note of the change that was told, or the greatest number for all of them.
    pub note: NoteId,
}

/// The number of a note behind all notes.
const ALL_NOTES: NoteId = NoteId(u32::MAX);

/// The place at which a client wants to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// At the beginning.
    Beginning,
    /// After the last change.
    Now,
    /// After a sequence.
    After(Sequence),
}

impl Since {
    /// Parses the parameter `since`, or the header field `Last-Event-ID`.
    pub fn parse(text: &str) -> Result<Self> {
        match text.trim_matches('"') {
            "" | "0" => Ok(Self::Beginning),
            "now" => Ok(Self::Now),
            text => Sequence::parse(text).map(Self::After),
        }
    }

    /// Returns the place from which a reader reads on.
    ///
    /// A reader for whom other documents may be visible than before, and one with a sequence of another server, begins
    /// at the beginning.
    pub fn cursor(self, reading: &DatabaseSnapshot<'_>) -> Result<ChangeCursor> {
        let beginning = ChangeCursor::default();
        let Sequence { position, note } = match self {
            Self::Beginning => return Ok(beginning),
            Self::Now => return Ok(ChangeCursor::after(reading.modseq())),
            Self::After(sequence) => sequence,
        };
        if position.names != reading.grant().names_digest() {
            return Ok(beginning);
        }
        Ok(match reading.last_common(position)? {
            None => beginning,
            Some(common) if common < position.modseq || note == ALL_NOTES => ChangeCursor::after(common),
            Some(common) => ChangeCursor::after_note(common, note),
        })
    }
}

impl Sequence {
    /// Returns the sequence of a place in a snapshot: after a note of a change, or after the whole change without one.
    pub fn of(reading: &DatabaseSnapshot<'_>, modseq: base::Modseq, note: Option<NoteId>) -> Result<Self> {
        let position = reading.position(modseq)?;
        let position = position.ok_or_else(|| {
            let path = reading.database().path();
            Error::Forbidden(format!(
                "{path} has an older structure; `doublet db compact {path} --upgrade` on the server upgrades it"
            ))
        })?;
        Ok(Self { position, note: note.unwrap_or(ALL_NOTES) })
    }

    fn parse(text: &str) -> Result<Self> {
        let invalid = || Error::BadRequest("the sequence is not one of this server".to_owned());
        let (_, digits) = text.split_once('-').ok_or_else(invalid)?;
        let bytes: [u8; SEQUENCE_BYTES] = hex::parse_array(digits).ok_or_else(invalid)?;
        let (position, note) = bytes.split_at(SEQUENCE_BYTES - 4);
        let position = Position::decode(position).map_err(|_| invalid())?;
        Ok(Self { position, note: NoteId::from_key(note.try_into().map_err(|_| invalid())?) })
    }
}

impl std::fmt::Display for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = [&self.position.encode()[..], &self.note.to_key()].concat();
        write!(f, "{}-{}", self.position.modseq.0, hex::lower(&bytes))
    }
}

#[cfg(test)]
mod tests {
    use base::Modseq;
    use notes::instance::InstanceId;

    use super::*;

    #[test]
    fn sequences_read_back_and_others_are_refused() {
        let position = Position { instance: InstanceId(7), modseq: Modseq(17), names: [3; 16] };
        let sequence = Sequence { position, note: NoteId(9) };
        let text = sequence.to_string();
        assert!(text.starts_with("17-01"), "{text}");
        assert_eq!(Since::parse(&text).expect("a sequence"), Since::After(sequence));
        assert_eq!(Since::parse("0").expect("a sequence"), Since::Beginning);
        assert_eq!(Since::parse("now").expect("a sequence"), Since::Now);
        for wrong in ["17", "x-y", &text[..text.len() - 1]] {
            assert!(Since::parse(wrong).is_err(), "{wrong}");
        }
    }
}
