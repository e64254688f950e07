//! Read access to a database: a snapshot, restricted to what one identity may see.
//!
//! A [`DatabaseSnapshot`] sees the database as one transaction left it and never waits for writers. What it returns may
//! not be on the disk yet. Before a reply leaves the server, [`DatabaseSnapshot::ticket`] must be durable, so that no
//! client learns of a change that a power failure takes back.
//!
//! Notes that Readers items hide are treated as absent by every method; only the counters of the database include them.
//! The server itself sees everything, and only the server itself has access to the snapshot beneath.
//!
//! Methods whose work grows with the number of notes, rows or entries count their steps with the pacer of the snapshot
//! ([`DatabaseSnapshot::paced`]). They may pause there, and hold no lock meanwhile.

use std::sync::Arc;

use base::sync::Mutex;
use base::{Modseq, NoteId, Pacer, Unid, Unpaced, ViewId};
use revision::Revision;
use store::blob::{BlobId, BlobOwner};
use store::{Direction, Snapshot, Table, TableReader, Ticket};

use crate::access::{Access, AtLeast, level};
use crate::acl::Acl;
use crate::change_log::{self, ChangeCursor, ChangeEntry};
use crate::counters::Counters;
use crate::database::Database;
use crate::error::{Error, Result, damaged};
use crate::folder::{self, FolderDesign};
use crate::folder_reader::{self, FolderReader};
use crate::grant::Grant;
use crate::instance::{Position, ReplicationHistory};
use crate::item::{ContentPart, Item};
use crate::keys::{self, SummaryRecord};
use crate::limits::{PROOF_PIECE_BYTES, PUBLICATION_CHECK_INTERVAL, STEPS_PER_RECORD};
use crate::note::{Note, NoteClass, NoteHeader, Summary};
use crate::purged_deletions::{self, PurgedDeletion};
use crate::records;
use crate::revision_record::RevisionRecord;

/// A page of changes in their order, with the place where the next page begins.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangePage {
    /// The changes, without those of hidden notes.
    pub entries: Vec<ChangeEntry>,
    /// The place up to which no change is missing.
    pub next: ChangeCursor,
}

/// A page of changes, the last one first, with the place before which the next page begins.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangePageBack {
    /// The changes, without those of hidden notes.
    pub entries: Vec<ChangeEntry>,
    /// The place before which no change was read, or `None` if there are no more.
    pub next: Option<(Modseq, NoteId)>,
}

/// The changes of whole transactions in their order, with the place where the next ones begin.
#[derive(Debug, Clone, PartialEq)]
pub struct TransactionPage {
    /// The changes.
    pub entries: Vec<ChangeEntry>,
    /// The modseq up to which no change is missing, or `None` if there are no later changes.
    pub next: Option<Modseq>,
}

/// The state of a database at one moment, as one identity may see it.
pub struct DatabaseSnapshot<'d> {
    database: &'d Database,
    grant: Arc<Grant>,
    pub(crate) snapshot: Snapshot<'d>,
    counters: Counters,
    ticket: Ticket,
    /// The folder that was opened last. Most replies concern a single folder.
    opened: Mutex<Option<(ViewId, folder_reader::FolderReaderState)>>,
    /// The note that was read last.
    last: Mutex<Option<CachedHeader>>,
    /// The pacer of long reads, if they may pause.
    pacer: Option<Arc<dyn Pacer>>,
}

/// The header of a note and its visibility to the reader. Most replies ask for the same note several times.
#[derive(Clone)]
struct CachedHeader {
    header: Arc<NoteHeader>,
    is_hidden: bool,
}

impl<'d> DatabaseSnapshot<'d> {
    pub(crate) fn begin(database: &'d Database, grant: Arc<Grant>) -> Result<Self> {
        database.check_not_dropped()?;
        let snapshot = database.store.snapshot()?;
        let counters = counters_of(database, &snapshot)?;
        let ticket = ticket_for(database, counters.modseq)?;
        let opened = Mutex::default();
        let last = Mutex::default();
        Ok(Self { database, grant, snapshot, counters, ticket, opened, last, pacer: None })
    }

    /// Lets a pacer divide long reads.
    #[must_use]
    pub fn paced(mut self, pacer: Arc<dyn Pacer>) -> Self {
        self.pacer = Some(pacer);
        self
    }

    /// Returns the pacer of long reads.
    pub(crate) fn pacer(&self) -> &dyn Pacer {
        match &self.pacer {
            Some(pacer) => pacer.as_ref(),
            None => &Unpaced,
        }
    }

    /// Counts steps of a long read.
    pub(crate) fn spend(&self, steps: u64) -> Result<()> {
        Ok(self.pacer().spend(steps)?)
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &'d Database {
        self.database
    }

    /// Returns what the ACL grants to the reader.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns the ticket that must be durable before anything that was read leaves the server.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns the modseq of the last transaction that this snapshot shows.
    #[must_use]
    pub fn modseq(&self) -> Modseq {
        self.counters.modseq
    }

    /// Returns the counters of the database.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns a note's header, also that of a stub, or `None` if the note is absent or hidden from the reader.
    pub fn header(&self, note: NoteId) -> Result<Option<NoteHeader>> {
        let looked = self.header_and_visibility(note)?.filter(|looked| !looked.is_hidden);
        Ok(looked.map(|looked| NoteHeader::clone(&looked.header)))
    }

    /// Returns the position after a change of this database, for peers that have received everything up to it. Returns
    /// `None` if the database was never changed since it got instances.
    pub fn position(&self, modseq: Modseq) -> Result<Option<Position>> {
        let instances = records::load_instances(&self.snapshot, self.database.number)?;
        Ok(instances.position(modseq, self.grant.names_digest()))
    }

    /// Returns what this replica has received from another server.
    pub fn replication_history(&self, source: &str) -> Result<ReplicationHistory> {
        let stored = self.snapshot.get(Table::Meta, &keys::replication_history(self.database.number, source))?;
        // A history that cannot be read costs a comparison.
        Ok(stored.and_then(|value| ReplicationHistory::decode(&value).ok()).unwrap_or_default())
    }

    /// Returns what this replica has received from all other servers, by their canonical names in lower case. Fails
    /// unless the reader is the server itself.
    pub fn replication_histories(&self) -> Result<Vec<(String, ReplicationHistory)>> {
        records::require_server_itself(self.database, &self.grant)?;
        let range = keys::replication_histories(self.database.number);
        let mut found = Vec::new();
        let mut cursor = self.snapshot.scan(Table::Meta, &range, Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            let name = key.get(range.start.len()..).and_then(|name| std::str::from_utf8(name).ok());
            let name = name.ok_or_else(|| damaged(Table::Meta, key))?.to_owned();
            found.push((name, ReplicationHistory::decode(value).unwrap_or_default()));
        }
        Ok(found)
    }

    /// Returns the last change that both this replica and a peer have that has received everything up to a position, or
    /// `None` if the position is not known here.
    pub fn last_common(&self, position: Position) -> Result<Option<Modseq>> {
        let instances = records::load_instances(&self.snapshot, self.database.number)?;
        Ok(instances.last_common(position, self.modseq()))
    }

    /// Returns the revisions from which a note descends, also for a stub, or `None` if the note is absent or hidden
    /// from the reader.
    pub fn revisions(&self, note: NoteId) -> Result<Option<RevisionRecord>> {
        let header = self.header(note)?;
        header.map(|header| RevisionRecord::load(&self.snapshot, self.database, &header)).transpose()
    }

    /// Returns `true` if this replica has a version of a note, or one that descends from it.
    pub fn knows_revision(&self, unid: Unid, revision: Revision) -> Result<bool> {
        let found = self.find(unid)?.map(|note| self.header(note)).transpose()?.flatten();
        found.map_or(Ok(false), |header| self.has_version(&header, revision))
    }

    /// Returns `true` if a note with a UNID was deleted here, its stub was purged, and the deletion is still known.
    pub fn has_purged_deletion(&self, unid: Unid) -> Result<bool> {
        Ok(self.load_purged_deletion(unid)?.is_some())
    }

    /// Returns the deletion of a note whose stub was purged here, if that descends from a revision, or is it. Returns
    /// `None` if this is not known any more.
    pub fn purged_deletion(&self, unid: Unid, revision: Revision) -> Result<Option<Revision>> {
        let Some(deletion) = self.load_purged_deletion(unid)? else { return Ok(None) };
        let is_known = deletion.knows(&self.snapshot, self.database.number, (unid, revision))?;
        Ok(is_known.then_some(deletion.revision))
    }

    fn load_purged_deletion(&self, unid: Unid) -> Result<Option<PurgedDeletion>> {
        if self.counters.purged_modseq == Modseq(0) {
            return Ok(None);
        }
        purged_deletions::load_deletion(&self.snapshot, self.database.number, unid)
    }

    /// Returns `true` if a note has a version, or descends from it.
    pub(crate) fn has_version(&self, header: &NoteHeader, revision: Revision) -> Result<bool> {
        Ok(header.revision() == revision
            || RevisionRecord::load(&self.snapshot, self.database(), header)?.ancestors.contains(revision))
    }

    /// Returns a note's summary record, or `None` if the note is absent, deleted or hidden.
    pub fn summary(&self, note: NoteId) -> Result<Option<Summary>> {
        if self.is_contents_visible(note)? { self.load_summary(note).map(Some) } else { Ok(None) }
    }

    /// Returns a whole note, or `None` if the note is absent, deleted or hidden.
    pub fn note(&self, note: NoteId) -> Result<Option<Note>> {
        self.note_within(note, u64::MAX)
    }

    /// Returns a note as `note` does. Fails with [`Error::Limit`] if its body items are larger than `bytes_max`.
    pub(crate) fn note_within(&self, note: NoteId, bytes_max: u64) -> Result<Option<Note>> {
        let Some(header) = self.header(note)?.filter(|header| !header.is_stub()) else { return Ok(None) };
        let summary = self.load_summary(note)?;
        if summary.body.iter().map(|body| body.length).sum::<u64>() > bytes_max {
            let max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
            return Err(Error::Limit { what: "bytes of the body items of a note", max });
        }
        let mut items = summary.items;
        for body in &summary.body {
            items.push(self.load_body(note, body.ordinal)?.ok_or_else(|| self.damaged(note, "body"))?);
        }
        Ok(Some(Note { header, items, blobs: summary.blobs }))
    }

    /// Returns one body item of a note by its number.
    pub fn body_item(&self, note: NoteId, ordinal: u16) -> Result<Option<Item>> {
        if self.is_contents_visible(note)? { self.load_body(note, ordinal) } else { Ok(None) }
    }

    /// Returns a part of the content of a body item, by its number. It does not read the rest of the item. Fails for
    /// items that are neither text, rich text nor a piece of a message.
    pub fn body_content(&self, note: NoteId, ordinal: u16, range: std::ops::Range<u64>) -> Result<Option<ContentPart>> {
        if !self.is_contents_visible(note)? {
            return Ok(None);
        }
        records::load_body_content(&self.snapshot, self.database, note, ordinal, range)
    }

    /// Returns the number of the note or stub with a universal identifier.
    pub fn find(&self, unid: Unid) -> Result<Option<NoteId>> {
        match records::find(&self.snapshot, self.database.number, unid)? {
            Some(note) if self.is_hidden(note)? => Ok(None),
            other => Ok(other),
        }
    }

    /// Returns the direct responses of a note.
    pub fn children(&self, parent: Unid) -> Result<Vec<NoteId>> {
        let mut found = Vec::new();
        for note in records::load_children(&self.snapshot, self.database.number, parent)? {
            if !self.is_hidden(note)? {
                found.push(note);
            }
        }
        Ok(found)
    }

    /// Calls `each` for every note after `after`, in the order of note ids, until `each` returns `false`.
    pub fn for_each_note(&self, after: NoteId, each: &mut dyn FnMut(NoteHeader) -> Result<bool>) -> Result<()> {
        self.for_each_note_bounded(after, usize::MAX, each).map(drop)
    }

    /// Calls `each` like [`DatabaseSnapshot::for_each_note`], but reads at most `looks_max` headers, hidden notes
    /// included.
    ///
    /// Returns the last note that was read, or `None` if there are no more notes.
    pub fn for_each_note_bounded(
        &self,
        after: NoteId,
        looks_max: usize,
        each: &mut dyn FnMut(NoteHeader) -> Result<bool>,
    ) -> Result<Option<NoteId>> {
        let start = keys::summary(self.database.number, after.next(), SummaryRecord::Header);
        let range =
            store::KeyRange { start: start.to_vec(), end: store::engine::prefix_end(&self.database.number.to_key()) };
        let mut cursor = self.snapshot.scan(Table::Summary, &range, Direction::Forward)?;
        let mut looks = 0;
        while let Some((key, value)) = cursor.next()? {
            self.spend(STEPS_PER_RECORD)?;
            let (note, part) = keys::split_summary(key).ok_or_else(|| damaged(Table::Summary, key))?;
            if part != SummaryRecord::Header as u8 {
                continue;
            }
            let header = NoteHeader::decode(note, value).map_err(|_| self.damaged(note, "header"))?;
            looks += 1;
            if (!self.hides(&header)? && !each(header)?) || looks >= looks_max {
                return Ok(Some(note));
            }
        }
        Ok(None)
    }

    /// Calls `each` for every change after `since`. Changes before [`Counters::purged_modseq`] may be missing.
    pub fn changes(&self, since: Modseq, each: &mut dyn FnMut(ChangeEntry) -> Result<()>) -> Result<()> {
        self.scan_changes(ChangeCursor::after(since), &mut |entry| {
            if !self.is_hidden(entry.note)? {
                each(entry)?;
            }
            Ok(true)
        })
    }

    /// Returns about `limit` changes after `since`, in order.
    ///
    /// A transaction is included completely or not at all. There are fewer than `limit` changes only if no more exist.
    /// Changes of hidden notes are included. Fails unless the reader is a server.
    pub fn changes_by_transaction(&self, since: Modseq, limit: usize) -> Result<Vec<ChangeEntry>> {
        records::require_server(self.database, &self.grant)?;
        self.transactions(since, limit)
    }

    fn transactions(&self, since: Modseq, limit: usize) -> Result<Vec<ChangeEntry>> {
        change_log::take_transactions(limit, |each| {
            self.scan_changes(ChangeCursor::after(since), &mut |entry| {
                self.spend(STEPS_PER_RECORD)?;
                each(entry)
            })
        })
    }

    /// Returns about `limit` changes after `since`, in order. A transaction is included completely or not at all. Those
    /// of hidden notes are included only for servers, which read the notes anyway to find out.
    pub fn visible_transactions(&self, since: Modseq, limit: usize) -> Result<TransactionPage> {
        let mut entries = self.transactions(since, limit)?;
        let next = entries.last().map(|last| last.modseq).filter(|_| entries.len() >= limit);
        if !self.grant.is_server() {
            let hidden = self.hidden_among(entries.iter().map(|entry| entry.note))?;
            entries.retain(|entry| !hidden.contains(&entry.note));
        }
        Ok(TransactionPage { entries, next })
    }

    /// Returns about `limit` changes before the ones of a note in a transaction, or the last changes without a place,
    /// the last one first.
    pub fn changes_before(&self, before: Option<(Modseq, NoteId)>, limit: usize) -> Result<ChangePageBack> {
        let mut entries: Vec<ChangeEntry> = Vec::new();
        let mut next = None;
        change_log::scan_back(&self.snapshot, self.database.number, before, &mut |entry| {
            self.spend(STEPS_PER_RECORD)?;
            let last = entries.last().map(|last| (last.modseq, last.note));
            if entries.len() >= limit && last != Some((entry.modseq, entry.note)) {
                next = last;
                return Ok(false);
            }
            entries.push(entry);
            Ok(true)
        })?;
        let hidden = self.hidden_among(entries.iter().map(|entry| entry.note))?;
        entries.retain(|entry| !hidden.contains(&entry.note));
        Ok(ChangePageBack { entries, next })
    }

    /// Returns up to `limit` changes after a place.
    ///
    /// A caller that continues from [`ChangePage::next`] misses nothing, in a later snapshot too; a note that changed
    /// again is returned again. No changes are left when that place is behind [`DatabaseSnapshot::modseq`].
    pub fn changes_page(&self, from: ChangeCursor, limit: usize) -> Result<ChangePage> {
        let (mut entries, next) = change_log::take_page(limit, |each| self.scan_changes(from, each))?;
        let next = next.unwrap_or(ChangeCursor::after(self.modseq().max(from.modseq)));
        let hidden = self.hidden_among(entries.iter().map(|entry| entry.note))?;
        entries.retain(|entry| !hidden.contains(&entry.note));
        Ok(ChangePage { entries, next })
    }

    /// Returns the design notes: views, folders, forms, the icon note and others, but not the ACL.
    pub fn design_notes(&self) -> Result<Vec<NoteId>> {
        let mut found = Vec::new();
        for class in [NoteClass::VIEW, NoteClass::FORM, NoteClass::ICON, NoteClass::INFO, NoteClass::FILTER] {
            for note in records::load_design_notes(&self.snapshot, self.database, class)? {
                if !self.is_hidden(note)? {
                    found.push(note);
                }
            }
        }
        Ok(found)
    }

    /// Returns the folders that the reader may know of, in the order of their creation.
    pub fn folders(&self) -> Result<Arc<Vec<FolderDesign>>> {
        Ok(folder::visible_to(&self.grant, self.all_folders()?))
    }

    fn all_folders(&self) -> Result<Arc<Vec<FolderDesign>>> {
        let load = || records::load_folders(&self.snapshot, self.database, self.pacer());
        self.database.designs(self.counters.design_modseq, load)
    }

    /// Returns `true` if [`DatabaseSnapshot::changes`] after `since` misses nothing.
    #[must_use]
    pub fn is_complete_since(&self, since: Modseq) -> bool {
        since >= self.counters.purged_modseq
    }

    /// Returns a version of the items of all notes, for caches of values derived from them.
    ///
    /// A value that was derived from a note under one version stays valid while the version is the same; marks and
    /// folders are not covered. Returns `None` if this snapshot is older than the last change of items, so that the
    /// version is uncertain.
    #[must_use]
    pub fn contents_version(&self) -> Option<Modseq> {
        let version = self.database.contents_modseq();
        (self.counters.modseq >= version).then_some(version)
    }

    /// Opens a folder's index. Fails with "not found" if the reader may not know of the folder.
    pub fn folder(&self, folder: ViewId) -> Result<FolderReader<'_>> {
        if !self.grant.is_server_itself() && folder::is_hidden_from(&self.grant, &self.all_folders()?, folder) {
            return Err(Error::not_found(format!("folder {folder}")));
        }
        if let Some((_, opening)) = self.opened.lock().as_ref().filter(|(view, _)| *view == folder) {
            return Ok(FolderReader::reopen(&self.snapshot, self.database, opening));
        }
        let reader = FolderReader::open(&self.snapshot, self.database, folder)?;
        let reader = reader.hide_entries(&self.snapshot, &self.grant, self.pacer())?;
        *self.opened.lock() = Some((folder, reader.opening()));
        Ok(reader)
    }

    /// Returns `true` if a note of this database refers to a blob. Fails unless the reader is the server itself.
    pub fn has_blob(&self, id: &BlobId) -> Result<bool> {
        records::require_server_itself(self.database, &self.grant)?;
        Ok(self.database.store.blobs().has_user_in(&self.snapshot, id, self.database.number)?)
    }

    /// Returns the length of a blob of any database. Fails unless the reader is the server itself.
    pub fn blob_length_anywhere(&self, id: &BlobId) -> Result<Option<u64>> {
        records::require_server_itself(self.database, &self.grant)?;
        Ok(self.database.store.blobs().length(&self.snapshot, id)?)
    }

    /// Returns the BLAKE3 hash of a blob of any database with a key, or `None` if there is no such blob. Fails unless
    /// the reader is the server itself.
    pub fn blob_proof(&self, id: &BlobId, key: &[u8; 32]) -> Result<Option<blake3::Hash>> {
        let Some(length) = self.blob_length_anywhere(id)? else { return Ok(None) };
        let mut hasher = blake3::Hasher::new_keyed(key);
        let mut start = 0;
        while start < length {
            let end = length.min(start + PROOF_PIECE_BYTES);
            hasher.update(&self.database.store.blobs().read_range(&self.snapshot, id, start..end)?);
            start = end;
        }
        Ok(Some(hasher.finalize()))
    }

    /// Returns the BLAKE3 hash of the content of a blob that a note uses. Servers whose attachments are encrypted with
    /// different keys name contents by it.
    pub fn content_hash(&self, note: NoteId, id: &BlobId) -> Result<[u8; 32]> {
        if !self.is_contents_visible(note)? || !self.uses_blob(note, id)? {
            return Err(Error::not_found(format!("attachment {id} of note {note}")));
        }
        Ok(self.database.store.blobs().content_hash(&self.snapshot, id)?)
    }

    /// Returns the length of a blob that a note uses. Returns [`Error::NotFound`] if the note does not use it, and an
    /// error about damage if it does and the store has lost the blob.
    pub fn blob_length(&self, note: NoteId, id: &BlobId) -> Result<u64> {
        if !self.is_contents_visible(note)? || !self.uses_blob(note, id)? {
            return Err(Error::not_found(format!("attachment {id} of note {note}")));
        }
        Ok(self.database.store.blobs().stored_length(&self.snapshot, id)?)
    }

    /// Returns the content of a blob that a note uses.
    pub fn blob(&self, note: NoteId, id: &BlobId) -> Result<Vec<u8>> {
        self.blob_range(note, id, 0..u64::MAX)
    }

    /// Returns a part of the content of a blob that a note uses.
    pub fn blob_range(&self, note: NoteId, id: &BlobId, range: std::ops::Range<u64>) -> Result<Vec<u8>> {
        if !self.is_contents_visible(note)? || !self.uses_blob(note, id)? {
            return Err(Error::not_found(format!("attachment {id} of note {note}")));
        }
        Ok(self.database.store.blobs().read_range(&self.snapshot, id, range)?)
    }

    /// Returns the ACL. The caller has Reader access.
    #[must_use]
    pub fn acl(&self) -> Arc<Acl> {
        self.database.acl().1
    }

    /// Returns the snapshot, for crates of the server that keep collections of their own in a database. Fails unless
    /// the reader is the server itself.
    pub fn snapshot(&self) -> Result<&Snapshot<'d>> {
        records::require_server_itself(self.database, &self.grant).map(|()| &self.snapshot)
    }

    /// Calls `each` for every change after a position, in order, until it returns `false`. Changes of hidden notes are
    /// included. The last changes come from memory.
    pub(crate) fn scan_changes(
        &self,
        from: ChangeCursor,
        each: &mut dyn FnMut(ChangeEntry) -> Result<bool>,
    ) -> Result<()> {
        let Some(entries) = self.database.log_entries(from, self.modseq()) else {
            return change_log::scan_from(&self.snapshot, self.database.number, from, each);
        };
        for entry in entries {
            if !each(entry)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns `true` if Readers items hide the note with this header.
    pub(crate) fn hides(&self, header: &NoteHeader) -> Result<bool> {
        records::is_hidden(&self.snapshot, self.database, &self.grant, header)
    }

    fn is_hidden(&self, note: NoteId) -> Result<bool> {
        if self.grant.is_server_itself() {
            return Ok(false);
        }
        Ok(self.header_and_visibility(note)?.is_some_and(|looked| looked.is_hidden))
    }

    /// Returns `true` if the reader may see the contents of a note. The contents of a deleted note are not shown, even
    /// if they are kept.
    pub(crate) fn is_contents_visible(&self, note: NoteId) -> Result<bool> {
        Ok(self.header_and_visibility(note)?.is_some_and(|looked| !looked.is_hidden && !looked.header.is_stub()))
    }

    fn header_and_visibility(&self, note: NoteId) -> Result<Option<CachedHeader>> {
        let known = self.last.lock().clone();
        if let Some(known) = known.filter(|last| last.header.note == note) {
            return Ok(Some(known));
        }
        let Some(header) = records::load_header(&self.snapshot, self.database, note)? else { return Ok(None) };
        let looked = CachedHeader { is_hidden: self.hides(&header)?, header: Arc::new(header) };
        *self.last.lock() = Some(looked.clone());
        Ok(Some(looked))
    }

    /// Returns `true` if a note refers to a blob. The table of references answers without reading the note, but the
    /// note is authoritative.
    fn uses_blob(&self, note: NoteId, id: &BlobId) -> Result<bool> {
        let owner = BlobOwner { database: self.database.number, note };
        if self.database.store.blobs().has_user(&self.snapshot, id, owner)? {
            return Ok(true);
        }
        Ok(records::load_summary(&self.snapshot, self.database, note)?
            .is_some_and(|summary| summary.blobs.contains(id)))
    }

    fn load_summary(&self, note: NoteId) -> Result<Summary> {
        records::load_summary(&self.snapshot, self.database, note)?.ok_or_else(|| self.damaged(note, "summary"))
    }

    fn load_body(&self, note: NoteId, ordinal: u16) -> Result<Option<Item>> {
        records::load_body(&self.snapshot, self.database, note, ordinal)
    }

    fn damaged(&self, note: NoteId, record: &'static str) -> Error {
        records::damaged_note(self.database, note, record)
    }
}

impl<L: AtLeast<level::Reader>> Access<L> {
    /// Takes a snapshot of the database for reading.
    pub fn read(&self) -> Result<DatabaseSnapshot<'_>> {
        DatabaseSnapshot::begin(self.database(), self.grant()?)
    }
}

/// Reads the counters of a snapshot.
///
/// The counters are gone if the database was deleted after its existence was checked. The deleting transaction holds
/// the lock until the database is marked as deleted.
fn counters_of(database: &Database, snapshot: &Snapshot<'_>) -> Result<Counters> {
    records::load_counters(snapshot, database.number).or_else(|error| {
        drop(database.lock());
        database.check_not_dropped()?;
        refuse_when_poisoned(database)?;
        Err(error)
    })
}

/// Returns the ticket that makes a snapshot durable.
///
/// A writer may be between making its batch visible and publishing its ticket. It holds the lock then, and publishes
/// (after microseconds) before it releases the lock. Only this writer is waited for: the next one may get the lock
/// before this reader, and then wait for a lock that the reader holds. A writer whose sync failed never publishes: its
/// changes are visible but will never be durable, so no client may learn of them.
fn ticket_for(database: &Database, modseq: Modseq) -> Result<Ticket> {
    let (published, ticket) = database.last();
    if published >= modseq {
        return Ok(ticket);
    }
    while database.last().0 < modseq && !database.has_no_writer_within(PUBLICATION_CHECK_INTERVAL) {}
    let (published, ticket) = database.last();
    if published < modseq {
        refuse_when_poisoned(database)?;
    }
    assert!(published >= modseq, "a writer publishes its changes before it releases the lock");
    Ok(ticket)
}

fn refuse_when_poisoned(database: &Database) -> Result<()> {
    database.store.committer().poison_reason().map_or(Ok(()), |reason| Err(store::Error::Poisoned(reason).into()))
}
