//! `STAT` (RFC 1939 §5): returns the number of messages and their total octets.
//!
//! Marked messages do not count.

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, err};

pub(super) fn run(session: &mut Session, _command: &Command) -> ConnectionAction {
    match session.inbox() {
        Some(inbox) => ConnectionAction::Reply(format!("+OK {} {}\r\n", inbox.count(), inbox.octets())),
        None => ConnectionAction::Reply(err("log in first")),
    }
}
