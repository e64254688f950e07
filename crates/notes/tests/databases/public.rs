//! Public documents, and folders with a restricted circle of readers.

use std::sync::Arc;

use base::{Name, NoteId, Uid, ViewId};
use notes::{Access, Acl, AclEntry, AclFlags, AclLevel, Database, Item, ItemValue, NewNote, level};

use crate::fixture::{TestServer, assert_sound, identity, reader, server};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const BOTH: AclFlags = AclFlags(AclFlags::PUBLIC_READER.0 | AclFlags::PUBLIC_WRITER.0);

fn public(subject: &str) -> Vec<Item> {
    vec![Item::text("Subject", subject), Item::text("$PublicAccess", "1")]
}

/// Creates a database of Ann's with an ACL entry for Bob.
fn database(world: &TestServer, level: AclLevel, flags: AclFlags) -> Arc<Database> {
    let database = world.database(&[]);
    let mut acl = Acl::private(&Name::new(ANN));
    acl.entries.push(AclEntry { flags, ..AclEntry::new(BOB, level) });
    world.write(&database, ANN, |writer| writer.acl_set(acl)).expect("Ann manages it");
    database
}

fn create(world: &TestServer, database: &Arc<Database>, who: &str, items: Vec<Item>) -> notes::Result<NoteId> {
    world.write(database, who, |writer| writer.note_create(NewNote::document(items)))
}

/// Returns the subjects of the documents that Bob sees as public, or `None` if he has no access to public documents.
fn public_subjects(database: &Arc<Database>) -> Option<Vec<String>> {
    let access: Access<level::Public> = database.authorize(&identity(BOB)).ok()?;
    let reading = access.read_public().expect("a snapshot");
    let mut found = Vec::new();
    let each = &mut |header: notes::NoteHeader| {
        let note = reading.note(header.note)?.expect("a listed document exists");
        found.push(note.text("Subject").unwrap_or_default().to_owned());
        Ok(true)
    };
    reading.for_each_note(NoteId(0), each).expect("a sound database");
    Some(found)
}

#[test]
fn public_reader_sees_only_public_documents() {
    let check = |level, flags, expected: Option<&[&str]>| {
        let world = TestServer::new();
        let database = database(&world, level, flags);
        let secret = vec![Item::readers("Readers", vec!["Carol/Acme".into()])];
        for items in [
            public("open"),
            vec![Item::text("Subject", "closed")],
            vec![Item::text("Subject", "zero"), Item::text("$PublicAccess", "0")],
            [public("hidden"), secret].concat(),
        ] {
            create(&world, &database, ANN, items).expect("Ann may");
        }
        let found = public_subjects(&database);
        let found = found.as_ref().map(|found| found.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found.as_deref(), expected, "{level} {flags:?}");
        assert_eq!(reader(&database, BOB).is_ok(), level >= AclLevel::Reader, "{level} {flags:?}");
    };
    for level in [AclLevel::NoAccess, AclLevel::Depositor] {
        check(level, AclFlags::NONE, None);
        check(level, AclFlags::PUBLIC_WRITER, None);
        check(level, AclFlags::PUBLIC_READER, Some(&["open"]));
    }
    for level in &AclLevel::ALL[2..] {
        check(*level, AclFlags::NONE, Some(&["open"]));
    }
}

#[test]
fn public_writer_changes_only_public_documents() {
    let check = |level, flags, may: bool| {
        let world = TestServer::new();
        let database = database(&world, level, flags);
        let open = create(&world, &database, ANN, public("open")).expect("Ann may");
        let closed = create(&world, &database, ANN, vec![Item::text("Subject", "closed")]).expect("Ann may");
        let update = |note, items: Vec<Item>| {
            world.write(&database, BOB, |writer| writer.note_update(note, 1, &items, &[])).is_ok()
        };
        let context = format!("{level} {flags:?}");
        assert!(!update(closed, public("mine")), "{context}");
        assert!(!update(open, vec![Item::text("Subject", "kept from others")]), "{context}: stays public");
        let taken = [public("x"), vec![Item::authors("Authors", vec![BOB.into()])]].concat();
        assert!(!update(open, taken), "{context}: a public writer cannot become an author");
        assert_eq!(update(open, public("mine")), may, "{context}");
        let deleted = world.write(&database, BOB, |writer| writer.note_delete(open));
        assert!(!deleted.unwrap_or(false), "{context}: public access does not permit deletion");
        let creates = flags.contains(AclFlags::PUBLIC_WRITER) || level == AclLevel::Depositor;
        assert_eq!(create(&world, &database, BOB, public("new")).is_ok(), creates, "{context}");
        let plain = create(&world, &database, BOB, Vec::new());
        assert_eq!(plain.is_ok(), level == AclLevel::Depositor, "{context}");
        assert_sound(&database);
    };
    for level in [AclLevel::NoAccess, AclLevel::Depositor] {
        check(level, AclFlags::NONE, false);
        check(level, AclFlags::PUBLIC_READER, false);
        check(level, AclFlags::PUBLIC_WRITER, false);
        check(level, BOTH, true);
    }
    check(AclLevel::Reader, AclFlags::NONE, false);
    check(AclLevel::Reader, AclFlags::PUBLIC_WRITER, true);
}

#[test]
fn author_without_create_right_creates_public_documents() {
    let world = TestServer::new();
    let database = database(&world, AclLevel::Author, AclFlags::AUTHOR_NO_CREATE.union(AclFlags::PUBLIC_WRITER));
    assert!(create(&world, &database, BOB, Vec::new()).is_err());
    assert!(create(&world, &database, BOB, public("x")).is_ok());
    let folder = world.write(&database, ANN, |writer| writer.folder_create("F", &[])).expect("Ann may");
    let filed = NewNote { folders: vec![folder], ..NewNote::document(public("x")) };
    assert!(world.write(&database, BOB, |writer| writer.note_create(filed)).is_err(), "not into a folder");
}

#[test]
fn every_read_checks_that_the_document_is_public() {
    let world = TestServer::new();
    let database = database(&world, AclLevel::NoAccess, AclFlags::PUBLIC_READER);
    let make = |items: Vec<Item>| {
        let created = world.write(&database, ANN, |writer| {
            let blob = writer.blob_put(b"content")?;
            let body = vec![Item::body("Body", ItemValue::RichText("text".into()))];
            let parent = Some(base::Unid([9; 16]));
            let new = NewNote { blobs: vec![blob], parent, ..NewNote::document([items, body].concat()) };
            let note = writer.note_create(new)?;
            Ok((note, blob))
        });
        let (note, blob) = created.expect("Ann may");
        let header =
            reader(&database, ANN).unwrap().read().unwrap().header(note).unwrap().expect("the document exists");
        (note, blob, header.unid)
    };
    let open = make(public("x"));
    let closed = make(Vec::new());
    let access: Access<level::Public> = database.authorize(&identity(BOB)).unwrap();
    let reading = access.read_public().unwrap();
    let check = |(note, blob, unid): (NoteId, store::BlobId, base::Unid), expected: bool| {
        assert_eq!(reading.header(note).unwrap().is_some(), expected);
        assert_eq!(reading.summary(note).unwrap().is_some(), expected);
        assert_eq!(reading.note(note).unwrap().is_some(), expected);
        assert_eq!(reading.body_item(note, 0).unwrap().is_some(), expected);
        assert_eq!(reading.find(unid).unwrap().is_some(), expected);
        assert_eq!(reading.blob(note, &blob).is_ok(), expected);
        assert_eq!(reading.blob_range(note, &blob, 1..2).is_ok(), expected);
    };
    check(open, true);
    check(closed, false);
    assert_eq!(reading.children(base::Unid([9; 16])).unwrap(), [open.0]);
    world.write(&database, ANN, |writer| writer.note_update(open.0, 1, &[], &[])).unwrap();
    assert_eq!(public_subjects(&database), Some(Vec::new()), "a document that is no longer public disappears");
}

/// Returns which operations of a user succeed on a folder with restricted readers.
fn folder_operations(
    world: &TestServer,
    database: &Arc<Database>,
    who: &str,
    folder: ViewId,
    note: NoteId,
) -> [bool; 6] {
    let listed = {
        let access = reader(database, who).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let listed = reading.folders().unwrap().iter().any(|known| known.view == folder);
        assert_eq!(reading.folder(folder).is_ok(), listed);
        assert_eq!(reading.header(NoteId(folder.0)).unwrap().is_some(), listed, "the design note");
        listed
    };
    let write = |change: &dyn Fn(&mut notes::Writer<'_, '_>) -> notes::Result<bool>| {
        world.write(database, who, |writer| change(writer)).unwrap_or(false)
    };
    [
        listed,
        write(&|writer| Ok(writer.folders()?.iter().any(|known| known.view == folder))),
        write(&|writer| writer.folder_read(folder).map(|_| true)),
        write(&|writer| writer.folder_entry(folder, Uid(1)).map(|_| true)),
        write(&|writer| writer.folder_add(note, folder).map(|_| true)),
        write(&|writer| writer.folder_remove(note, folder)),
    ]
}

#[test]
fn folder_is_visible_to_its_readers_only() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Manager), ("Carol/Acme", AclLevel::Editor)]);
    let set = |folder, names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        world.write(&database, ANN, |writer| writer.folder_readers_set(folder, &names)).expect("Ann manages it");
    };
    let folder = world.write(&database, ANN, |writer| writer.folder_create("F", &[])).unwrap();
    let note = create(&world, &database, ANN, Vec::new()).unwrap();
    for (names, bob, carol) in [
        (&[][..], true, true),
        (&["Ann/Acme", "Carol/Acme"], false, true),
        (&["*/Acme"], true, true),
        (&["Ann/Acme", "[Role]"], false, false),
    ] {
        set(folder, names);
        assert_eq!(folder_operations(&world, &database, BOB, folder, note), [bob; 6], "{names:?}");
        assert_eq!(folder_operations(&world, &database, "Carol/Acme", folder, note), [carol; 6], "{names:?}");
        assert_eq!(folder_operations(&world, &database, ANN, folder, note), [true; 6], "{names:?}");
    }
    let delete = |who| world.write(&database, who, |writer| writer.folder_delete(folder));
    assert!(delete(BOB).is_err() && delete(ANN).is_ok());
    let taken = world.write(&database, ANN, |writer| writer.folder_create("G", &[("$Readers", "x")]));
    assert!(taken.is_err(), "readers must be names");
    let itself: Access<level::Reader> = database.authorize(&server()).unwrap();
    assert!(itself.read().unwrap().folders().unwrap().is_empty());
    assert_sound(&database);
}
