//! DELETE (RFC 9051 §6.3.5).

use base::ViewId;

use crate::codec::ResponseWriter;
use crate::codec::command::MailboxName;
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, SliceTimer, SlicedCommand, TaggedReply};

/// Removes a mailbox and its messages. If there are mailboxes below it, its name remains as a level of the hierarchy.
pub fn delete(session: &mut Session, mailbox: MailboxName) -> Result<CommandOutcome> {
    if mailbox.is_inbox() {
        return Err(Error::No("[CANNOT] INBOX cannot be deleted"));
    }
    let file = session.file()?;
    let folder = file.snapshot()?.folder(mailbox.as_str())?;
    let folder = folder.ok_or_else(|| mail::Error::NoMailbox(mailbox.as_str().to_owned()))?.id;
    Ok(CommandOutcome::Job(Box::new(DeleteJob { mailbox, folder })))
}

/// A DELETE in progress.
struct DeleteJob {
    mailbox: MailboxName,
    folder: ViewId,
}

impl SlicedCommand for DeleteJob {
    fn step(&mut self, session: &mut Session, _out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let timer = SliceTimer::start(&session.context);
        let file = session.file()?;
        let ticket = loop {
            match file.folder_delete_part(self.mailbox.as_str(), self.folder)? {
                Some(ticket) => break ticket,
                None if timer.is_over() => return Ok(None),
                None => {}
            }
        };
        session.wait_for(ticket);
        let was_selected = session.selected.as_ref().is_some_and(|selected| selected.folder == self.folder);
        if was_selected {
            session.selected = None;
            return Ok(Some(TaggedReply::completed().with_code("CLOSED")));
        }
        Ok(Some(TaggedReply::completed()))
    }
}
