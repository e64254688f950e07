//! MAIL (RFC 5321 §4.1.1.2): begins a transaction.
//!
//! The session itself refuses a command before EHLO or HELO, a missing but required login, a malformed address, a size
//! beyond the limit and a size for which no memory is left. It asks the backend whether the user may send with this
//! address and whether there is capacity.

use base::ascii_case;

use crate::cmd::CommandContext;
use crate::codec::parameters::{ParameterError, parse_mail};
use crate::codec::path;
use crate::error::{EnhancedStatus, NegativeReply};
use crate::listener_rules::AuthCommandPolicy;
use crate::session::{BackendRequest, MailTransaction, NextAction, PendingRequest, Phase, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    if let Some(refusal) = find_refusal(session) {
        return session.refuse_with(call.out, &refusal);
    }
    match parse(session, call.arguments) {
        Ok(transaction) => {
            let request = BackendRequest::Sender {
                login: session.login.clone(),
                reverse_path: transaction.reverse_path.clone(),
                size_bytes: transaction.parameters.size.unwrap_or(0),
            };
            session.transaction = Some(transaction);
            session.counts.transactions = session.counts.transactions.saturating_add(1);
            session.phase = Phase::AwaitingResponse(PendingRequest::Sender);
            NextAction::CallBackend(request)
        }
        Err(refusal) => session.refuse_with(call.out, &refusal),
    }
}

pub(crate) fn on_sender_result(
    session: &mut Session,
    verdict: Result<(), NegativeReply>,
    out: &mut Vec<u8>,
) -> NextAction {
    match verdict {
        Ok(()) => {
            out.extend_from_slice(b"250 2.1.0 Ok\r\n");
            NextAction::Continue
        }
        Err(refusal) => {
            session.transaction = None;
            session.refuse_with(out, &refusal)
        }
    }
}

fn find_refusal(session: &Session) -> Option<NegativeReply> {
    let rules = &session.rules;
    if session.helo.is_none() {
        Some(NegativeReply::new(503, EnhancedStatus(5, 5, 1), "Send EHLO or HELO first (LHLO in LMTP)"))
    } else if rules.authentication == AuthCommandPolicy::Required && session.login.is_none() {
        Some(NegativeReply::new(530, EnhancedStatus(5, 7, 0), "Authentication required"))
    } else if session.transaction.is_some() {
        Some(NegativeReply::new(503, EnhancedStatus(5, 5, 1), "Sender already specified"))
    } else if session.counts.messages >= rules.messages_max {
        Some(NegativeReply::new(
            452,
            EnhancedStatus(4, 5, 3),
            "Too many messages in one session, open a new connection",
        ))
    } else {
        None
    }
}

fn parse(session: &Session, arguments: &str) -> Result<MailTransaction, NegativeReply> {
    let syntax = |text: &'static str| NegativeReply::new(501, EnhancedStatus(5, 5, 4), text);
    let input = ascii_case::strip_prefix(arguments, "FROM:").ok_or_else(|| syntax("Syntax: MAIL FROM:<address>"))?;
    let (path, rest) = path::parse(input).map_err(|error| {
        NegativeReply::new(501, EnhancedStatus(5, 1, 7), bad_address(error, "Bad sender address syntax"))
    })?;
    let parameters = parse_mail(rest).map_err(parameter_refusal)?;
    if !path.is_null() && !path.address.contains('@') {
        return Err(NegativeReply::new(501, EnhancedStatus(5, 1, 7), "The sender address has no domain"));
    }
    if path.is_international() && !parameters.smtputf8 {
        return Err(NegativeReply::new(553, EnhancedStatus(5, 6, 7), "This address needs SMTPUTF8"));
    }
    if parameters.size.is_some_and(|size| size > session.message_bytes_max()) {
        return Err(NegativeReply::new(552, EnhancedStatus(5, 3, 4), "Message exceeds the size limit"));
    }
    Ok(MailTransaction::new(path.address.to_owned(), parameters, &session.memory_budget())?)
}

/// Returns the refusal for an error in the parameters.
pub(crate) fn parameter_refusal(error: ParameterError) -> NegativeReply {
    match error {
        ParameterError::Unknown => NegativeReply::new(555, EnhancedStatus(5, 5, 4), "Unknown parameter"),
        ParameterError::Repeated => NegativeReply::new(501, EnhancedStatus(5, 5, 4), "Duplicate parameter"),
        ParameterError::Value(name) => {
            NegativeReply::new(501, EnhancedStatus(5, 5, 4), format!("Bad value for {name}"))
        }
    }
}

/// Returns a description of the error in an address.
pub(crate) fn bad_address(error: path::PathError, text: &str) -> String {
    let part = match error {
        path::PathError::Brackets => "enclose it in <>",
        path::PathError::LocalPart => "the part before the @",
        path::PathError::Domain => "the domain",
    };
    format!("{text}: {part}")
}
