//! STORE (RFC 9051 §6.4.6) with UNCHANGEDSINCE (RFC 7162).
//!
//! Large sets are changed by several transactions, one per slice. The RFC does not require all or none, and in this way
//! the changes of other sessions do not wait for a hundred thousand messages.

use std::ops::ControlFlow;

use base::{Modseq, Uid, UidSet};
use mail::mailbox::{FlagChange, MailSnapshot, StoreOutcome};

use super::append::flags_of;
use super::copy::permitted_updates;
use crate::codec::ResponseWriter;
use crate::codec::command::{Numbering, StoreAction, StoreCommand};
use crate::error::Result;
use crate::limits;
use crate::session::cursor::MessageCursor;
use crate::session::selected::selected_mailbox_error;
use crate::session::{CommandOutcome, SelectedMailbox, Session, SlicedCommand, TaggedReply, fetch_response, is_full};

/// Begins a STORE.
pub fn store(session: &mut Session, store: StoreCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    session.selected_writable()?;
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    if store.unchanged_since.is_some() {
        session.enable_condstore(&snapshot, out)?;
    }
    if store.numbering == Numbering::Uid {
        // Flags are sent only after the change. Flags sent before it would undo, in the client's view, a change that
        // the client makes with `.SILENT`.
        session.report_messages(&snapshot, out)?;
    }
    session.record_changes(&snapshot)?;
    let uid_ranges = session.selected()?.resolve(&snapshot, &store.set, store.numbering)?;
    let flags = flags_of(&store.flags);
    let change = match store.action {
        StoreAction::Add => FlagChange::Add(flags),
        StoreAction::Remove => FlagChange::Remove(flags),
        StoreAction::Replace => FlagChange::Replace(flags),
    };
    let mut job = StoreJob {
        change,
        numbering: store.numbering,
        silent: store.silent,
        // Everything may have changed since a modseq of another server.
        unchanged_since: store.unchanged_since.map(|since| snapshot.known_to_client(since).unwrap_or(Modseq(0))),
        cursor: MessageCursor::new(uid_ranges, &snapshot),
        unreported: Vec::new(),
        modseq: Modseq(0),
        modified: UidSet::new(),
        modified_numbers: UidSet::new(),
    };
    job.change_batch(session, snapshot)?;
    Ok(CommandOutcome::Job(Box::new(job)))
}

/// A STORE in progress.
struct StoreJob {
    change: FlagChange,
    numbering: Numbering,
    silent: bool,
    unchanged_since: Option<Modseq>,
    cursor: MessageCursor,
    /// UIDs of changed messages that have not been reported yet, in descending order.
    unreported: Vec<u32>,
    /// The mod-sequence of these messages, unless another session has changed them since.
    modseq: Modseq,
    /// UIDs of the messages that failed UNCHANGEDSINCE. If the client numbers by sequence, they are replaced by
    /// `modified_numbers` in the end.
    modified: UidSet,
    modified_numbers: UidSet,
}

impl SlicedCommand for StoreJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        if self.unreported.is_empty() && !self.cursor.is_done() {
            let file = session.file()?;
            let snapshot = file.snapshot()?;
            session.record_changes(&snapshot)?;
            self.change_batch(session, snapshot)?;
        }
        self.report_batch(session, out)?;
        if !self.unreported.is_empty() || !self.cursor.is_done() {
            return Ok(None);
        }
        if self.numbering == Numbering::Sequence && !self.number_modified(session)? {
            return Ok(None);
        }
        let reply = TaggedReply::completed().with_updates(permitted_updates(self.numbering));
        let modified = match self.numbering {
            Numbering::Sequence => &self.modified_numbers,
            Numbering::Uid => &self.modified,
        };
        Ok(Some(if modified.is_empty() { reply } else { reply.with_code(format!("MODIFIED {modified}")) }))
    }
}

impl StoreJob {
    /// Changes the next messages in one transaction.
    fn change_batch(&mut self, session: &mut Session, snapshot: MailSnapshot<'_>) -> Result<()> {
        let file = session.file()?;
        let selected = session.selected()?;
        let batch = self.take_batch(selected, &snapshot)?;
        drop(snapshot);
        if batch.is_empty() {
            return Ok(());
        }
        let outcome = file.store(selected.folder, &batch, &self.change, self.unchanged_since)?;
        let condstore = session.enabled.condstore;
        let selected = session.selected()?;
        if !outcome.changed.is_empty() {
            if self.silent {
                selected.record_silent_change(outcome.modseq);
            } else {
                selected.record_reported_change(outcome.modseq);
            }
        }
        self.modseq = outcome.modseq;
        self.record_batch(&batch, &outcome, condstore);
        session.wait_for(outcome.ticket);
        Ok(())
    }

    /// Takes the next UIDs to change. If few UIDs are left, their existence is not checked.
    fn take_batch(&mut self, selected: &SelectedMailbox, snapshot: &MailSnapshot<'_>) -> Result<UidSet> {
        let count_max = limits::STORE_MESSAGES_PER_TRANSACTION;
        if let Some(few) = self.cursor.take_remaining_up_to(selected, count_max) {
            return Ok(few);
        }
        let mut batch = UidSet::new();
        self.cursor.visit(selected, snapshot, count_max, &mut |_, entry| {
            batch.insert(entry.uid.0);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(batch)
    }

    /// Records the messages to report: the flags of all messages that passed UNCHANGEDSINCE or, for a silent STORE,
    /// only the new mod-sequences of changed messages.
    fn record_batch(&mut self, batch: &UidSet, outcome: &StoreOutcome, condstore: bool) {
        outcome.modified.ranges().for_each(|uids| self.modified.insert_range(uids));
        let needs_response = |uid: &u32| {
            if self.silent { condstore && outcome.changed.contains(*uid) } else { !outcome.modified.contains(*uid) }
        };
        self.unreported = batch.ranges().flatten().rev().filter(needs_response).collect();
    }

    /// Sends the flags of changed messages until the slice is full.
    fn report_batch(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<()> {
        if self.unreported.is_empty() {
            return Ok(());
        }
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        session.selected()?.record_vanished(&snapshot)?;
        session.report_keywords(&snapshot, out)?;
        while let Some(uid) = self.unreported.pop() {
            let selected = session.selected()?;
            let Some(entry) = snapshot.entry(selected.folder, Uid(uid)).map_err(selected_mailbox_error)? else {
                continue;
            };
            let number = selected.sequence_numbers.number_of(&selected.folder_in(&snapshot), uid)?;
            if self.silent && entry.modseq == self.modseq {
                fetch_response::write_modseq(number, (&snapshot, &entry), out);
            } else {
                let message = fetch_response::NumberedEntry { number, entry: &entry, numbering: self.numbering };
                fetch_response::write_flags(session, &snapshot, &message, out)?;
            }
            if is_full(out) {
                break;
            }
        }
        Ok(())
    }

    /// Replaces the next UIDs of messages that failed UNCHANGEDSINCE by their sequence numbers. Returns `true` if none
    /// are left.
    fn number_modified(&mut self, session: &mut Session) -> Result<bool> {
        if self.modified.is_empty() {
            return Ok(true);
        }
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        let selected = session.selected()?;
        selected.record_vanished(&snapshot)?;
        let place = selected.folder_in(&snapshot);
        let uids: Vec<u32> = self.modified.ranges().flatten().take(limits::STORE_MESSAGES_PER_TRANSACTION).collect();
        for uid in &uids {
            self.modified_numbers.insert(selected.sequence_numbers.number_of(&place, *uid)?);
        }
        self.modified.remove_range(0..=uids.last().copied().unwrap_or(u32::MAX));
        Ok(self.modified.is_empty())
    }
}
