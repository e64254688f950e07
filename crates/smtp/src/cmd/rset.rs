//! RSET (RFC 5321 §4.1.1.5): ends the transaction and keeps all other state.

use crate::cmd::CommandContext;
use crate::error::EnhancedStatus;
use crate::session::{NextAction, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    if !call.arguments.is_empty() {
        return session.refuse(call.out, 501, EnhancedStatus(5, 5, 4), "RSET takes no arguments");
    }
    session.transaction = None;
    call.out.extend_from_slice(b"250 2.0.0 Ok\r\n");
    NextAction::Continue
}
