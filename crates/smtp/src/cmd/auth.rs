//! AUTH (RFC 4954): logins through SASL.
//!
//! AUTH is offered only on connections that cannot be intercepted: under TLS, or from the same machine. A client may
//! authenticate once, outside of a transaction. Failed logins are counted separately from other errors and end the
//! session sooner.

use std::sync::Arc;

use sasl::{Context, Exchange, ExchangeStep, LoginError, LoginProtocol, encode_line};

use crate::cmd::CommandContext;
use crate::codec::reply;
use crate::error::EnhancedStatus;
use crate::listener_rules::AuthCommandPolicy;
use crate::session::{BackendRequest, NextAction, PendingRequest, Phase, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    if session.rules.authentication == AuthCommandPolicy::Off {
        return session.refuse(call.out, 502, EnhancedStatus(5, 5, 1), "AUTH is not available");
    }
    if session.helo.is_none() || session.login.is_some() || session.transaction.is_some() {
        return session.refuse(call.out, 503, EnhancedStatus(5, 5, 1), "AUTH is not possible now");
    }
    let (mechanism, initial_response) = call.arguments.split_once(' ').unwrap_or((call.arguments, ""));
    let initial_response = Some(initial_response.trim().as_bytes()).filter(|response| !response.is_empty());
    let context = Arc::new(context(session));
    proceed(session, Exchange::begin_line(mechanism, initial_response, context), call.out)
}

/// Returns the context of logins, with the mechanisms that the connection offers.
pub(crate) fn context(session: &Session) -> Context {
    let is_offered = session.rules.authentication != AuthCommandPolicy::Off;
    let enabled = if is_offered { session.rules.mechanisms.as_slice() } else { &[] };
    session.peer.login_context(LoginProtocol::Submission, enabled, &session.channel_bindings)
}

/// Processes the client's next line.
pub(crate) fn take_line(session: &mut Session, exchange: Exchange, line: &[u8], out: &mut Vec<u8>) -> NextAction {
    proceed(session, exchange.step_line(line), out)
}

/// Ends the exchange with a line that is too long.
pub(crate) fn refuse_line(session: &mut Session, exchange: Exchange, out: &mut Vec<u8>) -> NextAction {
    proceed(session, exchange.fail(LoginError::TooLong), out)
}

/// Performs a step of the exchange.
pub(crate) fn proceed(session: &mut Session, step: ExchangeStep, out: &mut Vec<u8>) -> NextAction {
    match step {
        ExchangeStep::Challenge { challenge, exchange } => {
            out.extend_from_slice(format!("334 {}\r\n", encode_line(&challenge)).as_bytes());
            session.phase = Phase::Auth(exchange);
            NextAction::Continue
        }
        ExchangeStep::Check(check) => {
            session.phase = Phase::AwaitingResponse(PendingRequest::Login);
            NextAction::CallBackend(BackendRequest::Login(check))
        }
        ExchangeStep::Done { login, .. } => {
            session.login = Some(login.authorization);
            out.extend_from_slice(b"235 2.7.0 Authentication successful\r\n");
            NextAction::Continue
        }
        ExchangeStep::Failed(error) => refuse_login(session, error, out),
    }
}

fn refuse_login(session: &mut Session, error: LoginError, out: &mut Vec<u8>) -> NextAction {
    session.peer.warn_of_channel_binding(LoginProtocol::Submission, error);
    let (code, status, text) = refusal(error);
    if !error.is_failed_attempt() {
        return session.refuse(out, code, status, text);
    }
    session.counts.auth_failures = session.counts.auth_failures.saturating_add(1);
    if session.counts.auth_failures < session.rules.auth_failures_max {
        return session.refuse(out, code, status, text);
    }
    reply::write(out, code, status, text);
    reply::write(out, 421, EnhancedStatus(4, 7, 0), "Too many failures, closing connection");
    NextAction::Close
}

/// Returns the reply to a failed login (RFC 4954 §6).
fn refusal(error: LoginError) -> (u16, EnhancedStatus, &'static str) {
    match error {
        LoginError::InvalidCredentials => (535, EnhancedStatus(5, 7, 8), "Authentication failed"),
        LoginError::AccountDisabled => (535, EnhancedStatus(5, 7, 13), "Account disabled"),
        LoginError::NotAuthorized => (535, EnhancedStatus(5, 7, 8), "You may not act as another user"),
        LoginError::ChannelBinding => {
            (535, EnhancedStatus(5, 7, 8), "The channel binding does not match this connection")
        }
        LoginError::Throttled => (454, EnhancedStatus(4, 7, 0), "Too many failures, try again later"),
        LoginError::ApplicationPasswordRequired => {
            (534, EnhancedStatus(5, 7, 9), "This account needs an application password, see the web mail")
        }
        LoginError::MailFileElsewhere => (535, EnhancedStatus(5, 7, 13), "The mail file is on another server"),
        LoginError::Unavailable => (454, EnhancedStatus(4, 7, 0), "Cannot authenticate now, try again later"),
        LoginError::Malformed => (501, EnhancedStatus(5, 5, 2), "Malformed response"),
        LoginError::NotBase64 => (501, EnhancedStatus(5, 5, 2), "Not base64"),
        LoginError::TooLong => (500, EnhancedStatus(5, 5, 6), "Authentication line too long"),
        LoginError::MechanismNotOffered => (504, EnhancedStatus(5, 5, 4), "Unknown mechanism"),
        LoginError::TlsRequired => (538, EnhancedStatus(5, 7, 11), "Encryption required, issue STARTTLS first"),
        LoginError::Cancelled => (501, EnhancedStatus(5, 7, 0), "Authentication cancelled"),
    }
}
