//! Access rights: levels, flags, Readers and Authors items, and an ACL that changes while in use.

use notes::{Acl, AclEntry, AclFlags, AclLevel, Item, Marks, NewNote, NoteClass};

use crate::fixture::{TestServer, reader, subject};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

fn document(items: Vec<Item>) -> NewNote {
    NewNote::document(items)
}

/// Returns Bob's rights to a note of Ann's at a level: see, create, change, delete, mark, create a folder, set the ACL.
fn rights(level: AclLevel, items: Vec<Item>) -> [bool; 7] {
    let world = TestServer::new();
    let database = world.database(&[(BOB, level)]);
    let note = world.write(&database, ANN, |writer| writer.note_create(document(items.clone()))).unwrap();
    let sees = reader(&database, BOB).is_ok_and(|access| access.read().unwrap().note(note).unwrap().is_some());
    let creates = world.write(&database, BOB, |writer| writer.note_create(document(Vec::new()))).is_ok();
    let marks = world.write(&database, BOB, |writer| writer.marks_set(note, Marks::FLAGGED, &[])).is_ok();
    let changes = world.write(&database, BOB, |writer| writer.note_update(note, 1, &items, &[])).is_ok();
    let deletes = world.write(&database, BOB, |writer| writer.note_delete(note)).is_ok_and(|deleted| deleted);
    let designs = world.write(&database, BOB, |writer| writer.folder_create("F", &[])).is_ok();
    let manages = world.write(&database, BOB, |writer| writer.acl_set(Acl::default())).is_ok();
    [sees, creates, changes, deletes, marks, designs, manages]
}

#[test]
fn each_level_grants_its_operations() {
    use AclLevel::{Author, Depositor, Designer, Editor, Manager, NoAccess, Reader};
    let check = |level, expected: [bool; 7]| assert_eq!(rights(level, Vec::new()), expected, "{level}");
    check(NoAccess, [false; 7]);
    check(Depositor, [false, true, false, false, false, false, false]);
    check(Reader, [true, false, false, false, false, false, false]);
    check(Author, [true, true, false, false, true, false, false]);
    check(Editor, [true, true, true, true, true, false, false]);
    check(Designer, [true, true, true, true, true, true, false]);
    check(Manager, [true; 7]);
}

#[test]
fn authors_may_change_documents_that_name_them() {
    let named = vec![Item::authors("Authors", vec![BOB.into()])];
    assert_eq!(rights(AclLevel::Author, named.clone())[2..4], [true, true]);
    assert_eq!(rights(AclLevel::Reader, named)[2..4], [false, false], "the item does not raise a level");
    let wildcard = vec![Item::authors("Authors", vec!["*/Acme".into()])];
    assert_eq!(rights(AclLevel::Author, wildcard)[2..4], [true, true]);
}

#[test]
fn readers_items_hide_documents_even_from_managers() {
    for level in [AclLevel::Reader, AclLevel::Editor, AclLevel::Manager] {
        let hidden = rights(level, vec![Item::readers("Readers", vec!["Carol/Acme".into()])]);
        assert_eq!([hidden[0], hidden[2], hidden[3], hidden[4]], [false; 4], "{level}");
        let visible = rights(level, vec![Item::readers("Readers", vec!["bob/ACME".into()])]);
        assert!(visible[0], "{level}");
        let empty = rights(level, vec![Item::readers("Readers", vec![" ".into()])]);
        assert!(empty[0], "an item without names hides nothing");
    }
    let author = vec![Item::readers("Readers", vec!["Carol/Acme".into()]), Item::authors("Authors", vec![BOB.into()])];
    assert!(rights(AclLevel::Author, author)[0], "authors read what they may change");
}

#[test]
fn flags_forbid_and_permit_operations() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let set = |level, flags| {
        let mut acl = Acl::private(&base::Name::new(ANN));
        acl.entries.push(AclEntry { flags, ..AclEntry::new(BOB, level) });
        world.write(&database, ANN, |writer| writer.acl_set(acl)).unwrap();
    };
    set(AclLevel::Author, AclFlags::AUTHOR_NO_CREATE);
    assert!(world.write(&database, BOB, |writer| writer.note_create(document(Vec::new()))).is_err());
    set(AclLevel::Editor, AclFlags::NO_DELETE);
    let note = world.write(&database, BOB, |writer| writer.note_create(document(Vec::new()))).unwrap();
    assert!(world.write(&database, BOB, |writer| writer.note_delete(note)).is_err());
    set(AclLevel::Author, AclFlags::CREATE_FOLDER);
    assert!(world.write(&database, BOB, |writer| writer.folder_create("Bob's", &[])).is_err(), "an author may not");
    set(AclLevel::Editor, AclFlags::CREATE_FOLDER);
    assert!(world.write(&database, BOB, |writer| writer.folder_create("Bob's", &[])).is_ok());
    let form = NewNote::of_class(NoteClass::FORM, Vec::new());
    assert!(world.write(&database, BOB, |writer| writer.note_create(form)).is_err());
}

#[test]
fn design_requires_designer_and_acl_note_cannot_be_edited() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Editor)]);
    let created = world.write(&database, ANN, |writer| {
        let form = writer.note_create(NewNote::of_class(NoteClass::FORM, Vec::new()))?;
        Ok((form, writer.folder_create("F", &[])?))
    });
    let (form, folder) = created.unwrap();
    let list = notes::acl::ACL_NOTE_ID;
    for note in [form, base::NoteId(folder.0), list] {
        assert!(world.write(&database, BOB, |writer| writer.note_update(note, 1, &[], &[])).is_err(), "{note}");
        assert!(world.write(&database, BOB, |writer| writer.note_delete(note)).is_err(), "{note}");
    }
    assert!(world.write(&database, ANN, |writer| writer.note_update(list, 1, &[], &[])).is_err());
    assert!(world.write(&database, ANN, |writer| writer.note_delete(list)).is_err());
    let second = NewNote::of_class(NoteClass::ACL, Vec::new());
    assert!(world.write(&database, ANN, |writer| writer.note_create(second)).is_err());
    assert!(world.write(&database, ANN, |writer| writer.note_update(form, 1, &[], &[])).is_ok());
}

#[test]
fn acl_changes_are_recorded() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let set = |world: &TestServer, database: &std::sync::Arc<notes::Database>, change: &dyn Fn(&mut Acl)| {
        let mut acl = reader(database, ANN).unwrap().read().unwrap().acl().as_ref().clone();
        change(&mut acl);
        world.write(database, ANN, |writer| writer.acl_set(acl)).unwrap();
    };
    set(&world, &database, &|acl| acl.entries[2].level = AclLevel::Editor);
    world.clock.advance(std::time::Duration::from_secs(60));
    let before = database.modseq();
    set(&world, &database, &|_| {});
    assert_eq!(database.modseq(), before, "an unchanged ACL changes nothing");
    set(&world, &database, &|acl| acl.roles.extend(["[A]".to_owned()]));
    let again = world.restarted();
    let database = again.databases.database_open("docs.nsf").unwrap();
    let history_lines = |count| {
        let history = reader(&database, BOB).unwrap().read().unwrap().acl_history(count).unwrap();
        let line = |change: &notes::AclHistoryEntry| format!("{} {}", change.by, change.differences[0]);
        history.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(history_lines(9), ["Ann/Acme role [A] added", "Ann/Acme Bob/Acme: Editor instead of Reader"]);
    assert_eq!(history_lines(1), ["Ann/Acme role [A] added"]);
    for round in 0..notes::limits::ACL_HISTORY_MAX {
        set(&again, &database, &|acl| acl.enforce_consistent = round % 2 == 0);
    }
    assert_eq!(history_lines(usize::MAX).len(), notes::limits::ACL_HISTORY_MAX);
    assert_eq!(history_lines(usize::MAX).last().unwrap(), "Ann/Acme consistent ACL enforced");
}

#[test]
fn revoked_access_ends_immediately() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let note = world.write(&database, ANN, |writer| writer.note_create(document(vec![Item::text("Subject", "x")])));
    let access = reader(&database, BOB).unwrap();
    assert!(access.read().is_ok());
    world.write(&database, ANN, |writer| writer.acl_set(Acl::private(&base::Name::new(ANN)))).unwrap();
    assert!(matches!(access.read(), Err(notes::Error::AccessDenied { .. })));
    let again = world.restarted();
    let database = again.databases.database_open("docs.nsf").unwrap();
    assert!(reader(&database, BOB).is_err());
    assert_eq!(subject(&database, ANN, note.unwrap()), Some("x".into()));
}

#[test]
fn protected_items_need_an_editor() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Author)]);
    let mut protected = Item::text("Salary", "10");
    protected.flags = protected.flags.union(notes::ItemFlags::PROTECTED);
    let authors = Item::authors("Authors", vec![BOB.into()]);
    let items = vec![protected.clone(), authors.clone()];
    let note = world.write(&database, ANN, |writer| writer.note_create(document(items))).unwrap();
    let save =
        |items: &[Item], expected| world.write(&database, BOB, |writer| writer.note_update(note, expected, items, &[]));
    assert!(save(&[Item::text("Salary", "20"), authors.clone()], 1).is_err());
    assert!(save(&[protected, authors, Item::text("Subject", "mine")], 1).is_ok());
}
