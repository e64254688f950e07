//! Unread marks: what each user has read.
//!
//! One fact has one place. For the owner of a database (every mail file has one) "read" is the mark
//! [`Marks::SEEN`] of the note itself, where folders count it. For everybody else it is a bit in a table of that user,
//! in blocks of [`BLOCK_NOTES`] notes: key database, user's name in lower case, 0, block number; value a bitmap of read notes without
//! the zero bytes at its end. A note that changes stays read; a new one is unread.

use base::{Name, NoteId};
use store::{Read, Table};

use crate::acl::AclLevel;
use crate::database::Database;
use crate::error::Result;
use crate::note::Marks;
use crate::reading::Reading;
use crate::writer::Writer;

/// Notes whose bits share one record.
pub const BLOCK_NOTES: u32 = 4_096;

fn key(database: &Database, user: &Name, note: NoteId) -> Vec<u8> {
    let mut key = database.number.to_key().to_vec();
    key.extend_from_slice(user.canonical().to_lowercase().as_bytes());
    key.push(0);
    key.extend_from_slice(&(note.0 / BLOCK_NOTES).to_be_bytes());
    key
}

fn is_owner(database: &Database, user: &Name) -> bool {
    let record = database.record();
    !record.owner.is_empty() && record.owner == *user
}

fn bit(note: NoteId) -> (usize, u8) {
    let place = note.0 % BLOCK_NOTES;
    ((place / 8) as usize, 1 << (place % 8))
}

impl Reading<'_> {
    /// Tells whether a user has read a note that this reader may see.
    pub fn is_read(&self, user: &Name, note: NoteId) -> Result<bool> {
        let database = self.database();
        let Some(header) = self.header(note)? else { return Ok(false) };
        if database.record().options.no_unread_marks {
            return Ok(true);
        }
        if is_owner(database, user) {
            return Ok(header.marks.has(Marks::SEEN));
        }
        let bits = self.snapshot().get(Table::Unread, &key(database, user, note))?.unwrap_or_default();
        let (byte, mask) = bit(note);
        Ok(bits.get(byte).is_some_and(|bits| bits & mask != 0))
    }
}

impl Writer<'_, '_> {
    /// Marks notes as read by a user, those that do not exist left out.
    pub fn mark_read(&mut self, user: &Name, notes: &[NoteId]) -> Result<()> {
        self.mark(user, notes, Marks::SEEN)
    }

    /// Marks notes as not read by a user.
    pub fn mark_unread(&mut self, user: &Name, notes: &[NoteId]) -> Result<()> {
        self.mark(user, notes, Marks::NONE)
    }

    fn mark(&mut self, user: &Name, notes: &[NoteId], seen: Marks) -> Result<()> {
        self.require_level(AclLevel::Reader)?;
        if is_owner(self.part.database, user) {
            for note in notes {
                if let Some(pending) = self.part.pending(*note)? {
                    let marks = pending.after.marks.without(Marks::SEEN).with(seen);
                    pending.after.marks = marks;
                }
            }
            return Ok(());
        }
        let mut sorted = notes.to_vec();
        sorted.sort_unstable();
        for block in sorted.chunk_by(|a, b| a.0 / BLOCK_NOTES == b.0 / BLOCK_NOTES) {
            self.mark_block(user, block, seen == Marks::SEEN)?;
        }
        Ok(())
    }

    fn mark_block(&mut self, user: &Name, notes: &[NoteId], read: bool) -> Result<()> {
        let Some(first) = notes.first() else { return Ok(()) };
        let key = key(self.part.database, user, *first);
        let mut bits = self.store.get(Table::Unread, &key)?.unwrap_or_default();
        for note in notes {
            let (byte, mask) = bit(*note);
            if bits.len() <= byte {
                bits.resize(byte + 1, 0);
            }
            bits[byte] = if read { bits[byte] | mask } else { bits[byte] & !mask };
        }
        let length = bits.iter().rposition(|bits| *bits != 0).map_or(0, |last| last + 1);
        bits.truncate(length);
        self.batch().put(Table::Unread, &key, &bits);
        Ok(())
    }
}
