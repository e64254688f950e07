//! LSUB (RFC 3501 §6.3.9), the older command that lists subscriptions.

use crate::codec::ResponseWriter;
use crate::codec::command::MailboxName;
use crate::error::Result;
use crate::session::hierarchy::MailboxPattern;
use crate::session::{CommandOutcome, Session, TaggedReply, list_response};

/// Lists subscribed names.
pub fn lsub(
    session: &mut Session,
    reference: &MailboxName,
    pattern: Option<&str>,
    out: &mut ResponseWriter,
) -> Result<CommandOutcome> {
    let Some(pattern) = pattern else { return Ok(TaggedReply::completed().into()) };
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    let pattern = MailboxPattern::new(reference.as_str(), pattern);
    for (name, subscribed) in list_response::hierarchy(&snapshot)?.subscribed(&pattern) {
        out.untagged().text(if subscribed { "LSUB () \"/\" " } else { "LSUB (\\Noselect) \"/\" " });
        out.mailbox(name).crlf();
    }
    Ok(TaggedReply::completed().into())
}
