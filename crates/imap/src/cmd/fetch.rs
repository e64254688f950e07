//! FETCH (RFC 9051 §6.4.5) with CHANGEDSINCE and VANISHED (RFC 7162).
//!
//! Messages are processed in slices. Attributes that the folder's entry holds (flags, dates, sizes, mod-sequences) are
//! written while the index is scanned. Attributes that need the message are written for one batch of messages at a
//! time, and one transaction sets `\Seen` for the whole batch before it is written. A slice may end between two
//! attributes of a message, or within a large one (`message_turn`).
//!
//! If a message cannot be read, the response about it is left out or, if a part of it was sent, ended after a complete
//! attribute. If a part of a literal was sent, the connection ends. The command fails: at once or, if only this message
//! is damaged, after the responses about the others.

mod message_turn;

use std::collections::VecDeque;
use std::ops::ControlFlow;

use base::{UidSet, ViewId};
use mail::mailbox::{FlagChange, Flags, MailFile, MailSnapshot};
use notes::{FolderEntry, Marks};

use super::change_scan::{ChangeScan, MissingScan, write_vanished};
use super::content::OpenedMessage;
use super::copy::permitted_updates;
use crate::codec::ResponseWriter;
use crate::codec::command::{FetchAttribute, FetchCommand, MessageSet, Numbering};
use crate::error::{Error, Result};
use crate::limits;
use crate::session::cursor::MessageCursor;
use crate::session::fetch_response::{write_head, write_of_entry};
use crate::session::selected::{selected_mailbox_error, uids_of_ranges};
use crate::session::sequence_numbers::UidRange;
use crate::session::updates::ReportProgress;
use crate::session::{
    CommandOutcome, PermittedUpdates, SelectedMailbox, Session, SliceTimer, SlicedCommand, TaggedReply, is_full,
};
use message_turn::{FetchBudget, MessageRequest, MessageTurn, WriteProgress};

/// Begins a FETCH and writes its first slice.
pub fn fetch(session: &mut Session, fetch: FetchCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let wants_modseq = fetch.changed_since.is_some() || fetch.attributes.contains(&FetchAttribute::ModSeq);
    if fetch.vanished && !session.enabled.qresync {
        return Err(Error::Bad("QRESYNC is not enabled"));
    }
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    if wants_modseq {
        session.enable_condstore(&snapshot, out)?;
    }
    synchronize(session, &snapshot, fetch.numbering, out)?;
    let uid_ranges = session.selected()?.resolve(&snapshot, &fetch.set, fetch.numbering)?;
    if let Some(since) = fetch.changed_since {
        let scan = ChangeScan::new(&snapshot, since);
        let selected = session.selected()?;
        let last = scan.last_known_uid(&snapshot, selected)?;
        let job = ChangedSinceJob {
            scan,
            meant: uids_of_ranges(uid_ranges),
            uids: fetch.vanished.then(|| possibly_vanished(selected, &fetch.set, last)),
            missing: None,
            fetch: Some(fetch),
            job: None,
        };
        return Ok(CommandOutcome::Job(Box::new(job)));
    }
    let mut job = FetchJob::from_command(fetch, MessageCursor::new(uid_ranges, &snapshot));
    match job.slice(session, &file, &snapshot, out) {
        Ok(Some(reply)) => Ok(reply.into()),
        Ok(None) => Ok(CommandOutcome::Job(Box::new(job))),
        Err(error) => Err(session.end_job(&mut job, error, out)),
    }
}

/// Brings the numbering up to date with a snapshot. If the command numbers by UID, all updates are sent to the client;
/// otherwise vanished messages are only recorded.
pub fn synchronize(
    session: &mut Session,
    snapshot: &MailSnapshot<'_>,
    numbering: Numbering,
    out: &mut ResponseWriter,
) -> Result<()> {
    if numbering == Numbering::Uid {
        session.report_from_snapshot(snapshot, PermittedUpdates::All, out)?;
    }
    session.selected()?.record_vanished(snapshot)
}

/// Returns the UIDs of which the client wants to know whether they have vanished. `*` means the last UID ever assigned,
/// not the last UID that still exists, and `last` is the last one that the client may know.
fn possibly_vanished(selected: &SelectedMailbox, set: &MessageSet, last: u32) -> UidSet {
    match set {
        MessageSet::Numbers(numbers) => {
            let mut uids = numbers.resolve(last);
            uids.retain_range(1..=last);
            uids
        }
        MessageSet::Saved => selected.saved.clone(),
    }
}

/// A FETCH of messages that have changed since a mod-sequence. The changes are read before the messages.
struct ChangedSinceJob {
    /// Taken when the changes have been read.
    fetch: Option<FetchCommand>,
    /// The UIDs of the requested messages.
    meant: UidSet,
    scan: ChangeScan,
    /// The UIDs of which those that have vanished are reported. Taken when they have been reported.
    uids: Option<UidSet>,
    /// The search for vanished messages in the folder, if the change log does not contain all of them.
    missing: Option<MissingScan>,
    /// The FETCH of the changed messages.
    job: Option<FetchJob>,
}

impl SlicedCommand for ChangedSinceJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        if let Some(job) = &mut self.job {
            return job.step(session, out);
        }
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        let selected = session.selected()?;
        selected.record_vanished(&snapshot)?;
        if !self.find_changes(&snapshot, selected.folder, out)? {
            return Ok(None);
        }
        let Some(fetch) = self.fetch.take() else { return Ok(Some(TaggedReply::completed())) };
        let uid_ranges = self.scan.take_changed().intersection(&self.meant).ranges().map(UidRange::from).collect();
        let job = self.job.insert(FetchJob::from_command(fetch, MessageCursor::new(uid_ranges, &snapshot)));
        job.slice(session, &file, &snapshot, out)
    }

    fn end_early(&mut self, session: &mut Session, out: &mut ResponseWriter) -> bool {
        self.job.as_mut().is_none_or(|job| job.end_early(session, out))
    }
}

impl ChangedSinceJob {
    /// Continues to read changes. Returns `true` if all have been read, and the vanished messages have been reported.
    fn find_changes(&mut self, snapshot: &MailSnapshot<'_>, folder: ViewId, out: &mut ResponseWriter) -> Result<bool> {
        if self.missing.is_none() {
            if !self.scan.read(snapshot, folder).map_err(selected_mailbox_error)? {
                return Ok(false);
            }
            let Some(uids) = self.uids.take() else { return Ok(true) };
            if self.scan.is_complete {
                write_vanished(&self.scan.take_vanished().intersection(&uids), out);
                return Ok(true);
            }
            self.missing = Some(MissingScan::new(uids));
        }
        let Some(missing) = &mut self.missing else { return Ok(true) };
        if !missing.read(snapshot, folder)? {
            return Ok(false);
        }
        write_vanished(&missing.missing, out);
        Ok(true)
    }
}

/// A FETCH in progress.
struct FetchJob {
    attributes: Vec<FetchAttribute>,
    numbering: Numbering,
    cursor: MessageCursor,
    reads_contents: bool,
    reads_bodies: bool,
    /// `true` if responses contain RFC822.SIZE.
    writes_size: bool,
    marks_seen: bool,
    /// `true` if responses may contain FLAGS.
    sends_flags: bool,
    /// Messages to write next. Used only if message contents are read.
    batch: VecDeque<BatchMessage>,
    /// The place in the response about the first message in the batch.
    turn: MessageTurn,
    /// The error of a damaged message that was left out.
    damage: Option<Error>,
}

/// A message in the batch.
struct BatchMessage {
    number: u32,
    entry: FolderEntry,
    /// `true` if FLAGS must be sent because the command marked the message as seen.
    sends_flags: bool,
}

impl SlicedCommand for FetchJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        session.selected()?.record_vanished(&snapshot)?;
        self.slice(session, &file, &snapshot, out)
    }

    fn end_early(&mut self, session: &mut Session, out: &mut ResponseWriter) -> bool {
        if !self.turn.end_early(out) {
            return false;
        }
        let marked = self.batch.drain(..).filter(|picked| picked.sends_flags).map(|picked| picked.entry.uid.0);
        if let Some(selected) = session.selected.as_deref_mut() {
            // The command marked these messages as seen, but has not written all of their responses.
            selected.queue_flag_updates(marked);
        }
        true
    }
}

/// Creates a job that sends attributes of new messages without a request from the client (RFC 5465 §5.2).
pub fn new_message_job(
    attributes: Vec<FetchAttribute>,
    uids: std::ops::RangeInclusive<u32>,
    snapshot: &MailSnapshot<'_>,
) -> Box<dyn SlicedCommand> {
    Box::new(FetchJob::new(attributes, Numbering::Sequence, MessageCursor::new(vec![UidRange::from(uids)], snapshot)))
}

impl FetchJob {
    fn from_command(fetch: FetchCommand, cursor: MessageCursor) -> Self {
        let mut attributes = fetch.attributes;
        if fetch.numbering == Numbering::Uid && !attributes.contains(&FetchAttribute::Uid) {
            attributes.insert(0, FetchAttribute::Uid);
        }
        if fetch.changed_since.is_some() && !attributes.contains(&FetchAttribute::ModSeq) {
            attributes.push(FetchAttribute::ModSeq);
        }
        Self::new(attributes, fetch.numbering, cursor)
    }

    fn new(attributes: Vec<FetchAttribute>, numbering: Numbering, cursor: MessageCursor) -> Self {
        let marks_seen = attributes.iter().any(FetchAttribute::marks_seen);
        Self {
            reads_contents: !attributes.iter().all(FetchAttribute::needs_entry_only),
            reads_bodies: !attributes.iter().all(FetchAttribute::needs_no_body),
            writes_size: attributes.contains(&FetchAttribute::Rfc822Size),
            marks_seen,
            sends_flags: marks_seen || attributes.contains(&FetchAttribute::Flags),
            attributes,
            numbering,
            cursor,
            batch: VecDeque::new(),
            turn: MessageTurn::default(),
            damage: None,
        }
    }

    fn slice(
        &mut self,
        session: &mut Session,
        file: &MailFile,
        snapshot: &MailSnapshot<'_>,
        out: &mut ResponseWriter,
    ) -> Result<Option<TaggedReply>> {
        // The messages in the batch have been picked from an earlier snapshot, and the first of them may be unfinished.
        if self.sends_flags && self.batch.is_empty() {
            session.report_keywords(snapshot, out)?;
        }
        if self.reads_contents {
            self.write_contents(session, file, snapshot, out)?;
        } else {
            let timer = SliceTimer::start(&session.context);
            self.write_entries((&*session.selected()?, snapshot), &timer, out)?;
        }
        if !self.cursor.is_done() || !self.batch.is_empty() {
            return Ok(None);
        }
        if let Some(error) = self.damage.take() {
            return Err(error);
        }
        if self.turn.unknown_encoding {
            return Err(Error::No("[UNKNOWN-CTE] the content transfer encoding of a part is unknown"));
        }
        let reply = TaggedReply::completed().with_updates(permitted_updates(self.numbering));
        let skipped_vanished = self.numbering == Numbering::Sequence && self.cursor.has_skipped_vanished();
        Ok(Some(if skipped_vanished { reply.with_code("EXPUNGEISSUED") } else { reply }))
    }

    /// Writes attributes from folder entries while the index is scanned. The size of a composed message takes time.
    fn write_entries(
        &mut self,
        (selected, snapshot): (&SelectedMailbox, &MailSnapshot<'_>),
        timer: &SliceTimer,
        out: &mut ResponseWriter,
    ) -> Result<()> {
        let writes_size = self.writes_size;
        self.cursor.visit(selected, snapshot, limits::SLICE_MESSAGES, &mut |number, mut entry| {
            let sizes_it = writes_size && entry.composed;
            if sizes_it {
                entry.size = snapshot.message_size(&entry)?;
            }
            write_head(number, out);
            for (index, attribute) in self.attributes.iter().enumerate() {
                if index > 0 {
                    out.space();
                }
                write_of_entry(attribute, (selected, snapshot, &entry), out);
            }
            out.byte(b')').crlf();
            let is_over = is_full(out) || (sizes_it && timer.is_over());
            Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }

    /// Writes messages whose contents are read, until the slice is full or the batch is empty.
    fn write_contents(
        &mut self,
        session: &mut Session,
        file: &MailFile,
        snapshot: &MailSnapshot<'_>,
        out: &mut ResponseWriter,
    ) -> Result<()> {
        if self.batch.is_empty() {
            self.fill_batch(session, file, snapshot)?;
        }
        let mut budget = FetchBudget::for_slice(session);
        while let Some(mut picked) = self.batch.pop_front() {
            let sized = match self.writes_size {
                true => snapshot.message_size(&picked.entry),
                false => Ok(picked.entry.size),
            };
            let written = sized.map_err(Error::from).and_then(|size| {
                picked.entry.size = size;
                self.write_message((&mut *session, snapshot), &picked, &mut budget, out)
            });
            let written = match written {
                Err(error) => self.leave_out(session, &picked, error, out),
                written => written,
            };
            if !matches!(written, Ok(WriteProgress::All)) {
                self.batch.push_front(picked);
            }
            if written? == WriteProgress::Part || is_full(out) || budget.is_used_up() {
                break;
            }
        }
        Ok(())
    }

    /// Continues after a message that is damaged, so that the client gets the others. Fails if the error is another
    /// one, or if a literal of the message is unfinished.
    fn leave_out(
        &mut self,
        session: &mut Session,
        picked: &BatchMessage,
        error: Error,
        out: &mut ResponseWriter,
    ) -> Result<WriteProgress> {
        if !error.is_damage() || !self.turn.end_early(out) {
            return Err(error);
        }
        if picked.sends_flags {
            session.selected()?.queue_flag_updates([picked.entry.uid.0]);
        }
        self.damage.get_or_insert(error);
        Ok(WriteProgress::All)
    }

    /// Fills the batch with the next messages, and marks them as seen if the attributes require it. The sizes of the
    /// messages limit a batch only if their bodies are read.
    fn fill_batch(&mut self, session: &mut Session, file: &MailFile, snapshot: &MailSnapshot<'_>) -> Result<()> {
        let mut bytes = 0_u64;
        let reads_bodies = self.reads_bodies;
        let batch = &mut self.batch;
        self.cursor.visit(session.selected()?, snapshot, limits::SLICE_CONTENTS, &mut |number, entry| {
            bytes = bytes.saturating_add(if reads_bodies { entry.size } else { 0 });
            batch.push_back(BatchMessage { number, entry, sends_flags: false });
            let full = bytes >= limits::SLICE_BYTES as u64;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if self.marks_seen { mark_seen(session, file, &mut self.batch) } else { Ok(()) }
    }

    fn write_message(
        &mut self,
        (session, snapshot): (&mut Session, &MailSnapshot<'_>),
        picked: &BatchMessage,
        budget: &mut FetchBudget,
        out: &mut ResponseWriter,
    ) -> Result<WriteProgress> {
        let folder = session.selected()?.folder;
        // A document without a message that has changed since it was picked has another UID.
        let is_gone = picked.entry.composed && !snapshot.has_message(folder, picked.entry.uid, picked.entry.note)?;
        let message = if is_gone { None } else { snapshot.message_of(&picked.entry)? };
        let Some(message) = message.map(OpenedMessage) else {
            if self.turn.is_within_literal() {
                // No other data can be sent, so the connection must end.
                return Err(Error::ContentsGone);
            }
            self.turn.end(out);
            return Ok(WriteProgress::All);
        };
        let condstore = session.enabled.condstore;
        let request = MessageRequest {
            attributes: &self.attributes,
            number: picked.number,
            selected: session.selected()?,
            snapshot,
            entry: &picked.entry,
            message: &message,
        };
        if self.turn.write(&request, budget, out)? == WriteProgress::Part {
            return Ok(WriteProgress::Part);
        }
        if picked.sends_flags {
            let also = [(FetchAttribute::Flags, true), (FetchAttribute::ModSeq, condstore)];
            for (attribute, _) in also.iter().filter(|(also, wanted)| *wanted && !self.attributes.contains(also)) {
                self.turn.write_additional(attribute, &request, out);
            }
        }
        self.turn.end(out);
        Ok(WriteProgress::All)
    }
}

/// Sets `\Seen` on the messages of a batch that lack it.
fn mark_seen(session: &mut Session, file: &MailFile, batch: &mut VecDeque<BatchMessage>) -> Result<()> {
    let selected = session.selected()?;
    let is_unseen = |picked: &&BatchMessage| !picked.entry.marks.contains(Marks::SEEN);
    let unseen: UidSet = batch.iter().filter(is_unseen).map(|picked| picked.entry.uid).collect();
    if unseen.is_empty() || !selected.is_writable() {
        return Ok(());
    }
    let change = FlagChange::Add(Flags::from_system_flags(Marks::SEEN));
    let outcome = file.store(selected.folder, &unseen, &change, None)?;
    selected.record_reported_change(outcome.modseq);
    for picked in batch.iter_mut().filter(|picked| outcome.changed.contains(picked.entry.uid.0)) {
        picked.entry.marks = picked.entry.marks.union(Marks::SEEN);
        picked.entry.modseq = outcome.modseq;
        picked.sends_flags = true;
    }
    session.wait_for(outcome.ticket);
    Ok(())
}

impl Session {
    /// Sends attributes of new messages. Continues an interrupted report, which may have stopped within a literal.
    pub(crate) fn send_new_message_attributes(&mut self, out: &mut ResponseWriter) -> Result<ReportProgress> {
        let Some(watch) = self.watch.as_mut() else { return Ok(ReportProgress::All) };
        let mut job = match (watch.announcement.take(), watch.unannounced_uids.take()) {
            (Some(job), fresh) => {
                watch.unannounced_uids = fresh;
                job
            }
            (None, Some(fresh)) if self.selected.is_some() => {
                let attributes =
                    watch.selected_events().map(|(_, events)| events.attributes.clone()).unwrap_or_default();
                let file = self.file()?;
                new_message_job(attributes, fresh, &file.snapshot()?)
            }
            _ => return Ok(ReportProgress::All),
        };
        match job.step(self, out) {
            // The client did not request these attributes, so a part with an unknown encoding is no reason for an
            // error.
            Ok(Some(_)) | Err(Error::No(_)) => Ok(ReportProgress::All),
            Ok(None) => {
                if let Some(watch) = self.watch.as_mut() {
                    watch.announcement = Some(job);
                }
                Ok(ReportProgress::Partial)
            }
            Err(error) => Err(self.end_job(job.as_mut(), error, out)),
        }
    }
}
