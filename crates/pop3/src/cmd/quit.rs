//! `QUIT` (RFC 1939 §6): removes the marked messages and ends the session.
//!
//! The reply is sent after the removal is durable.

use std::sync::Arc;

use crate::backend_request::BackendRequest;
use crate::codec::Command;
use crate::session::{ConnectionAction, Session, ok};

pub(super) fn run(session: &mut Session, _command: &Command) -> ConnectionAction {
    let Some(inbox) = session.inbox() else {
        return ConnectionAction::Close(ok("bye"));
    };
    let uids: Vec<_> =
        inbox.deleted.iter().filter_map(|index| Some(inbox.maildrop.messages.get(*index)?.uid)).collect();
    if uids.is_empty() {
        return ConnectionAction::Close(ok("bye"));
    }
    ConnectionAction::CallBackend(BackendRequest::Remove(Arc::clone(&inbox.maildrop.file), inbox.maildrop.folder, uids))
}
