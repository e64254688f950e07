//! Attachments: reading their content in chunks, adding and removing them.

use std::ops::Range;

use base::NoteId;
use base::memory::MemoryPermit;
use notes::note::BodyDirectoryEntry;
use notes::{DatabaseSnapshot, Item, ItemFlags, ItemValue, NoteClass, NoteFlags, level};
use proto::v1;
use store::blob::BlobId;

use super::note_change::{self, ExpectedNote, NoteChange};
use super::{CallContext, edit, find, header_of};
use crate::convert;
use crate::convert::expected_from_proto;
use crate::error::{Error, Result};
use crate::limits::{CHUNK_BYTES, EDITED_NOTE_BYTES_MAX, LOGIN_BYTES_MAX, STEPS_PER_NOTE};
use crate::service::CallOutcome;

/// Maximum number of chunks that one step of a stream reads.
const CHUNKS_PER_STEP: u64 = 4;

/// The item that holds an attachment.
const FILE_ITEM: &str = "$FILE";

/// Maximum size of an item outside the summary that may be an attachment, in bytes.
const FILE_ITEM_BYTES_MAX: u64 = 64 << 10;

/// Content that is being streamed to a client.
#[derive(Clone)]
pub(crate) struct ContentStream {
    source: Source,
    /// The offset at which the next step starts.
    offset: u64,
    /// `true` after the total length has been sent to the client.
    length_sent: bool,
}

#[derive(Clone)]
enum Source {
    Attachment(v1::ReadAttachmentRequest, Option<FoundFile>),
    Item(v1::ReadItemRequest),
}

/// An attachment that a step has found. Later steps read the same content.
#[derive(Clone, Copy)]
struct FoundFile {
    note: NoteId,
    blob: BlobId,
    length: u64,
}

/// The chunks of one step, and the rest of the content.
pub(crate) struct ContentStep {
    /// The chunks for the client.
    pub chunks: Vec<v1::Chunk>,
    /// The remaining content; `None` after the last step.
    pub rest: Option<ContentStream>,
}

impl ContentStream {
    /// Starts reading an attachment.
    pub(crate) fn of_attachment(request: v1::ReadAttachmentRequest) -> Self {
        Self { offset: request.offset_bytes, source: Source::Attachment(request, None), length_sent: false }
    }

    /// Starts reading an item.
    pub(crate) fn of_item(request: v1::ReadItemRequest) -> Self {
        Self { offset: request.offset_bytes, source: Source::Item(request), length_sent: false }
    }

    /// Reads the next chunks.
    pub(crate) fn step(context: &CallContext, stream: &Self) -> Result<CallOutcome<ContentStep>> {
        let mut stream = stream.clone();
        let database = match &stream.source {
            Source::Attachment(request, _) => request.database.clone(),
            Source::Item(request) => request.database.clone(),
        };
        let access = context.access::<level::Reader>(database)?;
        let reading = context.read(&access)?;
        let range = stream.offset..stream.offset.saturating_add(CHUNK_BYTES as u64 * CHUNKS_PER_STEP);
        let (bytes, total) = match &mut stream.source {
            Source::Attachment(request, found) => {
                let file = match *found {
                    Some(file) => file,
                    None => find_file(context, &reading, request)?,
                };
                *found = Some(file);
                of_attachment(&reading, file, range)?
            }
            Source::Item(request) => of_item(&reading, request, range)?,
        };
        stream.offset = stream.offset.saturating_add(bytes.len() as u64);
        let mut chunks: Vec<v1::Chunk> =
            bytes.chunks(CHUNK_BYTES).map(|piece| v1::Chunk { content: piece.to_vec(), total_bytes: 0 }).collect();
        if !stream.length_sent {
            stream.length_sent = true;
            if chunks.is_empty() {
                chunks.push(v1::Chunk::default());
            }
            chunks[0].total_bytes = total;
        }
        let is_over = bytes.is_empty() || stream.offset >= total;
        let rest = (!is_over).then_some(stream);
        Ok(CallOutcome::when_durable(ContentStep { chunks, rest }, reading.ticket()))
    }
}

/// Finds an attachment by its file name.
fn find_file(
    context: &CallContext,
    reading: &DatabaseSnapshot<'_>,
    request: &v1::ReadAttachmentRequest,
) -> Result<FoundFile> {
    let note = find(reading, request.note.clone())?;
    let summary = reading.summary(note)?.unwrap_or_default();
    let mut found = summary.items.iter().find_map(|item| file_in_item(item, &request.file_name));
    let is_file =
        |body: &&BodyDirectoryEntry| body.name.eq_ignore_ascii_case(FILE_ITEM) && body.length <= FILE_ITEM_BYTES_MAX;
    for body in summary.body.iter().filter(is_file) {
        if found.is_some() {
            break;
        }
        context.spend(STEPS_PER_NOTE)?;
        found = reading.body_item(note, body.ordinal)?.as_ref().and_then(|item| file_in_item(item, &request.file_name));
    }
    let (blob, length) = match found {
        Some(found) => found,
        None if reading.header(note)?.is_some_and(|header| header.is_truncated()) => {
            let reason = "this replica has a part of the document only; read it in a replica that receives attachments";
            return Err(Error::State(reason.to_owned()));
        }
        None => return Err(notes::Error::not_found(format!("the attachment {:?}", request.file_name)).into()),
    };
    Ok(FoundFile { note, blob, length })
}

fn of_attachment(reading: &DatabaseSnapshot<'_>, file: FoundFile, range: Range<u64>) -> Result<(Vec<u8>, u64)> {
    let FoundFile { note, blob, length } = file;
    let range = range.start.min(length)..range.end.min(length);
    if range.is_empty() {
        return Ok((Vec::new(), length));
    }
    Ok((reading.blob_range(note, &blob, range)?, length))
}

fn of_item(reading: &DatabaseSnapshot<'_>, request: &v1::ReadItemRequest, range: Range<u64>) -> Result<(Vec<u8>, u64)> {
    let note = find(reading, request.note.clone())?;
    let summary = reading.summary(note)?.unwrap_or_default();
    let index = usize::try_from(request.index).unwrap_or(usize::MAX);
    let missing = || notes::Error::not_found(format!("the item {:?}", request.name));
    let of_summary: Vec<&Item> = summary.items.iter().filter(|item| item.is_named(&request.name)).collect();
    let Some(item) = of_summary.get(index) else {
        let mut bodies = summary.body.iter().filter(|body| body.name.eq_ignore_ascii_case(&request.name));
        let body = bodies.nth(index - of_summary.len()).ok_or_else(missing)?;
        let part = reading.body_content(note, body.ordinal, range)?.ok_or_else(missing)?;
        return Ok((part.bytes, part.length));
    };
    let bytes = match &item.value {
        ItemValue::Text(text) | ItemValue::RichText(text) => text.as_bytes(),
        ItemValue::MimePart(bytes) => bytes.as_slice(),
        _ => return Err(Error::invalid("only text, rich text and MIME items can be streamed")),
    };
    let total = bytes.len() as u64;
    let place = |at: u64| usize::try_from(at.min(total)).unwrap_or(usize::MAX);
    Ok((bytes[place(range.start)..place(range.end)].to_vec(), total))
}

/// Returns the content and the length of the attachment in an item if it has the given file name, and `None` otherwise.
fn file_in_item(item: &Item, name: &str) -> Option<(BlobId, u64)> {
    match &item.value {
        ItemValue::Object { file_name, length, blob, .. } if file_name == name => Some((*blob, *length)),
        _ => None,
    }
}

/// Checks the header of an attachment before its content arrives.
pub(crate) fn check_header(header: &v1::attach_file_request::Header, bytes_max: u64) -> Result<()> {
    if header.file_name.is_empty() || header.file_name.len() > LOGIN_BYTES_MAX {
        return Err(Error::invalid("the file name must have 1 to 1,024 bytes"));
    }
    if header.length_bytes > bytes_max {
        return Err(Error::Limit { what: "bytes of an attachment (`limits.message_size`)", max: bytes_max });
    }
    Ok(())
}

/// Checks, before the content arrives, most of what would make the upload fail: a missing note, a note of another class
/// or too large, missing rights, or a version other than the one that the caller has read.
///
/// All of it is checked again with the content. So is the quota, because the remaining quota depends on the size of the
/// file that is replaced.
pub(crate) fn check_before_content(
    context: &CallContext,
    header: v1::attach_file_request::Header,
) -> Result<CallOutcome<()>> {
    let access = context.access_for_change::<level::Author>(header.database)?;
    let reader = access.downgrade::<level::Reader>();
    let reading = reader.read()?;
    let name = convert::note_name(header.note)?;
    let found = header_of(&reading, name)?.filter(|found| !found.is_stub());
    let found = found.ok_or_else(|| notes::Error::not_found("the note"))?;
    if found.class == NoteClass::ACL || found.class == NoteClass::VIEW {
        return Err(Error::invalid("access control lists, views and folders can only be changed with their own calls"));
    }
    if found.size > EDITED_NOTE_BYTES_MAX {
        return Err(Error::Limit { what: "bytes of a note that can be changed", max: EDITED_NOTE_BYTES_MAX });
    }
    let grant = reading.grant();
    let is_public = found.flags.contains(NoteFlags::PUBLIC) && grant.may_write_public();
    let items = reading.summary(found.note)?.map(|summary| summary.items).unwrap_or_default();
    if !is_public && !grant.may_edit(&items) {
        let database = access.database().path();
        let who = grant.display_name().to_owned();
        return Err(notes::Error::NotAuthor { database, who, note: found.note }.into());
    }
    edit::check_expected(expected_from_proto(header.expected_sequence, &header.expected_revision_id)?, &found)?;
    Ok(CallOutcome::immediate(()))
}

/// A file that has arrived as a whole.
pub(crate) struct Upload {
    header: v1::attach_file_request::Header,
    content: Vec<u8>,
    /// The memory of the content.
    _memory: MemoryPermit,
}

impl Upload {
    /// Creates an upload from its parts, and the memory that its content takes.
    pub(crate) fn new(header: v1::attach_file_request::Header, (content, memory): (Vec<u8>, MemoryPermit)) -> Self {
        Self { header, content, _memory: memory }
    }
}

/// Adds a file to a note. Replaces a file of the same name.
pub(crate) fn attach(context: &CallContext, upload: &Upload) -> Result<CallOutcome<v1::SavedNote>> {
    let Upload { header, content, .. } = upload;
    let access = context.access_for_change::<level::Author>(header.database.clone())?;
    // Hashing and compressing takes too long for the lock of the database.
    let prepared = context.services.databases.blob_prepare(content, context.pacer().as_ref())?;
    let value = ItemValue::Object {
        file_name: header.file_name.clone(),
        media_type: header.media_type.clone(),
        length: content.len() as u64,
        blob: prepared.id(),
    };
    let item = Item { name: FILE_ITEM.to_owned(), flags: ItemFlags::SUMMARY, value };
    let removes = |item: &Item| file_in_item(item, &header.file_name).is_some();
    let expected = expected_from_proto(header.expected_sequence, &header.expected_revision_id)?;
    let version = ExpectedNote::refusing_conflicts(expected);
    let change = NoteChange { removes: &removes, adds: vec![item], blob: Some(&prepared), ..NoteChange::of(version) };
    note_change::apply(context, &access, header.note.clone(), &change)
}

/// Removes a file from a note.
pub(crate) fn detach(context: &CallContext, request: &v1::DetachFileRequest) -> Result<CallOutcome<v1::SavedNote>> {
    let access = context.access_for_change::<level::Author>(request.database.clone())?;
    let removes = |item: &Item| file_in_item(item, &request.file_name).is_some();
    let what = format!("the attachment {:?}", request.file_name);
    let expected = expected_from_proto(request.expected_sequence, &request.expected_revision_id)?;
    let version = ExpectedNote::refusing_conflicts(expected);
    let change = NoteChange { removes: &removes, must_remove: Some(&what), ..NoteChange::of(version) };
    note_change::apply(context, &access, request.note.clone(), &change)
}
