//! STARTTLS (RFC 9051 §6.2.1).

use crate::error::{Error, Result};
use crate::session::{CommandOutcome, ConnectionAction, PermittedUpdates, Session, TaggedReply};

/// Starts TLS after the tagged line.
pub fn starttls(session: &Session) -> Result<CommandOutcome> {
    if session.peer.tls {
        return Err(Error::Bad("the connection is already encrypted"));
    }
    if !session.context.options.starttls {
        return Err(Error::Bad("STARTTLS is not available"));
    }
    Ok(TaggedReply::ok("begin TLS now")
        .with_updates(PermittedUpdates::None)
        .with_action(ConnectionAction::StartTls)
        .into())
}
