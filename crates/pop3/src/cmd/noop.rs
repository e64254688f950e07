//! `NOOP` (RFC 1939 §5): does nothing.
//!
//! It keeps the connection from being closed for silence.

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, ok};

pub(super) fn run(_session: &mut Session, _command: &Command) -> ConnectionAction {
    ConnectionAction::Reply(ok("nothing happened"))
}
