//! `LIST` (RFC 1939 §5): returns the size of one message or of all messages.
//!
//! The size is that of the message as RETR sends it, with CRLF at the end of every line and without dot-stuffing, as
//! the RFC requires.

use std::fmt::Write;

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, err, ok};

pub(super) fn run(session: &mut Session, command: &Command) -> ConnectionAction {
    let wanted = command.numbers::<1>();
    let Some(inbox) = session.inbox() else {
        return ConnectionAction::Reply(err("log in first"));
    };
    if command.arguments().next().is_none() {
        let mut text = ok(&format!("{} messages ({} octets)", inbox.count(), inbox.octets()));
        for (number, message) in inbox.unmarked_messages() {
            let _ = write!(text, "{number} {}\r\n", message.octets);
        }
        return ConnectionAction::Reply(text + ".\r\n");
    }
    match wanted.and_then(|[number]| Some((number, inbox.find(number)?.1))) {
        Some((number, message)) => ConnectionAction::Reply(format!("+OK {number} {}\r\n", message.octets)),
        None => session.error("no such message"),
    }
}
