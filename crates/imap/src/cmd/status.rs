//! STATUS (RFC 9051 §6.3.11) with SIZE (RFC 8438), HIGHESTMODSEQ (RFC 7162), APPENDLIMIT (RFC 7889), MAILBOXID (RFC
//! 8474) and DELETED-STORAGE (RFC 9208).
//!
//! Only DELETED-STORAGE reads the folder's entries, in slices. All other items come from the folder's totals, whatever
//! its size. A message that changes while the entries are read may be counted or not.

use std::ops::ControlFlow;

use base::{Uid, ViewId};
use mail::mailbox::{FolderStatus, MailSnapshot};
use notes::Marks;

use crate::codec::ResponseWriter;
use crate::codec::command::{MailboxName, StatusItem};
use crate::error::{Error, Result};
use crate::limits;
use crate::session::{CommandOutcome, Session, SliceTimer, SlicedCommand, TaggedReply};

/// Sends the requested counts and numbers of a mailbox.
pub fn status(
    session: &mut Session,
    mailbox: &MailboxName,
    items: Vec<StatusItem>,
    out: &mut ResponseWriter,
) -> Result<CommandOutcome> {
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    if items.contains(&StatusItem::HighestModSeq) {
        session.enable_condstore(&snapshot, out)?;
    }
    let name = mailbox.as_str();
    let folder = snapshot.folder(name)?.ok_or_else(|| mail::Error::NoMailbox(name.to_owned()))?;
    if !folder.selectable {
        return Err(Error::No("[NONEXISTENT] this name is only a level of the hierarchy, not a mailbox"));
    }
    let mut job = StatusJob { response: StatusResponse::new(name, folder.id), items };
    match job.slice(session, &snapshot, out)? {
        Some(reply) => Ok(reply.into()),
        None => Ok(CommandOutcome::Job(Box::new(job))),
    }
}

/// A STATUS in progress.
struct StatusJob {
    response: StatusResponse,
    items: Vec<StatusItem>,
}

impl SlicedCommand for StatusJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        self.slice(session, &snapshot, out)
    }
}

impl StatusJob {
    fn slice(
        &mut self,
        session: &Session,
        snapshot: &MailSnapshot<'_>,
        out: &mut ResponseWriter,
    ) -> Result<Option<TaggedReply>> {
        let mut budget = StatusBudget::for_slice(session);
        let is_written = self.response.write((session, snapshot), &self.items, &mut budget, out)?;
        Ok(is_written.then(TaggedReply::completed))
    }
}

/// The mailboxes and entries that a slice may still read for STATUS responses, and its time.
pub struct StatusBudget {
    mailboxes: usize,
    entries: usize,
    timer: SliceTimer,
}

impl StatusBudget {
    /// Creates the budget of a slice that begins now.
    #[must_use]
    pub fn for_slice(session: &Session) -> Self {
        let timer = SliceTimer::start(&session.context);
        Self { mailboxes: limits::SLICE_MAILBOXES, entries: limits::SLICE_MESSAGES, timer }
    }

    /// Returns `true` if the slice should end.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.mailboxes == 0 || self.entries == 0 || self.timer.is_over()
    }
}

/// A STATUS response that is written when all its items are known.
#[derive(Debug)]
pub struct StatusResponse {
    name: String,
    folder: ViewId,
    /// The scan of the entries for DELETED-STORAGE, once it has begun.
    deleted: Option<DeletedStorage>,
}

impl StatusResponse {
    /// Creates the response for a mailbox.
    #[must_use]
    pub fn new(name: &str, folder: ViewId) -> Self {
        Self { name: name.to_owned(), folder, deleted: None }
    }

    /// Returns `true` if the mailbox exists in a snapshot and has the same name.
    pub fn is_current(&self, snapshot: &MailSnapshot<'_>) -> Result<bool> {
        let found = snapshot.folder_with_id(self.folder)?;
        Ok(found.is_some_and(|folder| folder.selectable && folder.name == self.name))
    }

    /// Writes the response with the requested items. Returns `false` if the budget is used up before all of them are
    /// known. Then nothing is written, and the next call continues.
    pub fn write(
        &mut self,
        (session, snapshot): (&Session, &MailSnapshot<'_>),
        items: &[StatusItem],
        budget: &mut StatusBudget,
        out: &mut ResponseWriter,
    ) -> Result<bool> {
        let status = snapshot.status(self.folder)?;
        budget.mailboxes = budget.mailboxes.saturating_sub(1);
        let mut deleted_bytes = 0;
        if items.contains(&StatusItem::DeletedStorage) {
            let scan = self.deleted.get_or_insert_with(|| DeletedStorage::new(&status));
            if !scan.read(self.folder, snapshot, budget)? {
                return Ok(false);
            }
            deleted_bytes = scan.bytes;
        }
        let recent = if items.contains(&StatusItem::Recent) { self.recent(session, snapshot, &status)? } else { 0 };
        begin(&self.name, out);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.space();
            }
            match item {
                StatusItem::DeletedStorage => {
                    out.text("DELETED-STORAGE ").number(deleted_bytes);
                }
                StatusItem::Recent => {
                    out.text("RECENT ").number(u64::from(recent));
                }
                StatusItem::AppendLimit => {
                    out.text("APPENDLIMIT ").number(session.context.options.append_bytes_max as u64);
                }
                item => write_item(*item, &status, out),
            }
        }
        out.byte(b')').crlf();
        Ok(true)
    }

    fn recent(&self, session: &Session, snapshot: &MailSnapshot<'_>, status: &FolderStatus) -> Result<u32> {
        let database = session.file()?.database().number();
        let first = session.context.recent.first_unclaimed((database, self.folder), status.uid_next.0);
        Ok(status.messages.saturating_sub(snapshot.rank(self.folder, Uid(first))?))
    }
}

/// Writes the STATUS response of a mailbox with items that are in its totals.
pub fn write_totals(name: &str, items: &[StatusItem], status: &FolderStatus, out: &mut ResponseWriter) {
    begin(name, out);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.space();
        }
        write_item(*item, status, out);
    }
    out.byte(b')').crlf();
}

fn begin(name: &str, out: &mut ResponseWriter) {
    out.untagged().text("STATUS ").mailbox(name).text(" (");
}

fn write_item(item: StatusItem, status: &FolderStatus, out: &mut ResponseWriter) {
    let (name, number) = match item {
        StatusItem::Messages => ("MESSAGES ", u64::from(status.messages)),
        StatusItem::UidNext => ("UIDNEXT ", u64::from(status.uid_next.0)),
        StatusItem::UidValidity => ("UIDVALIDITY ", u64::from(status.uid_validity)),
        StatusItem::Unseen => ("UNSEEN ", u64::from(status.unseen)),
        StatusItem::Deleted => ("DELETED ", u64::from(status.deleted)),
        StatusItem::Size => ("SIZE ", status.size),
        StatusItem::HighestModSeq => ("HIGHESTMODSEQ ", status.highest_client_modseq),
        StatusItem::MailboxId => {
            out.text("MAILBOXID (").text(&status.mailbox_id).byte(b')');
            return;
        }
        StatusItem::Recent | StatusItem::AppendLimit | StatusItem::DeletedStorage => return,
    };
    out.text(name).number(number);
}

/// The total size of the messages with `\Deleted` in a mailbox, of which a part may be known. Entries are read only if
/// there are such messages.
#[derive(Debug)]
struct DeletedStorage {
    /// The first UID that has not been read.
    next: Uid,
    /// Number of messages with `\Deleted` that have not been found.
    left: u32,
    bytes: u64,
}

impl DeletedStorage {
    fn new(status: &FolderStatus) -> Self {
        Self { next: Uid(1), left: status.deleted, bytes: 0 }
    }

    /// Reads entries, at least one, until the budget is used up. Returns `true` if the total size is known.
    fn read(&mut self, folder: ViewId, snapshot: &MailSnapshot<'_>, budget: &mut StatusBudget) -> Result<bool> {
        if self.left == 0 {
            return Ok(true);
        }
        let mut is_complete = true;
        snapshot.entries(folder, self.next..=Uid(u32::MAX), &mut |entry| {
            self.next = Uid(entry.uid.0.saturating_add(1));
            budget.entries = budget.entries.saturating_sub(1);
            if entry.marks.contains(Marks::DELETED) {
                self.bytes = self.bytes.saturating_add(snapshot.message_size(&entry)?);
                self.left -= 1;
            }
            is_complete = self.left == 0 || (budget.entries > 0 && !budget.timer.is_over());
            let goes_on = self.left > 0 && is_complete;
            Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        if is_complete {
            self.left = 0;
        }
        Ok(is_complete)
    }
}
