//! REPLACE (RFC 8508): APPEND and the removal of the old message in one transaction.

use std::ops::ControlFlow;

use base::{Uid, UidSet, ViewId};
use mail::mailbox::MailSnapshot;

use super::append::MessagePreparation;
use super::copy;
use crate::codec::ResponseWriter;
use crate::codec::command::{MessageSet, ReplaceCommand, SequenceRange, SequenceSet};
use crate::error::{Error, Result};
use crate::session::selected::uids_of_ranges;
use crate::session::{CommandOutcome, SelectedMailbox, Session, SlicedCommand, TaggedReply};

/// Replaces an old message by a new one. An untagged response with APPENDUID precedes the removal of the old message.
pub fn replace(session: &mut Session, replace: ReplaceCommand) -> Result<CommandOutcome> {
    let file = session.file()?;
    let selected = session.selected_writable()?;
    let snapshot = file.snapshot()?;
    selected.record_vanished(&snapshot)?;
    let only = SequenceRange { first: replace.target, last: replace.target };
    let set = MessageSet::Numbers(SequenceSet { ranges: vec![only] });
    let uids = uids_of_ranges(selected.resolve(&snapshot, &set, replace.numbering)?);
    let old = last_existing(&snapshot, selected, &uids)?.ok_or(Error::No("[NONEXISTENT] there is no such message"))?;
    let target = copy::target_mailbox(&snapshot, &replace.mailbox)?;
    let message = MessagePreparation::new(vec![replace.message])?;
    Ok(CommandOutcome::Job(Box::new(ReplaceJob { folder: selected.folder, old, target, message })))
}

/// A REPLACE in progress.
struct ReplaceJob {
    folder: ViewId,
    /// The message that is replaced.
    old: Uid,
    target: ViewId,
    /// The new message.
    message: MessagePreparation,
}

impl SlicedCommand for ReplaceJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        if !self.message.step(session)? {
            return Ok(None);
        }
        let Some(message) = self.message.ready.first() else { return Ok(Some(TaggedReply::completed())) };
        let file = session.file()?;
        let (uid_validity, uid, ticket) = file.replace_prepared(self.folder, self.old, self.target, message)?;
        session.wait_for(ticket);
        out.untagged().text("OK [APPENDUID ").number(u64::from(uid_validity)).space().number(u64::from(uid.0));
        out.text("] the new message was stored").crlf();
        Ok(Some(TaggedReply::completed()))
    }
}

/// Returns the message that a set of one means: the last existing message in its range. Resolving the set can extend
/// the range down to UID 1.
fn last_existing(snapshot: &MailSnapshot<'_>, selected: &SelectedMailbox, uids: &UidSet) -> Result<Option<Uid>> {
    let Some(range) = uids.ranges().next() else { return Ok(None) };
    let mut found = None;
    snapshot.entries(selected.folder, Uid(*range.start())..=Uid(*range.end()), &mut |entry| {
        found = Some(entry.uid);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}
