//! `TOP` (RFC 1939 §7): returns the header of a message and the first lines of its body.
//!
//! The arguments are the message and the number of lines.

use super::retr;
use crate::codec::Command;
use crate::session::{ConnectionAction, Session};

pub(super) fn run(session: &mut Session, command: &Command) -> ConnectionAction {
    match command.numbers::<2>() {
        Some([number, lines]) => retr::read(session, number, Some(lines)),
        None => session.error("a message number and a number of lines are required"),
    }
}
