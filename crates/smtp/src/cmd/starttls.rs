//! STARTTLS (RFC 3207): the TLS handshake follows.
//!
//! Commands sent in the clear after STARTTLS, by the client or by an attacker in between, never have an effect
//! (CVE-2011-0411). With strict pipelining they end the session, otherwise the caller discards them.

use crate::cmd::CommandContext;
use crate::error::EnhancedStatus;
use crate::listener_rules::StartTlsPolicy;
use crate::session::{NextAction, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    if !call.arguments.is_empty() {
        return session.refuse(call.out, 501, EnhancedStatus(5, 5, 4), "STARTTLS takes no arguments");
    }
    if session.peer.tls {
        return session.refuse(call.out, 503, EnhancedStatus(5, 5, 1), "TLS is already active");
    }
    if !is_offered(session) {
        return session.refuse(call.out, 502, EnhancedStatus(5, 5, 1), "TLS is not available");
    }
    call.out.extend_from_slice(b"220 2.0.0 Ready to start TLS\r\n");
    NextAction::StartTls
}

/// Returns `true` if the client may switch to TLS.
pub(crate) fn is_offered(session: &Session) -> bool {
    session.rules.encryption != StartTlsPolicy::Off && !session.peer.tls
}
