//! ENABLE (RFC 5161): CONDSTORE, QRESYNC, UTF8=ACCEPT, IMAP4rev2. Unknown names are ignored.

use crate::codec::ResponseWriter;
use crate::error::Result;
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Enables extensions and lists those that were not enabled before.
pub fn enable(session: &mut Session, names: &[String], out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let before = session.enabled;
    let requested = |name: &str| names.iter().any(|requested| requested == name);
    out.untagged().text("ENABLED");
    for (name, was) in [
        ("CONDSTORE", before.condstore),
        ("QRESYNC", before.qresync),
        ("UTF8=ACCEPT", before.utf8),
        ("IMAP4rev2", before.rev2),
    ] {
        if requested(&name.to_ascii_uppercase()) && !was {
            out.space().text(name);
        }
    }
    out.crlf();
    if requested("CONDSTORE") || requested("QRESYNC") {
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        session.enable_condstore(&snapshot, out)?;
    }
    session.enabled.qresync |= requested("QRESYNC");
    session.enabled.utf8 |= requested("UTF8=ACCEPT");
    session.enabled.rev2 |= requested("IMAP4REV2");
    out.set_encoding(session.encoding());
    Ok(TaggedReply::completed().into())
}
