//! RENAME (RFC 9051 §6.3.6). Renaming INBOX moves its messages and leaves it empty.

use crate::codec::command::MailboxName;
use crate::error::Result;
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Renames a mailbox and the mailboxes below it.
pub fn rename(session: &mut Session, from: &MailboxName, to: &MailboxName) -> Result<CommandOutcome> {
    let file = session.file()?;
    let to = to.as_str().strip_suffix('/').unwrap_or(to.as_str());
    let ticket = file.folder_rename(from.as_str(), to)?;
    session.wait_for(ticket);
    Ok(TaggedReply::completed().into())
}
