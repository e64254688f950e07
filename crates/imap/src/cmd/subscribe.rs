//! SUBSCRIBE and UNSUBSCRIBE (RFC 9051 §6.3.7, §6.3.8). A name without a mailbox can be subscribed to.

use crate::codec::command::MailboxName;
use crate::error::Result;
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Adds a name to the subscriptions.
pub fn subscribe(session: &mut Session, mailbox: &MailboxName) -> Result<CommandOutcome> {
    let ticket = session.file()?.folder_subscribe(mailbox.as_str())?;
    session.wait_for(ticket);
    Ok(TaggedReply::completed().into())
}

/// Removes a name from the subscriptions.
pub fn unsubscribe(session: &mut Session, mailbox: &MailboxName) -> Result<CommandOutcome> {
    let ticket = session.file()?.folder_unsubscribe(mailbox.as_str())?;
    session.wait_for(ticket);
    Ok(TaggedReply::completed().into())
}
