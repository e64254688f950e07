//! SELECT and EXAMINE (RFC 9051 §6.3.2) with CONDSTORE and QRESYNC (RFC 7162).
//!
//! For a client that resynchronizes, the changes since its last visit are read in slices. Messages that vanished are
//! then reported at once. Changed flags are queued for the updates that precede the tagged line, which send them in
//! slices.

use base::UidSet;
use mail::mailbox::{FolderStatus, MailSnapshot};
use notes::AclLevel;

use super::change_scan::{ChangeScan, MissingScan, write_vanished};
use crate::codec::ResponseWriter;
use crate::codec::command::{Qresync, SelectCommand, SelectMode};
use crate::error::{Error, Result};
use crate::limits;
use crate::session::selected::SelectedMailbox;
use crate::session::sequence_numbers::FolderPositions;
use crate::session::{CommandOutcome, Session, SlicedCommand, TaggedReply, updates};

/// Selects a mailbox. The previously selected mailbox is deselected even if the command fails. For a user who may only
/// read, it is read-only.
pub fn select(session: &mut Session, select: &SelectCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let tells_closed = session.enabled.rev2 || session.enabled.condstore;
    if session.selected.take().is_some() && tells_closed {
        out.untagged_line("OK [CLOSED] the previous mailbox is closed");
    }
    if select.qresync.is_some() && !session.enabled.qresync {
        return Err(Error::Bad("QRESYNC is not enabled"));
    }
    session.enabled.condstore |= select.condstore;
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    let name = select.mailbox.as_str();
    let folder = snapshot.folder(name)?.ok_or_else(|| mail::Error::NoMailbox(name.to_owned()))?;
    if !folder.selectable {
        return Err(Error::No("[NONEXISTENT] this name is only a level of the hierarchy, not a mailbox"));
    }
    let status = snapshot.status(folder.id)?;
    let mode = if snapshot.reading().grant().level() < AclLevel::Author { SelectMode::ReadOnly } else { select.mode };
    let mut selected = SelectedMailbox::new(&folder, mode, &status);
    selected.mark_up_to_date(&snapshot);
    let mailbox = (file.database().number(), folder.id);
    let recent = &session.context.recent;
    let uid_next = status.uid_next.0;
    let unclaimed = if selected.is_writable() {
        recent.claim_below(mailbox, uid_next)
    } else {
        recent.first_unclaimed(mailbox, uid_next)
    };
    if !session.enabled.rev2 {
        selected.add_recent(unclaimed..uid_next);
    }
    write(session, &snapshot, (&selected, &status), out)?;
    match select.qresync.as_ref().filter(|qresync| qresync.uid_validity == status.uid_validity) {
        Some(qresync) => {
            let job = ResynchronizeJob::new(selected, &snapshot, qresync.clone())?;
            Ok(CommandOutcome::Job(Box::new(job)))
        }
        None => Ok(finish(session, selected).into()),
    }
}

/// Selects the mailbox and returns the reply.
fn finish(session: &mut Session, selected: SelectedMailbox) -> TaggedReply {
    let code = if selected.is_writable() { "READ-WRITE" } else { "READ-ONLY" };
    session.selected = Some(Box::new(selected));
    session.clear_new_messages();
    TaggedReply::completed().with_code(code)
}

fn write(
    session: &Session,
    snapshot: &MailSnapshot<'_>,
    (selected, status): (&SelectedMailbox, &FolderStatus),
    out: &mut ResponseWriter,
) -> Result<()> {
    updates::write_flag_lists(selected.is_writable(), snapshot, out);
    out.untagged_number(u64::from(status.messages), "EXISTS");
    if session.enabled.rev2 {
        out.untagged().text("LIST () \"/\" ").mailbox(&selected.name).crlf();
    } else {
        out.untagged_number(u64::from(selected.count_recent(snapshot)?), "RECENT");
        if let Some(uid) = snapshot.first_unseen(selected.folder)? {
            let number = snapshot.rank(selected.folder, uid)?.saturating_add(1);
            out.untagged().text("OK [UNSEEN ").number(u64::from(number)).text("] first unseen message").crlf();
        }
    }
    out.untagged().text("OK [UIDVALIDITY ").number(u64::from(status.uid_validity)).text("] UIDs are valid").crlf();
    out.untagged().text("OK [UIDNEXT ").number(u64::from(status.uid_next.0)).text("] predicted next UID").crlf();
    out.untagged()
        .text("OK [HIGHESTMODSEQ ")
        .number(status.highest_client_modseq)
        .text("] highest mod-sequence")
        .crlf();
    out.untagged().text("OK [MAILBOXID (").text(&status.mailbox_id).text(")] mailbox ID").crlf();
    Ok(())
}

/// A resynchronization in progress (RFC 7162 §3.2.5).
struct ResynchronizeJob {
    /// The new mailbox, which is selected at the end.
    selected: Option<SelectedMailbox>,
    qresync: Qresync,
    /// The UIDs that the client knows.
    known: UidSet,
    scan: ChangeScan,
    /// The search for vanished messages in the folder, if the change log does not contain all of them.
    missing: Option<MissingScan>,
}

impl SlicedCommand for ResynchronizeJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        let Some(mut selected) = self.selected.take() else { return Ok(Some(TaggedReply::completed())) };
        let Some(vanished) = self.find_vanished(&snapshot, &selected)? else {
            self.selected = Some(selected);
            return Ok(None);
        };
        write_vanished(&vanished, out);
        let changed = selected.known_uids(self.scan.take_changed().intersection(&self.known));
        selected.queue_flag_updates(changed.ranges().flatten());
        Ok(Some(finish(session, selected)))
    }
}

impl ResynchronizeJob {
    fn new(selected: SelectedMailbox, snapshot: &MailSnapshot<'_>, mut qresync: Qresync) -> Result<Self> {
        let scan = ChangeScan::new(snapshot, qresync.modseq);
        let last = scan.last_known_uid(snapshot, &selected)?;
        let known = qresync.known_uids.as_ref().map_or_else(|| UidSet::from(1..=last), |known| known.resolve(last));
        let mut known = known;
        known.retain_range(1..=last);
        if scan.is_of_other_server {
            // There, messages may have been before others that this server does not have, or the reverse.
            qresync.sequence_match = None;
        }
        Ok(Self { selected: Some(selected), qresync, known, scan, missing: None })
    }

    /// Continues to read changes. Returns the messages that vanished since the client's last visit when all changes
    /// have been read.
    fn find_vanished(&mut self, snapshot: &MailSnapshot<'_>, selected: &SelectedMailbox) -> Result<Option<UidSet>> {
        if self.missing.is_none() {
            if !self.scan.read(snapshot, selected.folder)? {
                return Ok(None);
            }
            if self.scan.is_complete {
                return Ok(Some(self.scan.take_vanished().intersection(&self.known)));
            }
        }
        let mut missing = match self.missing.take() {
            Some(missing) => missing,
            None => {
                let mut doubtful = self.known.clone();
                doubtful.remove_range(0..=unchanged_until_uid(selected, snapshot, &self.qresync)?);
                MissingScan::new(doubtful)
            }
        };
        if missing.read(snapshot, selected.folder)? {
            return Ok(Some(missing.missing));
        }
        self.missing = Some(missing);
        Ok(None)
    }
}

/// Returns the UID up to which no message can have vanished, because the client's sequence numbers still match (RFC
/// 7162 §3.2.5.2). Returns 0 if nothing is certain.
fn unchanged_until_uid(selected: &SelectedMailbox, snapshot: &MailSnapshot<'_>, qresync: &Qresync) -> Result<u32> {
    let Some((numbers, uids)) = &qresync.sequence_match else { return Ok(0) };
    let count_max = limits::SEQUENCE_RANGES_MAX;
    let pairs: Vec<(u32, u32)> = numbers.numbers_in_order(count_max).zip(uids.numbers_in_order(count_max)).collect();
    // Messages only vanish. So if a number still has its UID, this also holds for the numbers before it.
    let mut low = 0;
    let mut high = pairs.len();
    while low < high {
        let middle = low.midpoint(high);
        let (number, uid) = pairs[middle];
        if selected.folder_in(snapshot).uid_at(number.saturating_sub(1))? == Some(uid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(pairs[..low].iter().map(|(_, uid)| *uid).max().unwrap_or(0))
}
