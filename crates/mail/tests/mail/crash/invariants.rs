//! Invariants that hold after any sequence of operations: no damage, no dangling references, no leftovers.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{NoteId, Uid};
use notes::{Access, DatabaseKind, Identity, fixup, level};

use super::state::{File, State};
use super::world::{GRACE, World};

/// Asserts that every database is sound, and that the queue's databases contain the queue and nothing else.
pub fn assert_databases_consistent(world: &World) {
    let mut documents = 0;
    for record in world.databases().database_list().expect("the catalog can be read") {
        let database = world.databases().database_open(&record.path).expect("a database in the catalog can be opened");
        let report = fixup::check(&database).expect("a check runs");
        assert_eq!(report.findings, [], "{} is sound", record.path);
        if record.kind == DatabaseKind::MailBox {
            documents += count_documents(world, &record.path);
        }
    }
    assert_eq!(documents, world.router.list().len() * 2, "a queued message has two notes, a finished one has none");
}

fn count_documents(world: &World, path: &str) -> usize {
    let database = world.databases().database_open(path).expect("it was just opened");
    let itself = Arc::new(Identity::local_server(""));
    let access: Access<level::Reader> = database.authorize(&itself).expect("the server may read");
    let reading = access.read().expect("a snapshot");
    let mut count = 0;
    reading
        .for_each_note(NoteId(0), &mut |header| {
            count += usize::from(header.class.is_document() && !header.is_stub());
            Ok(true)
        })
        .expect("headers can be read");
    count
}

/// Collects unused blobs, and asserts that a blob exists exactly if a note uses it.
pub fn assert_blobs(world: &World) {
    let store = world.store();
    let blobs = store.blobs();
    let collected = blobs.collect(store, world.now().after(GRACE), usize::MAX).expect("the collector runs");
    assert!(!collected.more);
    let report = blobs.report(store.as_ref()).expect("the reference table can be read");
    assert_eq!((report.missing_count, report.orphaned_count), (0, 0), "missing and left over: {report:?}");
    let mut uses = Vec::new();
    for record in world.databases().database_list().expect("the catalog can be read") {
        let database = world.databases().database_open(&record.path).expect("it can be opened");
        fixup::blob_uses(&database, &mut |owner, blob| uses.push((owner, blob))).expect("summaries can be read");
    }
    assert_eq!(report.references as usize, uses.len(), "references and uses");
    let mut uses = uses.into_iter().map(Ok);
    let rebuilt = blobs.rebuild(store, &mut uses, world.now()).expect("the reference table can be rebuilt");
    assert_eq!(rebuilt, store::blob::RebuildReport::default(), "the reference table was right");
    let damage = blobs.verify_all(store.as_ref(), &mut |_| ()).expect("content can be read");
    assert!(damage.is_empty(), "{damage:?}");
}

/// Asserts that a client that saw `old` learns all differences to `new` from the list of changes.
pub fn assert_changes(world: &World, old: &State, new: &State) {
    for (path, now) in &new.files {
        let Some(then) = old.files.get(path).filter(|then| then.number == now.number) else { continue };
        assert_file_changes(world, path, then, now);
    }
}

fn assert_file_changes(world: &World, path: &str, then: &File, now: &File) {
    let file = world.file(path);
    let snapshot = file.snapshot().expect("a snapshot");
    for (name, folder) in &now.folders {
        let Some(known) = then.by_id(folder.id) else { continue };
        let changes = snapshot.changes(folder.id, then.modseq).expect("the order of changes can be read");
        assert_eq!(changes.modseq, now.modseq);
        if !changes.complete {
            continue;
        }
        let found: BTreeMap<Uid, _> = changes.changed.iter().map(|entry| (entry.uid, entry.modseq)).collect();
        let fresh = folder.messages.iter().filter(|(_, message)| message.modseq > then.modseq);
        let expected: BTreeMap<Uid, _> = fresh.map(|(uid, message)| (*uid, message.modseq)).collect();
        assert_eq!(found, expected, "{path}/{name}: changed since {}", then.modseq);
        let gone = known.messages.keys().filter(|uid| !folder.messages.contains_key(uid));
        for uid in gone {
            assert!(changes.vanished.contains(uid.0), "{path}/{name}: {uid} is gone and was not reported");
        }
        for uid in changes.vanished.ranges().flatten().map(Uid) {
            let is_there = folder.messages.contains_key(&uid);
            assert!(!is_there && uid < folder.uid_next, "{path}/{name}: {uid} was reported as gone");
        }
    }
}
