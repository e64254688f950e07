//! Unread marks of the caller.

use base::NoteId;
use notes::level;
use proto::v1;

use super::CallContext;
use super::note::find_all;
use crate::error::Result;
use crate::limits::{UNREAD_EXAMINED_MAX, UNREAD_PER_PAGE_MAX};
use crate::service::CallOutcome;

/// Marks notes as read or unread.
pub(crate) fn mark(context: &CallContext, request: v1::MarkNotesRequest) -> Result<CallOutcome<v1::MarkNotesReply>> {
    let access = context.access_for_change::<level::Reader>(request.database)?;
    let notes = {
        let reading = access.read()?;
        let mut found = Vec::new();
        for note in find_all(&reading, request.notes)? {
            found.extend(reading.header(note)?.filter(|header| !header.is_stub()).map(|header| header.note));
        }
        found
    };
    context.write(&access, |writer| {
        if request.unread {
            writer.mark_unread(&notes)?;
        } else {
            writer.mark_read(&notes)?;
        }
        Ok(v1::MarkNotesReply { modseq: writer.modseq().0, found: u32::try_from(notes.len()).unwrap_or(u32::MAX) })
    })
}

/// Lists the documents that the caller has not read.
pub(crate) fn list(context: &CallContext, request: &v1::ListUnreadRequest) -> Result<CallOutcome<v1::ListUnreadReply>> {
    let access = context.access::<level::Reader>(request.database.clone())?;
    let limit = match usize::try_from(request.limit).unwrap_or(usize::MAX) {
        0 => UNREAD_PER_PAGE_MAX,
        limit => limit.min(UNREAD_PER_PAGE_MAX),
    };
    let reading = context.read(&access)?;
    let mut reply = v1::ListUnreadReply::default();
    let next = reading.for_each_note_bounded(NoteId(request.after), UNREAD_EXAMINED_MAX, &mut |header| {
        if !header.is_stub() && header.class.is_document() && !reading.is_read(header.note)? {
            reply.note_ids.push(header.note.0);
        }
        Ok(reply.note_ids.len() < limit)
    })?;
    reply.next = next.map_or(0, |next| next.0);
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}
