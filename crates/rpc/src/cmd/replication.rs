//! What other servers, and local replicas of people, need: descriptions of databases, lists of changes, notes and
//! contents.

use std::collections::HashSet;
use std::sync::Arc;

use base::{Name, NoteId, Unid};
use mail::content_names::{find_by_hash, name_by_hash};
use notes::replica::{ReplicaNote, StateName};
use notes::unread_replication::may_exchange_marks;
use notes::{Access, DatabaseSnapshot, OdsVersion, ReplicationSettings, level};
use prost::Message as _;
use proto::codec::{CallMessage as _, REPLY_BYTES_MAX};
use proto::decode_cost::{DecodeRefused, reply_heap_bytes};
use proto::v1;
use replica::{Answer, Question, Selection, answer_with, log_unsent};
use revision::Register;
use store::blob::BlobId;

use super::{CallContext, check_count};
use crate::convert::replication::{
    marks_to_proto, note_to_proto, page_to_proto, position_from_proto, position_to_proto, progress_from_proto,
    selection_from_proto, unread_place_from_proto,
};
use crate::convert::{bytes_of, unid_from_proto};
use crate::error::{Error, Result};
use crate::limits::{
    CHUNK_BYTES, EDITED_NOTE_BYTES_MAX, NAMES_PER_CALL_MAX, NOTES_PER_CALL_MAX, PERSON_NOTE_BYTES_MAX,
    REPLICA_NOTE_BYTES_MAX, REPLICA_PART_BYTES, REPLICA_PART_BYTES_MAX, STEP_BYTES,
};
use crate::service::CallOutcome;

/// Size of the body items of a note in bytes above which its memory is measured before it is sent. A smaller one cannot
/// take too much.
const MEASURED_NOTE_BYTES_MIN: u64 = 1 << 20;

/// Number of the field `notes` of `ReplicaNotes`.
const NOTES_FIELD: u32 = 1;

/// Approximate size of a note without its body items, in bytes.
const NOTE_OVERHEAD_BYTES: u64 = 1_024;

/// Describes a database for the creation of a replica.
pub(crate) fn describe(context: &CallContext, request: v1::GetReplicaRequest) -> Result<CallOutcome<v1::Replica>> {
    let access = open_replica(context, request.database)?;
    let record = access.database().record();
    let reading = access.read()?;
    let known = request.known.as_ref().map(position_from_proto).transpose()?;
    let has_known = known.map(|known| Ok::<_, Error>(reading.last_common(known)? == Some(known.modseq))).transpose()?;
    let reply = v1::Replica {
        replica_id: record.replica_id.to_text(),
        path: record.path.clone(),
        title: record.title.clone(),
        kind: record.kind.name().to_owned(),
        owner: record.owner.canonical().to_owned(),
        purge_interval_days: u32::from(record.options.purge_interval_days),
        keep_deleted_hours: record.options.keep_deleted_hours.map_or(0, u32::from),
        clock_us: context.services.databases.clock().now().0,
        disabled: settings_of(context, &access)?.is_disabled,
        position: reading.position(reading.modseq())?.map(position_to_proto),
        has_known: has_known.unwrap_or(false),
        unread_marks: record.options.replicates_unread_marks() && may_exchange_marks(reading.grant()),
        unread_replication: record.options.unread_replication.name().to_owned(),
        not_exchanged: settings_of_caller(context, &reading)?.without.names().into_iter().map(str::to_owned).collect(),
    };
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}

/// Opens a database for a server, or for a local replica of a person. Fails if the settings exclude it from replication
/// with the caller.
pub(crate) fn open(context: &CallContext, key: Option<v1::DatabaseKey>) -> Result<Access<level::Reader>> {
    let access = open_replica(context, key)?;
    if settings_of(context, &access)?.is_disabled {
        let database = access.database().path();
        return Err(Error::State(format!(
            "replication of {database} is disabled here; `doublet db replication {database} set --enable` enables it"
        )));
    }
    Ok(access)
}

/// Returns the settings of this server's replica for the server that calls.
fn settings_of(context: &CallContext, access: &Access<level::Reader>) -> Result<ReplicationSettings> {
    let own = &context.services.directory.options().server;
    Ok(access.read()?.replication_settings(own, &context.identity()?.name)?)
}

/// Opens a database for a server, or for a local replica. Databases that belong to this server alone do not replicate.
fn open_replica(context: &CallContext, key: Option<v1::DatabaseKey>) -> Result<Access<level::Reader>> {
    let access = context.access::<level::Reader>(key)?;
    let database = access.database().path();
    if access.database().record().kind.is_local() {
        return Err(Error::State(format!("{database} belongs to this server alone, so it does not replicate")));
    }
    let structure = access.database().record().ods;
    if structure < OdsVersion::WITH_REVISIONS {
        if access.grant()?.is_server() {
            let begun = context.services.requested_pulls.upgrade(access.database());
            return Err(Error::State(match begun {
                Ok(()) => {
                    format!("{database} has the older structure {structure} and is being upgraded; try again later")
                }
                Err(reason) => format!(
                    "{database} cannot be upgraded from the older structure {structure}: {reason}; the operator can \
                     try it again (`doublet db compact {database} --upgrade`)"
                ),
            }));
        }
        return Err(Error::State(format!(
            "{database} has structure {structure}, which does not replicate; the operator can upgrade it (`doublet db compact {database} --upgrade`)"
        )));
    }
    Ok(access)
}

/// Begins to take over the changes of the caller's databases.
pub(crate) fn request_pull(
    context: &CallContext,
    request: v1::RequestPullRequest,
) -> Result<CallOutcome<v1::RequestedPull>> {
    let server = calling_server(context)?;
    check_count(request.paths.len(), "databases of a call", NAMES_PER_CALL_MAX)?;
    let length = request.paths.iter().map(String::len).max().unwrap_or(0);
    check_count(length, "bytes of a database path", base::limits::DATABASE_PATH_BYTES_MAX)?;
    let pulls = &context.services.requested_pulls;
    pulls.begin(&server, request).map(CallOutcome::immediate).map_err(Error::State)
}

/// Describes how far a pull has come that the caller has requested.
pub(crate) fn requested_pull(
    context: &CallContext,
    request: v1::GetRequestedPullRequest,
) -> Result<CallOutcome<v1::RequestedPull>> {
    let server = calling_server(context)?;
    let found = context.services.requested_pulls.progress(&server, request.number);
    let unknown = || {
        Error::State("this server knows no such pull, perhaps because it was started anew; request it again".to_owned())
    };
    found.map(CallOutcome::immediate).ok_or_else(unknown)
}

/// Returns the name of the server that calls. People may not call.
pub(super) fn calling_server(context: &CallContext) -> Result<Name> {
    let identity = context.identity()?;
    if !identity.server {
        let who = identity.name.abbreviated();
        return Err(notes::Error::ServerOnly { database: "another server".to_owned(), who }.into());
    }
    Ok(identity.name.clone())
}

/// Lists the notes that changed after a position.
pub(crate) fn list(
    context: &CallContext,
    request: &v1::ListChangedNotesRequest,
) -> Result<CallOutcome<v1::ChangedNotes>> {
    let access = open(context, request.database.clone())?;
    let after = request.after.as_ref().map(position_from_proto).transpose()?;
    let progress = request.progress.as_ref().map(progress_from_proto).transpose()?;
    let reading = context.read(&access)?;
    let selection = match request.selection.clone() {
        Some(selection) => selection_from_proto(selection),
        None => selection_of_caller(context, &reading)?,
    };
    let question = Question::Changes { after, progress, selection: Some(Arc::new(selection)) };
    match answer_with(&reading, &question, &settings_of(context, &access)?)? {
        Answer::Changes(mut page) => {
            let shown = ShownStates::new(&access, &reading)?;
            page.notes.iter_mut().for_each(|note| shown.retain(&mut note.state));
            Ok(CallOutcome::when_durable(page_to_proto(page), reading.ticket()))
        }
        Answer::Notes { .. } | Answer::UnreadMarks { .. } => Err(Error::Unavailable),
    }
}

/// Lists the unread marks of all users that changed after a position.
pub(crate) fn list_unread_marks(
    context: &CallContext,
    request: &v1::ListUnreadMarksRequest,
) -> Result<CallOutcome<v1::ListUnreadMarksReply>> {
    let access = open(context, request.database.clone())?;
    let after = request.after.as_ref().map(position_from_proto).transpose()?;
    let place = Some(request.place.as_slice()).filter(|place| !place.is_empty());
    let place = place.map(unread_place_from_proto).transpose()?;
    let reading = context.read(&access)?;
    match replica::answer(&reading, &Question::UnreadMarks { after, place })? {
        Answer::UnreadMarks(page) => Ok(CallOutcome::when_durable(marks_to_proto(page), reading.ticket())),
        Answer::Changes(_) | Answer::Notes(_) => Err(Error::Unavailable),
    }
}

/// What a caller gets of notes.
struct ShownStates {
    /// The folders of which the caller may know; `None` for a server, which gets everything.
    folders: Option<HashSet<Unid>>,
    /// `true` if the caller gets marks and keywords: they are those of the owner of the database.
    marks: bool,
    /// Maximum size of the body items of a note, in bytes.
    note_bytes_max: u64,
}

impl ShownStates {
    fn new(access: &Access<level::Reader>, reading: &DatabaseSnapshot<'_>) -> Result<Self> {
        let grant = access.grant()?;
        if grant.is_server() {
            return Ok(Self { folders: None, marks: true, note_bytes_max: REPLICA_NOTE_BYTES_MAX });
        }
        let mut folders = HashSet::new();
        for folder in reading.folders()?.iter() {
            folders.extend(reading.header(NoteId(folder.view.0))?.map(|header| header.unid));
        }
        let marks = grant.is_own(&access.database().record().owner);
        Ok(Self { folders: Some(folders), marks, note_bytes_max: PERSON_NOTE_BYTES_MAX })
    }

    /// Removes what the caller does not get of the marks, keywords and folders of a note.
    fn retain(&self, state: &mut Vec<(StateName, Register)>) {
        let Some(folders) = &self.folders else { return };
        state.retain(|(name, _)| match name {
            StateName::Mark(_) | StateName::Keyword(_) => self.marks,
            StateName::Folder(unid) => folders.contains(unid),
            StateName::UidValidity => true,
        });
    }
}

/// Returns the selection of the caller's replica as its settings are here. A new replica does not have them yet.
fn selection_of_caller(context: &CallContext, reading: &DatabaseSnapshot<'_>) -> Result<Selection> {
    let settings = settings_of_caller(context, reading)?;
    Ok(Selection::of_settings(&settings, context.services.databases.clock().now()))
}

/// Returns the settings of the caller's replica for this server, as they are here.
fn settings_of_caller(context: &CallContext, reading: &DatabaseSnapshot<'_>) -> Result<ReplicationSettings> {
    let own = &context.services.directory.options().server;
    Ok(reading.replication_settings(&context.identity()?.name, own)?)
}

/// Notes that are being streamed to another server.
#[derive(Clone)]
pub(crate) struct ReplicaNoteStream {
    database: Option<v1::DatabaseKey>,
    unids: Vec<Unid>,
    /// `true` if the caller wants parts of documents only.
    are_truncated: bool,
    /// `true` if the caller takes large notes in parts.
    takes_parts: bool,
    /// The number of notes that were read.
    done: usize,
    /// The part of the next note that was sent, if there is one.
    sent_part: Option<SentPart>,
}

/// The beginning of a large note that was sent.
#[derive(Clone)]
struct SentPart {
    /// The version of the note.
    revision: Option<v1::Revision>,
    /// The number of its items that were sent.
    items: usize,
}

impl ReplicaNoteStream {
    /// Begins a stream.
    pub(crate) fn begin(request: &v1::ReadReplicaNotesRequest) -> Result<Self> {
        check_count(request.unids.len(), "notes of a call", NOTES_PER_CALL_MAX)?;
        let unids: Vec<Unid> = request.unids.iter().map(|unid| unid_from_proto(unid)).collect::<Result<_>>()?;
        if unids.iter().collect::<HashSet<_>>().len() < unids.len() {
            return Err(Error::invalid("a note is named twice"));
        }
        Ok(Self {
            database: request.database.clone(),
            unids,
            are_truncated: request.truncated,
            takes_parts: request.takes_parts,
            done: 0,
            sent_part: None,
        })
    }

    /// Returns `true` if all notes were read.
    pub(crate) fn is_over(&self) -> bool {
        self.done == self.unids.len()
    }

    /// Reads the next notes, about a MiB. Returns them with the stream at its new place.
    pub(crate) fn step(context: &CallContext, stream: &Self) -> Result<CallOutcome<(v1::ReplicaNotes, Self)>> {
        let mut stream = stream.clone();
        let access = open(context, stream.database.clone())?;
        let reading = access.read()?;
        let shown = ShownStates::new(&access, &reading)?;
        let began = context.services.clock.monotonic();
        let until = began.saturating_add(context.services.pool.job_time_max() / 2);
        let mut bytes = 0;
        let mut notes = Vec::new();
        while let Some(unid) = stream.unids.get(stream.done) {
            let is_late = context.services.clock.monotonic() > until;
            if bytes > 0 && (bytes >= STEP_BYTES as u64 || is_late) {
                break;
            }
            let unid = *unid;
            if let Some((note, size)) = stream.read_next(context, &reading, unid, &shown)? {
                bytes += size;
                notes.push(note);
            }
            if stream.sent_part.is_some() {
                break;
            }
            stream.done += 1;
        }
        let ticket = reading.ticket();
        Ok(CallOutcome::when_durable((v1::ReplicaNotes { notes }, stream), ticket))
    }

    /// Returns the next note, or the next part of it, with its approximate size in bytes, or `None` if it is left out.
    fn read_next(
        &mut self,
        context: &CallContext,
        reading: &DatabaseSnapshot<'_>,
        unid: Unid,
        shown: &ShownStates,
    ) -> Result<Option<(v1::ReplicaNote, u64)>> {
        let before = self.sent_part.take();
        let cannot_be_sent = (unsent(unid), NOTE_OVERHEAD_BYTES);
        let Some((note, size)) = read_note(context, reading, (unid, self.are_truncated), shown)? else {
            return Ok(before.map(|_| cannot_be_sent));
        };
        // It may have been changed after its first part was sent.
        if note.unsent || before.as_ref().is_some_and(|before| before.revision != note.revision) {
            return Ok(Some(cannot_be_sent));
        }
        if size <= MEASURED_NOTE_BYTES_MIN {
            return Ok(Some((note, size)));
        }
        let revision = note.revision.clone();
        let bytes_max = if self.takes_parts { REPLICA_PART_BYTES } else { REPLICA_PART_BYTES_MAX };
        let (part, next) = part_of(note, before.map_or(0, |before| before.items), bytes_max);
        let bytes = part.encoded_len();
        let is_whole = next.is_none() || self.takes_parts;
        // The other server refuses a reply that takes too much memory. Other notes come in the same one.
        if !is_whole || bytes > REPLICA_PART_BYTES_MAX || decoded_bytes(&part, REPLY_BYTES_MAX / 2).is_err() {
            let what = "bytes of an item, of the memory of a part, or of a note for a server that takes no parts";
            let reason = notes::Error::Limit { what, max: REPLICA_PART_BYTES_MAX };
            log_unsent(reading, unid, &reason);
            return Ok(Some(cannot_be_sent));
        }
        self.sent_part = next.map(|items| SentPart { revision, items });
        Ok(Some((part, bytes as u64)))
    }
}

/// Returns the part of a note that begins with the item `from`, and the place of the item behind it, if there is one. A
/// part has about `bytes_max` bytes, or one item if that is larger.
fn part_of(mut note: v1::ReplicaNote, from: usize, bytes_max: usize) -> (v1::ReplicaNote, Option<usize>) {
    let mut all = std::mem::take(&mut note.items);
    let mut items = all.split_off(from.min(all.len()));
    let mut bytes = 0;
    let mut fits = |item: &v1::Item| {
        bytes += item.encoded_len();
        bytes <= bytes_max
    };
    let count = items.iter().take_while(|item| fits(item)).count().max(1);
    let more = items.len() > count;
    items.truncate(count);
    let part = match from {
        0 => v1::ReplicaNote { items, more, ..note },
        _ => v1::ReplicaNote { unid: note.unid, items, more, continued: true, ..v1::ReplicaNote::default() },
    };
    (part, more.then_some(from + count))
}

/// Reads a note, or marks it as one that cannot be sent. Returns it with its approximate size in bytes.
fn read_note(
    context: &CallContext,
    reading: &DatabaseSnapshot<'_>,
    (unid, is_wanted_truncated): (Unid, bool),
    shown: &ShownStates,
) -> Result<Option<(v1::ReplicaNote, u64)>> {
    let Some(note) = reading.find(unid)? else { return Ok(None) };
    let blobs = context.services.databases.store().blobs();
    let with_hashes = |read: Option<ReplicaNote>| {
        let named = read.map(|mut replica| {
            if is_wanted_truncated {
                replica.truncate();
            }
            name_by_hash(blobs, reading, note, &mut replica).map(|()| replica)
        });
        named.transpose()
    };
    // Of a truncated document, little is sent.
    let bytes_max = if is_wanted_truncated { EDITED_NOTE_BYTES_MAX } else { shown.note_bytes_max };
    let read = match reading.replica_note_within(note, bytes_max).and_then(with_hashes) {
        Err(error) if error.is_damage() || matches!(error, notes::Error::Limit { .. }) => {
            log_unsent(reading, unid, &error);
            return Ok(Some((unsent(unid), NOTE_OVERHEAD_BYTES)));
        }
        read => read?,
    };
    let Some(mut note) = read else { return Ok(None) };
    if note.is_truncated && !is_wanted_truncated {
        return Ok(Some((unsent(unid), NOTE_OVERHEAD_BYTES)));
    }
    shown.retain(&mut note.state);
    let body = note.items.iter().flatten().filter(|item| !item.is_summary());
    let bytes = NOTE_OVERHEAD_BYTES + body.map(|item| item.encoded_len() as u64).sum::<u64>();
    Ok(Some((note_to_proto(note), bytes)))
}

/// Returns the place of a note that cannot be sent.
fn unsent(unid: Unid) -> v1::ReplicaNote {
    v1::ReplicaNote { unid: unid.0.to_vec(), unsent: true, ..v1::ReplicaNote::default() }
}

/// Returns the memory of a note when it is decoded, in bytes. Fails if it exceeds `bytes_max`.
pub(crate) fn decoded_bytes(note: &v1::ReplicaNote, bytes_max: usize) -> std::result::Result<usize, DecodeRefused> {
    let mut notes = Vec::with_capacity(note.encoded_len() + NOTE_OVERHEAD_BYTES as usize);
    prost::encoding::message::encode(NOTES_FIELD, note, &mut notes);
    let shape = v1::ReplicaNotes::REPLY_SHAPE.expect("it is a reply");
    reply_heap_bytes(shape, &notes, bytes_max)
}

/// Contents of attachments that are being streamed to another server.
#[derive(Clone)]
pub(crate) struct ReplicaContentStream {
    database: Option<v1::DatabaseKey>,
    contents: Vec<(Unid, BlobId)>,
    /// The bytes of each content that the caller has.
    offsets: Vec<u64>,
    /// The number of contents that were sent.
    done: usize,
    /// The bytes of the next content that were sent, or that the caller has.
    offset: u64,
    /// The next content, if a part of it was sent.
    found: Option<FoundContent>,
}

impl ReplicaContentStream {
    /// Begins a stream.
    pub(crate) fn begin(request: &v1::ReadContentsRequest) -> Result<Self> {
        let contents = contents_from_proto(&request.contents)?;
        let offsets: Vec<u64> = request.contents.iter().map(|content| content.offset_bytes).collect();
        let offset = offsets.first().copied().unwrap_or(0);
        Ok(Self { database: request.database.clone(), contents, offsets, done: 0, offset, found: None })
    }

    /// Reads the next piece. Returns it with the stream at its new place, or `None` at the end. A content that the note
    /// no longer has is left out.
    pub(crate) fn step(context: &CallContext, stream: &Self) -> Result<CallOutcome<Option<(v1::ContentPiece, Self)>>> {
        let mut stream = stream.clone();
        let access = open(context, stream.database.clone())?;
        let reading = access.read()?;
        while let Some(content) = stream.contents.get(stream.done).copied() {
            let index = u32::try_from(stream.done).unwrap_or(u32::MAX);
            stream.found = find_again(context, &reading, content, stream.found)?;
            let Some(FoundContent { note, blob, length }) = stream.found else {
                stream.begin_next();
                continue;
            };
            let start = stream.offset.min(length);
            let end = length.min(start.saturating_add(CHUNK_BYTES as u64));
            let content = if end == start { Vec::new() } else { reading.blob_range(note, &blob, start..end)? };
            let last = end == length;
            if last {
                stream.begin_next();
            } else {
                stream.offset = end;
            }
            let piece = v1::ContentPiece { index, content, last, offset_bytes: start };
            return Ok(CallOutcome::when_durable(Some((piece, stream)), reading.ticket()));
        }
        Ok(CallOutcome::immediate(None))
    }

    fn begin_next(&mut self) {
        self.done += 1;
        self.offset = self.offsets.get(self.done).copied().unwrap_or(0);
        self.found = None;
    }
}

pub(crate) fn contents_from_proto(contents: &[v1::ContentOfNote]) -> Result<Vec<(Unid, BlobId)>> {
    check_count(contents.len(), "contents of a call", NOTES_PER_CALL_MAX)?;
    let content = |content: &v1::ContentOfNote| {
        Ok((unid_from_proto(&content.unid)?, BlobId(bytes_of(&content.content_id, "the id of a content")?)))
    };
    contents.iter().map(content).collect()
}

/// A content of a note.
#[derive(Clone, Copy)]
pub(crate) struct FoundContent {
    note: NoteId,
    /// The name of the content in this store.
    blob: BlobId,
    length: u64,
}

/// Returns the content with a hash of a note, or `None` if the note no longer has it.
pub(crate) fn find_content(
    context: &CallContext,
    reading: &DatabaseSnapshot<'_>,
    unid: Unid,
    hash: &BlobId,
) -> Result<Option<FoundContent>> {
    let Some(note) = reading.find(unid)? else { return Ok(None) };
    let blobs = context.services.databases.store().blobs();
    let found = find_by_hash(blobs, reading, note, hash)?;
    Ok(found.map(|(blob, length)| FoundContent { note, blob, length }))
}

/// Returns a content that an earlier step has found, if the note still has it, and otherwise finds it.
fn find_again(
    context: &CallContext,
    reading: &DatabaseSnapshot<'_>,
    (unid, hash): (Unid, BlobId),
    earlier: Option<FoundContent>,
) -> Result<Option<FoundContent>> {
    let is_there = |content: &FoundContent| {
        Ok::<_, Error>(
            reading.find(unid)? == Some(content.note)
                && reading.blob_length(content.note, &content.blob).is_ok_and(|length| length == content.length),
        )
    };
    match earlier {
        Some(content) if is_there(&content)? => Ok(Some(content)),
        _ => find_content(context, reading, unid, &hash),
    }
}

/// Contents of attachments that are being proved to another server.
#[derive(Clone)]
pub(crate) struct ContentProofStream {
    database: Option<v1::DatabaseKey>,
    contents: Vec<(Unid, BlobId)>,
    /// The hasher before the first byte of a content.
    empty: blake3::Hasher,
    /// The hasher of the next content.
    hasher: blake3::Hasher,
    /// The number of contents that were proved.
    done: usize,
    /// The bytes of the next content that were hashed.
    offset: u64,
    /// The next content, if a part of it was hashed.
    found: Option<FoundContent>,
}

impl ContentProofStream {
    /// Begins a stream.
    pub(crate) fn begin(request: &v1::ProveContentsRequest) -> Result<Self> {
        let empty = blake3::Hasher::new_keyed(&bytes_of(&request.key, "the key of a proof")?);
        Ok(Self {
            database: request.database.clone(),
            contents: contents_from_proto(&request.contents)?,
            hasher: empty.clone(),
            empty,
            done: 0,
            offset: 0,
            found: None,
        })
    }

    /// Returns `true` if all contents were proved.
    pub(crate) fn is_over(&self) -> bool {
        self.done == self.contents.len()
    }

    /// Adds the next piece to the hash. Returns the proof if it was the last piece of its content, and the stream at
    /// its new place.
    pub(crate) fn step(context: &CallContext, stream: &Self) -> Result<CallOutcome<(Option<v1::ContentProof>, Self)>> {
        let mut stream = stream.clone();
        let access = open(context, stream.database.clone())?;
        let reading = access.read()?;
        let Some(content) = stream.contents.get(stream.done).copied() else {
            return Ok(CallOutcome::immediate((None, stream)));
        };
        stream.found = find_again(context, &reading, content, stream.found)?;
        let Some(FoundContent { note, blob, length }) = stream.found else {
            stream.begin_next();
            return Ok(CallOutcome::immediate((None, stream)));
        };
        let end = length.min(stream.offset.saturating_add(STEP_BYTES as u64));
        if end > stream.offset {
            stream.hasher.update(&reading.blob_range(note, &blob, stream.offset..end)?);
            stream.offset = end;
        }
        if end < length {
            return Ok(CallOutcome::immediate((None, stream)));
        }
        let index = u32::try_from(stream.done).unwrap_or(u32::MAX);
        let proof = v1::ContentProof { index, proof: stream.hasher.finalize().as_bytes().to_vec() };
        stream.begin_next();
        Ok(CallOutcome::when_durable((Some(proof), stream), reading.ticket()))
    }

    fn begin_next(&mut self) {
        self.done += 1;
        self.offset = 0;
        self.found = None;
        self.hasher = self.empty.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_note_have_all_its_items_once() {
        let item = |name: &str, bytes: usize| notes::Item::body(name, notes::ItemValue::RichText("x".repeat(bytes)));
        let items = [item("a", 10), item("b", 900), item("c", 500), item("d", 450), item("e", 20)];
        let unid = Unid([7; 16]);
        let items: Vec<v1::Item> = items.iter().map(crate::convert::item_to_proto).collect();
        let note = v1::ReplicaNote { unid: unid.0.to_vec(), note_class: 1, items, ..v1::ReplicaNote::default() };
        let mut parts = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next {
            let (part, behind) = part_of(note.clone(), from, 600);
            parts.push(part);
            next = behind;
        }
        let sizes: Vec<usize> = parts.iter().map(|part| part.items.len()).collect();
        assert_eq!(sizes, [1, 1, 1, 2], "an item that is too large is a part of its own");
        assert_eq!(parts.iter().map(|part| part.more).collect::<Vec<_>>(), [true, true, true, false]);
        assert_eq!(parts.iter().map(|part| part.continued).collect::<Vec<_>>(), [false, true, true, true]);
        assert_eq!((parts[0].note_class, parts[1].note_class), (1, 0), "the first part has the other fields");
        let together: Vec<v1::Item> = parts.into_iter().flat_map(|part| part.items).collect();
        assert_eq!(together, note.items);
    }
}
