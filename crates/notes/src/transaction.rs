//! Transactions: changes to one or several databases that become visible and durable together.
//!
//! A transaction takes the writer's locks of its databases in the order of their numbers (so two transactions never
//! wait for each other), collects one [`Batch`], and lets go of the locks when the batch is in the engine; the disk sync is
//! waited for afterwards, through the ticket. All its changes to one database carry one modseq.
//!
//! Changes of headers are collected per note and written once, at the commit; folder indexes likewise. A transaction that
//! is dropped, or whose commit fails, has changed nothing. A change that is refused before it has written anything leaves the others alone; one that
//! fails later spoils the transaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::{Arc, MutexGuard};

use base::{Modseq, NoteId, Timestamp, Unid, ViewId};
use store::blob::BlobWriter;
use store::{Batch, Read, Table, Ticket};

use crate::access::{Access, Grant, level};
use crate::acl::Acl;
use crate::change;
use crate::collection;
use crate::counters::Counters;
use crate::database::{Database, Notes};
use crate::error::{Error, Result};
use crate::folder::{self, Entry, FolderState, FolderWeigh};
use crate::folder_image::FolderChange;
use crate::item::Item;
use crate::keys::{self, Part as Record};
use crate::keyword::Keywords;
use crate::limits::{DATABASES_PER_TRANSACTION_MAX, FOLDERS_PER_NOTE_MAX, KEYWORDS_PER_NOTE_MAX};
use crate::note::{Header, Membership, NoteClass, NoteFlags, Summary};
use crate::reading;
use crate::recent::{Before, RecentChange};
use crate::writer::Writer;

/// Changes under way.
#[must_use = "a transaction changes nothing until it is committed"]
pub struct Transaction<'t> {
    notes: &'t Notes,
    /// Keeps blobs from being collected between being put and being referred to. Taken before any database's lock.
    pub(crate) gate: BlobWriter<'t>,
    pub(crate) batch: Batch,
    /// In the order in which the caller named the databases.
    parts: Vec<Part<'t>>,
}

impl<'t> Transaction<'t> {
    pub(crate) fn begin(notes: &'t Notes, accesses: &[&'t Access<level::Depositor>]) -> Result<Self> {
        Self::begin_with(notes, accesses, Batch::new())
    }

    pub(crate) fn begin_with(
        notes: &'t Notes,
        accesses: &[&'t Access<level::Depositor>],
        batch: Batch,
    ) -> Result<Self> {
        if accesses.len() > DATABASES_PER_TRANSACTION_MAX {
            return Err(Error::Limit { what: "databases of a transaction", max: DATABASES_PER_TRANSACTION_MAX });
        }
        let gate = notes.store().blobs().writer();
        let mut order: Vec<usize> = (0..accesses.len()).collect();
        order.sort_by_key(|index| accesses[*index].database().number());
        let mut parts: Vec<Option<Part<'t>>> = accesses.iter().map(|_| None).collect();
        let mut previous = None;
        for index in order {
            let database = accesses[index].database();
            assert!(previous != Some(database.number()), "a transaction names each database once");
            previous = Some(database.number());
            let guard = database.lock();
            database.refuse_when_dropped()?;
            parts[index] = Some(Part::new(database, accesses[index].grant()?, guard));
        }
        Ok(Self { notes, gate, batch, parts: parts.into_iter().flatten().collect() })
    }

    /// Gives the writer of the database that was named at that place.
    pub fn on(&mut self, index: usize) -> Writer<'_, 't> {
        Writer { part: &mut self.parts[index], batch: &mut self.batch, gate: &self.gate, store: self.notes.store() }
    }

    /// Tells how many bytes the changes take so far.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.batch.byte_count()
    }

    /// Makes the changes visible; they are durable when the ticket is.
    ///
    /// A transaction without changes gives the ticket of what it may have read.
    pub fn commit(mut self) -> Result<Ticket> {
        let store = self.notes.store();
        for part in &mut self.parts {
            if part.is_spoiled {
                return Err(Error::invalid("the transaction", "one of its changes failed half-way"));
            }
            part.flush(&mut self.batch)?;
        }
        if self.batch.is_empty() {
            return Ok(self.parts.iter().map(|part| part.database.last().1).max().unwrap_or(Ticket::NONE));
        }
        let ticket = store.commit(&self.batch)?;
        for part in self.parts {
            part.publish(ticket);
        }
        Ok(ticket)
    }
}

/// The changes to one database.
pub(crate) struct Part<'t> {
    pub(crate) database: &'t Database,
    pub(crate) grant: Arc<Grant>,
    /// The writer's lock; its value is replaced when the batch is in the engine.
    guard: MutexGuard<'t, Counters>,
    /// The counters as this transaction moves them.
    pub(crate) counters: Counters,
    pub(crate) now: Timestamp,
    pub(crate) modseq: Modseq,
    pub(crate) pending: HashMap<NoteId, Pending>,
    /// The notes that this transaction makes, by their UNIDs.
    made: HashMap<Unid, NoteId>,
    pub(crate) folders: HashMap<ViewId, OpenFolder<'t>>,
    /// The changes of notes, once they are in the batch.
    changed: Vec<RecentChange>,
    /// The notes whose contents this transaction replaces, as they were before it. Nothing is kept while no view is open.
    replaced: HashMap<NoteId, Before>,
    keeps_versions: bool,
    /// What happened to the folders, once it is in the batch.
    folder_changes: Vec<(ViewId, FolderChange)>,
    /// The keywords, when this transaction added some.
    pub(crate) keywords: Option<Keywords>,
    /// The ACL, when this transaction replaced it.
    pub(crate) acl: Option<Acl>,
    /// Something was changed outside `pending`.
    pub(crate) touched: bool,
    /// A note that exists gets other items.
    pub(crate) rewrites: bool,
    /// Of the notes whose contents this transaction has written, where these lie: the store does not know yet. Without the items.
    pub(crate) written: HashMap<NoteId, Summary>,
    /// The note that was asked for last, as it is stored: who saves a note asks for it several times.
    looked: Option<Stored>,
    /// Blocks of unread marks that this transaction has written.
    pub(crate) unread: HashMap<Vec<u8>, Vec<u8>>,
    /// A change failed half-way: what it has written until then must not be stored.
    pub(crate) is_spoiled: bool,
}

/// A note as it is stored.
struct Stored {
    note: NoteId,
    header: Option<Header>,
    /// The outer `None`: nobody has asked for it.
    summary: Option<Option<Arc<Summary>>>,
}

/// A note whose header changes.
pub(crate) struct Pending {
    /// As it is stored; nothing for a new note.
    pub(crate) before: Option<Header>,
    /// As it will be.
    pub(crate) after: Header,
}

impl Pending {
    /// Asserts what is so of every header that is written: it can be read again, and is of the same note as before.
    fn check(&self) {
        let Self { before, after } = self;
        assert!(after.folders.len() <= FOLDERS_PER_NOTE_MAX, "a header with more folders could not be read");
        assert!(after.keywords.len() <= KEYWORDS_PER_NOTE_MAX, "a header with more keywords could not be read");
        assert!(after.keywords.is_sorted_by(|one, next| one < next), "keywords rise");
        assert!(!after.is_stub() || after.folders.is_empty(), "what is deleted lies in no folder");
        assert!(after.is_stub() || !after.flags.has(NoteFlags::SOFT_DELETED), "only what is deleted can be restored");
        assert!(after.sequence > 0, "sequence numbers begin with 1");
        if let Some(before) = before {
            assert!(before.unid == after.unid && before.class == after.class, "a note stays the note that it is");
            assert!(before.sequence <= after.sequence, "sequence numbers never fall");
            assert!(before.modseq < after.modseq, "a change comes after the one before");
        }
    }
}

/// A folder's index that changes.
pub(crate) struct OpenFolder<'t> {
    pub(crate) entries: collection::Writer<'t>,
    pub(crate) state: FolderState,
    change: FolderChange,
}

impl<'t> OpenFolder<'t> {
    pub(crate) fn new(entries: collection::Writer<'t>, state: FolderState) -> Self {
        let change = FolderChange { before: state.highest_modseq, entries: Vec::new() };
        Self { entries, state, change }
    }
}

impl<'t> Part<'t> {
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
            replaced: HashMap::new(),
            keeps_versions: database.views.is_any_open(),
            folder_changes: Vec::new(),
            keywords: None,
            acl: None,
            touched: false,
            rewrites: false,
            written: HashMap::new(),
            looked: None,
            unread: HashMap::new(),
            is_spoiled: false,
        }
    }

    /// Takes in a note that this transaction makes.
    pub(crate) fn add(&mut self, made: Header) {
        self.made.insert(made.unid, made.note);
        self.pending.insert(made.note, Pending { before: None, after: made });
    }

    /// Gives the header of the note of that UNID if this transaction makes it.
    pub(crate) fn made(&self, unid: Unid) -> Option<&Header> {
        self.pending.get(self.made.get(&unid)?).map(|pending| &pending.after)
    }

    /// Tells whether there is something to commit.
    pub(crate) fn is_changed(&self) -> bool {
        !self.pending.is_empty() || self.touched
    }

    /// Gives the modseq of the last committed change of a design note.
    pub(crate) fn stored_design_modseq(&self) -> Modseq {
        self.guard.design_modseq
    }

    /// Gives a note's header for changing; nothing when there is no such note or only a stub.
    pub(crate) fn pending(&mut self, note: NoteId) -> Result<Option<&mut Pending>> {
        if !self.pending.contains_key(&note) {
            let header = self.stored_header(note)?.filter(|header| !header.is_stub());
            let Some(header) = header else { return Ok(None) };
            self.pending.insert(note, Pending { before: Some(header.clone()), after: header });
        }
        Ok(self.pending.get_mut(&note).filter(|pending| !pending.after.is_stub()))
    }

    /// Gives a note's header for changing, also that of a stub.
    pub(crate) fn stored(&mut self, note: NoteId) -> Result<Option<&mut Pending>> {
        if !self.pending.contains_key(&note) {
            let Some(header) = self.stored_header(note)? else { return Ok(None) };
            self.pending.insert(note, Pending { before: Some(header.clone()), after: header });
        }
        Ok(self.pending.get_mut(&note))
    }

    /// Gives the header of a note as the last transaction left it.
    pub(crate) fn stored_header(&mut self, note: NoteId) -> Result<Option<Header>> {
        if let Some(looked) = self.looked.as_ref().filter(|looked| looked.note == note) {
            return Ok(looked.header.clone());
        }
        let header = reading::load_header(self.database.store.as_ref(), self.database, note)?;
        self.looked = Some(Stored { note, header: header.clone(), summary: None });
        Ok(header)
    }

    /// Gives the summary of a note as the last transaction left it. Header and summary are read at once, where neither was asked for.
    pub(crate) fn stored_summary(&mut self, note: NoteId) -> Result<Option<Arc<Summary>>> {
        let store: &dyn Read = self.database.store.as_ref();
        let (header, summary) = match self.looked.take_if(|looked| looked.note == note) {
            Some(Stored { header, summary: Some(summary), .. }) => (header, summary),
            Some(Stored { header, summary: None, .. }) => {
                (header, reading::load_summary(store, self.database, note)?.map(Arc::new))
            }
            None => {
                let (header, summary) = reading::load_header_and_summary(store, self.database, note)?;
                (header, summary.map(Arc::new))
            }
        };
        self.looked = Some(Stored { note, header, summary: Some(summary.clone()) });
        Ok(summary)
    }

    /// Gives a folder's index for changing.
    pub(crate) fn folder(&mut self, view: ViewId) -> Result<&mut OpenFolder<'t>> {
        match self.folders.entry(view) {
            MapEntry::Occupied(known) => Ok(known.into_mut()),
            MapEntry::Vacant(vacant) => {
                let id = folder::collection_id(self.database.number, view);
                let entries = collection::Writer::open(self.database.store.as_ref(), id, &FolderWeigh)?;
                let state = FolderState::decode(entries.state())
                    .map_err(|_| Error::not_found(format!("folder {view} of {}", self.database.path())))?;
                Ok(vacant.insert(OpenFolder::new(entries, state)))
            }
        }
    }

    /// Keeps a note as it was before this transaction, whose contents are to be replaced. What was deleted and could have been restored was in no view.
    pub(crate) fn keep_version(&mut self, note: NoteId, items: &[Item]) {
        let stored = self.pending.get(&note).and_then(|pending| pending.before.as_ref());
        let is_shown = |header: &&Header| header.class == NoteClass::DOCUMENT && !header.is_stub();
        if let Some(header) = stored.filter(|header| self.keeps_versions && is_shown(header)) {
            self.replaced.entry(note).or_insert_with(|| Before::version(header.clone(), items));
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
            pending.after.modseq = self.modseq;
            pending.after.modified = self.now;
            self.flush_note(batch, &pending)?;
            let replaced = self.replaced.remove(&note);
            let before = if pending.before.is_none() { Some(Before::New) } else { replaced };
            self.changed.push(RecentChange { modseq: self.modseq, note, before: before.map(Arc::new) });
        }
        for (view, mut folder) in self.folders.drain() {
            folder.state.highest_modseq = self.modseq;
            folder.entries.set_state(&folder.state.encode());
            folder.entries.finish(batch)?;
            self.folder_changes.push((view, folder.change));
        }
        if let Some(keywords) = &self.keywords {
            batch.put(Table::Meta, &keys::keywords(self.database.number), &keywords.encode());
        }
        if self.rewrites {
            self.database.contents_change(self.modseq);
        }
        assert!(self.modseq > self.counters.modseq, "modseqs rise");
        assert!(self.counters.next_note >= self.guard.next_note, "note ids are given out once");
        assert!(self.counters.uid_validity >= self.guard.uid_validity, "a UIDVALIDITY is given out once");
        assert!(self.counters.purged_modseq == self.guard.purged_modseq, "only a purge forgets");
        self.counters.modseq = self.modseq;
        batch.put(Table::Meta, &keys::counters(self.database.number), &self.counters.encode());
        Ok(())
    }

    /// Asserts that the counter of notes moves as the notes do. One that was wrong before, and stood still at zero, is the affair of a repair.
    fn check_counts(&self) {
        let count = |is_there: fn(&Pending) -> bool| self.pending.values().filter(|it| is_there(it)).count() as u64;
        let before = count(|pending| pending.before.as_ref().is_some_and(|header| !header.is_stub()));
        let after = count(|pending| !pending.after.is_stub());
        let is_kept = self.counters.notes.saturating_add(before) == self.guard.notes.saturating_add(after);
        assert!(is_kept || self.guard.notes < before, "each note counts once");
    }

    fn flush_note(&mut self, batch: &mut Batch, pending: &Pending) -> Result<()> {
        let (number, after) = (self.database.number, &pending.after);
        assert!(after.modseq > self.guard.modseq, "modseqs rise");
        assert!(after.note < self.counters.next_note, "a note has a number that was given out");
        pending.check();
        batch.put(Table::Summary, &keys::summary(number, after.note, Record::Header), &after.encode());
        if let Some(before) = &pending.before {
            change::delete_last(batch, number, before);
        }
        let old: &[Membership] = pending.before.as_ref().map_or(&[], |before| &before.folders);
        if after.is_stub() {
            change::put_deleted(batch, number, (self.modseq, after.note), self.now, old);
        } else {
            change::put_changed(batch, number, self.modseq, after.note, &after.folders);
        }
        let mut left = 0;
        for place in old.iter().filter(|place| !after.folders.contains(place)) {
            let folder = self.folder(place.folder)?;
            let removed = folder.entries.remove(&place.uid.to_key())?;
            folder.change.entries.push((place.uid, None));
            assert!(removed.is_some(), "every membership has its entry");
            if !after.is_stub() {
                change::put_left(batch, number, (self.modseq, after.note), self.now, (*place, left));
                self.counters.stubs += 1;
                left += 1;
            }
        }
        for place in &after.folders {
            self.put_entry(pending, *place)?;
        }
        Ok(())
    }

    fn put_entry(&mut self, pending: &Pending, place: Membership) -> Result<()> {
        let mut entry = Entry::of(&pending.after, place.uid, self.now);
        let key = place.uid.to_key();
        let folder = self.folder(place.folder)?;
        assert!(place.uid < folder.state.uid_next, "a UID is given out by its folder");
        let stored = folder.entries.find(&key)?;
        if let Some(old) = stored.and_then(|value| Entry::decode(place.uid, &value).ok()) {
            entry.saved = old.saved;
        }
        folder.entries.put(&key, &entry.encode())?;
        folder.change.entries.push((place.uid, Some(entry)));
        Ok(())
    }

    fn publish(mut self, ticket: Ticket) {
        if self.counters.modseq == self.guard.modseq {
            return;
        }
        assert!(self.counters.modseq > self.guard.modseq, "what is published is new");
        assert!(self.pending.is_empty(), "every change is in the batch");
        *self.guard = self.counters;
        if let Some(keywords) = self.keywords.take() {
            self.database.set_keywords(keywords);
        }
        if let Some(acl) = self.acl.take() {
            self.database.set_acl(acl);
        }
        for (view, change) in self.folder_changes {
            self.database.folder_images.advance(view, self.counters.modseq, change);
        }
        self.database.remember_changes(self.changed);
        self.database.publish(self.counters.modseq, ticket);
    }
}
