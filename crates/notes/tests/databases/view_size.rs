//! The size of view indexes: what is counted, the limits of a document and of personal views, and the quota.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::NoteId;
use notes::fixup::{FixupFinding, check, repair};
use notes::limits::{NOTE_ROWS_PER_VIEW_MAX, PERSONAL_COLLATIONS_MAX, VIEW_COLLATIONS_MAX};
use notes::view::build::BuildOptions;
use notes::view::note::{ViewKind, ViewNote};
use notes::view::view_format::{ClickSorts, Column, ViewDesign};
use notes::{
    Access, Acl, AclEntry, AclFlags, AclLevel, Database, DatabaseOptions, Error, Item, ItemValue, NewNote, NoteClass,
    ServerSettings, level,
};
use store::{Batch, Table, TableReader};

use crate::fixture::{TestServer, assert_sound, column, identity, reader, scanned_index_bytes, server, sorted};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const CAROL: &str = "Carol/Acme";

/// Number of values of the list in each document.
const VALUES: usize = 1_500;

/// The limit of the tests for personal indexes: a few of the documents with lists.
const PERSONAL_BYTES_MAX: u64 = 600_000;

/// Creates a database that Ann owns. Bob and Carol are readers who may have views of their own.
fn world() -> (TestServer, Arc<Database>) {
    let world =
        TestServer::with(ServerSettings { personal_index_bytes_max: PERSONAL_BYTES_MAX, ..ServerSettings::default() });
    let database = world.database(&[]);
    let mut acl = Acl::private(&base::Name::new(ANN));
    for name in [BOB, CAROL] {
        acl.entries.push(AclEntry { flags: AclFlags::CREATE_PERSONAL_FOLDER, ..AclEntry::new(name, AclLevel::Reader) });
    }
    world.write(&database, ANN, |writer| writer.acl_set(acl)).expect("Ann manages it");
    (world, database)
}

fn add_documents(world: &TestServer, database: &Arc<Database>, count: usize) {
    let kinds = (0..VALUES).map(|number| format!("kind {number:04}")).collect();
    let items = vec![Item::text("Subject", "list"), Item::summary("Kinds", ItemValue::TextList(kinds))];
    for _ in 0..count {
        let new = NewNote::document(items.clone());
        world.write(database, ANN, |writer| writer.note_create(new)).expect("created");
    }
}

/// Returns a view in which each value of the list is an entry, with a number of sort orders.
fn by_kind(title: &str, orders: usize) -> ViewNote {
    let clicks = ClickSorts { ascending: true, descending: false };
    let kinds = Column { multi_value: true, ..sorted("Kinds") };
    let clicked = (1..orders).map(|number| Column { clicks, ..column(&format!("Text{number}")) });
    let design = ViewDesign { columns: std::iter::once(kinds).chain(clicked).collect(), ..ViewDesign::default() };
    assert_eq!(design.collations().len(), orders);
    ViewNote { title: title.into(), selection: "SELECT @All".into(), design, ..ViewNote::default() }
}

/// Returns the same view as a personal one.
fn personal(title: &str, orders: usize) -> ViewNote {
    ViewNote { kind: ViewKind { private: true, ..ViewKind::default() }, ..by_kind(title, orders) }
}

fn create(world: &TestServer, database: &Arc<Database>, who: &str, view: &ViewNote) -> NoteId {
    world.write(database, who, |writer| writer.view_create(view)).expect("the user may create the view")
}

/// Brings a view up to date, one document a batch.
fn follow(database: &Arc<Database>, who: &str, view: NoteId) -> notes::Result<()> {
    let access = reader(database, who)?;
    while !access.view_refresh(view, 1)?.complete {}
    Ok(())
}

/// Returns the counted sizes of indexes: those that count towards the quota, and those of personal views.
fn counted(database: &Arc<Database>) -> (u64, u64) {
    let access = reader(database, ANN).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let counters = reading.counters();
    assert_eq!(counters.bytes_used(), counters.bytes + counters.index_bytes);
    (counters.index_bytes, counters.personal_index_bytes)
}

/// Returns the size of the index of a view by a scan, and asserts that the stored size is the same.
fn scanned(world: &TestServer, database: &Arc<Database>, view: NoteId) -> u64 {
    let access: Access<level::Reader> = database.authorize(&server()).expect("the server has access");
    let reading = access.read().expect("a snapshot");
    let view = reading.view(view).expect("the view has an index");
    let bytes = scanned_index_bytes(world, database, &view.index);
    let rows = reading.view_rows(&view, 0).expect("rows");
    assert_eq!(rows.index_bytes().expect("sound"), bytes);
    bytes
}

fn rebuild(database: &Arc<Database>, view: NoteId) -> notes::Result<()> {
    let access: Access<level::Designer> = database.authorize(&server())?;
    let folder = tempfile::tempdir().expect("a folder");
    let options = BuildOptions { folder: folder.path().to_owned(), memory: 1 << 20 };
    access.view_rebuild(view, &options, &mut |_, _| ControlFlow::Continue(())).map(|built| assert!(built.is_some()))
}

fn assert_limit(outcome: notes::Result<()>, text: &str) {
    match outcome {
        Err(error @ Error::Limit { .. }) => assert!(error.to_string().contains(text), "{error}"),
        other => panic!("{other:?} instead of a limit"),
    }
}

#[test]
fn rows_of_a_document_are_limited_over_all_orders() {
    for orders in [1, PERSONAL_COLLATIONS_MAX, VIEW_COLLATIONS_MAX] {
        let (world, database) = world();
        let view = create(&world, &database, ANN, &by_kind("Kinds", orders));
        add_documents(&world, &database, 2);
        for step in ["followed", "built"] {
            follow(&database, BOB, view).expect("the view is small");
            let bytes = scanned(&world, &database, view);
            assert!(bytes < 2 * 200_000, "{bytes} bytes with {orders} orders, {step}");
            let access = reader(&database, BOB).expect("a reader");
            let reading = access.read().expect("a snapshot");
            let opened = reading.view(view).expect("a view");
            for order in 0..orders {
                let rows = reading.view_rows(&opened, order).expect("rows");
                let expected = (2 * (NOTE_ROWS_PER_VIEW_MAX / orders)) as u64;
                assert_eq!((rows.count().expect("sound"), rows.limited_documents().expect("sound")), (expected, 2));
            }
            assert_eq!(counted(&database), (bytes, 0));
            assert_sound(&database);
            rebuild(&database, view).expect("built");
        }
    }
}

#[test]
fn personal_indexes_of_a_user_are_limited_together() {
    let (world, database) = world();
    let view = create(&world, &database, BOB, &personal("Kinds", PERSONAL_COLLATIONS_MAX));
    add_documents(&world, &database, 12);
    assert_limit(follow(&database, BOB, view), "personal views");
    let bytes = scanned(&world, &database, view);
    assert!(bytes > PERSONAL_BYTES_MAX / 2 && bytes <= PERSONAL_BYTES_MAX, "{bytes} bytes");
    assert_eq!(counted(&database), (0, bytes), "they do not count towards the quota");
    assert_limit(rebuild(&database, view), "views.personal_index");
    assert_eq!((scanned(&world, &database, view), counted(&database)), (bytes, (0, bytes)), "the old index stays");

    let second = create(&world, &database, BOB, &personal("Second", 1));
    assert_limit(follow(&database, BOB, second), "personal views");
    assert!(counted(&database).1 <= PERSONAL_BYTES_MAX);
    let other = create(&world, &database, CAROL, &personal("Kinds", 1));
    assert_limit(follow(&database, CAROL, other), "personal views");
    assert!(counted(&database).1 > PERSONAL_BYTES_MAX, "each user has a limit of their own");
    assert_sound(&database);

    // A smaller design begins with a new index, and a deleted view makes space for the others.
    world.write(&database, CAROL, |writer| writer.view_delete(other)).expect("it is her view");
    let flat = Column { multi_value: false, ..sorted("Kinds") };
    let design = ViewDesign { columns: vec![flat], ..ViewDesign::default() };
    let smaller = ViewNote { design, ..personal("Kinds", 1) };
    world.write(&database, BOB, |writer| writer.view_update(view, 1, &smaller)).expect("it is his view");
    follow(&database, BOB, view).expect("one row a document");
    assert_eq!(counted(&database).1, scanned(&world, &database, view) + scanned(&world, &database, second));
    world.write(&database, BOB, |writer| writer.view_delete(view)).expect("it is his view");
    world.write(&database, BOB, |writer| writer.view_delete(second)).expect("it is his view");
    assert_eq!(counted(&database), (0, 0));
    assert_sound(&database);
}

#[test]
fn quota_counts_indexes_and_stops_those_of_the_owner() {
    let (world, database) = world();
    add_documents(&world, &database, 6);
    let shared = create(&world, &database, ANN, &by_kind("Shared", 1));
    let own = create(&world, &database, ANN, &personal("Own", 1));
    let manager: Access<level::Manager> = database.authorize(&identity(ANN)).expect("Ann is the manager");
    let used = || reader(&database, ANN).and_then(|access| Ok(access.read()?.counters().bytes_used())).expect("sound");
    let quota = used() + 1;
    let options = DatabaseOptions { quota_bytes: Some(quota), ..DatabaseOptions::default() };
    world.databases.database_options_set(&manager, "Documents", options).expect("changed");
    assert_limit(follow(&database, ANN, own), "quota");
    assert_eq!(counted(&database), (0, 0));
    follow(&database, BOB, shared).expect("a shared view is updated beyond the quota");
    rebuild(&database, shared).expect("it is also rebuilt");
    let bytes = scanned(&world, &database, shared);
    assert_eq!((counted(&database), used() > quota), ((bytes, 0), true));
    let writer_used = world.write(&database, ANN, |writer| Ok(writer.bytes_used())).expect("sound");
    assert_eq!(writer_used, used());

    let options = DatabaseOptions { quota_bytes: Some(4 * bytes), ..DatabaseOptions::default() };
    world.databases.database_options_set(&manager, "Documents", options).expect("changed");
    follow(&database, ANN, own).expect("the quota has space");
    assert_eq!(counted(&database), (bytes + scanned(&world, &database, own), 0));
    assert_sound(&database);
}

#[test]
fn personal_view_of_an_older_program_has_too_many_orders() {
    let (world, database) = world();
    let wide = ViewNote { readers: vec![BOB.into()], ..personal("Wide", PERSONAL_COLLATIONS_MAX + 1) };
    let created = world.write(&database, BOB, |writer| writer.view_create(&wide).map(drop));
    assert_limit(created, "sort orders of a personal view");
    let view = create(&world, &database, BOB, &personal("Wide", PERSONAL_COLLATIONS_MAX));
    let changed = world.write(&database, BOB, |writer| writer.view_update(view, 1, &wide).map(drop));
    assert_limit(changed, "sort orders of a personal view");
    // The items of a design note are not checked.
    let items = wide.items();
    world
        .write(&database, ANN, |writer| writer.note_create(NewNote::of_class(NoteClass::VIEW, items)))
        .expect("Ann may");
    let access = reader(&database, BOB).expect("a reader");
    let views = access.read().and_then(|reading| reading.views()).expect("a list");
    let stored = views.iter().find(|info| info.note != view).expect("Bob is its owner").note;
    assert_limit(follow(&database, BOB, stored), "sort orders of a personal view");
    world.write(&database, BOB, |writer| writer.view_update(stored, 1, &personal("Narrow", 1))).expect("Bob may");
    follow(&database, BOB, stored).expect("the new design has few orders");
}

/// Changes a record of a table directly in the store.
fn damage(world: &TestServer, table: Table, key: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
    let store = world.databases.store();
    let mut value = store.get(table, key).expect("sound").expect("the record exists");
    change(&mut value);
    let mut batch = Batch::new();
    batch.put(table, key, &value);
    store.commit(&batch).expect("committed");
}

#[test]
fn wrong_sizes_are_found_and_corrected() {
    let (world, database) = world();
    add_documents(&world, &database, 2);
    let shared = create(&world, &database, ANN, &by_kind("Shared", 1));
    let own = create(&world, &database, BOB, &personal("Own", 1));
    for (who, view) in [(ANN, shared), (BOB, own)] {
        follow(&database, who, view).expect("the limits have space");
    }
    let counters = [&database.number().to_key()[..], b"c"].concat();
    damage(&world, Table::Meta, &counters, |value| {
        let mut counters = notes::counters::Counters::decode(value).expect("sound");
        counters.index_bytes += 5;
        counters.personal_index_bytes -= 5;
        *value = counters.encode();
    });
    let findings = check(&database).expect("a check runs").findings;
    let is_size =
        |finding: &FixupFinding| matches!(finding, FixupFinding::Counters { what, .. } if what.contains("index"));
    assert!(findings.len() == 2 && findings.iter().all(is_size), "{findings:?}");
    assert!(repair(&database).expect("a repair runs").repaired);
    assert_eq!(counted(&database), (0, 0), "a repair removes all indexes");
    assert_sound(&database);
    follow(&database, ANN, shared).expect("a new index");
    let bytes = scanned(&world, &database, shared);
    assert_eq!(counted(&database), (bytes, 0));

    // The size in the record of a note follows the version and the flags.
    let access = reader(&database, ANN).expect("a reader");
    let index = access.read().and_then(|reading| reading.view(shared)).expect("a view").index.id();
    let document = NoteId(shared.0 - 1);
    let record = [&database.number().to_key()[..], &index.0.to_be_bytes(), &document.to_key()].concat();
    damage(&world, Table::ViewBack, &record, |value| value[2] ^= 1);
    let findings = check(&database).expect("a check runs").findings;
    assert!(
        matches!(&findings[..], [FixupFinding::ViewIndex { reason, .. }] if reason.contains("size")),
        "{findings:?}"
    );
    assert!(repair(&database).expect("a repair runs").repaired);
    assert_sound(&database);
}
