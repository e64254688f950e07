//! EXPUNGE (RFC 9051 §6.4.3) and UID EXPUNGE (RFC 4315).

use crate::codec::ResponseWriter;
use crate::codec::command::{MessageSet, Numbering};
use crate::error::Result;
use crate::session::selected::uids_of_ranges;
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Removes the messages with `\Deleted`, or only those of them that are in the set.
///
/// The removals are reported together with all other updates, so that the session's own expunges and those of other
/// sessions come in one order.
pub fn expunge(session: &mut Session, set: Option<&MessageSet>, _out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let file = session.file()?;
    let selected = session.selected_writable()?;
    let uids = match set {
        Some(set) => {
            let snapshot = file.snapshot()?;
            selected.record_vanished(&snapshot)?;
            Some(uids_of_ranges(selected.resolve(&snapshot, set, Numbering::Uid)?))
        }
        None => None,
    };
    let outcome = file.expunge(selected.folder, uids.as_ref())?;
    session.wait_for(outcome.ticket);
    let mut reply = TaggedReply::completed();
    if session.enabled.qresync {
        reply = reply.with_code(format!("HIGHESTMODSEQ {}", outcome.modseq));
    }
    Ok(reply.into())
}
