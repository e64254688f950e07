//! CAPABILITY (RFC 9051 §6.1.1): what the table of verbs adds up to, and what has no verb of its own.
//!
//! The list is whole from the start, because clients read it once and keep it; only what concerns logging in disappears
//! after login. LITERAL+ is offered and not LITERAL-, which it includes: a server must not offer both (RFC 7888 §5).

use crate::codec::{VERBS, Writer};
use crate::error::Result;
use crate::session::{Next, Reply, Session, sasl};

/// Answers CAPABILITY.
pub fn capability(session: &Session, out: &mut Writer) -> Result<Next> {
    out.untagged();
    write(session, out);
    out.crlf();
    Ok(Reply::completed().into())
}

/// Writes `CAPABILITY` and the list, for the response, the greeting and the response code of LOGIN.
pub fn write(session: &Session, out: &mut Writer) {
    out.text("CAPABILITY IMAP4rev1 IMAP4rev2 LITERAL+");
    for capability in VERBS.iter().flat_map(|verb| verb.capabilities) {
        out.space().text(capability);
    }
    out.text(" APPENDLIMIT=").number(session.site.options.append_bytes_max as u64);
    if session.account.is_some() {
        if !session.compressed && session.site.options.compression {
            out.text(" COMPRESS=DEFLATE");
        }
        return;
    }
    if !session.peer.tls && session.site.options.starttls {
        out.text(" STARTTLS");
    }
    if session.peer.is_private() {
        for mechanism in sasl::offered(&session.site.options) {
            out.text(" AUTH=").text(mechanism);
        }
    } else {
        out.text(" LOGINDISABLED");
    }
}

/// Gives the list as the response code that ends a login.
pub fn code(session: &Session) -> String {
    let mut out = Writer::new();
    write(session, &mut out);
    String::from_utf8_lossy(out.as_bytes()).into_owned()
}
