//! Deliberate damage: it is found, derived data are rebuilt, and everything else keeps working.

use std::sync::Arc;

use base::{Modseq, NoteId, Uid};
use notes::fixup::{FixupFinding, check, check_at, repair, repair_at};
use notes::{AclLevel, Database, Item, ItemValue, Marks, NewNote};
use store::{Batch, Direction, KeyRange, Table, TableReader};

use crate::fixture::{TestServer, assert_sound, identity, reader};

const ANN: &str = "Ann/Acme";

fn filled() -> (TestServer, Arc<Database>) {
    let world = TestServer::new();
    let database = world.database(&[]);
    world
        .write(&database, ANN, |writer| {
            let folder = writer.folder_create("F", &[])?;
            let mut parent = None;
            for number in 0..200 {
                let mut new = NewNote::document(vec![Item::text("Subject", format!("{number}"))]);
                new.folders.push(folder);
                new.parent = parent.filter(|_| number % 50 == 1);
                new.unid = Some(base::Unid([number; 16]));
                parent = new.unid;
                writer.note_create(new)?;
            }
            Ok(())
        })
        .unwrap();
    world
        .write(&database, ANN, |writer| {
            (10..20).try_for_each(|note| writer.note_delete(NoteId(note)).map(drop))?;
            writer.marks_set(NoteId(30), Marks::SEEN, &["Work".into()]).map(drop)
        })
        .unwrap();
    assert_sound(&database);
    (world, database)
}

/// Applies a change directly to the store, bypassing the database.
fn damage(world: &TestServer, change: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    change(&mut batch);
    world.databases.store().commit(&batch).unwrap();
}

fn keys(world: &TestServer, database: &Database, table: Table) -> Vec<Vec<u8>> {
    let range = KeyRange::prefix(&database.number().to_key());
    let mut cursor = world.databases.store().scan(table, &range, Direction::Forward).unwrap();
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        keys.push(key.to_vec());
    }
    keys
}

#[test]
fn derived_records_are_rebuilt() {
    for table in [Table::Unid, Table::ByModseq, Table::Children, Table::View, Table::Tree] {
        let (world, database) = filled();
        let before = keys(&world, &database, table);
        let victim = before[before.len() / 2].clone();
        damage(&world, |batch| batch.delete(table, &victim));
        let report = check(&database).unwrap();
        assert!(!report.findings.is_empty(), "{table:?}");
        assert!(report.findings.iter().all(FixupFinding::is_repairable), "{table:?}: {:?}", report.findings);
        assert!(repair(&database).unwrap().repaired);
        assert_sound(&database);
        assert_eq!(keys(&world, &database, table).len(), before.len(), "{table:?}");
        assert_sound(&world.restarted().databases.database_open("docs.nsf").unwrap());
    }
}

#[test]
fn sound_database_is_not_changed() {
    let (_, database) = filled();
    let before = database.modseq();
    assert!(!repair(&database).unwrap().repaired);
    assert_eq!(database.modseq(), before);
}

#[test]
fn wrong_counters_are_corrected() {
    let (world, database) = filled();
    let key = [&database.number().to_key()[..], b"c"].concat();
    let mut counters =
        notes::counters::Counters::decode(&world.databases.store().get(Table::Meta, &key).unwrap().unwrap()).unwrap();
    counters.notes += 5;
    counters.bytes = 1;
    damage(&world, |batch| batch.put(Table::Meta, &key, &counters.encode()));
    let findings = check(&database).unwrap().findings;
    assert!(matches!(
        findings[..],
        [FixupFinding::Counters { what: "notes", .. }, FixupFinding::Counters { what: "bytes", .. }]
    ));
    repair(&database).unwrap();
    assert_sound(&database);
}

#[test]
fn damaged_note_leaves_the_others_intact() {
    let (world, database) = filled();
    let key = [&database.number().to_key()[..], &NoteId(100).to_key(), &[0]].concat();
    damage(&world, |batch| batch.put(Table::Summary, &key, b"rubbish"));
    let findings = check(&database).unwrap().findings;
    assert!(findings.contains(&FixupFinding::NoteDamaged { note: NoteId(100), record: "header" }));
    let access = reader(&database, ANN).unwrap();
    assert!(matches!(access.read().unwrap().header(NoteId(100)), Err(notes::Error::Damaged { .. })));
    assert!(access.read().unwrap().note(NoteId(101)).unwrap().is_some());
    repair(&database).unwrap();
    assert_sound(&database);
    let access = database.authorize::<notes::level::Reader>(&identity(ANN)).unwrap();
    let reading = access.read().unwrap();
    let folder = reading.folders().unwrap()[0].view;
    assert_eq!(reading.folder(folder).unwrap().totals().unwrap().count, 189);
    assert_eq!(reading.folder(folder).unwrap().entry(Uid(98)).unwrap(), None);
}

/// Creates a database that contains everything that can be damaged: bodies, contents, folders, keywords, a user's
/// unread marks.
fn full_database() -> (TestServer, Arc<Database>) {
    let world = TestServer::new();
    let database = world.database(&[("Bob/Acme", AclLevel::Reader)]);
    world
        .write(&database, ANN, |writer| {
            let folder = writer.folder_create("F", &[])?;
            for number in 0..60_u8 {
                let blob = writer.blob_put(&[number; 5_000])?;
                let items = vec![
                    Item::text("Subject", format!("{number}")),
                    Item::body("Body", ItemValue::RichText("x".into())),
                ];
                let parent = (number > 0).then_some(base::Unid([number % 7; 16]));
                writer.note_create(NewNote {
                    unid: Some(base::Unid([number; 16])),
                    folders: vec![folder],
                    blobs: vec![blob],
                    keywords: vec!["Work".into()],
                    parent: parent.filter(|_| number > 7),
                    ..NewNote::document(items)
                })?;
            }
            Ok(())
        })
        .unwrap();
    let all: Vec<NoteId> = (3..40).map(NoteId).collect();
    world.write(&database, "Bob/Acme", |writer| writer.mark_read(&all)).unwrap();
    world.write(&database, ANN, |writer| writer.note_delete(NoteId(50)).map(drop)).unwrap();
    assert_sound(&database);
    (world, database)
}

/// Flips bits of some records of a table.
fn flip(world: &TestServer, table: Table, keys: &[Vec<u8>]) {
    for key in keys {
        assert!(world.memory.damage(table, key) || matches!(table, Table::Children), "{table:?}");
    }
}

/// Repairs a database, and asserts that nothing is wrong afterwards, also after a restart. Returns the findings.
fn repair_and_check(world: &TestServer, database: &Arc<Database>) -> Vec<FixupFinding> {
    let found = check(database).unwrap().findings;
    let repaired = repair(database).unwrap();
    assert!(repaired.repaired && repaired.findings == found, "{found:?}");
    assert_sound(database);
    let again = world.restarted();
    let database = again.databases.database_open("docs.nsf").unwrap();
    assert_sound(&database);
    let access = reader(&database, ANN).unwrap();
    let reading = access.read().unwrap();
    reading.for_each_note(NoteId(0), &mut |header| reading.note(header.note).map(|_| true)).unwrap();
    found
}

#[test]
fn derived_tables_with_flipped_bits_are_rebuilt() {
    for table in [Table::Unid, Table::ByModseq, Table::View, Table::Tree] {
        let (world, database) = full_database();
        let before = keys(&world, &database, table);
        flip(&world, table, &[before[0].clone(), before[before.len() / 2].clone(), before[before.len() - 1].clone()]);
        let found = repair_and_check(&world, &database);
        assert!(!found.is_empty() && found.iter().all(FixupFinding::is_repairable), "{table:?}: {found:?}");
        assert_eq!(keys(&world, &database, table).len(), before.len(), "{table:?}");
        world.write(&database, ANN, |writer| writer.note_create(NewNote::document(Vec::new()))).unwrap();
    }
}

#[test]
fn damage_makes_clients_compare_everything() {
    let change = |database: &Database| [&database.number().to_key()[..], &[0, 0, 0, 0, 0, 0, 0, 3]].concat();
    let header = |database: &Database| [&database.number().to_key()[..], &NoteId(30).to_key(), &[0]].concat();
    check_compares_everything(62, |world, database| {
        let victim = keys(world, database, Table::ByModseq)[5].clone();
        flip(world, Table::ByModseq, &[victim]);
    });
    // The damaged note leaves its folders, and no record says which folders these were.
    check_compares_everything(61, |world, database| flip(world, Table::Summary, &[header(database)]));
    // The state after the removal of a damaged block: the missing records may have recorded departures from folders.
    check_compares_everything(62, |world, database| {
        let range = KeyRange::prefix(&change(database));
        damage(world, |batch| batch.delete_range(Table::ByModseq, &range.start, &range.end.unwrap()));
    });
}

fn check_compares_everything(changes: usize, break_it: impl Fn(&TestServer, &Database)) {
    let (world, database) = full_database();
    let since = database.modseq();
    break_it(&world, &database);
    repair_and_check(&world, &database);
    let access = reader(&database, ANN).unwrap();
    let reading = access.read().unwrap();
    assert!(!reading.is_complete_since(since) && reading.is_complete_since(reading.modseq()));
    let mut count = 0;
    let each = &mut |_| {
        count += 1;
        Ok(())
    };
    reading.changes(Modseq(0), each).unwrap();
    assert_eq!(count, changes, "every note that is left, the deleted one, the folder and the access control list");
}

#[test]
fn notes_with_flipped_bits_are_quarantined() {
    let (world, database) = full_database();
    let key = |note: u32, part: &[u8]| [&database.number().to_key()[..], &NoteId(note).to_key(), part].concat();
    flip(&world, Table::Summary, &[key(10, &[0]), key(11, &[1]), key(12, &[0]), key(12, &[1])]);
    flip(&world, Table::Body, &[key(20, &[0; 6])]);
    let uses = || {
        let mut uses = std::collections::BTreeSet::new();
        notes::fixup::blob_uses(&database, &mut |owner, blob| {
            uses.insert((owner, blob));
        })
        .unwrap();
        uses
    };
    let before = uses();
    assert_eq!(before.len(), 59, "every remaining note uses its attachment");
    let found = repair_and_check(&world, &database);
    let lost = |note, record| FixupFinding::NoteDamaged { note: NoteId(note), record };
    for finding in [lost(10, "header"), lost(11, "summary"), lost(12, "header"), lost(20, "body")] {
        assert!(found.contains(&finding), "{finding}: {found:?}");
    }
    assert_eq!(uses(), before, "notes in quarantine keep their attachments");
    let access = reader(&database, ANN).unwrap();
    let reading = access.read().unwrap();
    let folder = reading.folders().unwrap()[0].view;
    assert_eq!(reading.folder(folder).unwrap().totals().unwrap().count, 55);
    assert_eq!(reading.note(NoteId(10)).unwrap(), None);
    assert_eq!(reading.note(NoteId(13)).unwrap().unwrap().text("Subject"), Some("10"));
}

#[test]
fn folder_without_design_note_is_recreated() {
    for part in [0, 1] {
        let (world, database) = full_database();
        flip(&world, Table::Summary, &[[&database.number().to_key()[..], &NoteId(2).to_key(), &[part]].concat()]);
        repair_and_check(&world, &database);
        let access = reader(&database, ANN).unwrap();
        let reading = access.read().unwrap();
        let folders = reading.folders().unwrap();
        assert_eq!(folders.iter().map(|folder| folder.title.as_str()).collect::<Vec<_>>(), ["Recovered 2"]);
        assert_eq!(reading.folder(folders[0].view).unwrap().totals().unwrap().count, 59);
    }
}

#[test]
fn database_records_are_rewritten_from_memory() {
    for key in [&b"c"[..], b"k", b"d\0\0\0\x02"] {
        let (world, database) = full_database();
        flip(&world, Table::Meta, &[[&database.number().to_key()[..], key].concat()]);
        let found = repair_and_check(&world, &database);
        assert!(found.iter().all(FixupFinding::is_repairable), "{found:?}");
    }
    let (world, database) = full_database();
    flip(&world, Table::Summary, &[[&database.number().to_key()[..], &NoteId(1).to_key(), &[1]].concat()]);
    repair_and_check(&world, &database);
    let database = world.restarted().databases.database_open("docs.nsf").unwrap();
    assert!(reader(&database, "Bob/Acme").is_ok() && reader(&database, "Carol/Acme").is_err());
}

#[test]
fn missing_keywords_are_rewritten_from_memory() {
    let (world, database) = filled();
    for names in [&["Home".to_owned()][..], &["Work".to_owned()]] {
        world.write(&database, ANN, |writer| writer.marks_set(NoteId(30), Marks::SEEN, names).map(drop)).unwrap();
    }
    damage(&world, |batch| batch.delete(Table::Meta, &[&database.number().to_key()[..], b"k"].concat()));
    assert_eq!(repair_and_check(&world, &database), [FixupFinding::Keywords { lost: 0 }]);
    let database = world.restarted().databases.database_open("docs.nsf").unwrap();
    assert_eq!(database.keywords().names(), ["Work", "Home"], "also the one that no note has");
}

#[test]
fn unreadable_unread_marks_are_dropped() {
    let (world, database) = full_database();
    let victim = keys(&world, &database, Table::Unread)[0].clone();
    flip(&world, Table::Unread, &[victim]);
    let access = reader(&database, "Bob/Acme").unwrap();
    assert!(access.read().unwrap().is_read(NoteId(3)).is_err());
    let found = repair_and_check(&world, &database);
    assert!(matches!(found[..], [FixupFinding::UnreadMarks { .. }]), "{found:?}");
    assert!(!access.read().unwrap().is_read(NoteId(3)).unwrap());
}

/// Damages records of a closed database, and asserts that it opens again after a repair. Returns the findings.
fn reopened(world: &TestServer, change: impl FnOnce(&TestServer)) -> (TestServer, Vec<FixupFinding>) {
    let world = world.restarted();
    change(&world);
    let refused = world.databases.database_open("docs.nsf").err();
    let is_damage = matches!(refused, None | Some(notes::Error::Damaged { .. } | notes::Error::Store(_)));
    assert!(is_damage, "{refused:?}");
    let found = check_at(&world.databases, "docs.nsf", &mut |_, _| {}).unwrap().findings;
    assert!(!found.is_empty() || refused.is_none());
    let repaired = repair_at(&world.databases, "docs.nsf", &mut |_, _| {}).unwrap();
    assert_eq!((repaired.repaired, repaired.findings), (!found.is_empty(), found.clone()));
    assert_sound(&world.databases.database_open("docs.nsf").unwrap());
    let again = world.restarted();
    let database = again.databases.database_open("docs.nsf").unwrap();
    assert_sound(&database);
    let access = reader(&database, ANN).unwrap();
    let reading = access.read().unwrap();
    let mut documents = 0;
    let each = &mut |header: notes::NoteHeader| {
        documents += u32::from(header.class.is_document() && !header.is_stub());
        reading.note(header.note).map(|_| true)
    };
    reading.for_each_note(NoteId(0), each).unwrap();
    assert_eq!(documents, 59, "every document exists");
    (again, found)
}

/// A change that loses a record.
type RecordLoss = Box<dyn FnOnce(&TestServer)>;

/// Returns the three ways in which a record can be lost.
fn ways_to_lose(table: Table, key: Vec<u8>) -> [RecordLoss; 3] {
    let flipped = key.clone();
    let garbled = key.clone();
    let missing = key;
    [
        Box::new(move |world| flip(world, table, &[flipped])),
        Box::new(move |world| damage(world, |batch| batch.put(table, &garbled, b"rubbish"))),
        Box::new(move |world| damage(world, |batch| batch.delete(table, &missing))),
    ]
}

#[test]
fn lost_counters_are_rebuilt_without_reusing_numbers() {
    let (world, database) = full_database();
    let key = [&database.number().to_key()[..], b"c"].concat();
    let modseq = database.modseq();
    let validity = state(&database).uid_validity;
    for lose in ways_to_lose(Table::Meta, key) {
        let (world, found) = reopened(&world, lose);
        assert!(matches!(found[..], [FixupFinding::TableDamaged { table: "meta", .. }]), "{found:?}");
        let database = world.databases.database_open("docs.nsf").unwrap();
        assert!(database.modseq() > modseq);
        assert!(!reader(&database, ANN).unwrap().read().unwrap().is_complete_since(modseq));
        assert_eq!(reader(&database, ANN).unwrap().read().unwrap().counters().stubs, 1);
        let created = world.write(&database, ANN, |writer| {
            let folder = writer.folder_create("G", &[])?;
            writer.note_create(NewNote { folders: vec![folder], ..NewNote::document(Vec::new()) })
        });
        assert!(created.unwrap() > NoteId(62));
        assert!(state(&database).uid_validity >= validity);
        assert_sound(&database);
    }
}

/// Returns the state of the first folder.
fn state(database: &Arc<Database>) -> notes::FolderState {
    let access = reader(database, ANN).unwrap();
    let reading = access.read().unwrap();
    let folder = reading.folders().unwrap()[0].view;
    reading.folder(folder).unwrap().state()
}

#[test]
fn lost_keywords_are_replaced_by_placeholder_names() {
    let (world, database) = full_database();
    world.write(&database, ANN, |writer| writer.marks_set(NoteId(4), Marks::SEEN, &["Home".into()])).unwrap();
    let key = [&database.number().to_key()[..], b"k"].concat();
    let short =
        notes::Keywords::decode(&world.databases.store().get(Table::Meta, &key).unwrap().unwrap()).unwrap().encode();
    let short = short[..short.len() - 1].to_vec();
    let cut: RecordLoss = {
        let key = key.clone();
        Box::new(move |world| damage(world, |batch| batch.put(Table::Meta, &key, &short)))
    };
    let all_lost = &["damaged-0", "damaged-1"][..];
    let ways = ways_to_lose(Table::Meta, key).into_iter().map(|lose| (lose, all_lost));
    for (lose, expected) in ways.chain([(cut, &["Work", "damaged-1"][..])]) {
        let (world, found) = reopened(&world, lose);
        let lost = expected.iter().filter(|name| name.starts_with("damaged")).count();
        assert_eq!(found, [FixupFinding::Keywords { lost }]);
        let database = world.databases.database_open("docs.nsf").unwrap();
        assert_eq!(database.keywords().names(), expected);
        let marked = world.write(&database, ANN, |writer| writer.marks_set(NoteId(5), Marks::SEEN, &["Home".into()]));
        marked.unwrap();
        assert_eq!(database.keywords().names().len(), 3, "a lost name that is set again is a new keyword");
        assert_sound(&database);
    }
}

#[test]
fn lost_acl_gives_access_to_the_owner_only() {
    let (world, database) = full_database();
    let record = |part| [&database.number().to_key()[..], &NoteId(1).to_key(), &[part]].concat();
    let both: [RecordLoss; 1] = {
        let header = record(0);
        let summary = record(1);
        [Box::new(move |world| {
            damage(world, |batch| [header, summary].iter().for_each(|key| batch.delete(Table::Summary, key)))
        })]
    };
    for lose in ways_to_lose(Table::Summary, record(1)).into_iter().chain(both) {
        let (world, found) = reopened(&world, lose);
        assert_eq!(found[0], FixupFinding::AccessControlLost { manager: base::Name::new(ANN) });
        assert!(!found[0].is_repairable() && found[0].to_string().contains("only Ann/Acme has access, as the manager"));
        let database = world.databases.database_open("docs.nsf").unwrap();
        assert!(reader(&database, "Bob/Acme").is_err() && reader(&database, "").is_err());
        assert!(database.authorize::<notes::level::Manager>(&identity(ANN)).is_ok());
    }
}

#[test]
fn lost_acl_without_owner_gives_access_to_the_server() {
    let world = TestServer::new();
    let acl = notes::Acl::open_to_all(AclLevel::Editor);
    let new = notes::NewDatabase::new("all.nsf", "For all", notes::DatabaseKind::Standard, acl);
    let number = world.databases.database_create(&new).unwrap().number();
    let world = world.restarted();
    flip(&world, Table::Summary, &[[&number.to_key()[..], &NoteId(1).to_key(), &[1]].concat()]);
    let found = repair_at(&world.databases, "all.nsf", &mut |_, _| {}).unwrap().findings;
    assert_eq!(found, [FixupFinding::AccessControlLost { manager: base::Name::default() }]);
    let database = world.databases.database_open("all.nsf").unwrap();
    assert!(reader(&database, ANN).is_err());
    assert!(database.authorize::<notes::level::Manager>(&crate::fixture::server()).is_ok());
}

#[test]
fn all_database_records_may_be_lost_together() {
    let (world, database) = full_database();
    let own = |key: &[u8]| [&database.number().to_key()[..], key].concat();
    let lose = |world: &TestServer| {
        flip(world, Table::Meta, &[own(b"c"), own(b"k"), own(b"d\0\0\0\x02")]);
        flip(world, Table::Summary, &[[&own(&[])[..], &NoteId(1).to_key(), &[0]].concat(), own(b"\0\0\0\x3e\0")]);
        flip(world, Table::Unid, &[keys(world, &database, Table::Unid)[7].clone()]);
    };
    let world = world.restarted();
    lose(&world);
    assert!(world.databases.database_open("docs.nsf").is_err());
    repair_at(&world.databases, "docs.nsf", &mut |_, _| {}).unwrap();
    let database = world.restarted().databases.database_open("docs.nsf").unwrap();
    assert_sound(&database);
    assert_eq!(reader(&database, ANN).unwrap().read().unwrap().folders().unwrap().len(), 1);
}

#[test]
fn open_database_rewrites_its_acl() {
    let (world, database) = full_database();
    let key = [&database.number().to_key()[..], &NoteId(1).to_key(), &[1]].concat();
    damage(&world, |batch| batch.put(Table::Summary, &key, b"rubbish"));
    assert_eq!(repair_and_check(&world, &database), [FixupFinding::AccessControl]);
    let database = world.restarted().databases.database_open("docs.nsf").unwrap();
    assert!(reader(&database, "Bob/Acme").is_ok());
}

#[test]
fn missing_database_is_not_reported_as_damage() {
    let world = TestServer::new();
    assert!(matches!(check_at(&world.databases, "docs.nsf", &mut |_, _| {}), Err(notes::Error::NotFound { .. })));
}
