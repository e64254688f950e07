//! Making, changing and deleting notes.
//!
//! A change reads the note and writes it within one transaction, so nothing comes between. What a client does not name stays. Content in the blob
//! store is never named by a client that has not got it from the same note: otherwise whoever knows an identifier could read what it names.

use base::{NoteId, Unid, ViewId};
use notes::item::{blobs_of, keep_used};
use notes::{
    Access, Database, DatabaseKind, Header, Item, ItemFlags, NewNote, Note, NoteClass, OnConflict, SaveOptions, Saved,
    Value, Writer, level,
};
use proto::v1;
use proto::v1::saved_note::Outcome;
use store::blob::BlobId;

use super::{Desk, at_most, find, header_of};
use crate::convert::{class_in, item_in, note_name, unid_in_or_none};
use crate::error::{Error, Result};
use crate::limits::{EDITED_NOTE_BYTES_MAX, NAMES_PER_CALL_MAX};
use crate::service::Done;

/// Makes a note.
pub(crate) fn create(desk: &Desk, request: v1::CreateNoteRequest) -> Result<Done<v1::SavedNote>> {
    let access = desk.access_to_change::<level::Depositor>(request.database)?;
    let class = class_in(request.note_class)?;
    if class == NoteClass::ACL || class == NoteClass::VIEW {
        return Err(Error::invalid("access lists, views and folders are made through their own calls"));
    }
    let items = items_in(request.items)?;
    if items.iter().any(|item| matches!(item.value, Value::Object { .. })) {
        return Err(Error::invalid("attachments come through AttachFile, when the note is there"));
    }
    let new = NewNote {
        unid: unid_in_or_none(&request.unid)?,
        parent: unid_in_or_none(&request.parent_unid)?,
        folders: request.folder_ids.into_iter().map(ViewId).collect(),
        tracks_editors: tracks_editors(access.database(), class),
        ..NewNote::of_class(class, items)
    };
    desk.write(&access, |writer| {
        let note = writer.note_create(new)?;
        check_quota(writer)?;
        saved(writer, note)
    })
}

/// Tells what a note is after it was saved.
pub(crate) fn saved(writer: &mut Writer<'_, '_>, note: NoteId) -> Result<v1::SavedNote> {
    let header = writer.header(note)?.ok_or_else(|| notes::Error::not_found("the note"))?;
    let (unid, modseq) = (header.unid.0.to_vec(), writer.modseq().0);
    Ok(v1::SavedNote { note_id: note.0, unid, sequence: header.sequence, modseq, ..v1::SavedNote::default() })
}

/// Changes items of a note.
pub(crate) fn update(desk: &Desk, request: v1::UpdateNoteRequest) -> Result<Done<v1::SavedNote>> {
    let access = desk.access_to_change::<level::Author>(request.database)?;
    let resolves = match v1::update_note_request::OnConflict::try_from(request.on_conflict) {
        Ok(wish) => wish == v1::update_note_request::OnConflict::Resolve,
        Err(_) => return Err(Error::invalid("there is no such way to resolve conflicts")),
    };
    let base = request.base.map(|base| items_in(base.items)).transpose()?;
    let edit = Edit::new(request.items, request.remove, request.replace_all)?;
    let read = Read { sequence: request.expected_sequence, resolves };
    change(desk, &access, request.note, read, |note, _| {
        let base = base.map(|base| edit.unmade(&note.items, base));
        edit.make(&mut note.items, &mut note.blobs)?;
        Ok(base)
    })
}

fn items_in(items: Vec<v1::Item>) -> Result<Vec<Item>> {
    items.into_iter().map(item_in).collect()
}

/// A change of a note's items.
pub(crate) struct Edit {
    /// Each name that occurs replaces all items of that name.
    said: Vec<Item>,
    /// Names of items that are taken out.
    remove: Vec<String>,
    /// All other items are taken out.
    replace_all: bool,
}

impl Edit {
    /// Reads what a client says.
    pub(crate) fn new(said: Vec<v1::Item>, remove: Vec<String>, replace_all: bool) -> Result<Self> {
        at_most(remove.len(), "items of a call", NAMES_PER_CALL_MAX)?;
        Ok(Self { said: items_in(said)?, remove, replace_all })
    }

    /// Makes the change, and drops the contents that nothing uses behind it.
    pub(crate) fn make(self, items: &mut Vec<Item>, blobs: &mut Vec<BlobId>) -> Result<()> {
        let before = blobs_of(items);
        if blobs_of(&self.said).iter().any(|blob| !before.contains(blob)) {
            return Err(Error::invalid("attachments come through AttachFile"));
        }
        items.retain(|item| !self.touches(item));
        items.extend(self.said);
        keep_used(blobs, &before, items);
        Ok(())
    }

    /// Gives the items without the change: those that it touches are as they were in the version that the client began with.
    fn unmade(&self, items: &[Item], base: Vec<Item>) -> Vec<Item> {
        let untouched = items.iter().filter(|item| !self.touches(item)).cloned();
        untouched.chain(base.into_iter().filter(|item| self.touches(item))).collect()
    }

    fn touches(&self, item: &Item) -> bool {
        self.replace_all
            || self.said.iter().any(|other| other.is_named(&item.name))
            || self.remove.iter().any(|name| item.is_named(name))
    }
}

/// The version of a note that a client has read before it changed it.
pub(crate) struct Read {
    /// Its sequence number; 0 is whatever is there.
    sequence: u32,
    /// When somebody else has saved the note since, what the document wants is done. Otherwise the client is told.
    resolves: bool,
}

impl Read {
    /// The client is told of conflicts.
    pub(crate) fn at(sequence: u32) -> Self {
        Self { sequence, resolves: false }
    }
}

/// Deletes a note.
pub(crate) fn delete(desk: &Desk, request: v1::DeleteNoteRequest) -> Result<Done<v1::DeleteNoteReply>> {
    let access = desk.access_to_change::<level::Author>(request.database)?;
    if request.soft && request.for_good {
        return Err(Error::invalid("a note is deleted softly or for good, not both"));
    }
    let keeps = access.database().record().options.keep_deleted_hours.is_some() && !request.for_good;
    if request.soft && !keeps {
        let path = access.database().path();
        return Err(Error::State(format!("{path} keeps nothing that is deleted, it would be gone for good")));
    }
    let note = {
        let reader = access.lower::<level::Reader>();
        let header = header_of(&reader.read()?, note_name(request.note)?)?;
        let is_there = |header: &Header| !header.is_stub() || (request.for_good && header.is_soft_deleted());
        header.filter(is_there).map(|header| header.note)
    };
    let lower = access.lower::<level::Depositor>();
    let accesses = [&lower];
    let mut transaction = desk.ground.notes.transaction(&accesses)?;
    let mut writer = transaction.on(0);
    let Some(note) = note else {
        let ticket = writer.last_ticket();
        return Ok(Done::after(v1::DeleteNoteReply::default(), ticket));
    };
    check_class(&mut writer, note)?;
    check_sequence(&mut writer, note, request.expected_sequence)?;
    let is_document = writer.header(note)?.is_some_and(|header| header.class.is_document());
    if request.soft && !is_document {
        return Err(Error::State("only documents can be restored".to_owned()));
    }
    let deleted = if request.for_good { writer.note_delete_for_good(note)? } else { writer.note_delete(note)? };
    let reply = v1::DeleteNoteReply { deleted, modseq: writer.modseq().0, soft: deleted && keeps && is_document };
    Ok(Done::after(reply, transaction.commit()?))
}

/// Reads a note, lets it be changed, and saves it, all in one transaction. What changes it gives the items of the version that the client began with, if it
/// knows them.
pub(crate) fn change(
    desk: &Desk,
    access: &Access<level::Author>,
    key: Option<v1::NoteKey>,
    read: Read,
    edit: impl FnOnce(&mut Note, &mut Writer<'_, '_>) -> Result<Option<Vec<Item>>>,
) -> Result<Done<v1::SavedNote>> {
    let note = {
        let reader = access.lower::<level::Reader>();
        let reading = reader.read()?;
        find(&reading, key)?
    };
    desk.write(access, |writer| {
        check_class(writer, note)?;
        let mut found = writer.note(note)?.ok_or_else(|| notes::Error::not_found("the note"))?;
        let sequence = found.header.sequence;
        let is_shared = tracks_editors(access.database(), found.header.class);
        let on_conflict = if read.resolves && is_shared { OnConflict::Resolve } else { OnConflict::Refuse };
        if on_conflict == OnConflict::Refuse {
            check_expected(read.sequence, sequence, found.header.unid)?;
        }
        let message = message_of(&found.items);
        let base = edit(&mut found, writer)?;
        if message != message_of(&found.items) {
            return Err(Error::invalid("a message stays as its sender has written it, and so do its attachments"));
        }
        let keeps_size = message.is_some();
        let options = SaveOptions { tracks_editors: is_shared, on_conflict, base: base.as_deref(), keeps_size };
        let expected = if read.sequence == 0 { sequence } else { read.sequence };
        let outcome = writer.note_save(note, expected, (&found.items, &found.blobs), &options)?;
        check_quota(writer)?;
        let (note, outcome) = match outcome {
            Saved::Plain { .. } => (note, Outcome::Plain),
            Saved::Merged { .. } => (note, Outcome::Merged),
            Saved::Conflict { note: loser } => (loser, Outcome::Kept),
        };
        Ok(v1::SavedNote { outcome: outcome.into(), ..saved(writer, note)? })
    })
}

/// Gives what makes a note a message: its head and skeleton with their numbers, and its files. Mail programs rely on it that they never change.
fn message_of(items: &[Item]) -> Option<Vec<Item>> {
    let is_part = |item: &&Item| matches!(item.value, Value::MimePart(_) | Value::Object { .. });
    let has = |name: &str| items.iter().any(|item| item.is_named(name) && !item.flags.has(ItemFlags::SUMMARY));
    let is_message = mail::message::BODY_ITEMS.iter().all(|name| has(name));
    is_message.then(|| items.iter().filter(is_part).cloned().collect())
}

/// Tells whether it is noted down who saves a note. A message stays what its sender has written.
fn tracks_editors(database: &Database, class: NoteClass) -> bool {
    class.is_document() && database.record().kind == DatabaseKind::Standard
}

/// Refuses notes that have calls of their own, and those that are too large to be changed item by item.
fn check_class(writer: &mut Writer<'_, '_>, note: NoteId) -> Result<()> {
    let Some(header) = writer.header(note)? else { return Ok(()) };
    if header.class == NoteClass::ACL || header.class == NoteClass::VIEW {
        return Err(Error::invalid("access lists, views and folders are changed through their own calls"));
    }
    if header.size > EDITED_NOTE_BYTES_MAX {
        return Err(Error::Limit { what: "bytes of a note that is changed", max: EDITED_NOTE_BYTES_MAX });
    }
    Ok(())
}

/// Refuses a change of what somebody else has saved since the caller read it.
pub(crate) fn check_sequence(writer: &mut Writer<'_, '_>, note: NoteId, expected: u32) -> Result<()> {
    writer.header(note)?.map_or(Ok(()), |header| check_expected(expected, header.sequence, header.unid))
}

/// Refuses another sequence number than the one that the caller expects, if any.
pub(crate) fn check_expected(expected: u32, found: u32, unid: Unid) -> Result<()> {
    if expected != 0 && expected != found {
        return Err(notes::Error::Conflict { unid, expected, found }.into());
    }
    Ok(())
}

/// Refuses what makes the database larger than it may be.
pub(crate) fn check_quota(writer: &Writer<'_, '_>) -> Result<()> {
    match writer.database().record().options.quota_bytes {
        Some(quota) if writer.bytes_used() > quota => Err(Error::Full("the database has reached its quota")),
        _ => Ok(()),
    }
}
