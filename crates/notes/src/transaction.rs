//! Transactions: changes to one or several databases that become visible and durable together.
//!
//! A transaction takes the write locks of its databases in the order of their numbers, so two transactions never
//! deadlock. It collects one [`Batch`] and releases the locks when the batch is in the engine; callers wait for the
//! disk sync afterwards, through the ticket. All its changes to one database carry one modseq.
//!
//! Changes of headers are collected per note and written once, at the commit; folder indexes likewise. A transaction
//! that is dropped, or whose commit fails, changes nothing. A change that fails before it has written anything leaves
//! the other changes intact. A change that fails later makes the transaction impossible to commit.

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::sync::MutexGuard;
use base::{Modseq, NoteId, Timestamp, Unid, ViewId};
use store::blob::BlobWriter;
use store::{Batch, Store, Table, TableReader, Ticket};

use crate::access::{Access, level};
use crate::acl::Acl;
use crate::change_log::{self, ChangeEntry, NoteChange};
use crate::counters::Counters;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::folder::FolderEntry;
use crate::folder_cache::FolderChange;
use crate::folder_index_writer::FolderIndexWriter;
use crate::grant::Grant;
use crate::item::Item;
use crate::keys::{self, SummaryRecord as Record};
use crate::keyword::Keywords;
use crate::limits::{DATABASES_PER_TRANSACTION_MAX, JOINED_FOLDERS_MAX, JOINED_VALUES_MAX};
use crate::note::{Membership, NoteClass, NoteFlags, NoteHeader, Summary};
use crate::ods::OdsVersion;
use crate::recent_changes::{PreviousState, RecentChange};
use crate::records;
use crate::revision_record::RevisionRecord;
use crate::thread_index::ThreadKey;
use crate::writer::Writer;

/// A set of uncommitted changes.
#[must_use = "a transaction changes nothing until it is committed"]
pub struct Transaction<'t> {
    store: &'t Store,
    /// Prevents the collection of blobs between their storage and the first reference to them. Taken before any
    /// database's lock.
    pub(crate) blob_writer: BlobWriter<'t>,
    pub(crate) batch: Batch,
    /// The changes per database, in the order in which the caller named the databases.
    parts: Vec<DatabaseChanges<'t>>,
}

impl<'t> Transaction<'t> {
    pub(crate) fn begin(store: &'t Store, accesses: &[&'t Access<level::Depositor>]) -> Result<Self> {
        Self::begin_with(store, accesses, Batch::new())
    }

    pub(crate) fn begin_with(
        store: &'t Store,
        accesses: &[&'t Access<level::Depositor>],
        batch: Batch,
    ) -> Result<Self> {
        if accesses.len() > DATABASES_PER_TRANSACTION_MAX {
            return Err(Error::Limit { what: "databases of a transaction", max: DATABASES_PER_TRANSACTION_MAX });
        }
        let gate = store.blobs().writer();
        let mut order: Vec<usize> = (0..accesses.len()).collect();
        order.sort_by_key(|index| accesses[*index].database().number());
        let mut parts: Vec<Option<DatabaseChanges<'t>>> = accesses.iter().map(|_| None).collect();
        let mut previous = None;
        for index in order {
            let database = accesses[index].database();
            assert!(previous != Some(database.number()), "a transaction names each database once");
            previous = Some(database.number());
            let guard = database.lock();
            database.check_not_dropped()?;
            parts[index] = Some(DatabaseChanges::new(database, accesses[index].grant()?, guard));
        }
        Ok(Self { store, blob_writer: gate, batch, parts: parts.into_iter().flatten().collect() })
    }

    /// Returns the writer of the database at position `index` in the caller's list.
    pub fn writer(&mut self, index: usize) -> Writer<'_, 't> {
        Writer { part: &mut self.parts[index], batch: &mut self.batch, gate: &self.blob_writer, store: self.store }
    }

    /// Returns the size of the changes so far, in bytes.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.batch.byte_count()
    }

    /// Makes the changes visible. They are durable when the returned ticket is.
    ///
    /// A transaction without changes returns the ticket of the state that it may have read.
    pub fn commit(mut self) -> Result<Ticket> {
        for part in &mut self.parts {
            if part.is_uncommittable {
                return Err(Error::invalid(
                    "the transaction",
                    "one of its changes failed partway, so it cannot be committed",
                ));
            }
            part.flush(&mut self.batch)?;
        }
        if self.batch.is_empty() {
            return Ok(self.parts.iter().map(|part| part.database.last().1).max().unwrap_or(Ticket::NONE));
        }
        let ticket = self.store.commit(&self.batch)?;
        for part in self.parts {
            part.publish(ticket);
        }
        Ok(ticket)
    }
}

/// The changes to one database.
pub(crate) struct DatabaseChanges<'t> {
    pub(crate) database: &'t Database,
    pub(crate) grant: Arc<Grant>,
    /// The write lock. Its value is replaced when the batch is in the engine.
    guard: MutexGuard<'t, Counters>,
    /// The counters after the changes of this transaction.
    pub(crate) counters: Counters,
    pub(crate) now: Timestamp,
    pub(crate) modseq: Modseq,
    pub(crate) pending: HashMap<NoteId, PendingHeader>,
    /// The notes that this transaction creates, by their UNIDs.
    made: HashMap<Unid, NoteId>,
    pub(crate) folders: HashMap<ViewId, FolderIndexWriter<'t>>,
    /// The changes of notes, filled when they are in the batch.
    changed: Vec<RecentChange>,
    /// The entries of the change log, filled when they are in the batch.
    log_entries: Vec<ChangeEntry>,
    /// The previous versions of the notes whose contents this transaction replaces. Empty while no view is open.
    replaced: HashMap<NoteId, PreviousState>,
    keeps_versions: bool,
    /// `true` if saves get revisions. In a database of an older structure, older programs must be able to read what
    /// this one writes.
    pub(crate) has_revisions: bool,
    /// The changes of folders, filled when they are in the batch.
    folder_changes: Vec<(ViewId, FolderChange)>,
    /// The keywords, if this transaction added some.
    pub(crate) keywords: Option<Keywords>,
    /// The ACL, if this transaction replaced it.
    pub(crate) acl: Option<Acl>,
    /// `true` if something was changed outside `pending`.
    pub(crate) touched: bool,
    /// `true` if an existing note gets other items.
    pub(crate) rewrites: bool,
    /// Summary records of the notes whose contents this transaction has written. They locate body items and blobs that
    /// the store does not know yet. Of the items, they have those that are in the index of threads.
    pub(crate) written: HashMap<NoteId, Summary>,
    /// The note that was read last, as stored. Saving a note reads it several times.
    last_read: Option<StoredNote>,
    /// The notes that come from another replica: their revision, and the times of marks, keywords and folders.
    pub(crate) received: HashSet<NoteId>,
    /// Notes that count as changed although their headers are the same: clients are told of them.
    pub(crate) released: HashSet<NoteId>,
    /// The revisions of the notes that this transaction has saved. The store does not know them yet.
    pub(crate) revisions: HashMap<NoteId, RevisionRecord>,
    /// The threads of the keys of messages that this transaction has written.
    pub(crate) threads: HashMap<ThreadKey, String>,
    /// Blocks of unread marks that this transaction has written.
    pub(crate) unread: HashMap<Vec<u8>, Vec<u8>>,
    /// Records about unread marks in the table `meta` that this transaction has written, or deleted (`None`).
    pub(crate) unread_records: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// `true` if a change failed after some of its writes. These writes must not be stored.
    pub(crate) is_uncommittable: bool,
}

/// A note as stored.
struct StoredNote {
    note: NoteId,
    header: Option<NoteHeader>,
    /// The summary. The outer `None` means that it was not read yet.
    summary: Option<Option<Arc<Summary>>>,
}

/// A note whose header changes.
pub(crate) struct PendingHeader {
    /// The stored header, or `None` for a new note.
    pub(crate) before: Option<NoteHeader>,
    /// The header after the transaction.
    pub(crate) after: NoteHeader,
}

impl PendingHeader {
    /// Asserts the invariants of every written header: it can be decoded again, and it belongs to the same note as
    /// before.
    ///
    /// A note that was received from another replica can have fewer saves than the deletion that it replaces.
    fn check(&self, is_received: bool) {
        let Self { before, after } = self;
        assert!(after.folders.len() <= JOINED_VALUES_MAX, "a header with more folders could not be read");
        assert!(after.keywords.len() <= JOINED_VALUES_MAX, "a header with more keywords could not be read");
        assert!(after.keywords.is_sorted_by(|one, next| one < next), "keywords rise");
        assert!(!after.is_stub() || after.folders.is_empty(), "a deletion stub is in no folder");
        assert!(after.are_places_right(), "the mark of deletion is in places of the note");
        assert!(
            after.is_stub() || !after.flags.contains(NoteFlags::SOFT_DELETED),
            "only deletion stubs have the soft-deleted flag"
        );
        assert!(after.sequence > 0, "sequence numbers start at 1");
        if let Some(before) = before {
            assert!(before.unid == after.unid && before.class == after.class, "a note keeps its UNID and class");
            assert!(is_received || before.sequence <= after.sequence, "saves never decrease the sequence number");
            assert!(before.modseq < after.modseq, "each change has a higher modseq than the previous one");
        }
    }
}

impl<'t> DatabaseChanges<'t> {
    fn new(database: &'t Database, grant: Arc<Grant>, guard: MutexGuard<'t, Counters>) -> Self {
        let counters = *guard;
        Self {
            database,
            grant,
            guard,
            counters,
            now: database.clock.now(),
            modseq: counters.modseq.next(),
            pending: HashMap::new(),
            made: HashMap::new(),
            folders: HashMap::new(),
            changed: Vec::new(),
            log_entries: Vec::new(),
            replaced: HashMap::new(),
            keeps_versions: database.views.is_any_open(),
            has_revisions: database.record().ods >= OdsVersion::WITH_REVISIONS,
            folder_changes: Vec::new(),
            keywords: None,
            acl: None,
            touched: false,
            rewrites: false,
            written: HashMap::new(),
            last_read: None,
            received: HashSet::new(),
            released: HashSet::new(),
            revisions: HashMap::new(),
            threads: HashMap::new(),
            unread: HashMap::new(),
            unread_records: HashMap::new(),
            is_uncommittable: false,
        }
    }

    /// Adds a note that this transaction creates.
    pub(crate) fn add(&mut self, made: NoteHeader) {
        self.made.insert(made.unid, made.note);
        self.pending.insert(made.note, PendingHeader { before: None, after: made });
    }

    /// Returns the header of the note with that UNID if this transaction creates it.
    pub(crate) fn created_note(&self, unid: Unid) -> Option<&NoteHeader> {
        self.pending.get(self.made.get(&unid)?).map(|pending| &pending.after)
    }

    /// Returns `true` if there is something to commit.
    pub(crate) fn is_changed(&self) -> bool {
        !self.pending.is_empty() || self.touched
    }

    /// Returns the modseq of the last committed change of a design note.
    pub(crate) fn stored_design_modseq(&self) -> Modseq {
        self.guard.design_modseq
    }

    /// Returns a note's header for modification, or `None` if the note does not exist or is a stub.
    pub(crate) fn pending_header(&mut self, note: NoteId) -> Result<Option<&mut PendingHeader>> {
        if !self.pending.contains_key(&note) {
            let header = self.stored_header(note)?.filter(|header| !header.is_stub());
            let Some(header) = header else { return Ok(None) };
            self.pending.insert(note, PendingHeader { before: Some(header.clone()), after: header });
        }
        Ok(self.pending.get_mut(&note).filter(|pending| !pending.after.is_stub()))
    }

    /// Returns a note's header for modification, also that of a stub.
    pub(crate) fn pending_header_or_stub(&mut self, note: NoteId) -> Result<Option<&mut PendingHeader>> {
        if !self.pending.contains_key(&note) {
            let Some(header) = self.stored_header(note)? else { return Ok(None) };
            self.pending.insert(note, PendingHeader { before: Some(header.clone()), after: header });
        }
        Ok(self.pending.get_mut(&note))
    }

    /// Returns the header of a note as the last transaction left it.
    pub(crate) fn stored_header(&mut self, note: NoteId) -> Result<Option<NoteHeader>> {
        if let Some(last_read) = self.last_read.as_ref().filter(|last_read| last_read.note == note) {
            return Ok(last_read.header.clone());
        }
        let header = records::load_header(self.database.store.as_ref(), self.database, note)?;
        self.last_read = Some(StoredNote { note, header: header.clone(), summary: None });
        Ok(header)
    }

    /// Returns the summary of a note as the last transaction left it. Reads header and summary at once if neither is in
    /// memory.
    pub(crate) fn stored_summary(&mut self, note: NoteId) -> Result<Option<Arc<Summary>>> {
        let store: &dyn TableReader = self.database.store.as_ref();
        let (header, summary) = match self.last_read.take_if(|last_read| last_read.note == note) {
            Some(StoredNote { header, summary: Some(summary), .. }) => (header, summary),
            Some(StoredNote { header, summary: None, .. }) => {
                (header, records::load_summary(store, self.database, note)?.map(Arc::new))
            }
            None => {
                let (header, summary) = records::load_header_and_summary(store, self.database, note)?;
                (header, summary.map(Arc::new))
            }
        };
        self.last_read = Some(StoredNote { note, header, summary: Some(summary.clone()) });
        Ok(summary)
    }

    /// Returns a folder's index for modification.
    pub(crate) fn folder(&mut self, view: ViewId) -> Result<&mut FolderIndexWriter<'t>> {
        match self.folders.entry(view) {
            MapEntry::Occupied(known) => Ok(known.into_mut()),
            MapEntry::Vacant(vacant) => Ok(vacant.insert(FolderIndexWriter::open(self.database, view)?)),
        }
    }

    /// Keeps the previous version of a note whose contents are to be replaced. Soft-deleted documents are skipped,
    /// because no view contained them.
    pub(crate) fn keep_version(&mut self, note: NoteId, items: &[Item]) {
        let stored = self.pending.get(&note).and_then(|pending| pending.before.as_ref());
        let is_shown = |header: &&NoteHeader| header.class == NoteClass::DOCUMENT && !header.is_stub();
        if let Some(header) = stored.filter(|header| self.keeps_versions && is_shown(header)) {
            self.replaced.entry(note).or_insert_with(|| PreviousState::version(header.clone(), items));
        }
    }

    fn flush(&mut self, batch: &mut Batch) -> Result<()> {
        if !self.is_changed() {
            return Ok(());
        }
        self.check_counts();
        let mut notes: Vec<NoteId> = self.pending.keys().copied().collect();
        notes.sort_unstable();
        for note in notes {
            let Some(mut pending) = self.pending.remove(&note) else { continue };
            let before = pending.before.as_ref().filter(|_| self.has_revisions);
            pending.after.settle_places();
            pending.after.set_modseq(self.modseq, before);
            pending.after.modified = self.now;
            let is_own_change = self.has_revisions && !pending.after.is_stub() && !self.received.contains(&note);
            if let Some(before) = pending.before.as_ref().filter(|_| is_own_change) {
                pending.after.record_change_times(before, self.now, self.database.record().purge_interval());
            }
            self.flush_note(batch, &pending)?;
            let replaced = self.replaced.remove(&note);
            let before = if pending.before.is_none() { Some(PreviousState::New) } else { replaced };
            self.changed.push(RecentChange { modseq: self.modseq, note, before: before.map(Arc::new) });
        }
        for (view, folder) in self.folders.drain() {
            self.folder_changes.push((view, folder.finish(self.modseq, batch)?));
        }
        if let Some(keywords) = &self.keywords {
            batch.put(Table::Meta, &keys::keywords(self.database.number), &keywords.encode());
        }
        if self.rewrites {
            self.database.set_contents_modseq(self.modseq);
        }
        assert!(self.modseq > self.counters.modseq, "modseqs rise");
        assert!(self.counters.next_note >= self.guard.next_note, "note ids are never reused");
        assert!(self.counters.uid_validity >= self.guard.uid_validity, "UIDVALIDITY values are never reused");
        assert!(self.counters.purged_modseq == self.guard.purged_modseq, "only a purge changes purged_modseq");
        if !self.database.is_instance_stored() {
            let mut instances = records::load_instances(self.database.store.as_ref(), self.database.number)?;
            instances.begin(self.database.instance(), self.modseq);
            batch.put(Table::Meta, &keys::instances(self.database.number), &instances.encode());
        }
        self.counters.modseq = self.modseq;
        batch.put(Table::Meta, &keys::counters(self.database.number), &self.counters.encode());
        Ok(())
    }

    /// Asserts that the note counter changes by as much as the notes do.
    ///
    /// A counter that was wrong before may have stopped at zero; its correction is left to a repair.
    fn check_counts(&self) {
        let count =
            |is_there: fn(&PendingHeader) -> bool| self.pending.values().filter(|it| is_there(it)).count() as u64;
        let before = count(|pending| pending.before.as_ref().is_some_and(|header| !header.is_stub()));
        let after = count(|pending| !pending.after.is_stub());
        let is_kept = self.counters.notes.saturating_add(before) == self.guard.notes.saturating_add(after);
        assert!(is_kept || self.guard.notes < before, "each note is counted once");
    }

    fn flush_note(&mut self, batch: &mut Batch, pending: &PendingHeader) -> Result<()> {
        let number = self.database.number;
        let after = &pending.after;
        assert!(after.modseq > self.guard.modseq, "modseqs rise");
        assert!(after.note < self.counters.next_note, "the note id was allocated before");
        pending.check(self.received.contains(&after.note));
        batch.put(Table::Summary, &keys::summary(number, after.note, Record::Header), &after.encode());
        if let Some(before) = &pending.before {
            change_log::delete_last(batch, number, before);
        }
        let old: &[Membership] = pending.before.as_ref().map_or(&[], |before| &before.folders);
        let change = if after.is_stub() {
            NoteChange::Deleted { at: self.now, folders: old.to_vec() }
        } else {
            NoteChange::Changed { folders: after.folders.clone() }
        };
        self.append_to_log(batch, ChangeEntry::new(self.modseq, after.note, change));
        let mut left = 0_u8;
        for place in old.iter().filter(|place| !after.folders.contains(place)) {
            self.folder(place.folder)?.remove_entry(place.uid)?;
            if !after.is_stub() {
                let change = NoteChange::Left { at: self.now, from: *place };
                self.append_to_log(batch, ChangeEntry::new(self.modseq, after.note, change).numbered(left));
                self.counters.stubs += 1;
                let max = JOINED_FOLDERS_MAX;
                left = left
                    .checked_add(1)
                    .filter(|left| usize::from(*left) <= max)
                    .ok_or(Error::Limit { what: "folders that a note leaves at once", max })?;
            }
        }
        for place in &after.folders {
            let entry = FolderEntry::from_header(after, *place, self.now);
            self.folder(place.folder)?.put_entry(entry)?;
        }
        Ok(())
    }

    fn append_to_log(&mut self, batch: &mut Batch, entry: ChangeEntry) {
        change_log::put(batch, self.database.number, &entry);
        self.log_entries.push(entry);
    }

    fn publish(mut self, ticket: Ticket) {
        if self.counters.modseq == self.guard.modseq {
            return;
        }
        assert!(self.counters.modseq > self.guard.modseq, "the published modseq is higher than the previous one");
        assert!(self.pending.is_empty(), "all pending changes are in the batch");
        *self.guard = self.counters;
        self.database.set_instance_stored(true);
        if let Some(keywords) = self.keywords.take() {
            self.database.set_keywords(keywords);
        }
        if let Some(acl) = self.acl.take() {
            self.database.set_acl(acl);
        }
        for (view, change) in self.folder_changes {
            self.database.folder_cache.apply_transaction(view, self.counters.modseq, change);
        }
        self.database.add_recent_changes(self.changed);
        self.database.add_log_entries(self.counters.modseq, self.log_entries);
        self.database.publish(self.counters.modseq, ticket);
    }
}
