//! `STLS` (RFC 2595 §4): encryption from here on.
//! What was said before is forgotten, and what was sent behind the command is thrown away.

use crate::codec::Command;
use crate::session::{Session, Step, err, ok};

pub(super) fn run(session: &mut Session, _command: &Command) -> Step {
    if session.offers.tls {
        Step::StartTls(ok("begin TLS"))
    } else {
        Step::Reply(err("TLS is not there or there already"))
    }
}
