//! Soft deletion: deleted documents that can be restored for some time.
//!
//! If a database keeps deleted documents ([`crate::DatabaseOptions::keep_deleted_hours`]), [`Writer::note_delete`]
//! turns a document into a *stub that keeps its contents*, with the flags [`NoteFlags::STUB`] and
//! [`NoteFlags::SOFT_DELETED`]. For all readers this is a deletion like any other: the document leaves its folders,
//! views, threads and searches, and clients and replicas learn of it from the same records. Summary, body and
//! attachments stay, and continue to count towards the quota. One record per document in the table `meta` stores the
//! time, the author and the folders of the deletion. It serves to list and purge deleted documents.
//!
//! [`Writer::note_restore`] undoes the deletion: same note, same UNID, a higher sequence number, and new UIDs in the
//! folders that still exist. Seeing and restoring a deleted document requires the right to delete it.
//! [`Writer::note_delete_permanently`] deletes permanently, also documents that are already soft-deleted.
//! [`purge_deleted`] does so when the time is over. IMAP's EXPUNGE deletes permanently, because its clients expect the
//! space to be freed and have their own trash.
//!
//! Design notes, the access control list and profile documents are always deleted permanently.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, NoteId, Timestamp, ViewId};
use revision::{Revision, RevisionId, is_conflict_document_unid};
use store::blob::BlobOwner;
use store::{Batch, Direction, KeyRange, Table, TableReader};

use crate::change_times::ChangeTimes;
use crate::database::Database;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result, damaged};
use crate::item::{Item, find_item};
use crate::keys::{self, SummaryRecord as Record};
use crate::limits::{BODY_CHUNK_BYTES, DELETED_PURGED_MAX, JOINED_VALUES_MAX, LOSERS_KEPT_HOURS, STEPS_PER_LOOKUP};
use crate::local_document::ID_ITEM;
use crate::note::{BodyDirectoryEntry, Marks, NewContents, Note, NoteClass, NoteFlags, NoteHeader, Summary};
use crate::records;
use crate::thread_records;
use crate::view::index_record::IndexRecord;
use crate::writer::{self, Writer};

/// The record of a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeletionRecord {
    /// Time of the deletion.
    pub at: Timestamp,
    /// Abbreviated name of the identity that deleted the document.
    pub by: String,
    /// The folders that contained the document.
    pub folders: Vec<ViewId>,
    /// The save that made the contents, and its time. It is not always the one that was deleted: another server may
    /// have deleted a later version that never arrived here.
    pub kept: Option<KeptRevision>,
}

/// A save whose contents are kept after a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptRevision {
    /// The revision.
    pub revision: Revision,
    /// The time of the save.
    pub time: Timestamp,
}

impl DeletionRecord {
    /// Returns the stored form: version 2 if the save is known, otherwise version 1.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(if self.kept.is_some() { 2 } else { 1 });
        out.i64(self.at.0).text(&self.by).varint(self.folders.len() as u64);
        for folder in &self.folders {
            out.u32(folder.0);
        }
        if let Some(kept) = self.kept {
            out.u32(kept.revision.sequence).raw(&kept.revision.id.0).i64(kept.time.0);
        }
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !matches!(version, 1 | 2) {
            return Err(InvalidRecord);
        }
        let at = Timestamp(input.i64()?);
        let by = input.text()?.to_owned();
        let count = input.count()?;
        if count > JOINED_VALUES_MAX {
            return Err(InvalidRecord);
        }
        let folders = (0..count).map(|_| Ok(ViewId(input.u32()?))).collect::<std::result::Result<_, _>>()?;
        let kept = match version {
            1 => None,
            _ => {
                let revision = Revision { sequence: input.u32()?, id: RevisionId(input.array()?) };
                Some(KeptRevision { revision, time: Timestamp(input.i64()?) })
            }
        };
        Ok(Self { at, by, folders, kept })
    }
}

/// A document that can be restored.
#[derive(Clone, Debug, PartialEq)]
pub struct DeletedNote {
    /// Its header, as a stub.
    pub header: NoteHeader,
    /// The record of its deletion.
    pub deletion: DeletionRecord,
}

/// A page of documents that can be restored.
#[derive(Clone, Debug, PartialEq)]
pub struct DeletedPage {
    /// The documents, by ascending note id.
    pub notes: Vec<DeletedNote>,
    /// The last document that was examined, or `None` if there are no more.
    pub next: Option<NoteId>,
}

impl DatabaseSnapshot<'_> {
    /// Returns at most `count_max` deleted documents after note `after` that the reader may restore.
    pub fn deleted_notes(&self, after: NoteId, count_max: usize) -> Result<Vec<DeletedNote>> {
        Ok(self.deleted_page(after, count_max, usize::MAX)?.notes)
    }

    /// Does the same as [`DatabaseSnapshot::deleted_notes`], but examines at most `examined_max` deleted documents,
    /// including those that the reader may not restore.
    pub fn deleted_page(&self, after: NoteId, count_max: usize, examined_max: usize) -> Result<DeletedPage> {
        let number = self.database().number();
        let end = keys::deletions(number).end;
        let range = KeyRange { start: keys::deletion(number, after.next()).to_vec(), end };
        let mut cursor = self.snapshot.scan(Table::Meta, &range, Direction::Forward)?;
        let mut page = DeletedPage { notes: Vec::new(), next: Some(after) };
        let mut looks = 0;
        while page.notes.len() < count_max && looks < examined_max {
            let Some((key, value)) = cursor.next()? else {
                page.next = None;
                break;
            };
            let note = keys::split_deletion(key).ok_or_else(|| damaged(Table::Meta, key))?;
            let deletion = DeletionRecord::decode(value).map_err(|_| damaged(Table::Meta, key))?;
            page.next = Some(note);
            looks += 1;
            self.spend(STEPS_PER_LOOKUP)?;
            if let Some((header, _)) = self.load_restorable(note)? {
                page.notes.push(DeletedNote { header, deletion });
            }
        }
        Ok(page)
    }

    /// Returns a deleted document that the reader may restore, with its contents before the deletion. Only the body
    /// items for which `wants` returns `true` are read.
    pub fn deleted_note(
        &self,
        note: NoteId,
        wants: &mut dyn FnMut(&BodyDirectoryEntry) -> bool,
    ) -> Result<Option<Note>> {
        let Some((header, summary)) = self.load_restorable(note)? else { return Ok(None) };
        let mut items = summary.items;
        for body in summary.body.iter().filter(|body| wants(body)) {
            let item = records::load_body(&self.snapshot, self.database(), note, body.ordinal)?;
            items.push(item.ok_or_else(|| records::damaged_note(self.database(), note, "body"))?);
        }
        Ok(Some(Note { header, items, blobs: summary.blobs }))
    }

    fn load_restorable(&self, note: NoteId) -> Result<Option<(NoteHeader, Summary)>> {
        let Some(header) = self.header(note)?.filter(NoteHeader::is_soft_deleted) else { return Ok(None) };
        let summary = records::load_summary(&self.snapshot, self.database(), note)?;
        let summary = summary.ok_or_else(|| records::damaged_note(self.database(), note, "summary"))?;
        Ok(self.grant().may_delete(&summary.items).then_some((header, summary)))
    }
}

impl Writer<'_, '_> {
    /// Deletes a note and leaves a stub. If the database keeps deleted documents, a document can be restored for that
    /// time. Returns `false` if there was no such note.
    pub fn note_delete(&mut self, note: NoteId) -> Result<bool> {
        let Some(summary) = self.deletable_summary(note)? else { return Ok(false) };
        let is_document = self.pending_header(note)?.after.class.is_document();
        if is_document && self.part.database.record().options.keep_deleted_hours.is_some() {
            self.delete_softly(note)?;
        } else {
            self.delete_contents(note, &summary)?;
        }
        Ok(true)
    }

    /// Deletes a note permanently and leaves a stub. Notes that are already soft-deleted are included. Returns `false`
    /// if there was no such note.
    pub fn note_delete_permanently(&mut self, note: NoteId) -> Result<bool> {
        if let Some(summary) = self.deletable_summary(note)? {
            self.delete_contents(note, &summary)?;
            return Ok(true);
        }
        let Some(summary) = self.deleted_summary(note)? else { return Ok(false) };
        if !self.part.grant.may_delete(&summary.items) {
            return Err(self.not_author(note));
        }
        self.delete_kept_contents(note, &summary)?;
        Ok(true)
    }

    /// Removes a note from a folder: its place there or, if it has no other one, the note, which is deleted
    /// permanently. Returns `false` if there was no such note.
    pub fn note_delete_from(&mut self, note: NoteId, folder: ViewId) -> Result<bool> {
        // Reads the header at once.
        self.part.stored_summary(note)?;
        let has_others = self.part.pending_header(note)?.is_some_and(|pending| pending.after.has_several_places());
        if has_others { self.folder_remove(note, folder) } else { self.note_delete_permanently(note) }
    }

    /// Deletes the contents of a softly deleted note, without checking whether the caller may.
    pub(crate) fn delete_kept_contents(&mut self, note: NoteId, summary: &Summary) -> Result<()> {
        let number = self.part.database.number;
        let flags = self.part.stored_header(note)?.map_or(NoteFlags::default(), |header| header.flags);
        self.delete_records(note, flags, summary);
        self.batch.delete(Table::Meta, &keys::deletion(number, note));
        let pending =
            self.part.pending_header_or_stub(note)?.ok_or_else(|| Error::not_found(format!("note {note}")))?;
        let size = pending.after.size;
        clear_contents(&mut pending.after);
        self.part.counters.bytes = self.part.counters.bytes.saturating_sub(size);
        Ok(())
    }

    /// Restores a deleted document, into those of its former folders that still exist.
    pub fn note_restore(&mut self, note: NoteId) -> Result<()> {
        let summary = self.deleted_summary(note)?.ok_or_else(|| Error::not_found(format!("deleted note {note}")))?;
        if !self.part.grant.may_delete(&summary.items) {
            return Err(self.not_author(note));
        }
        let number = self.part.database.number;
        let stored =
            self.part.pending_header_or_stub(note)?.ok_or_else(|| Error::not_found(format!("deleted note {note}")))?;
        let unid = stored.after.unid;
        if stored.after.flags.contains(NoteFlags::TRUNCATED) {
            let reason =
                "this replica has a part of the document only; restore it in a replica that receives attachments";
            return Err(Error::invalid(format!("deleted note {note}"), reason));
        }
        if self.part.created_note(unid).is_some_and(|made| made.note != note)
            || records::find(self.store, number, unid)? != Some(note)
        {
            return Err(Error::Exists { what: format!("another note with UNID {unid}") });
        }
        let key = keys::deletion(number, note);
        let deletion = self.deletion_record(note)?;
        let known = self.folders()?;
        let mut places = Vec::new();
        for folder in deletion.folders {
            if known.iter().any(|design| design.view == folder) {
                places.push(self.allocate_uid_checked(folder)?);
            }
        }
        self.batch.delete(Table::Meta, &key);
        self.advance_with(note, NoteFlags::default(), &|record, parent, revision| match deletion.kept {
            Some(kept) => record.after_restoration(parent, kept.revision, revision),
            None => record.after_save(parent, revision, &BTreeSet::new()),
        })?;
        let counters = &mut self.part.counters;
        counters.notes += 1;
        counters.stubs = counters.stubs.saturating_sub(1);
        let header =
            &mut self.part.pending_header_or_stub(note)?.ok_or_else(|| Error::not_found(format!("note {note}")))?.after;
        header.flags = header.flags.difference(NoteFlags::STUB.union(NoteFlags::SOFT_DELETED));
        header.folders = places;
        if header.has_several_places() {
            header.marks = header.marks.difference(Marks::DELETED);
        }
        if let Some(parent) = header.parent {
            self.batch.put(Table::Children, &keys::child(number, parent, note), &[]);
        }
        Ok(())
    }

    /// Returns the record of the deletion of a document that can be restored, as the last transaction left it.
    pub(crate) fn deletion_record(&self, note: NoteId) -> Result<DeletionRecord> {
        let stored = self.store.get(Table::Meta, &keys::deletion(self.number(), note))?;
        Ok(stored.and_then(|value| DeletionRecord::decode(&value).ok()).unwrap_or_default())
    }

    /// Returns the summary of a note that the caller may delete.
    pub(crate) fn deletable_summary(&mut self, note: NoteId) -> Result<Option<Arc<Summary>>> {
        let Some(summary) = self.visible_summary(note)? else { return Ok(None) };
        let class = self.pending_header(note)?.after.class;
        if class == NoteClass::VIEW && self.is_owned_by_caller(&summary.items) {
            return Ok(Some(summary));
        }
        if !self.part.grant.may_delete(&summary.items) {
            return Err(self.not_author(note));
        }
        self.check_may_design(class)?;
        Ok(Some(summary))
    }

    /// Returns the summary of a deleted document that the caller would be allowed to see.
    fn deleted_summary(&mut self, note: NoteId) -> Result<Option<Arc<Summary>>> {
        let summary = self.part.stored_summary(note)?;
        let found = self.part.pending_header_or_stub(note)?.map(|pending| &pending.after);
        let Some(flags) = found.filter(|header| header.is_soft_deleted()).map(|header| header.flags) else {
            self.drop_unchanged(note);
            return Ok(None);
        };
        let summary = summary.ok_or_else(|| records::damaged_note(self.part.database, note, "summary"))?;
        let is_seen = self.part.grant.may_see(flags, &summary.items);
        if !is_seen {
            self.drop_unchanged(note);
        }
        Ok(is_seen.then_some(summary))
    }

    pub(crate) fn delete_softly(&mut self, note: NoteId) -> Result<()> {
        let at = self.part.now;
        let by = self.part.grant.display_name().to_owned();
        let number = self.part.database.number;
        let header = &mut self.pending_header(note)?.after;
        let kept = KeptRevision { revision: header.revision(), time: header.sequence_time };
        let folders = header.clear_places();
        let parent = header.parent;
        header.flags |= NoteFlags::SOFT_DELETED;
        self.advance_to_stub(note)?;
        let kept = Some(kept).filter(|_| self.part.has_revisions);
        let record = DeletionRecord { at, by, folders, kept }.encode();
        self.batch.put(Table::Meta, &keys::deletion(number, note), &record);
        if let Some(parent) = parent {
            self.batch.delete(Table::Children, &keys::child(number, parent, note));
        }
        self.count_deleted();
        Ok(())
    }

    pub(crate) fn delete_contents(&mut self, note: NoteId, summary: &Summary) -> Result<()> {
        let flags = self.pending_header(note)?.after.flags;
        self.delete_records(note, flags, summary);
        let number = self.part.database.number;
        self.advance_to_stub(note)?;
        let deleted =
            self.part.pending_header_or_stub(note)?.ok_or_else(|| Error::not_found(format!("note {note}")))?;
        let header = &mut deleted.after;
        let size = header.size;
        let parent = header.parent;
        let class = header.class;
        clear_contents(header);
        header.clear_places();
        if let Some(parent) = parent {
            self.batch.delete(Table::Children, &keys::child(number, parent, note));
        }
        if class.is_design() {
            self.batch.delete(Table::Meta, &keys::design(number, note));
            if let Some(index) = IndexRecord::load(self.store, number, note)? {
                let bytes = index.counted_bytes(self.store, number)?;
                index.account.charge(&mut self.part.counters, bytes, 0);
                index.remove(number, note, self.batch);
                self.part.database.views.remove(Some(note));
            }
            self.part.counters.design_modseq = self.part.modseq;
        }
        self.count_deleted();
        self.part.counters.bytes = self.part.counters.bytes.saturating_sub(size);
        Ok(())
    }

    fn delete_records(&mut self, note: NoteId, flags: NoteFlags, summary: &Summary) {
        self.remove_contents(note, summary, NewContents::default());
        delete_summary_keeping_access_items(self.batch, (self.part.database.number, note), flags, summary);
    }

    fn count_deleted(&mut self) {
        let counters = &mut self.part.counters;
        counters.notes = counters.notes.saturating_sub(1);
        counters.stubs += 1;
    }
}

/// Removes the summary record of a note that is deleted permanently. If Readers items restricted the note, the items
/// that decide on access are kept, so that its stub stays restricted to the same identities. The item from which the
/// UNID is derived is kept, too.
fn delete_summary_keeping_access_items(batch: &mut Batch, of: (DbNumber, NoteId), flags: NoteFlags, summary: &Summary) {
    let key = keys::summary(of.0, of.1, Record::Summary);
    let mut items: Vec<Item> = find_item(&summary.items, ID_ITEM).into_iter().cloned().collect();
    if flags.contains(NoteFlags::HAS_READERS) {
        items.extend(writer::access_items(&summary.items).cloned());
    }
    if flags.contains(NoteFlags::HAS_READERS) || !items.is_empty() {
        batch.put(Table::Summary, &key, &Summary { items, ..Summary::default() }.encode());
    } else {
        batch.delete(Table::Summary, &key);
    }
}

/// Changes the header into that of a stub without contents.
fn clear_contents(header: &mut NoteHeader) {
    let is_restricted = header.flags.contains(NoteFlags::HAS_READERS);
    header.flags = if is_restricted { NoteFlags::STUB.union(NoteFlags::HAS_READERS) } else { NoteFlags::STUB };
    header.size = 0;
    header.crlf_growth = 0;
    header.marks = Marks::NONE;
    header.keywords.clear();
    header.change_times = ChangeTimes::default();
}

/// Deletes permanently the documents whose time is over, or all soft-deleted ones if the database no longer keeps
/// deleted documents. The losing versions of conflicts stay for some time in any case.
///
/// Returns their number, which is bounded per call. Call again until it returns 0. Durable on return. The change log
/// gets no new records, because for readers the documents were already deleted.
pub fn purge_deleted(database: &Database) -> Result<usize> {
    let kept = database.record().options.keep_deleted_hours.map(u64::from);
    let before = |hours: u64| database.clock.now().before(Duration::from_secs(hours * 3_600));
    let limit = before(kept.unwrap_or(0));
    let loser_limit = before(kept.unwrap_or(LOSERS_KEPT_HOURS));
    let gate = database.store.blobs().writer();
    let mut counters = database.lock();
    database.check_not_dropped()?;
    let store = database.store.as_ref();
    let mut batch = Batch::new();
    let mut after = *counters;
    let mut removed = 0;
    let mut cursor = store.scan(Table::Meta, &keys::deletions(database.number), Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        let note = keys::split_deletion(key).ok_or_else(|| damaged(Table::Meta, key))?;
        let deletion = DeletionRecord::decode(value).map_err(|_| damaged(Table::Meta, key))?;
        if deletion.at > limit {
            continue;
        }
        if removed >= DELETED_PURGED_MAX {
            break;
        }
        let header = records::load_header(store, database, note)?.filter(NoteHeader::is_soft_deleted);
        let is_loser = header.as_ref().is_some_and(|header| is_conflict_document_unid(header.unid));
        if is_loser && deletion.at > loser_limit {
            continue;
        }
        batch.delete(Table::Meta, key);
        removed += 1;
        let Some(mut header) = header else { continue };
        let summary = records::load_summary(store, database, note)?.unwrap_or_default();
        let owner = BlobOwner { database: database.number, note };
        summary.blobs.iter().for_each(|blob| gate.release(&mut batch, owner, blob, database.clock.now()));
        for body in &summary.body {
            let chunks = u32::try_from(body.length.div_ceil(BODY_CHUNK_BYTES as u64)).unwrap_or(u32::MAX);
            (0..chunks).for_each(|chunk| {
                batch.delete(Table::Body, &keys::body(database.number, note, body.ordinal, chunk));
            });
        }
        thread_records::delete_entries(&mut batch, (database.number, note), &summary.items);
        delete_summary_keeping_access_items(&mut batch, (database.number, note), header.flags, &summary);
        after.bytes = after.bytes.saturating_sub(header.size);
        clear_contents(&mut header);
        batch.put(Table::Summary, &keys::summary(database.number, note, Record::Header), &header.encode());
    }
    drop(cursor);
    if removed == 0 {
        return Ok(0);
    }
    batch.put(Table::Meta, &keys::counters(database.number), &after.encode());
    let ticket = store.commit(&batch)?;
    *counters = after;
    database.publish(after.modseq, ticket);
    drop(counters);
    drop(gate);
    store.durable(ticket).wait()?;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_reads_back() {
        let revision = Revision { sequence: 3, id: RevisionId([7; 16]) };
        for kept in [None, Some(KeptRevision { revision, time: Timestamp(-6) })] {
            let folders = vec![ViewId(3), ViewId(9)];
            let deletion = DeletionRecord { at: Timestamp(-5), by: "Ann/Acme".into(), folders, kept };
            let bytes = deletion.encode();
            assert_eq!(DeletionRecord::decode(&bytes), Ok(deletion));
            assert!((0..bytes.len()).all(|length| DeletionRecord::decode(&bytes[..length]).is_err()));
        }
    }
}
