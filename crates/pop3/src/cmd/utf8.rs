//! `UTF8` (RFC 6856 §2): states that the client understands UTF-8 in headers.
//!
//! Messages are sent byte for byte in any case, so the session stores nothing.

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, ok};

pub(super) fn run(_session: &mut Session, _command: &Command) -> ConnectionAction {
    ConnectionAction::Reply(ok("UTF-8 mode enabled"))
}
