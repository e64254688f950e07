//! `RSET` (RFC 1939 §5): removes all deletion marks.
//!
//! The maildrop stays as it was at login.

use crate::codec::Command;
use crate::session::{Session, Step, err, ok};

pub(super) fn run(session: &mut Session, _command: &Command) -> Step {
    let Some(inbox) = session.inbox() else {
        return Step::Reply(err("log in first"));
    };
    inbox.deleted.clear();
    Step::Reply(ok(&format!("{} messages", inbox.count())))
}
