//! EXPN (RFC 5321 §3.5): returns the members of a list, if the rules disclose them.

use crate::cmd::{CommandContext, vrfy};
use crate::codec::reply;
use crate::error::EnhancedStatus;
use crate::session::{BackendRequest, NextAction, PendingRequest, Phase, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    if !vrfy::is_disclosed(session) {
        return session.refuse(call.out, 502, EnhancedStatus(5, 7, 0), "EXPN is not available");
    }
    if call.arguments.is_empty() {
        return session.refuse(call.out, 501, EnhancedStatus(5, 5, 4), "Syntax: EXPN list");
    }
    let list = call.arguments.trim_start_matches('<').trim_end_matches('>').to_owned();
    let request = BackendRequest::Members { list };
    session.phase = Phase::AwaitingResponse(PendingRequest::Members);
    NextAction::CallBackend(request)
}

pub(crate) fn on_members_result(session: &mut Session, members: Option<Vec<String>>, out: &mut Vec<u8>) -> NextAction {
    let Some(members) = members.filter(|members| !members.is_empty()) else {
        return session.refuse(out, 550, EnhancedStatus(5, 1, 1), "No such list");
    };
    let lines: Vec<String> = members.iter().map(|member| format!("2.1.5 <{member}>")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    reply::write_lines(out, 250, &lines);
    NextAction::Continue
}
