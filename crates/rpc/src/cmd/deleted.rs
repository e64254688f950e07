//! Soft-deleted documents: listing and restoring them.

use base::NoteId;
use notes::{DatabaseSnapshot, level};
use prost::Message;
use proto::v1;

use super::edit::saved_note;
use super::note::{ENVELOPE_BYTES, ItemSelection, reply_too_large, select_items};
use super::{CallContext, header_of};
use crate::convert::{NoteKey, note_name};
use crate::error::{Error, Result};
use crate::limits::{
    DELETED_EXAMINED_MAX, DELETED_PER_PAGE_DEFAULT, DELETED_PER_PAGE_MAX, MESSAGE_BYTES_MAX, STEPS_PER_NOTE,
};
use crate::service::CallOutcome;

/// Lists the documents that the caller may restore.
pub(crate) fn list(
    context: &CallContext,
    request: &v1::ListDeletedNotesRequest,
) -> Result<CallOutcome<v1::ListDeletedNotesReply>> {
    let access = context.access::<level::Author>(request.database.clone())?.downgrade::<level::Reader>();
    let wanted = ItemSelection::read(request.items.clone())?;
    let limit = match usize::try_from(request.limit).unwrap_or(usize::MAX) {
        0 => DELETED_PER_PAGE_DEFAULT,
        limit => limit.min(DELETED_PER_PAGE_MAX),
    };
    let reading = context.read(&access)?;
    let page = reading.deleted_page(NoteId(request.after), limit, DELETED_EXAMINED_MAX)?;
    let mut reply = v1::ListDeletedNotesReply { next: page.next.map_or(0, |next| next.0), ..Default::default() };
    let mut left_bytes = MESSAGE_BYTES_MAX - ENVELOPE_BYTES;
    let mut last = request.after;
    for found in page.notes {
        context.spend(STEPS_PER_NOTE)?;
        let (note, items_left_out) = match read_deleted(&reading, found.header.note, &wanted, left_bytes) {
            Ok(note) => (note, false),
            // The note does not fit into this page but may fit into the next one.
            Err(Error::Limit { .. }) if !reply.notes.is_empty() => {
                reply.next = last;
                break;
            }
            // The note does not fit into any page, so only its header is returned.
            Err(Error::Limit { .. }) => {
                (read_deleted(&reading, found.header.note, &ItemSelection::header(), left_bytes)?, true)
            }
            Err(error) => return Err(error),
        };
        let deleted = v1::DeletedNote {
            note: Some(note),
            items_left_out,
            deleted_us: found.deletion.at.0,
            deleted_by: found.deletion.by,
            folder_ids: found.deletion.folders.iter().map(|folder| folder.0).collect(),
        };
        left_bytes = left_bytes.saturating_sub(deleted.encoded_len() + 16);
        last = found.header.note.0;
        reply.notes.push(deleted);
    }
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}

/// Reads the requested items of a deleted document. If its body items alone exceed `bytes_max`, they are not read and
/// an error is returned.
fn read_deleted(
    reading: &DatabaseSnapshot<'_>,
    note: NoteId,
    wanted: &ItemSelection,
    bytes_max: usize,
) -> Result<v1::Note> {
    let mut bytes = 0_u64;
    let note = reading.deleted_note(note, &mut |body| {
        let is_wanted = wanted.includes_body(&body.name);
        bytes = bytes.saturating_add(if is_wanted { body.length } else { 0 });
        is_wanted && bytes <= bytes_max as u64
    })?;
    let note = note.ok_or_else(|| notes::Error::not_found("the note"))?;
    if bytes > bytes_max as u64 { Err(reply_too_large()) } else { select_items(&note, wanted, bytes_max) }
}

/// Restores a document.
pub(crate) fn restore(context: &CallContext, request: v1::RestoreNoteRequest) -> Result<CallOutcome<v1::SavedNote>> {
    let access = context.access_for_change::<level::Author>(request.database)?;
    let name = note_name(request.note)?;
    context.write(&access, |writer| {
        let note = {
            let reader = access.downgrade::<level::Reader>();
            find_deleted(&reader.read()?, name)?
        };
        writer.note_restore(note)?;
        saved_note(writer, note)
    })
}

fn find_deleted(reading: &DatabaseSnapshot<'_>, name: NoteKey) -> Result<NoteId> {
    match header_of(reading, name)? {
        Some(header) if header.is_soft_deleted() => Ok(header.note),
        Some(header) if !header.is_stub() => Err(Error::State("the note is not deleted".to_owned())),
        _ => Err(notes::Error::not_found("a deleted note with this ID that can be restored").into()),
    }
}
