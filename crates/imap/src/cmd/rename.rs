//! RENAME (RFC 9051 §6.3.6). Renaming INBOX moves its messages and leaves it empty.

use base::UidSet;
use mail::mailbox::MailFile;

use super::copy::Transfer;
use crate::codec::ResponseWriter;
use crate::codec::command::MailboxName;
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, SlicedCommand, TaggedReply};

/// Renames a mailbox and the mailboxes below it.
pub fn rename(session: &mut Session, from: &MailboxName, to: &MailboxName) -> Result<CommandOutcome> {
    let file = session.file()?;
    let to = to.as_str().strip_suffix('/').unwrap_or(to.as_str());
    if from.is_inbox() {
        let snapshot = file.snapshot()?;
        let inbox = snapshot.folder("INBOX")?.ok_or(Error::TargetMailboxMissing)?.id;
        let uid_next = snapshot.status(inbox)?.uid_next.0;
        drop(snapshot);
        let (target, ticket) = file.folder_create(to, None)?;
        session.wait_for(ticket);
        let transfer = Transfer::new(file, (inbox, target), UidSet::from(1..=u32::MAX), uid_next);
        return Ok(CommandOutcome::Job(Box::new(RenameInboxJob { transfer })));
    }
    let ticket = file.folder_rename(from.as_str(), to)?;
    session.wait_for(ticket);
    Ok(TaggedReply::completed().into())
}

/// A RENAME of INBOX in progress.
struct RenameInboxJob {
    transfer: Transfer,
}

impl SlicedCommand for RenameInboxJob {
    fn step(&mut self, session: &mut Session, _out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let is_complete = self.transfer.step(session, MailFile::move_up_to)?;
        Ok(is_complete.then(TaggedReply::completed))
    }
}
