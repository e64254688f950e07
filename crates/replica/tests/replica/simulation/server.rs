//! A server of the simulation: one database over a disk in memory, with a clock of its own, and what its users do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{Clock, Name, NoteId, Random, Timestamp, Uid, Unid};
use notes::replica::{ReplicaNote, StateName};
use notes::{
    Access, Acl, AclEntry, AclKind, AclLevel, Database, DatabaseKind, DatabaseOptions, Databases, Identity, Item,
    ItemValue, Marks, NewDatabase, NewNote, ServerSettings, SharedSettings, UidRank, UnreadReplication, Writer, level,
};
use replica::Pull;
use revision::Register;
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};

pub(super) const DOCUMENTS: u64 = 4;
pub(super) const PATH: &str = "docs.nsf";

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
    /// The latest time that the clock of this server has shown.
    pub(super) latest: Timestamp,
    /// `true` if the clock is not set back any more. UIDs after a restored backup rely on it.
    pub(super) has_right_time: bool,
    pub(super) rank: Option<UidRank>,
}

pub(super) fn open(
    memory: &Arc<MemoryEngine>,
    clock: &Arc<SimClock>,
    seed: u64,
    uid_rank: Option<UidRank>,
) -> Arc<Databases> {
    let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
    let engine: Arc<dyn store::Engine> = Arc::clone(memory) as Arc<dyn store::Engine>;
    let store = Arc::new(Store::with_engine(engine, &options).expect("a store in memory opens"));
    let settings = ServerSettings { uid_rank, ..ServerSettings::default() };
    Databases::open_with(store, Arc::clone(clock) as _, Arc::new(SeededRandom::new(seed)), settings)
}

impl Server {
    pub(super) fn new(number: usize, keeps_deleted: bool, rank: Option<UidRank>) -> Self {
        let memory = Arc::new(MemoryEngine::new(11));
        let clock = Arc::new(SimClock::new());
        let databases = open(&memory, &clock, number as u64, rank);
        let mut acl = Acl::private(&Name::new("Ann/Acme"));
        acl.entries.push(AclEntry { kind: AclKind::Server, ..AclEntry::new("*/Acme", AclLevel::Manager) });
        acl.entries.extend(USERS.map(|user| AclEntry::new(user, AclLevel::Reader)));
        let new = NewDatabase {
            owner: Name::new("Ann/Acme"),
            options: DatabaseOptions {
                keep_deleted_hours: keeps_deleted.then_some(48),
                unread_replication: UnreadReplication::Everywhere,
                ..DatabaseOptions::default()
            },
            ..NewDatabase::new(PATH, "Documents", DatabaseKind::Standard, acl)
        };
        let database = databases.database_create(&new).expect("the database is created");
        let acknowledged = BTreeSet::new();
        let deleted = BTreeSet::new();
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
            acknowledged,
            deleted,
            rank,
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
        self.databases = open(&self.memory, &self.clock, self.number as u64 + 1_000 * self.starts, self.rank);
        self.database = self.databases.database_open(PATH).expect("the database exists");
    }

    pub(super) fn write<T>(&self, change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>) -> T {
        self.try_write(change).expect("Ann may")
    }

    pub(super) fn try_write<T>(
        &self,
        change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>,
    ) -> notes::Result<T> {
        self.try_write_as("Ann/Acme", change)
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
    pub(super) fn edit(&mut self, document: u64, value: u64) {
        let unid = Unid([document as u8 + 1; 16]);
        let item = Item::summary(format!("V{value}"), ItemValue::Number(value as f64));
        match self.find(unid) {
            None => {
                let merges = Item::text("$ConflictAction", if document == 0 { "1" } else { "0" });
                let new = NewNote { unid: Some(unid), ..NewNote::document(vec![merges, item]) };
                self.write(|writer| writer.note_create(new));
            }
            Some(note) => self.write(|writer| {
                let stored = writer.note(note)?.expect("the note exists");
                let items: Vec<Item> = stored.items.into_iter().chain([item]).collect();
                writer.note_update(note, stored.header.revision(), &items, &[]).map(drop)
            }),
        }
        self.acknowledged.insert(value);
    }

    /// Deletes a document or, if it is deleted and can be restored, restores it.
    pub(super) fn delete(&mut self, document: u64) {
        let unid = Unid([document as u8 + 1; 16]);
        if let Some(note) = self.find(unid) {
            let seen = self.write(|writer| {
                let seen = values_of(&writer.note(note)?.expect("the note exists").items);
                writer.note_delete(note).map(|_| seen)
            });
            self.deleted.extend(seen);
            return;
        }
        let access = self.itself();
        let deleted = access.read().and_then(|reading| reading.deleted_notes(NoteId(0), 100)).expect("a sound store");
        if let Some(found) = deleted.iter().find(|deleted| deleted.header.unid == unid) {
            // It is refused if another note has taken the UNID since.
            let _ = self.try_write(|writer| writer.note_restore(found.header.note));
        }
    }

    /// Lets a user read a document, mark it as unread, or mark all as read.
    pub(super) fn mark(&self, random: &SeededRandom) {
        let user = USERS[random.below(USERS.len() as u64) as usize];
        let chosen = Unid([random.below(DOCUMENTS) as u8 + 1; 16]);
        let change = random.below(8);
        let notes: Vec<NoteId> = match change {
            0 => (1..=DOCUMENTS).filter_map(|number| self.find(Unid([number as u8; 16]))).collect(),
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

    pub(super) fn change_state(&self, document: u64, random: &SeededRandom) {
        let Some(note) = self.find(Unid([document as u8 + 1; 16])) else { return };
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

    /// Creates a folder, renames one, or deletes one if it is empty.
    pub(super) fn change_folders(&self, title: &str, random: &SeededRandom) {
        let folders = self.write(|writer| Ok(writer.folders()?.iter().map(|folder| folder.view).collect::<Vec<_>>()));
        let some = folders.get(random.below(folders.len().max(1) as u64) as usize).copied();
        match (random.below(4), some) {
            (0, Some(folder)) => self.write(|writer| writer.folder_rename(folder, title)),
            (1, Some(folder)) => drop(self.try_write(|writer| writer.folder_delete(folder))),
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
        let ann = Arc::new(Identity::person("Ann/Acme"));
        let access: Access<level::Manager> = self.database.authorize(&ann).expect("Ann manages it");
        let record = self.database.record();
        let mut title = record.title.clone();
        let mut options = record.options;
        change(&mut title, &mut options);
        self.databases.database_options_set(&access, &title, options).expect("Ann manages it");
    }

    /// Returns what all replicas must agree on.
    pub(super) fn state(&self) -> BTreeMap<Unid, String> {
        let acl = notes::acl::ACL_UNID;
        let text = |note: &ReplicaNote| {
            let values = note.state.iter().filter(|(_, value)| value.is_set);
            let set: Vec<_> = values.map(|(name, value)| (name, value.number)).collect();
            format!("{} {:?} {:?} {:?} {set:?}", note.revision, note.created, note.parent, note.items)
        };
        let notes = self.notes();
        let notes = notes.iter().filter(|note| note.unid != acl).map(|note| (note.unid, text(note)));
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

/// Returns the values that edits have added to a document.
pub(super) fn values_of(items: &[Item]) -> Vec<u64> {
    items.iter().filter_map(|item| item.name.strip_prefix('V')?.parse().ok()).collect()
}
