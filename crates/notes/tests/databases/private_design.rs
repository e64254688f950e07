//! Private folders and views: their owner's rights at any level, and their invisibility to all others.

use std::sync::Arc;

use base::{NoteId, ViewId};
use notes::view::note::{ViewKind, ViewNote};
use notes::view::view_format::{Column, ViewDesign};
use notes::{Acl, AclEntry, AclFlags, AclLevel, Database, Error, Item, NewNote, NoteClass};

use crate::fixture::{TestServer, assert_sound, reader};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const CAROL: &str = "Carol/Acme";

/// Creates a database that Ann manages. Bob and Carol are readers who may have folders of their own.
fn world() -> (TestServer, Arc<Database>, NoteId) {
    let world = TestServer::new();
    let database = world.database(&[]);
    let mut acl = Acl::private(&base::Name::new(ANN));
    for name in [BOB, CAROL] {
        acl.entries.push(AclEntry { flags: AclFlags::CREATE_PERSONAL_FOLDER, ..AclEntry::new(name, AclLevel::Reader) });
    }
    world.write(&database, ANN, |writer| writer.acl_set(acl)).expect("Ann manages it");
    let new = NewNote::document(vec![Item::text("Form", "Memo"), Item::text("Subject", "plan")]);
    let note = world.write(&database, ANN, |writer| writer.note_create(new)).expect("created");
    (world, database, note)
}

fn folders(database: &Arc<Database>, who: &str) -> Vec<String> {
    let access = reader(database, who).expect("a reader");
    let folders = access.read().expect("a snapshot").folders().expect("a list");
    folders.iter().map(|folder| folder.title.clone()).collect()
}

fn view(title: &str, private: bool) -> ViewNote {
    let columns = vec![Column { title: "Subject".into(), item: "Subject".into(), ..Column::default() }];
    ViewNote {
        title: title.into(),
        kind: ViewKind { private, ..ViewKind::default() },
        selection: "SELECT @All".into(),
        design: ViewDesign { columns, ..ViewDesign::default() },
        ..ViewNote::default()
    }
}

fn is_denied<T: std::fmt::Debug>(outcome: notes::Result<T>) -> bool {
    matches!(outcome, Err(Error::AccessDenied { .. } | Error::NotAuthor { .. }))
}

fn is_unknown<T: std::fmt::Debug>(outcome: notes::Result<T>) -> bool {
    matches!(outcome, Err(Error::NotFound { .. }))
}

#[test]
fn personal_folder_is_invisible_to_others() {
    let (world, database, note) = world();
    let own = |who: &str| world.write(&database, who, |writer| writer.folder_create_personal("Mine", &[]));
    let folder = own(BOB).expect("Bob may");
    assert!(matches!(own(BOB), Err(Error::Exists { .. })), "Bob already has a folder of that name");
    own(CAROL).expect("other users may use the name");
    world.write(&database, ANN, |writer| writer.folder_create("Mine", &[])).expect("shared folders may use the name");
    assert_eq!(
        (folders(&database, BOB).len(), folders(&database, CAROL).len(), folders(&database, ANN).len()),
        (2, 2, 1)
    );

    world.write(&database, BOB, |writer| writer.folder_add(note, folder)).expect("Bob may file notes that he may read");
    for other in [ANN, CAROL] {
        assert!(world.write(&database, other, |writer| writer.folder_add(note, folder)).is_err());
        assert!(is_unknown(world.write(&database, other, |writer| writer.folder_read(folder).map(|_| ()))));
        assert!(world.write(&database, other, |writer| writer.folder_rename(folder, "Hers")).is_err());
        assert!(world.write(&database, other, |writer| writer.folder_delete(folder)).is_err());
    }
    world.write(&database, BOB, |writer| writer.folder_rename(folder, "His")).expect("Bob is the owner");
    assert!(folders(&database, BOB).contains(&"His".to_owned()));
    assert!(world.write(&database, BOB, |writer| writer.folder_remove(note, folder)).expect("Bob may"));
    world.write(&database, BOB, |writer| writer.folder_delete(folder)).expect("the folder is empty");
    assert_eq!(folders(&database, BOB), ["Mine"]);
    assert_sound(&database);
}

#[test]
fn personal_folder_grants_no_rights_to_shared_design() {
    let (world, database, note) = world();
    let shared = world.write(&database, ANN, |writer| writer.folder_create("Shared", &[])).expect("created");
    let folder = world.write(&database, BOB, |writer| writer.folder_create_personal("Mine", &[])).expect("Bob may");
    assert!(is_denied(world.write(&database, BOB, |writer| writer.folder_add(note, shared))));
    assert!(is_denied(world.write(&database, BOB, |writer| writer.folder_rename(shared, "His"))));
    // The owner can neither turn it into a shared folder nor give it to another user.
    assert!(is_denied(world.write(&database, BOB, |writer| writer.folder_item_set(folder, "$Flags", Some("F")))));
    assert!(is_denied(world.write(&database, BOB, |writer| writer.folder_readers_set(folder, &[]))));
    assert!(is_denied(world.write(&database, BOB, |writer| writer.folder_readers_set(folder, &[CAROL.to_owned()]))));
    world
        .write(&database, BOB, |writer| writer.folder_item_set(folder, "$Colour", Some("red")))
        .expect("Bob is the owner");
    // Items that claim an owner have no effect in a note of another class.
    let forged = vec![Item::text("$Flags", "V"), Item::readers("$Readers", vec![BOB.into()])];
    let new = NewNote::document(forged);
    let document = world.write(&database, ANN, |writer| writer.note_create(new)).expect("created");
    assert!(is_denied(world.write(&database, BOB, |writer| writer.note_update(document, 1, &[], &[]))));
    assert!(is_denied(world.write(&database, BOB, |writer| writer.note_delete(document))));
    assert!(is_denied(world.write(&database, BOB, |writer| writer.folder_add(note, ViewId(document.0)))));
    assert!(is_denied(world.write(&database, BOB, |writer| {
        let items = vec![Item::text("$TITLE", "x"), Item::text("$Flags", "FV")];
        writer.note_create(NewNote::of_class(NoteClass::VIEW, items))
    })));
}

#[test]
fn private_view_belongs_to_its_creator() {
    let (world, database, _) = world();
    let claimed = ViewNote { readers: vec![CAROL.into()], ..view("Mine", true) };
    let note = world.write(&database, BOB, |writer| writer.view_create(&claimed)).expect("Bob may");
    assert!(is_denied(world.write(&database, BOB, |writer| writer.view_create(&view("Shared", false)))));
    world
        .write(&database, CAROL, |writer| writer.view_create(&view("Mine", true)))
        .expect("other users may use the name");
    let seen = |who: &str| {
        let access = reader(&database, who).expect("a reader");
        let views = access.read().expect("a snapshot").views().expect("a list");
        views.iter().map(|view| (view.view.title.clone(), view.view.readers.clone())).collect::<Vec<_>>()
    };
    assert_eq!(seen(BOB), [("Mine".to_owned(), vec!["CN=Bob/O=Acme".to_owned()])]);
    assert_eq!((seen(CAROL).len(), seen(ANN).len()), (1, 0));

    let access = reader(&database, BOB).expect("a reader");
    assert!(access.view_refresh(note, 100).expect("an index").complete);
    let reading = access.read().expect("a snapshot");
    let opened = reading.view(note).expect("Bob owns the view");
    assert_eq!(reading.view_rows(&opened, 0).expect("rows").count().expect("sound"), 1);

    let renamed = world.write(&database, BOB, |writer| writer.view_update(note, 1, &view("His", true)));
    assert_eq!(renamed.expect("Bob is the owner"), 2);
    assert_eq!(seen(BOB)[0].1, ["CN=Bob/O=Acme"], "the owner stays the same");
    assert!(is_denied(world.write(&database, BOB, |writer| writer.view_update(note, 2, &view("His", false)))));
    assert!(world.write(&database, CAROL, |writer| writer.view_delete(note)).is_err());
    world.write(&database, BOB, |writer| writer.view_delete(note)).expect("Bob is the owner");
    assert!(seen(BOB).is_empty());
    let shared = world.write(&database, ANN, |writer| writer.view_create(&view("Shared", false))).expect("created");
    let claimed = world.write(&database, ANN, |writer| writer.view_update(shared, 1, &view("Shared", true)));
    assert!(matches!(claimed, Err(Error::Invalid { .. })), "{claimed:?}");
    assert_sound(&database);
}

#[test]
fn number_of_personal_folders_is_limited() {
    let (world, database, _) = world();
    let mut refused = None;
    for number in 0..=notes::limits::PERSONAL_VIEWS_MAX {
        let created = world.write(&database, BOB, |writer| writer.folder_create_personal(&number.to_string(), &[]));
        refused = created.err();
    }
    let refused = refused.expect("the last one is too many").to_string();
    assert!(refused.contains("personal folders"), "{refused}");
    world
        .write(&database, CAROL, |writer| writer.folder_create_personal("Mine", &[]))
        .expect("Carol has no folder yet");
}
