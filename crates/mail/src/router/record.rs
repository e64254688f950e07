//! What the mail file of a sender keeps about a submission: a document of its own, or the copy of the message.
//!
//! It is written in the transaction that accepts the message or withdraws it, so both happen or none. The copy of a
//! message that can be withdrawn has the identifier of the message in the queue as its UNID. The item
//! [`DRAFT_FIELDS_ITEM`] of the copy has the header fields that recipients must not get, so that the draft that takes
//! its place has them again.

use std::sync::Arc;

use base::{NoteId, Uid, Unid, ViewId};
use notes::{Item, ItemValue, NewNote, Transaction, Writer};

use crate::disposition_notification::NOTIFIED_KEYWORD;
use crate::error::Result;
use crate::mailbox::{Flags, ReadyMessage};

/// The item of a copy with the header fields that only the draft has.
pub const DRAFT_FIELDS_ITEM: &str = "$DraftFields";

/// A document about a submission in the mail file of its sender.
#[derive(Debug, Clone)]
pub struct SubmissionRecord {
    /// The path of the mail file.
    pub mail_file: String,
    /// What is written.
    pub change: RecordChange,
}

/// The change of a document about a submission.
#[derive(Debug, Clone)]
pub enum RecordChange {
    /// It is created.
    New(NewNote),
    /// It gets these items. If it is gone, nothing is written.
    Items(NoteId, Vec<Item>),
    /// It is the copy of the message in a mailbox of its sender.
    SentCopy(SentCopy),
    /// It is the copy of a message that is withdrawn: a draft takes its place.
    Withdrawn(WithdrawnCopy),
    /// The message is a notification about another one, which gets the keyword [`NOTIFIED_KEYWORD`]. If that one has
    /// it, or is gone, nothing is sent.
    Notified(NoteId),
}

/// The copy of a message in a mailbox of its sender.
#[derive(Clone)]
pub struct SentCopy {
    /// The mailbox.
    pub mailbox: ViewId,
    /// The mailbox and the UID of the draft that the copy replaces. A draft that is gone is ignored.
    pub draft: Option<(ViewId, Uid)>,
    /// The copy.
    pub message: Arc<ReadyMessage>,
    /// What the copy of a message that its sender may withdraw has in addition.
    pub held: Option<HeldCopy>,
}

/// What the copy of a message that its sender may withdraw has in addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCopy {
    /// The UNID of the copy, by which it is found.
    pub unid: Unid,
    /// The header fields that only the draft has, as they are in it.
    pub draft_fields: String,
}

impl std::fmt::Debug for SentCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { mailbox, draft, held, .. } = self;
        let mut text = f.debug_struct("SentCopy");
        text.field("mailbox", mailbox).field("draft", draft).field("held", held).finish_non_exhaustive()
    }
}

/// The copy of a message that its sender withdraws, and the draft that takes its place.
#[derive(Clone)]
pub struct WithdrawnCopy {
    /// The copy, which is deleted. If it is gone, only the draft is written.
    pub copy: NoteId,
    /// The mailbox with drafts.
    pub drafts: ViewId,
    /// The draft.
    pub draft: Arc<ReadyMessage>,
}

impl std::fmt::Debug for WithdrawnCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("WithdrawnCopy");
        text.field("copy", &self.copy).field("drafts", &self.drafts).finish_non_exhaustive()
    }
}

/// Changes the document about a submission.
pub(crate) fn write_record(transaction: &mut Transaction<'_>, place: usize, change: RecordChange) -> Result<()> {
    let mut writer = transaction.writer(place);
    match change {
        RecordChange::New(note) => {
            writer.note_create(note)?;
        }
        RecordChange::Items(id, items) => {
            let Some(note) = writer.note(id)? else { return Ok(()) };
            writer.note_update(id, note.header.revision(), &items, &[])?;
        }
        RecordChange::SentCopy(copy) => write_copy(&mut writer, copy)?,
        RecordChange::Withdrawn(WithdrawnCopy { copy, drafts, draft }) => {
            writer.note_delete_permanently(copy)?;
            // The draft takes the room of the copy, so the quota does not prevent a withdrawal.
            let note = draft.new_note(&mut writer, drafts)?;
            writer.note_create(note)?;
        }
        RecordChange::Notified(note) => set_notified(&mut writer, note)?,
    }
    Ok(())
}

/// Marks a message about which its sender is notified. Fails if it is marked already, or does not exist any more.
fn set_notified(writer: &mut Writer<'_, '_>, note: NoteId) -> Result<()> {
    let header = writer.header(note)?.filter(|header| !header.is_stub()).ok_or(crate::Error::NotifiedMessageGone)?;
    let folder = header.folders.first().ok_or(crate::Error::NotifiedMessageGone)?.folder;
    let known = writer.database().keywords();
    let names = header.keywords.iter().filter_map(|keyword| known.name(*keyword)).map(str::to_owned);
    let mut flags = Flags { marks: header.marks_in(folder), keywords: names.collect() };
    if flags.has_keyword(NOTIFIED_KEYWORD) {
        return Err(crate::Error::AlreadyNotified);
    }
    flags.add(NOTIFIED_KEYWORD);
    writer.marks_set_in((note, folder), flags.marks, &flags.keywords)?;
    Ok(())
}

fn write_copy(writer: &mut Writer<'_, '_>, SentCopy { mailbox, draft, message, held }: SentCopy) -> Result<()> {
    message.check_quota(writer)?;
    let mut note = message.new_note(writer, mailbox)?;
    if let Some(HeldCopy { unid, draft_fields }) = held {
        note.unid = Some(unid);
        note.items.push(Item::body(DRAFT_FIELDS_ITEM, ItemValue::Text(draft_fields)));
    }
    writer.note_create(note)?;
    if let Some((drafts, uid)) = draft
        && let Some(old) = writer.folder_entry(drafts, uid)?
    {
        writer.note_delete_from(old.note, drafts)?;
    }
    Ok(())
}
