//! `RETR` (RFC 1939 §5): returns a complete message.
//!
//! Reading does not set `\Seen`, because a POP3 client tracks this itself.

use std::sync::Arc;

use crate::backend_request::BackendRequest;
use crate::codec::Command;
use crate::session::{ConnectionAction, Session};

pub(super) fn run(session: &mut Session, command: &Command) -> ConnectionAction {
    match command.numbers::<1>() {
        Some([number]) => read(session, number, None),
        None => session.error("which message?"),
    }
}

/// Reads a message, or only its top if `lines` is given.
pub(super) fn read(session: &mut Session, number: u32, lines: Option<u32>) -> ConnectionAction {
    let found = session.inbox().and_then(|inbox| Some((Arc::clone(&inbox.maildrop.file), inbox.find(number)?.1)));
    match found {
        Some((file, message)) => ConnectionAction::CallBackend(BackendRequest::Read(file, message.note, lines)),
        None => session.error("no such message"),
    }
}
