//! Making, changing and deleting notes.
//!
//! A change reads the note and writes it within one transaction, so nothing comes between. What a client does not name stays. Content in the blob
//! store is never named by a client that has not got it from the same note: otherwise whoever knows an identifier could read what it names.

use base::{NoteId, Unid, ViewId};
use notes::{
    Access, Database, DatabaseKind, Header, Item, NewNote, Note, NoteClass, SaveOptions, Saved, Value, Writer, level,
};
use proto::v1;
use store::blob::BlobId;

use super::attachment::keep_used;
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
    let items: Vec<Item> = request.items.into_iter().map(item_in).collect::<Result<_>>()?;
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
    Ok(v1::SavedNote { note_id: note.0, unid, sequence: header.sequence, modseq })
}

/// Changes items of a note.
pub(crate) fn update(desk: &Desk, request: v1::UpdateNoteRequest) -> Result<Done<v1::SavedNote>> {
    let access = desk.access_to_change::<level::Author>(request.database.clone())?;
    at_most(request.remove.len(), "items of a call", NAMES_PER_CALL_MAX)?;
    let items: Vec<Item> = request.items.into_iter().map(item_in).collect::<Result<_>>()?;
    let (remove, replace_all) = (request.remove, request.replace_all);
    change(desk, &access, request.note, request.expected_sequence, |note, _| {
        replace((&mut note.items, &mut note.blobs), items, &remove, replace_all)
    })
}

/// Replaces items by those that are said, takes out the ones of these names, and all others where that is asked for; then the blobs that only they used.
pub(crate) fn replace(
    (items, blobs): (&mut Vec<Item>, &mut Vec<BlobId>),
    said: Vec<Item>,
    remove: &[String],
    replace_all: bool,
) -> Result<()> {
    let before = blobs_of(items);
    if blobs_of(&said).iter().any(|blob| !before.contains(blob)) {
        return Err(Error::invalid("attachments come through AttachFile"));
    }
    let is_said = |item: &Item| {
        replace_all
            || said.iter().any(|other| other.is_named(&item.name))
            || remove.iter().any(|name| item.is_named(name))
    };
    items.retain(|item| !is_said(item));
    items.extend(said);
    keep_used(blobs, &before, items);
    Ok(())
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

/// Reads a note, lets it be changed, and saves it, all in one transaction.
pub(crate) fn change(
    desk: &Desk,
    access: &Access<level::Author>,
    key: Option<v1::NoteKey>,
    expected: u32,
    edit: impl FnOnce(&mut Note, &mut Writer<'_, '_>) -> Result<()>,
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
        check_expected(expected, sequence, found.header.unid)?;
        edit(&mut found, writer)?;
        let tracks_editors = tracks_editors(access.database(), found.header.class);
        let options = SaveOptions { tracks_editors, ..SaveOptions::default() };
        let outcome = writer.note_save(note, sequence, (&found.items, &found.blobs), &options)?;
        let Saved::Plain { .. } = outcome else {
            return Err(Error::State("the note was saved by another call meanwhile".to_owned()));
        };
        check_quota(writer)?;
        saved(writer, note)
    })
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

/// Gives the contents that the attachments among items name.
pub(crate) fn blobs_of(items: &[Item]) -> Vec<BlobId> {
    let blobs = items.iter().filter_map(|item| match &item.value {
        Value::Object { blob, .. } => Some(*blob),
        _ => None,
    });
    blobs.collect()
}
