//! Opening notes with the requested items, limited to the size of a message.

use std::collections::HashSet;

use base::NoteId;
use notes::note::BodyDirectoryEntry;
use notes::{DatabaseSnapshot, Item, ItemFlags, Note, NoteHeader, Summary, level};
use prost::Message;
use proto::v1;
use proto::v1::item_selection::Extent;

use super::{CallContext, check_count, find, find_named};
use crate::convert::{self, header_to_proto, item_to_proto};
use crate::error::{Error, Result};
use crate::limits::{MESSAGE_BYTES_MAX, NAMES_PER_CALL_MAX, NOTES_PER_CALL_MAX, STEPS_PER_NOTE};
use crate::service::CallOutcome;

/// Maximum number of bytes in a message besides the items of its notes.
pub(crate) const ENVELOPE_BYTES: usize = 64 << 10;

/// The requested items of a note.
pub(crate) struct ItemSelection {
    extent: Extent,
    /// The item names in lower case.
    names: HashSet<String>,
}

impl ItemSelection {
    /// Reads the selection of a request.
    pub(crate) fn read(selection: Option<v1::ItemSelection>) -> Result<Self> {
        let selection = selection.unwrap_or_default();
        check_count(selection.names.len(), "items of a call", NAMES_PER_CALL_MAX)?;
        let extent = Extent::try_from(selection.extent).map_err(|_| Error::invalid("unknown value of extent"))?;
        Ok(Self { extent, names: selection.names.iter().map(|name| name.to_ascii_lowercase()).collect() })
    }

    fn is_named(&self, name: &str) -> bool {
        !self.names.is_empty() && self.names.contains(&name.to_ascii_lowercase())
    }

    fn includes_summary(&self, name: &str) -> bool {
        self.extent != Extent::Header || self.is_named(name)
    }

    /// Returns a selection of the header only.
    pub(crate) fn header() -> Self {
        Self { extent: Extent::Header, names: HashSet::new() }
    }

    pub(crate) fn includes_body(&self, name: &str) -> bool {
        self.extent == Extent::All || self.is_named(name)
    }

    fn includes(&self, item: &Item) -> bool {
        if item.flags.contains(ItemFlags::SUMMARY) {
            self.includes_summary(&item.name)
        } else {
            self.includes_body(&item.name)
        }
    }

    /// Returns `true` if only the header is requested.
    fn is_header_only(&self) -> bool {
        self.extent == Extent::Header && self.names.is_empty()
    }
}

/// Opens a note.
pub(crate) fn open(context: &CallContext, request: v1::OpenNoteRequest) -> Result<CallOutcome<v1::Note>> {
    let access = match request.mark_read {
        true => context.access_for_change::<level::Reader>(request.database)?,
        false => context.access::<level::Reader>(request.database)?,
    };
    let wanted = ItemSelection::read(request.items)?;
    let reading = access.read()?;
    let note = find(&reading, request.note)?;
    let header = reading.header(note)?.ok_or_else(|| notes::Error::not_found("the note"))?;
    let mut reply = read_selected(&reading, &header, &wanted, MESSAGE_BYTES_MAX - ENVELOPE_BYTES)?;
    let is_unread = reply.header.as_ref().is_some_and(|header| header.unread);
    if !request.mark_read || !is_unread {
        return Ok(CallOutcome::when_durable(reply, reading.ticket()));
    }
    let lower = access.downgrade::<level::Depositor>();
    let accesses = [&lower];
    let mut transaction = context.services.databases.transaction(&accesses)?;
    transaction.writer(0).mark_read(&[note])?;
    let ticket = transaction.commit()?;
    if let Some(header) = &mut reply.header {
        header.unread = false;
    }
    Ok(CallOutcome::when_durable(reply, ticket.max(reading.ticket())))
}

/// Opens several notes.
pub(crate) fn open_many(
    context: &CallContext,
    request: &v1::OpenNotesRequest,
) -> Result<CallOutcome<v1::OpenNotesReply>> {
    check_count(request.notes.len(), "notes of a call", NOTES_PER_CALL_MAX)?;
    let access = context.access::<level::Reader>(request.database.clone())?;
    let wanted = ItemSelection::read(request.items.clone())?;
    let reading = context.read(&access)?;
    let mut reply = v1::OpenNotesReply::default();
    let mut left_bytes = MESSAGE_BYTES_MAX - ENVELOPE_BYTES;
    let count = request.notes.len();
    for (index, key) in request.notes.iter().enumerate() {
        context.spend(STEPS_PER_NOTE)?;
        let Some(note) = find_named(&reading, convert::note_name(Some(key.clone()))?)? else { continue };
        let Some(header) = reading.header(note)? else { continue };
        match read_selected(&reading, &header, &wanted, left_bytes) {
            Ok(found) => {
                left_bytes = left_bytes.saturating_sub(found.encoded_len() + 16);
                reply.notes.push(found);
            }
            Err(Error::Limit { .. }) if !reply.notes.is_empty() => {
                reply.rest = u32::try_from(count - index).unwrap_or(u32::MAX);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}

/// Reads a note with the requested items. Returns an error if they exceed `bytes_max`.
pub(crate) fn read_selected(
    reading: &DatabaseSnapshot<'_>,
    header: &NoteHeader,
    wanted: &ItemSelection,
    bytes_max: usize,
) -> Result<v1::Note> {
    let unread = !reading.is_read(header.note)?;
    let mut note = v1::Note { header: Some(header_to_proto(header, unread)), items: Vec::new() };
    if wanted.is_header_only() {
        return Ok(note);
    }
    let Some(summary) = reading.summary(header.note)? else { return Ok(note) };
    let bodies = body_ordinals(&summary, wanted, bytes_max)?;
    let of_summary = summary.items.iter().filter(|item| wanted.includes_summary(&item.name));
    note.items.extend(of_summary.map(item_to_proto));
    for ordinal in bodies {
        note.items.extend(reading.body_item(header.note, ordinal)?.as_ref().map(item_to_proto));
    }
    if note.encoded_len() > bytes_max { Err(reply_too_large()) } else { Ok(note) }
}

/// Selects the requested items of a note that has been read completely. Returns an error if they exceed `bytes_max`.
pub(crate) fn select_items(note: &Note, wanted: &ItemSelection, bytes_max: usize) -> Result<v1::Note> {
    let items = note.items.iter().filter(|item| wanted.includes(item)).map(item_to_proto).collect();
    let note_out = v1::Note { header: Some(header_to_proto(&note.header, false)), items };
    if note_out.encoded_len() > bytes_max { Err(reply_too_large()) } else { Ok(note_out) }
}

/// Returns the ordinals of the requested body items. Returns an error if they alone exceed `bytes_max`, so that they
/// are not read in vain.
fn body_ordinals(summary: &Summary, wanted: &ItemSelection, bytes_max: usize) -> Result<Vec<u16>> {
    let taken = summary.body.iter().filter(|body: &&BodyDirectoryEntry| wanted.includes_body(&body.name));
    let bytes = taken.clone().fold(0_u64, |sum, body| sum.saturating_add(body.length));
    if bytes > bytes_max as u64 {
        return Err(reply_too_large());
    }
    Ok(taken.map(|body| body.ordinal).collect())
}

pub(crate) fn reply_too_large() -> Error {
    Error::Limit { what: "bytes of a reply", max: MESSAGE_BYTES_MAX as u64 }
}

/// Returns the notes for a list of keys, without those that do not exist.
pub(crate) fn find_all(reading: &DatabaseSnapshot<'_>, keys: Vec<v1::NoteKey>) -> Result<Vec<NoteId>> {
    check_count(keys.len(), "notes of a call", NOTES_PER_CALL_MAX)?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        found.extend(find_named(reading, convert::note_name(Some(key))?)?);
    }
    Ok(found)
}
