//! `USER` and `PASS` (RFC 1939 §7): a login in two commands.
//!
//! Both are refused on a connection that others can read. The reply to `USER` does not reveal whether the user exists.
//! `APOP` is refused.

use crate::codec::Command;
use crate::session::{Session, State, Step, err, ok};
use crate::work::Work;

/// The error on a connection on which a password would be sent in clear.
pub(super) const ENCRYPTION_REQUIRED: &str = "[AUTH] encryption is required before login, use STLS first";

pub(super) fn user(session: &mut Session, command: &Command) -> Step {
    if !session.peer.is_private() {
        return session.error(ENCRYPTION_REQUIRED);
    }
    if command.rest.is_empty() {
        return session.error("the user name is missing");
    }
    session.state = State::Authorization(Some(command.rest.trim().to_owned()));
    Step::Reply(ok("send PASS"))
}

pub(super) fn pass(session: &mut Session, command: &Command) -> Step {
    let State::Authorization(user) = &mut session.state else {
        return Step::Reply(err("you are logged in already"));
    };
    match user.take() {
        Some(login) => Step::Work(Work::Login { login, password: command.rest.clone().into_bytes() }),
        None => session.error("send USER first"),
    }
}

pub(super) fn apop(session: &mut Session, _command: &Command) -> Step {
    session.error("APOP is not supported: it would require cleartext passwords on the server")
}
