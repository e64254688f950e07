//! LOGIN (RFC 9051 §6.2.3), and the end of every kind of login.

use std::sync::Arc;

use super::capability;
use crate::backend::LoginError;
use crate::codec::Status;
use crate::error::{Error, Result};
use crate::session::{Account, CommandOutcome, Reply, Session};

/// Logs in with a password.
pub fn login(session: &mut Session, user: &str, password: &[u8]) -> Result<CommandOutcome> {
    require_privacy(session)?;
    match session.site.credentials.authenticate(&session.peer, user, password) {
        Ok(login) => Ok(logged_in(session, login)),
        Err(error) => Ok(login_failed(session, error)),
    }
}

/// Returns an error unless the connection is encrypted or local, so that credentials are not sent where others can read
/// them.
pub fn require_privacy(session: &Session) -> Result<()> {
    if session.peer.is_private() {
        return Ok(());
    }
    Err(Error::No("[PRIVACYREQUIRED] login requires an encrypted connection"))
}

/// Completes the login of a client that has proved its identity: opens its mail file and replies.
pub fn logged_in(session: &mut Session, login: String) -> CommandOutcome {
    match session.site.credentials.open(&login) {
        Ok(file) => {
            session.account = Some(Account { login, file: Arc::new(file) });
            Reply::ok("logged in").with_code(capability::code(session)).into()
        }
        Err(error) => login_failed(session, error),
    }
}

/// Ends a failed login. The failure counts against the client unless logins could not be checked.
pub fn login_failed(session: &mut Session, error: LoginError) -> CommandOutcome {
    if error != LoginError::Unavailable {
        session.login_failures = session.login_failures.saturating_add(1);
    }
    Reply { status: Status::No, ..Reply::ok(error.text()) }.into()
}
