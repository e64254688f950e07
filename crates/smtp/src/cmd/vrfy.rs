//! VRFY (RFC 5321 §3.5): returns whether a user exists.
//!
//! By default the reply is 252, which is permitted and does not help to harvest addresses. Clients to which the rules
//! disclose users get the true reply.

use mail::submission::ResolvedAddress;

use crate::cmd::CommandContext;
use crate::codec::reply;
use crate::error::{EnhancedStatus, NegativeReply};
use crate::listener_rules::DisclosurePolicy;
use crate::session::{BackendRequest, NextAction, PendingRequest, Phase, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    if call.arguments.is_empty() {
        return session.refuse(call.out, 501, EnhancedStatus(5, 5, 4), "Syntax: VRFY user");
    }
    if !is_disclosed(session) {
        reply::write(
            call.out,
            252,
            EnhancedStatus(2, 0, 0),
            "Cannot VRFY user, but will accept messages and attempt delivery",
        );
        return NextAction::Continue;
    }
    let name = call.arguments.trim_start_matches('<').trim_end_matches('>');
    let address = if name.contains('@') { name.to_owned() } else { format!("{name}@{}", session.rules.domain) };
    let request = BackendRequest::Recipient { address: address.clone() };
    session.phase = Phase::AwaitingResponse(PendingRequest::Verify(address));
    NextAction::CallBackend(request)
}

pub(crate) fn on_verify_result(
    session: &mut Session,
    address: &str,
    verdict: Result<ResolvedAddress, NegativeReply>,
    out: &mut Vec<u8>,
) -> NextAction {
    match verdict {
        Ok(resolved) if resolved.is_local() => reply::write(out, 250, EnhancedStatus(2, 1, 5), &format!("<{address}>")),
        Ok(_) => reply::write(out, 252, EnhancedStatus(2, 0, 0), "Not a local address"),
        Err(refusal) => return session.refuse_with(out, &refusal),
    }
    NextAction::Continue
}

/// Returns `true` if the rules disclose users and list members to this client.
pub(crate) fn is_disclosed(session: &Session) -> bool {
    match session.rules.disclosure {
        DisclosurePolicy::Nothing => false,
        DisclosurePolicy::Users => session.login.is_some(),
        DisclosurePolicy::All => true,
    }
}
