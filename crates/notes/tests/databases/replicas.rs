//! Replicas over real databases: servers change documents, marks, keywords and folders, pull from each other in any
//! order with wrong clocks, and become equal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{NoteId, Unid, ViewId};
use notes::limits::JOINED_FOLDERS_MAX;
use notes::replica::{ReceiveOutcome, ReplicaNote, StateName};
use notes::save::{OnConflict, SaveOptions, SaveOutcome};
use notes::{
    Access, Database, DatabaseKind, DatabaseOptions, ExpectedVersion, Item, ItemValue, Marks, NewDatabase, NewNote,
    NoteClass, Writer, level, purge,
};
use proptest::prelude::*;
use revision::{DeletionRule, Register, Revision};

use crate::fixture::{TestServer, assert_sound, identity, server};

const ANN: &str = "Ann/Acme";
const SERVERS: usize = 3;
const NAMES: [&str; 3] = ["Subject", "Body", "Status"];
const KEYWORDS: [&str; 2] = ["Work", "Home"];

/// A server with its replica.
pub(crate) struct Replica {
    world: TestServer,
    database: Arc<Database>,
}

impl Replica {
    fn new(number: usize, keeps_deleted: bool) -> Self {
        let world = TestServer::numbered(number as u64);
        let database = world.database(&[]);
        if keeps_deleted {
            let access: Access<level::Manager> = database.authorize(&identity(ANN)).expect("Ann manages it");
            let options = DatabaseOptions { keep_deleted_hours: Some(48), ..DatabaseOptions::default() };
            world.databases.database_options_set(&access, "Documents", options).expect("Ann may");
        }
        Self { world, database }
    }

    pub(crate) fn of_kind(number: usize, kind: DatabaseKind) -> Self {
        let world = TestServer::numbered(number as u64);
        let owner = base::Name::new(ANN);
        let acl = notes::Acl::private(&owner);
        let new = NewDatabase { owner, ..NewDatabase::new("docs.nsf", "Documents", kind, acl) };
        let database = world.databases.database_create(&new).expect("the database is created");
        Self { world, database }
    }

    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>) -> T {
        self.world.write(&self.database, ANN, change).expect("Ann may")
    }

    /// Returns all notes, design notes first.
    pub(crate) fn notes(&self) -> Vec<ReplicaNote> {
        let access: Access<level::Reader> = self.database.authorize(&server()).expect("the server may");
        let reading = access.read().expect("a snapshot");
        let mut found = Vec::new();
        let last = reading.counters().next_note;
        for number in 1..last.0 {
            found.extend(reading.replica_note(NoteId(number)).expect("a sound store"));
        }
        found.sort_by_key(|note| (!note.class.is_design(), note.unid));
        found
    }

    fn receive(&self, note: &ReplicaNote, rule: DeletionRule) -> ReceiveOutcome {
        loop {
            let outcome = self.receive_once(note, rule);
            if outcome != ReceiveOutcome::Later {
                return outcome;
            }
        }
    }

    fn receive_once(&self, note: &ReplicaNote, rule: DeletionRule) -> ReceiveOutcome {
        let access: Access<level::Depositor> = self.database.authorize(&server()).expect("the server may");
        let accesses = [&access];
        let mut transaction = self.world.databases.transaction(&accesses).expect("a transaction");
        let outcome = transaction.writer(0).note_receive(note, rule).expect("a valid note");
        transaction.commit().expect("a sound store");
        outcome
    }

    pub(crate) fn pull(&self, source: &Self, rule: DeletionRule) -> bool {
        let mut changed = false;
        for note in source.notes() {
            changed |= !matches!(
                self.receive(&note, rule),
                ReceiveOutcome::Known { state_changed: false } | ReceiveOutcome::Dropped { taken: false }
            );
        }
        changed
    }

    /// Returns what all replicas must agree on: of each note its revision, contents and state.
    pub(crate) fn state(&self) -> BTreeMap<Unid, String> {
        let visible = |note: &ReplicaNote| {
            let set: Vec<&StateName> =
                note.state.iter().filter(|(_, register)| register.is_set).map(|(name, _)| name).collect();
            format!(
                "{} {:?} {:?} {:?} {} {:?} {set:?}",
                note.revision, note.sequence_time, note.created, note.parent, note.is_conflict, note.items
            )
        };
        let acl = notes::acl::ACL_UNID;
        self.notes().iter().filter(|note| note.unid != acl).map(|note| (note.unid, visible(note))).collect()
    }

    pub(crate) fn find(&self, unid: Unid) -> Option<NoteId> {
        let access: Access<level::Reader> = self.database.authorize(&identity(ANN)).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        let note = reading.find(unid).expect("a sound store")?;
        let header = reading.header(note).expect("a sound store")?;
        (!header.is_stub()).then_some(note)
    }

    fn folders(&self) -> Vec<ViewId> {
        self.write(|writer| Ok(writer.folders()?.iter().map(|folder| folder.view).collect()))
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Save { server: usize, note: u8, item: usize },
    Delete { server: usize, note: u8 },
    Restore { server: usize, note: u8 },
    Mark { server: usize, note: u8, marks: u8, keyword: usize },
    CreateFolder { server: usize },
    File { server: usize, note: u8, folder: usize, adds: bool },
    Pull { from: usize, to: usize },
    SetBack { server: usize },
    Wait { server: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let server = || 0..SERVERS;
    let note = || 0..3u8;
    prop_oneof![
        6 => (server(), note(), 0..NAMES.len()).prop_map(|(server, note, item)| Step::Save { server, note, item }),
        1 => (server(), note()).prop_map(|(server, note)| Step::Delete { server, note }),
        1 => (server(), note()).prop_map(|(server, note)| Step::Restore { server, note }),
        2 => (server(), note(), 0..32u8, 0..3usize)
            .prop_map(|(server, note, marks, keyword)| Step::Mark { server, note, marks, keyword }),
        1 => server().prop_map(|server| Step::CreateFolder { server }),
        2 => (server(), note(), 0..4usize, any::<bool>())
            .prop_map(|(server, note, folder, adds)| Step::File { server, note, folder, adds }),
        4 => (server(), server()).prop_map(|(from, to)| Step::Pull { from, to }),
        1 => server().prop_map(|server| Step::SetBack { server }),
        1 => server().prop_map(|server| Step::Wait { server }),
    ]
}

struct Cluster {
    replicas: Vec<Replica>,
    rule: DeletionRule,
    next: u64,
}

impl Cluster {
    fn new(rule: DeletionRule, keeps_deleted: bool) -> Self {
        Self { replicas: (0..SERVERS).map(|number| Replica::new(number, keeps_deleted)).collect(), rule, next: 0 }
    }

    fn run(&mut self, step: Step) {
        self.next += 1;
        let number = self.next;
        match step {
            Step::Save { server, note, item } => self.save(server, note, item),
            Step::Delete { server, note } => {
                let replica = &self.replicas[server];
                if let Some(note) = replica.find(Unid([note; 16])) {
                    replica.write(|writer| writer.note_delete(note));
                }
            }
            Step::Restore { server, note } => self.restore(server, note),
            Step::Mark { server, note, marks, keyword } => {
                let replica = &self.replicas[server];
                let keywords: Vec<String> = KEYWORDS.get(keyword).map(|name| (*name).to_owned()).into_iter().collect();
                if let Some(note) = replica.find(Unid([note; 16])) {
                    replica.write(|writer| writer.marks_set(note, Marks(marks), &keywords));
                }
            }
            Step::CreateFolder { server } => {
                self.replicas[server].write(|writer| writer.folder_create(&format!("Folder {number}"), &[]));
            }
            Step::File { server, note, folder, adds } => {
                let replica = &self.replicas[server];
                let folder = replica.folders().get(folder).copied();
                if let (Some(note), Some(folder)) = (replica.find(Unid([note; 16])), folder) {
                    replica.write(|writer| {
                        if adds {
                            writer.folder_add(note, folder).map(drop)
                        } else {
                            writer.folder_remove(note, folder).map(drop)
                        }
                    });
                }
            }
            Step::Pull { from, to } if from != to => {
                self.replicas[to].pull(&self.replicas[from], self.rule);
            }
            Step::Pull { .. } => {}
            Step::SetBack { server } => self.replicas[server].world.clock.step_back(Duration::from_secs(3_600)),
            Step::Wait { server } => self.replicas[server].world.clock.advance(Duration::from_secs(60)),
        }
    }

    /// Writes a value that is never used again into an item of a document, which is created if it does not exist.
    fn save(&self, server: usize, note: u8, item: usize) {
        let replica = &self.replicas[server];
        let unid = Unid([note; 16]);
        let value = format!("{server}/{}", self.next);
        let new = match NAMES[item] {
            "Body" => Item::body("Body", ItemValue::RichText(value)),
            name => Item::text(name, value),
        };
        let merges = Item::text("$ConflictAction", if note == 0 { "1" } else { "0" });
        match replica.find(unid) {
            None => drop(replica.write(|writer| {
                writer.note_create(NewNote { unid: Some(unid), ..NewNote::document(vec![merges, new]) })
            })),
            Some(note) => replica.write(|writer| {
                let stored = writer.note(note)?.expect("the note exists");
                let others = stored.items.into_iter().filter(|item| !item.is_named(&new.name));
                let items: Vec<Item> = others.chain([new.clone()]).collect();
                writer.note_update(note, stored.header.revision(), &items, &[]).map(drop)
            }),
        }
    }

    fn restore(&self, server: usize, note: u8) {
        let replica = &self.replicas[server];
        let access: Access<level::Reader> = replica.database.authorize(&identity(ANN)).expect("Ann may");
        let deleted = access.read().and_then(|reading| reading.deleted_notes(NoteId(0), 100)).expect("a sound store");
        let unid = Unid([note; 16]);
        if let Some(found) = deleted.iter().find(|deleted| deleted.header.unid == unid) {
            let _ = replica.world.write(&replica.database, ANN, |writer| writer.note_restore(found.header.note));
        }
    }

    fn settle(&self) {
        let mut rounds = 0;
        loop {
            let mut changed = false;
            for from in 0..SERVERS {
                for to in (0..SERVERS).filter(|to| *to != from) {
                    changed |= self.replicas[to].pull(&self.replicas[from], self.rule);
                }
            }
            if !changed {
                break;
            }
            rounds += 1;
            assert!(rounds < 20, "the replicas do not settle");
        }
        let expected = self.replicas[0].state();
        for replica in &self.replicas {
            assert_sound(&replica.database);
            assert_eq!(replica.state(), expected, "the replicas are equal");
        }
    }
}

fn check(rule: DeletionRule, keeps_deleted: bool, steps: &[Step]) {
    let mut cluster = Cluster::new(rule, keeps_deleted);
    steps.iter().for_each(|step| cluster.run(*step));
    cluster.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn replicas_converge(steps in prop::collection::vec(step(), 1..40)) {
        check(DeletionRule::EditsCount, false, &steps);
    }

    #[test]
    fn replicas_that_keep_deleted_documents_converge(steps in prop::collection::vec(step(), 1..40)) {
        check(DeletionRule::DeletionsCount, true, &steps);
    }
}

#[test]
fn a_note_arrives_as_it_was_made_elsewhere() {
    let cluster = Cluster::new(DeletionRule::EditsCount, false);
    let [source, target, _] = &cluster.replicas[..] else { panic!("three servers") };
    let folder = source.write(|writer| writer.folder_create("Inbox", &[]));
    let note = source.write(|writer| {
        writer.note_create(NewNote {
            parent: Some(Unid([5; 16])),
            received: Some(base::Timestamp(7)),
            marks: Marks::FLAGGED,
            keywords: vec!["Work".into()],
            folders: vec![folder],
            ..NewNote::document(vec![Item::text("Subject", "x"), Item::body("Body", ItemValue::RichText("y".into()))])
        })
    });
    target.write(|writer| writer.folder_create("Other", &[]));
    assert!(target.pull(source, cluster.rule));
    assert_eq!(target.state().len(), source.state().len() + 1);
    let access: Access<level::Reader> = source.database.authorize(&identity(ANN)).expect("Ann may");
    let header = access.read().and_then(|reading| reading.header(note)).expect("a sound store").expect("it exists");
    let arrived = target.find(header.unid).expect("it has arrived");
    assert_ne!(arrived, note, "note ids are those of the target");
    let access: Access<level::Reader> = target.database.authorize(&identity(ANN)).expect("Ann may");
    let reading = access.read().expect("a snapshot");
    let copy = reading.header(arrived).expect("a sound store").expect("it exists");
    assert_eq!((copy.revision(), copy.created, copy.received), (header.revision(), header.created, header.received));
    assert_eq!((copy.size, copy.marks, copy.parent), (header.size, Marks::FLAGGED, header.parent));
    assert_eq!(copy.folders.len(), 1);
    assert_eq!(reading.children(Unid([5; 16])).expect("a sound store"), [arrived]);
    let before = target.database.modseq();
    assert!(!target.pull(source, cluster.rule));
    assert_eq!(target.database.modseq(), before, "what is known changes nothing");
}

#[test]
fn two_saves_that_do_not_know_each_other_are_both_kept() {
    let mut cluster = Cluster::new(DeletionRule::EditsCount, false);
    let edit = |server| Step::Save { server, note: 1, item: 0 };
    cluster.run(edit(0));
    cluster.run(Step::Pull { from: 0, to: 1 });
    // Server 0 saves twice, server 1 once. By sequence number alone, the edit of server 1 would be overwritten.
    [edit(0), edit(0), edit(1)].into_iter().for_each(|step| cluster.run(step));
    cluster.settle();
    let state = cluster.replicas[2].state();
    let documents: Vec<&String> = state.values().collect();
    assert_eq!(documents.len(), 2, "{documents:?}");
    assert!(documents.iter().any(|text| text.contains("\"1/5\"") && text.contains("true")), "{documents:?}");
    assert!(documents.iter().any(|text| text.contains("\"0/4\"") && text.contains("false")), "{documents:?}");
}

#[test]
fn the_later_change_of_a_mark_counts_whenever_it_arrives() {
    let mut cluster = Cluster::new(DeletionRule::EditsCount, false);
    let wait = |cluster: &Cluster, seconds: u64| {
        cluster.replicas.iter().for_each(|replica| replica.world.clock.advance(Duration::from_secs(seconds)));
    };
    cluster.run(Step::Save { server: 0, note: 1, item: 0 });
    cluster.settle();
    let mark = |server, marks| Step::Mark { server, note: 1, marks, keyword: 2 };
    wait(&cluster, 10);
    cluster.run(mark(0, Marks::SEEN.0));
    cluster.run(mark(2, Marks::FLAGGED.union(Marks::SEEN).0));
    wait(&cluster, 10);
    cluster.run(mark(2, Marks::FLAGGED.0));
    wait(&cluster, 10);
    // Server 1 learns of the older change after the newer one was made.
    cluster.run(Step::Pull { from: 0, to: 1 });
    cluster.settle();
    let state = &cluster.replicas[1].state()[&Unid([1; 16])];
    assert!(state.ends_with("[Mark(2)]"), "both flags were set, and one was taken away last: {state}");
}

#[test]
fn the_list_that_was_changed_last_counts_on_all_servers() {
    let cluster = Cluster::new(DeletionRule::EditsCount, false);
    let [one, other, _] = &cluster.replicas[..] else { panic!("three servers") };
    let list = |replica: &Replica, name: &str| {
        let mut acl = notes::Acl::private(&base::Name::new(ANN));
        acl.entries.push(notes::AclEntry::new(name, notes::AclLevel::Editor));
        replica.write(|writer| writer.acl_set(acl));
    };
    list(one, "Bob/Acme");
    list(one, "Carl/Acme");
    list(other, "Dora/Acme");
    other.pull(one, cluster.rule);
    one.pull(other, cluster.rule);
    for replica in [one, other] {
        let may = |name: &str| {
            let access: notes::Result<Access<level::Editor>> = replica.database.authorize(&identity(name));
            access.is_ok()
        };
        assert_eq!(["Bob/Acme", "Carl/Acme", "Dora/Acme"].map(may), [false, true, false]);
    }
}

#[test]
fn what_is_not_the_servers_or_does_not_fit_is_refused() {
    let cluster = Cluster::new(DeletionRule::EditsCount, false);
    let [one, other, _] = &cluster.replicas[..] else { panic!("three servers") };
    let note = one.write(|writer| writer.note_create(NewNote::document(vec![Item::text("Subject", "x")])));
    let access: Access<level::Reader> = one.database.authorize(&server()).expect("the server may");
    let made = access.read().and_then(|reading| reading.replica_note(note)).expect("sound").expect("it exists");
    let by_ann = other.world.write(&other.database, ANN, |writer| writer.note_receive(&made, cluster.rule));
    assert!(by_ann.is_err(), "only the server replicates");
    other.receive(&made, cluster.rule);
    let other_class = ReplicaNote { class: NoteClass::FORM, ..made.clone() };
    let refused = |note: &ReplicaNote| {
        let access: Access<level::Depositor> = other.database.authorize(&server()).expect("the server may");
        let accesses = [&access];
        let mut transaction = other.world.databases.transaction(&accesses).expect("a transaction");
        transaction.writer(0).note_receive(note, cluster.rule).is_err()
    };
    assert!(refused(&other_class));
    let newer = Revision { sequence: 9, ..made.revision };
    assert!(refused(&ReplicaNote { class: NoteClass::ACL, revision: newer, ..made.clone() }));
    let acl = one.notes().into_iter().find(|note| note.class == NoteClass::ACL).expect("each database has a list");
    let newer_acl = Revision { sequence: 9, ..acl.revision };
    assert!(refused(&ReplicaNote { items: None, revision: newer_acl, ..acl.clone() }), "it cannot be deleted");
    let no_list = vec![Item::text("Subject", "x")];
    assert!(refused(&ReplicaNote { items: Some(no_list), revision: newer_acl, ..acl }));
    let too_often = Revision { sequence: u32::MAX - 1, ..made.revision };
    assert!(refused(&ReplicaNote { revision: too_often, ..made.clone() }));
    assert!(refused(&ReplicaNote { sequence_time: base::Timestamp(i64::MAX), revision: newer, ..made.clone() }));
    let unsaved = Revision { sequence: 0, ..made.revision };
    assert!(refused(&ReplicaNote { unid: Unid([9; 16]), revision: unsaved, ..made.clone() }));
    assert!(refused(&ReplicaNote { parent: Some(made.unid), revision: newer, ..made.clone() }));
    assert!(refused(&ReplicaNote { size: Some(u64::MAX), revision: newer, ..made.clone() }));
    assert!(refused(&ReplicaNote { crlf_growth: u64::MAX, revision: newer, ..made.clone() }));
    assert!(refused(&ReplicaNote { items: Some(vec![Item::text("x".repeat(1_000), "")]), revision: newer, ..made }));
}

/// Two replicas that keep deleted documents.
fn two_with_restorable_documents() -> Cluster {
    Cluster::new(DeletionRule::EditsCount, true)
}

fn subjects(replica: &Replica) -> Vec<String> {
    let text = |note: &ReplicaNote| {
        let subject = notes::item::find_item(note.items.as_deref().unwrap_or_default(), "Subject");
        subject.and_then(|item| item.value.text().map(str::to_owned))
    };
    replica.notes().iter().filter_map(text).collect()
}

#[test]
fn restoring_an_older_version_elsewhere_keeps_the_later_one() {
    let mut cluster = two_with_restorable_documents();
    let edit = |server| Step::Save { server, note: 1, item: 0 };
    cluster.run(edit(0));
    cluster.run(Step::Pull { from: 0, to: 1 });
    // Server 1 never gets this version. Only its deletion arrives.
    cluster.run(edit(0));
    cluster.run(Step::Delete { server: 0, note: 1 });
    cluster.run(Step::Pull { from: 0, to: 1 });
    cluster.run(Step::Restore { server: 1, note: 1 });
    assert_eq!(subjects(&cluster.replicas[1]), ["0/1"]);
    cluster.settle();
    let mut found = subjects(&cluster.replicas[0]);
    found.sort();
    assert_eq!(found, ["0/1", "0/3"], "the later version is a conflict document");
}

#[test]
fn restoring_the_last_version_elsewhere_makes_no_conflict() {
    let mut cluster = two_with_restorable_documents();
    cluster.run(Step::Save { server: 0, note: 1, item: 0 });
    cluster.run(Step::Save { server: 0, note: 1, item: 0 });
    cluster.run(Step::Pull { from: 0, to: 1 });
    cluster.run(Step::Delete { server: 0, note: 1 });
    cluster.run(Step::Pull { from: 0, to: 1 });
    cluster.run(Step::Restore { server: 1, note: 1 });
    cluster.settle();
    assert_eq!(subjects(&cluster.replicas[0]), ["0/2"]);
}

#[test]
fn notes_created_again_on_two_servers_are_both_kept() {
    let mut cluster = Cluster::new(DeletionRule::EditsCount, false);
    let edit = |server| Step::Save { server, note: 0, item: 0 };
    cluster.run(edit(0));
    cluster.run(Step::Delete { server: 0, note: 0 });
    cluster.settle();
    // The document asks for merges. Both servers set the same item.
    cluster.run(edit(0));
    cluster.run(edit(1));
    cluster.settle();
    assert_eq!(subjects(&cluster.replicas[2]).len(), 2, "{:?}", subjects(&cluster.replicas[2]));
}

#[test]
fn values_beyond_the_limits_for_people_arrive_everywhere() {
    let cluster = Cluster::new(DeletionRule::EditsCount, false);
    let [one, other, _] = &cluster.replicas[..] else { panic!("three servers") };
    let unid = Unid([1; 16]);
    let new = NewNote { unid: Some(unid), ..NewNote::document(vec![Item::text("Subject", "x")]) };
    let note = one.write(|writer| writer.note_create(new));
    other.pull(one, cluster.rule);
    let there = other.find(unid).expect("it has arrived");
    for (replica, note, prefix) in [(one, note, "A"), (other, there, "B")] {
        let keywords: Vec<String> = (0..100).map(|number| format!("{prefix}{number}")).collect();
        replica.write(|writer| writer.marks_set(note, Marks::NONE, &keywords));
        for number in 0..40 {
            let folder = replica.write(|writer| writer.folder_create(&format!("{prefix}{number}"), &[]));
            replica.write(|writer| writer.folder_add(note, folder));
        }
    }
    cluster.settle();
    let note = one.find(unid).expect("it exists");
    let access: Access<level::Reader> = one.database.authorize(&identity(ANN)).expect("Ann may");
    let header = access.read().and_then(|reading| reading.header(note)).expect("sound").expect("it exists");
    assert_eq!((header.keywords.len(), header.folders.len()), (200, 80));
}

#[test]
fn values_that_were_taken_away_stay_away_wherever_they_are_unknown() {
    let cluster = Cluster::new(DeletionRule::EditsCount, false);
    let [one, other, third] = &cluster.replicas[..] else { panic!("three servers") };
    let unid = Unid([1; 16]);
    let new = NewNote { unid: Some(unid), ..NewNote::document(Vec::new()) };
    let note = one.write(|writer| writer.note_create(new));
    one.world.clock.advance(Duration::from_secs(5));
    one.write(|writer| writer.marks_set(note, Marks::NONE, &["Work".to_owned()]));
    let set = one.notes();
    other.pull(one, cluster.rule);
    other.world.clock.advance(Duration::from_secs(60));
    let there = other.find(unid).expect("it has arrived");
    other.write(|writer| writer.marks_set(there, Marks::NONE, &[]));
    // The third server learns first that the keyword was taken away, and then that it was set before.
    third.pull(other, cluster.rule);
    for note in &set {
        third.receive(note, cluster.rule);
    }
    assert!(third.state()[&unid].ends_with("[]"), "{}", third.state()[&unid]);
}

#[test]
fn times_of_values_that_are_not_set_are_limited() {
    let cluster = Cluster::new(DeletionRule::EditsCount, false);
    let [one, other, _] = &cluster.replicas[..] else { panic!("three servers") };
    let note = one.write(|writer| writer.note_create(NewNote::document(Vec::new())));
    let access: Access<level::Reader> = one.database.authorize(&server()).expect("the server may");
    let made = access.read().and_then(|reading| reading.replica_note(note)).expect("sound").expect("it exists");
    let unset = |number: i64| {
        let register = revision::Register::new(false, base::Timestamp(1_000 + number));
        (StateName::Keyword(format!("K{number}")), register)
    };
    let state = (0..1_000).map(unset).collect();
    other.receive(&ReplicaNote { state, ..made.clone() }, cluster.rule);
    let there = other.find(made.unid).expect("it has arrived");
    let access: Access<level::Reader> = other.database.authorize(&identity(ANN)).expect("Ann may");
    let header = access.read().and_then(|reading| reading.header(there)).expect("sound").expect("it exists");
    assert_eq!(header.change_times.list().len(), notes::limits::CHANGE_TIMES_MAX);
    assert_sound(&other.database);
}

#[test]
fn versions_whose_merge_is_too_large_are_both_kept() {
    let cluster = Cluster::new(DeletionRule::EditsCount, false);
    let [one, other, _] = &cluster.replicas[..] else { panic!("three servers") };
    let unid = Unid([1; 16]);
    let merges = Item::text("$ConflictAction", "1");
    let new = NewNote { unid: Some(unid), ..NewNote::document(vec![merges.clone()]) };
    one.write(|writer| writer.note_create(new));
    other.pull(one, cluster.rule);
    let large = "x".repeat(base::limits::SUMMARY_BYTES_MAX * 2 / 3);
    for (replica, name) in [(one, "A"), (other, "B")] {
        let note = replica.find(unid).expect("it exists");
        let items = [merges.clone(), Item::text(name, large.clone())];
        replica.write(|writer| {
            let read = writer.header(note)?.expect("it exists").revision();
            writer.note_update(note, read, &items, &[])
        });
    }
    cluster.settle();
    assert_eq!(one.state().len(), 2, "each alone can be stored, both together cannot");
}

#[test]
fn a_losing_version_can_be_restored_whatever_the_options_of_a_replica() {
    // One replica keeps deleted documents, the other does not.
    let replicas = [Replica::new(0, true), Replica::new(1, false)];
    let [one, other] = &replicas;
    let rule = DeletionRule::DeletionsCount;
    let unid = Unid([1; 16]);
    let new = NewNote { unid: Some(unid), ..NewNote::document(vec![Item::text("Subject", "x")]) };
    one.write(|writer| writer.note_create(new));
    other.pull(one, rule);
    let note = one.find(unid).expect("it exists");
    one.write(|writer| writer.note_delete(note));
    let there = other.find(unid).expect("it exists");
    other.write(|writer| {
        let read = writer.header(there)?.expect("it exists").revision();
        writer.note_update(there, read, &[Item::text("Subject", "edited")], &[])
    });
    for _ in 0..3 {
        other.pull(one, rule);
        one.pull(other, rule);
    }
    // Server 1 does not keep deleted documents, but it has the only copy of the edit.
    notes::soft_deletion::purge_deleted(&other.database).expect("sound");
    let access: Access<level::Reader> = other.database.authorize(&identity(ANN)).expect("Ann may");
    let reading = access.read().expect("a snapshot");
    let deleted = reading.deleted_notes(NoteId(0), 10).expect("sound");
    let [loser] = &deleted[..] else { panic!("one document can be restored: {deleted:?}") };
    let contents = reading.deleted_note(loser.header.note, &mut |_| true).expect("sound").expect("it is kept");
    assert_eq!(contents.text("Subject"), Some("edited"));
    assert_eq!((one.find(unid), other.find(unid)), (None, None), "the deletion counts");
    drop(reading);
    other.write(|writer| writer.note_restore(loser.header.note));
    one.pull(other, rule);
    assert_eq!(subjects(one), ["edited"]);
}

#[test]
fn a_message_in_a_folder_that_is_deleted_elsewhere_is_in_the_inbox() {
    for is_purged in [false, true] {
        let replicas = [Replica::of_kind(0, DatabaseKind::Mail), Replica::of_kind(1, DatabaseKind::Mail)];
        let [one, other] = &replicas;
        let rule = DeletionRule::DeletionsCount;
        let inbox = one.write(|writer| writer.folder_create("INBOX", &[]));
        let project = one.write(|writer| writer.folder_create("Project", &[]));
        let message = NewNote { folders: vec![inbox], ..NewNote::document(vec![Item::text("Subject", "x")]) };
        let note = one.write(|writer| writer.note_create(message));
        other.pull(one, rule);
        // One server files the message. On the other, the folder is still empty, and is deleted.
        one.world.clock.advance(Duration::from_secs(10));
        one.write(|writer| writer.folder_add(note, project));
        one.write(|writer| writer.folder_remove(note, inbox));
        other.write(|writer| {
            let folders = writer.folders()?;
            let project = folders.iter().find(|folder| folder.title == "Project").expect("it has arrived");
            writer.folder_delete(project.view)
        });
        if is_purged {
            other.world.clock.advance(Duration::from_secs(100 * 86_400));
            while purge::purge(&other.database).expect("a sound store") > 0 {}
        }
        for (target, source) in [(other, one), (one, other), (other, one), (one, other)] {
            target.pull(source, rule);
        }
        assert_eq!(one.state(), other.state());
        for replica in &replicas {
            assert_sound(&replica.database);
            assert_eq!(replica.folders().len(), 1);
            let access: Access<level::Reader> = replica.database.authorize(&identity(ANN)).expect("Ann may");
            let reading = access.read().expect("a snapshot");
            let count = reading.folder(replica.folders()[0]).and_then(|folder| folder.totals()).expect("sound").count;
            assert_eq!(count, 1, "the message is in the inbox");
        }
    }
}

#[test]
fn a_version_from_another_server_is_not_overwritten_because_it_has_the_same_number() {
    let cluster = Cluster::new(DeletionRule::EditsCount, false);
    let [one, other, _] = &cluster.replicas[..] else { panic!("three servers") };
    let unid = Unid([1; 16]);
    let note = one.write(|writer| writer.note_create(NewNote { unid: Some(unid), ..NewNote::document(Vec::new()) }));
    other.pull(one, cluster.rule);
    let save = |replica: &Replica, expected: ExpectedVersion, text: &str| {
        let note = replica.find(unid).expect("it exists");
        let items = [Item::text("Subject", text)];
        replica.world.write(&replica.database, ANN, |writer| writer.note_update(note, expected, &items, &[]))
    };
    let revision = |replica: &Replica| {
        let access: Access<level::Reader> = replica.database.authorize(&identity(ANN)).expect("Ann may");
        let note = replica.find(unid).expect("it exists");
        access.read().and_then(|reading| reading.header(note)).expect("sound").expect("it exists").revision()
    };
    save(one, 1.into(), "one").expect("it was created here");
    assert!(matches!(save(other, 1.into(), "other"), Err(notes::Error::OtherVersion { sequence: 1, .. })));
    other.world.clock.advance(Duration::from_secs(60));
    save(other, revision(other).into(), "other").expect("this version was read");
    // A user of the first server has read its version. Then the later one of the second server takes its place.
    let read = revision(one);
    one.pull(other, cluster.rule);
    assert_eq!((read.sequence, revision(one).sequence), (2, 2));
    for expected in [read.into(), ExpectedVersion::from(2)] {
        let refused = save(one, expected, "three");
        assert!(matches!(refused, Err(notes::Error::OtherVersion { sequence: 2, .. })), "{refused:?}");
    }
    // Where conflicts are resolved, the version of the caller is kept.
    let options = SaveOptions { on_conflict: OnConflict::Resolve, ..SaveOptions::default() };
    let items = [Item::text("Subject", "three")];
    let saved = one.write(|writer| writer.note_save(note, read, (&items, &[]), &options));
    assert!(matches!(saved, SaveOutcome::Conflict { .. }), "{saved:?}");
    save(one, revision(one).into(), "four").expect("this version was read");
    save(one, 3.into(), "five").expect("it was saved here");
}

#[test]
fn a_note_gets_no_more_folders_than_it_can_leave_in_one_save() {
    let replica = Replica::of_kind(0, DatabaseKind::Mail);
    let unid = Unid([1; 16]);
    let new = NewNote { unid: Some(unid), ..NewNote::document(vec![Item::text("Subject", "x")]) };
    let note = replica.write(|writer| writer.note_create(new));
    for number in 0..JOINED_FOLDERS_MAX + 10 {
        replica.write(|writer| writer.folder_create(&format!("Folder {number}"), &[]));
    }
    let list = replica.world.write(&replica.database, ANN, |writer| writer.folder_add(NoteId(1), ViewId(3)));
    assert!(matches!(list, Err(notes::Error::Invalid { .. })), "only documents are in folders: {list:?}");
    let notes = replica.notes();
    let folders = notes.iter().filter(|note| note.class.is_design());
    let state = folders.map(|folder| (StateName::Folder(folder.unid), Register::new(true, folder.created))).collect();
    let document = notes.iter().find(|note| note.unid == unid).expect("it was created").clone();
    replica.receive(&ReplicaNote { state, ..document }, DeletionRule::EditsCount);
    let header = || {
        let access: Access<level::Reader> = replica.database.authorize(&identity(ANN)).expect("Ann may");
        access.read().and_then(|reading| reading.header(note)).expect("sound").expect("it exists")
    };
    let before = header();
    assert_eq!(before.folders.len(), JOINED_FOLDERS_MAX);
    // Mail clients see a document without a message, which gets a new UID in all of them.
    replica.write(|writer| writer.note_update(note, before.revision(), &[Item::text("Subject", "y")], &[]));
    let after = header();
    assert_eq!(after.folders.len(), JOINED_FOLDERS_MAX);
    assert!(after.folders.iter().all(|place| !before.folders.contains(place)));
    assert_sound(&replica.database);
}
