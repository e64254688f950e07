//! STATUS (RFC 9051 §6.3.11) with SIZE (RFC 8438), HIGHESTMODSEQ (RFC 7162), APPENDLIMIT (RFC 7889), MAILBOXID (RFC
//! 8474) and DELETED-STORAGE (RFC 9208).
//!
//! Only DELETED-STORAGE reads the folder's entries. All other items come from the folder's totals, whatever its size.

use std::ops::ControlFlow;

use base::Uid;
use mail::mailbox::{FolderStatus, MailSnapshot};
use notes::Marks;

use crate::codec::ResponseWriter;
use crate::codec::command::{MailboxName, StatusItem};
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Sends the requested counts and numbers of a mailbox.
pub fn status(
    session: &mut Session,
    mailbox: &MailboxName,
    items: &[StatusItem],
    out: &mut ResponseWriter,
) -> Result<CommandOutcome> {
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    if items.contains(&StatusItem::HighestModSeq) {
        session.enable_condstore(&snapshot, out)?;
    }
    write(session, &snapshot, (mailbox.as_str(), items), out)?;
    Ok(TaggedReply::completed().into())
}

/// Writes the STATUS response of a mailbox with the requested items.
pub fn write(
    session: &Session,
    snapshot: &MailSnapshot<'_>,
    (name, items): (&str, &[StatusItem]),
    out: &mut ResponseWriter,
) -> Result<()> {
    let folder = snapshot.folder(name)?.ok_or_else(|| mail::Error::NoMailbox(name.to_owned()))?;
    if !folder.selectable {
        return Err(Error::No("[NONEXISTENT] this name is only a level of the hierarchy, not a mailbox"));
    }
    let status = snapshot.status(folder.id)?;
    out.untagged().text("STATUS ").mailbox(name).text(" (");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.space();
        }
        match item {
            StatusItem::DeletedStorage => {
                out.text("DELETED-STORAGE ").number(deleted_bytes(snapshot, folder.id, &status)?);
            }
            StatusItem::Recent => {
                let database = session.file()?.database().number();
                let first = session.context.recent.first_unclaimed((database, folder.id), status.uid_next.0);
                let recent = status.messages.saturating_sub(snapshot.rank(folder.id, Uid(first))?);
                out.text("RECENT ").number(u64::from(recent));
            }
            StatusItem::AppendLimit => {
                out.text("APPENDLIMIT ").number(session.context.options.append_bytes_max as u64);
            }
            item => write_item(*item, &status, out),
        }
    }
    out.byte(b')').crlf();
    Ok(())
}

fn write_item(item: StatusItem, status: &FolderStatus, out: &mut ResponseWriter) {
    let (name, number) = match item {
        StatusItem::Messages => ("MESSAGES ", u64::from(status.messages)),
        StatusItem::UidNext => ("UIDNEXT ", u64::from(status.uid_next.0)),
        StatusItem::UidValidity => ("UIDVALIDITY ", u64::from(status.uid_validity)),
        StatusItem::Unseen => ("UNSEEN ", u64::from(status.unseen)),
        StatusItem::Deleted => ("DELETED ", u64::from(status.deleted)),
        StatusItem::Size => ("SIZE ", status.size),
        StatusItem::HighestModSeq => ("HIGHESTMODSEQ ", status.highest_modseq.0),
        StatusItem::MailboxId => {
            out.text("MAILBOXID (").text(&status.mailbox_id).byte(b')');
            return;
        }
        StatusItem::Recent | StatusItem::AppendLimit | StatusItem::DeletedStorage => return,
    };
    out.text(name).number(number);
}

/// Returns the total size of the messages with `\Deleted`. Reads the entries only if there are such messages.
fn deleted_bytes(snapshot: &MailSnapshot<'_>, folder: base::ViewId, status: &FolderStatus) -> Result<u64> {
    let mut bytes = 0_u64;
    let mut left = status.deleted;
    if left == 0 {
        return Ok(0);
    }
    snapshot.entries(folder, Uid(1)..=Uid(u32::MAX), &mut |entry| {
        if entry.marks.contains(Marks::DELETED) {
            bytes = bytes.saturating_add(entry.size);
            left = left.saturating_sub(1);
        }
        Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(bytes)
}
