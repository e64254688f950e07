//! EXPUNGE (RFC 9051 §6.4.3) and UID EXPUNGE (RFC 4315).

use base::UidSet;

use crate::codec::ResponseWriter;
use crate::codec::command::{MessageSet, Numbering};
use crate::error::Result;
use crate::limits;
use crate::session::selected::uids_of_ranges;
use crate::session::{CommandOutcome, PermittedUpdates, Session, SliceTimer, SlicedCommand, TaggedReply};

/// Removes the messages with `\Deleted`, or only those of them that are in the set.
///
/// The removals are reported together with all other updates, so that the session's own expunges and those of other
/// sessions come in one order.
pub fn expunge(session: &mut Session, set: Option<&MessageSet>) -> Result<CommandOutcome> {
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
    Ok(CommandOutcome::Job(Box::new(ExpungeJob { uids, closes: false })))
}

/// The removal of messages in progress, by EXPUNGE or CLOSE.
pub struct ExpungeJob {
    /// The UIDs that UID EXPUNGE names.
    pub uids: Option<UidSet>,
    /// `true` if the mailbox is deselected in the end, and nothing is reported.
    pub closes: bool,
}

impl SlicedCommand for ExpungeJob {
    fn step(&mut self, session: &mut Session, _out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let timer = SliceTimer::start(&session.context);
        let file = session.file()?;
        let folder = session.selected()?.folder;
        let outcome = loop {
            let outcome = file.expunge_up_to(folder, self.uids.as_ref(), limits::MESSAGES_PER_TRANSACTION)?;
            session.wait_for(outcome.ticket);
            if let (Some(uids), Some(last)) = (&mut self.uids, outcome.uids.last()) {
                uids.remove_range(0..=last);
            }
            if outcome.is_complete {
                break outcome;
            }
            if timer.is_over() {
                return Ok(None);
            }
        };
        if self.closes {
            session.selected = None;
            return Ok(Some(TaggedReply::completed().with_updates(PermittedUpdates::None)));
        }
        let reply = TaggedReply::completed();
        let code = session
            .enabled
            .qresync
            .then(|| format!("HIGHESTMODSEQ {}", file.database().modseq_to_client(outcome.modseq)));
        Ok(Some(TaggedReply { code, ..reply }))
    }
}
