//! CLOSE (RFC 9051 §6.4.1) and UNSELECT (RFC 3691).

use super::expunge::ExpungeJob;
use crate::error::Result;
use crate::session::{CommandOutcome, PermittedUpdates, Session, TaggedReply};

/// Expunges silently, unless the mailbox is read-only or the user may not remove messages, and deselects the mailbox.
/// The reply must not contain HIGHESTMODSEQ (RFC 7162 §3.2.8).
pub fn close(session: &mut Session) -> Result<CommandOutcome> {
    let is_editor = session.file()?.require_editor().is_ok();
    if session.selected()?.is_writable() && is_editor {
        return Ok(CommandOutcome::Job(Box::new(ExpungeJob { uids: None, closes: true })));
    }
    session.selected = None;
    Ok(TaggedReply::completed().with_updates(PermittedUpdates::None).into())
}

/// Deselects the mailbox.
pub fn unselect(session: &mut Session) -> Result<CommandOutcome> {
    session.selected = None;
    Ok(TaggedReply::completed().into())
}
