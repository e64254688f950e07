//! QUIT (RFC 5321 §4.1.1.10): ends the session. A transaction in progress is discarded.

use crate::cmd::CommandContext;
use crate::session::{NextAction, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    session.transaction = None;
    call.out.extend_from_slice(b"221 2.0.0 Bye\r\n");
    NextAction::Close
}
