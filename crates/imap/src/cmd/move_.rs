//! MOVE (RFC 6851). An untagged response with COPYUID precedes the removal of the messages.

use mail::mailbox::MailFile;

use super::copy::Transfer;
use crate::codec::ResponseWriter;
use crate::codec::command::TransferCommand;
use crate::error::Result;
use crate::session::{CommandOutcome, Session, SlicedCommand, TaggedReply};

/// Moves messages. If it fails in the middle, the client learns which messages have been moved.
pub fn move_(session: &mut Session, transfer: &TransferCommand) -> Result<CommandOutcome> {
    session.selected_writable()?;
    Ok(CommandOutcome::Job(Box::new(MoveJob { transfer: Transfer::prepare(session, transfer)? })))
}

/// A MOVE in progress.
struct MoveJob {
    transfer: Transfer,
}

impl SlicedCommand for MoveJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let moved = self.transfer.step(session, MailFile::move_up_to);
        if matches!(moved, Ok(false)) {
            return Ok(None);
        }
        let code = self.transfer.copyuid_code();
        if let Some(code) = &code {
            out.untagged().text("OK [").text(code).text("] moved").crlf();
        }
        moved?;
        let reports_modseq = session.enabled.qresync && code.is_some();
        let code = reports_modseq.then(|| format!("HIGHESTMODSEQ {}", self.transfer.client_modseq()));
        Ok(Some(TaggedReply { code, ..TaggedReply::completed() }))
    }
}
