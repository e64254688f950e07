//! `USER` and `PASS` (RFC 1939 §7): a login in two commands.
//!
//! Both are refused on a connection that others can read. The reply to `USER` does not reveal whether the user exists.
//! `APOP` is refused.

use sasl::{LoginError, PasswordRequest};

use crate::backend_request::BackendRequest;
use crate::codec::Command;
use crate::session::{ConnectionAction, Session, State, err, ok};

pub(super) fn user(session: &mut Session, command: &Command) -> ConnectionAction {
    if !session.peer.is_private() {
        return session.refuse_login(LoginError::TlsRequired);
    }
    if command.rest.is_empty() {
        return session.error("the user name is missing");
    }
    session.state = State::Authorization(Some(command.rest.trim().to_owned()));
    ConnectionAction::Reply(ok("send PASS"))
}

pub(super) fn pass(session: &mut Session, command: &Command) -> ConnectionAction {
    let State::Authorization(user) = &mut session.state else {
        return ConnectionAction::Reply(err("you are logged in already"));
    };
    match user.take() {
        Some(login) => match PasswordRequest::without_sasl(login.as_bytes(), command.rest.as_bytes()) {
            Ok(request) => ConnectionAction::CallBackend(BackendRequest::Password(request)),
            Err(error) => session.refuse_login(error),
        },
        None => session.error("send USER first"),
    }
}

pub(super) fn apop(session: &mut Session, _command: &Command) -> ConnectionAction {
    session.error("APOP is not supported: it would require cleartext passwords on the server")
}
