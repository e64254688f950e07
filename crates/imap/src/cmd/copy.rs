//! COPY (RFC 9051 §6.4.7) with COPYUID (RFC 4315), and the code that it shares with MOVE.

use std::sync::Arc;

use base::{UidSet, ViewId};
use mail::mailbox::{CopyOutcome, MailFile};

use crate::codec::command::{MailboxName, Numbering, TransferCommand};
use crate::error::{Error, Result};
use crate::session::selected::uids_of_ranges;
use crate::session::{CommandOutcome, PermittedUpdates, Session, TaggedReply};

/// Copies messages in one transaction: all or none.
pub fn copy(session: &mut Session, copy: &TransferCommand) -> Result<CommandOutcome> {
    let transfer = Transfer::prepare(session, copy)?;
    let folder = session.selected()?.folder;
    let outcome = transfer.file.copy(folder, &transfer.uids, transfer.target)?;
    session.wait_for(outcome.ticket);
    let reply = TaggedReply::completed().with_updates(permitted_updates(copy.numbering));
    match copyuid_code(&outcome) {
        Some(code) => Ok(reply.with_code(code).into()),
        None => Ok(TaggedReply { text: "no message was copied".into(), ..reply }.into()),
    }
}

/// The resolved arguments of COPY and MOVE.
pub struct Transfer {
    /// The mail file.
    pub file: Arc<MailFile>,
    /// The messages.
    pub uids: UidSet,
    /// The target mailbox.
    pub target: ViewId,
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
        drop(snapshot);
        Ok(Self { file, uids, target })
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

/// Returns the COPYUID response code, or `None` if no message was copied.
///
/// The client pairs the members of the two sets by their order (RFC 9051 §7.1). Copies receive their UIDs in the order
/// of the old ones, so both lists of UIDs ascend.
pub fn copyuid_code(outcome: &CopyOutcome) -> Option<String> {
    if outcome.pairs.is_empty() {
        return None;
    }
    let old: UidSet = outcome.pairs.iter().map(|(old, _)| *old).collect();
    let new: UidSet = outcome.pairs.iter().map(|(_, new)| *new).collect();
    Some(format!("COPYUID {} {old} {new}", outcome.uid_validity))
}
