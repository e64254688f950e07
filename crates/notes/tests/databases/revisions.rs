//! The revisions of notes: which ancestors a note has after saves, deletions and restores, and when its items changed.

use std::sync::Arc;
use std::time::Duration;

use base::{NoteId, Unid};
use notes::revision_record::RevisionRecord;
use notes::{Access, Database, DatabaseOptions, Item, ItemValue, Marks, NewNote, NoteHeader, level};
use revision::{ANCESTORS_MAX, Cut, Revision, RevisionId};

use crate::fixture::{TestServer, assert_sound, identity, reader};

const ANN: &str = "Ann/Acme";

/// Returns the header of a note and its revisions, as read after a restart.
fn stored(world: &TestServer, database: &Arc<Database>, note: NoteId) -> (NoteHeader, RevisionRecord) {
    assert_sound(database);
    let restarted = world.restarted();
    let again = restarted.databases.database_open("docs.nsf").expect("the database exists");
    let access = reader(&again, ANN).expect("Ann may");
    let reading = access.read().expect("a snapshot");
    let header = reading.header(note).expect("a sound store").expect("the note exists");
    (header, reading.revisions(note).expect("a sound store").expect("the note exists"))
}

fn save(world: &TestServer, database: &Arc<Database>, note: NoteId, items: &[Item]) -> Revision {
    let saved = world.write(database, ANN, |writer| {
        let sequence = writer.header(note)?.expect("the note exists").sequence;
        writer.note_update(note, sequence, items, &[])
    });
    saved.expect("Ann may");
    stored(world, database, note).0.revision()
}

fn body(text: &str) -> Item {
    Item::body("Body", ItemValue::RichText(text.to_owned()))
}

#[test]
fn saves_add_ancestors_and_name_the_items_that_changed() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let items = vec![Item::text("A", "1"), Item::text("B", "1"), body("long")];
    let create = |writer: &mut notes::Writer<'_, '_>| writer.note_create(NewNote::document(items.clone()));
    let note = world.write(&database, ANN, create).expect("Ann may");
    let (header, record) = stored(&world, &database, note);
    let first = header.revision();
    assert_eq!(first, Revision::first(header.created, header.unid));
    assert_eq!(record, RevisionRecord::default());
    let second = save(&world, &database, note, &[Item::text("A", "2"), Item::text("B", "1"), body("long")]);
    let third = save(&world, &database, note, &[Item::text("A", "2"), body("same length?")]);
    let fourth = save(&world, &database, note, &[Item::text("A", "2"), body("other length")]);
    let (header, record) = stored(&world, &database, note);
    assert_eq!(header.revision(), fourth);
    let ancestors: Vec<Revision> = record.ancestors.list().iter().map(|ancestor| ancestor.revision).collect();
    assert_eq!(ancestors, [third, second, first]);
    let changes: Vec<(&str, Revision)> = record.changes.iter().collect();
    assert_eq!(changes, [("a", second), ("b", third), ("body", fourth)]);
}

#[test]
fn ancestors_are_limited() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let create = |writer: &mut notes::Writer<'_, '_>| writer.note_create(NewNote::document(Vec::new()));
    let note = world.write(&database, ANN, create).expect("Ann may");
    let count = ANCESTORS_MAX + 5;
    for number in 0..count {
        let items = [Item::text("N", number.to_string())];
        world
            .write(&database, ANN, |writer| writer.note_update(note, number as u32 + 1, &items, &[]))
            .expect("Ann may");
    }
    let (header, record) = stored(&world, &database, note);
    assert_eq!(header.sequence as usize, count + 1);
    assert_eq!((record.ancestors.list().len(), record.ancestors.cut()), (ANCESTORS_MAX, Cut::MainPath));
}

#[test]
fn times_of_saves_rise_when_the_clock_steps_back() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let create = |writer: &mut notes::Writer<'_, '_>| writer.note_create(NewNote::document(Vec::new()));
    let note = world.write(&database, ANN, create).expect("Ann may");
    let before = stored(&world, &database, note).0;
    world.clock.step_back(Duration::from_secs(1));
    save(&world, &database, note, &[Item::text("A", "1")]);
    let after = stored(&world, &database, note).0;
    assert_eq!(after.sequence_time.0, before.sequence_time.0 + 1);
    assert!(after.revision_id.is_of_time(after.sequence_time) && after.revision() > before.revision());
}

#[test]
fn deletion_and_restore_are_revisions() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let access: Access<level::Manager> = database.authorize(&identity(ANN)).expect("Ann manages it");
    let options = DatabaseOptions { keep_deleted_hours: Some(2), ..DatabaseOptions::default() };
    world.databases.database_options_set(&access, "Documents", options).expect("Ann may");
    let create = |writer: &mut notes::Writer<'_, '_>| writer.note_create(NewNote::document(vec![Item::text("A", "1")]));
    let note = world.write(&database, ANN, create).expect("Ann may");
    let first = stored(&world, &database, note).0.revision();
    world.write(&database, ANN, |writer| writer.note_delete(note)).expect("Ann may");
    let (header, record) = stored(&world, &database, note);
    let deletion = header.revision();
    assert!(header.is_stub() && record.ancestors.contains(first));
    assert_eq!(record, RevisionRecord::derived(&header), "nothing is stored for a note that was created and deleted");
    world.write(&database, ANN, |writer| writer.note_restore(note)).expect("Ann may");
    let (header, record) = stored(&world, &database, note);
    assert!(!header.is_stub() && record.ancestors.contains(first) && record.ancestors.contains(deletion));
    assert_eq!(record.changes.iter().count(), 0, "the items are those of the first save");
}

#[test]
fn note_that_reuses_the_unid_of_a_stub_descends_from_it() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let unid = Unid([9; 16]);
    let create = |writer: &mut notes::Writer<'_, '_>| {
        writer.note_create(NewNote { unid: Some(unid), ..NewNote::document(Vec::new()) })
    };
    let note = world.write(&database, ANN, create).expect("Ann may");
    let first = stored(&world, &database, note).0;
    assert_ne!(first.revision_id, RevisionId::first(first.created, unid), "another server may create it, too");
    world.write(&database, ANN, |writer| writer.note_delete(note)).expect("Ann may");
    let stub = stored(&world, &database, note).0.revision();
    let again = world.write(&database, ANN, create).expect("the UNID is free");
    let (header, record) = stored(&world, &database, again);
    assert_eq!(header.sequence, 3);
    assert!(record.ancestors.contains(first.revision()) && record.ancestors.contains(stub));
}

#[test]
fn each_run_that_changes_a_database_begins_an_instance() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let position = |database: &Arc<Database>| {
        let access = reader(database, ANN).expect("Ann may");
        access.read().and_then(|reading| reading.position(reading.modseq())).expect("a sound store")
    };
    let create = |world: &TestServer, database: &Arc<Database>| {
        world.write(database, ANN, |writer| writer.note_create(NewNote::document(Vec::new()))).expect("Ann may")
    };
    create(&world, &database);
    let backup = world.restarted();
    let old = position(&database).expect("it was changed");
    create(&world, &database);
    create(&world, &database);
    let seen = position(&database).expect("it was changed");
    assert_eq!(seen.instance, old.instance);
    // A server that was restored from the backup gives out the same modseqs again.
    let restored = backup.databases.database_open("docs.nsf").expect("the database exists");
    assert_eq!(position(&restored), Some(old), "nothing has changed yet");
    for _ in 0..5 {
        create(&backup, &restored);
    }
    let access = reader(&restored, ANN).expect("Ann may");
    let reading = access.read().expect("a snapshot");
    assert_eq!(reading.last_common(seen).expect("a sound store"), Some(old.modseq));
    let now = position(&restored).expect("it was changed");
    assert!(now.instance != old.instance && now.modseq > seen.modseq);
    assert_eq!(reading.last_common(now).expect("a sound store"), Some(now.modseq));
}

#[test]
fn marks_are_no_revisions_and_have_times_of_their_own() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let create = |writer: &mut notes::Writer<'_, '_>| writer.note_create(NewNote::document(Vec::new()));
    let note = world.write(&database, ANN, create).expect("Ann may");
    let before = stored(&world, &database, note).0;
    assert!(before.change_times.is_empty());
    let mark = |marks| {
        world.write(&database, ANN, |writer| writer.marks_set(note, marks, &[])).expect("Ann may");
        stored(&world, &database, note).0
    };
    let marked = mark(Marks::SEEN);
    assert_eq!(marked.revision(), before.revision());
    assert_eq!(marked.change_times.list().len(), 1);
    let again = mark(Marks::NONE);
    assert!(again.change_times.list()[0].1 > marked.change_times.list()[0].1);
}
