//! LOGOUT (RFC 9051 §6.1.3).

use crate::codec::{ResponseStatus, ResponseWriter};
use crate::error::Result;
use crate::session::{CommandOutcome, ConnectionAction, PermittedUpdates, TaggedReply};

/// Sends BYE and ends the connection.
pub fn logout(out: &mut ResponseWriter) -> Result<CommandOutcome> {
    out.untagged_status(ResponseStatus::Bye, "good-bye");
    Ok(TaggedReply::completed().with_updates(PermittedUpdates::None).with_action(ConnectionAction::Close).into())
}
