//! RCPT (RFC 5321 §4.1.1.3): adds a recipient to the transaction.
//!
//! The directory is asked about every syntactically valid recipient, to decide whether it is local. A remote recipient
//! is accepted only from an authenticated client, so the server is not an open relay. `<Postmaster>` without a domain
//! is local, as §4.5.1 requires.

use base::ascii_case;
use mail::router::Recipient;
use mail::submission::ResolvedAddress;

use crate::cmd::CommandContext;
use crate::cmd::mail::{bad_address, parameter_refusal};
use crate::codec::parameters::parse_rcpt;
use crate::codec::path;
use crate::error::{EnhancedStatus, NegativeReply};
use crate::session::{BackendRequest, NextAction, PendingRequest, Phase, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    match parse(session, call.arguments) {
        Ok(recipient) => {
            let request = BackendRequest::Recipient { address: recipient.address.clone() };
            session.phase = Phase::AwaitingResponse(PendingRequest::Recipient(Box::new(recipient)));
            NextAction::CallBackend(request)
        }
        Err(refusal) => session.refuse_with(call.out, &refusal),
    }
}

pub(crate) fn on_recipient_result(
    session: &mut Session,
    recipient: Recipient,
    verdict: Result<ResolvedAddress, NegativeReply>,
    out: &mut Vec<u8>,
) -> NextAction {
    let resolved = match verdict {
        Ok(resolved) => resolved,
        Err(refusal) => return session.refuse_with(out, &refusal),
    };
    if !session.may_send_to(&resolved) {
        return session.refuse(out, 550, EnhancedStatus(5, 7, 1), "Relaying denied");
    }
    if session.transaction.as_ref().is_some_and(|transaction| !transaction.resolved.has_capacity_for(&resolved)) {
        return session.refuse(out, 452, EnhancedStatus(4, 5, 3), "Too many members of groups");
    }
    let added = session.transaction.as_mut().map(|transaction| transaction.add_recipient(recipient, resolved));
    if let Some(Err(exhausted)) = added {
        return session.refuse_with(out, &exhausted.into());
    }
    out.extend_from_slice(b"250 2.1.5 Ok\r\n");
    NextAction::Continue
}

fn parse(session: &Session, arguments: &str) -> Result<Recipient, NegativeReply> {
    let Some(transaction) = &session.transaction else {
        return Err(NegativeReply::new(503, EnhancedStatus(5, 5, 1), "Send MAIL first"));
    };
    if transaction.chunks.is_some() || transaction.chunks_failed {
        return Err(NegativeReply::new(503, EnhancedStatus(5, 5, 1), "RCPT cannot follow BDAT"));
    }
    if transaction.recipients.len() >= session.rules.recipients_max {
        return Err(NegativeReply::new(452, EnhancedStatus(4, 5, 3), "Too many recipients"));
    }
    let input = ascii_case::strip_prefix(arguments, "TO:")
        .ok_or_else(|| NegativeReply::new(501, EnhancedStatus(5, 5, 4), "Syntax: RCPT TO:<address>"))?;
    let (path, rest) = path::parse(input).map_err(|error| {
        NegativeReply::new(501, EnhancedStatus(5, 1, 3), bad_address(error, "Bad recipient address syntax"))
    })?;
    let parameters = parse_rcpt(rest).map_err(parameter_refusal)?;
    if path.is_international() && !transaction.parameters.smtputf8 {
        return Err(NegativeReply::new(553, EnhancedStatus(5, 6, 7), "This address needs SMTPUTF8"));
    }
    let address = match path.address {
        lone if lone.eq_ignore_ascii_case("postmaster") => format!("{lone}@{}", session.rules.domain),
        whole if whole.contains('@') => whole.to_owned(),
        _ => return Err(NegativeReply::new(501, EnhancedStatus(5, 1, 3), "The recipient address has no domain")),
    };
    Ok(Recipient { address, notify: parameters.notify, original: parameters.original })
}
