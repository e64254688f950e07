//! NOOP, CHECK (RFC 3501 §6.4.1) and IDLE (RFC 2177): commands that only report the changes of other sessions.

use crate::codec::ResponseWriter;
use crate::error::Result;
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Does nothing. Changes are reported before the tagged line.
pub fn noop() -> Result<CommandOutcome> {
    Ok(TaggedReply::completed().into())
}

/// Does nothing, because every acknowledged change is already durable.
pub fn check(session: &mut Session) -> Result<CommandOutcome> {
    session.selected()?;
    Ok(TaggedReply::completed().into())
}

/// Waits for changes until the client sends DONE.
pub fn idle(out: &mut ResponseWriter) -> Result<CommandOutcome> {
    out.continuation("idling");
    Ok(CommandOutcome::Idle)
}
