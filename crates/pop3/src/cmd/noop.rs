//! `NOOP` (RFC 1939 §5): does nothing.
//!
//! It keeps the connection from being closed for silence.

use crate::codec::Command;
use crate::session::{Session, Step, ok};

pub(super) fn run(_session: &mut Session, _command: &Command) -> Step {
    Step::Reply(ok("nothing happened"))
}
