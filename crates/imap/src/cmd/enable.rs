//! ENABLE (RFC 5161): CONDSTORE, QRESYNC, UTF8=ACCEPT, IMAP4rev2. Unknown names are passed over.

use crate::codec::Writer;
use crate::error::Result;
use crate::session::{Next, Reply, Session};

/// Switches extensions on and lists those that were off before.
pub fn enable(session: &mut Session, names: &[String], out: &mut Writer) -> Result<Next> {
    let before = session.enabled;
    for name in names {
        match name.as_str() {
            "CONDSTORE" => session.enabled.condstore = true,
            "QRESYNC" => {
                session.enabled.qresync = true;
                session.enabled.condstore = true;
            }
            "UTF8=ACCEPT" => session.enabled.utf8 = true,
            "IMAP4REV2" => session.enabled.rev2 = true,
            _ => {}
        }
    }
    let (now, asked) = (session.enabled, |name: &str| names.iter().any(|asked| asked == name));
    out.untagged().text("ENABLED");
    for (name, was, is) in [
        ("CONDSTORE", before.condstore, now.condstore && asked("CONDSTORE")),
        ("QRESYNC", before.qresync, now.qresync),
        ("UTF8=ACCEPT", before.utf8, now.utf8),
        ("IMAP4rev2", before.rev2, now.rev2),
    ] {
        if is && !was {
            out.space().text(name);
        }
    }
    out.crlf();
    out.set_encoding(session.encoding());
    Ok(Reply::completed().into())
}
