//! A server of the simulation: one database over a disk in memory, with a clock of its own, and what its users do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::{Clock, Name, NoteId, Random, ReplicaId, Timestamp, Uid, Unid};
use notes::replica::{ReplicaNote, StateName};
use notes::{
    Access, Acl, AclEntry, AclKind, AclLevel, Database, DatabaseKind, DatabaseOptions, Databases, Identity, Item,
    ItemValue, Marks, NewDatabase, NewNote, ServerSettings, SharedSettings, UidRank, UnreadReplication, Writer, level,
    purge, soft_deletion,
};
use replica::Pull;
use revision::{Register, Revision};
use store::memory::MemoryEngine;
use store::{Batch, Store, StoreOptions, SyncMode, Table};

pub(super) const DOCUMENTS: u64 = 4;
pub(super) const PATH: &str = "docs.nsf";
pub(super) const ANN: &str = "Ann/Acme";

/// Users who read documents, and do not own the database.
pub(super) const USERS: [&str; 3] = ["Bob/Acme", "Cleo/Acme", "Dan/Acme"];

pub(super) struct Server {
    pub(super) number: usize,
    pub(super) memory: Arc<MemoryEngine>,
    pub(super) clock: Arc<SimClock>,
    pub(super) databases: Arc<Databases>,
    pub(super) database: Arc<Database>,
    /// Number of starts. It seeds the randomness, so that a restarted server does not repeat it.
    pub(super) starts: u64,
    /// A backup, and the edits that it contains.
    pub(super) backup: Option<(Arc<MemoryEngine>, BTreeSet<u64>)>,
    pub(super) pull: Option<(usize, Pull)>,
    /// The edits of this server that were acknowledged.
    pub(super) acknowledged: BTreeSet<u64>,
    /// The edits that users of this server have seen and deleted.
    pub(super) deleted: BTreeSet<u64>,
    /// The deletions of documents of which this server has learned, by their numbers in the history.
    pub(super) known_deletions: BTreeSet<usize>,
    /// The latest time that the clock of this server has shown.
    pub(super) latest: Timestamp,
    /// `true` if the clock is not set back any more. UIDs after a restored backup rely on it.
    pub(super) has_right_time: bool,
    pub(super) setup: Setup,
}

/// How a server is set up.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) rank: Option<UidRank>,
    /// `true` if deleted documents can be restored.
    pub(super) keeps_deleted: bool,
    /// `true` if only that is durable for which [`Server::make_durable`] is called.
    pub(super) loses_unsynced: bool,
}

/// What a user has done who deletes a document, or restores it if it is deleted.
pub(super) enum Deleted {
    /// The document is deleted, with these edits.
    Document { unid: Unid, deletion: Revision, values: BTreeSet<u64> },
    /// The document is restored.
    Restored(Unid),
    /// The document does not exist, and cannot be restored.
    Nothing,
}

fn open(memory: &Arc<MemoryEngine>, clock: &Arc<SimClock>, seed: u64, setup: Setup) -> Arc<Databases> {
    let sync = if setup.loses_unsynced { SyncMode::Off } else { SyncMode::Each };
    let options = StoreOptions { sync, ..StoreOptions::default() };
    let engine: Arc<dyn store::Engine> = Arc::clone(memory) as Arc<dyn store::Engine>;
    let store = Arc::new(Store::with_engine(engine, &options).expect("a store in memory opens"));
    let settings = ServerSettings { uid_rank: setup.rank, ..ServerSettings::default() };
    Databases::open_with(store, Arc::clone(clock) as _, Arc::new(SeededRandom::new(seed)), settings)
}

/// Returns the parameters of a replica. One with the replica id of another is filled by the first replication.
fn new_database(setup: Setup, acl: Acl, replica_id: Option<ReplicaId>) -> NewDatabase {
    NewDatabase {
        owner: Name::new(ANN),
        replica_id,
        options: DatabaseOptions {
            keep_deleted_hours: setup.keeps_deleted.then_some(48),
            unread_replication: UnreadReplication::Everywhere,
            ..DatabaseOptions::default()
        },
        ..NewDatabase::new(PATH, "Documents", DatabaseKind::Standard, acl)
    }
}

impl Server {
    pub(super) fn new(number: usize, setup: Setup) -> Self {
        let memory = Arc::new(MemoryEngine::new(11));
        let clock = Arc::new(SimClock::new());
        let databases = open(&memory, &clock, number as u64, setup);
        let mut acl = Acl::private(&Name::new(ANN));
        acl.entries.push(AclEntry { kind: AclKind::Server, ..AclEntry::new("*/Acme", AclLevel::Manager) });
        acl.entries.extend(USERS.map(|user| AclEntry::new(user, AclLevel::Reader)));
        let database = databases.database_create(&new_database(setup, acl, None)).expect("the database is created");
        databases.store().flush().expect("a sound store");
        Self {
            number,
            memory,
            latest: clock.now(),
            has_right_time: false,
            clock,
            databases,
            database,
            starts: 1,
            backup: None,
            pull: None,
            acknowledged: BTreeSet::new(),
            deleted: BTreeSet::new(),
            known_deletions: BTreeSet::new(),
            setup,
        }
    }

    pub(super) fn name(number: usize) -> String {
        format!("CN=server{number}/O=Acme")
    }

    /// Starts the server anew over a store.
    pub(super) fn start(&mut self, memory: Arc<MemoryEngine>) {
        self.pull = None;
        self.memory = memory;
        self.starts += 1;
        self.databases = open(&self.memory, &self.clock, self.number as u64 + 1_000 * self.starts, self.setup);
        self.database = self.databases.database_open(PATH).expect("the database exists");
        self.known_deletions.clear();
    }

    /// Starts the server anew over an empty disk, with a replica that the first replication with another server fills.
    pub(super) fn start_empty(&mut self, source: usize) {
        let replica_id = self.database.record().replica_id;
        self.pull = None;
        self.memory = Arc::new(MemoryEngine::new(11 + self.starts));
        self.starts += 1;
        self.databases = open(&self.memory, &self.clock, self.number as u64 + 1_000 * self.starts, self.setup);
        let mut acl = Acl::open_to_all(AclLevel::NoAccess);
        acl.entries.extend([self.number, source].map(|number| Self::entry(number, AclLevel::Manager)));
        let new = new_database(self.setup, acl, Some(replica_id));
        self.database = self.databases.database_create(&new).expect("the database is created");
        self.known_deletions.clear();
        self.acknowledged.clear();
        self.backup = None;
        self.make_durable();
    }

    /// Sets the clock right, and ahead by an hour. UIDs that are given out from then on are behind those that are lost.
    pub(super) fn set_right_time(&mut self) {
        let behind = self.latest.0.saturating_sub(self.clock.now().0).max(0);
        let behind = Duration::from_micros(behind.unsigned_abs());
        self.clock.advance(behind + Duration::from_secs(3_600));
        self.has_right_time = true;
    }

    /// Makes everything durable that was written, as somebody does who waits for the last transaction.
    pub(super) fn make_durable(&self) {
        if self.setup.loses_unsynced {
            self.databases.store().flush().expect("a sound store");
        }
    }

    /// Returns `false` if the replica is new, and the first replication has not brought its access control list yet.
    pub(super) fn has_users(&self) -> bool {
        self.database.authorize::<level::Manager>(&Arc::new(Identity::person(ANN))).is_ok()
    }

    /// Returns the entry of a server in an access control list.
    pub(super) fn entry(number: usize, level: AclLevel) -> AclEntry {
        AclEntry { kind: AclKind::Server, ..AclEntry::new(Self::name(number).as_str(), level) }
    }

    pub(super) fn write<T>(&self, change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>) -> T {
        self.try_write(change).expect("Ann may")
    }

    pub(super) fn try_write<T>(
        &self,
        change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>,
    ) -> notes::Result<T> {
        self.try_write_as(ANN, change)
    }

    pub(super) fn try_write_as<T>(
        &self,
        user: &str,
        change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>,
    ) -> notes::Result<T> {
        let user = Arc::new(Identity::person(user));
        let access: Access<level::Depositor> = self.database.authorize(&user).expect("the list names the user");
        let accesses = [&access];
        let mut transaction = self.databases.transaction(&accesses).expect("a transaction");
        let outcome = change(&mut transaction.writer(0))?;
        let ticket = transaction.commit()?;
        self.databases.store().durable(ticket).wait().map_err(notes::Error::from)?;
        Ok(outcome)
    }

    pub(super) fn itself(&self) -> Access<level::Reader> {
        let itself = Arc::new(Identity::local_server("CN=server/O=Acme"));
        self.database.authorize(&itself).expect("the server may")
    }

    pub(super) fn find(&self, unid: Unid) -> Option<NoteId> {
        let access = self.itself();
        let reading = access.read().expect("a snapshot");
        let note = reading.find(unid).expect("a sound store")?;
        let header = reading.header(note).expect("a sound store")?;
        (!header.is_stub()).then_some(note)
    }

    /// Saves a document with a further item that no other edit has.
    pub(super) fn edit(&mut self, unid: Unid, value: u64) {
        let item = Item::summary(format!("V{value}"), ItemValue::Number(value as f64));
        match self.find(unid) {
            None => {
                let merges = Item::text("$ConflictAction", if is_merged(unid) { "1" } else { "0" });
                let new = NewNote { unid: Some(unid), ..NewNote::document(vec![merges, item]) };
                self.write(|writer| writer.note_create(new));
            }
            Some(note) => self.write(|writer| {
                let stored = writer.note(note)?.expect("the note exists");
                let items: Vec<Item> = stored.items.into_iter().chain([item]).collect();
                writer.note_update(note, stored.header.revision(), &items, &[]).map(drop)
            }),
        }
        self.make_durable();
        self.acknowledged.insert(value);
    }

    /// Deletes a document or, if it is deleted and can be restored, restores it.
    pub(super) fn delete(&mut self, unid: Unid) -> Deleted {
        if let Some(note) = self.find(unid) {
            let seen = self.write(|writer| {
                let seen = values_of(&writer.note(note)?.expect("the note exists").items);
                writer.note_delete(note).map(|_| seen)
            });
            self.make_durable();
            self.deleted.extend(&seen);
            let access = self.itself();
            let header = access.read().and_then(|reading| reading.header(note)).expect("a sound store");
            let deletion = header.expect("a deleted document leaves a stub").revision();
            return Deleted::Document { unid, deletion, values: seen.into_iter().collect() };
        }
        let access = self.itself();
        let deleted = access.read().and_then(|reading| reading.deleted_notes(NoteId(0), 100)).expect("a sound store");
        let Some(found) = deleted.iter().find(|deleted| deleted.header.unid == unid) else { return Deleted::Nothing };
        // It is refused if another note has taken the UNID since.
        let restored = self.try_write(|writer| writer.note_restore(found.header.note));
        if restored.is_ok() { Deleted::Restored(unid) } else { Deleted::Nothing }
    }

    /// Returns `true` if this server has the version of a note, or one that descends from it.
    pub(super) fn knows(&self, unid: Unid, revision: Revision) -> bool {
        let access = self.itself();
        access.read().and_then(|reading| reading.knows_revision(unid, revision)).expect("a sound store")
    }

    /// Returns the edits in a document, or `None` if it does not exist or is deleted.
    pub(super) fn values_in(&self, unid: Unid) -> Option<BTreeSet<u64>> {
        let note = self.find(unid)?;
        let access = self.itself();
        let found = access.read().and_then(|reading| reading.note(note)).expect("a sound store");
        found.map(|note| values_of(&note.items).into_iter().collect())
    }

    /// Removes what is kept of deletions, as far as its time is over. Returns the notes whose stubs are purged, and the
    /// edits that cannot be restored any more.
    pub(super) fn purge(&self) -> (BTreeSet<Unid>, BTreeSet<u64>) {
        let stubs = || -> BTreeSet<Unid> {
            self.notes().into_iter().filter(|note| note.items.is_none()).map(|note| note.unid).collect()
        };
        let before = stubs();
        let values = self.values();
        while soft_deletion::purge_deleted(&self.database).expect("a sound store") > 0 {}
        while purge::purge(&self.database).expect("a sound store") > 0 {}
        (&before - &stubs(), &values - &self.values())
    }

    /// Removes what is known of purged deletions, as if many purge intervals had passed.
    pub(super) fn forget_purged_deletions(&self) {
        let key = |kind: u8| [&self.database.number().to_key()[..], &[kind]].concat();
        let mut batch = Batch::new();
        [b'a', b'g'].into_iter().for_each(|kind| batch.delete_range(Table::Meta, &key(kind), &key(kind + 1)));
        self.databases.store().commit(&batch).expect("it is written");
    }

    /// Lets a user read a document, mark it as unread, or mark all as read.
    pub(super) fn mark(&self, generation: u64, random: &SeededRandom) {
        let user = USERS[random.below(USERS.len() as u64) as usize];
        let chosen = unid_of(random.below(DOCUMENTS), generation);
        let change = random.below(8);
        let notes: Vec<NoteId> = match change {
            0 => (0..DOCUMENTS).filter_map(|number| self.find(unid_of(number, generation))).collect(),
            _ => self.find(chosen).into_iter().collect(),
        };
        let mark = |writer: &mut Writer<'_, '_>| match change {
            0..5 => writer.mark_read(&notes),
            _ => writer.mark_unread(&notes),
        };
        self.try_write_as(user, mark).expect("readers may");
    }

    /// Returns the users who have read each document.
    pub(super) fn readers(&self) -> BTreeMap<Unid, Vec<&'static str>> {
        let access = self.itself();
        let reading = access.read().expect("a snapshot");
        let has_read = |user: &&str, note| reading.is_read_by(&Name::new(user), note).expect("a sound store");
        let documents = self.notes().into_iter().filter(|note| note.items.is_some() && note.class.is_document());
        let of = |unid| {
            let note = reading.find(unid).expect("a sound store").expect("it exists");
            USERS.into_iter().filter(|user| has_read(user, note)).collect()
        };
        documents.map(|note| (note.unid, of(note.unid))).collect()
    }

    pub(super) fn change_state(&self, unid: Unid, random: &SeededRandom) {
        let Some(note) = self.find(unid) else { return };
        let keywords: Vec<String> = (0..random.below(3)).map(|number| format!("K{number}")).collect();
        self.write(|writer| writer.marks_set(note, Marks(random.below(32) as u8), &keywords));
        let folders = self.write(|writer| Ok(writer.folders()?.iter().map(|folder| folder.view).collect::<Vec<_>>()));
        if folders.is_empty() {
            return;
        }
        let folder = folders[random.below(folders.len() as u64) as usize];
        if random.below(3) > 0 {
            self.write(|writer| writer.folder_add(note, folder));
        } else {
            self.write(|writer| writer.folder_remove(note, folder));
        }
    }

    /// Creates a folder, renames one or, if `deletes` is set, deletes one if it is empty.
    pub(super) fn change_folders(&self, title: &str, deletes: bool, random: &SeededRandom) {
        let folders = self.write(|writer| Ok(writer.folders()?.iter().map(|folder| folder.view).collect::<Vec<_>>()));
        let some = folders.get(random.below(folders.len().max(1) as u64) as usize).copied();
        match (random.below(4), some) {
            (0, Some(folder)) => self.write(|writer| writer.folder_rename(folder, title)),
            (1, Some(folder)) if deletes => drop(self.try_write(|writer| writer.folder_delete(folder))),
            (1, Some(_)) => {}
            _ => drop(self.write(|writer| writer.folder_create(title, &[]))),
        }
    }

    pub(super) fn notes(&self) -> Vec<ReplicaNote> {
        let access = self.itself();
        let reading = access.read().expect("a snapshot");
        let last = reading.counters().next_note;
        let read = |number| reading.replica_note(NoteId(number)).expect("a sound store");
        (1..last.0).filter_map(read).collect()
    }

    /// Returns what changes as long as replicas receive something.
    pub(super) fn progress(&self) -> (base::Modseq, SharedSettings) {
        (self.database.modseq(), self.database.record().shared_settings())
    }

    pub(super) fn set_options(&self, change: impl FnOnce(&mut String, &mut DatabaseOptions)) {
        let ann = Arc::new(Identity::person(ANN));
        let access: Access<level::Manager> = self.database.authorize(&ann).expect("Ann manages it");
        let record = self.database.record();
        let mut title = record.title.clone();
        let mut options = record.options;
        change(&mut title, &mut options);
        self.databases.database_options_set(&access, &title, options).expect("Ann manages it");
    }

    /// Returns what all replicas must agree on. That some have purged the stubs of deletions does not count.
    pub(super) fn state(&self, purged: &BTreeSet<Unid>) -> BTreeMap<Unid, String> {
        let text = |note: &ReplicaNote| {
            let values = note.state.iter().filter(|(_, value)| value.is_set);
            let set: Vec<_> = values.map(|(name, value)| (name, value.number)).collect();
            format!("{} {:?} {:?} {:?} {set:?}", note.revision, note.created, note.parent, note.items)
        };
        let notes = self.notes();
        let is_purged = |note: &&ReplicaNote| note.items.is_none() && purged.contains(&note.unid);
        let notes = notes.iter().filter(|note| !is_purged(note)).map(|note| (note.unid, text(note)));
        let settings = format!("{:?}", self.database.record().shared_settings());
        notes.chain([(Unid([0xFF; 16]), settings)]).collect()
    }

    /// Checks that clients see every document in its folders.
    pub(super) fn check_all_are_shown(&self) {
        let notes = self.notes();
        let is_place = |(name, value): &&(StateName, Register)| matches!(name, StateName::Folder(_)) && value.is_set;
        let places = notes.iter().flat_map(|note| &note.state).filter(is_place).count();
        assert_eq!(self.folders().iter().map(|folder| folder.notes.len()).sum::<usize>(), places);
    }

    /// Returns the folders as clients see them.
    pub(super) fn folders(&self) -> Vec<SeenFolder> {
        let access = self.itself();
        let reading = access.read().expect("a snapshot");
        let see = |view: base::ViewId| {
            let unid_of = |note| reading.header(note).expect("a sound store").expect("the note exists").unid;
            let folder = reading.folder(view).expect("the folder exists");
            let mut notes = BTreeMap::new();
            let mut each = |entry: notes::FolderEntry| {
                notes.insert(entry.uid, unid_of(entry.note));
                Ok(true)
            };
            folder.for_each_entry(Uid(0), &mut each).expect("a sound store");
            let state = folder.state();
            assert!(notes.keys().all(|uid| *uid < state.uid_next));
            assert_eq!(folder.totals().expect("a sound store").count, notes.len() as u64);
            let unid = unid_of(NoteId(view.0));
            SeenFolder { unid, uid_validity: state.uid_validity, uid_next: state.uid_next, notes }
        };
        reading.folders().expect("a sound store").iter().map(|design| see(design.view)).collect()
    }

    /// Returns the values in all documents, and in those that can be restored.
    pub(super) fn values(&self) -> BTreeSet<u64> {
        let notes = self.notes();
        let mut found: BTreeSet<u64> =
            notes.iter().filter_map(|note| note.items.as_deref()).flat_map(values_of).collect();
        let access = self.itself();
        let reading = access.read().expect("a snapshot");
        for deleted in reading.deleted_notes(NoteId(0), usize::MAX).expect("a sound store") {
            let kept = reading.deleted_note(deleted.header.note, &mut |_| true).expect("a sound store");
            found.extend(kept.iter().flat_map(|note| values_of(&note.items)));
        }
        found
    }
}

/// A folder as a client sees it.
pub(super) struct SeenFolder {
    pub(super) unid: Unid,
    pub(super) uid_validity: u32,
    pub(super) uid_next: Uid,
    pub(super) notes: BTreeMap<Uid, Unid>,
}

/// Returns the UNID of a document. Users create documents with new UNIDs when the deletions of others may be purged.
pub(super) fn unid_of(document: u64, generation: u64) -> Unid {
    Unid([(document + generation * DOCUMENTS) as u8 + 1; 16])
}

/// Returns `true` if concurrent edits of a document are merged.
fn is_merged(unid: Unid) -> bool {
    u64::from(unid.0[0] - 1).is_multiple_of(DOCUMENTS)
}

/// Returns the values that edits have added to a document.
pub(super) fn values_of(items: &[Item]) -> Vec<u64> {
    items.iter().filter_map(|item| item.name.strip_prefix('V')?.parse().ok()).collect()
}
