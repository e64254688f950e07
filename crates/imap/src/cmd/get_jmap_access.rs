//! GETJMAPACCESS (RFC 9698): the address of the Session object of JMAP, which serves the same messages with the same
//! identifiers (OBJECTID) to the same logins.

use crate::codec::ResponseWriter;
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Sends the address, if the server offers JMAP.
pub fn get_jmap_access(session: &Session, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let Some(url) = &session.context.options.jmap_session_url else {
        return Err(Error::No("this server does not offer JMAP"));
    };
    out.untagged().text("JMAPACCESS ").string(url.as_bytes()).crlf();
    Ok(TaggedReply::completed().into())
}
