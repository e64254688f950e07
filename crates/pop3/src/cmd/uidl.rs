//! `UIDL` (RFC 1939 §7): returns the unique id of one message or of all messages, which is stable across sessions.
//!
//! It consists of UIDVALIDITY and UID, a combination that no other message of the inbox ever has.

use std::fmt::Write;

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, err, ok};

pub(super) fn run(session: &mut Session, command: &Command) -> ConnectionAction {
    let wanted = command.numbers::<1>();
    let Some(inbox) = session.inbox() else {
        return ConnectionAction::Reply(err("log in first"));
    };
    let validity = inbox.maildrop.uid_validity;
    if command.arguments().next().is_none() {
        let mut text = ok("names follow");
        for (number, message) in inbox.unmarked_messages() {
            let _ = write!(text, "{number} {validity:08x}{:08x}\r\n", message.uid.0);
        }
        return ConnectionAction::Reply(text + ".\r\n");
    }
    match wanted.and_then(|[number]| Some((number, inbox.find(number)?.1))) {
        Some((number, message)) => {
            ConnectionAction::Reply(format!("+OK {number} {validity:08x}{:08x}\r\n", message.uid.0))
        }
        None => session.error("no such message"),
    }
}
