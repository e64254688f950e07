//! NOOP (RFC 5321 §4.1.1.9): does nothing. An argument is allowed and ignored.

use crate::cmd::CommandContext;
use crate::session::{NextAction, Session};

pub(crate) fn run(_session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    call.out.extend_from_slice(b"250 2.0.0 Ok\r\n");
    NextAction::Continue
}
