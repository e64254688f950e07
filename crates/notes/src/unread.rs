//! Unread marks: the notes that each user has read.
//!
//! Each fact is stored once. For the owner of a database (every mail file has one) "read" is the mark [`Marks::SEEN`]
//! of the note itself, where folders count it. For every other user it is a bit in a table of that user, in blocks of
//! [`BLOCK_NOTES`] notes. The key is the database, the user's name in lower case, 0 and the block number; the value is
//! a bitmap of the read notes without its trailing zero bytes. A note that changes stays read; a new note is unread.
//! If the marks replicate, changes also have times ([`crate::unread_replication`]).
//!
//! Users see and set only their own marks: the user is the one to whom the access was granted. The server itself may
//! name any user.

use base::{Name, NoteId};
use store::{Table, TableReader};

use crate::acl::AclLevel;
use crate::database::Database;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result};
use crate::grant::Grant;
use crate::keys;
use crate::note::Marks;
use crate::records;
use crate::unread_replication::MarkUpdate;
use crate::writer::Writer;

/// Number of notes whose bits share one record.
pub const BLOCK_NOTES: u32 = 4_096;

fn key(database: &Database, user: &Name, note: NoteId) -> Vec<u8> {
    keys::unread_block(database.number, &user.canonical().to_lowercase(), note.0 / BLOCK_NOTES)
}

/// The marks of a user for a block of notes.
#[derive(Clone, Default)]
pub(crate) struct MarkBits(Vec<u8>);

impl MarkBits {
    /// Parses the stored form, of which every value is valid.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Returns `true` if the user has read a note of this block.
    pub(crate) fn has(&self, note: NoteId) -> bool {
        let (byte, mask) = bit(note);
        self.0.get(byte).is_some_and(|bits| bits & mask != 0)
    }

    /// Sets whether the user has read a note of this block.
    pub(crate) fn set(&mut self, note: NoteId, read: bool) {
        let (byte, mask) = bit(note);
        if self.0.len() <= byte {
            self.0.resize(byte + 1, 0);
        }
        self.0[byte] = if read { self.0[byte] | mask } else { self.0[byte] & !mask };
    }

    /// Returns the read notes of the block with this number.
    pub(crate) fn list(&self, block: u32) -> impl Iterator<Item = NoteId> {
        let first = block.saturating_mul(BLOCK_NOTES);
        let end = first.saturating_add(BLOCK_NOTES);
        (first..end).map(NoteId).filter(|note| self.has(*note))
    }
}

pub(crate) fn is_owner(database: &Database, user: &Name) -> bool {
    let record = database.record();
    !record.owner.is_empty() && record.owner == *user
}

fn bit(note: NoteId) -> (usize, u8) {
    let place = note.0 % BLOCK_NOTES;
    ((place / 8) as usize, 1 << (place % 8))
}

/// Returns the name under which the caller's marks are kept: the owner's name, if it is one of the caller's names.
fn own_name(database: &Database, grant: &Grant) -> Option<Name> {
    let owner = &database.record().owner;
    if !owner.is_empty() && grant.is_own(owner) { Some(owner.clone()) } else { grant.name().cloned() }
}

impl DatabaseSnapshot<'_> {
    /// Returns `true` if the reader has read a note. An anonymous reader has read none.
    pub fn is_read(&self, note: NoteId) -> Result<bool> {
        own_name(self.database(), self.grant()).map_or(Ok(false), |user| self.is_marked(&user, note))
    }

    /// Returns `true` if a user has read a note. Fails for other users than the reader, unless the reader is the server
    /// itself.
    pub fn is_read_by(&self, user: &Name, note: NoteId) -> Result<bool> {
        if !self.grant().is_own(user) {
            records::require_server_itself(self.database(), self.grant())?;
        }
        self.is_marked(user, note)
    }

    fn is_marked(&self, user: &Name, note: NoteId) -> Result<bool> {
        let database = self.database();
        let Some(header) = self.header(note)? else { return Ok(false) };
        if database.record().options.no_unread_marks {
            return Ok(true);
        }
        if is_owner(database, user) {
            return Ok(header.marks.contains(Marks::SEEN));
        }
        let bits = self.snapshot.get(Table::Unread, &key(database, user, note))?.unwrap_or_default();
        Ok(MarkBits(bits).has(note))
    }
}

impl Writer<'_, '_> {
    /// Marks notes as read by the caller. Notes that do not exist or are hidden are skipped.
    pub fn mark_read(&mut self, notes: &[NoteId]) -> Result<()> {
        let user = self.own_name()?;
        self.mark(&user, notes, Marks::SEEN)
    }

    /// Marks notes as unread for the caller.
    pub fn mark_unread(&mut self, notes: &[NoteId]) -> Result<()> {
        let user = self.own_name()?;
        self.mark(&user, notes, Marks::NONE)
    }

    /// Marks notes as read by a user. Fails for other users than the caller, unless the caller is the server itself.
    pub fn mark_read_by(&mut self, user: &Name, notes: &[NoteId]) -> Result<()> {
        self.require_own(user)?;
        self.mark(user, notes, Marks::SEEN)
    }

    /// Marks notes as unread for a user. Fails for other users than the caller, unless the caller is the server itself.
    pub fn mark_unread_by(&mut self, user: &Name, notes: &[NoteId]) -> Result<()> {
        self.require_own(user)?;
        self.mark(user, notes, Marks::NONE)
    }

    fn own_name(&self) -> Result<Name> {
        let name = own_name(self.part.database, &self.part.grant);
        name.ok_or_else(|| Error::invalid("unread marks", "only authenticated users have them"))
    }

    fn require_own(&self, user: &Name) -> Result<()> {
        let grant = &self.part.grant;
        if grant.is_own(user) { Ok(()) } else { records::require_server_itself(self.part.database, grant) }
    }

    fn mark(&mut self, user: &Name, notes: &[NoteId], seen: Marks) -> Result<()> {
        self.require_level(if self.part.grant.is_reading_only() { AclLevel::Author } else { AclLevel::Reader })?;
        let mut visible = Vec::with_capacity(notes.len());
        for note in notes {
            if self.is_visible(*note)? {
                visible.push(*note);
            }
            self.drop_unchanged(*note);
        }
        if is_owner(self.part.database, user) {
            for note in visible {
                if let Some(pending) = self.part.pending_header(note)? {
                    let marks = pending.after.marks.difference(Marks::SEEN).union(seen);
                    pending.after.marks = marks;
                }
            }
            return Ok(());
        }
        visible.sort_unstable();
        let user = user.canonical().to_lowercase();
        if self.part.database.record().options.replicates_unread_marks() {
            let update = MarkUpdate::Made(seen == Marks::SEEN);
            let updates: Vec<_> = visible.into_iter().map(|note| (note, update)).collect();
            return self.change_timed_marks(&user, &updates).map(drop);
        }
        for block in visible.chunk_by(|a, b| a.0 / BLOCK_NOTES == b.0 / BLOCK_NOTES) {
            self.mark_block(&user, block, seen == Marks::SEEN)?;
        }
        Ok(())
    }

    fn mark_block(&mut self, user: &str, notes: &[NoteId], read: bool) -> Result<()> {
        let Some(first) = notes.first() else { return Ok(()) };
        let block = first.0 / BLOCK_NOTES;
        let mut bits = self.mark_bits(user, block)?;
        notes.iter().for_each(|note| bits.set(*note, read));
        self.put_mark_bits(user, block, bits);
        Ok(())
    }

    /// Returns the marks of a user, whose name is in lower case, for a block of notes.
    pub(crate) fn mark_bits(&self, user: &str, block: u32) -> Result<MarkBits> {
        let key = keys::unread_block(self.part.database.number, user, block);
        Ok(MarkBits(match self.part.unread.get(&key) {
            Some(written) => written.clone(),
            None => self.store.get(Table::Unread, &key)?.unwrap_or_default(),
        }))
    }

    /// Writes the marks of a user, whose name is in lower case, for a block of notes.
    pub(crate) fn put_mark_bits(&mut self, user: &str, block: u32, bits: MarkBits) {
        let key = keys::unread_block(self.part.database.number, user, block);
        let MarkBits(mut bits) = bits;
        let length = bits.iter().rposition(|bits| *bits != 0).map_or(0, |last| last + 1);
        bits.truncate(length);
        assert!(bits.len() <= (BLOCK_NOTES / 8) as usize, "a block has at most BLOCK_NOTES bits");
        self.part.touched = true;
        self.batch.put(Table::Unread, &key, &bits);
        self.part.unread.insert(key, bits);
    }
}
