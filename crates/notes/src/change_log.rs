//! The change log: the changes of a database since a given modseq, in order.
//!
//! Every note has exactly one *changed* or *deleted* record in the table `bymod`, at the modseq of its last change. An
//! update removes the earlier record. In addition, a note that leaves a folder without being deleted leaves a *left*
//! record. Views, replication, CONDSTORE and QRESYNC (RFC 7162) read this log. Its last entries are also in memory
//! ([`crate::change_log_tail`]).
//!
//! Deleted and left records are purged with the deletion stubs.
//! [`crate::database_snapshot::DatabaseSnapshot::is_complete_since`] returns `false` for a modseq before the purge.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Modseq, NoteId, Timestamp, Uid, ViewId};
use store::{Batch, Direction, KeyRange, Table, TableReader};

use crate::error::{Result, damaged};
use crate::keys;
use crate::note::{Membership, NoteHeader, decode_memberships, encode_memberships};

/// The kind of a change to a note.
#[derive(Clone, Debug, PartialEq)]
pub enum NoteChange {
    /// The note was created or changed. `folders` are the folders that contain it.
    Changed { folders: Vec<Membership> },
    /// The note was deleted. `folders` are the folders that contained it.
    Deleted { at: Timestamp, folders: Vec<Membership> },
    /// The note was removed from a folder but still exists.
    Left { at: Timestamp, from: Membership },
}

/// A position in the change log up to which a reader has read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChangeCursor {
    /// All changes up to this modseq were read.
    pub modseq: Modseq,
    /// The last record that was read of the next transaction, if that transaction was read only in part.
    within: Option<(Modseq, NoteId, u8)>,
}

impl ChangeCursor {
    /// Creates the position after a complete transaction.
    #[must_use]
    pub fn after(modseq: Modseq) -> Self {
        Self { modseq, within: None }
    }

    /// Creates the position after an entry of a transaction that has more entries.
    #[must_use]
    pub fn after_entry(entry: &ChangeEntry) -> Self {
        let before = Modseq(entry.modseq.0.saturating_sub(1));
        Self { modseq: before, within: Some((entry.modseq, entry.note, entry.kind)) }
    }

    /// Creates the position after all entries of a note in a transaction that may have more entries.
    #[must_use]
    pub fn after_note(modseq: Modseq, note: NoteId) -> Self {
        let before = Modseq(modseq.0.saturating_sub(1));
        Self { modseq: before, within: Some((modseq, note, u8::MAX)) }
    }

    /// Returns `true` if all entries of a note in a transaction come before the position.
    #[must_use]
    pub fn has_passed(&self, modseq: Modseq, note: NoteId) -> bool {
        match self.within {
            Some((begun, last, kind)) if begun == modseq => note < last || (note == last && kind == u8::MAX),
            _ => modseq <= self.modseq,
        }
    }

    /// Returns `true` if the transaction with this modseq was read only in part.
    #[must_use]
    pub fn is_partly_read(&self, modseq: Modseq) -> bool {
        self.within.is_some_and(|(begun, ..)| begun == modseq)
    }

    /// Returns `true` if the position lies between two transactions.
    #[must_use]
    pub fn is_at_transaction_boundary(&self) -> bool {
        self.within.is_none()
    }

    /// Returns the key from which reading continues.
    fn start(&self, database: DbNumber) -> Vec<u8> {
        match self.within {
            Some((modseq, note, kind)) => [&keys::bymod(database, modseq, note, kind)[..], &[0]].concat(),
            None => keys::bymod(database, self.modseq.next(), NoteId(0), 0).to_vec(),
        }
    }
}

const CHANGED: u8 = 0;
const DELETED: u8 = 1;
const LEFT: u8 = 2;

/// Returns `true` for the kind of the record of a note that exists.
pub(crate) fn is_change(kind: u8) -> bool {
    kind == CHANGED
}

/// An entry of the change log.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeEntry {
    /// Modseq of the change.
    pub modseq: Modseq,
    /// The changed note.
    pub note: NoteId,
    /// The change.
    pub change: NoteChange,
    /// The last byte of the record's key.
    pub(crate) kind: u8,
}

impl ChangeEntry {
    /// Creates the entry of a note's last change in a transaction, or of the first folder that it left.
    pub(crate) fn new(modseq: Modseq, note: NoteId, change: NoteChange) -> Self {
        let kind = match change {
            NoteChange::Changed { .. } => CHANGED,
            NoteChange::Deleted { .. } => DELETED,
            NoteChange::Left { .. } => LEFT,
        };
        Self { modseq, note, change, kind }
    }

    /// Numbers a *left* entry. If a note leaves several folders in one transaction, their records share modseq and
    /// note, so each gets its own kind number, from [`LEFT`] up.
    pub(crate) fn numbered(self, index: u8) -> Self {
        assert!(self.kind == LEFT, "only departures from folders are numbered");
        Self { kind: LEFT.saturating_add(index), ..self }
    }

    /// Returns `true` if the entry stays when the note changes again: a note that left a folder.
    pub(crate) fn is_departure(&self) -> bool {
        matches!(self.change, NoteChange::Left { .. })
    }
}

/// Writes the record of an entry.
pub(crate) fn put(batch: &mut Batch, database: DbNumber, entry: &ChangeEntry) {
    let key = keys::bymod(database, entry.modseq, entry.note, entry.kind);
    batch.put(Table::ByModseq, &key, &encode(&entry.change));
}

fn encode(change: &NoteChange) -> Vec<u8> {
    let mut out = Encoder::with_capacity(32);
    match change {
        NoteChange::Changed { folders } => encode_memberships(&mut out, folders),
        NoteChange::Deleted { at, folders } => {
            out.i64(at.0);
            encode_memberships(&mut out, folders);
        }
        NoteChange::Left { at, from } => {
            out.i64(at.0).u32(from.folder.0).u32(from.uid.0);
        }
    }
    out.finish()
}

/// Deletes the record of a note's last change.
pub(crate) fn delete_last(batch: &mut Batch, database: DbNumber, header: &NoteHeader) {
    let kind = if header.is_stub() { DELETED } else { CHANGED };
    batch.delete(Table::ByModseq, &keys::bymod(database, header.modseq, header.note, kind));
}

/// Deletes the *changed* or *deleted* record of a note at a modseq. *Left* records stay.
pub(crate) fn delete_any(batch: &mut Batch, database: DbNumber, modseq: Modseq, note: NoteId) {
    for kind in [CHANGED, DELETED] {
        batch.delete(Table::ByModseq, &keys::bymod(database, modseq, note, kind));
    }
}

/// Deletes one record.
pub(crate) fn delete_entry(batch: &mut Batch, database: DbNumber, entry: &ChangeEntry) {
    let key = keys::bymod(database, entry.modseq, entry.note, entry.kind);
    batch.delete(Table::ByModseq, &key);
}

/// Returns `true` if the record of an entry still exists.
pub(crate) fn entry_exists(reader: &dyn TableReader, database: DbNumber, entry: &ChangeEntry) -> Result<bool> {
    let key = keys::bymod(database, entry.modseq, entry.note, entry.kind);
    Ok(reader.get(Table::ByModseq, &key)?.is_some())
}

/// Calls `each` for every change after `since`, in order.
pub(crate) fn scan(
    reader: &dyn TableReader,
    database: DbNumber,
    since: Modseq,
    each: &mut dyn FnMut(ChangeEntry) -> Result<()>,
) -> Result<()> {
    scan_while(reader, database, since, &mut |entry| each(entry).map(|()| true))
}

/// Returns about `limit` of the changes that `scan` passes to a function until it returns `false`, in order. Each
/// transaction is returned completely or not at all.
pub(crate) fn take_transactions(
    limit: usize,
    scan: impl FnOnce(&mut dyn FnMut(ChangeEntry) -> Result<bool>) -> Result<()>,
) -> Result<Vec<ChangeEntry>> {
    let mut found: Vec<ChangeEntry> = Vec::new();
    scan(&mut |entry: ChangeEntry| {
        let is_enough = found.len() >= limit && found.last().is_some_and(|last| last.modseq != entry.modseq);
        if !is_enough {
            found.push(entry);
        }
        Ok(!is_enough)
    })?;
    Ok(found)
}

/// Returns up to `limit` of the changes that `scan` passes to a function until it returns `false`, in order, and the
/// position after them. That position is `None` if no changes are left.
pub(crate) fn take_page(
    limit: usize,
    scan: impl FnOnce(&mut dyn FnMut(ChangeEntry) -> Result<bool>) -> Result<()>,
) -> Result<(Vec<ChangeEntry>, Option<ChangeCursor>)> {
    let mut found: Vec<ChangeEntry> = Vec::new();
    let mut next = None;
    scan(&mut |entry: ChangeEntry| {
        if let Some(last) = found.last().filter(|_| found.len() >= limit) {
            let is_same = last.modseq == entry.modseq;
            next = Some(if is_same { ChangeCursor::after_entry(last) } else { ChangeCursor::after(last.modseq) });
            return Ok(false);
        }
        found.push(entry);
        Ok(true)
    })?;
    Ok((found, next))
}

/// Calls `each` for every change after `since`, in order, until it returns `false`.
pub(crate) fn scan_while(
    reader: &dyn TableReader,
    database: DbNumber,
    since: Modseq,
    each: &mut dyn FnMut(ChangeEntry) -> Result<bool>,
) -> Result<()> {
    scan_from(reader, database, ChangeCursor::after(since), each)
}

/// Calls `each` for every change after a position, in order, until it returns `false`.
pub(crate) fn scan_from(
    reader: &dyn TableReader,
    database: DbNumber,
    place: ChangeCursor,
    each: &mut dyn FnMut(ChangeEntry) -> Result<bool>,
) -> Result<()> {
    let range = KeyRange { start: place.start(database), end: store::engine::prefix_end(&database.to_key()) };
    let mut cursor = reader.scan(Table::ByModseq, &range, Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        if !each(decode(key, value).map_err(|_| damaged(Table::ByModseq, key))?)? {
            break;
        }
    }
    Ok(())
}

/// Calls `each` for every change before the records of a note in a transaction, or for all changes without a place, the
/// last one first, until it returns `false`.
pub(crate) fn scan_back(
    reader: &dyn TableReader,
    database: DbNumber,
    before: Option<(Modseq, NoteId)>,
    each: &mut dyn FnMut(ChangeEntry) -> Result<bool>,
) -> Result<()> {
    let start = database.to_key().to_vec();
    let end = match before {
        Some((modseq, note)) => Some(keys::bymod(database, modseq, note, 0).to_vec()),
        None => store::engine::prefix_end(&database.to_key()),
    };
    let mut cursor = reader.scan(Table::ByModseq, &KeyRange { start, end }, Direction::Backward)?;
    while let Some((key, value)) = cursor.next()? {
        if !each(decode(key, value).map_err(|_| damaged(Table::ByModseq, key))?)? {
            break;
        }
    }
    Ok(())
}

/// Parses one record.
pub fn decode(key: &[u8], value: &[u8]) -> std::result::Result<ChangeEntry, InvalidRecord> {
    let (modseq, note, kind) = keys::split_bymod(key).ok_or(InvalidRecord)?;
    let mut input = Decoder::new(value);
    let change = match kind {
        CHANGED => NoteChange::Changed { folders: decode_memberships(&mut input)? },
        DELETED => NoteChange::Deleted { at: Timestamp(input.i64()?), folders: decode_memberships(&mut input)? },
        _ => NoteChange::Left {
            at: Timestamp(input.i64()?),
            from: Membership { folder: ViewId(input.u32()?), uid: Uid(input.u32()?) },
        },
    };
    Ok(ChangeEntry { modseq, note, change, kind })
}
