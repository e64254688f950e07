//! Tests of the index and the cache: they are never stale, whatever the source of a change, and the index equals a
//! rebuilt one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{NoteId, Timestamp, Unid};
use directory::{IssuedCertificate, NewUser, PersonChange};
use notes::fixup::{self, FixupFinding};
use notes::{Access, Identity, Item, ItemValue, NewNote, level};
use store::{Batch, Direction, KeyRange, Table, TableReader};

use crate::fixture::World;

const ACME: &str = "domain acme.test
    user ann@acme.test
    user bob@acme.test
    group sales@acme.test: ann";

/// Changes the directory database without the `directory` crate, as replication does.
fn change_directly(world: &World, change: impl FnOnce(&mut notes::Writer<'_, '_>)) {
    let identity = Arc::new(Identity::local_server("replicator/Acme"));
    let access: Access<level::Depositor> = world.directory.database().authorize(&identity).expect("a server may");
    let accesses = [&access];
    let mut transaction = world.databases.transaction(&accesses).expect("possible");
    change(&mut transaction.writer(0));
    transaction.commit().expect("possible");
}

fn person_items(name: &str, address: &str) -> Vec<Item> {
    let texts = [("Form", "Person"), ("FullName", name), ("InternetAddress", address)];
    texts.iter().map(|(item, value)| Item::text(*item, *value)).collect()
}

fn note_of(world: &World, text: &str) -> Option<NoteId> {
    world.directory.person(text).expect("readable").map(|person| person.note)
}

#[test]
fn second_lookup_hits_the_cache() {
    let world = World::new(ACME);
    assert!(note_of(&world, "ann").is_some());
    let before = world.directory.cache_statistics();
    assert!(note_of(&world, "ann").is_some() && note_of(&world, "ann").is_some());
    let after = world.directory.cache_statistics();
    assert_eq!((after.hits - before.hits, after.misses), (2, before.misses));
    assert!(after.bytes > 0 && after.bytes <= after.bytes_max && after.bytes_max == 16 << 20);
}

#[test]
fn missing_entry_is_cached_until_it_is_created() {
    let world = World::new(ACME);
    for _ in 0..2 {
        assert_eq!(note_of(&world, "carl@acme.test"), None);
    }
    let carl = world.directory.user_add(&NewUser::new("carl@acme.test")).expect("free");
    assert_eq!(note_of(&world, "carl@acme.test"), Some(carl.note));
}

#[test]
fn external_changes_are_seen_by_the_next_lookup() {
    let world = World::new(ACME);
    assert_eq!(note_of(&world, "zoe@acme.test"), None);
    let mut zoe = NoteId(0);
    change_directly(&world, |writer| {
        zoe = writer.note_create(NewNote::document(person_items("Zoe/Acme", "zoe@acme.test"))).expect("possible");
    });
    assert_eq!(note_of(&world, "zoe@acme.test"), Some(zoe));
    change_directly(&world, |writer| {
        writer.note_update(zoe, 1, &person_items("Zoe/Acme", "zed@acme.test"), &[]).expect("possible");
    });
    assert_eq!((note_of(&world, "zoe@acme.test"), note_of(&world, "zed@acme.test")), (None, Some(zoe)));
    change_directly(&world, |writer| assert!(writer.note_delete(zoe).expect("possible")));
    assert_eq!((note_of(&world, "zed@acme.test"), note_of(&world, "Zoe/Acme")), (None, None));
    assert_eq!(world.directory.users(0, 10).expect("readable").total, 2);
}

#[test]
fn external_changes_are_seen_by_changes() {
    let world = World::new(ACME);
    change_directly(&world, |writer| {
        writer.note_create(NewNote::document(person_items("Zoe/Acme", "zoe@acme.test"))).expect("possible");
    });
    let outcome = world.directory.user_add(&NewUser::new("zoe@acme.test"));
    assert_eq!(outcome.expect_err("taken").to_string(), "address zoe@acme.test is already taken by user zoe@acme.test");
}

#[test]
fn note_with_the_lower_unid_counts_for_a_duplicate_address() {
    // The order in which the notes arrive differs between servers.
    for order in [["Zoe/Acme", "Zed/Acme"], ["Zed/Acme", "Zoe/Acme"]] {
        let world = World::new(ACME);
        change_directly(&world, |writer| {
            for name in order {
                let unid = Some(Unid([if name == "Zed/Acme" { 3 } else { 9 }; 16]));
                let new = NewNote { unid, ..NewNote::document(person_items(name, "z@acme.test")) };
                writer.note_create(new).expect("possible");
            }
        });
        let found = || world.directory.person("z@acme.test").expect("readable").expect("exists").name.to_string();
        assert_eq!(found(), "Zed/Acme");
        world.directory.user_remove("Zed/Acme").expect("exists");
        assert_eq!(found(), "Zoe/Acme");
    }
}

#[test]
fn servers_are_removed_and_let_in_again_where_documents_have_one_name() {
    let world = World::new(ACME);
    let [spoke, other] = ["CN=spoke/O=Acme", "CN=other/O=Acme"].map(base::Name::new);
    world.directory.servers_register(&[(spoke.clone(), None), (other.clone(), None)]).expect("possible");
    // Another server has removed one of its servers, readmitted this one, and made documents of its own of all that.
    change_directly(&world, |writer| {
        let documents = [
            vec![Item::text("Form", "Server"), Item::text("ServerName", spoke.canonical())],
            vec![
                Item::text("Form", "Group"),
                Item::text("ListName", "TerminatedServers"),
                Item::text("GroupType", "3"),
                Item::text("Members", "CN=old/O=Acme"),
            ],
        ];
        for items in documents.iter().flat_map(|items| [items, items]) {
            writer.note_create(NewNote::document(items.clone())).expect("possible");
        }
    });
    let is_denied = |name: &base::Name| world.directory.deny_list_of_server(name).expect("readable").is_some();
    world.directory.servers_register(&[(spoke.clone(), Some("spoke:1352".to_owned()))]).expect("it is registered");
    for server in [&spoke, &other] {
        world.directory.server_remove(server).expect("it is registered");
        assert!(is_denied(server) && world.directory.server(server).expect("readable").is_none());
    }
    let old = base::Name::new("CN=old/O=Acme");
    for server in [spoke, other, old] {
        world.directory.servers_register(&[(server.clone(), None)]).expect("possible");
        assert!(!is_denied(&server), "{server} is let in again, by all lists");
    }
}

#[test]
fn several_documents_of_one_server_count_together_until_it_is_changed() {
    let world = World::new(ACME);
    let [spoke, other] = ["CN=spoke/O=Acme", "CN=other/O=Acme"].map(base::Name::new);
    world.directory.servers_register(&[(spoke.clone(), None)]).expect("possible");
    let until = |day: i64| Timestamp(day * 86_400_000_000);
    let recorded = |day| IssuedCertificate { issuer: "Acme".to_owned(), until: until(day) };
    world.directory.server_set_certificate(&spoke, recorded(2)).expect("it is registered");
    // One UNID is lower than that of the first document, the other one greater.
    change_directly(&world, |writer| {
        for (byte, excluded, day) in [(1, "CN=a/O=Acme", 1), (255, "CN=b/O=Acme", 3)] {
            let admitted = ["*/O=Acme".to_owned(), format!("CN=only{day}/O=Acme")];
            let items = vec![
                Item::text("Form", "Server"),
                Item::text("ServerName", spoke.canonical()),
                Item::text("DenyAccess", excluded),
                Item::summary("AllowAccess", ItemValue::TextList(admitted.to_vec())),
                Item::text("CertificateIssuer", "Acme"),
                Item::summary("CertificateExpires", ItemValue::Time(until(day))),
            ];
            let new = NewNote { unid: Some(Unid([byte; 16])), ..NewNote::document(items) };
            writer.note_create(new).expect("possible");
        }
    });
    let found = || world.directory.server(&spoke).expect("readable").expect("it is registered").as_ref().clone();
    let excluded = || found().excluded.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(found().certificate, Some(recorded(3)));
    assert_eq!(excluded(), ["CN=a/O=Acme", "CN=b/O=Acme"].map(str::to_owned).into());
    assert_eq!(found().admitted, ["*/O=Acme"], "only those whom both admit");
    // A change makes one document of them, so that what it takes away is away.
    world
        .directory
        .change_server(&spoke, |server| server.excluded.retain(|name| name != "CN=b/O=Acme"))
        .expect("valid");
    assert_eq!(excluded(), ["CN=a/O=Acme".to_owned()].into());
    assert_eq!(found().certificate, Some(recorded(3)));
    // Two servers are let in again at once.
    world.directory.servers_register(&[(other.clone(), None)]).expect("possible");
    let both = [spoke, other];
    both.iter().for_each(|server| world.directory.server_remove(server).expect("it is registered"));
    world.directory.servers_register(&both.clone().map(|server| (server, None))).expect("possible");
    for server in &both {
        assert!(world.directory.deny_list_of_server(server).expect("readable").is_none());
    }
}

#[test]
fn invalid_notes_are_skipped() {
    let world = World::new(ACME);
    change_directly(&world, |writer| {
        let bad = [
            vec![Item::text("Form", "Person")],
            vec![Item::text("Form", "Group"), Item::text("ListName", "")],
            vec![Item::text("Form", "Domain"), Item::text("DomainName", "not a domain")],
            vec![Item::text("Form", "Memo"), Item::text("FullName", "ann")],
            vec![Item::text("FullName", "ann")],
            person_items(&"x".repeat(5_000), "with\u{0}zero@acme.test"),
        ];
        for items in bad {
            writer.note_create(NewNote::document(items)).expect("possible");
        }
    });
    assert!(note_of(&world, "ann").is_some());
    assert_eq!(world.directory.users(0, 10).expect("readable").total, 3);
    assert!(note_of(&world, &"x".repeat(400)).is_none());
}

#[test]
fn unknown_items_survive_a_change() {
    let world = World::new(ACME);
    let ann = note_of(&world, "ann").expect("exists");
    let read = |name: &str| {
        let identity = Arc::new(Identity::local_server("reader/Acme"));
        let access: Access<level::Reader> = world.directory.database().authorize(&identity).expect("a server may");
        let note = access.read().expect("readable").note(ann).expect("readable").expect("exists");
        note.text(name).map(str::to_owned)
    };
    change_directly(&world, |writer| {
        let mut note = writer.note(ann).expect("readable").expect("exists");
        note.items.push(Item::text("OfficePhone", "123"));
        writer.note_update(ann, note.header.sequence, &note.items, &[]).expect("possible");
    });
    let change = PersonChange { first_name: Some("Anna".into()), ..PersonChange::default() };
    world.directory.user_set("ann", &change).expect("exists");
    assert_eq!((read("OfficePhone").as_deref(), read("FirstName").as_deref()), (Some("123"), Some("Anna")));
}

#[test]
fn rebuilt_index_is_equal() {
    let world = World::new(ACME);
    world.directory.user_remove("bob").expect("exists");
    let before = (note_of(&world, "ann@acme.test"), world.directory.users(0, 10).expect("readable"));
    world.directory.index_rebuild().expect("possible");
    let after = (note_of(&world, "ann@acme.test"), world.directory.users(0, 10).expect("readable"));
    assert_eq!(before, after);
    assert_eq!(note_of(&world, "bob"), None);
    assert_eq!(world.directory.groups(0, 10).expect("readable").total, 1);
}

/// Flips a bit in a record in the middle of the directory's part of a table.
fn damage(world: &World, table: Table) {
    let range = KeyRange::prefix(&world.directory.database().number().to_key());
    let mut cursor = world.databases.store().scan(table, &range, Direction::Forward).expect("readable");
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next().expect("sound") {
        keys.push(key.to_vec());
    }
    drop(cursor);
    assert!(world.engine.damage(table, &keys[keys.len() / 2]), "{table:?} has a record with a value");
}

#[test]
fn repair_rebuilds_the_index() {
    for table in [Table::Tree, Table::ViewBack, Table::Unid, Table::ByModseq] {
        let world = World::new(ACME);
        damage(&world, table);
        let database = world.directory.database();
        let found = fixup::check(database).expect("it runs").findings;
        assert!(!found.is_empty() && found.iter().all(FixupFinding::is_repairable), "{table:?}: {found:?}");
        assert!(fixup::repair(database).expect("it runs").repaired);
        for name in ["ann@acme.test", "bob@acme.test"] {
            assert!(note_of(&world, name).is_some(), "{table:?}: {name}");
        }
        assert_eq!(world.directory.users(0, 10).expect("readable").total, 2);
        world.directory.user_add(&NewUser::new("zoe@acme.test")).expect("free");
        assert_eq!(fixup::check(database).expect("it runs").findings, []);
    }
}

#[test]
fn repair_restores_missing_entries() {
    let world = World::new(ACME);
    let prefix = world.directory.database().number().to_key();
    let mut batch = Batch::new();
    let mut cursor =
        world.databases.store().scan(Table::View, &KeyRange::prefix(&prefix), Direction::Forward).expect("readable");
    while let Some((key, _)) = cursor.next().expect("sound") {
        if key.windows(3).any(|part| part == b"ann") {
            batch.delete(Table::View, key);
        }
    }
    drop(cursor);
    world.databases.store().commit(&batch).expect("written");
    assert_eq!(note_of(&world, "ann@acme.test"), None);
    let database = world.directory.database();
    assert!(matches!(fixup::check(database).expect("it runs").findings[..], [FixupFinding::ViewIndex { .. }]));
    fixup::repair(database).expect("it runs");
    assert!(note_of(&world, "ann@acme.test").is_some());
}

#[test]
fn names_of_a_lost_note_become_free() {
    let world = World::new(ACME);
    let bob = note_of(&world, "bob@acme.test").expect("exists");
    let database = world.directory.database();
    let key = [&database.number().to_key()[..], &bob.to_key(), &[0]].concat();
    assert!(world.engine.damage(Table::Summary, &key));
    fixup::repair(database).expect("it runs");
    assert_eq!(note_of(&world, "bob@acme.test"), None);
    world.directory.user_add(&NewUser::new("bob@acme.test")).expect("free");
}

#[test]
fn concurrent_readers_never_see_stale_values() {
    let world = World::new(ACME);
    let committed = std::sync::atomic::AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let quota = |value| PersonChange { quota_bytes: Some(Some(value)), ..PersonChange::default() };
    world.directory.user_set("ann", &quota(0)).expect("exists");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let value_min = committed.load(Ordering::SeqCst);
                    let ann = world.directory.person("ann@acme.test").expect("readable").expect("exists");
                    let read = ann.quota_bytes.expect("always set");
                    assert!(read >= value_min, "read {read}, at least {value_min} was committed");
                }
            });
        }
        for value in 1..=200 {
            world.directory.user_set("ann", &quota(value)).expect("exists");
            committed.store(value, Ordering::SeqCst);
        }
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn thousands_of_users_are_found() {
    let world = World::new("domain acme.test");
    change_directly(&world, |writer| {
        for number in 0..12_000 {
            let items = person_items(&format!("User {number}/Acme"), &format!("user{number}@acme.test"));
            writer.note_create(NewNote::document(items)).expect("possible");
        }
    });
    change_directly(&world, |writer| {
        for number in 12_000..12_010 {
            let items = person_items(&format!("User {number}/Acme"), &format!("user{number}@acme.test"));
            writer.note_create(NewNote::document(items)).expect("possible");
        }
    });
    for number in [0, 7_777, 12_009] {
        assert!(note_of(&world, &format!("user{number}@acme.test")).is_some(), "{number}");
    }
    let page = world.directory.users(12_000, 100).expect("readable");
    assert_eq!((page.total, page.entries.len()), (12_010, 10));
}
