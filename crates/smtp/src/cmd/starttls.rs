//! STARTTLS (RFC 3207): the handshake follows.
//!
//! Commands that a client, or somebody in between, has sent in clear behind STARTTLS end the session where pipelining
//! is strict, and are thrown away by the caller else: they never have an effect (CVE-2011-0411).

use crate::cmd::Call;
use crate::error::Status;
use crate::rules::Encryption;
use crate::session::{Flow, Session};

pub(crate) fn run(session: &mut Session, call: &mut Call<'_>) -> Flow {
    if !call.arguments.is_empty() {
        return session.refuse(call.out, 501, Status(5, 5, 4), "STARTTLS takes no arguments");
    }
    if session.peer.tls {
        return session.refuse(call.out, 503, Status(5, 5, 1), "TLS is on already");
    }
    if !is_offered(session) {
        return session.refuse(call.out, 502, Status(5, 5, 1), "TLS is not available");
    }
    call.out.extend_from_slice(b"220 2.0.0 Ready to start TLS\r\n");
    Flow::StartTls
}

/// Tells whether the client may switch to TLS.
pub(crate) fn is_offered(session: &Session) -> bool {
    session.rules.encryption != Encryption::Off && !session.peer.tls
}
