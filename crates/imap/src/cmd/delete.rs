//! DELETE (RFC 9051 §6.3.5).

use crate::codec::command::MailboxName;
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Removes a mailbox and its messages. If there are mailboxes below it, its name remains as a level of the hierarchy.
pub fn delete(session: &mut Session, mailbox: &MailboxName) -> Result<CommandOutcome> {
    if mailbox.is_inbox() {
        return Err(Error::No("[CANNOT] INBOX cannot be deleted"));
    }
    let file = session.file()?;
    let folder = file.snapshot()?.folder(mailbox.as_str())?.map(|folder| folder.id);
    let ticket = file.folder_delete(mailbox.as_str())?;
    session.wait_for(ticket);
    let was_selected = session.selected.as_ref().is_some_and(|selected| Some(selected.folder) == folder);
    if was_selected {
        session.selected = None;
        return Ok(TaggedReply::completed().with_code("CLOSED").into());
    }
    Ok(TaggedReply::completed().into())
}
