//! Copies of databases: what is in them, what becomes of attachments and mail folders, and crashes at every step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Name, NoteId, Unid, ViewId};
use notes::{
    Access, AclLevel, Database, DatabaseCopy, DatabaseKind, DatabaseOptions, Item, ItemValue, Marks, NewCopy,
    NewDatabase, NewNote, Note, level,
};
use store::{BlobId, Direction, KeyRange, Table, TableReader};

use crate::fixture::{TestServer, assert_sound, identity, reader, server};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const COPY: &str = "copy.nsf";

/// A database with a bit of everything.
struct Source {
    world: TestServer,
    database: Arc<Database>,
    folder: ViewId,
    blob: BlobId,
}

fn body(text: &str) -> Item {
    Item::body("Body", ItemValue::RichText(text.into()))
}

fn source() -> Source {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let created = world.write(&database, ANN, |writer| {
        let folder = writer.folder_create("Project", &[])?;
        writer.folder_create_personal("Mine", &[])?;
        writer.profile_set("Settings", Some(&Name::new(ANN)), &[Item::text("Text", "a")], &[])?;
        writer.profile_set("Settings", None, &[Item::text("Text", "s")], &[])?;
        let blob = writer.blob_put(&[7; 50_000])?;
        let first = NewNote {
            marks: Marks::SEEN.union(Marks::FLAGGED),
            keywords: vec!["Work".into()],
            folders: vec![folder],
            blobs: vec![blob],
            ..NewNote::document(vec![Item::text("Subject", "first"), body("the body")])
        };
        let first = writer.note_create(first)?;
        Ok((folder, blob, first))
    });
    let (folder, blob, first) = created.expect("Ann may");
    let parent = unid_of(&database, first);
    let more = |writer: &mut notes::Writer<'_, '_>| {
        let references = || ItemValue::NoteReferences(vec![parent, Unid([9; 16])]);
        let items = vec![
            Item::text("Subject", "response"),
            Item::summary("See", references()),
            Item::body("Links", references()),
        ];
        let response = NewNote { parent: Some(parent), folders: vec![folder], ..NewNote::document(items) };
        let response = writer.note_create(response)?;
        let stray = NewNote { parent: Some(Unid([8; 16])), ..NewNote::document(vec![Item::text("Subject", "stray")]) };
        writer.note_create(stray)?;
        let deleted = writer.note_create(NewNote { folders: vec![folder], ..NewNote::document(Vec::new()) })?;
        Ok((response, deleted))
    };
    let (response, deleted) = world.write(&database, ANN, more).expect("Ann may");
    world.write(&database, ANN, |writer| writer.note_delete(deleted)).expect("Ann may");
    world.write(&database, ANN, |writer| writer.folder_remove(first, folder)).expect("Ann may");
    world.write(&database, ANN, |writer| writer.folder_add(first, folder)).expect("Ann may");
    world.write(&database, BOB, |writer| writer.mark_read(&[response])).expect("Bob may");
    assert_sound(&database);
    Source { world, database, folder, blob }
}

fn unid_of(database: &Arc<Database>, note: NoteId) -> Unid {
    let access = reader(database, ANN).expect("Ann may read");
    access.read().expect("a snapshot").header(note).expect("sound").expect("the note exists").unid
}

fn manager(database: &Arc<Database>) -> Access<level::Manager> {
    database.authorize(&server()).expect("the server may")
}

fn copy(world: &TestServer, database: &Arc<Database>, new: &NewCopy) -> notes::Result<Arc<Database>> {
    let access = manager(database);
    let mut copy = DatabaseCopy::begin(&world.databases, &access, new)?;
    while !copy.step()?.is_complete {}
    copy.finish()
}

fn new_copy(database: &Database) -> NewCopy {
    NewCopy::new(COPY, &database.record())
}

/// Returns the documents of a database by subject, as the server sees them.
fn documents(database: &Arc<Database>) -> BTreeMap<String, Note> {
    let access: Access<level::Reader> = database.authorize(&server()).expect("the server may");
    let reading = access.read().expect("a snapshot");
    let mut found = BTreeMap::new();
    reading
        .for_each_note(NoteId(0), &mut |header| {
            if header.class.is_document() && !header.is_stub() {
                let note = reading.note(header.note)?.expect("it was listed");
                found.insert(note.text("Subject").unwrap_or_default().to_owned(), note);
            }
            Ok(true)
        })
        .expect("a sound database");
    found
}

/// Returns the number of records of a database in all tables.
fn record_count(world: &TestServer, number: base::DbNumber) -> usize {
    let range = KeyRange::prefix(&number.to_key());
    let of_table = |table: &Table| {
        let mut cursor = world.databases.store().scan(*table, &range, Direction::Forward).expect("a scan");
        let mut count = 0;
        while cursor.next().expect("sound").is_some() {
            count += 1;
        }
        count
    };
    Table::ALL[..10].iter().map(of_table).sum()
}

fn references(world: &TestServer) -> u64 {
    let store = world.databases.store();
    store.blobs().report(store.as_ref()).expect("a report").references
}

#[test]
fn a_copy_has_the_documents_under_other_unids() {
    let Source { world, database, folder, blob } = source();
    let made = copy(&world, &database, &new_copy(&database)).expect("a copy");
    assert_sound(&made);
    let old = documents(&database);
    let new = documents(&made);
    assert_eq!(new.keys().collect::<Vec<_>>(), ["first", "response", "stray"]);
    for (subject, note) in &new {
        let before = &old[subject];
        assert_ne!(note.header.unid, before.header.unid, "{subject}");
        let same = |header: &notes::NoteHeader| {
            (
                header.marks,
                header.keywords.clone(),
                header.folders.clone(),
                header.created,
                header.received,
                header.size,
            )
        };
        assert_eq!(same(&note.header), same(&before.header), "{subject}");
    }
    let first = new["first"].header.unid;
    let response = &new["response"];
    assert_eq!(response.header.parent, Some(first), "the response follows its parent");
    assert_eq!(new["stray"].header.parent, Some(Unid([8; 16])), "a parent elsewhere stays");
    for name in ["See", "Links"] {
        let value = &response.item(name).expect("it was copied").value;
        assert_eq!(*value, ItemValue::NoteReferences(vec![first, Unid([9; 16])]), "{name}");
    }
    assert_eq!(new["first"].item("Body"), old["first"].item("Body"));
    let access = reader(&made, ANN).expect("the list was copied");
    let reading = access.read().unwrap();
    assert_eq!(reading.children(first).unwrap(), [response.header.note]);
    assert_eq!(reading.blob(new["first"].header.note, &blob).unwrap(), [7; 50_000]);
    assert_eq!(reading.folder(folder).unwrap().totals().unwrap().count, 2);
    assert_eq!(
        (reading.counters().stubs, reading.counters().notes),
        (0, reader(&database, ANN).unwrap().read().unwrap().counters().notes)
    );
    assert_eq!(made.record().title, "Documents");
    assert_ne!(made.record().replica_id, database.record().replica_id);
    let bob = reader(&made, BOB).expect("the list was copied");
    let read = |subject: &str| bob.read().unwrap().is_read(new[subject].header.note).unwrap();
    assert_eq!((read("response"), read("first")), (true, false), "unread marks were copied");
    let origin = world.databases.copy_origin(COPY).unwrap().expect("it is a copy");
    assert_eq!(origin.source, database.number());
    assert_eq!(world.databases.copy_origin("docs.nsf").unwrap(), None);
}

#[test]
fn a_copy_works_like_any_database_after_a_restart() {
    let Source { world, database, folder, .. } = source();
    let made = copy(&world, &database, &new_copy(&database)).expect("a copy");
    let access = reader(&made, ANN).unwrap();
    let before = access.read().unwrap().folder(folder).unwrap().state();
    let world = world.restarted();
    let made = world.databases.database_open(COPY).expect("it is durable");
    let added = world.write(&made, ANN, |writer| {
        let note = writer.note_create(NewNote { folders: vec![folder], ..NewNote::document(vec![body("new")]) })?;
        writer.folder_create("More", &[])?;
        Ok(note)
    });
    let added = added.expect("Ann may");
    let access = reader(&made, ANN).unwrap();
    let header = access.read().unwrap().header(added).unwrap().expect("it exists");
    assert_eq!(header.uid_in(folder), Some(before.uid_next));
    assert!(world.write(&made, ANN, |writer| writer.note_delete(added)).expect("Ann may"));
    assert_sound(&made);
    assert_eq!(world.databases.remove_unfinished_copies().unwrap(), 0);
    assert_eq!(documents(&world.databases.database_open("docs.nsf").unwrap()).len(), 3, "the source is the same");
}

#[test]
fn folders_keep_their_uids_under_a_greater_uidvalidity() {
    let Source { world, database, folder, .. } = source();
    let made = copy(&world, &database, &new_copy(&database)).expect("a copy");
    let entries = |database: &Arc<Database>| {
        let access = reader(database, ANN).unwrap();
        let reading = access.read().unwrap();
        let folder = reading.folder(folder).unwrap();
        let mut found = Vec::new();
        folder
            .for_each_entry(base::Uid(1), &mut |entry| {
                found.push((entry.uid, entry.note, entry.marks));
                Ok(true)
            })
            .unwrap();
        (found, folder.state())
    };
    let (old, old_state) = entries(&database);
    let (new, new_state) = entries(&made);
    assert_eq!(new, old);
    assert_eq!((new_state.uid_next, new_state.highest_modseq), (old_state.uid_next, old_state.highest_modseq));
    assert!(new_state.uid_validity > old_state.uid_validity, "{new_state:?} {old_state:?}");
}

#[test]
fn attachments_live_as_long_as_one_database_uses_them() {
    let Source { world, database, blob, .. } = source();
    let store = Arc::clone(world.databases.store());
    let stored = || store.blobs().report(store.as_ref()).unwrap();
    let before = stored();
    let made = copy(&world, &database, &new_copy(&database)).expect("a copy");
    assert_eq!((stored().count, stored().references), (before.count, 2 * before.references));
    assert_eq!(stored().stored_bytes, before.stored_bytes, "the content is stored once");
    world.databases.database_delete(&manager(&database)).expect("it is deleted");
    world.clock.advance(Duration::from_secs(30 * 86_400));
    store.blobs().collect(&store, world.databases.clock().now(), 1_000).expect("a collection");
    let first = documents(&made)["first"].header.note;
    let access = reader(&made, ANN).unwrap();
    assert_eq!(access.read().unwrap().blob(first, &blob).unwrap(), [7; 50_000]);
    assert_eq!(stored().references, before.references);
    world.databases.database_delete(&manager(&made)).expect("it is deleted");
    world.clock.advance(Duration::from_secs(30 * 86_400));
    store.blobs().collect(&store, world.databases.clock().now(), 1_000).expect("a collection");
    assert_eq!((stored().count, stored().references), (0, 0));
}

#[test]
fn references_of_a_large_item_are_translated_in_all_its_pieces() {
    let Source { world, database, .. } = source();
    let parent = documents(&database)["first"].header.unid;
    let many =
        vec![Item::text("Subject", "many"), Item::body("Links", ItemValue::NoteReferences(vec![parent; 200_000]))];
    world.write(&database, ANN, |writer| writer.note_create(NewNote::document(many))).expect("Ann may");
    let made = documents(&copy(&world, &database, &new_copy(&database)).expect("a copy"));
    let links = &made["many"].item("Links").expect("it was copied").value;
    assert_eq!(*links, ItemValue::NoteReferences(vec![made["first"].header.unid; 200_000]));
}

#[test]
fn a_large_item_is_copied_in_several_steps() {
    let Source { world, database, .. } = source();
    let text: String = (0..2_000_000).map(|number| format!("{number} ")).collect();
    let large = vec![Item::text("Subject", "large"), body(&text)];
    world.write(&database, ANN, |writer| writer.note_create(NewNote::document(large))).expect("Ann may");
    let access = manager(&database);
    let mut running = DatabaseCopy::begin(&world.databases, &access, &new_copy(&database)).expect("the path is free");
    let mut progress = notes::CopyProgress::default();
    while !progress.is_complete {
        let next = running.step().expect("a step");
        assert!(next.bytes - progress.bytes < 3 << 20, "a step is short: {}", next.bytes - progress.bytes);
        progress = next;
    }
    let made = documents(&running.finish().expect("a copy"));
    assert_eq!(made["large"].item("Body").expect("it was copied").value, ItemValue::RichText(text));
}

#[test]
fn the_name_of_the_owner_is_replaced() {
    let Source { world, database, .. } = source();
    let acl = notes::Acl::private(&Name::new("Cid/Acme"));
    let new = NewCopy { owner: Name::new("Cid/Acme"), acl: Some(acl), ..new_copy(&database) };
    let made = copy(&world, &database, &new).expect("a copy");
    assert_sound(&made);
    assert!(reader(&made, ANN).is_err() && reader(&made, BOB).is_err());
    let cid = reader(&made, "Cid/Acme").expect("the owner manages it");
    let reading = cid.read().unwrap();
    let text = |user: Option<&str>| {
        let user = user.map(Name::new);
        let profile = reading.profile("Settings", user.as_ref()).unwrap()?;
        Some((profile.text("Text")?.to_owned(), profile.text("$ProfileUser").map(str::to_owned)))
    };
    assert_eq!(text(Some("Cid/Acme")), Some(("a".to_owned(), Some("CN=Cid/O=Acme".to_owned()))));
    assert_eq!(text(Some(ANN)), None);
    assert_eq!(text(None), Some(("s".to_owned(), None)));
    let folders = reading.folders().unwrap();
    let mine = folders.iter().find(|folder| folder.title == "Mine").expect("it is Cid's");
    assert_eq!(mine.owner(), Some(Name::new("Cid/Acme")));
    assert!(
        reading.is_read(documents(&made)["first"].header.note).unwrap(),
        "the owner's marks are those of the notes"
    );
    assert_eq!(*made.record().owner.canonical(), *"CN=Cid/O=Acme");
}

#[test]
fn a_profile_of_the_new_owner_stays() {
    let Source { world, database, .. } = source();
    let bob = Name::new(BOB);
    let items = [Item::text("Text", "b")];
    world.write(&database, BOB, |writer| writer.profile_set("Settings", Some(&bob), &items, &[])).expect("Bob may");
    let made = copy(&world, &database, &NewCopy { owner: bob.clone(), ..new_copy(&database) }).expect("a copy");
    assert_sound(&made);
    let access = reader(&made, BOB).unwrap();
    let reading = access.read().unwrap();
    let text =
        |user| reading.profile("Settings", Some(&user)).unwrap().and_then(|note| Some(note.text("Text")?.to_owned()));
    assert_eq!((text(bob), text(Name::new(ANN))), (Some("b".to_owned()), Some("a".to_owned())));
}

#[test]
fn documents_of_couchdb_clients_keep_their_unids() {
    let Source { world, database, .. } = source();
    let of_client = |writer: &mut notes::Writer<'_, '_>| {
        let items = vec![Item::text("Subject", "client"), Item::text("$CouchId", "an id")];
        let note = NewNote { unid: Some(Unid([3; 16])), ..NewNote::document(items) };
        writer.note_create(note)?;
        let items = vec![Item::text("Subject", "its response")];
        writer.note_create(NewNote { parent: Some(Unid([3; 16])), ..NewNote::document(items) })
    };
    world.write(&database, ANN, of_client).expect("Ann may");
    let made = copy(&world, &database, &new_copy(&database)).expect("a copy");
    let made = documents(&made);
    assert_eq!(made["client"].header.unid, Unid([3; 16]));
    assert_eq!(made["its response"].header.parent, Some(Unid([3; 16])));
}

#[test]
fn a_replica_has_everything_unchanged() {
    let Source { world, database, folder, .. } = source();
    let access = manager(&database);
    let options = DatabaseOptions { keep_deleted_hours: Some(2), ..DatabaseOptions::default() };
    world.databases.database_options_set(&access, "Title", options).expect("the server may");
    let stray = documents(&database)["stray"].header.note;
    world.write(&database, ANN, |writer| writer.note_delete(stray)).expect("Ann may");
    let new = NewCopy { is_replica: true, ..NewCopy::new(COPY, &database.record()) };
    let made = copy(&world, &database, &new).expect("a copy");
    assert_sound(&made);
    assert_eq!(documents(&made), documents(&database));
    let old = database.record();
    let new = made.record();
    assert_eq!(
        (&new.title, new.replica_id, new.options, new.setting_times),
        (&old.title, old.replica_id, old.options, old.setting_times)
    );
    let state = |database: &Arc<Database>| {
        let access = reader(database, ANN).unwrap();
        let reading = access.read().unwrap();
        (reading.folder(folder).unwrap().state(), *reading.counters())
    };
    assert_eq!(state(&made), state(&database));
    let again = copy(&world, &database, &NewCopy { is_replica: true, ..NewCopy::new(COPY, &old) });
    assert!(matches!(again, Err(notes::Error::Exists { .. })));
}

#[test]
fn an_empty_database_is_replaced_and_another_one_is_refused() {
    let Source { world, database, folder, .. } = source();
    let empty = NewDatabase::new(COPY, "Empty", DatabaseKind::Standard, notes::Acl::private(&Name::new(BOB)));
    let empty = world.databases.database_create(&empty).expect("the path is free");
    let far_ahead = (0..50).map(|number| format!("F{number}"));
    world
        .write(&empty, BOB, |writer| {
            far_ahead.map(|title| writer.folder_create(&title, &[])).collect::<Result<Vec<_>, _>>()
        })
        .expect("Bob may");
    let highest = reader(&empty, BOB).unwrap().read().unwrap().counters().uid_validity;
    let made = copy(&world, &database, &new_copy(&database)).expect("an empty database is replaced");
    assert_sound(&made);
    let state = reader(&made, ANN).unwrap().read().unwrap().folder(folder).unwrap().state();
    assert!(state.uid_validity > highest);
    assert!(world.write(&empty, BOB, |writer| writer.folder_create("G", &[])).is_err(), "the old one is gone");
    assert_eq!(record_count(&world, empty.number()), 0);
    assert!(Arc::ptr_eq(&world.databases.database_open(COPY).unwrap(), &made));
    let before = documents(&made);
    for (path, is_refused) in [(COPY, true), ("docs.nsf", true), ("names.nsf", true), ("other.nsf", false)] {
        let outcome = copy(&world, &database, &NewCopy { path: path.into(), ..new_copy(&database) });
        assert_eq!(outcome.is_err(), is_refused, "{path}");
    }
    assert_eq!(documents(&made), before);
}

#[test]
fn a_destination_that_changes_meanwhile_is_kept() {
    let Source { world, database, .. } = source();
    let before = references(&world);
    let access = manager(&database);
    let mut running = DatabaseCopy::begin(&world.databases, &access, &new_copy(&database)).expect("the path is free");
    while !running.step().expect("a step").is_complete {}
    let other = NewDatabase::new(COPY, "Other", DatabaseKind::Standard, notes::Acl::private(&Name::new(BOB)));
    let other = world.databases.database_create(&other).expect("the path is free");
    assert!(running.finish().is_err());
    assert!(Arc::ptr_eq(&world.databases.database_open(COPY).unwrap(), &other));
    assert_eq!(references(&world), before, "nothing of the copy is left");
}

#[test]
fn a_destination_whose_options_change_meanwhile_is_kept() {
    let Source { world, database, .. } = source();
    let empty = NewDatabase::new(COPY, "Other", DatabaseKind::Standard, notes::Acl::private(&Name::new(ANN)));
    let empty = world.databases.database_create(&empty).expect("the path is free");
    let access = manager(&database);
    let mut running = DatabaseCopy::begin(&world.databases, &access, &new_copy(&database)).expect("it is empty");
    while !running.step().expect("a step").is_complete {}
    let options = DatabaseOptions { quota_bytes: Some(1 << 20), ..empty.record().options };
    world.databases.database_options_set(&manager(&empty), "Other", options).expect("the server may");
    assert!(running.finish().is_err());
    let found = world.databases.database_open(COPY).expect("it is there");
    assert_eq!((found.number(), found.record().options), (empty.number(), options));
}

#[test]
fn a_copy_is_of_one_moment_and_only_for_the_server() {
    let Source { world, database, .. } = source();
    let access = manager(&database);
    let mut running = DatabaseCopy::begin(&world.databases, &access, &new_copy(&database)).expect("the path is free");
    let first = documents(&database)["first"].header.note;
    world.write(&database, ANN, |writer| writer.note_delete(first)).expect("Ann may");
    while !running.step().expect("a step").is_complete {}
    let made = running.finish().expect("a copy");
    assert_sound(&made);
    assert_eq!(documents(&made).len(), 3);
    let ann: Access<level::Manager> = database.authorize(&identity(ANN)).expect("she manages it");
    let refused = DatabaseCopy::begin(&world.databases, &ann, &NewCopy::new("a.nsf", &database.record()));
    assert!(matches!(refused.map(drop), Err(notes::Error::ServerOnly { .. })));
}

/// Ends the process after a number of steps of a copy, and returns `false` if the copy was complete before.
fn crash_after(steps: usize, is_replica: bool) -> bool {
    let Source { world, database, .. } = source();
    let before = references(&world);
    let access = manager(&database);
    let new = NewCopy { is_replica, ..new_copy(&database) };
    let mut running = DatabaseCopy::begin(&world.databases, &access, &new).expect("the path is free");
    let mut is_complete = false;
    for _ in 0..steps {
        is_complete = running.step().expect("a step").is_complete;
    }
    let again = world.restarted();
    assert!(!again.databases.database_exists(COPY).unwrap(), "no part of a copy is listed");
    assert_eq!(again.databases.database_list().unwrap().len(), 1);
    assert_eq!(again.databases.remove_unfinished_copies().unwrap(), 1);
    assert_eq!(record_count(&again, base::DbNumber(database.number().0 + 1)), 0);
    assert_eq!(references(&again), before);
    let database = again.databases.database_open("docs.nsf").unwrap();
    assert_sound(&database);
    let made = copy(&again, &database, &new).expect("it begins again");
    assert_eq!(made.number().0, database.number().0 + 2, "numbers are not given again");
    assert_sound(&made);
    !is_complete
}

#[test]
fn a_crash_leaves_a_whole_copy_or_none() {
    for is_replica in [false, true] {
        let steps = (0..).take_while(|steps| crash_after(*steps, is_replica)).count();
        assert!(steps > 5, "{steps}");
    }
}

#[test]
fn a_copy_that_is_given_up_leaves_nothing() {
    let Source { world, database, .. } = source();
    let before = references(&world);
    let access = manager(&database);
    let mut running = DatabaseCopy::begin(&world.databases, &access, &new_copy(&database)).expect("the path is free");
    while !running.step().expect("a step").is_complete {}
    drop(running);
    assert_eq!(references(&world), before);
    assert_eq!(record_count(&world, base::DbNumber(database.number().0 + 1)), 0);
    assert_eq!(world.databases.remove_unfinished_copies().unwrap(), 0);
    assert!(copy(&world, &database, &new_copy(&database)).is_ok());
}

#[test]
fn a_copy_of_many_documents_takes_many_steps() {
    let Source { world, database, folder, .. } = source();
    for _ in 0..20 {
        let each = |writer: &mut notes::Writer<'_, '_>| {
            let one = |number: u32| {
                let items = vec![Item::text("Subject", format!("{number}")), body(&"x".repeat(2_000))];
                writer.note_create(NewNote { folders: vec![folder], ..NewNote::document(items) })
            };
            (0..300).map(one).collect::<notes::Result<Vec<_>>>()
        };
        world.write(&database, ANN, each).expect("Ann may");
    }
    let access = manager(&database);
    let mut running = DatabaseCopy::begin(&world.databases, &access, &new_copy(&database)).expect("the path is free");
    let mut steps = 0;
    let mut progress = notes::CopyProgress::default();
    while !progress.is_complete {
        let next = running.step().expect("a step");
        assert!(next.bytes - progress.bytes < 2 << 20, "a step is short");
        (progress, steps) = (next, steps + 1);
    }
    assert!(steps > 20, "{steps}");
    assert_eq!(progress.documents, 6_003);
    let made = running.finish().expect("a copy");
    assert_sound(&made);
    assert_eq!(reader(&made, ANN).unwrap().read().unwrap().folder(folder).unwrap().totals().unwrap().count, 6_002);
}
