//! `AUTH` (RFC 5034): a login through SASL, with PLAIN, LOGIN or SCRAM-SHA-256.
//!
//! Without arguments it lists the mechanisms, as older clients expect. `*` cancels an exchange.

use data_encoding::BASE64;

use super::user::ENCRYPTION_REQUIRED;
use crate::codec::Command;
use crate::session::{PendingExchange, Session, Step, ok};
use crate::work::Work;

const SCRAM_SHA_256: &str = "SCRAM-SHA-256";

/// Returns the mechanisms that are offered, the best first.
pub(super) fn mechanisms(session: &Session) -> impl Iterator<Item = &'static str> + use<> {
    let scram = session.offers.scram.then_some(SCRAM_SHA_256);
    scram.into_iter().chain(["PLAIN", "LOGIN"])
}

pub(crate) fn run(session: &mut Session, command: &Command) -> Step {
    if !session.peer.is_private() {
        return session.error(ENCRYPTION_REQUIRED);
    }
    let mut words = command.words();
    let Some(mechanism) = words.next() else {
        let lines: String = mechanisms(session).flat_map(|mechanism| [mechanism, "\r\n"]).collect();
        return Step::Reply(ok("mechanisms follow") + &lines + ".\r\n");
    };
    let initial = match words.next() {
        None => None,
        Some("=") => Some(Vec::new()),
        Some(text) => match BASE64.decode(text.as_bytes()) {
            Ok(initial) => Some(initial),
            Err(_) => return session.error("[AUTH] expected base64"),
        },
    };
    match (mechanisms(session).find(|known| known.eq_ignore_ascii_case(mechanism)), initial) {
        (Some("PLAIN"), Some(response)) => plain(session, &response),
        (Some("PLAIN"), None) => ask(session, PendingExchange::Plain, ""),
        (Some("LOGIN"), Some(name)) => login_name(session, &name),
        (Some("LOGIN"), None) => ask(session, PendingExchange::LoginName, "Username:"),
        (Some(_), first) => Step::Work(Work::Scram(first)),
        (None, _) => session.error("[AUTH] this authentication mechanism is not available"),
    }
}

/// Processes the client's next line of an exchange.
pub(crate) fn continue_exchange(session: &mut Session, pending: PendingExchange, line: &str) -> Step {
    if line == "*" {
        return session.error("[AUTH] authentication was cancelled");
    }
    let Ok(response) = BASE64.decode(line.as_bytes()) else {
        return session.error("[AUTH] expected base64");
    };
    match pending {
        PendingExchange::Plain => plain(session, &response),
        PendingExchange::LoginName => login_name(session, &response),
        PendingExchange::LoginPassword(login) => Step::Work(Work::Login { login, password: response }),
        PendingExchange::Scram(exchange) => Step::Work(Work::Exchange(exchange, response)),
        PendingExchange::ScramEnd(login) if response.is_empty() => Step::Work(Work::Open(login)),
        PendingExchange::ScramEnd(_) => session.error("[AUTH] the final response must be empty"),
    }
}

fn ask(session: &mut Session, pending: PendingExchange, challenge: &str) -> Step {
    session.exchange = Some(pending);
    Step::Reply(format!("+ {}\r\n", BASE64.encode(challenge.as_bytes())))
}

/// Processes the message of PLAIN (RFC 4616): authorization identity, login, password.
fn plain(session: &mut Session, response: &[u8]) -> Step {
    let mut parts = response.split(|byte| *byte == 0);
    let (Some(acts_for), Some(login), Some(password), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return session.error("[AUTH] invalid response for PLAIN");
    };
    let Ok(login) = String::from_utf8(login.to_vec()) else {
        return session.error("[AUTH] the user name is not UTF-8");
    };
    if !acts_for.is_empty() && acts_for != login.as_bytes() {
        return session.error("[AUTH] logging in on behalf of another user is not supported");
    }
    Step::Work(Work::Login { login, password: password.to_vec() })
}

fn login_name(session: &mut Session, name: &[u8]) -> Step {
    match String::from_utf8(name.to_vec()) {
        Ok(name) => ask(session, PendingExchange::LoginPassword(name), "Password:"),
        Err(_) => session.error("[AUTH] the user name is not UTF-8"),
    }
}
