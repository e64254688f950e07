//! AUTH (RFC 4954): PLAIN (RFC 4616), LOGIN and SCRAM-SHA-256 (RFC 7677).
//!
//! AUTH is offered only on connections that cannot be intercepted: under TLS, or from the same machine. A client may
//! authenticate once, outside of a transaction. Failed logins are counted separately from other errors and end the
//! session sooner.
//!
//! SMTP cannot carry data with the final 235 reply. The last message of SCRAM is therefore sent as another challenge,
//! which the client answers with an empty line (RFC 4954 §4).

use data_encoding::BASE64;

use crate::backend::{LoginError, SaslExchange, SaslExchangeStep};
use crate::cmd::CallContext;
use crate::codec::reply;
use crate::error::Status;
use crate::listener_rules::{Authentication, ListenerRules};
use crate::session::{BackendRequest, NextAction, OpenQuestion, Phase, Session};

const SCRAM_SHA_256: &str = "SCRAM-SHA-256";

/// Returns the offered mechanisms, best first.
pub(crate) fn mechanisms(rules: &ListenerRules) -> impl Iterator<Item = &'static str> + use<> {
    let scram = rules.scram.then_some(SCRAM_SHA_256);
    scram.into_iter().chain(["PLAIN", "LOGIN"])
}

/// The content of the client's next line.
pub(crate) enum ExpectedResponse {
    /// The single message of PLAIN.
    Plain,
    /// The user name of LOGIN.
    Name,
    /// The password of LOGIN. The variant holds the user name.
    Password(String),
    /// A message of SCRAM. Without an exchange it is the first one.
    Scram(Option<Box<dyn SaslExchange>>),
    /// The empty response to the last message of SCRAM. The variant holds the login.
    End(String),
}

pub(crate) fn run(session: &mut Session, call: &mut CallContext<'_>) -> NextAction {
    if session.rules.authentication == Authentication::Off {
        return session.refuse(call.out, 502, Status(5, 5, 1), "AUTH is not available");
    }
    if !session.peer.is_private() {
        return session.refuse(call.out, 538, Status(5, 7, 11), "Encryption required, issue STARTTLS first");
    }
    if session.helo.is_none() || session.login.is_some() || session.transaction.is_some() {
        return session.refuse(call.out, 503, Status(5, 5, 1), "AUTH is not possible now");
    }
    let (mechanism, initial) = call.arguments.split_once(' ').unwrap_or((call.arguments, ""));
    let awaited = match mechanisms(&session.rules).find(|known| known.eq_ignore_ascii_case(mechanism)) {
        Some("PLAIN") => ExpectedResponse::Plain,
        Some("LOGIN") => ExpectedResponse::Name,
        Some(_) => ExpectedResponse::Scram(None),
        None => return session.refuse(call.out, 504, Status(5, 5, 4), "Unknown mechanism"),
    };
    match initial.trim() {
        "" => challenge(session, awaited, call.out),
        // A single equals sign is an empty initial response.
        "=" => take(session, awaited, Vec::new(), call.out),
        initial => take_line(session, awaited, initial.as_bytes(), call.out),
    }
}

/// Returns `true` if the client may authenticate on this connection.
pub(crate) fn is_offered(session: &Session) -> bool {
    session.rules.authentication != Authentication::Off && session.peer.is_private()
}

/// Processes the client's next line.
pub(crate) fn take_line(
    session: &mut Session,
    awaited: ExpectedResponse,
    line: &[u8],
    out: &mut Vec<u8>,
) -> NextAction {
    if line == b"*" {
        return session.refuse(out, 501, Status(5, 7, 0), "Authentication cancelled");
    }
    match BASE64.decode(line) {
        Ok(response) => take(session, awaited, response, out),
        Err(_) => session.refuse(out, 501, Status(5, 5, 2), "Not base64"),
    }
}

/// Processes the result of a password check.
pub(crate) fn on_login_result(
    session: &mut Session,
    verdict: Result<String, LoginError>,
    out: &mut Vec<u8>,
) -> NextAction {
    match verdict {
        Ok(login) => {
            session.login = Some(login);
            out.extend_from_slice(b"235 2.7.0 Authentication successful\r\n");
            NextAction::Continue
        }
        Err(error) => refuse_login(session, error, out),
    }
}

/// Processes the next step of SCRAM.
pub(crate) fn on_scram_step(
    session: &mut Session,
    next: Option<(Box<dyn SaslExchange>, Result<SaslExchangeStep, LoginError>)>,
    out: &mut Vec<u8>,
) -> NextAction {
    let Some((exchange, step)) = next else {
        return session.refuse(out, 504, Status(5, 5, 4), "Mechanism not available");
    };
    let (awaited, text) = match step {
        Ok(SaslExchangeStep::Challenge(text)) => (ExpectedResponse::Scram(Some(exchange)), text),
        Ok(SaslExchangeStep::Done { login, last }) if last.is_empty() => {
            return on_login_result(session, Ok(login), out);
        }
        Ok(SaslExchangeStep::Done { login, last }) => (ExpectedResponse::End(login), last),
        Err(error) => return refuse_login(session, error, out),
    };
    out.extend_from_slice(format!("334 {}\r\n", BASE64.encode(&text)).as_bytes());
    session.phase = Phase::Auth(awaited);
    NextAction::Continue
}

fn challenge(session: &mut Session, awaited: ExpectedResponse, out: &mut Vec<u8>) -> NextAction {
    let text: &[u8] = match &awaited {
        ExpectedResponse::Name => b"Username:",
        ExpectedResponse::Password(_) => b"Password:",
        ExpectedResponse::Plain | ExpectedResponse::Scram(_) | ExpectedResponse::End(_) => b"",
    };
    out.extend_from_slice(format!("334 {}\r\n", BASE64.encode(text)).as_bytes());
    session.phase = Phase::Auth(awaited);
    NextAction::Continue
}

fn take(session: &mut Session, awaited: ExpectedResponse, response: Vec<u8>, out: &mut Vec<u8>) -> NextAction {
    match awaited {
        ExpectedResponse::Plain => match parse_plain(&response) {
            Some(Plain { login, password, acts_for_other: false }) => ask_login(session, login, password),
            // Acting as another user is refused whatever the password is (RFC 4954 §4: 535).
            Some(Plain { acts_for_other: true, .. }) => refuse_login(session, LoginError::InvalidCredentials, out),
            None => session.refuse(out, 501, Status(5, 5, 2), "Malformed response"),
        },
        ExpectedResponse::Name => match String::from_utf8(response) {
            Ok(name) => challenge(session, ExpectedResponse::Password(name), out),
            Err(_) => session.refuse(out, 501, Status(5, 5, 2), "The user name is not UTF-8"),
        },
        ExpectedResponse::Password(login) => ask_login(session, login, response),
        ExpectedResponse::Scram(exchange) => {
            session.phase = Phase::AwaitingAnswer(OpenQuestion::Scram);
            NextAction::Ask(BackendRequest::Scram { exchange, response })
        }
        ExpectedResponse::End(login) if response.is_empty() => on_login_result(session, Ok(login), out),
        ExpectedResponse::End(_) => refuse_login(session, LoginError::InvalidCredentials, out),
    }
}

fn ask_login(session: &mut Session, login: String, password: Vec<u8>) -> NextAction {
    session.phase = Phase::AwaitingAnswer(OpenQuestion::Login);
    NextAction::Ask(BackendRequest::Login { login, password })
}

/// The content of the message of PLAIN.
struct Plain {
    login: String,
    password: Vec<u8>,
    /// `true` if the authorization identity differs from the login.
    acts_for_other: bool,
}

/// Splits `authorization NUL authentication NUL password`.
fn parse_plain(response: &[u8]) -> Option<Plain> {
    let mut parts = response.split(|byte| *byte == 0);
    let authorization = parts.next()?;
    let login = parts.next()?;
    let password = parts.next()?;
    if parts.next().is_some() || login.is_empty() {
        return None;
    }
    let acts_for_other = !authorization.is_empty() && authorization != login;
    Some(Plain { login: String::from_utf8(login.to_vec()).ok()?, password: password.to_vec(), acts_for_other })
}

fn refuse_login(session: &mut Session, error: LoginError, out: &mut Vec<u8>) -> NextAction {
    let (code, status, text) = match error {
        LoginError::InvalidCredentials => (535, Status(5, 7, 8), "Authentication failed"),
        LoginError::Disabled => (535, Status(5, 7, 13), "Account disabled"),
        LoginError::Throttled => (454, Status(4, 7, 0), "Too many failures, try again later"),
        LoginError::Unavailable => (454, Status(4, 7, 0), "Cannot authenticate now, try again later"),
    };
    session.counts.auth_failures = session.counts.auth_failures.saturating_add(1);
    if session.counts.auth_failures < session.rules.auth_failures_max {
        return session.refuse(out, code, status, text);
    }
    reply::write(out, code, status, text);
    reply::write(out, 421, Status(4, 7, 0), "Too many failures, closing connection");
    NextAction::Close
}
