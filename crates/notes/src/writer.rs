//! The changes that a transaction can make in one database: notes, folders, marks, the ACL.
//!
//! Every method checks the caller's rights: the level and flags of the ACL, and the Readers and Authors items of the
//! note concerned. A note that the caller may not read is treated as absent.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use base::codec::Encoder;
use base::limits::{ITEMS_PER_NOTE_MAX, RESPONSE_DEPTH_MAX, SUMMARY_BYTES_MAX};
use base::{Modseq, NoteId, Timestamp, Uid, Unid, Unpaced, ViewId};
use revision::{ItemChanges, Revision, RevisionId, is_conflict_document_unid};
use store::blob::{BlobId, BlobOwner, BlobWriter};
use store::{Batch, Store, Table, Ticket};

use crate::acl::{ACL_NOTE_ID, ACL_UNID, Acl, AclFlags, AclLevel, acl_item};
use crate::acl_history::{self, AclHistoryEntry};
use crate::database::Database;
use crate::edit_history::with_edit_history;
use crate::error::{Error, Result};
use crate::folder::{self, FolderDesign, FolderEntry, FolderState};
use crate::folder_reader::FolderReader;
use crate::item::{self, Item, ItemFlags};
use crate::keys::{self, SummaryRecord as Record};
use crate::limits::{BLOBS_PER_NOTE_MAX, BODY_CHUNK_BYTES, FOLDERS_PER_NOTE_MAX, KEYWORDS_PER_NOTE_MAX};
use crate::note::{
    BodyDirectoryEntry, ExpectedVersion, Keyword, MESSAGE_ITEM, Marks, Membership, NewContents, NewNote, Note,
    NoteClass, NoteFlags, NoteHeader, REPLICATION_SETTINGS_UNID_PREFIX, Summary,
};
use crate::profile::is_profile_unid;
use crate::public;
use crate::purged_deletions::{self, PurgedDeletion};
use crate::records;
use crate::revision_record::{RevisionRecord, changed_names};
use crate::thread_index;
use crate::transaction::{DatabaseChanges, PendingHeader};
use crate::view::index_record::INDEX_BIT;

/// The changes of a transaction to one database.
pub struct Writer<'a, 't> {
    pub(crate) part: &'a mut DatabaseChanges<'t>,
    pub(crate) batch: &'a mut Batch,
    pub(crate) gate: &'a BlobWriter<'t>,
    pub(crate) store: &'a Store,
}

impl Writer<'_, '_> {
    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &Database {
        self.part.database
    }

    /// Returns the modseq up to which the author of this transaction knows the database.
    ///
    /// It is the modseq of the changes in this transaction or, without changes, that of the transaction before. A
    /// modseq that no change carries yet would hide the next change from a client that continues from it.
    #[must_use]
    pub fn modseq(&self) -> Modseq {
        if self.part.is_changed() { self.part.modseq } else { self.part.counters.modseq }
    }

    /// Returns the time of this transaction.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.part.now
    }

    /// Returns the note id that the next new note gets.
    #[must_use]
    pub fn next_note(&self) -> NoteId {
        self.part.counters.next_note
    }

    /// Returns the number of bytes that count towards the quota, changes of this transaction included: the size of all
    /// documents and of the indexes of views, except personal views of other users than the owner.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.part.counters.bytes_used()
    }

    /// Returns the batch and marks the database as changed, for crates of the server that keep collections of their own
    /// in the database. Fails unless the caller is the server itself. The keys must begin with the number of the
    /// database.
    pub fn batch(&mut self) -> Result<&mut Batch> {
        records::require_server_itself(self.part.database, &self.part.grant)?;
        self.part.touched = true;
        Ok(self.batch)
    }

    /// Adds content to the blob store for the next note that this transaction creates or updates. That note must list
    /// the blob.
    pub fn blob_put(&mut self, content: &[u8]) -> Result<BlobId> {
        let owner = BlobOwner { database: self.part.database.number, note: self.part.counters.next_note };
        Ok(self.gate.put(self.batch, owner, content)?)
    }

    /// Adds content to the blob store for an existing note. The update of that note must list the blob.
    pub fn blob_put_for(&mut self, note: NoteId, content: &[u8]) -> Result<BlobId> {
        Ok(self.gate.put(self.batch, self.owner(note), content)?)
    }

    /// Returns a note's header, changes of this transaction included, or `None` if the note is absent or hidden.
    pub fn header(&mut self, note: NoteId) -> Result<Option<NoteHeader>> {
        if self.part.pending_header(note)?.is_none_or(|pending| pending.before.is_some()) {
            self.require_level(AclLevel::Reader)?;
        }
        let is_visible = self.is_visible(note)?;
        let header = self.part.pending_header(note)?.map(|pending| pending.after.clone()).filter(|_| is_visible);
        self.drop_unchanged(note);
        Ok(header)
    }

    /// Creates a note and adds it to its folders.
    ///
    /// It may refer to blobs that this transaction has put, and to those of notes that the caller has read in it. Fails
    /// for other blobs as if they did not exist, unless the caller is the server itself.
    pub fn note_create(&mut self, new: NewNote) -> Result<NoteId> {
        self.check_may_create(&new)?;
        self.create_unchecked(new)
    }

    /// Creates a note without checking whether the caller may create it.
    pub(crate) fn create_unchecked(&mut self, new: NewNote) -> Result<NoteId> {
        self.run_atomically(|writer| writer.write_new_note(new))
    }

    /// Runs a change of several steps. If a step fails after another has written something, the transaction can no
    /// longer be committed.
    pub(crate) fn run_atomically<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let written = self.batch.len();
        let outcome = change(self);
        self.part.is_uncommittable |= outcome.is_err() && self.batch.len() > written;
        outcome
    }

    fn write_new_note(&mut self, mut new: NewNote) -> Result<NoteId> {
        if new.tracks_editors {
            new.items = with_edit_history(&[], &new.items, self.part.grant.name(), self.part.now);
        }
        item::check_items(&new.items)?;
        let note = self.part.counters.next_note;
        if note.0 & INDEX_BIT != 0 {
            return Err(Error::Limit { what: "notes ever created in a database", max: INDEX_BIT as usize });
        }
        if let Some(unid) = new.unid.filter(|unid| self.part.created_note(*unid).is_some()) {
            return Err(Error::Exists { what: format!("note {unid}") });
        }
        let unid = new.unid.unwrap_or_else(|| Unid::generate(self.part.database.random.as_ref()));
        // A generated UNID is new: it has 128 random bits.
        let replaced = new.unid.map(|unid| self.stub_of(unid)).transpose()?.flatten();
        let purged = new.unid.filter(|_| replaced.is_none());
        let purged = purged.map(|unid| self.purged_deletion(unid)).transpose()?;
        check_unid_of_class(unid, new.class)?;
        let created = self.part.database.creation_time(self.part.now);
        let mut header = NoteHeader {
            flags: flags_of(new.class, NewContents::new(&new.items, &[])),
            parent: new.parent,
            received: new.received.unwrap_or(self.part.now),
            crlf_growth: new.crlf_growth,
            keywords: self.keywords_define(&new.keywords)?,
            ..NoteHeader::new(note, unid, new.class, created, self.part.modseq)
        };
        if new.unid.is_some() && self.part.has_revisions {
            // Another server may create a note with this UNID at the same time.
            header.revision_id = RevisionId::new(created, self.revision_tail(unid));
        }
        if let Some(stub) = replaced {
            let record = RevisionRecord::load(self.store, self.part.database, &stub)?;
            let time = stub.sequence_time;
            self.continue_revisions((stub.revision(), time, record), &mut header, &new.items);
            self.take_marks_of(stub.note, note)?;
        } else if let Some(PurgedDeletion { revision, time, .. }) = purged.flatten() {
            let record = self.purged_record(unid, revision)?;
            self.continue_revisions((revision, time, record), &mut header, &new.items);
        }
        if new.unid.is_some() {
            self.take_pending_marks(unid, note)?;
        }
        let stored = self.put_items(note, NewContents::new(&new.items, &new.blobs))?;
        header.size = new.size.unwrap_or(stored);
        for folder in &new.folders {
            if header.uid_in(*folder).is_none() {
                check_folder_limit(&header)?;
                let place = self.allocate_uid_checked(*folder)?;
                header.folders.push(place);
            }
        }
        header.set_marks(new.marks);
        if let Some(parent) = new.parent {
            self.check_depth(unid, parent)?;
            self.batch.put(Table::Children, &keys::child(self.number(), parent, note), &[]);
        }
        self.batch.put(Table::Unid, &keys::unid(self.number(), unid), &note.to_key());
        self.record_design_change(note, new.class);
        let counters = &mut self.part.counters;
        counters.next_note = note.next();
        counters.notes += 1;
        counters.bytes += header.size;
        self.part.add(header);
        Ok(note)
    }

    /// Returns the note with a UNID, as the last transaction left it, or `None` if it is absent or hidden.
    pub fn find(&mut self, unid: Unid) -> Result<Option<NoteId>> {
        self.require_level(AclLevel::Reader)?;
        let Some(note) = records::find(self.store, self.number(), unid)? else { return Ok(None) };
        let is_visible = self.is_visible(note)?;
        self.drop_unchanged(note);
        Ok(is_visible.then_some(note))
    }

    /// Reads a note as the last transaction left it. Other notes of this transaction may then refer to its blobs.
    pub fn note(&mut self, note: NoteId) -> Result<Option<Note>> {
        if !self.part.grant.flags().contains(AclFlags::PUBLIC_READER) {
            self.require_level(AclLevel::Reader)?;
        }
        let reader = self.store;
        let database = self.part.database;
        let summary = self.part.stored_summary(note)?;
        let header = self.part.stored_header(note)?.filter(|header| !header.is_stub());
        let (Some(header), Some(summary)) = (header, summary) else { return Ok(None) };
        if !self.part.grant.may_see(header.flags, &summary.items) {
            return Ok(None);
        }
        let mut items = summary.items.clone();
        for body in &summary.body {
            items.extend(records::load_body(reader, database, note, body.ordinal)?);
        }
        self.gate.permit(&summary.blobs);
        Ok(Some(Note { header, items, blobs: summary.blobs.clone() }))
    }

    /// Replaces the items of a note, and returns its sequence number. Fails if the note does not have the version
    /// `expected` any more, which the caller has read.
    pub fn note_update(
        &mut self,
        note: NoteId,
        expected: impl Into<ExpectedVersion>,
        items: &[Item],
        blobs: &[BlobId],
    ) -> Result<u32> {
        let summary = self.editable_summary(note)?;
        // A caller who may change a view only as its owner may not turn it into a shared one.
        let is_theirs = self.pending_header(note)?.after.class == NoteClass::VIEW && !self.may_design_folders();
        if is_theirs && !self.is_owned_by_caller(items) {
            return Err(self.not_author(note));
        }
        self.replace_items(note, expected.into(), &summary, NewContents::new(items, blobs))
    }

    /// Replaces the items of a note without checking whether the caller may change it.
    pub(crate) fn replace_items(
        &mut self,
        note: NoteId,
        expected: ExpectedVersion,
        summary: &Summary,
        contents: NewContents<'_>,
    ) -> Result<u32> {
        let items = contents.items;
        let pending = self.pending_header(note)?;
        let size = pending.after.size;
        expected.check(&pending.after)?;
        self.check_protected_items(note, &summary.items, items)?;
        item::check_items(items)?;
        if items.len() + contents.kept.len() > ITEMS_PER_NOTE_MAX {
            return Err(Error::Limit { what: "items of a note", max: ITEMS_PER_NOTE_MAX });
        }
        self.gate.permit(&summary.blobs);
        let before = self.pending_header(note)?.after.clone();
        let changed = changed_names((self.store, self.part.database), &before, summary, contents)?;
        self.run_atomically(|writer| {
            writer.remove_contents(note, summary, contents);
            let stored = writer.put_items(note, contents)?;
            writer.part.rewrites = true;
            writer.advance(note, &changed)?;
            let header = &mut writer.pending_header(note)?.after;
            let derived = NoteFlags::HAS_READERS.union(NoteFlags::PUBLIC).union(NoteFlags::COMPOSED);
            header.flags = header.flags.difference(derived).union(flags_of(header.class, contents));
            header.size = stored;
            header.crlf_growth = 0;
            let sequence = header.sequence;
            let class = header.class;
            writer.part.counters.bytes = (writer.part.counters.bytes + stored).saturating_sub(size);
            writer.record_design_change(note, class);
            writer.renew_uids(note)?;
            Ok(sequence)
        })
    }

    /// Sets the owner's marks and the keywords of a note. Returns `true` if anything changed. The mark of deletion is
    /// set in all folders of the note.
    pub fn marks_set(&mut self, note: NoteId, marks: Marks, keywords: &[String]) -> Result<bool> {
        self.change_marks(note, keywords, &|header| header.set_marks(marks))
    }

    /// Sets the owner's marks and the keywords of a note. Returns `true` if anything changed. The mark of deletion is
    /// set in one folder only, which must contain the note.
    pub fn marks_set_in(
        &mut self,
        (note, folder): (NoteId, ViewId),
        marks: Marks,
        keywords: &[String],
    ) -> Result<bool> {
        if self.part.pending_header(note)?.is_some_and(|pending| pending.after.uid_in(folder).is_none()) {
            self.drop_unchanged(note);
            return Err(Error::not_found(format!("note {note} in folder {folder}")));
        }
        self.change_marks(note, keywords, &|header| header.set_marks_in(folder, marks))
    }

    fn change_marks(&mut self, note: NoteId, keywords: &[String], change: &dyn Fn(&mut NoteHeader)) -> Result<bool> {
        self.require_level(AclLevel::Author)?;
        if !self.is_visible(note)? {
            return Err(Error::not_found(format!("note {note}")));
        }
        let keywords = self.keywords_define(keywords)?;
        let header = &mut self.pending_header(note)?.after;
        let before = (header.marks, header.deleted_in.clone());
        change(header);
        let changed = before.0 != header.marks || before.1 != header.deleted_in || header.keywords != keywords;
        header.keywords = keywords;
        if !changed {
            self.drop_unchanged(note);
        }
        Ok(changed)
    }

    /// Adds a note to a folder and returns its UID there. A note that is in the folder already keeps its UID.
    pub fn folder_add(&mut self, note: NoteId, folder: ViewId) -> Result<Uid> {
        self.require_may_file(folder)?;
        self.require_folder_visible(folder)?;
        if !self.is_visible(note)? {
            self.drop_unchanged(note);
            return Err(Error::not_found(format!("note {note}")));
        }
        let header = &self.pending_header(note)?.after;
        if !header.class.is_document() {
            self.drop_unchanged(note);
            return Err(Error::invalid(format!("note {note}"), "it is not a document, so it cannot be in a folder"));
        }
        if let Some(uid) = header.uid_in(folder) {
            return Ok(uid);
        }
        let place = self.allocate_uid(folder)?;
        let header = &mut self.pending_header(note)?.after;
        check_folder_limit(header)?;
        header.add_place(place);
        Ok(place.uid)
    }

    /// Removes a note from a folder without deleting the note. Returns `true` if the note was in the folder.
    pub fn folder_remove(&mut self, note: NoteId, folder: ViewId) -> Result<bool> {
        self.require_may_file(folder)?;
        if !self.is_visible(note)? || self.is_folder_hidden(folder)? {
            self.drop_unchanged(note);
            return Ok(false);
        }
        let removed = self.pending_header(note)?.after.remove_place(folder);
        if !removed {
            self.drop_unchanged(note);
        }
        Ok(removed)
    }

    /// Returns the entry with a UID, as the last transaction left it.
    pub fn folder_entry(&self, folder: ViewId, uid: Uid) -> Result<Option<FolderEntry>> {
        self.require_level(AclLevel::Reader)?;
        self.folder_read(folder)?.entry(uid)
    }

    /// Opens a folder's index, as the last transaction left it.
    pub fn folder_read(&self, folder: ViewId) -> Result<FolderReader<'_>> {
        self.require_level(AclLevel::Reader)?;
        self.require_folder_visible(folder)?;
        let reader = FolderReader::open(self.store, self.part.database, folder)?;
        reader.hide_entries(self.store, &self.part.grant, &Unpaced)
    }

    /// Returns a folder's UIDVALIDITY and next UID, changes of this transaction included.
    pub fn folder_state(&mut self, folder: ViewId) -> Result<FolderState> {
        self.require_level(AclLevel::Reader)?;
        self.require_folder_visible(folder)?;
        Ok(self.part.folder(folder)?.state)
    }

    /// Returns the folders that the caller may know of, as the last transaction left them.
    pub fn folders(&self) -> Result<Arc<Vec<FolderDesign>>> {
        self.require_level(AclLevel::Reader)?;
        Ok(folder::visible_to(&self.part.grant, self.all_folders()?))
    }

    pub(crate) fn all_folders(&self) -> Result<Arc<Vec<FolderDesign>>> {
        let load = || records::load_folders(self.store, self.part.database, &Unpaced);
        self.part.database.designs(self.part.stored_design_modseq(), load)
    }

    /// Replaces the ACL and records the differences in its history. An unchanged ACL is not written.
    pub fn acl_set(&mut self, acl: Acl) -> Result<()> {
        self.require_level(AclLevel::Manager)?;
        acl.check()?;
        if self.part.acl.is_none() && acl == *self.part.database.acl().1 {
            return Ok(());
        }
        let store = self.store;
        let database = self.part.database;
        let before = database.acl().1;
        let by = self.part.grant.display_name().to_owned();
        let change = AclHistoryEntry::between(&before, &acl, &by, self.part.now, self.part.modseq);
        acl_history::record_change(store, database.number, &change, self.batch)?;
        let stored = self.pending_header(ACL_NOTE_ID)?.after.revision();
        let old = records::load_summary(store, database, ACL_NOTE_ID)?;
        let old = old.ok_or_else(|| records::damaged_note(database, ACL_NOTE_ID, "summary"))?;
        self.replace_items(ACL_NOTE_ID, stored.into(), &old, NewContents::new(&[acl_item(&acl)], &[]))?;
        self.part.counters.design_modseq = self.part.modseq;
        self.part.acl = Some(acl);
        Ok(())
    }

    /// Returns the ticket of the last transaction, for callers that have nothing to change.
    #[must_use]
    pub fn last_ticket(&self) -> Ticket {
        self.part.database.last().1
    }

    pub(crate) fn number(&self) -> base::DbNumber {
        self.part.database.number
    }

    pub(crate) fn pending_header(&mut self, note: NoteId) -> Result<&mut PendingHeader> {
        self.part.pending_header(note)?.ok_or_else(|| Error::not_found(format!("note {note}")))
    }

    /// Drops a header that was only read, so that it is not written again.
    pub(crate) fn drop_unchanged(&mut self, note: NoteId) {
        let is_unchanged = |pending: &PendingHeader| pending.before.as_ref() == Some(&pending.after);
        if !self.part.released.contains(&note) && self.part.pending.get(&note).is_some_and(is_unchanged) {
            self.part.pending.remove(&note);
        }
    }

    /// Returns the stored summary of a note that the caller may see. For a note that this transaction creates, returns
    /// an empty summary, because its creator may see it.
    pub(crate) fn visible_summary(&mut self, note: NoteId) -> Result<Option<Arc<Summary>>> {
        let is_new = self.part.pending.get(&note).is_some_and(|pending| pending.before.is_none());
        let summary = if is_new { None } else { self.part.stored_summary(note)? };
        if self.part.pending_header(note)?.is_none() {
            return Ok(None);
        }
        if is_new {
            return Ok(Some(Arc::default()));
        }
        let summary = summary.ok_or_else(|| records::damaged_note(self.part.database, note, "summary"))?;
        let flags = self.pending_header(note)?.after.flags;
        Ok(Some(summary).filter(|summary| self.part.grant.may_see(flags, &summary.items)))
    }

    /// Returns `true` if a note exists and the caller may read it. The summary is read only if the note has Readers
    /// items.
    pub(crate) fn is_visible(&mut self, note: NoteId) -> Result<bool> {
        match self.part.pending_header(note)? {
            None => Ok(false),
            Some(pending) if !pending.after.flags.contains(NoteFlags::HAS_READERS) => Ok(true),
            Some(_) => Ok(self.visible_summary(note)?.is_some()),
        }
    }

    pub(crate) fn editable_summary(&mut self, note: NoteId) -> Result<Arc<Summary>> {
        let summary = self.visible_summary(note)?.ok_or_else(|| Error::not_found(format!("note {note}")))?;
        let class = self.pending_header(note)?.after.class;
        let flags = self.pending_header(note)?.after.flags;
        if flags.contains(NoteFlags::TRUNCATED) {
            let reason =
                "this replica has a part of the document only; change it in a replica that receives attachments";
            return Err(Error::invalid(format!("note {note}"), reason));
        }
        if class == NoteClass::VIEW && self.is_owned_by_caller(&summary.items) {
            return Ok(summary);
        }
        let is_public = flags.contains(NoteFlags::PUBLIC) && self.part.grant.may_write_public();
        if !is_public && !self.part.grant.may_edit(&summary.items) {
            return Err(self.not_author(note));
        }
        self.check_may_design(class)?;
        Ok(summary)
    }

    pub(crate) fn not_author(&self, note: NoteId) -> Error {
        let database = self.part.database.path();
        Error::NotAuthor { database, who: self.part.grant.display_name().to_owned(), note }
    }

    pub(crate) fn require_level(&self, needed: AclLevel) -> Result<()> {
        let has = self.part.grant.level();
        if has >= needed {
            return Ok(());
        }
        let who = self.part.grant.display_name().to_owned();
        Err(Error::AccessDenied { database: self.part.database.path(), who, needed, has })
    }

    fn check_may_create(&self, new: &NewNote) -> Result<()> {
        let class = new.class;
        // A caller who may create only public documents cannot put them into folders.
        let may_so = || {
            let is_public = class.is_document() && new.folders.is_empty() && public::is_public(&new.items);
            is_public && self.part.grant.may_write_public()
        };
        if !self.part.grant.may_create() && !may_so() {
            // The error names the missing level where possible, because the note does not exist yet.
            self.require_level(AclLevel::Author)?;
            return Err(self.not_author(self.part.counters.next_note));
        }
        // A database has exactly one ACL, from its creation on; `acl_set` replaces it.
        if class == NoteClass::ACL && self.part.counters.next_note == ACL_NOTE_ID {
            return self.require_level(AclLevel::Manager);
        }
        // A caller who may not see folders may neither file notes in them nor find out this way which folders exist.
        new.folders.iter().try_for_each(|folder| self.require_may_file(*folder))?;
        self.check_may_design(class)
    }

    /// Checks that the items that the caller may not change are the same. These are protected items and, if the caller
    /// may change the note only because it is public, the public state and the Readers and Authors items.
    pub(crate) fn check_protected_items(&self, note: NoteId, old: &[Item], new: &[Item]) -> Result<()> {
        let grant = &self.part.grant;
        if grant.level() >= AclLevel::Editor {
            return Ok(());
        }
        let protected = old.iter().filter(|item| item.flags.contains(ItemFlags::PROTECTED));
        let is_kept = |item: &Item| item::find_item(new, &item.name) == Some(item);
        let mut is_right = protected.into_iter().all(is_kept);
        if !grant.may_edit(old) && public::is_public(old) {
            is_right &= public::is_public(new) && access_items(old).eq(access_items(new));
        }
        if is_right { Ok(()) } else { Err(self.not_author(note)) }
    }

    /// Checks the chain of parents above a new note. Fails if it has too many levels or contains the note itself, which
    /// is possible because a client may name UNIDs of notes that are created later.
    ///
    /// Notes from the server itself are accepted as they were created elsewhere, cycles included: each of two replicas
    /// may have created one half of a cycle. A response to a member of a cycle has nothing above the member that counts
    /// (`docs/views.md`).
    pub(crate) fn check_depth(&self, new: Unid, parent: Unid) -> Result<()> {
        let mut above = Some(parent);
        let mut passed: Vec<Unid> = Vec::new();
        for _ in 0..RESPONSE_DEPTH_MAX {
            let Some(unid) = above.filter(|unid| !passed.contains(unid)) else { return Ok(()) };
            passed.push(unid);
            if unid == new && !self.part.grant.is_server_itself() {
                return Err(Error::invalid(
                    format!("parent {parent}"),
                    "it is the new note itself or one of its responses",
                ));
            }
            above = match records::find(self.store, self.number(), unid)? {
                Some(note) => {
                    records::load_header(self.store, self.part.database, note)?.and_then(|header| header.parent)
                }
                None => self.part.created_note(unid).and_then(|header| header.parent),
            };
        }
        Err(Error::Limit { what: "response levels", max: RESPONSE_DEPTH_MAX })
    }

    /// Makes the next revision of a note, in which the items with these names, in lower case, are different.
    pub(crate) fn advance(&mut self, note: NoteId, changed: &BTreeSet<String>) -> Result<()> {
        self.advance_with(note, NoteFlags::default(), &|record, parent, revision| {
            record.after_save(parent, revision, changed)
        })
    }

    /// Makes the next revision of a note that is deleted: a stub.
    pub(crate) fn advance_to_stub(&mut self, note: NoteId) -> Result<()> {
        self.advance_with(note, NoteFlags::STUB, &|record, parent, revision| {
            record.after_save(parent, revision, &BTreeSet::new())
        })
    }

    /// Makes the next revision of a note, which gets these flags in addition. `record_after` returns its record from
    /// that of the parent, and both revisions.
    pub(crate) fn advance_with(
        &mut self,
        note: NoteId,
        flags: NoteFlags,
        record_after: &dyn Fn(&RevisionRecord, Revision, Revision) -> RevisionRecord,
    ) -> Result<()> {
        let now = self.part.now;
        let before = self.part.pending_header_or_stub(note)?.map(|pending| pending.after.clone());
        let before = before.ok_or_else(|| Error::not_found(format!("note {note}")))?;
        let tail = self.revision_tail(before.unid);
        let mut after = before.clone();
        after.advance(now, tail);
        after.flags = after.flags.difference(NoteFlags::RECEIVED).union(flags);
        if self.part.has_revisions {
            let record = match self.part.revisions.remove(&note) {
                Some(record) => record,
                None => RevisionRecord::load(self.store, self.part.database, &before)?,
            };
            let record = record_after(&record, before.revision(), after.revision());
            record.write(self.part.database, &after, self.batch);
            self.part.revisions.insert(note, record);
        }
        if let Some(pending) = self.part.pending_header_or_stub(note)? {
            pending.after = after;
        }
        Ok(())
    }

    /// Lets a new note descend from the deletion of the note that had its UNID. All its items are changes: the deletion
    /// has removed what was before.
    fn continue_revisions(
        &mut self,
        (deletion, time, record): (Revision, Timestamp, RevisionRecord),
        header: &mut NoteHeader,
        items: &[Item],
    ) {
        let tail = header.revision_id.tail();
        header.sequence = deletion.sequence;
        header.sequence_time = time;
        header.advance(self.part.now, tail);
        if !self.part.has_revisions {
            return;
        }
        let names: BTreeSet<String> = items.iter().map(|item| item.name.to_ascii_lowercase()).collect();
        let record = record.after_save(deletion, header.revision(), &names);
        record.write(self.part.database, header, self.batch);
        self.part.revisions.insert(header.note, record);
    }

    /// Returns bytes that distinguish a revision of a note from others at the same time. In a database of an older
    /// structure, they follow from the UNID.
    fn revision_tail(&self, unid: Unid) -> [u8; 8] {
        if !self.part.has_revisions {
            return RevisionId::first(self.part.now, unid).tail();
        }
        let mut tail = [0; 8];
        self.part.database.random.fill(&mut tail);
        tail
    }

    /// Returns the stub with a UNID. A note that reuses the UNID descends from it.
    fn stub_of(&self, unid: Unid) -> Result<Option<NoteHeader>> {
        let Some(note) = records::find(self.store, self.number(), unid)? else { return Ok(None) };
        let Some(header) = records::load_header(self.store, self.part.database, note)? else { return Ok(None) };
        if header.is_stub() { Ok(Some(header)) } else { Err(Error::Exists { what: format!("note {unid}") }) }
    }

    /// Returns the last deletion of a note with a UNID whose stub was purged, if it is still known.
    pub(crate) fn purged_deletion(&self, unid: Unid) -> Result<Option<PurgedDeletion>> {
        if self.part.counters.purged_modseq == Modseq(0) {
            return Ok(None);
        }
        purged_deletions::load_deletion(self.store, self.number(), unid)
    }

    /// Returns the record of a deletion whose stub was purged.
    pub(crate) fn purged_record(&self, unid: Unid, deletion: Revision) -> Result<RevisionRecord> {
        let ancestors = purged_deletions::load_ancestors(self.store, self.number(), (unid, deletion))?;
        Ok(RevisionRecord { ancestors, changes: ItemChanges::default() })
    }

    pub(crate) fn record_design_change(&mut self, note: NoteId, class: NoteClass) {
        if class.is_design() {
            self.batch.put(Table::Meta, &keys::design(self.number(), note), &class.0.to_be_bytes());
            self.part.counters.design_modseq = self.part.modseq;
        }
    }

    /// Returns `true` if a folder exists and the caller may not know of it.
    fn is_folder_hidden(&self, folder: ViewId) -> Result<bool> {
        let grant = &self.part.grant;
        Ok(!grant.is_server_itself() && folder::is_hidden_from(grant, &self.all_folders()?, folder))
    }

    pub(crate) fn require_folder_visible(&self, folder: ViewId) -> Result<()> {
        if self.is_folder_hidden(folder)? { Err(Error::not_found(format!("folder {folder}"))) } else { Ok(()) }
    }

    pub(crate) fn allocate_uid_checked(&mut self, folder: ViewId) -> Result<Membership> {
        self.require_folder_visible(folder)?;
        self.allocate_uid(folder)
    }

    pub(crate) fn keywords_define(&mut self, names: &[String]) -> Result<Vec<Keyword>> {
        if names.len() > KEYWORDS_PER_NOTE_MAX {
            return Err(Error::Limit { what: "keywords of a note", max: KEYWORDS_PER_NOTE_MAX });
        }
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let known = self
                .part
                .keywords
                .as_ref()
                .map_or_else(|| self.part.database.keywords().find(name), |table| table.find(name));
            let keyword = match known {
                Some(keyword) => keyword,
                None => {
                    let table =
                        self.part.keywords.get_or_insert_with(|| self.part.database.keywords().as_ref().clone());
                    table.define(name)?.0
                }
            };
            found.push(keyword);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Writes summary and body, and returns their size in bytes. The limits of the items were checked before
    /// ([`item::check_items`]).
    pub(crate) fn put_items(&mut self, note: NoteId, contents: NewContents<'_>) -> Result<u64> {
        let NewContents { items, blobs, kept } = contents;
        if blobs.len() > BLOBS_PER_NOTE_MAX {
            return Err(Error::Limit { what: "blobs of a note", max: BLOBS_PER_NOTE_MAX });
        }
        self.check_blobs_permitted(blobs)?;
        let mut summary = Summary { body: kept.to_vec(), ..Summary::default() };
        let mut total = kept.iter().map(|body| body.length).sum::<u64>();
        let used: HashSet<u16> = kept.iter().map(|body| body.ordinal).collect();
        let mut ordinals = (0..keys::REVISIONS_ORDINAL).filter(|ordinal| !used.contains(ordinal));
        for item in items {
            if item.is_summary() {
                summary.items.push(item.clone());
                continue;
            }
            let ordinal = ordinals.next().expect("the number of body items was checked before");
            let length = self.put_body(note, ordinal, item);
            total += length;
            summary.body.push(BodyDirectoryEntry { ordinal, name: item.name.clone(), length });
        }
        let mut known = HashSet::with_capacity(blobs.len());
        for blob in blobs {
            if known.insert(blob) {
                self.gate.add_user(self.batch, self.owner(note), blob)?;
                summary.blobs.push(*blob);
            }
        }
        assert!(
            summary.items.len() + summary.body.len() == items.len() + kept.len(),
            "every item is either in the summary or in the body"
        );
        let record = summary.encode();
        if record.len() > SUMMARY_BYTES_MAX {
            return Err(Error::Limit { what: "bytes of the summary items of a note", max: SUMMARY_BYTES_MAX });
        }
        self.batch.put(Table::Summary, &keys::summary(self.number(), note, Record::Summary), &record);
        self.put_thread_entries(note, &summary.items);
        let indexed = thread_index::indexed_items(&summary.items);
        self.part.written.insert(note, Summary { items: indexed, ..summary });
        Ok(total + record.len() as u64)
    }

    /// Checks that the caller may refer to blobs: a reference gives the right to read the content, and an ID is a hash,
    /// which does not prove that the caller knows the content. The error does not tell whether the content exists.
    fn check_blobs_permitted(&self, blobs: &[BlobId]) -> Result<()> {
        if self.part.grant.is_server_itself() {
            return Ok(());
        }
        match blobs.iter().find(|blob| !self.gate.is_permitted(blob)) {
            Some(blob) => Err(Error::not_found(format!("attachment {blob}"))),
            None => Ok(()),
        }
    }

    fn put_body(&mut self, note: NoteId, ordinal: u16, item: &Item) -> u64 {
        let mut out = Encoder::new();
        item.encode(&mut out);
        let bytes = out.finish();
        assert_eq!(bytes.len(), item.encoded_len(), "the checked length is the written length");
        for (chunk, piece) in (0u32..).zip(bytes.chunks(BODY_CHUNK_BYTES)) {
            self.batch.put(Table::Body, &keys::body(self.number(), note, ordinal, chunk), piece);
        }
        bytes.len() as u64
    }

    /// Removes the body items of a note, and its references to blobs, that its new contents do not keep, and its
    /// records in the index of threads. Includes those that this transaction has written.
    pub(crate) fn remove_contents(&mut self, note: NoteId, summary: &Summary, new: NewContents<'_>) {
        let kept: HashSet<&BlobId> = new.blobs.iter().collect();
        self.part.keep_version(note, &summary.items);
        let written = self.part.written.remove(&note);
        for contents in [Some(summary), written.as_ref()].into_iter().flatten() {
            self.delete_body(note, contents, new.kept);
            self.delete_thread_entries(note, &contents.items);
            self.release_blobs(note, contents.blobs.iter().filter(|blob| !kept.contains(blob)));
        }
    }

    fn delete_body(&mut self, note: NoteId, summary: &Summary, kept: &[BodyDirectoryEntry]) {
        let kept: HashSet<u16> = kept.iter().map(|body| body.ordinal).collect();
        for body in summary.body.iter().filter(|body| !kept.contains(&body.ordinal)) {
            let chunks = body.length.div_ceil(BODY_CHUNK_BYTES as u64);
            for chunk in 0..u32::try_from(chunks).unwrap_or(u32::MAX) {
                self.batch.delete(Table::Body, &keys::body(self.number(), note, body.ordinal, chunk));
            }
        }
    }

    fn release_blobs<'b>(&mut self, note: NoteId, blobs: impl Iterator<Item = &'b BlobId>) {
        let owner = self.owner(note);
        let now = self.part.now;
        for blob in blobs {
            self.gate.release(self.batch, owner, blob, now);
        }
    }

    fn owner(&self, note: NoteId) -> BlobOwner {
        BlobOwner { database: self.number(), note }
    }
}

impl ExpectedVersion {
    /// Fails with [`Error::Conflict`] or [`Error::OtherVersion`] if a note does not have this version any more.
    pub fn check(self, header: &NoteHeader) -> Result<()> {
        let NoteHeader { unid, sequence: found, .. } = *header;
        if self.is_of(header) {
            return Ok(());
        }
        if self.sequence == found {
            return Err(Error::OtherVersion { unid, sequence: found });
        }
        Err(Error::Conflict { unid, expected: self.sequence, found })
    }
}

/// Checks that a UNID is not reserved for other notes.
pub(crate) fn check_unid_of_class(unid: Unid, class: NoteClass) -> Result<()> {
    let reason = if is_profile_unid(unid) && class != NoteClass::PROFILE {
        "UNIDs with this prefix are reserved for profile documents"
    } else if is_conflict_document_unid(unid) {
        "UNIDs with this prefix are reserved for the conflict documents of replicas"
    } else if unid.0.starts_with(&REPLICATION_SETTINGS_UNID_PREFIX) && class != NoteClass::REPLICATION_FORMULA {
        "UNIDs with this prefix are reserved for replication settings"
    } else if unid == ACL_UNID && class != NoteClass::ACL {
        "it is reserved for the access control list"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("UNID {unid}"), reason))
}

fn check_folder_limit(header: &NoteHeader) -> Result<()> {
    if header.folders.len() >= FOLDERS_PER_NOTE_MAX {
        return Err(Error::Limit { what: "folders of a note", max: FOLDERS_PER_NOTE_MAX });
    }
    Ok(())
}

/// Returns the Readers and Authors items, which determine who may read and change a note.
pub(crate) fn access_items(items: &[Item]) -> impl Iterator<Item = &Item> {
    items.iter().filter(|item| item.flags.contains(ItemFlags::READERS) || item.flags.contains(ItemFlags::AUTHORS))
}

/// Returns the flags of a note that follow from its contents.
pub(crate) fn flags_of(class: NoteClass, contents: NewContents<'_>) -> NoteFlags {
    let NewContents { items, kept, .. } = contents;
    let restricts = |item: &Item| {
        item.flags.contains(ItemFlags::READERS) && item.value.texts().iter().any(|name| !name.trim().is_empty())
    };
    let is_message = |name: &str| name.eq_ignore_ascii_case(MESSAGE_ITEM);
    let mut flags = NoteFlags::default();
    flags.set(NoteFlags::HAS_READERS, items.iter().any(restricts));
    flags.set(NoteFlags::PUBLIC, public::is_public(items));
    let has_message = items.iter().any(|item| !item.is_summary() && is_message(&item.name))
        || kept.iter().any(|body| is_message(&body.name));
    flags.set(NoteFlags::COMPOSED, class.is_document() && !has_message);
    flags
}
