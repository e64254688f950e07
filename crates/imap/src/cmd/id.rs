//! ID (RFC 2971).

use crate::codec::ResponseWriter;
use crate::error::Result;
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Sends the identification of the server. The identification that the client sends has no effect.
pub fn id(session: &Session, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    out.untagged().text("ID (");
    for (index, (name, value)) in session.context.options.identification.iter().enumerate() {
        if index > 0 {
            out.space();
        }
        out.string(name.as_bytes()).space().string(value.as_bytes());
    }
    out.byte(b')').crlf();
    Ok(TaggedReply::completed().into())
}
