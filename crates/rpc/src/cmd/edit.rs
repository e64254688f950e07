//! Making, changing and deleting notes.
//!
//! A change reads the note and writes it within one transaction, so nothing comes between. What a client does not name stays. Content in the blob
//! store is never named by a client that has not got it from the same note: otherwise whoever knows an identifier could read what it names.

use base::{NoteId, ViewId};
use notes::{Access, Item, NewNote, Note, NoteClass, Value, Writer, level};
use proto::v1;
use store::blob::BlobId;

use super::attachment::keep_used;
use super::{Desk, at_most, find, find_named};
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
        ..NewNote::of_class(class, items)
    };
    let accesses = [&access];
    let mut transaction = desk.ground.notes.transaction(&accesses)?;
    let mut writer = transaction.on(0);
    let note = writer.note_create(new)?;
    check_quota(&writer)?;
    let header = writer.header(note)?.ok_or_else(|| notes::Error::not_found("the note"))?;
    let modseq = writer.modseq().0;
    let saved = v1::SavedNote { note_id: note.0, unid: header.unid.0.to_vec(), sequence: header.sequence, modseq };
    Ok(Done::after(saved, transaction.commit()?))
}

/// Changes items of a note.
pub(crate) fn update(desk: &Desk, request: v1::UpdateNoteRequest) -> Result<Done<v1::SavedNote>> {
    let access = desk.access_to_change::<level::Author>(request.database.clone())?;
    at_most(request.remove.len(), "items of a call", NAMES_PER_CALL_MAX)?;
    let items: Vec<Item> = request.items.into_iter().map(item_in).collect::<Result<_>>()?;
    let (remove, replace_all) = (request.remove, request.replace_all);
    change(desk, &access, request.note, request.expected_sequence, |note, _| {
        let before = blobs_of(&note.items);
        if blobs_of(&items).iter().any(|blob| !before.contains(blob)) {
            return Err(Error::invalid("attachments come through AttachFile"));
        }
        let is_said = |item: &Item| {
            replace_all
                || items.iter().any(|other| other.is_named(&item.name))
                || remove.iter().any(|name| item.is_named(name))
        };
        note.items.retain(|item| !is_said(item));
        note.items.extend(items.iter().cloned());
        keep_used(&mut note.blobs, &before, &note.items);
        Ok(())
    })
}

/// Deletes a note.
pub(crate) fn delete(desk: &Desk, request: v1::DeleteNoteRequest) -> Result<Done<v1::DeleteNoteReply>> {
    let access = desk.access_to_change::<level::Author>(request.database)?;
    if request.soft {
        return Err(Error::Missing("deleting softly"));
    }
    let note = {
        let reader = access.lower::<level::Reader>();
        let reading = reader.read()?;
        find_named(&reading, note_name(request.note)?)?
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
    let (deleted, modseq) = (writer.note_delete(note)?, writer.modseq().0);
    Ok(Done::after(v1::DeleteNoteReply { deleted, modseq }, transaction.commit()?))
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
    let lower = access.lower::<level::Depositor>();
    let accesses = [&lower];
    let mut transaction = desk.ground.notes.transaction(&accesses)?;
    let mut writer = transaction.on(0);
    check_class(&mut writer, note)?;
    let mut found = writer.note(note)?.ok_or_else(|| notes::Error::not_found("the note"))?;
    let sequence = found.header.sequence;
    if expected != 0 && expected != sequence {
        return Err(notes::Error::Conflict { unid: found.header.unid, expected, found: sequence }.into());
    }
    edit(&mut found, &mut writer)?;
    let sequence = writer.note_update(note, sequence, &found.items, &found.blobs)?;
    check_quota(&writer)?;
    let modseq = writer.modseq().0;
    let saved = v1::SavedNote { note_id: note.0, unid: found.header.unid.0.to_vec(), sequence, modseq };
    Ok(Done::after(saved, transaction.commit()?))
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

fn check_sequence(writer: &mut Writer<'_, '_>, note: NoteId, expected: u32) -> Result<()> {
    match writer.header(note)? {
        Some(header) if expected != 0 && header.sequence != expected => {
            Err(notes::Error::Conflict { unid: header.unid, expected, found: header.sequence }.into())
        }
        _ => Ok(()),
    }
}

fn check_quota(writer: &Writer<'_, '_>) -> Result<()> {
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
