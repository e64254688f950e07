//! Trees of revisions that clients push to two servers, which replicate with each other: both have the leaves and the
//! winner that CouchDB's rules give for the same pushes.

mod access_matrix;
mod http;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::{Name, NoteId, Random, Unid};
use couchdb::changes::{ChangesOptions, read_step};
use couchdb::compression::AttachmentDecompressor;
use couchdb::leaves::Leaves;
use couchdb::read::{DocumentOptions, WantedRevision, document_json, leaves_of, open_revisions};
use couchdb::sequence::Since;
use couchdb::write::{Revisions, SentDocument, Target};
use notes::change_log::ChangeCursor;
use notes::replica::ReplicaNote;
use notes::{
    Access, Acl, AclEntry, AclKind, AclLevel, Database, DatabaseKind, DatabaseOptions, Databases, Identity,
    NewDatabase, NoteHeader, ServerSettings, fixup, level, purge,
};
use replica::{Pull, answer};
use serde_json::{Value, json};
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};

const PATH: &str = "talk.nsf";
const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const ID: &str = "doc";

struct Server {
    name: String,
    clock: Arc<SimClock>,
    databases: Arc<Databases>,
    database: Arc<Database>,
}

impl Server {
    fn new(number: u64) -> Self {
        let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
        let engine: Arc<dyn store::Engine> = Arc::new(MemoryEngine::new(11));
        let store = Arc::new(Store::with_engine(engine, &options).expect("a store in memory opens"));
        let random = Arc::new(SeededRandom::new(number));
        let clock = Arc::new(SimClock::new());
        // No two servers do anything at the same time.
        clock.advance(Duration::from_micros(number));
        let databases = Databases::open_with(store, clock.clone(), random, ServerSettings::default());
        let mut acl = Acl::private(&Name::new(ANN));
        acl.entries.push(AclEntry::new(BOB, AclLevel::Editor));
        acl.entries.push(AclEntry { kind: AclKind::Server, ..AclEntry::new("*/Acme", AclLevel::Manager) });
        let options = DatabaseOptions { is_open_to_couchdb: true, ..DatabaseOptions::default() };
        let new = NewDatabase {
            owner: Name::new(ANN),
            options,
            ..NewDatabase::new(PATH, "Talk", DatabaseKind::Standard, acl)
        };
        let database = databases.database_create(&new).expect("the database is created");
        Self { name: format!("CN=server{number}/O=Acme"), clock, databases, database }
    }

    fn reader(&self) -> Access<level::Reader> {
        self.reader_as(ANN)
    }

    fn reader_as(&self, person: &str) -> Access<level::Reader> {
        self.database.authorize(&Arc::new(Identity::person(person))).expect("the person may read")
    }

    /// Sends a document as Ann.
    fn put(&self, document: &Value, revisions: Revisions) -> Result<String, &'static str> {
        self.put_as(ANN, document, revisions)
    }

    /// Sends a document. Returns the revision that it has then, or the word of the error.
    fn put_as(&self, person: &str, document: &Value, revisions: Revisions) -> Result<String, &'static str> {
        let mut outcomes = self.put_all_as(person, std::slice::from_ref(document), revisions);
        outcomes.pop().expect("one outcome for one document")
    }

    /// Sends documents in one request. Returns the outcome of each.
    fn put_all_as(&self, person: &str, documents: &[Value], revisions: Revisions) -> Vec<Result<String, &'static str>> {
        let reader = self.reader_as(person);
        let target = Target { databases: &self.databases, reader: &reader };
        let mut hold = |_| Ok(());
        let mut decompressor = AttachmentDecompressor::new(&mut hold);
        let mut parse = |document: &Value| {
            SentDocument::parse(&document.to_string(), None, || "generated".to_owned(), &mut decompressor)
        };
        let sent: Result<Vec<_>, _> = documents.iter().map(&mut parse).collect();
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => return vec![Err(error.kind().1)],
        };
        let (outcomes, _) = target.put(sent, revisions);
        let text = |outcome: couchdb::error::Result<couchdb::write::SavedDocument>| {
            outcome.map(|saved| saved.revision.to_string()).map_err(|error| error.kind().1)
        };
        outcomes.into_iter().map(text).collect()
    }

    /// Returns the document of a leaf, the winner without a revision.
    fn get(&self, id: &str, revision: Option<&str>) -> Option<Value> {
        let reader = self.reader();
        let reading = reader.read().expect("a snapshot");
        let leaves = leaves_of(&reading, id).expect("a sound store")?;
        let leaf = match revision {
            Some(revision) => leaves.leaf(revision.parse().expect("a revision"))?,
            None => leaves.winner(),
        };
        let options = DocumentOptions { revisions: true, conflicts: true, ..DocumentOptions::default() };
        let text = document_json(&reading, (id, &leaves), leaf, options).expect("a document");
        Some(serde_json::from_str(&text).expect("JSON"))
    }

    /// Returns the leaves that are no deletions, and the winner.
    fn leaves(&self) -> (BTreeSet<String>, Option<String>) {
        let reader = self.reader();
        let reading = reader.read().expect("a snapshot");
        let leaves: Option<Leaves> = leaves_of(&reading, ID).expect("a sound store");
        let Some(leaves) = leaves else { return (BTreeSet::new(), None) };
        let live = leaves.list.iter().filter(|leaf| !leaf.is_deletion());
        let winner = leaves.winner();
        let winner = (!winner.is_deletion()).then(|| winner.revision().to_string());
        (live.map(|leaf| leaf.revision().to_string()).collect(), winner)
    }

    /// Takes over the changes of another server.
    fn pull(&self, source: &Self) {
        let itself = Arc::new(Identity::local_server(self.name.as_str()));
        let of = |name: &str| Arc::new(Identity { server: true, ..Identity::person(name) });
        let target = replica::Target::new(&self.databases, &self.database, &itself, &of(&source.name));
        let mut pull = Pull::begin(target.expect("the source may write")).expect("a sound store");
        let reader: Access<level::Reader> = source.database.authorize(&of(&self.name)).expect("servers may read");
        while let Some((number, question)) = pull.question() {
            let reply = answer(&reader.read().expect("a snapshot"), &question).expect("a sound store");
            pull.take(number, reply).expect("a sound store");
        }
    }

    /// Returns everything of all documents and deletions that other replicas get.
    fn documents(&self) -> BTreeMap<Unid, ReplicaNote> {
        let reader: Access<level::Reader> =
            self.database.authorize(&Arc::new(Identity::local_server(self.name.as_str()))).expect("the server may");
        let reading = reader.read().expect("a snapshot");
        let mut notes = Vec::new();
        let mut collect = |header: NoteHeader| {
            notes.extend(header.class.is_document().then_some(header.note));
            Ok(true)
        };
        let mut next = Some(NoteId::default());
        while let Some(from) = next {
            next = reading.for_each_note_bounded(from, 100, &mut collect).expect("a sound store");
        }
        let read = |note| reading.replica_note(note).expect("a sound store").expect("it exists");
        notes.into_iter().map(read).map(|note| (note.unid, note)).collect()
    }

    /// Returns the rows of all changes, with the leaves of each.
    fn changes(&self) -> Vec<Value> {
        let reader = self.reader();
        let reading = reader.read().expect("a snapshot");
        let options = ChangesOptions { all_leaves: true, ..ChangesOptions::default() };
        let mut rows = Vec::new();
        let mut cursor = ChangeCursor::default();
        loop {
            let step = read_step(&reading, cursor, 2, &options).expect("a sound store");
            assert!(step.rows.len() <= 2, "a step keeps its limit");
            rows.extend(step.rows.iter().map(|row| serde_json::from_str(row).expect("JSON")));
            let again = Since::parse(&step.sequence.to_string()).expect("a sequence").cursor(&reading);
            assert_eq!(again.expect("a sound store"), step.next, "a sequence is the place behind the rows");
            cursor = step.next;
            if step.is_last {
                return rows;
            }
        }
    }
}

/// A tree of revisions as CouchDB keeps it: revisions with their parents.
#[derive(Default)]
struct Tree {
    parents: BTreeMap<String, Option<String>>,
    deletions: BTreeSet<String>,
}

impl Tree {
    fn path(&self, revision: &str) -> Vec<String> {
        let mut path = vec![revision.to_owned()];
        while let Some(Some(parent)) = self.parents.get(path.last().expect("a path has a revision")) {
            path.push(parent.clone());
        }
        path
    }

    /// Returns the leaves that are no deletions, and the winner: the greatest of them.
    fn leaves(&self) -> (BTreeSet<String>, Option<String>) {
        let has_child = |revision: &String| self.parents.values().flatten().any(|parent| parent == revision);
        let leaves = self.parents.keys().filter(|revision| !has_child(revision) && !self.deletions.contains(*revision));
        let leaves: BTreeSet<String> = leaves.cloned().collect();
        let winner = leaves.iter().max_by_key(|text| text.parse::<revision::Revision>().expect("a revision"));
        let winner = winner.cloned();
        (leaves, winner)
    }
}

fn revision_id(sequence: usize, random: &SeededRandom) -> String {
    format!("{sequence}-{:016x}{:016x}", random.next_u64(), random.next_u64())
}

/// Plays a history: a client that has seen everything builds a tree, and each of its revisions reaches one of the
/// servers or both, in any order that keeps paths whole, while the servers replicate.
fn play(seed: u64) {
    let random = SeededRandom::new(seed);
    let servers = [Server::new(1), Server::new(2)];
    let mut tree = Tree::default();
    let mut waiting: Vec<(usize, String)> = Vec::new();
    for step in 0..24 {
        let live: Vec<String> = tree.leaves().0.into_iter().collect();
        let any: Vec<String> = tree.parents.keys().cloned().collect();
        // Mostly a leaf is extended, sometimes an older revision, which makes a branch.
        let parent = match random.below(10) {
            _ if any.is_empty() => None,
            0..=6 if !live.is_empty() => Some(live[random.below(live.len() as u64) as usize].clone()),
            _ => Some(any[random.below(any.len() as u64) as usize].clone()),
        };
        let sequence = parent.as_ref().map_or(0, |parent| tree.path(parent).len()) + 1;
        let revision = revision_id(sequence, &random);
        if parent.is_some() && random.below(4) == 0 {
            tree.deletions.insert(revision.clone());
        }
        tree.parents.insert(revision.clone(), parent);
        let receivers = if random.below(2) == 0 { vec![0, 1] } else { vec![random.below(2) as usize] };
        waiting.extend(receivers.into_iter().map(|server| (server, revision.clone())));
        while !waiting.is_empty() && (random.below(3) > 0 || step == 23) {
            let (server, revision) = waiting.swap_remove(random.below(waiting.len() as u64) as usize);
            push(&servers[server], &tree, (&revision, &random));
        }
        if random.below(4) == 0 {
            let target = random.below(2) as usize;
            servers[target].pull(&servers[1 - target]);
        }
    }
    // Every client has pushed what a server lacks, and the servers have replicated.
    for _ in 0..2 {
        for server in &servers {
            for revision in tree.parents.keys() {
                push(server, &tree, (revision, &random));
            }
        }
        servers[0].pull(&servers[1]);
        servers[1].pull(&servers[0]);
    }
    let expected = tree.leaves();
    for server in &servers {
        assert_eq!(server.leaves(), expected, "seed {seed}, {}", server.name);
        for leaf in &expected.0 {
            let document = server.get(ID, Some(leaf)).expect("a leaf has a document");
            assert_eq!(document["made"], json!(leaf), "seed {seed}: each leaf has its own contents");
        }
        let rows = server.changes();
        let last = rows.iter().rfind(|row| row["id"] == ID).expect("the document has changed");
        let shown: BTreeSet<&str> =
            last["changes"].as_array().expect("a list").iter().filter_map(|one| one["rev"].as_str()).collect();
        assert!(expected.0.iter().all(|leaf| shown.contains(leaf.as_str())), "seed {seed}: {last}");
        let report = fixup::check(&server.database).expect("a sound store");
        assert!(report.findings.is_empty(), "seed {seed}: {:?}", report.findings);
    }
    let [first, second] = servers.map(|server| server.documents());
    for (unid, note) in &first {
        assert_eq!(Some(note), second.get(unid), "seed {seed}: both servers have the same of {unid}");
    }
    assert_eq!(first.len(), second.len(), "seed {seed}");
}

/// Pushes a revision with its path, as a client does: whole, in one document. It is a client of Ann or of Bob, and some
/// time after the last one.
fn push(server: &Server, tree: &Tree, (revision, random): (&str, &SeededRandom)) {
    server.clock.advance(Duration::from_micros(4 * random.below(1_000)));
    let person = if random.below(2) == 0 { ANN } else { BOB };
    let path = tree.path(revision);
    let ids: Vec<&str> = path.iter().filter_map(|revision| revision.split_once('-').map(|(_, id)| id)).collect();
    let mut document = json!({
        "_id": ID, "_rev": revision, "_revisions": { "start": path.len(), "ids": ids }, "made": revision,
    });
    if tree.deletions.contains(revision) {
        document["_deleted"] = json!(true);
    }
    assert_eq!(server.put_as(person, &document, Revisions::OfClient).as_deref(), Ok(revision));
}

#[test]
fn trees_have_the_leaves_and_the_winner_of_couchdb() {
    let soak = std::env::var("DOUBLET_SOAK").is_ok();
    let first = std::env::var("DOUBLET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + if soak { 10_000 } else { 150 } {
        play(seed);
    }
}

/// Ann brings a revision and one in conflict with it to one server, after Bob has brought both to the other one.
#[test]
fn the_earliest_arrival_of_a_revision_counts_on_all_servers() {
    let servers = [Server::new(1), Server::new(2)];
    let [lesser, greater] = ["1", "2"].map(|digit| format!("1-{}", digit.repeat(32)));
    for (server, person) in [(&servers[1], BOB), (&servers[0], ANN)] {
        for revision in [&greater, &lesser] {
            let document = json!({ "_id": ID, "_rev": revision, "made": revision });
            assert_eq!(server.put_as(person, &document, Revisions::OfClient).as_ref(), Ok(revision));
        }
        servers[0].clock.advance(Duration::from_secs(60));
    }
    assert_ne!(servers[0].documents(), servers[1].documents());
    let arrivals = servers[1].documents();
    servers[0].pull(&servers[1]);
    servers[1].pull(&servers[0]);
    assert_eq!(servers[0].documents(), arrivals);
    assert_eq!(servers[1].documents(), arrivals);
    assert_eq!(arrivals.len(), 2, "the document and the losing version");
    for server in &servers {
        for revision in [&greater, &lesser] {
            let found = server.get(ID, Some(revision)).expect("it is a leaf");
            assert!(found["$UpdatedBy"].to_string().contains("Bob"), "{found}");
        }
    }
    let positions = servers.iter().map(|server| server.changes().len());
    assert_eq!(positions.collect::<Vec<_>>(), [2, 2], "the document is told for itself and for its losing version");
}

#[test]
fn revisions_of_the_server_follow_what_the_client_has_read() {
    let server = Server::new(1);
    let first = server.put(&json!({ "_id": ID, "n": 1 }), Revisions::OfServer).expect("it is new");
    assert!(first.starts_with("1-"), "{first}");
    assert_eq!(server.put(&json!({ "_id": ID, "n": 2 }), Revisions::OfServer), Err("conflict"));
    let next = json!({ "_id": ID, "_rev": first, "n": 2 });
    let second = server.put(&next, Revisions::OfServer).expect("it was read");
    assert_eq!(server.put(&next, Revisions::OfServer), Err("conflict"));
    let found = server.get(ID, None).expect("it exists");
    assert_eq!((&found["n"], &found["_rev"]), (&json!(2), &json!(second)));
    assert_eq!(found["_revisions"]["ids"].as_array().map(Vec::len), Some(2));
    let gone = json!({ "_id": ID, "_rev": second, "_deleted": true });
    let third = server.put(&gone, Revisions::OfServer).expect("it was read");
    assert_eq!(server.leaves(), (BTreeSet::new(), None));
    let again = server.put(&json!({ "_id": ID, "n": 4 }), Revisions::OfServer).expect("a deleted document is new");
    assert!(third.starts_with("3-") && again.starts_with("4-"), "{third} {again}");
}

#[test]
fn an_unknown_revision_is_missing_or_answered_by_the_leaves() {
    let server = Server::new(1);
    let first = server.put(&json!({ "_id": ID }), Revisions::OfServer).expect("it is new");
    let reader = server.reader();
    let reading = reader.read().expect("a snapshot");
    let ask = |id: &str, revision: &str, latest: bool| {
        let wanted = WantedRevision { id: id.to_owned(), revision: Some(revision.to_owned()) };
        open_revisions(&reading, &wanted, (latest, DocumentOptions::default())).expect("a sound store").join(" ")
    };
    let other = format!("5-{}", "a".repeat(32));
    assert!(ask(ID, &other, false).contains("\"not_found\""));
    assert!(ask(ID, &other, true).contains(&first));
    assert!(ask("absent", &other, true).contains("\"not_found\""));
    assert!(ask(ID, "nonsense", true).contains("\"not_found\""));
}

#[test]
fn documents_that_are_not_valid_are_refused_by_themselves() {
    let server = Server::new(1);
    let check = |document: Value, expected: &'static str| {
        assert_eq!(server.put(&document, Revisions::OfClient), Err(expected), "{document}");
    };
    let revision = format!("1-{}", "b".repeat(32));
    check(json!({ "_id": ID }), "bad_request");
    check(json!({ "_id": ID, "_rev": "1-x" }), "bad_request");
    check(json!({ "_id": "_x", "_rev": revision }), "bad_request");
    check(json!({ "_id": ID, "_rev": revision, "_other": 1 }), "bad_request");
    check(json!({ "_id": ID, "_rev": revision, "_revisions": { "start": 1, "ids": [] } }), "bad_request");
    check(json!({ "_id": ID, "_rev": revision, "_revisions": { "start": 1, "ids": ["a", "b"] } }), "bad_request");
    check(json!({ "_id": ID, "_rev": revision, "_attachments": { "a": {} } }), "bad_request");
    check(json!({ "_id": ID, "_rev": revision, "_attachments": { "a": { "data": "%" } } }), "bad_request");
    check(json!({ "_id": ID, "_rev": revision, "_attachments": { "a": { "stub": true } } }), "missing_stub");
    check(json!({ "_id": ID, "_rev": revision, "x".repeat(300): 1 }), "forbidden");
    assert_eq!(server.leaves(), (BTreeSet::new(), None), "nothing was stored");
}

/// Deletes a document and lets the server purge the deletion.
fn delete_and_purge(server: &Server, id: &str) {
    let read = server.get(id, None).expect("it exists")["_rev"].clone();
    server.put(&json!({ "_id": id, "_rev": read, "_deleted": true }), Revisions::OfServer).expect("it is taken");
    purge_all(server);
}

fn purge_all(server: &Server) {
    server.clock.advance(Duration::from_secs(100 * 86_400));
    while purge::purge(&server.database).expect("a sound store") > 0 {}
}

#[test]
fn a_client_that_brings_a_document_with_a_purged_deletion_gets_the_deletion() {
    let server = Server::new(1);
    let first = server.put(&json!({ "_id": ID, "text": "one" }), Revisions::OfServer).expect("it is taken");
    delete_and_purge(&server, ID);
    assert_eq!(server.changes().len(), 0, "new clients need not know it");
    let brought = json!({ "_id": ID, "_rev": first, "text": "one" });
    assert_eq!(server.put(&brought, Revisions::OfClient).as_ref(), Ok(&first));
    assert_eq!(
        (server.get(ID, None).expect("it exists")["_deleted"].clone(), server.changes().len()),
        (true.into(), 1)
    );
    // It has changed the document without knowledge of the deletion.
    let edited = format!("2-{}", "a".repeat(32));
    let first_id = first.strip_prefix("1-").expect("the first revision");
    let revisions = json!({ "start": 2, "ids": ["a".repeat(32), first_id] });
    let edit = json!({ "_id": ID, "_rev": edited, "_revisions": revisions, "text": "two" });
    server.put(&edit, Revisions::OfClient).expect("it is taken");
    assert_eq!(server.get(ID, None).expect("it exists")["text"], "two");
}

#[test]
fn an_id_can_be_used_again_after_its_deletion_was_purged_everywhere() {
    for (revisions, is_editor) in [
        (Revisions::OfServer, true),
        (Revisions::OfServer, false),
        (Revisions::OfClient, true),
        (Revisions::OfClient, false),
    ] {
        let first = Server::new(1);
        let second = Server::new(2);
        second.pull(&first);
        for text in ["one", "two"] {
            let read = first.get(ID, None).map(|document| document["_rev"].clone());
            let mut document = json!({ "_id": ID, "text": text });
            document.as_object_mut().expect("an object").extend(read.map(|read| ("_rev".to_owned(), read)));
            first.put(&document, Revisions::OfServer).expect("it is taken");
        }
        second.pull(&first);
        let old = second.get(ID, None).expect("it exists");
        delete_and_purge(&first, ID);
        second.pull(&first);
        purge_all(&second);
        let mut again = json!({ "_id": ID, "text": "three" });
        if revisions == Revisions::OfClient {
            again["_rev"] = format!("1-{}", "b".repeat(32)).into();
        }
        let person = if is_editor { ANN } else { BOB };
        first.put_as(person, &again, revisions).expect("it is taken");
        second.pull(&first);
        // A client that still has the old version brings it. It does not come back as a conflict.
        second.put(&old, Revisions::OfClient).expect("it is known");
        second.pull(&first);
        first.pull(&second);
        for server in [&first, &second] {
            let document = server.get(ID, None).expect("it exists");
            assert_eq!((&document["text"], document.get("_conflicts")), (&"three".into(), None), "{revisions:?}");
        }
    }
}

#[test]
fn a_request_with_several_documents_whose_deletions_were_purged_is_taken() {
    let server = Server::new(1);
    let ids = ["a", "b", "c", "d"];
    let revision = format!("1-{}", "a".repeat(32));
    let documents: Vec<Value> = ids.iter().map(|id| json!({ "_id": id, "_rev": revision, "text": "old" })).collect();
    let taken = server.put_all_as(ANN, &documents, Revisions::OfClient);
    assert!(taken.iter().all(Result::is_ok), "{taken:?}");
    for id in ids {
        let deletion = json!({ "_id": id, "_rev": revision, "_deleted": true });
        server.put(&deletion, Revisions::OfServer).expect("it is taken");
    }
    purge_all(&server);
    let refused = json!({ "_id": "b", "_rev": format!("9-{}", "f".repeat(32)), "$REF": "b" });
    let sent = [documents[0].clone(), refused, documents[2].clone(), documents[3].clone()];
    let outcomes = server.put_all_as(ANN, &sent, Revisions::OfClient);
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true, true], "{outcomes:?}");
    assert!(ids.iter().all(|id| server.get(id, None).is_none_or(|document| document["_deleted"] == true)));
    let again: Vec<Value> = ids.iter().map(|id| json!({ "_id": id, "text": "new" })).collect();
    let outcomes = server.put_all_as(ANN, &again, Revisions::OfServer);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}
