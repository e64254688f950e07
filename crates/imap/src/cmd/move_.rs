//! MOVE (RFC 6851). An untagged response with COPYUID precedes the removal of the messages.

use super::copy::{self, Transfer};
use crate::codec::ResponseWriter;
use crate::codec::command::TransferCommand;
use crate::error::Result;
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Moves messages in one transaction: all or none.
pub fn move_(session: &mut Session, transfer: &TransferCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    session.selected_writable()?;
    let prepared = Transfer::prepare(session, transfer)?;
    let folder = session.selected()?.folder;
    let outcome = prepared.file.move_to(folder, &prepared.uids, prepared.target)?;
    session.wait_for(outcome.ticket);
    if let Some(code) = copy::copyuid_code(&outcome) {
        out.untagged().text("OK [").text(&code).text("] moved").crlf();
    }
    let mut reply = TaggedReply::completed();
    if session.enabled.qresync && !outcome.pairs.is_empty() {
        reply = reply.with_code(format!("HIGHESTMODSEQ {}", outcome.modseq));
    }
    Ok(reply.into())
}
