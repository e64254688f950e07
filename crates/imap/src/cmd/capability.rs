//! CAPABILITY (RFC 9051 §6.1.1): the capabilities of all verbs in the table, and those that belong to no verb.
//!
//! The list is complete before login, because clients read it once and keep it. After login only the capabilities that
//! concern logging in disappear, and COMPRESS=DEFLATE and JMAPACCESS (RFC 9698 §3) are added. The server offers
//! LITERAL+ and not LITERAL-, because LITERAL+ includes it and a server must not offer both (RFC 7888 §5).

use crate::codec::{ResponseWriter, VERBS};
use crate::error::Result;
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Answers CAPABILITY.
pub fn capability(session: &Session, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    out.untagged();
    write(session, out);
    out.crlf();
    Ok(TaggedReply::completed().into())
}

/// Writes `CAPABILITY` and the list. Used for the response, the greeting and the response code of LOGIN.
pub fn write(session: &Session, out: &mut ResponseWriter) {
    out.text("CAPABILITY IMAP4rev1 IMAP4rev2 LITERAL+");
    for capability in VERBS.iter().flat_map(|verb| verb.capabilities) {
        out.space().text(capability);
    }
    out.text(" APPENDLIMIT=").number(session.context.options.append_bytes_max as u64);
    if session.account.is_some() {
        if !session.compressed && session.context.options.compression {
            out.text(" COMPRESS=DEFLATE");
        }
        if session.context.options.jmap_session_url.is_some() {
            out.text(" JMAPACCESS");
        }
        return;
    }
    if !session.peer.tls && session.context.options.starttls {
        out.text(" STARTTLS");
    }
    if session.peer.is_private() {
        for mechanism in session.login_context().offered_mechanisms() {
            out.text(" AUTH=").text(mechanism.name());
        }
    } else {
        out.text(" LOGINDISABLED");
    }
}

/// Returns the list as the response code that ends a login.
pub fn capability_code(session: &Session) -> String {
    let mut out = ResponseWriter::new();
    write(session, &mut out);
    String::from_utf8_lossy(out.as_bytes()).into_owned()
}
