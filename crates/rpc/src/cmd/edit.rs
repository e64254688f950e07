//! Creating, changing and deleting notes.
//!
//! A change reads and writes the note within one transaction, so no other change can come between. Items that a client
//! does not name are kept. A client can refer to content in the blob store only if the same note already contains it:
//! otherwise knowing a content identifier would be enough to read the content.

use base::{NoteId, Unid, ViewId};
use notes::item::{blobs_of, drop_unused_blobs};
use notes::{
    Access, Database, DatabaseKind, Item, ItemFlags, ItemValue, NewNote, Note, NoteClass, NoteHeader, OnConflict,
    SaveOptions, SaveOutcome, Writer, level,
};
use proto::v1;
use proto::v1::saved_note::Outcome;
use store::blob::BlobId;

use super::{CallContext, check_count, find, header_of};
use crate::convert::{class_from_proto, item_from_proto, note_name, optional_unid_from_proto};
use crate::error::{Error, Result};
use crate::limits::{EDITED_NOTE_BYTES_MAX, NAMES_PER_CALL_MAX};
use crate::service::CallOutcome;

/// Creates a note.
pub(crate) fn create(context: &CallContext, request: v1::CreateNoteRequest) -> Result<CallOutcome<v1::SavedNote>> {
    let access = context.access_for_change::<level::Depositor>(request.database)?;
    let class = class_from_proto(request.note_class)?;
    if class == NoteClass::ACL || class == NoteClass::VIEW {
        return Err(Error::invalid("access control lists, views and folders can only be created with their own calls"));
    }
    let items = items_from_proto(request.items)?;
    if items.iter().any(|item| matches!(item.value, ItemValue::Object { .. })) {
        return Err(Error::invalid("add attachments with AttachFile after the note has been created"));
    }
    let new = NewNote {
        unid: optional_unid_from_proto(&request.unid)?,
        parent: optional_unid_from_proto(&request.parent_unid)?,
        folders: request.folder_ids.into_iter().map(ViewId).collect(),
        tracks_editors: tracks_editors(access.database(), class),
        ..NewNote::of_class(class, items)
    };
    context.write(&access, |writer| {
        let note = writer.note_create(new)?;
        check_quota(writer)?;
        saved_note(writer, note)
    })
}

/// Returns the state of a note after saving.
pub(crate) fn saved_note(writer: &mut Writer<'_, '_>, note: NoteId) -> Result<v1::SavedNote> {
    let header = writer.header(note)?.ok_or_else(|| notes::Error::not_found("the note"))?;
    let unid = header.unid.0.to_vec();
    let modseq = writer.modseq().0;
    Ok(v1::SavedNote { note_id: note.0, unid, sequence: header.sequence, modseq, ..v1::SavedNote::default() })
}

/// Changes items of a note.
pub(crate) fn update(context: &CallContext, request: v1::UpdateNoteRequest) -> Result<CallOutcome<v1::SavedNote>> {
    let access = context.access_for_change::<level::Author>(request.database)?;
    let resolves = match v1::update_note_request::OnConflict::try_from(request.on_conflict) {
        Ok(wish) => wish == v1::update_note_request::OnConflict::Resolve,
        Err(_) => return Err(Error::invalid("unknown value of on_conflict")),
    };
    let base = request.base.map(|base| items_from_proto(base.items)).transpose()?;
    let edit = ItemChanges::new(request.items, request.remove, request.replace_all)?;
    let read = ExpectedVersion { sequence: request.expected_sequence, resolves };
    change(context, &access, request.note, read, |note, _| {
        let base = base.map(|base| edit.items_before_change(&note.items, base));
        edit.apply(&mut note.items, &mut note.blobs)?;
        Ok(base)
    })
}

fn items_from_proto(items: Vec<v1::Item>) -> Result<Vec<Item>> {
    items.into_iter().map(item_from_proto).collect()
}

/// A change to the items of a note.
pub(crate) struct ItemChanges {
    /// The new items. Each name that occurs here replaces all items of that name.
    items: Vec<Item>,
    /// Names of items to remove.
    remove: Vec<String>,
    /// `true` if all other items are removed.
    replace_all: bool,
}

impl ItemChanges {
    /// Reads a change from a client's request.
    pub(crate) fn new(items: Vec<v1::Item>, remove: Vec<String>, replace_all: bool) -> Result<Self> {
        check_count(remove.len(), "items of a call", NAMES_PER_CALL_MAX)?;
        Ok(Self { items: items_from_proto(items)?, remove, replace_all })
    }

    /// Applies the change and drops the blobs that no item uses any more.
    pub(crate) fn apply(self, items: &mut Vec<Item>, blobs: &mut Vec<BlobId>) -> Result<()> {
        let before = blobs_of(items);
        if blobs_of(&self.items).iter().any(|blob| !before.contains(blob)) {
            return Err(Error::invalid("add attachments with AttachFile"));
        }
        items.retain(|item| !self.changes_item(item));
        items.extend(self.items);
        drop_unused_blobs(blobs, &before, items);
        Ok(())
    }

    /// Returns the items before the change: those that it changes are taken from `base`, the version on which the
    /// client based it.
    fn items_before_change(&self, items: &[Item], base: Vec<Item>) -> Vec<Item> {
        let unchanged = items.iter().filter(|item| !self.changes_item(item)).cloned();
        unchanged.chain(base.into_iter().filter(|item| self.changes_item(item))).collect()
    }

    fn changes_item(&self, item: &Item) -> bool {
        self.replace_all
            || self.items.iter().any(|other| other.is_named(&item.name))
            || self.remove.iter().any(|name| item.is_named(name))
    }
}

/// The version of a note that a client has read before changing it.
pub(crate) struct ExpectedVersion {
    /// The sequence number of that version; 0 accepts any version.
    sequence: u32,
    /// `true` if a conflict with another save is resolved as the document specifies. Otherwise the client gets an
    /// error.
    resolves: bool,
}

impl ExpectedVersion {
    /// Creates the value for a change that fails on a conflict.
    pub(crate) fn refusing_conflicts(sequence: u32) -> Self {
        Self { sequence, resolves: false }
    }
}

/// Deletes a note.
pub(crate) fn delete(
    context: &CallContext,
    request: v1::DeleteNoteRequest,
) -> Result<CallOutcome<v1::DeleteNoteReply>> {
    let access = context.access_for_change::<level::Author>(request.database)?;
    if request.soft && request.permanent {
        return Err(Error::invalid("soft and permanent cannot both be set"));
    }
    let keeps = access.database().record().options.keep_deleted_hours.is_some() && !request.permanent;
    if request.soft && !keeps {
        let path = access.database().path();
        return Err(Error::State(format!(
            "{path} does not keep deleted documents: the note would be permanently deleted"
        )));
    }
    let note = {
        let reader = access.downgrade::<level::Reader>();
        let header = header_of(&reader.read()?, note_name(request.note)?)?;
        let is_there = |header: &NoteHeader| !header.is_stub() || (request.permanent && header.is_soft_deleted());
        header.filter(is_there).map(|header| header.note)
    };
    let lower = access.downgrade::<level::Depositor>();
    let accesses = [&lower];
    let mut transaction = context.services.databases.transaction(&accesses)?;
    let mut writer = transaction.writer(0);
    let Some(note) = note else {
        let ticket = writer.last_ticket();
        return Ok(CallOutcome::when_durable(v1::DeleteNoteReply::default(), ticket));
    };
    check_class(&mut writer, note)?;
    check_sequence(&mut writer, note, request.expected_sequence)?;
    let is_document = writer.header(note)?.is_some_and(|header| header.class.is_document());
    if request.soft && !is_document {
        return Err(Error::State("only documents can be deleted softly".to_owned()));
    }
    let deleted = if request.permanent { writer.note_delete_permanently(note)? } else { writer.note_delete(note)? };
    let reply = v1::DeleteNoteReply { deleted, modseq: writer.modseq().0, soft: deleted && keeps && is_document };
    Ok(CallOutcome::when_durable(reply, transaction.commit()?))
}

/// Reads, edits and saves a note in one transaction. The function `edit` changes the note and returns the items of the
/// version on which the client based its change, if known.
pub(crate) fn change(
    context: &CallContext,
    access: &Access<level::Author>,
    key: Option<v1::NoteKey>,
    read: ExpectedVersion,
    edit: impl FnOnce(&mut Note, &mut Writer<'_, '_>) -> Result<Option<Vec<Item>>>,
) -> Result<CallOutcome<v1::SavedNote>> {
    let note = {
        let reader = access.downgrade::<level::Reader>();
        let reading = reader.read()?;
        find(&reading, key)?
    };
    context.write(access, |writer| {
        check_class(writer, note)?;
        let mut found = writer.note(note)?.ok_or_else(|| notes::Error::not_found("the note"))?;
        let sequence = found.header.sequence;
        let is_shared = tracks_editors(access.database(), found.header.class);
        let on_conflict = if read.resolves && is_shared { OnConflict::Resolve } else { OnConflict::Refuse };
        if on_conflict == OnConflict::Refuse {
            check_expected(read.sequence, sequence, found.header.unid)?;
        }
        let message = message_of(&found.items);
        let base = edit(&mut found, writer)?;
        if message != message_of(&found.items) {
            return Err(Error::invalid("the content and the attachments of a mail message cannot be changed"));
        }
        let keeps_size = message.is_some();
        let options =
            SaveOptions { tracks_editors: is_shared, on_conflict, base: base.as_deref(), preserve_size: keeps_size };
        let expected = if read.sequence == 0 { sequence } else { read.sequence };
        let outcome = writer.note_save(note, expected, (&found.items, &found.blobs), &options)?;
        check_quota(writer)?;
        let (note, outcome) = match outcome {
            SaveOutcome::Plain { .. } => (note, Outcome::Plain),
            SaveOutcome::Merged { .. } => (note, Outcome::Merged),
            SaveOutcome::Conflict { note: loser } => (loser, Outcome::Kept),
        };
        Ok(v1::SavedNote { outcome: outcome.into(), ..saved_note(writer, note)? })
    })
}

/// Returns the items that make a note a message: `$Head` and `$MIME` with their ordinals, and its attachments. Returns
/// `None` if the note is not a message. Mail clients rely on these items never changing.
fn message_of(items: &[Item]) -> Option<Vec<Item>> {
    let is_part = |item: &&Item| matches!(item.value, ItemValue::MimePart(_) | ItemValue::Object { .. });
    let has = |name: &str| items.iter().any(|item| item.is_named(name) && !item.flags.contains(ItemFlags::SUMMARY));
    let is_message = mail::message::BODY_ITEMS.iter().all(|name| has(name));
    is_message.then(|| items.iter().filter(is_part).cloned().collect())
}

/// Returns `true` if the editors of a note are recorded (`$UpdatedBy`). They are not in mail files, because a message
/// must stay as its sender wrote it.
fn tracks_editors(database: &Database, class: NoteClass) -> bool {
    class.is_document() && database.record().kind == DatabaseKind::Standard
}

/// Returns an error for notes that have their own calls, and for notes that are too large to be changed item by item.
fn check_class(writer: &mut Writer<'_, '_>, note: NoteId) -> Result<()> {
    let Some(header) = writer.header(note)? else { return Ok(()) };
    if header.class == NoteClass::ACL || header.class == NoteClass::VIEW {
        return Err(Error::invalid("access control lists, views and folders can only be changed with their own calls"));
    }
    if header.size > EDITED_NOTE_BYTES_MAX {
        return Err(Error::Limit { what: "bytes of a note that can be changed", max: EDITED_NOTE_BYTES_MAX });
    }
    Ok(())
}

/// Returns a conflict error if another user has saved the note since the caller read it.
pub(crate) fn check_sequence(writer: &mut Writer<'_, '_>, note: NoteId, expected: u32) -> Result<()> {
    writer.header(note)?.map_or(Ok(()), |header| check_expected(expected, header.sequence, header.unid))
}

/// Returns a conflict error if `expected` is neither 0 nor the sequence number found.
pub(crate) fn check_expected(expected: u32, found: u32, unid: Unid) -> Result<()> {
    if expected != 0 && expected != found {
        return Err(notes::Error::Conflict { unid, expected, found }.into());
    }
    Ok(())
}

/// Returns an error if the database exceeds its quota.
pub(crate) fn check_quota(writer: &Writer<'_, '_>) -> Result<()> {
    match writer.database().record().options.quota_bytes {
        Some(quota) if writer.bytes_used() > quota => Err(Error::Exhausted("the database has reached its quota")),
        _ => Ok(()),
    }
}
