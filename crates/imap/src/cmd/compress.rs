//! COMPRESS (RFC 4978).

use crate::error::{Error, Result};
use crate::session::{CommandOutcome, ConnectionAction, PermittedUpdates, Session, TaggedReply};

/// Starts compression after the tagged line.
pub fn compress(session: &mut Session, algorithm: &str) -> Result<CommandOutcome> {
    if algorithm != "DEFLATE" {
        return Err(Error::Bad("unknown algorithm, only DEFLATE is supported"));
    }
    if !session.context.options.compression {
        return Err(Error::No("[CANNOT] compression is disabled"));
    }
    if session.compressed {
        return Err(Error::No("[COMPRESSIONACTIVE] the connection is already compressed"));
    }
    session.compressed = true;
    Ok(TaggedReply::ok("DEFLATE begins")
        .with_updates(PermittedUpdates::None)
        .with_action(ConnectionAction::Compress)
        .into())
}
