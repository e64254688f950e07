//! Creation, lookup, renaming and deletion of databases.

use std::sync::Arc;

use base::{Name, ReplicaId};
use notes::{
    Access, Acl, AclLevel, Database, DatabaseKind, DatabaseOptions, DatabaseRecord, FullTextSchedule, Identity, Item,
    NewDatabase, NewNote, OdsVersion, ServerSettings, level,
};
use store::{KeyRange, Table, TableReader};

use crate::fixture::{TestServer, assert_sound, reader, subject};

fn new(path: &str) -> NewDatabase {
    NewDatabase::new(path, "A title", DatabaseKind::Standard, Acl::private(&Name::new("Ann/Acme")))
}

#[test]
fn paths_ignore_case_and_are_unique() {
    let world = TestServer::new();
    world.databases.database_create(&new("mail/Ann.nsf")).unwrap();
    assert!(world.databases.database_open("MAIL/ANN.NSF").is_ok());
    assert!(matches!(world.databases.database_create(&new("mail/ann.nsf")), Err(notes::Error::Exists { .. })));
    assert!(matches!(world.databases.database_open("mail/bob.nsf"), Err(notes::Error::NotFound { .. })));
}

#[test]
fn paths_that_leave_the_data_folder_are_refused() {
    let world = TestServer::new();
    for path in ["", "/etc", "../x.nsf", "a//b.nsf", "a/./b.nsf", "a\\b.nsf", "a\0b", &"x".repeat(600)] {
        assert!(matches!(world.databases.database_create(&new(path)), Err(notes::Error::Invalid { .. })), "{path:?}");
    }
}

#[test]
fn paths_of_server_databases_are_reserved() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let access: Access<level::Manager> = database.authorize(&Arc::new(Identity::person("Ann/Acme"))).unwrap();
    for path in ["mail.box", "Mail3.BOX", "archive/x.box", "names.nsf", "log.nsf", "Catalog.nsf"] {
        assert!(matches!(world.databases.database_create(&new(path)), Err(notes::Error::Invalid { .. })), "{path}");
        let renamed = world.databases.database_rename(&access, path);
        assert!(matches!(renamed, Err(notes::Error::Invalid { .. })), "{path}: {renamed:?}");
        assert!(!world.databases.database_exists(path).unwrap(), "{path}");
    }
    assert_eq!(database.path(), "docs.nsf");
    let queue = NewDatabase { kind: DatabaseKind::MailBox, ..new("mail3.box") };
    world.databases.database_create(&queue).unwrap();
    let directory = NewDatabase { kind: DatabaseKind::Directory, ..new("names.nsf") };
    world.databases.database_create(&directory).unwrap();
}

#[test]
fn databases_survive_a_restart() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let note = world.write(&database, "Ann/Acme", |writer| {
        writer.note_create(NewNote::document(vec![Item::text("Subject", "kept")]))
    });
    let again = world.restarted();
    let database = again.databases.database_open("docs.nsf").unwrap();
    assert_eq!(subject(&database, "Ann/Acme", note.unwrap()), Some("kept".into()));
    assert_eq!(again.databases.database_list().unwrap().len(), 1);
    assert_sound(&database);
}

#[test]
fn a_renamed_database_keeps_its_contents() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let access: Access<level::Manager> = database.authorize(&Arc::new(Identity::person("Ann/Acme"))).unwrap();
    world.databases.database_rename(&access, "archive/docs.nsf").unwrap();
    assert!(world.databases.database_open("docs.nsf").is_err());
    let again = world.restarted();
    let record = again.databases.database_open("archive/docs.nsf").unwrap().record();
    assert_eq!((record.path.as_str(), record.number), ("archive/docs.nsf", database.number()));
}

#[test]
fn replica_ids_follow_the_catalog() {
    let world = TestServer::new();
    let id = ReplicaId(7);
    let found = || world.databases.database_open_replica(id).unwrap().map(|database| database.path());
    let replica = |path: &str| NewDatabase { replica_id: Some(id), ..new(path) };
    assert_eq!(found(), None);
    let second = world.databases.database_create(&replica("b/Plan.nsf")).unwrap();
    assert_eq!(found().as_deref(), Some("b/Plan.nsf"));
    let first = world.databases.database_create(&replica("a.nsf")).unwrap();
    assert_eq!(found().as_deref(), Some("a.nsf"), "the first path");
    let manage = |database: &Arc<Database>| -> Access<level::Manager> {
        database.authorize(&Arc::new(Identity::person("Ann/Acme"))).unwrap()
    };
    world.databases.database_rename(&manage(&first), "c.nsf").unwrap();
    assert_eq!(found().as_deref(), Some("b/Plan.nsf"));
    world.databases.database_delete(&manage(&second)).unwrap();
    assert_eq!(found().as_deref(), Some("c.nsf"));
    let again = world.restarted();
    let opened = again.databases.database_open_replica(id).unwrap().map(|database| database.path());
    assert_eq!(opened.as_deref(), Some("c.nsf"));
    assert!(again.databases.database_open_replica(ReplicaId(8)).unwrap().is_none());
}

#[test]
fn databases_are_listed_by_pages() {
    let world = TestServer::new();
    for path in ["mail/Bob.nsf", "mail/ann.nsf", "plan.nsf", "mail.nsf", "mail/carla.nsf"] {
        world.databases.database_create(&new(path)).unwrap();
    }
    let page = |prefix: &str, after: &str, limit: usize| -> Vec<String> {
        let records = world.databases.database_page(prefix, after, limit).unwrap();
        records.into_iter().map(|record| record.path).collect()
    };
    assert_eq!(page("", "", 9), ["mail.nsf", "mail/ann.nsf", "mail/Bob.nsf", "mail/carla.nsf", "plan.nsf"]);
    assert_eq!(page("", "", 2), ["mail.nsf", "mail/ann.nsf"]);
    assert_eq!(page("MAIL/", "", 9), ["mail/ann.nsf", "mail/Bob.nsf", "mail/carla.nsf"]);
    assert_eq!(page("mail/", "Mail/ANN.nsf", 1), ["mail/Bob.nsf"]);
    assert_eq!(page("mail/", "mail/carla.nsf", 9), [""; 0]);
    assert_eq!(page("mail/", "plan.nsf", 9), [""; 0], "the page before was of another list");
    assert_eq!(page("", "mail/b", 1), ["mail/Bob.nsf"]);
}

#[test]
fn title_and_options_survive_a_restart() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let access: Access<level::Manager> = database.authorize(&Arc::new(Identity::person("Ann/Acme"))).unwrap();
    let options = DatabaseOptions { quota_bytes: Some(5), ..DatabaseOptions::default() };
    world.databases.database_options_set(&access, "Other", options).unwrap();
    let record = world.restarted().databases.database_open("docs.nsf").unwrap().record();
    assert_eq!((record.title.as_str(), record.options), ("Other", options));
}

#[test]
fn records_of_all_versions_are_read() {
    let world = TestServer::new();
    let present = world.database(&[]).record().as_ref().clone();
    let version_4 = present.encode();
    assert_eq!((version_4[0], DatabaseRecord::decode(&version_4).as_ref()), (4, Ok(&present)));
    let options =
        DatabaseOptions { keep_deleted_hours: Some(3), full_text: FullTextSchedule::Hourly, ..present.options };
    let full = DatabaseRecord { options, ..present.clone() };
    assert_eq!(DatabaseRecord::decode(&full.encode()).as_ref(), Ok(&full));
    let record = DatabaseRecord { ods: OdsVersion::OLDEST, ..present };
    let version_1 = record.encode();
    assert_eq!(version_1[0], 1, "a database that is not upgraded stays readable for older programs");
    assert_eq!(DatabaseRecord::decode(&version_1).as_ref(), Ok(&record));
    for full_text in
        [FullTextSchedule::Immediate, FullTextSchedule::Hourly, FullTextSchedule::Daily(0), FullTextSchedule::Daily(23)]
    {
        let options = DatabaseOptions { full_text, ..record.options };
        let record = DatabaseRecord { options, ..record.clone() };
        let bytes = record.encode();
        assert_eq!((bytes[0], DatabaseRecord::decode(&bytes).as_ref()), (2, Ok(&record)));
    }
    let mut zero = version_4;
    zero[5..7].fill(0);
    assert!(DatabaseRecord::decode(&zero).is_err(), "there is no structure 0");
    for end in [[3, 24], [1, 1], [4, 0]] {
        let mut wrong = version_1.clone();
        wrong[0] = 2;
        wrong.extend(end);
        assert!(DatabaseRecord::decode(&wrong).is_err(), "{end:?}");
    }
}

#[test]
fn followers_are_notified_of_every_change() {
    let world = TestServer::new();
    let follower = world.databases.subscribe();
    let database = world.database(&[]);
    assert_eq!((follower.take(), follower.take()), (vec![database.number()], vec![]));
    world.write(&database, "Ann/Acme", |writer| writer.note_create(NewNote::document(vec![]))).unwrap();
    assert_eq!(follower.take(), [database.number()]);
    let access: Access<level::Manager> = database.authorize(&Arc::new(Identity::person("Ann/Acme"))).unwrap();
    world.databases.database_options_set(&access, "Other", DatabaseOptions::default()).unwrap();
    assert_eq!(follower.take(), [database.number()]);
    world.databases.database_delete(&access).unwrap();
    assert_eq!(follower.take(), [database.number()]);
}

#[test]
fn deletion_removes_all_records_and_retires_the_number() {
    let world = TestServer::new();
    let database = world.database(&[("Bob/Acme", AclLevel::Editor)]);
    world
        .write(&database, "Ann/Acme", |writer| {
            let folder = writer.folder_create("F", &[])?;
            let blob = writer.blob_put(&[7; 10_000])?;
            let mut note = NewNote::document(vec![Item::text("Subject", "x")]);
            note.blobs.push(blob);
            note.folders.push(folder);
            writer.note_create(note)
        })
        .unwrap();
    let bob: notes::Result<Access<level::Manager>> = database.authorize(&Arc::new(Identity::person("Bob/Acme")));
    assert!(matches!(bob, Err(notes::Error::AccessDenied { .. })));
    let access: Access<level::Manager> = database.authorize(&Arc::new(Identity::person("Ann/Acme"))).unwrap();
    let old_reader = reader(&database, "Ann/Acme").unwrap();
    world.databases.database_delete(&access).unwrap();
    assert!(world.databases.database_open("docs.nsf").is_err());
    assert!(old_reader.read().is_err(), "an open access ends with the database");
    for table in Table::ALL {
        let range = KeyRange::prefix(&database.number().to_key());
        let left =
            world.databases.store().scan(table, &range, store::Direction::Forward).unwrap().next().unwrap().is_some();
        assert!(!left, "{table:?} still has keys of the database");
    }
    assert!(world.database(&[]).number() > database.number(), "numbers are never used twice");
}

#[test]
fn databases_in_use_and_those_used_last_stay_open() {
    let world = TestServer::with(ServerSettings { open_databases_max: 16, ..ServerSettings::default() });
    let path = |number: usize| format!("{number}.nsf");
    for number in 0..100 {
        world.databases.database_create(&new(&path(number))).unwrap();
        assert!(world.databases.open_count() <= 17, "{number}");
    }
    // Those in use stay, however many they are.
    let used: Vec<Arc<Database>> =
        (0..30).map(|number| world.databases.database_open(&path(number)).unwrap()).collect();
    for number in 30..100 {
        world.databases.database_open(&path(number)).unwrap();
    }
    assert!((30..=34).contains(&world.databases.open_count()), "{}", world.databases.open_count());
    for (number, database) in (0..).zip(&used) {
        assert!(Arc::ptr_eq(database, &world.databases.database_open(&path(number)).unwrap()), "{number}");
    }
    drop(used);
    world.databases.close_idle();
    assert_eq!(world.databases.open_count(), 0);
    // The one that is opened again and again stays; it keeps its place in memory.
    let often = Arc::downgrade(&world.databases.database_open(&path(0)).unwrap());
    let once = Arc::downgrade(&world.databases.database_open(&path(1)).unwrap());
    for number in 2..100 {
        world.databases.database_open(&path(number)).unwrap();
        world.databases.database_open(&path(0)).unwrap();
    }
    assert!(often.upgrade().is_some() && once.upgrade().is_none());
}
