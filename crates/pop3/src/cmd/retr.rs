//! `RETR` (RFC 1939 §5): returns a complete message.
//!
//! Reading does not set `\Seen`, because a POP3 client tracks this itself. A piece of the message is in memory until
//! the client has received it, so it counts in the share of the account.

use std::sync::Arc;

use crate::backend_request::{BackendRequest, Maildrop, MessagePlace, MessageRead};
use crate::codec::{Command, MessageWriter};
use crate::limits::MESSAGE_MEMORY_BYTES;
use crate::session::{ConnectionAction, Session, err, ok};

pub(super) fn run(session: &mut Session, command: &Command) -> ConnectionAction {
    match command.numbers::<1>() {
        Some([number]) => read(session, number, None),
        None => session.error("which message?"),
    }
}

/// Reads a message, or only its top if `lines` is given.
pub(super) fn read(session: &mut Session, number: u32, lines: Option<u32>) -> ConnectionAction {
    let found = session.inbox().and_then(|inbox| {
        let (_, message) = inbox.find(number)?;
        let Maildrop { login, file, folder, .. } = &inbox.maildrop;
        Some((Arc::clone(login), MessagePlace { file: Arc::clone(file), folder: *folder, message }))
    });
    let Some((login, place)) = found else { return session.error("no such message") };
    let octets = place.message.octets;
    let Ok(memory) = session.acquire_memory(login, octets.min(MESSAGE_MEMORY_BYTES)) else {
        return ConnectionAction::Reply(err("[SYS/TEMP] no memory is left for this message, try again later"));
    };
    let (writer, reply) = match lines {
        Some(lines) => (MessageWriter::top(lines), ok("top follows")),
        None => (MessageWriter::whole(), ok(&format!("{octets} octets"))),
    };
    let read = MessageRead::new(place, writer, reply, memory);
    ConnectionAction::CallBackend(BackendRequest::Read(read))
}
