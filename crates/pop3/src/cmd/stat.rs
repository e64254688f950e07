//! `STAT` (RFC 1939 §5): returns the number of messages and their total octets.
//!
//! Marked messages do not count.

use crate::codec::Command;
use crate::session::{Session, Step, err};

pub(super) fn run(session: &mut Session, _command: &Command) -> Step {
    match session.inbox() {
        Some(inbox) => Step::Reply(format!("+OK {} {}\r\n", inbox.count(), inbox.octets())),
        None => Step::Reply(err("log in first")),
    }
}
