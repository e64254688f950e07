//! ENABLE (RFC 5161): CONDSTORE, QRESYNC, UTF8=ACCEPT, IMAP4rev2. Unknown names are ignored.

use crate::codec::Writer;
use crate::error::Result;
use crate::session::{CommandOutcome, Reply, Session};

/// Enables extensions and lists those that were not enabled before.
pub fn enable(session: &mut Session, names: &[String], out: &mut Writer) -> Result<CommandOutcome> {
    let before = session.enabled;
    let asked = |name: &str| names.iter().any(|asked| asked == name);
    out.untagged().text("ENABLED");
    for (name, was) in [
        ("CONDSTORE", before.condstore),
        ("QRESYNC", before.qresync),
        ("UTF8=ACCEPT", before.utf8),
        ("IMAP4rev2", before.rev2),
    ] {
        if asked(&name.to_ascii_uppercase()) && !was {
            out.space().text(name);
        }
    }
    out.crlf();
    if asked("CONDSTORE") || asked("QRESYNC") {
        let file = session.file()?;
        let view = file.view()?;
        session.wait_for(view.ticket());
        session.enable_condstore(&view, out)?;
    }
    session.enabled.qresync |= asked("QRESYNC");
    session.enabled.utf8 |= asked("UTF8=ACCEPT");
    session.enabled.rev2 |= asked("IMAP4REV2");
    out.set_encoding(session.encoding());
    Ok(Reply::completed().into())
}
