//! `STLS` (RFC 2595 §4): switches the connection to encryption.
//!
//! The session forgets everything from before the command, and discards data that was sent after the command in clear.

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, err, ok};

pub(super) fn run(session: &mut Session, _command: &Command) -> ConnectionAction {
    if session.offers.tls {
        ConnectionAction::StartTls(ok("begin TLS"))
    } else {
        ConnectionAction::Reply(err("TLS is not available or already active"))
    }
}
