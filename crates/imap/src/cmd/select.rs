//! SELECT and EXAMINE (RFC 9051 §6.3.2) with CONDSTORE and QRESYNC (RFC 7162).
//!
//! Messages that vanished since the client's last visit are reported at once. Changed flags are queued for the updates
//! that precede the tagged line, which send them in slices.

use std::ops::ControlFlow;

use base::{Modseq, Uid, UidSet};
use mail::mailbox::{FolderStatus, MailSnapshot};

use crate::codec::ResponseWriter;
use crate::codec::command::{Qresync, SelectCommand};
use crate::error::{Error, Result};
use crate::limits;
use crate::session::selected::SelectedMailbox;
use crate::session::sequence_numbers::FolderPositions;
use crate::session::{CommandOutcome, Session, TaggedReply, updates};

/// Selects a mailbox. The previously selected mailbox is deselected even if the command fails.
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
    let mut selected = SelectedMailbox::new(&folder, select.mode, &status);
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
    if let Some(qresync) = select.qresync.as_ref().filter(|qresync| qresync.uid_validity == status.uid_validity) {
        resynchronize(&mut selected, &snapshot, qresync, out)?;
    }
    let code = if selected.is_writable() { "READ-WRITE" } else { "READ-ONLY" };
    session.selected = Some(Box::new(selected));
    session.clear_new_messages();
    Ok(TaggedReply::completed().with_code(code).into())
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
    out.untagged().text("OK [HIGHESTMODSEQ ").number(status.highest_modseq.0).text("] highest mod-sequence").crlf();
    out.untagged().text("OK [MAILBOXID (").text(&status.mailbox_id).text(")] mailbox ID").crlf();
    Ok(())
}

/// Reports the messages that vanished since the client's last visit, and queues the changed flags for the next updates.
fn resynchronize(
    selected: &mut SelectedMailbox,
    snapshot: &MailSnapshot<'_>,
    qresync: &Qresync,
    out: &mut ResponseWriter,
) -> Result<()> {
    let last = selected.sequence_numbers.uid_next().saturating_sub(1);
    let known = qresync.known_uids.as_ref().map_or_else(|| UidSet::from(1..=last), |known| known.resolve(last));
    let known = selected.known_uids(known);
    let changes = snapshot.changes(selected.folder, Modseq(qresync.modseq))?;
    let vanished = if changes.complete {
        changes.vanished.intersection(&known)
    } else {
        let mut doubtful = known.clone();
        doubtful.remove_range(0..=unchanged_until_uid(selected, snapshot, qresync)?);
        missing_uids(snapshot, selected, &doubtful)?
    };
    if !vanished.is_empty() {
        out.untagged().text("VANISHED (EARLIER) ").ranges(vanished.ranges()).crlf();
    }
    let changed = changes.changed.iter().map(|message| message.uid.0);
    selected.queue_flag_updates(changed.filter(|uid| known.contains(*uid)));
    Ok(())
}

/// Returns the UID up to which no message can have vanished, because the client's sequence numbers still match (RFC
/// 7162 §3.2.5.2). Returns 0 if nothing is certain.
fn unchanged_until_uid(selected: &SelectedMailbox, snapshot: &MailSnapshot<'_>, qresync: &Qresync) -> Result<u32> {
    let Some((numbers, uids)) = &qresync.sequence_match else { return Ok(0) };
    let count_max = limits::SEQUENCE_RANGES_MAX;
    let mut sure = 0;
    for (number, uid) in numbers.numbers_in_order(count_max).zip(uids.numbers_in_order(count_max)) {
        let Some(index) = number.checked_sub(1) else { continue };
        if selected.folder_in(snapshot).uid_at(index)? != Some(uid) {
            break;
        }
        sure = sure.max(uid);
    }
    Ok(sure)
}

/// Returns the UIDs in a set that belong to no message.
pub fn missing_uids(snapshot: &MailSnapshot<'_>, selected: &SelectedMailbox, uids: &UidSet) -> Result<UidSet> {
    let mut missing = UidSet::new();
    for range in uids.ranges() {
        let mut expected = u64::from(*range.start());
        let mut gap_before = |uid: u64| {
            if uid > expected {
                missing.insert_range(saturate_to_u32(expected)..=saturate_to_u32(uid - 1));
            }
            expected = uid + 1;
        };
        snapshot.entries(selected.folder, Uid(*range.start())..=Uid(*range.end()), &mut |entry| {
            gap_before(u64::from(entry.uid.0));
            Ok(ControlFlow::Continue(()))
        })?;
        gap_before(u64::from(*range.end()) + 1);
    }
    Ok(missing)
}

fn saturate_to_u32(uid: u64) -> u32 {
    u32::try_from(uid).unwrap_or(u32::MAX)
}
