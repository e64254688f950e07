//! `RSET` (RFC 1939 §5): removes all deletion marks.
//!
//! The maildrop stays as it was at login.

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, err, ok};

pub(super) fn run(session: &mut Session, _command: &Command) -> ConnectionAction {
    let Some(inbox) = session.inbox() else {
        return ConnectionAction::Reply(err("log in first"));
    };
    inbox.deleted.clear();
    ConnectionAction::Reply(ok(&format!("{} messages", inbox.count())))
}
