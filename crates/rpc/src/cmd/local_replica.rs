//! What local replicas of people bring: documents that were changed there, each under the rights of the caller.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::memory::{MemoryBudget, MemoryPermit};
use base::{Timestamp, Unid};
use mail::content_names::name_as_stored;
use mail::message::BODY_ITEMS;
use notes::replica::{ReceiveOutcome, ReplicaNote, StateName};
use notes::{Access, AclLevel, DatabaseSnapshot, Item, Writer, level};
use proto::v1;
use proto::v1::written_note::Outcome;
use revision::Register;
use store::Ticket;
use store::blob::{BlobId, PreparedBlob};

use super::edit::check_quota;
use super::replication::{contents_from_proto, decoded_bytes, find_content, open};
use super::{CallContext, check_count};
use crate::convert::replication::{note_from_proto, revision_from_proto, state_from_proto};
use crate::convert::unid_from_proto;
use crate::error::{Error, Result};
use crate::limits::{CLOCK_AHEAD_MAX, DECODED_BYTES_MAX, NOTES_PER_CALL_MAX, STATES_PER_OFFER_MAX};
use crate::service::CallOutcome;

/// Opens a database for changes from a local replica of the caller.
fn open_for_change(context: &CallContext, database: Option<v1::DatabaseKey>) -> Result<Access<level::Reader>> {
    context.access_for_change::<level::Reader>(database.clone())?;
    open(context, database)
}

/// Compares documents of a local replica with those of this database, and joins marks, keywords and folders of those
/// that both have.
pub(crate) fn offer(
    context: &CallContext,
    request: v1::OfferReplicaNotesRequest,
) -> Result<CallOutcome<v1::OfferReplicaNotesReply>> {
    check_count(request.notes.len(), "notes of a call", NOTES_PER_CALL_MAX)?;
    let states: usize = request.notes.iter().map(|note| note.states.len()).sum();
    check_count(states, "marks, keywords and folders of a call", STATES_PER_OFFER_MAX)?;
    let contents = contents_from_proto(&request.contents)?;
    let access = open_for_change(context, request.database)?;
    let mut reply = v1::OfferReplicaNotesReply::default();
    let mut known = Vec::new();
    let mut purged = Vec::new();
    let latest = context.services.databases.clock().now().after(CLOCK_AHEAD_MAX);
    {
        let reading = access.read()?;
        for (index, note) in (0_u32..).zip(request.notes) {
            let unid = unid_from_proto(&note.unid)?;
            let revision = revision_from_proto(note.revision)?;
            if !reading.knows_brought(unid, revision)? {
                reply.missing_notes.push(index);
                continue;
            }
            if reading.find(unid)?.is_none() {
                purged.push((unid, revision));
            } else if !note.states.is_empty() {
                let mut states = note.states.into_iter().map(state_from_proto).collect::<Result<Vec<_>>>()?;
                // A change by a clock that is far ahead would decide until then.
                states.retain(|(_, register)| register.time <= latest);
                known.push((unid, states));
            }
        }
        for (index, (unid, blob)) in (0_u32..).zip(&contents) {
            if find_content(context, &reading, *unid, blob)?.is_none() {
                reply.missing_contents.push(index);
            }
        }
    }
    if known.is_empty() && purged.is_empty() {
        return Ok(CallOutcome::immediate(reply));
    }
    context.write(&access, |writer| {
        for (unid, revision) in &purged {
            writer.purged_stub_restore(*unid, *revision)?;
        }
        for (unid, state) in &known {
            reply.states_changed += u32::from(join_state(writer, *unid, state)?);
        }
        Ok(reply)
    })
}

/// Joins marks, keywords and folders of a document. One that was deleted meanwhile has none.
fn join_state(writer: &mut Writer<'_, '_>, unid: Unid, state: &[(StateName, Register)]) -> Result<bool> {
    match writer.state_receive_from_person(unid, state) {
        Err(notes::Error::NotFound { .. }) => Ok(false),
        joined => Ok(joined?),
    }
}

/// Versions of documents that a local replica sends.
pub(crate) struct ReplicaWrite {
    database: v1::DatabaseKey,
    /// The contents that have arrived as a whole.
    contents: HashMap<BlobId, Arc<PreparedBlob<'static>>>,
    /// Number of contents that have arrived as a whole. One may arrive twice.
    content_count: usize,
    notes: VecDeque<v1::ReplicaNote>,
    written: Vec<v1::WrittenNote>,
    /// The memory of notes and contents.
    memory: MemoryPermit,
}

impl ReplicaWrite {
    /// Begins without notes.
    pub(crate) fn new(database: v1::DatabaseKey, budget: &MemoryBudget) -> Self {
        let memory = budget.empty_permit();
        Self {
            database,
            contents: HashMap::new(),
            content_count: 0,
            notes: VecDeque::new(),
            written: Vec::new(),
            memory,
        }
    }

    /// Adds a note.
    pub(crate) fn add_note(&mut self, note: v1::ReplicaNote) -> Result<()> {
        check_count(self.notes.len() + 1, "notes of a call", NOTES_PER_CALL_MAX)?;
        let too_large = |_| Error::Limit { what: "bytes of a decoded message", max: DECODED_BYTES_MAX as u64 };
        self.memory.grow(decoded_bytes(&note, DECODED_BYTES_MAX).map_err(too_large)?)?;
        self.notes.push_back(note);
        Ok(())
    }

    /// Adds a content of a number of bytes.
    pub(crate) fn add_content(&mut self, content: PreparedBlob<'static>, bytes: usize) -> Result<()> {
        self.memory.grow(bytes)?;
        self.contents.insert(content.id(), Arc::new(content));
        self.content_count += 1;
        Ok(())
    }

    /// Returns the number of contents that have arrived.
    pub(crate) fn content_count(&self) -> usize {
        self.content_count
    }

    /// Returns `true` if all notes are written or refused.
    pub(crate) fn is_over(&self) -> bool {
        self.notes.is_empty()
    }

    /// Returns the reply.
    pub(crate) fn into_reply(self) -> v1::WriteReplicaNotesReply {
        v1::WriteReplicaNotesReply { notes: self.written }
    }

    /// Fails if the caller may not bring anything, before contents are sent.
    pub(crate) fn check(context: &CallContext, database: v1::DatabaseKey) -> Result<CallOutcome<()>> {
        open_for_change(context, Some(database))?;
        Ok(CallOutcome::immediate(()))
    }

    /// Writes the next notes, for about half of the time of a job.
    pub(crate) fn step(context: &CallContext, mut write: Self) -> Result<CallOutcome<Self>> {
        let access = open_for_change(context, Some(write.database.clone()))?;
        let began = context.services.clock.monotonic();
        let until = began.saturating_add(context.services.pool.job_time_max() / 2);
        let mut ticket: Option<Ticket> = None;
        while let Some(note) = write.notes.pop_front() {
            let outcome = note_from_proto(note).and_then(|note| write.write_note(context, &access, note));
            write.written.push(match outcome {
                Ok(CallOutcome { reply, ticket: latest }) => {
                    ticket = latest.max(ticket);
                    v1::WrittenNote { outcome: reply.into(), refusal: String::new() }
                }
                Err(error) if is_of_note(&error) => {
                    v1::WrittenNote { outcome: Outcome::Refused.into(), refusal: refusal(&error) }
                }
                Err(error) => return Err(error),
            });
            if context.services.clock.monotonic() > until {
                break;
            }
        }
        Ok(CallOutcome { reply: write, ticket })
    }

    /// Takes over a note in a transaction of its own, so that a refused one leaves the others alone.
    fn write_note(
        &self,
        context: &CallContext,
        access: &Access<level::Reader>,
        note: ReplicaNote,
    ) -> Result<CallOutcome<Outcome>> {
        // The size that counts, and the time of receipt, are facts of this server.
        let now = context.services.databases.clock().now();
        let received = note.received.min(now);
        let mut note = ReplicaNote { size: None, crlf_growth: 0, received, state: Vec::new(), ..note };
        name_as_stored(context.services.databases.store().blobs(), &mut note, &mut HashMap::new());
        if access.read()?.has_purged_deletion(note.unid)? {
            // If the deletion of the document was purged, the stub decides.
            context.write(access, |writer| Ok(writer.purged_stub_restore(note.unid, note.revision)?))?;
        }
        check_version(&access.read()?, &note, now.after(CLOCK_AHEAD_MAX))?;
        let rule = access.database().record().deletion_rule();
        let contents: Vec<_> = note.blobs.iter().filter_map(|blob| self.contents.get(blob)).collect();
        context.write(access, |writer| {
            contents.into_iter().for_each(|content| writer.blob_offer(Arc::clone(content)));
            let outcome = writer.note_receive_from_person(&note, rule)?;
            if note.items.is_some() {
                check_quota(writer)?;
            }
            match outcome {
                ReceiveOutcome::Known { .. } => Ok(Outcome::Known),
                ReceiveOutcome::Taken | ReceiveOutcome::FolderRestored => Ok(Outcome::Taken),
                ReceiveOutcome::Merged => Ok(Outcome::Merged),
                ReceiveOutcome::Conflict | ReceiveOutcome::LoserRestorable | ReceiveOutcome::Dropped { .. } => {
                    Ok(Outcome::Conflict)
                }
                ReceiveOutcome::Later => Err(Error::Unavailable),
            }
        })
    }
}

/// Prepares a content, whose memory is held until then.
pub(crate) fn prepare_content(
    context: &CallContext,
    (content, _memory): &(Vec<u8>, MemoryPermit),
) -> Result<CallOutcome<PreparedBlob<'static>>> {
    let prepared = context.services.databases.blob_prepare(content, context.pacer().as_ref())?;
    Ok(CallOutcome::immediate(prepared.into_owned()))
}

/// Checks what the person's program states about a version: its times, and that it changes no message.
fn check_version(reading: &DatabaseSnapshot<'_>, note: &ReplicaNote, latest: Timestamp) -> Result<()> {
    let stored = reading.find(note.unid)?;
    let header = stored.map(|stored| reading.header(stored)).transpose()?.flatten();
    let latest = header.as_ref().map_or(latest, |header| latest.max(header.sequence_time.after(CLOCK_AHEAD_MAX)));
    if note.sequence_time > latest || (header.is_none() && note.created > latest) {
        return Err(Error::invalid("it was saved in the future; correct the clock of the computer, and save it again"));
    }
    // Of two versions of one revision, one whose time is not that of its id may count by its stated time.
    let is_of_time = note.revision.id.is_of_time(note.sequence_time);
    if !is_of_time && reading.grant().level() < AclLevel::Editor {
        return Err(Error::invalid("its revision does not have the time of its save; only an editor can bring it"));
    }
    let is_body = |item: &Item| BODY_ITEMS.iter().any(|name| item.is_named(name));
    let bodies_of = |items: &[Item]| items.iter().filter(|item| is_body(item)).cloned().collect::<Vec<_>>();
    let Some(items) = &note.items else { return Ok(()) };
    let new = bodies_of(items);
    let before = match stored.filter(|_| header.is_some_and(|header| !header.is_stub())) {
        Some(stored) => reading.note(stored)?.map(|note| bodies_of(&note.items)).unwrap_or_default(),
        None => Vec::new(),
    };
    match new == before {
        true => Ok(()),
        false => Err(Error::invalid("the content of a mail message cannot be changed or brought")),
    }
}

/// Returns the reason of a refusal, for people.
fn refusal(error: &Error) -> String {
    match error {
        Error::Notes(notes::Error::NotFound { .. }) => "the server does not let you read this document".to_owned(),
        error => error.to_string(),
    }
}

/// Returns `true` if an error concerns one note, so that the others can be taken over.
fn is_of_note(error: &Error) -> bool {
    use notes::Error as E;
    match error {
        Error::Invalid(_) | Error::Limit { .. } | Error::Exhausted(_) => true,
        Error::Notes(error) => {
            let is_refusal = matches!(
                error,
                E::AccessDenied { .. }
                    | E::NotAuthor { .. }
                    | E::NotFound { .. }
                    | E::Exists { .. }
                    | E::Invalid { .. }
                    | E::Limit { .. }
            );
            is_refusal || error.is_damage()
        }
        _ => false,
    }
}
