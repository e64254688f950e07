//! EHLO, HELO (RFC 5321 §4.1.1.1) and LHLO (RFC 2033 §4.1): the client's name, and the server's extensions.
//!
//! The client's name is kept for the trace field and for SPF. It is never trusted, and it is not compared with
//! anything, as §4.1.4 requires. Each of the three verbs ends a transaction in progress.

use mail::submission::ReceivedProtocol;

use crate::cmd::{CommandContext, auth, starttls};
use crate::codec::reply::write_lines;
use crate::error::EnhancedStatus;
use crate::limits::HELO_BYTES_MAX;
use crate::listener_rules::DisclosurePolicy;
use crate::session::{NextAction, Session};

pub(crate) fn run_ehlo(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    greet(session, call, ReceivedProtocol::Esmtp)
}

pub(crate) fn run_lhlo(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    greet(session, call, ReceivedProtocol::Lmtp)
}

pub(crate) fn run_helo(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    greet(session, call, ReceivedProtocol::Smtp)
}

fn greet(session: &mut Session, call: &mut CommandContext<'_>, protocol: ReceivedProtocol) -> NextAction {
    let name = call.arguments;
    if name.is_empty() || name.len() > HELO_BYTES_MAX || name.contains(char::is_control) {
        return session.refuse(
            call.out,
            501,
            EnhancedStatus(5, 5, 4),
            "Host name required: a domain or an address literal",
        );
    }
    session.helo = Some((name.to_owned(), protocol));
    session.transaction = None;
    if protocol == ReceivedProtocol::Smtp {
        write_lines(call.out, 250, &[&session.rules.hostname]);
    } else {
        write_extensions(session, call.out);
    }
    NextAction::Continue
}

fn write_extensions(session: &Session, out: &mut Vec<u8>) {
    let rules = &session.rules;
    let size = format!("SIZE {}", rules.message_bytes_max);
    let limits = format!("LIMITS RCPTMAX={} MAILMAX={}", rules.recipients_max, rules.messages_max);
    let logins = auth::context(session);
    let mechanisms =
        logins.offered_mechanisms().fold("AUTH".to_owned(), |line, mechanism| line + " " + mechanism.name());
    let mut lines = vec![rules.hostname.as_str(), "PIPELINING", &size];
    if starttls::is_offered(session) {
        lines.push("STARTTLS");
    }
    if logins.offered_mechanisms().next().is_some() {
        lines.push(&mechanisms);
    }
    lines.extend(["ENHANCEDSTATUSCODES", "8BITMIME", "SMTPUTF8", "CHUNKING", "DSN"]);
    if rules.disclosure != DisclosurePolicy::Nothing {
        lines.push("EXPN");
    }
    lines.extend([limits.as_str(), "HELP"]);
    write_lines(out, 250, &lines);
}
