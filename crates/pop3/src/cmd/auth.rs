//! `AUTH` (RFC 5034): a login through SASL, and the replies to failed logins of every kind.
//!
//! Without arguments it lists the mechanisms, as older clients expect. `*` cancels an exchange.

use std::sync::Arc;

use sasl::{Exchange, LoginError};

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, ok};

pub(crate) fn run(session: &mut Session, command: &Command) -> ConnectionAction {
    let context = session.login_context();
    let mut words = command.arguments();
    let Some(mechanism) = words.next() else {
        if let Err(error) = context.check_privacy() {
            return session.refuse_login(error);
        }
        let lines: String = context.offered_mechanisms().flat_map(|mechanism| [mechanism.name(), "\r\n"]).collect();
        return ConnectionAction::Reply(ok("mechanisms follow") + &lines + ".\r\n");
    };
    let initial_response = words.next().map(str::as_bytes);
    session.proceed(Exchange::begin_line(mechanism, initial_response, Arc::new(context)))
}

/// Processes the client's next line of an exchange.
pub(crate) fn continue_exchange(session: &mut Session, exchange: Exchange, line: &str) -> ConnectionAction {
    session.proceed(exchange.step_line(line.as_bytes()))
}

/// Returns the text of the reply to a failed login. The response code AUTH (RFC 3206) states a problem with the user's
/// credentials, so it is not sent if the client misuses the protocol.
pub(crate) fn error_text(error: LoginError) -> &'static str {
    match error {
        LoginError::InvalidCredentials => "[AUTH] wrong login or password",
        LoginError::AccountDisabled => "[AUTH] the account is disabled",
        LoginError::NotAuthorized => "[AUTH] you may not act as another user",
        LoginError::TlsRequired => "[AUTH] encryption is required before login, use STLS first",
        LoginError::Throttled => "[SYS/TEMP] too many failed logins, try again later",
        LoginError::ApplicationPasswordRequired => {
            "[AUTH] this account needs an application password, see the web mail"
        }
        LoginError::MailFileElsewhere => "[SYS/PERM] the mail file of this account is on another server",
        LoginError::Unavailable => "[SYS/TEMP] cannot authenticate now, try again later",
        LoginError::ChannelBinding => "the channel binding does not match this connection",
        LoginError::MechanismNotOffered => "this authentication mechanism is not available",
        LoginError::Malformed => "invalid response for this authentication mechanism",
        LoginError::NotBase64 => "expected base64",
        LoginError::TooLong => "the response is too long",
        LoginError::Cancelled => "authentication was cancelled",
    }
}
