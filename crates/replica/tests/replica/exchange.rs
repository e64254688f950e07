//! Single exchanges between two replicas: deletions that were purged, notes that cannot be sent or received, rights
//! that change, repairs, and sources that do not follow the protocol.

use std::sync::Arc;
use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::{Name, NoteId, Unid};
use notes::replica::ReplicaNote;
use notes::view::note::ViewNote;
use notes::view::reader::{ViewRow, ViewRowContents};
use notes::view::sort_key::SortDirection;
use notes::view::view_format::{Column, ViewDesign};
use notes::{
    Access, Acl, AclEntry, AclKind, AclLevel, Database, DatabaseKind, DatabaseOptions, Databases, DeletionRule,
    Identity, Item, Marks, NewDatabase, NewNote, ReplicationSettings, ServerSettings, UidRank, Writer, fixup, level,
    purge,
};
use replica::{Answer, HeldBackNotes, Pull, PullStatistics, Question, SourceNotes, Target, answer, answer_in_pages};
use revision::{Revision, conflict_document_unid};
use store::memory::MemoryEngine;
use store::{Batch, Store, StoreOptions, SyncMode, Table, TableReader};

const PATH: &str = "docs.nsf";
const ANN: &str = "Ann/Acme";

pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) databases: Arc<Databases>,
    pub(crate) database: Arc<Database>,
}

pub(crate) fn list(level: AclLevel) -> Acl {
    let mut acl = Acl::private(&Name::new(ANN));
    acl.entries.push(AclEntry { kind: AclKind::Server, ..AclEntry::new("*/Acme", level) });
    acl
}

impl Server {
    pub(crate) fn new(number: u64) -> Self {
        Self::with_settings(number, ServerSettings::default())
    }

    /// Creates a server that shares UIDs with those of other numbers.
    fn sharing(number: u8) -> Self {
        let settings = ServerSettings { uid_rank: UidRank::new(number), ..ServerSettings::default() };
        Self::with_settings(u64::from(number), settings)
    }

    fn with_settings(number: u64, settings: ServerSettings) -> Self {
        let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
        let engine: Arc<dyn store::Engine> = Arc::new(MemoryEngine::new(11));
        let store = Arc::new(Store::with_engine(engine, &options).expect("a store in memory opens"));
        let clock = Arc::new(SimClock::new());
        let random = Arc::new(SeededRandom::new(number));
        let databases = Databases::open_with(store, Arc::clone(&clock) as _, random, settings);
        let owner = Name::new(ANN);
        let new = NewDatabase {
            owner,
            ..NewDatabase::new(PATH, "Documents", DatabaseKind::Standard, list(AclLevel::Manager))
        };
        let database = databases.database_create(&new).expect("the database is created");
        Self { name: format!("CN=server{number}/O=Acme"), clock, databases, database }
    }

    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>) -> T {
        let access: Access<level::Depositor> = self.database.authorize(&self.ann()).expect("Ann may");
        let accesses = [&access];
        let mut transaction = self.databases.transaction(&accesses).expect("a transaction");
        let outcome = change(&mut transaction.writer(0)).expect("Ann may");
        transaction.commit().expect("a sound store");
        outcome
    }

    pub(crate) fn ann(&self) -> Arc<Identity> {
        Arc::new(Identity::person(ANN))
    }

    pub(crate) fn create(&self, number: u8) -> NoteId {
        let items = vec![Item::text("Subject", number.to_string())];
        self.write(|writer| writer.note_create(NewNote { unid: Some(Unid([number; 16])), ..NewNote::document(items) }))
    }

    pub(crate) fn has(&self, number: u8) -> bool {
        let access: Access<level::Reader> = self.database.authorize(&self.ann()).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        let note = reading.find(Unid([number; 16])).expect("a sound store");
        note.is_some_and(|note| reading.note(note).expect("a sound store").is_some())
    }

    /// Lets this server answer a question of another one.
    fn answer(&self, target: &Self, question: &Question) -> Answer {
        self.try_answer(target, question).expect("a sound store")
    }

    pub(crate) fn try_answer(&self, target: &Self, question: &Question) -> notes::Result<Answer> {
        let reader = Arc::new(Identity { server: true, ..Identity::person(target.name.as_str()) });
        let access: Access<level::Reader> = self.database.authorize(&reader).expect("the list names the servers");
        let reading = access.read().expect("a snapshot");
        answer_in_pages(&reading, question, 3, &self.settings_of(self, target))
    }

    /// Returns the settings of one server's replica for another server, as they are on this one.
    fn settings_of(&self, server: &Self, other: &Self) -> ReplicationSettings {
        let access: Access<level::Reader> = self.database.authorize(&self.ann()).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        let found = reading.replication_settings(&Name::new(&server.name), &Name::new(&other.name));
        found.expect("a sound store")
    }

    pub(crate) fn begin(&self, source: &Self, held_back: HeldBackNotes) -> Pull {
        let itself = Arc::new(Identity::local_server(self.name.as_str()));
        let other = Arc::new(Identity { server: true, ..Identity::person(source.name.as_str()) });
        let target = Target::new(&self.databases, &self.database, &itself, &other).expect("the list names the servers");
        let stated = source.settings_of(self, source).without;
        let target = target.with_held_back(held_back).with_stated_exclusions(stated).expect("a sound store");
        Pull::begin(target).expect("a sound store")
    }

    pub(crate) fn pull_with(&self, source: &Self, held_back: HeldBackNotes) -> PullStatistics {
        let mut pull = self.begin(source, held_back);
        while let Some((number, question)) = pull.question() {
            pull.take(number, source.answer(self, &question)).expect("a sound store");
        }
        pull.statistics()
    }

    pub(crate) fn pull(&self, source: &Self) -> PullStatistics {
        self.pull_with(source, HeldBackNotes::Left)
    }

    /// Purges the deletions of this server.
    pub(crate) fn purge(&self) {
        self.clock.advance(Duration::from_secs(100 * 86_400));
        while purge::purge(&self.database).expect("a sound store") > 0 {}
    }

    /// Returns UIDVALIDITY of the only folder, and the UIDs that clients see in it, with the numbers of the documents.
    fn mailbox(&self) -> (u32, Vec<(u32, u8)>) {
        let access: Access<level::Reader> = self.database.authorize(&self.ann()).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        let view = reading.folders().expect("a sound store")[0].view;
        let folder = reading.folder(view).expect("it exists");
        let mut seen = Vec::new();
        let mut each = |entry: notes::FolderEntry| {
            let unid = reading.header(entry.note)?.expect("it exists").unid;
            seen.push((entry.uid.0, unid.0[0]));
            Ok(true)
        };
        folder.for_each_entry(base::Uid(0), &mut each).expect("a sound store");
        assert_eq!(folder.totals().expect("a sound store").count, seen.len() as u64);
        (folder.state().uid_validity, seen)
    }

    /// Creates a document in the only folder, and returns its UID.
    fn deliver(&self, number: u8) -> u32 {
        self.write(|writer| {
            let folders = vec![writer.folders()?[0].view];
            let items = vec![Item::text("Subject", "x".repeat(300 - usize::from(number)))];
            let new = NewNote { unid: Some(Unid([number; 16])), folders, ..NewNote::document(items) };
            writer.note_create(new).map(drop)
        });
        let access: Access<level::Reader> = self.database.authorize(&self.ann()).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        let note = reading.find(Unid([number; 16])).expect("a sound store").expect("it exists");
        reading.header(note).expect("a sound store").expect("it exists").folders[0].uid.0
    }

    /// Forgets the deletions that this server has purged, as it does after some further intervals.
    fn forget_purged(&self) {
        self.clock.advance(Duration::from_secs(400 * 86_400));
        while purge::purge(&self.database).expect("a sound store") > 0 {}
    }

    fn revision(&self, number: u8) -> Revision {
        self.write(|writer| {
            let note = writer.find(Unid([number; 16]))?.expect("it exists");
            Ok(writer.header(note)?.expect("it exists").revision())
        })
    }

    pub(crate) fn save(&self, number: u8, subject: &str) {
        self.write(|writer| {
            let note = writer.find(Unid([number; 16]))?.expect("it exists");
            let read = writer.header(note)?.expect("it exists").revision();
            writer.note_update(note, read, &[Item::text("Subject", subject)], &[])
        });
    }

    /// Changes the title and the rule for deletions.
    fn set_options(&self, title: &str, deletions: Option<DeletionRule>) {
        let access: Access<level::Manager> = self.database.authorize(&self.ann()).expect("Ann manages it");
        let options = DatabaseOptions { deletions, ..self.database.record().options };
        self.databases.database_options_set(&access, title, options).expect("Ann manages it");
    }

    pub(crate) fn set_list(&self, level: AclLevel) {
        self.write(|writer| writer.acl_set(list(level)));
    }
}

/// Returns two replicas with the same ten documents. The second one has pulled from the first.
pub(crate) fn two() -> (Server, Server) {
    let servers = (Server::new(1), Server::new(2));
    for number in 1..=10 {
        servers.0.create(number);
    }
    assert_eq!(servers.1.pull(&servers.0).received, 11, "with the access control list");
    servers.0.pull(&servers.1);
    servers
}

#[test]
fn deletion_that_is_forgotten_is_not_undone_and_can_be_undone_by_request() {
    let (hub, laptop) = two();
    let note = hub.write(|writer| writer.find(Unid([3; 16]))).expect("it exists");
    hub.write(|writer| writer.note_delete(note));
    hub.purge();
    hub.forget_purged();
    // The laptop was away for longer than purged deletions are known. It has edited one document and created another.
    laptop.create(20);
    let edited = laptop.write(|writer| writer.find(Unid([4; 16]))).expect("it exists");
    laptop.save(4, "edited");
    laptop.pull(&hub);
    assert!(laptop.has(3), "the laptop has not heard of the deletion");
    let pulled = hub.pull(&laptop);
    assert_eq!((pulled.received, pulled.held_back), (2, 0), "unchanged notes are not listed");
    assert!(!hub.has(3) && hub.has(20));
    // A mark is no edit. It arrives with an edit.
    let flagged = laptop.write(|writer| writer.find(Unid([3; 16]))).expect("it exists");
    laptop.write(|writer| writer.marks_set(flagged, Marks::FLAGGED, &[]));
    laptop.write(|writer| writer.marks_set(edited, Marks::FLAGGED, &[]));
    let pulled = hub.pull(&laptop);
    assert_eq!((pulled.received, pulled.state_only, pulled.held_back), (0, 1, 1));
    assert!(!hub.has(3));
    // The hub loses its position in the laptop, for example because the laptop was repaired.
    fixup_with_finding(&laptop);
    let pulled = hub.pull(&laptop);
    assert_eq!((pulled.received, pulled.held_back), (0, 1));
    // With other rights of the laptop, everything is compared.
    for level in [AclLevel::Designer, AclLevel::Manager] {
        hub.set_list(level);
        let pulled = hub.pull(&laptop);
        assert!(pulled.listed > 10 && pulled.held_back == 1, "{pulled:?}");
    }
    assert!(!hub.has(3));
    assert_eq!(hub.pull_with(&laptop, HeldBackNotes::Taken).received, 1);
    assert!(hub.has(3));
}

#[test]
fn purged_deletion_reaches_a_replica_that_brings_the_document_later() {
    let (hub, laptop) = two();
    let spoke = Server::new(3);
    spoke.pull(&hub);
    // The laptop takes the last edit of the hub, which does not pull from it again before it deletes the document.
    let note = hub.write(|writer| writer.find(Unid([3; 16]))).expect("it exists");
    hub.save(3, "edited on the hub");
    laptop.pull(&hub);
    hub.write(|writer| writer.note_delete(note));
    spoke.pull(&hub);
    [&hub, &spoke].into_iter().for_each(Server::purge);
    laptop.pull(&hub);
    assert!(laptop.has(3), "the laptop has not heard of the deletion");
    for server in [&hub, &spoke] {
        let pulled = server.pull_with(&laptop, HeldBackNotes::Taken);
        assert_eq!(pulled.held_back, 0, "{pulled:?}");
        assert!(!server.has(3), "the contents came to the laptop after the position, or they have never met");
    }
    assert_eq!(laptop.pull(&hub).deleted, 1);
    assert!(!laptop.has(3));
    // The deletion is purged again, and then nobody has the document.
    [&hub, &spoke, &laptop].into_iter().for_each(Server::purge);
    for (target, source) in [(&hub, &laptop), (&laptop, &spoke), (&spoke, &hub)] {
        target.pull(source);
        assert!(!target.has(3));
    }
}

#[test]
fn edit_without_knowledge_of_a_purged_deletion_counts_as_if_the_stub_were_there() {
    for (saves, survives) in [(1, true), (2, false)] {
        let (hub, laptop) = two();
        laptop.save(3, "edited on the laptop");
        laptop.save(3, "edited again");
        let edit = laptop.revision(3);
        (0..saves).for_each(|save| hub.save(3, &format!("edit {save}")));
        let note = hub.write(|writer| writer.find(Unid([3; 16]))).expect("it exists");
        if !survives {
            // The deletion takes the place of the edit that it has deleted, which is greater.
            hub.save(3, "the last edit");
        }
        hub.write(|writer| writer.note_delete(note));
        hub.purge();
        hub.pull(&laptop);
        laptop.pull(&hub);
        hub.pull(&laptop);
        let kept = conflict_document_unid(Unid([3; 16]), edit);
        for server in [&hub, &laptop] {
            assert_eq!(server.has(3), survives);
            assert_eq!(server.write(|writer| writer.find(kept)).is_some(), !survives);
        }
        if survives {
            continue;
        }
        // The conflict document is deleted, and does not come back either.
        let document = hub.write(|writer| writer.find(kept)).expect("the edit is kept");
        hub.write(|writer| writer.note_delete(document));
        hub.purge();
        let copy = laptop.write(|writer| writer.find(kept)).expect("it has come");
        laptop.write(|writer| writer.marks_set(copy, Marks::FLAGGED, &[]));
        hub.pull(&laptop);
        laptop.pull(&hub);
        for server in [&hub, &laptop] {
            let found = server.write(|writer| writer.find(kept));
            assert_eq!(found.and_then(|found| server.write(|writer| writer.note(found))), None);
        }
    }
}

#[test]
fn target_that_missed_purged_deletions_compares_everything_and_gets_nothing_back() {
    let (hub, laptop) = two();
    // The laptop deletes a document and forgets it. Meanwhile the hub forgets deletions, too.
    for server in [&hub, &laptop] {
        let number = if server.name == hub.name { 5 } else { 6 };
        let note = server.write(|writer| writer.find(Unid([number; 16]))).expect("it exists");
        server.write(|writer| writer.note_delete(note));
        server.purge();
        server.forget_purged();
    }
    let pulled = laptop.pull(&hub);
    assert!(pulled.listed >= 10, "deletions after the position were purged, so everything is compared: {pulled:?}");
    assert_eq!((pulled.received, pulled.held_back), (0, 1));
    assert!(!laptop.has(6));
}

/// Damages and repairs a database, so that it begins a new order of changes.
fn fixup_with_finding(server: &Server) {
    let mut batch = Batch::new();
    let key = [&server.database.number().to_key()[..], &[9; 16]].concat();
    batch.put(Table::Unid, &key, &[0, 0, 0, 2]);
    server.databases.store().commit(&batch).expect("it is written");
    assert!(fixup::repair(&server.database).expect("it can be repaired").repaired);
}

#[test]
fn replica_that_was_repaired_gets_lost_notes_and_its_list_from_others() {
    let (hub, other) = two();
    hub.set_list(AclLevel::Editor);
    hub.set_list(AclLevel::Manager);
    other.pull(&hub);
    let lost = other.write(|writer| writer.find(Unid([7; 16]))).expect("it exists");
    let mut batch = Batch::new();
    for (note, part) in [(lost, 0), (NoteId(1), 1)] {
        let key = [&other.database.number().to_key()[..], &note.to_key(), &[part]].concat();
        batch.put(Table::Summary, &key, b"damaged");
    }
    other.databases.store().commit(&batch).expect("it is written");
    assert!(fixup::repair(&other.database).expect("it can be repaired").repaired);
    assert!(!other.has(7));
    let pulled = other.pull(&hub);
    assert!(other.has(7), "{pulled:?}");
    let conflicts = hub.pull(&other);
    assert_eq!((conflicts.received, conflicts.conflicts), (0, 0), "the hub has everything: {conflicts:?}");
}

#[test]
fn note_that_is_damaged_at_the_source_is_received_later() {
    let hub = Server::new(1);
    let other = Server::new(2);
    for number in 1..=5 {
        hub.create(number);
    }
    let note = hub.write(|writer| writer.find(Unid([3; 16]))).expect("it exists");
    let key = [&hub.database.number().to_key()[..], &note.to_key(), &[1]].concat();
    let stored = hub.databases.store().get(Table::Summary, &key).expect("sound").expect("it exists");
    let put_summary = |record: &[u8]| {
        let mut batch = Batch::new();
        batch.put(Table::Summary, &key, record);
        hub.databases.store().commit(&batch).expect("it is written");
    };
    put_summary(b"damaged");
    let pulled = other.pull(&hub);
    assert_eq!((pulled.received, pulled.skipped), (5, 1), "the others arrive");
    assert!(!other.has(3) && other.has(5));
    assert_eq!(other.pull(&hub).skipped, 1, "it is asked for again");
    put_summary(&stored);
    let pulled = other.pull(&hub);
    assert_eq!((pulled.received, pulled.skipped), (1, 0));
    assert!(other.has(3));
    assert_eq!(other.pull(&hub), PullStatistics::default(), "nothing is left");
}

#[test]
fn note_that_is_not_valid_is_received_later_and_the_others_arrive() {
    let hub = Server::new(1);
    let other = Server::new(2);
    for number in 1..=4 {
        hub.create(number);
    }
    let mut is_wrong = true;
    for expected in [1, 0] {
        let mut pull = other.begin(&hub, HeldBackNotes::Left);
        while let Some((number, question)) = pull.question() {
            let mut changed = hub.answer(&other, &question);
            if let Answer::Notes(sent) = &mut changed {
                for note in sent.notes.iter_mut().filter(|note| is_wrong && note.unid == Unid([2; 16])) {
                    note.items = Some(vec![Item::text("x".repeat(1_000), "")]);
                }
            }
            pull.take(number, changed).expect("a sound store");
        }
        assert_eq!(pull.statistics().skipped, expected);
        is_wrong = false;
    }
    assert!((1..=4).all(|number| other.has(number)));
}

#[test]
fn what_was_refused_arrives_when_the_list_permits_it() {
    let hub = Server::new(1);
    let other = Server::new(2);
    hub.create(1);
    other.set_list(AclLevel::Author);
    let pulled = other.pull(&hub);
    assert_eq!((pulled.received, pulled.refused), (0, 2));
    assert_eq!(other.pull(&hub).listed, 0, "it is not listed again");
    other.set_list(AclLevel::Editor);
    let pulled = other.pull(&hub);
    assert_eq!((pulled.received, pulled.refused), (1, 1), "the list itself needs a manager");
    assert!(other.has(1));
}

#[test]
fn what_was_refused_during_a_pull_arrives_although_the_rights_are_the_same_again() {
    for is_refused_in_list in [true, false] {
        let hub = Server::new(1);
        let other = Server::new(2);
        hub.create(1);
        let mut pull = other.begin(&hub, HeldBackNotes::Left);
        let (number, question) = pull.question().expect("it begins");
        if is_refused_in_list {
            other.set_list(AclLevel::Author);
        }
        pull.take(number, hub.answer(&other, &question)).expect("a sound store");
        other.set_list(AclLevel::Author);
        while let Some((number, question)) = pull.question() {
            pull.take(number, hub.answer(&other, &question)).expect("a sound store");
        }
        assert_eq!((pull.statistics().refused, other.has(1)), (2, false), "with the access control list");
        other.set_list(AclLevel::Manager);
        other.pull(&hub);
        assert!(other.has(1));
        assert_eq!(other.pull(&hub).listed, 0);
    }
}

#[test]
fn folder_that_was_renamed_after_the_filing_arrives_before_its_documents() {
    let hub = Server::new(1);
    let other = Server::new(2);
    let folder = hub.write(|writer| writer.folder_create("Old", &[]));
    for number in 1..=9 {
        let note = hub.create(number);
        hub.write(|writer| writer.folder_add(note, folder));
    }
    hub.write(|writer| writer.folder_rename(folder, "New"));
    other.pull(&hub);
    let access: Access<level::Reader> = other.database.authorize(&other.ann()).expect("Ann may");
    let reading = access.read().expect("a snapshot");
    let folders = reading.folders().expect("a sound store");
    assert_eq!(folders[0].title, "New");
    let count = reading.folder(folders[0].view).and_then(|folder| folder.totals()).expect("a sound store").count;
    assert_eq!(count, 9);
}

#[test]
fn source_whose_list_does_not_end_is_given_up() {
    let hub = Server::new(1);
    let other = Server::new(2);
    for number in 1..=20 {
        hub.create(number);
    }
    let mut pull = other.begin(&hub, HeldBackNotes::Left);
    let mut questions = 0;
    let error = loop {
        questions += 1;
        assert!(questions < 1_000, "the pull ends");
        let (number, question) = pull.question().expect("the list does not end");
        let answer = match question {
            Question::Changes { after, selection, .. } => {
                hub.answer(&other, &Question::Changes { after, progress: None, selection })
            }
            question => hub.answer(&other, &question),
        };
        if let Err(error) = pull.take(number, answer) {
            break error.to_string();
        }
    };
    assert!(error.contains("does not come to an end"), "{error}");
}

#[test]
fn another_database_with_the_replica_id_has_no_valid_position() {
    let (hub, other) = two();
    let position = |server: &Server| {
        let access: Access<level::Reader> = server.database.authorize(&server.ann()).expect("Ann may");
        access.read().and_then(|reading| reading.position(reading.modseq())).expect("sound").expect("it was changed")
    };
    let before = position(&hub);
    let id = hub.database.record().replica_id;
    let manager: Access<level::Manager> = hub.database.authorize(&hub.ann()).expect("Ann may");
    hub.databases.database_delete(&manager).expect("Ann may");
    let new = NewDatabase {
        replica_id: Some(id),
        ..NewDatabase::new(PATH, "Documents", DatabaseKind::Standard, list(AclLevel::Manager))
    };
    let database = hub.databases.database_create(&new).expect("the path is free");
    let again = Server { name: hub.name.clone(), clock: hub.clock.clone(), databases: hub.databases.clone(), database };
    assert_ne!(position(&again).instance, before.instance);
    again.create(30);
    let pulled = other.pull(&again);
    assert!(other.has(30), "{pulled:?}");
}

#[test]
fn answers_name_notes_in_the_order_of_the_question() {
    let (hub, other) = two();
    let unids = vec![Unid([4; 16]), Unid([99; 16]), Unid([2; 16])];
    let reader = Arc::new(Identity { server: true, ..Identity::person(other.name.as_str()) });
    let access: Access<level::Reader> = hub.database.authorize(&reader).expect("the list names the servers");
    let reading = access.read().expect("a snapshot");
    let Answer::Notes(SourceNotes { notes, unsent, .. }) =
        answer(&reading, &Question::Notes { unids, are_truncated: false }).expect("a sound store")
    else {
        panic!("notes")
    };
    let found: Vec<Unid> = notes.iter().map(|note: &ReplicaNote| note.unid).collect();
    assert_eq!((found, unsent), (vec![Unid([4; 16]), Unid([2; 16])], Vec::new()));
}

/// Returns two servers that share the UIDs of a folder. The first one has delivered ten messages.
fn two_sharing() -> (Server, Server) {
    let hub = Server::sharing(0);
    let mate = Server::sharing(1);
    hub.write(|writer| writer.folder_create("Inbox", &[]));
    for number in 1..=10 {
        hub.deliver(number);
    }
    mate.pull(&hub);
    (hub, mate)
}

fn mark(server: &Server, number: u8) {
    let note = server.write(|writer| writer.find(Unid([number; 16]))).expect("it exists");
    server.write(|writer| writer.marks_set(note, notes::Marks::SEEN, &[]));
}

#[test]
fn messages_arrive_under_their_uids_whatever_the_order_of_the_changes() {
    let (hub, mate) = two_sharing();
    let first = hub.mailbox();
    assert_eq!(mate.mailbox(), first, "later messages are smaller and arrive first");
    for number in 11..=30 {
        hub.deliver(number);
        mark(&hub, number - 9);
    }
    mark(&hub, 12);
    mate.pull(&hub);
    hub.pull(&mate);
    assert_eq!(mate.mailbox(), hub.mailbox());
    assert_eq!(hub.mailbox().1[..10], first.1[..], "none was given out again");
}

#[test]
fn messages_are_held_until_the_replication_is_complete_or_a_message_is_filed_here() {
    let (hub, mate) = two_sharing();
    let before = mate.mailbox();
    for number in 11..=16 {
        hub.deliver(number);
    }
    let mut pull = mate.begin(&hub, HeldBackNotes::Left);
    let mut step = || {
        let (number, question) = pull.question().expect("it is not complete");
        pull.take(number, hub.answer(&mate, &question)).expect("a sound store");
    };
    step();
    step();
    assert_eq!(mate.mailbox(), before, "some have arrived, and are held");
    let own = mate.deliver(40);
    let seen = mate.mailbox().1;
    assert!(seen.len() > before.1.len() + 1 && seen.last() == Some(&(own, 40)), "{seen:?}");
    // The new message comes too late to the hub, which has gone on, and gets a greater UID there.
    mate.pull(&hub);
    hub.pull(&mate);
    mate.pull(&hub);
    assert_eq!(mate.mailbox(), hub.mailbox());
    let after = mate.mailbox().1;
    assert_eq!(after[..seen.len() - 1], seen[..seen.len() - 1], "what was seen of the hub stays");
    assert_eq!(after.len(), 17);
}

#[test]
fn servers_that_are_cut_off_give_out_different_uids_and_one_side_gives_out_new_ones() {
    let (hub, mate) = two_sharing();
    let before = hub.mailbox().1;
    let first = hub.deliver(11);
    let other = mate.deliver(12);
    assert!(first % 8 == 0 && other % 8 == 1);
    mate.pull(&hub);
    hub.pull(&mate);
    mate.pull(&hub);
    assert_eq!(mate.mailbox(), hub.mailbox());
    let uids = hub.mailbox().1;
    assert_eq!(uids[..11], [&before[..], &[(first, 11)]].concat(), "all others stay");
    assert!(uids[11].1 == 12 && uids[11].0 > first.max(other), "it came too late to the hub");
    // Nothing goes on: both sides have seen everything.
    mate.pull(&hub);
    hub.pull(&mate);
    assert_eq!(hub.mailbox().1, uids);
}

#[test]
fn servers_without_a_rank_have_uids_of_their_own() {
    let hub = Server::sharing(0);
    hub.write(|writer| writer.folder_create("Inbox", &[]));
    let other = Server::new(5);
    other.clock.advance(Duration::from_secs(60));
    for number in 1..=10 {
        hub.deliver(number);
    }
    other.pull(&hub);
    let (uid_validity, uids) = other.mailbox();
    assert_ne!(uid_validity, hub.mailbox().0);
    assert_eq!(uids.iter().map(|(uid, _)| *uid).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    let before = hub.mailbox();
    hub.pull(&other);
    assert_eq!(hub.mailbox(), before);
}

#[test]
fn two_servers_with_one_rank_are_found_and_both_messages_get_other_uids() {
    let hub = Server::sharing(3);
    let mate = Server { name: "CN=mate/O=Acme".to_owned(), ..Server::sharing(3) };
    hub.write(|writer| writer.folder_create("Inbox", &[]));
    mate.pull(&hub);
    let twice = [hub.deliver(1), mate.deliver(2)];
    assert_eq!(twice[0], twice[1], "an operator has made a mistake");
    for _ in 0..3 {
        mate.pull(&hub);
        hub.pull(&mate);
    }
    assert_eq!(mate.mailbox(), hub.mailbox());
    let uids = hub.mailbox().1;
    assert_eq!(uids.len(), 2);
}

#[test]
fn folder_that_was_deleted_and_exists_again_has_another_uidvalidity_everywhere() {
    let (hub, mate) = two_sharing();
    let before = hub.mailbox().0;
    let folder = mate.write(|writer| Ok(writer.folders()?[0].view));
    let hub_folder = hub.write(|writer| Ok(writer.folders()?[0].view));
    for number in 1..=10 {
        let note = mate.write(|writer| writer.find(Unid([number; 16]))).expect("it exists");
        mate.write(|writer| writer.folder_remove(note, folder));
    }
    mate.write(|writer| writer.folder_delete(folder));
    hub.write(|writer| writer.folder_rename(hub_folder, "Renamed"));
    hub.write(|writer| writer.folder_rename(hub_folder, "Again"));
    for _ in 0..3 {
        mate.pull(&hub);
        hub.pull(&mate);
    }
    assert_eq!(mate.mailbox(), hub.mailbox());
    assert!(hub.mailbox().0 > before);
}

#[test]
fn folders_of_one_name_are_shown_with_different_names_on_all_servers() {
    let hub = Server::sharing(0);
    let mate = Server::sharing(1);
    mate.pull(&hub);
    for server in [&hub, &mate] {
        server.write(|writer| writer.folder_create("Plan", &[]));
    }
    let titles = |server: &Server| {
        let folders = server.write(|writer| writer.folders());
        let mut titles: Vec<String> = folders.iter().map(|folder| folder.title.clone()).collect();
        titles.sort();
        titles
    };
    mate.pull(&hub);
    hub.pull(&mate);
    let shown = titles(&hub);
    assert_eq!(shown, titles(&mate));
    assert!(shown[0] == "Plan" && shown[1].starts_with("Plan (") && shown[1].len() == 15, "{shown:?}");
    // Both servers mean the same folder by a name, and somebody renames the other one.
    let other =
        mate.write(|writer| Ok(writer.folders()?.iter().find(|folder| folder.title != "Plan").map(|it| it.view)));
    mate.write(|writer| writer.folder_rename(other.expect("there are two"), "Later"));
    hub.pull(&mate);
    assert_eq!(titles(&hub), ["Later", "Plan"]);
    assert_eq!(titles(&mate), ["Later", "Plan"]);
}

#[test]
fn content_of_another_database_is_referred_to_only_if_the_source_proves_that_it_knows_it() {
    let hub = Server::new(1);
    let other = Server::new(2);
    let content = vec![7; 100_000];
    let attached = |writer: &mut Writer<'_, '_>| {
        let blobs = vec![writer.blob_put(&content)?];
        let unid = Some(Unid([1; 16]));
        writer.note_create(NewNote { unid, blobs: blobs.clone(), ..NewNote::document(Vec::new()) }).map(|_| blobs[0])
    };
    let blob = hub.write(attached);
    let new = NewDatabase::new("secret.nsf", "Secret", DatabaseKind::Standard, list(AclLevel::Manager));
    let secret = other.databases.database_create(&new).expect("the database is created");
    let access: Access<level::Depositor> = secret.authorize(&other.ann()).expect("Ann may");
    let accesses = [&access];
    let mut transaction = other.databases.transaction(&accesses).expect("a transaction");
    assert_eq!(attached(&mut transaction.writer(0)).expect("Ann may"), blob);
    transaction.commit().expect("a sound store");

    let pull_with = |proved: Vec<store::BlobId>| {
        let mut pull = other.begin(&hub, HeldBackNotes::Left);
        while let Some((number, question)) = pull.question() {
            let answer = match hub.answer(&other, &question) {
                Answer::Notes(sent) => Answer::Notes(SourceNotes { proved: proved.clone(), ..sent }),
                answer => answer,
            };
            if let Answer::Notes(sent) = &answer
                && let Some(missing) = pull.target().missing_contents(&sent.notes).expect("sound").first()
            {
                assert!(missing.blob == blob && missing.can_be_proved);
            }
            pull.take(number, answer).expect("a sound store");
        }
        pull.statistics().skipped
    };
    assert_eq!(pull_with(Vec::new()), 1);
    assert!(!other.has(1));
    let pull = other.begin(&hub, HeldBackNotes::Left);
    let key = [3; 32];
    let proof = |content: &[u8]| *blake3::keyed_hash(&key, content).as_bytes();
    let is_proof = |proof: &[u8]| pull.target().is_proof(&blob, &key, proof).expect("a sound store");
    assert!(is_proof(&proof(&content)));
    assert!(!is_proof(&proof(&content[1..])) && !is_proof(&blob.0) && !is_proof(b"short"));
    assert_eq!(pull_with(vec![blob]), 0);
    assert!(other.has(1), "it was asked for again");
}

#[test]
fn deferred_notes_arrive_with_the_next_questions() {
    let hub = Server::new(1);
    let other = Server::new(2);
    for number in 1..=9 {
        hub.create(number);
    }
    let mut pull = other.begin(&hub, HeldBackNotes::Left);
    while let Some((number, question)) = pull.question() {
        let reply = match hub.answer(&other, &question) {
            Answer::Notes(mut sent) => {
                let rest = sent.notes.split_off(1);
                Answer::Notes(SourceNotes { deferred: rest.iter().map(|note| note.unid).collect(), ..sent })
            }
            other => other,
        };
        pull.take(number, reply).expect("a sound store");
    }
    assert_eq!((pull.statistics().received, pull.statistics().skipped), (10, 0), "with the access control list");
    assert!((1..=9).all(|number| other.has(number)));
}

#[test]
fn deletion_of_a_document_that_was_never_here_keeps_the_name_of_its_client() {
    let hub = Server::new(1);
    let other = Server::new(2);
    let named = Item::text(notes::local_document::ID_ITEM, "of a client");
    let new = NewNote { unid: Some(Unid([3; 16])), ..NewNote::document(vec![named]) };
    let note = hub.write(|writer| writer.note_create(new));
    hub.write(|writer| writer.note_delete(note));
    assert!(other.pull(&hub).deleted > 0);
    let access: Access<level::Reader> = other.database.authorize(&other.ann()).expect("Ann may");
    let reading = access.read().expect("a snapshot");
    let stub = reading.find(Unid([3; 16])).expect("a sound store").expect("there is a stub");
    let stub = reading.replica_note(stub).expect("a sound store").expect("it is visible");
    assert_eq!((stub.client_id.as_deref(), stub.items), (Some("of a client"), None));
}

/// Returns the UNIDs of the rows of the only view.
fn rows(server: &Server) -> Vec<Unid> {
    let access: Access<level::Reader> = server.database.authorize(&server.ann()).expect("Ann may");
    let view = access.read().expect("a snapshot").views().expect("a sound store")[0].note;
    while !access.view_refresh(view, 1_000).expect("a sound store").complete {}
    let reading = access.read().expect("a snapshot");
    let opened = reading.view(view).expect("it exists");
    let rows = reading.view_rows(&opened, 0).expect("rows");
    let page = rows.page(0, 100).expect("a sound store");
    let unid_of = |row: ViewRow| match row.contents {
        ViewRowContents::Document { row, .. } => row.unid,
        ViewRowContents::Category { .. } => panic!("the view has no categories"),
    };
    page.into_iter().map(unid_of).collect()
}

#[test]
fn equal_rows_are_in_the_same_order_whatever_the_order_of_arrival() {
    let order = |numbers: std::ops::RangeInclusive<u8>| numbers.map(|number| Unid([number; 16])).collect::<Vec<_>>();
    for sort in [None, Some(SortDirection::Descending)] {
        let first = Server::new(1);
        let second = Server::new(2);
        // The documents of one transaction have descending sizes, and smaller notes arrive first.
        first.write(|writer| {
            for number in 1..=9 {
                let items = vec![Item::text("Subject", "x".repeat(100 - usize::from(number)))];
                writer.note_create(NewNote { unid: Some(Unid([number; 16])), ..NewNote::document(items) })?;
            }
            let column = Column { title: "Same".into(), item: "Same".into(), sort, ..Column::default() };
            let design = ViewDesign { columns: vec![column], ..ViewDesign::default() };
            let view = ViewNote { title: "All".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() };
            writer.view_create(&view)
        });
        second.clock.advance(Duration::from_secs(1));
        second.create(10);
        second.pull(&first);
        assert_eq!(rows(&first), order(1..=9));
        assert_eq!(rows(&second), order(1..=10));
        let access: Access<level::Reader> = second.database.authorize(&second.ann()).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        let note = |number: u8| reading.find(Unid([number; 16])).expect("a sound store").expect("it exists");
        assert!(note(10) < note(9) && note(9) < note(1), "the notes have arrived in another order");
        first.pull(&second);
        assert_eq!(rows(&first), rows(&second));
    }
}

#[test]
fn settings_that_changed_later_count_and_come_from_managers_only() {
    let (first, second) = two();
    let title = |server: &Server| server.database.record().title.clone();
    first.set_options("Earlier", None);
    second.clock.advance(Duration::from_secs(1));
    second.set_options("Later", None);
    second.pull(&first);
    first.pull(&second);
    assert_eq!((title(&first), title(&second)), ("Later".to_owned(), "Later".to_owned()));
    // The clock of the first one is behind, and its change is later nevertheless.
    first.set_options("Last", Some(DeletionRule::DeletionsCount));
    assert_eq!(second.pull(&first).settings, 1);
    assert_eq!(second.pull(&first).settings, 0);
    assert_eq!(title(&second), "Last");
    assert_eq!(second.database.record().deletion_rule(), DeletionRule::DeletionsCount);
    first.set_options("Refused", None);
    second.set_list(AclLevel::Designer);
    assert_eq!(second.pull(&first).settings, 0);
    assert_eq!(title(&second), "Last");
    second.set_list(AclLevel::Manager);
    second.pull(&first);
    assert_eq!(second.database.record().shared_settings(), first.database.record().shared_settings());
}

#[test]
fn database_that_gets_the_rule_delete_is_closed_to_couchdb_clients() {
    let (first, second) = two();
    let access: Access<level::Manager> = second.database.authorize(&second.ann()).expect("Ann manages it");
    let options = DatabaseOptions { is_open_to_couchdb: true, ..second.database.record().options };
    second.databases.database_options_set(&access, "Documents", options).expect("the rule permits it");
    let wrong = DatabaseOptions { deletions: Some(DeletionRule::DeletionsCount), ..options };
    second.databases.database_options_set(&access, "Documents", wrong).expect_err("it is open");
    first.set_options("Documents", Some(DeletionRule::DeletionsCount));
    second.pull(&first);
    assert!(!second.database.record().options.is_open_to_couchdb);
    assert_eq!(second.database.record().deletion_rule(), DeletionRule::DeletionsCount);
}

#[test]
fn what_was_decided_under_another_rule_is_decided_again() {
    let (first, second) = two();
    let note = first.create(20);
    second.pull(&first);
    first.write(|writer| writer.note_delete(note).map(drop));
    second.write(|writer| {
        let note = writer.find(Unid([20; 16]))?.expect("it has arrived");
        let revision = writer.header(note)?.expect("it exists").revision();
        writer.note_update(note, revision, &[Item::text("Subject", "edited")], &[]).map(drop)
    });
    // The edit counts, and comes back to the first server.
    second.pull(&first);
    first.pull(&second);
    assert!(first.has(20) && second.has(20));
    first.set_options("Documents", Some(DeletionRule::DeletionsCount));
    second.pull(&first);
    first.pull(&second);
    second.pull(&first);
    assert_eq!(first.has(20), second.has(20));
}
