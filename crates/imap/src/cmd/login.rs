//! LOGIN (RFC 9051 §6.2.3), and what every login ends with.

use std::sync::Arc;

use super::capability;
use crate::backend::LoginError;
use crate::codec::Status;
use crate::error::{Error, Result};
use crate::session::{Account, Next, Reply, Session};

/// Logs in with a password.
pub fn login(session: &mut Session, user: &str, password: &[u8]) -> Result<Next> {
    require_privacy(session)?;
    match session.site.credentials.authenticate(&session.peer, user, password) {
        Ok(login) => Ok(logged_in(session, login)),
        Err(error) => Ok(failed(session, error)),
    }
}

/// Refuses to talk of secrets where others can listen.
pub fn require_privacy(session: &Session) -> Result<()> {
    if session.peer.is_private() {
        return Ok(());
    }
    Err(Error::No("[PRIVACYREQUIRED] log in over an encrypted connection only"))
}

/// Opens the mail file of somebody who has proved who it is.
pub fn logged_in(session: &mut Session, login: String) -> Next {
    match session.site.credentials.open(&login) {
        Ok(file) => {
            session.account = Some(Account { login, file: Arc::new(file) });
            Reply::ok("you are logged in").with_code(capability::code(session)).into()
        }
        Err(error) => failed(session, error),
    }
}

/// Ends a failed login. That nobody can be asked is not the client's failure.
pub fn failed(session: &mut Session, error: LoginError) -> Next {
    if error != LoginError::Unavailable {
        session.login_failures = session.login_failures.saturating_add(1);
    }
    Reply { status: Status::No, ..Reply::ok(error.text()) }.into()
}
