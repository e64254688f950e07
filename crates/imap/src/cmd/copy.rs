//! COPY (RFC 9051 §6.4.7) with COPYUID (RFC 4315), and the code that it shares with MOVE.

use std::sync::Arc;

use base::{Modseq, Uid, UidSet, ViewId};
use mail::mailbox::{CopyOutcome, MailFile};

use crate::codec::ResponseWriter;
use crate::codec::command::{MailboxName, Numbering, TransferCommand};
use crate::error::{Error, Result};
use crate::limits;
use crate::session::selected::uids_of_ranges;
use crate::session::{CommandOutcome, PermittedUpdates, Session, SliceTimer, SlicedCommand, TaggedReply};

/// Copies messages: all or none.
pub fn copy(session: &mut Session, copy: &TransferCommand) -> Result<CommandOutcome> {
    let transfer = Transfer::prepare(session, copy)?;
    Ok(CommandOutcome::Job(Box::new(CopyJob { transfer, numbering: copy.numbering })))
}

/// A COPY in progress.
struct CopyJob {
    transfer: Transfer,
    numbering: Numbering,
}

impl SlicedCommand for CopyJob {
    fn step(&mut self, session: &mut Session, _out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        if !self.transfer.step(session, MailFile::copy_up_to)? {
            return Ok(None);
        }
        let reply = TaggedReply::completed().with_updates(permitted_updates(self.numbering));
        Ok(Some(match self.transfer.copyuid_code() {
            Some(code) => reply.with_code(code),
            None => TaggedReply { text: "no message was copied".into(), ..reply },
        }))
    }

    /// Removes the copies that were made, because a failed COPY leaves none (RFC 9051 §6.4.7).
    fn end_early(&mut self, session: &mut Session, _out: &mut ResponseWriter) -> bool {
        if let Err(error) = self.transfer.remove_copies(session) {
            session.record_fault(&error);
        }
        true
    }
}

/// A function of the mail file that copies or moves the first of some messages: source, messages, target, and the
/// maximum number of messages.
type TransferFunction = fn(&MailFile, ViewId, &UidSet, ViewId, usize) -> mail::Result<CopyOutcome>;

/// A COPY or MOVE in progress. Every transaction transfers a limited number of messages.
pub struct Transfer {
    file: Arc<MailFile>,
    source: ViewId,
    target: ViewId,
    /// The messages that are left.
    remaining: UidSet,
    /// Old and new UIDs of the transferred messages.
    pairs: Vec<(Uid, Uid)>,
    /// UIDVALIDITY of the target.
    uid_validity: u32,
    /// The modseq of the last transaction.
    pub modseq: Modseq,
}

impl Transfer {
    /// Resolves the messages and the target mailbox.
    pub fn prepare(session: &mut Session, transfer: &TransferCommand) -> Result<Self> {
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        let target = target_mailbox(&snapshot, &transfer.mailbox)?;
        let selected = session.selected()?;
        selected.record_vanished(&snapshot)?;
        let uids = uids_of_ranges(selected.resolve(&snapshot, &transfer.set, transfer.numbering)?);
        let is_requested = |uid: &u32| uids.contains(*uid);
        if transfer.numbering == Numbering::Sequence
            && selected.sequence_numbers.unreported_vanished().iter().any(is_requested)
        {
            // The client addresses messages that it believes to exist, so the command applies to all of them or to none
            // (RFC 2180 §4.4.1).
            return Err(Error::No("[EXPUNGEISSUED] some of these messages have been expunged"));
        }
        let source = selected.folder;
        let uid_next = snapshot.status(source)?.uid_next.0;
        drop(snapshot);
        Ok(Self::new(file, (source, target), uids, uid_next))
    }

    /// Creates a transfer from a mailbox to another one. Messages with UIDs from `uid_next` on are left out: they are
    /// new, or copies that the transfer itself has made.
    pub fn new(file: Arc<MailFile>, (source, target): (ViewId, ViewId), mut uids: UidSet, uid_next: u32) -> Self {
        uids.remove_range(uid_next..=u32::MAX);
        Self { file, source, target, remaining: uids, pairs: Vec::new(), uid_validity: 0, modseq: Modseq(0) }
    }

    /// Returns the modseq of the last change, as clients see it.
    #[must_use]
    pub fn client_modseq(&self) -> u64 {
        self.file.database().modseq_to_client(self.modseq)
    }

    /// Copies or moves messages until none are left or others should get their turn. Returns `true` in the first case.
    pub fn step(&mut self, session: &mut Session, transfer: TransferFunction) -> Result<bool> {
        let timer = SliceTimer::start(&session.context);
        loop {
            let count_max = limits::MESSAGES_PER_TRANSACTION;
            let outcome = transfer(&self.file, self.source, &self.remaining, self.target, count_max)?;
            session.wait_for(outcome.ticket);
            self.uid_validity = outcome.uid_validity;
            self.modseq = outcome.modseq;
            let is_last = outcome.pairs.len() < count_max;
            match outcome.pairs.last() {
                Some((last, _)) if !is_last => self.remaining.remove_range(0..=last.0),
                _ => self.remaining = UidSet::new(),
            }
            self.pairs.extend(outcome.pairs);
            if self.remaining.is_empty() {
                return Ok(true);
            }
            if timer.is_over() {
                return Ok(false);
            }
        }
    }

    /// Removes the copies that were made.
    fn remove_copies(&self, session: &mut Session) -> Result<()> {
        for pairs in self.pairs.chunks(limits::MESSAGES_PER_TRANSACTION) {
            let ticket = self.file.delete(self.target, &pairs.iter().map(|(_, new)| *new).collect())?;
            session.wait_for(ticket);
        }
        Ok(())
    }

    /// Returns the COPYUID response code, or `None` if no message was transferred.
    ///
    /// The client pairs the members of the two sets by their order (RFC 9051 §7.1). Copies receive their UIDs in the
    /// order of the old ones, so both lists of UIDs ascend.
    pub fn copyuid_code(&self) -> Option<String> {
        if self.pairs.is_empty() {
            return None;
        }
        let old: UidSet = self.pairs.iter().map(|(old, _)| *old).collect();
        let new: UidSet = self.pairs.iter().map(|(_, new)| *new).collect();
        Some(format!("COPYUID {} {old} {new}", self.uid_validity))
    }
}

/// Returns the target mailbox of a command that stores messages. The error for a missing mailbox tells the client that
/// it may create it.
pub fn target_mailbox(snapshot: &mail::mailbox::MailSnapshot<'_>, mailbox: &MailboxName) -> Result<ViewId> {
    match snapshot.folder(mailbox.as_str())? {
        Some(folder) if folder.selectable => Ok(folder.id),
        _ => Err(Error::TargetMailboxMissing),
    }
}

/// Returns the updates that may be sent at the end of a command. Sequence numbers may change only if the command did
/// not use them.
pub fn permitted_updates(numbering: Numbering) -> PermittedUpdates {
    match numbering {
        Numbering::Sequence => PermittedUpdates::WithoutExpunges,
        Numbering::Uid => PermittedUpdates::All,
    }
}
