//! GETJMAPACCESS (RFC 9698): the address of the Session object of JMAP, which serves the same messages with the same
//! identifiers (OBJECTID) to the same logins.

use crate::codec::ResponseWriter;
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Sends the address, if the server offers JMAP.
pub fn get_jmap_access(session: &Session, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let is_jmap_login = session.account.as_ref().is_some_and(|account| account.is_jmap_login);
    let Some(url) = session.context.options.jmap_session_url.as_ref().filter(|_| is_jmap_login) else {
        return Err(Error::No("this server does not offer JMAP to this login"));
    };
    out.untagged().text("JMAPACCESS ").string(url.as_bytes()).crlf();
    Ok(TaggedReply::completed().into())
}
