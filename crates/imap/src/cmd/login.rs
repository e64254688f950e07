//! LOGIN (RFC 9051 §6.2.3), and the end of every kind of login.
//!
//! A login whose password was verified recently is an ordinary job. Any other one is checked in the pool for logins,
//! where hashes are computed, and the mail file is opened by a worker in another job, because that may wait for the
//! disk.

use std::sync::Arc;

use base::memory::MemoryOwner;
use sasl::{Login, LoginError, LoginPassword, LoginProtocol, PasswordRequest};

use super::capability;
use crate::codec::{ResponseStatus, ResponseWriter};
use crate::error::Result;
use crate::session::{Account, CommandOutcome, Session, SlicedCommand, TaggedReply};

/// Logs in with a password.
pub fn login(session: &mut Session, user: &str, password: &[u8]) -> CommandOutcome {
    match check_password(session, user, password) {
        Ok(login) => complete_login(session, login),
        Err(error) => refuse_login(session, error).into(),
    }
}

/// Returns `true` if a login takes no hash, because its password was verified recently. May block.
pub fn is_known(session: &Session, user: &str, password: &[u8]) -> bool {
    let origin = session.peer.login_origin(LoginProtocol::Imap);
    let is_known = |request| session.context.accounts.is_password_known(&origin, &request);
    session.peer.is_private() && PasswordRequest::without_sasl(user.as_bytes(), password).is_ok_and(is_known)
}

/// Completes the login of a client that has proved its identity: opens its mail file in another job, and replies.
pub fn complete_login(session: &mut Session, login: Login) -> CommandOutcome {
    session.opening = Some(login.authorization.as_str().into());
    CommandOutcome::NextJob(Box::new(OpenMailFile(login)))
}

/// Ends a failed login, and counts it against the client if it was an attempt.
pub fn refuse_login(session: &mut Session, error: LoginError) -> TaggedReply {
    session.peer.warn_of_channel_binding(LoginProtocol::Imap, error);
    if error.is_failed_attempt() {
        session.login_failures = session.login_failures.saturating_add(1);
    }
    let (status, text) = reply(error);
    TaggedReply { status, ..TaggedReply::ok(text) }
}

/// The end of a login whose mail file is not open yet.
struct OpenMailFile(Login);

impl SlicedCommand for OpenMailFile {
    fn step(&mut self, session: &mut Session, _: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        session.opening = None;
        let login = self.0.authorization.as_str();
        let origin = session.peer.login_origin(LoginProtocol::Imap);
        let reply = match session.context.accounts.open(&origin, &self.0) {
            Ok(file) => {
                session.account = Some(Account {
                    login: login.into(),
                    file: Arc::new(file),
                    is_jmap_login: self.0.password == LoginPassword::Account,
                });
                session.memory = session.context.memory.share_of(&MemoryOwner::account(login));
                TaggedReply::ok("logged in").with_code(capability::capability_code(session))
            }
            Err(error) => {
                session.context.accounts.end_login(&origin);
                refuse_login(session, error)
            }
        };
        Ok(Some(reply))
    }
}

/// Checks a password. Returns [`LoginError::TlsRequired`] if others could read it on this connection.
fn check_password(session: &Session, user: &str, password: &[u8]) -> std::result::Result<Login, LoginError> {
    if !session.peer.is_private() {
        return Err(LoginError::TlsRequired);
    }
    let request = PasswordRequest::without_sasl(user.as_bytes(), password)?;
    session.context.accounts.check_password(&session.peer.login_origin(LoginProtocol::Imap), &request)
}

/// Returns the reply to a failed login, with its response code (RFC 5530).
fn reply(error: LoginError) -> (ResponseStatus, &'static str) {
    match error {
        LoginError::InvalidCredentials => (ResponseStatus::No, "[AUTHENTICATIONFAILED] wrong login or password"),
        LoginError::AccountDisabled => (ResponseStatus::No, "[AUTHORIZATIONFAILED] the account is disabled"),
        LoginError::NotAuthorized => (ResponseStatus::No, "[AUTHORIZATIONFAILED] you may not act as another user"),
        LoginError::Throttled => (ResponseStatus::No, "[LIMIT] too many failed logins, try again later"),
        LoginError::Malformed => {
            (ResponseStatus::No, "[AUTHENTICATIONFAILED] invalid response for this authentication mechanism")
        }
        LoginError::ChannelBinding => {
            (ResponseStatus::No, "[AUTHENTICATIONFAILED] the channel binding does not match this connection")
        }
        LoginError::MechanismNotOffered => {
            (ResponseStatus::No, "[CANNOT] this authentication mechanism is not available")
        }
        LoginError::TlsRequired => (ResponseStatus::No, "[PRIVACYREQUIRED] login requires an encrypted connection"),
        LoginError::ApplicationPasswordRequired => {
            (ResponseStatus::No, "[AUTHORIZATIONFAILED] this account needs an application password, see the web mail")
        }
        LoginError::MailFileElsewhere => {
            (ResponseStatus::No, "[CONTACTADMIN] the mail file of this account is on another server")
        }
        LoginError::Unavailable => (ResponseStatus::No, "[UNAVAILABLE] cannot authenticate now, try again later"),
        LoginError::NotBase64 => (ResponseStatus::Bad, "expected base64"),
        LoginError::TooLong => (ResponseStatus::Bad, "the response is too long"),
        LoginError::Cancelled => (ResponseStatus::Bad, "authentication was cancelled"),
    }
}
