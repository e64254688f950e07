//! Servers that are changed, cut off, crashed and restored from backups while they pull from each other. When the
//! faults end, all replicas become equal, and every acknowledged edit is in a document.
//!
//! Everything runs on one thread from one seed: the edits, the order in which messages arrive, their loss and
//! repetition, the clocks. A failure names its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::{Clock, Name, NoteId, Random, Timestamp, Uid, Unid};
use notes::fixup;
use notes::instance::Position;
use notes::replica::{ReplicaNote, StateName};
use notes::{
    Access, Acl, AclEntry, AclKind, AclLevel, Database, DatabaseKind, DatabaseOptions, Databases, DeletionRule,
    Identity, Item, ItemValue, Marks, NewDatabase, NewNote, ReplicationSettings, ServerSettings, SharedSettings,
    UidRank, UnreadReplication, Writer, level,
};
use replica::{Answer, Pull, PullStatistics, Question, Target, answer_in_pages};
use revision::Register;
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};

const SERVERS: usize = 3;
const DOCUMENTS: u64 = 4;
const PATH: &str = "docs.nsf";

/// Users who read documents, and do not own the database.
const USERS: [&str; 3] = ["Bob/Acme", "Cleo/Acme", "Dan/Acme"];

struct Server {
    number: usize,
    memory: Arc<MemoryEngine>,
    clock: Arc<SimClock>,
    databases: Arc<Databases>,
    database: Arc<Database>,
    /// Number of starts. It seeds the randomness, so that a restarted server does not repeat it.
    starts: u64,
    /// A backup, and the edits that it contains.
    backup: Option<(Arc<MemoryEngine>, BTreeSet<u64>)>,
    pull: Option<(usize, Pull)>,
    /// The edits of this server that were acknowledged.
    acknowledged: BTreeSet<u64>,
    /// The edits that users of this server have seen and deleted.
    deleted: BTreeSet<u64>,
    /// The latest time that the clock of this server has shown.
    latest: Timestamp,
    /// `true` if the clock is not set back any more. UIDs after a restored backup rely on it.
    has_right_time: bool,
    rank: Option<UidRank>,
}

fn open(memory: &Arc<MemoryEngine>, clock: &Arc<SimClock>, seed: u64, uid_rank: Option<UidRank>) -> Arc<Databases> {
    let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
    let engine: Arc<dyn store::Engine> = Arc::clone(memory) as Arc<dyn store::Engine>;
    let store = Arc::new(Store::with_engine(engine, &options).expect("a store in memory opens"));
    let settings = ServerSettings { uid_rank, ..ServerSettings::default() };
    Databases::open_with(store, Arc::clone(clock) as _, Arc::new(SeededRandom::new(seed)), settings)
}

impl Server {
    fn new(number: usize, keeps_deleted: bool, rank: Option<UidRank>) -> Self {
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

    fn name(number: usize) -> String {
        format!("CN=server{number}/O=Acme")
    }

    /// Starts the server anew over a store.
    fn start(&mut self, memory: Arc<MemoryEngine>) {
        self.pull = None;
        self.memory = memory;
        self.starts += 1;
        self.databases = open(&self.memory, &self.clock, self.number as u64 + 1_000 * self.starts, self.rank);
        self.database = self.databases.database_open(PATH).expect("the database exists");
    }

    fn write<T>(&self, change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>) -> T {
        self.try_write(change).expect("Ann may")
    }

    fn try_write<T>(&self, change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>) -> notes::Result<T> {
        self.try_write_as("Ann/Acme", change)
    }

    fn try_write_as<T>(
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

    fn itself(&self) -> Access<level::Reader> {
        let itself = Arc::new(Identity::local_server("CN=server/O=Acme"));
        self.database.authorize(&itself).expect("the server may")
    }

    fn find(&self, unid: Unid) -> Option<NoteId> {
        let access = self.itself();
        let reading = access.read().expect("a snapshot");
        let note = reading.find(unid).expect("a sound store")?;
        let header = reading.header(note).expect("a sound store")?;
        (!header.is_stub()).then_some(note)
    }

    /// Saves a document with a further item that no other edit has.
    fn edit(&mut self, document: u64, value: u64) {
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
    fn delete(&mut self, document: u64) {
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
    fn mark(&self, random: &SeededRandom) {
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
    fn readers(&self) -> BTreeMap<Unid, Vec<&'static str>> {
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

    fn change_state(&self, document: u64, random: &SeededRandom) {
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
    fn change_folders(&self, title: &str, random: &SeededRandom) {
        let folders = self.write(|writer| Ok(writer.folders()?.iter().map(|folder| folder.view).collect::<Vec<_>>()));
        let some = folders.get(random.below(folders.len().max(1) as u64) as usize).copied();
        match (random.below(4), some) {
            (0, Some(folder)) => self.write(|writer| writer.folder_rename(folder, title)),
            (1, Some(folder)) => drop(self.try_write(|writer| writer.folder_delete(folder))),
            _ => drop(self.write(|writer| writer.folder_create(title, &[]))),
        }
    }

    fn notes(&self) -> Vec<ReplicaNote> {
        let access = self.itself();
        let reading = access.read().expect("a snapshot");
        let last = reading.counters().next_note;
        let read = |number| reading.replica_note(NoteId(number)).expect("a sound store");
        (1..last.0).filter_map(read).collect()
    }

    /// Returns what changes as long as replicas receive something.
    fn progress(&self) -> (base::Modseq, SharedSettings) {
        (self.database.modseq(), self.database.record().shared_settings())
    }

    fn set_options(&self, change: impl FnOnce(&mut String, &mut DatabaseOptions)) {
        let ann = Arc::new(Identity::person("Ann/Acme"));
        let access: Access<level::Manager> = self.database.authorize(&ann).expect("Ann manages it");
        let record = self.database.record();
        let mut title = record.title.clone();
        let mut options = record.options;
        change(&mut title, &mut options);
        self.databases.database_options_set(&access, &title, options).expect("Ann manages it");
    }

    /// Returns what all replicas must agree on.
    fn state(&self) -> BTreeMap<Unid, String> {
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
    fn check_all_are_shown(&self) {
        let notes = self.notes();
        let is_place = |(name, value): &&(StateName, Register)| matches!(name, StateName::Folder(_)) && value.is_set;
        let places = notes.iter().flat_map(|note| &note.state).filter(is_place).count();
        assert_eq!(self.folders().iter().map(|folder| folder.notes.len()).sum::<usize>(), places);
    }

    /// Returns the folders as clients see them.
    fn folders(&self) -> Vec<SeenFolder> {
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
    fn values(&self) -> BTreeSet<u64> {
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
struct SeenFolder {
    unid: Unid,
    uid_validity: u32,
    uid_next: Uid,
    notes: BTreeMap<Uid, Unid>,
}

/// What IMAP clients have seen, on any server and at any time.
struct MailClients {
    seed: u64,
    random: SeededRandom,
    /// The note that a UID means, by folder and UIDVALIDITY. It means one for ever.
    meanings: BTreeMap<(Unid, u32, Uid), Unid>,
    /// The folders as they were seen last on each server.
    last: BTreeMap<(usize, Unid, u32), SeenFolder>,
}

impl MailClients {
    fn new(seed: u64) -> Self {
        Self { seed, random: SeededRandom::new(seed ^ 0xC11E), meanings: BTreeMap::new(), last: BTreeMap::new() }
    }

    /// Lets clients look at all folders of a server.
    fn look_at(&mut self, server: &Server) {
        for folder in server.folders() {
            let SeenFolder { unid, uid_validity, .. } = folder;
            for (uid, note) in &folder.notes {
                let meant = *self.meanings.entry((unid, uid_validity, *uid)).or_insert(*note);
                assert_eq!(meant, *note, "seed {}: the UID {uid} of the folder {unid} means two notes", self.seed);
            }
            let key = (server.number, unid, uid_validity);
            if let Some(before) = self.last.get(&key) {
                assert!(before.uid_next <= folder.uid_next, "seed {}: UIDNEXT of the folder {unid} falls", self.seed);
                let appeared = folder.notes.keys().filter(|uid| !before.notes.contains_key(uid));
                let in_between = appeared.clone().find(|uid| **uid < before.uid_next);
                assert!(in_between.is_none(), "seed {}: {in_between:?} appears in {unid} below UIDNEXT", self.seed);
            }
            self.last.insert(key, folder);
        }
    }

    /// Forgets what was seen on a server that is set back: UIDs that were seen there may appear again.
    fn forget_server(&mut self, number: usize) {
        self.last.retain(|(server, ..), _| *server != number);
    }
}

/// Returns the values that edits have added to a document.
fn values_of(items: &[Item]) -> Vec<u64> {
    items.iter().filter_map(|item| item.name.strip_prefix('V')?.parse().ok()).collect()
}

/// Which servers pull from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Topology {
    All,
    /// Each has one or two neighbors.
    Chain,
    /// Changes go around in one direction.
    Ring,
}

impl Topology {
    fn connects(self, target: usize, source: usize) -> bool {
        match self {
            Self::All => target != source,
            Self::Chain => target.abs_diff(source) == 1,
            Self::Ring => (source + 1) % SERVERS == target,
        }
    }
}

/// An exchange that is wrong. The network changes messages accordingly, to show that the properties find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WrongExchange {
    /// A position is a modseq: which instance has made the change does not count.
    NoInstances,
    /// The place in an unfinished list is valid whatever happens to the source.
    PlaceOutlivesRestores,
    /// The position is recorded although notes are missing.
    PositionBeforeNotes,
    /// Marks, keywords and folders have the time at which they arrive.
    TimesOfArrival,
    /// Marks, keywords and folders that are not set are not sent.
    OnlySetValues,
    /// Marks, keywords and folders are sent only with contents.
    NoStateOfKnownNotes,
    /// Folders are not listed beside documents.
    NoFoldersBesideDocuments,
    /// UIDs do not travel.
    NoUids,
    /// UIDVALIDITY does not travel.
    NoUidValidity,
    /// All servers have the same rank, so they give out the same UIDs.
    SameRanks,
    /// A restored server gives out UIDs as if no time had passed since the backup.
    ClockOfBackup,
    /// Titles and options do not travel.
    NoSettings,
    /// Unread marks have the time at which they arrive.
    MarksAtArrival,
    /// Unread marks name notes by their note ids.
    MarksByNoteId,
    /// Unread marks that are taken away do not travel.
    OnlyReadMarks,
}

impl WrongExchange {
    /// Changes a question before the source reads it. `current` is the position of the source.
    fn distort_question(self, question: &mut Question, current: Option<Position>) {
        match (self, question, current) {
            (Self::NoInstances, Question::Changes { after: Some(after), .. }, Some(current)) => {
                after.instance = current.instance;
            }
            (Self::PlaceOutlivesRestores, Question::Changes { progress: Some(progress), .. }, Some(current)) => {
                progress.position.modseq = progress.position.modseq.min(current.modseq);
                progress.position.instance = current.instance;
                progress.seen = progress.position;
            }
            _ => {}
        }
    }

    /// Changes an answer before the target reads it.
    fn distort_answer(self, answer: &mut Answer, now: Timestamp, random: &SeededRandom) {
        let keeps_set = |state: &mut Vec<(StateName, Register)>| state.retain(|(_, register)| register.is_set);
        let drop_uids = |state: &mut Vec<(StateName, Register)>| {
            let of_notes = state.iter_mut().filter(|(name, _)| *name != StateName::UidValidity);
            of_notes.for_each(|(_, register)| register.number = 0);
        };
        let drop_uid_validity = |state: &mut Vec<(StateName, Register)>| {
            state.retain(|(name, _)| *name != StateName::UidValidity);
        };
        let set_times = |state: &mut Vec<(StateName, Register)>| {
            state.iter_mut().for_each(|(_, register)| register.time = now);
        };
        match (self, answer) {
            (Self::PositionBeforeNotes, Answer::Notes(sent)) if random.below(4) == 0 => sent.notes.clear(),
            (Self::TimesOfArrival, Answer::Changes(page)) => {
                page.notes.iter_mut().for_each(|note| set_times(&mut note.state));
            }
            (Self::TimesOfArrival, Answer::Notes(sent)) => {
                sent.notes.iter_mut().for_each(|note| set_times(&mut note.state));
            }
            (Self::OnlySetValues, Answer::Changes(page)) => {
                page.notes.iter_mut().for_each(|note| keeps_set(&mut note.state));
            }
            (Self::OnlySetValues, Answer::Notes(sent)) => {
                sent.notes.iter_mut().for_each(|note| keeps_set(&mut note.state));
            }
            (Self::NoStateOfKnownNotes, Answer::Changes(page)) => {
                page.notes.iter_mut().for_each(|note| note.state.clear());
            }
            (Self::NoSettings, Answer::Changes(page)) => page.settings = None,
            (Self::NoUids, Answer::Changes(page)) => page.notes.iter_mut().for_each(|note| drop_uids(&mut note.state)),
            (Self::NoUids, Answer::Notes(sent)) => sent.notes.iter_mut().for_each(|note| drop_uids(&mut note.state)),
            (Self::NoUidValidity, Answer::Changes(page)) => {
                page.notes.iter_mut().for_each(|note| drop_uid_validity(&mut note.state));
            }
            (Self::NoUidValidity, Answer::Notes(sent)) => {
                sent.notes.iter_mut().for_each(|note| drop_uid_validity(&mut note.state));
            }
            (Self::MarksAtArrival, Answer::UnreadMarks(page)) => {
                page.marks.iter_mut().for_each(|marks| marks.register.time = now);
            }
            (Self::OnlyReadMarks, Answer::UnreadMarks(page)) => page.marks.retain(|marks| marks.register.is_set),
            (Self::NoFoldersBesideDocuments, Answer::Changes(page)) => {
                let has_documents = page.notes.iter().any(|note| note.class.is_document());
                page.notes.retain(|note| !has_documents || note.class.is_document());
            }
            _ => {}
        }
    }
}

/// A message between two servers. The pull that it belongs to is that of the target's start and time.
#[derive(Clone)]
struct Message {
    source: usize,
    target: usize,
    pull: u64,
    number: u64,
    content: Content,
}

#[derive(Clone)]
enum Content {
    Question(Question),
    Answer(Answer),
}

/// Whether documents are deleted, and which deletions count against edits that they do not know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deletions {
    None,
    /// Edits count.
    GiveWay,
    /// Deletions count, and deleted documents can be restored. One server has this rule from the beginning, and the
    /// others get it by replication.
    Count,
    /// Which of them count changes again and again, and deleted documents can be restored.
    Changing,
}

struct Network {
    servers: Vec<Server>,
    messages: Vec<Message>,
    /// The links that are down: from a server to another one.
    cut: BTreeSet<(usize, usize)>,
    /// The number of each server's current pull.
    pulls: Vec<u64>,
    random: SeededRandom,
    next_value: u64,
    deletions: Deletions,
    topology: Topology,
    wrong: Option<WrongExchange>,
    /// About this many changes are in a page of a list.
    changes_per_page: usize,
    trace: String,
    statistics: Vec<PullStatistics>,
    clients: MailClients,
    /// Decides when the title and options of a database change.
    settings: SeededRandom,
    /// Decides what users read.
    readers: SeededRandom,
}

impl Network {
    fn new(seed: u64, deletions: Deletions) -> Self {
        Self::with_wrong(None, seed, deletions)
    }

    fn with_wrong(wrong: Option<WrongExchange>, seed: u64, deletions: Deletions) -> Self {
        let rank = |number: usize| UidRank::new(if wrong == Some(WrongExchange::SameRanks) { 0 } else { number as u8 });
        let keeps_deleted = matches!(deletions, Deletions::Count | Deletions::Changing);
        let topology = [Topology::All, Topology::Chain, Topology::Ring][(seed % 3) as usize];
        let changes_per_page = [1_000, 1, 3, 10][(seed % 4) as usize];
        let network = Self {
            topology,
            wrong,
            changes_per_page,
            servers: (0..SERVERS).map(|number| Server::new(number, keeps_deleted, rank(number))).collect(),
            messages: Vec::new(),
            cut: BTreeSet::new(),
            pulls: vec![0; SERVERS],
            random: SeededRandom::new(seed ^ 0x5EED),
            next_value: 0,
            deletions,
            trace: String::new(),
            statistics: Vec::new(),
            clients: MailClients::new(seed),
            settings: SeededRandom::new(seed ^ 0x5E77),
            readers: SeededRandom::new(seed ^ 0x4EAD),
        };
        if deletions == Deletions::Count {
            network.servers[0].set_options(|_, options| options.deletions = Some(DeletionRule::DeletionsCount));
        }
        network
    }

    fn pick(&self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    fn note(&mut self, text: &str) {
        self.trace.push_str(text);
        self.trace.push('\n');
    }

    /// Lets one thing happen.
    fn step(&mut self) {
        self.step_anything();
        self.change_settings();
        if self.readers.below(5) == 0 {
            let server = self.readers.below(SERVERS as u64) as usize;
            self.servers[server].mark(&self.readers);
        }
        let number = self.clients.random.below(SERVERS as u64) as usize;
        let server = &mut self.servers[number];
        server.latest = server.latest.max(server.clock.now());
        self.clients.look_at(server);
    }

    /// Changes the title or options of a database now and then.
    fn change_settings(&mut self) {
        if self.settings.below(20) > 0 {
            return;
        }
        let server = &self.servers[self.settings.below(SERVERS as u64) as usize];
        let number = self.settings.below(1_000);
        let rule = [DeletionRule::EditsCount, DeletionRule::DeletionsCount][(number % 2) as usize];
        match self.settings.below(3) {
            0 => server.set_options(|title, _| *title = format!("Title {number}")),
            1 => server.set_options(|_, options| options.purge_interval_days = 100 + number as u16),
            _ if self.deletions == Deletions::Changing => {
                server.set_options(|_, options| options.deletions = Some(rule));
            }
            _ => {}
        }
    }

    fn step_anything(&mut self) {
        let server = self.pick(SERVERS);
        let document = self.random.below(DOCUMENTS);
        match self.random.below(100) {
            0..20 => {
                self.next_value += 1;
                self.note(&format!("edit {server} {document} {}", self.next_value));
                self.servers[server].edit(document, self.next_value);
            }
            20..23 if self.deletions != Deletions::None => {
                self.note(&format!("delete {server} {document}"));
                self.servers[server].delete(document);
            }
            23..30 => self.servers[server].change_state(document, &self.random),
            30..33 => {
                self.next_value += 1;
                let title = format!("Folder {}", self.next_value);
                self.servers[server].change_folders(&title, &self.random);
            }
            33..45 => {
                let source = (server + 1 + self.pick(SERVERS - 1)) % SERVERS;
                if self.topology.connects(server, source) {
                    self.begin_pull(server, source);
                }
            }
            45..48 => self.fail(server),
            48..52 => {
                let link = (server, (server + 1 + self.pick(SERVERS - 1)) % SERVERS);
                if !self.cut.remove(&link) {
                    self.cut.insert(link);
                }
            }
            52..56 => self.servers[server].clock.advance(Duration::from_secs(self.random.below(7_200))),
            56..58 => {
                let by = Duration::from_secs(self.random.below(7_200));
                if !self.servers[server].has_right_time {
                    self.servers[server].clock.step_back(by);
                }
            }
            _ => self.deliver(),
        }
    }

    fn fail(&mut self, number: usize) {
        let server = &mut self.servers[number];
        match self.random.below(4) {
            0 => server.backup = Some((Arc::new(server.memory.crash_losing_all()), server.acknowledged.clone())),
            1 => {
                if let Some((backup, acknowledged)) = server.backup.take() {
                    // Edits that are in no backup and reached no other server are lost with the disk.
                    server.acknowledged = acknowledged;
                    // A restored server has the right time, and gives out UIDs behind those that are lost.
                    if self.wrong != Some(WrongExchange::ClockOfBackup) {
                        let behind = server.latest.0.saturating_sub(server.clock.now().0).max(0);
                        let behind = Duration::from_micros(behind.unsigned_abs());
                        server.clock.advance(behind + Duration::from_secs(3_600));
                        server.has_right_time = true;
                    }
                    server.start(backup);
                    self.clients.forget_server(number);
                }
            }
            _ => {
                let memory = Arc::new(server.memory.crash_losing_all());
                server.start(memory);
            }
        }
        self.note(&format!("fail {number}"));
    }

    fn begin_pull(&mut self, target: usize, source: usize) {
        if self.servers[target].pull.is_some() && self.random.below(4) > 0 {
            return;
        }
        let server = &mut self.servers[target];
        let itself = Arc::new(Identity::local_server(Server::name(target).as_str()));
        let other = Arc::new(Identity { server: true, ..Identity::person(Server::name(source).as_str()) });
        let made = Target::new(&server.databases, &server.database, &itself, &other);
        let made = made.expect("the list names the other servers").with_unread_marks(true);
        let begun = Pull::begin(made);
        server.pull = Some((source, begun.expect("a sound store")));
        self.pulls[target] += 1;
        self.ask(target);
    }

    /// Sends the question of a server's pull.
    fn ask(&mut self, target: usize) {
        let Some((source, pull)) = &self.servers[target].pull else { return };
        match pull.question() {
            Some((number, question)) => {
                let content = Content::Question(question);
                self.messages.push(Message { source: *source, target, pull: self.pulls[target], number, content });
            }
            None => {
                assert_eq!(pull.statistics().skipped, 0, "all notes can be received");
                self.statistics.push(pull.statistics());
                self.servers[target].pull = None;
            }
        }
    }

    /// Lets one of the messages arrive, in any order. It may be lost or arrive twice.
    fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let index = self.pick(self.messages.len());
        let message = match self.random.below(10) {
            0 => {
                self.messages.swap_remove(index);
                return;
            }
            1 => self.messages[index].clone(),
            _ => self.messages.swap_remove(index),
        };
        let is_question = matches!(message.content, Content::Question(_));
        let link = if is_question { (message.target, message.source) } else { (message.source, message.target) };
        if self.cut.contains(&link) {
            return;
        }
        self.arrive(message);
    }

    fn arrive(&mut self, message: Message) {
        let Message { source, target, pull, number, content } = message;
        match content {
            Content::Question(mut question) => {
                let access = self.servers[source].itself();
                let reading = access.read().expect("a snapshot");
                if let Some(wrong) = self.wrong {
                    let current = reading.position(reading.modseq()).expect("a sound store");
                    wrong.distort_question(&mut question, current);
                }
                // No answer leaves a server before the data in it is durable.
                let answer =
                    answer_in_pages(&reading, &question, self.changes_per_page, &ReplicationSettings::default())
                        .expect("a sound store");
                let content = Content::Answer(answer);
                drop(reading);
                self.messages.push(Message { source, target, pull, number, content });
            }
            Content::Answer(mut answer) => {
                if self.pulls[target] != pull {
                    return;
                }
                if let Some(wrong) = self.wrong {
                    if wrong == WrongExchange::MarksByNoteId {
                        self.name_by_note_ids(&mut answer, source, target);
                    }
                    wrong.distort_answer(&mut answer, self.servers[target].clock.now(), &self.random);
                }
                if let Some((_, running)) = &mut self.servers[target].pull {
                    running.take(number, answer).expect("a sound store");
                    self.ask(target);
                }
            }
        }
    }

    /// Replaces the UNIDs of marks by those of the notes that have the same numbers in the target.
    fn name_by_note_ids(&self, answer: &mut Answer, source: usize, target: usize) {
        let Answer::UnreadMarks(page) = answer else { return };
        let source = self.servers[source].itself();
        let target = self.servers[target].itself();
        let source = source.read().expect("a snapshot");
        let target = target.read().expect("a snapshot");
        for unid in page.marks.iter_mut().flat_map(|marks| &mut marks.unids) {
            let note = source.find(*unid).expect("a sound store");
            let same = note.and_then(|note| target.header(note).expect("a sound store"));
            *unid = same.map_or(*unid, |header| header.unid);
        }
    }

    /// Ends all faults, and lets all servers pull from all others until nothing changes.
    fn settle(&mut self) {
        let topology = self.topology;
        self.messages.clear();
        self.cut.clear();
        self.servers.iter_mut().for_each(|server| server.pull = None);
        for round in 0.. {
            let before: Vec<_> = self.servers.iter().map(Server::progress).collect();
            for target in 0..SERVERS {
                for source in (0..SERVERS).filter(|source| topology.connects(target, *source)) {
                    self.servers[target].pull = None;
                    self.begin_pull(target, source);
                    while let Some(message) = self.messages.pop() {
                        self.arrive(message);
                    }
                }
            }
            self.servers.iter().for_each(|server| self.clients.look_at(server));
            if before == self.servers.iter().map(Server::progress).collect::<Vec<_>>() {
                break;
            }
            assert!(round < 30, "the replicas do not settle");
        }
    }
}

fn run(seed: u64, deletions: Deletions) -> Network {
    run_with(None, seed, deletions)
}

fn run_with(wrong: Option<WrongExchange>, seed: u64, deletions: Deletions) -> Network {
    let mut network = Network::with_wrong(wrong, seed, deletions);
    for _ in 0..150 {
        network.step();
    }
    network.settle();
    let expected = network.servers[0].state();
    for server in &network.servers {
        server.check_all_are_shown();
        let report = fixup::check(&server.database).expect("a sound store");
        assert_eq!(report.findings, [], "seed {seed}");
        let found = server.state();
        let differing = expected.keys().chain(found.keys()).find(|unid| expected.get(*unid) != found.get(*unid));
        if let Some(unid) = differing {
            let first = expected.get(unid);
            panic!("seed {seed}: {unid} is {first:?} and, on server {}, {:?}", server.number, found.get(unid));
        }
        let number = server.number;
        assert_eq!(server.readers(), network.servers[0].readers(), "seed {seed}: the readers on server {number}");
    }
    let found: BTreeSet<u64> = network.servers.iter().flat_map(Server::values).collect();
    let deleted: BTreeSet<u64> = network.servers.iter().flat_map(|server| server.deleted.iter().copied()).collect();
    for server in &network.servers {
        let lost: Vec<_> =
            server.acknowledged.iter().filter(|value| !found.contains(value) && !deleted.contains(value)).collect();
        assert!(lost.is_empty(), "seed {seed}: the edits {lost:?} of server {} are lost", server.number);
    }
    network
}

/// Returns the number of seeds: more if `DOUBLET_SOAK` is set.
fn seeds() -> u64 {
    if std::env::var_os("DOUBLET_SOAK").is_some() { 10_000 } else { 150 }
}

#[test]
fn replicas_become_equal_and_lose_no_edit() {
    let mut conflicts = 0;
    let mut merged = 0;
    for seed in (0..seeds()).chain([1_765]) {
        let network = run(seed, Deletions::None);
        conflicts += network.statistics.iter().map(|statistics| statistics.conflicts).sum::<u64>();
        merged += network.statistics.iter().map(|statistics| statistics.merged).sum::<u64>();
    }
    assert!(conflicts > 10 && merged > 10, "the seeds have {conflicts} conflicts and {merged} merges");
}

#[test]
fn replicas_with_deletions_become_equal() {
    // In the last two, a server is set back while another one pulls from it: a note that had changed later must not be
    // passed by.
    for seed in (0..seeds()).chain([1_054, 3_973]) {
        run(seed, Deletions::GiveWay);
        run(seed, Deletions::Count);
        run(seed, Deletions::Changing);
    }
}

#[test]
fn a_seed_repeats_its_history() {
    for seed in 0..5 {
        let first = run(seed, Deletions::Count);
        let again = run(seed, Deletions::Count);
        assert_eq!(first.trace, again.trace);
        assert_eq!(first.servers[1].state(), again.servers[1].state());
    }
}

#[test]
fn a_pull_asks_only_for_what_changed() {
    let mut network = Network::new(1, Deletions::None);
    for value in 0..200 {
        network.next_value = value;
        network.servers[0].edit(value % DOCUMENTS, value);
    }
    network.settle();
    let listed =
        |network: &Network| network.statistics.iter().map(|pull| (pull.listed, pull.received)).collect::<Vec<_>>();
    network.statistics.clear();
    network.settle();
    assert!(listed(&network).iter().all(|pull| *pull == (0, 0)), "{:?}", listed(&network));
    network.servers[0].edit(1, 1_000);
    network.statistics.clear();
    network.settle();
    let received: u64 = network.statistics.iter().map(|pull| pull.received).sum();
    assert_eq!(received, 2, "each of the other servers gets the document once: {:?}", listed(&network));
}

/// Maximum number of seeds within which a wrong exchange must be found.
const WRONG_SEEDS_MAX: u64 = 1_000;

#[test]
fn wrong_exchanges_are_found() {
    for wrong in [
        WrongExchange::NoInstances,
        WrongExchange::PlaceOutlivesRestores,
        WrongExchange::PositionBeforeNotes,
        WrongExchange::TimesOfArrival,
        WrongExchange::OnlySetValues,
        WrongExchange::NoStateOfKnownNotes,
        WrongExchange::NoFoldersBesideDocuments,
        WrongExchange::NoUids,
        WrongExchange::NoUidValidity,
        WrongExchange::SameRanks,
        WrongExchange::ClockOfBackup,
        WrongExchange::NoSettings,
        WrongExchange::MarksAtArrival,
        WrongExchange::MarksByNoteId,
        WrongExchange::OnlyReadMarks,
    ] {
        let is_found = |seed: &u64| {
            let all = [Deletions::None, Deletions::GiveWay, Deletions::Count];
            let runs = |deletions| std::panic::catch_unwind(|| drop(run_with(Some(wrong), *seed, deletions))).is_err();
            all.into_iter().any(runs)
        };
        let found = (0..WRONG_SEEDS_MAX).find(is_found);
        println!("{wrong:?}: seed {found:?}");
        assert!(found.is_some(), "{wrong:?} is not found");
    }
}
