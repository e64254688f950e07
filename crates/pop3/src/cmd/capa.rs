//! `CAPA` (RFC 2449 §5): lists the capabilities in the current state.
//!
//! Login methods are listed only where they may be used.

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, State, ok};

pub(super) fn run(session: &mut Session, _command: &Command) -> ConnectionAction {
    let mut text = ok("capabilities follow");
    let mut say = |line: &str| {
        text.push_str(line);
        text.push_str("\r\n");
    };
    ["TOP", "UIDL", "RESP-CODES", "AUTH-RESP-CODE", "PIPELINING", "EXPIRE NEVER", "UTF8 USER"]
        .into_iter()
        .for_each(&mut say);
    if matches!(session.state, State::Authorization(_)) {
        if session.offers.tls {
            say("STLS");
        }
        if session.peer.is_private() {
            say("USER");
            let context = session.login_context();
            say(&context.offered_mechanisms().fold("SASL".to_owned(), |list, mechanism| list + " " + mechanism.name()));
        }
    }
    say("IMPLEMENTATION Doublet");
    say(".");
    ConnectionAction::Reply(text)
}
