//! Creating, changing and deleting notes.
//!
//! Items that a client does not name are kept ([`super::note_change`]). A client can refer to content in the blob store
//! only if the same note already contains it: otherwise knowing a content identifier would be enough to read the
//! content.

use base::{NoteId, ViewId};
use notes::item::{blobs_of, drop_unused_blobs};
use notes::{Database, DatabaseKind, ExpectedVersion, Item, ItemValue, NewNote, NoteClass, NoteHeader, Writer, level};
use proto::v1;
use store::blob::BlobId;

use super::note_change::{self, ExpectedNote, NoteChange};
use super::{CallContext, check_count, header_of};
use crate::convert::{class_from_proto, expected_from_proto, item_from_proto, note_name, optional_unid_from_proto};
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
    let revision_id = header.revision_id.0.to_vec();
    let sequence = header.sequence;
    Ok(v1::SavedNote { note_id: note.0, unid, sequence, modseq, revision_id, ..v1::SavedNote::default() })
}

/// Changes items of a note.
pub(crate) fn update(context: &CallContext, request: &v1::UpdateNoteRequest) -> Result<CallOutcome<v1::SavedNote>> {
    let access = context.access_for_change::<level::Author>(request.database.clone())?;
    let resolves = match v1::update_note_request::OnConflict::try_from(request.on_conflict) {
        Ok(wish) => wish == v1::update_note_request::OnConflict::Resolve,
        Err(_) => return Err(Error::invalid("unknown value of on_conflict")),
    };
    let base = request.base.clone().map(|base| items_from_proto(base.items)).transpose()?;
    let edit = ItemChanges::new(request.items.clone(), request.remove.clone(), request.replace_all)?;
    let expected = expected_from_proto(request.expected_sequence, &request.expected_revision_id)?;
    let version = ExpectedNote { expected, resolves };
    let removes = |item: &Item| edit.changes_item(item);
    let change = NoteChange { removes: &removes, adds: edit.items.clone(), base, ..NoteChange::of(version) };
    note_change::apply(context, &access, request.note.clone(), &change)
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

    /// Applies the change to a profile, and drops the blobs that no item uses any more.
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

    fn changes_item(&self, item: &Item) -> bool {
        self.replace_all
            || self.items.iter().any(|other| other.is_named(&item.name))
            || self.remove.iter().any(|name| item.is_named(name))
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
    writer.header(note)?.map_or(Ok(()), |header| check_class(&header))?;
    let expected = expected_from_proto(request.expected_sequence, &request.expected_revision_id)?;
    check_version(&mut writer, note, expected)?;
    let is_document = writer.header(note)?.is_some_and(|header| header.class.is_document());
    if request.soft && !is_document {
        return Err(Error::State("only documents can be deleted softly".to_owned()));
    }
    let deleted = if request.permanent { writer.note_delete_permanently(note)? } else { writer.note_delete(note)? };
    let reply = v1::DeleteNoteReply { deleted, modseq: writer.modseq().0, soft: deleted && keeps && is_document };
    Ok(CallOutcome::when_durable(reply, transaction.commit()?))
}

/// Returns `true` if the editors of a note are recorded (`$UpdatedBy`). They are not in mail files, because a message
/// must stay as its sender wrote it.
pub(super) fn tracks_editors(database: &Database, class: NoteClass) -> bool {
    class.is_document() && database.record().kind == DatabaseKind::Standard
}

/// Returns an error for notes that have their own calls, and for notes that are too large to be changed item by item.
pub(super) fn check_class(header: &NoteHeader) -> Result<()> {
    if header.class == NoteClass::ACL || header.class == NoteClass::VIEW {
        return Err(Error::invalid("access control lists, views and folders can only be changed with their own calls"));
    }
    if header.size > EDITED_NOTE_BYTES_MAX {
        return Err(Error::Limit { what: "bytes of a note that can be changed", max: EDITED_NOTE_BYTES_MAX });
    }
    Ok(())
}

/// Returns a conflict error if another user has saved the note since the caller read it.
pub(crate) fn check_version(
    writer: &mut Writer<'_, '_>,
    note: NoteId,
    expected: Option<ExpectedVersion>,
) -> Result<()> {
    writer.header(note)?.map_or(Ok(()), |header| check_expected(expected, &header))
}

/// Returns a conflict error if a version is expected that the note does not have.
pub(crate) fn check_expected(expected: Option<ExpectedVersion>, found: &NoteHeader) -> Result<()> {
    Ok(expected.map_or(Ok(()), |expected| expected.check(found))?)
}

/// Returns an error if the database exceeds its quota.
pub(crate) fn check_quota(writer: &Writer<'_, '_>) -> Result<()> {
    match writer.database().record().options.quota_bytes {
        Some(quota) if writer.bytes_used() > quota => Err(Error::Exhausted("the database has reached its quota")),
        _ => Ok(()),
    }
}
