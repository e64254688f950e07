//! Databases of an older structure and of a newer one, and the effect of an upgrade.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Name, NoteId};
use notes::{
    Access, Acl, AclEntry, AclFlags, AclLevel, Database, DatabaseRecord, Item, ItemValue, Marks, NewNote, NoteFlags,
    NoteHeader, OdsVersion, SettingTimes, Summary, Upgrade, UpgradeReport, fixup, level,
};
use store::{Batch, Direction, KeyRange, Table, TableReader};

use crate::fixture::{TestServer, assert_sound, identity, server};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const PATH: &str = "docs.nsf";

/// Number of documents in the old database. Every fourth is public, and the last public one is soft-deleted.
const DOCUMENTS: usize = 1_300;
const PUBLIC: usize = DOCUMENTS / 4;

/// Number of notes that an upgrade must rewrite: the public ones and the ACL.
const OLD_NOTES: u64 = PUBLIC as u64 + 1;

type Contents = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

/// Returns all records of the store.
fn contents(world: &TestServer) -> Contents {
    let mut found = Contents::new();
    for table in Table::ALL {
        let store = world.databases.store();
        let mut cursor = store.scan(table, &KeyRange::all(), Direction::Forward).expect("a scan");
        while let Some((key, value)) = cursor.next().expect("a sound store") {
            found.insert((table, key.to_vec()), value.to_vec());
        }
    }
    found
}

/// Returns the records without the counters and the instances of the database, which the last step of an upgrade
/// writes.
fn of_notes(contents: Contents) -> Contents {
    let is_of_database = |key: &[u8]| matches!(key.get(4), Some(b'c' | b'i'));
    contents.into_iter().filter(|((table, key), _)| *table != Table::Meta || !is_of_database(key)).collect()
}

fn commit(world: &TestServer, batch: &Batch) {
    let store = world.databases.store();
    store.durable(store.commit(batch).expect("it is written")).wait().expect("it is durable");
}

fn manager(database: &Arc<Database>) -> Access<level::Manager> {
    database.authorize(&identity(ANN)).expect("Ann manages it")
}

/// Creates a database in the format before structure numbers. Returns the world after a restart, and the contents that
/// an upgrade must produce.
fn old_world() -> (TestServer, Contents) {
    let world = TestServer::new();
    let database = world.database(&[]);
    let mut acl = Acl::private(&Name::new(ANN));
    acl.entries.push(AclEntry { flags: AclFlags::PUBLIC_READER, ..AclEntry::new(BOB, AclLevel::NoAccess) });
    let record = database.record();
    let options = notes::DatabaseOptions { keep_deleted_hours: Some(9), ..record.options };
    world.databases.database_options_set(&manager(&database), "Documents", options).expect("Ann may");
    let created = world.write(&database, ANN, |writer| {
        writer.acl_set(acl)?;
        for number in 0..DOCUMENTS {
            let public = (number % 4 == 0).then(|| Item::text("$PublicAccess", "1"));
            let items = std::iter::once(Item::text("Subject", number.to_string())).chain(public).collect();
            writer.note_create(NewNote::document(items))?;
        }
        let last = NoteId(2 + (PUBLIC as u32 - 1) * 4);
        Ok(last)
    });
    let last = created.expect("Ann may");
    assert!(world.write(&database, ANN, |writer| writer.note_delete(last)).expect("Ann may"));
    let wanted = without_times_of_settings(contents(&world));
    commit(&world, &downgrade_batch(&world, &database));
    (world.restarted(), wanted)
}

/// Removes the times of the settings that replicas share: older structures do not have them.
fn without_times_of_settings(mut contents: Contents) -> Contents {
    for ((_, key), value) in contents.iter_mut().filter(|((table, _), _)| *table == Table::Catalog) {
        if key[0] == b'p' {
            let record = DatabaseRecord::decode(value).expect("a record");
            *value = DatabaseRecord { setting_times: SettingTimes::default(), ..record }.encode();
        }
    }
    contents
}

/// Returns the changes that convert the present formats back to the oldest.
fn downgrade_batch(world: &TestServer, database: &Database) -> Batch {
    let mut batch = Batch::new();
    for ((table, key), value) in contents(world) {
        let is_own = key.starts_with(&database.number().to_key());
        if table == Table::Summary && is_own && key[8] == 0 {
            let mut header = NoteHeader::decode(NoteId(0), &value).expect("a header");
            header.flags = header.flags.difference(NoteFlags::PUBLIC);
            batch.put(table, &key, &header.encode());
        } else if table == Table::Summary && is_own && key[4..8] == [0, 0, 0, 1] {
            let mut summary = Summary::decode(&value).expect("a summary");
            let ItemValue::MimePart(list) = &mut summary.items[0].value else { panic!("a list") };
            list[0] = 1;
            list.remove(2);
            batch.put(table, &key, &summary.encode());
        } else if table == Table::Catalog && key[0] == b'p' {
            let record = DatabaseRecord::decode(&value).expect("a record");
            batch.put(table, &key, &DatabaseRecord { ods: OdsVersion::OLDEST, ..record }.encode());
        }
    }
    batch
}

/// Returns the number of documents that Bob may read, which are the public ones.
fn seen_by_bob(database: &Arc<Database>) -> usize {
    let access: Access<level::Public> = database.authorize(&identity(BOB)).expect("Bob may read public documents");
    let mut count = 0;
    let mut each = |_| {
        count += 1;
        Ok(true)
    };
    access.read_public().expect("a snapshot").for_each_note(NoteId(0), &mut each).expect("a sound database");
    count
}

fn run(mut upgrade: Upgrade<'_>) -> UpgradeReport {
    loop {
        let report = upgrade.step().expect("a step");
        if report.complete {
            return report;
        }
    }
}

#[test]
fn older_database_opens_and_is_upgraded() {
    let (world, wanted) = old_world();
    let database = world.databases.database_open(PATH).expect("the oldest structure is read");
    assert_eq!(database.record().ods, OdsVersion::OLDEST);
    assert_eq!(seen_by_bob(&database), 0, "old headers do not mark public documents");
    let access = manager(&database);
    let before = contents(&world);
    let planned = run(Upgrade::plan(&world.databases, &access));
    assert_eq!(contents(&world), before, "a plan changes nothing");
    assert_eq!((planned.from, planned.to), (OdsVersion::OLDEST, OdsVersion::CURRENT));
    assert_eq!((planned.notes, planned.rewritten), (DOCUMENTS as u64 + 1, OLD_NOTES));
    let modseq = database.modseq();
    assert_eq!(run(Upgrade::begin(&world.databases, &access)), planned, "the upgrade matches the plan");
    assert_eq!((database.record().ods, database.modseq()), (OdsVersion::CURRENT, modseq.next()));
    assert!(of_notes(contents(&world)) == of_notes(wanted), "only the formats have changed");
    assert_eq!(seen_by_bob(&database), PUBLIC - 1, "one is deleted");
    assert_sound(&database);
    let (written, _) = world.memory.sequences();
    let again = run(Upgrade::begin(&world.databases, &access));
    assert_eq!((again.from, again.notes, world.memory.sequences().0), (OdsVersion::CURRENT, 0, written));
}

#[test]
fn interrupted_upgrade_is_restarted() {
    let (world, wanted) = old_world();
    let steps = u64::try_from((DOCUMENTS + 1).div_ceil(500)).expect("few");
    for done in 0..=steps {
        let world = world.restarted();
        let database = world.databases.database_open(PATH).expect("it opens");
        let access = manager(&database);
        let mut upgrade = Upgrade::begin(&world.databases, &access);
        for _ in 0..done {
            upgrade.step().expect("a step");
        }
        world.memory.faults().fail_next_sync();
        let last = upgrade.step();
        assert_eq!(last.is_ok(), done == steps, "{done}: a step that is not durable fails");
        let world = world.restarted();
        let database = world.databases.database_open(PATH).expect("it opens again");
        let expected = if done == steps { OdsVersion::CURRENT } else { OdsVersion::OLDEST };
        assert_eq!(database.record().ods, expected, "{done}");
        let access = manager(&database);
        let report = run(Upgrade::begin(&world.databases, &access));
        let left =
            if done == steps { 0 } else { OLD_NOTES - (1 + done * 500 / 4).min(OLD_NOTES) + u64::from(done == 0) };
        assert_eq!(report.rewritten, left, "{done}: upgraded notes are skipped");
        assert!(of_notes(contents(&world)) == of_notes(wanted.clone()), "{done}: the result is the same");
    }
}

#[test]
fn database_stays_usable_during_an_upgrade() {
    let (world, _) = old_world();
    let database = world.databases.database_open(PATH).expect("it opens");
    let access = manager(&database);
    let mut upgrade = Upgrade::begin(&world.databases, &access);
    assert!(!upgrade.step().expect("a step").complete);
    let note = NoteId(1_002);
    let changed = world.write(&database, ANN, |writer| {
        writer.marks_set(note, Marks::FLAGGED, &[])?;
        writer.note_create(NewNote::document(vec![Item::text("$PublicAccess", "1")]))
    });
    let created = changed.expect("Ann may");
    assert_eq!(run(upgrade).rewritten, OLD_NOTES, "the new note has the present format");
    let access: Access<level::Reader> = database.authorize(&server()).expect("the server has access");
    let reading = access.read().expect("a snapshot");
    for (note, marks) in [(note, Marks::FLAGGED), (created, Marks::NONE)] {
        let header = reading.header(note).expect("sound").expect("there");
        assert_eq!((header.marks, header.flags.contains(NoteFlags::PUBLIC)), (marks, true), "{note}");
    }
    assert_sound(&database);
}

#[test]
fn unreadable_note_stops_the_upgrade_and_is_named() {
    let (world, _) = old_world();
    let database = world.databases.database_open(PATH).expect("it opens");
    let key = [&database.number().to_key()[..], &7_u32.to_be_bytes(), &[0]].concat();
    let mut batch = Batch::new();
    batch.put(Table::Summary, &key, &[9]);
    commit(&world, &batch);
    let access = manager(&database);
    let message = Upgrade::begin(&world.databases, &access).step().expect_err("it is damaged").to_string();
    assert_eq!(message, "damaged header of note 7 in docs.nsf");
    assert_eq!(database.record().ods, OdsVersion::OLDEST);
}

#[test]
fn newer_database_is_refused_unchanged() {
    let (world, _) = old_world();
    let mut record = world.databases.database_list().expect("a catalog").remove(0);
    record.ods = OdsVersion(OdsVersion::CURRENT.0 + 1);
    let mut batch = Batch::new();
    let appended = [record.encode(), b"what this program knows nothing of".to_vec()].concat();
    batch.put(Table::Catalog, b"pdocs.nsf", &appended);
    commit(&world, &batch);
    let before = contents(&world);
    let world = world.restarted();
    let expected =
        "database docs.nsf has structure 4, this program knows structures up to 3; use a newer version of doublet";
    let check = |outcome: notes::Result<()>| {
        let error = outcome.expect_err("it is newer");
        assert!(matches!(error, notes::Error::NewerOds { .. }) && !error.is_damage());
        assert_eq!(error.to_string(), expected);
    };
    check(world.databases.database_open(PATH).map(drop));
    check(world.databases.database_open_number(record.number).map(drop));
    check(fixup::check_at(&world.databases, PATH, &mut |_, _| {}).map(drop));
    check(fixup::repair_at(&world.databases, PATH, &mut |_, _| {}).map(drop));
    let new = notes::NewDatabase::new(PATH, "", notes::DatabaseKind::Standard, Acl::default());
    let taken = world.databases.database_create(&new).map(drop);
    assert!(matches!(taken, Err(notes::Error::Exists { .. })), "the path is taken");
    assert_eq!(world.databases.database_list().expect("a catalog"), [record], "it is listed");
    assert!(contents(&world) == before, "nothing has changed");
}

#[test]
fn database_of_an_older_structure_gets_no_newer_records() {
    let (world, _) = old_world();
    let database = world.databases.database_open(PATH).expect("it opens");
    let before = contents(&world);
    let unid = base::Unid([5; 16]);
    let created = world.write(&database, ANN, |writer| {
        writer.note_create(NewNote { unid: Some(unid), ..NewNote::document(vec![Item::text("Subject", "1")]) })
    });
    let note = created.expect("Ann may");
    let update = |text: &str, expected| {
        let items = [Item::text("Subject", text)];
        world.write(&database, ANN, |writer| writer.note_update(note, expected, &items, &[])).expect("Ann may")
    };
    update("2", 1);
    update("3", 2);
    world.write(&database, ANN, |writer| writer.marks_set(note, Marks::SEEN, &[])).expect("Ann may");
    world.write(&database, ANN, |writer| writer.note_delete(NoteId(4))).expect("Ann may");
    let written = contents(&world).into_iter().filter(|(key, value)| before.get(key) != Some(value));
    for ((table, key), value) in written {
        if table == Table::Summary && key[8] == 0 {
            let flags = u16::from_be_bytes([value[19], value[20]]);
            assert_eq!(flags & 0x01C0, 0, "a tail, an identifier or times of changes: {value:?}");
        }
        assert!(table != Table::Body || key[8..10] != [0xFF, 0xFF], "a record of revisions");
        let is_deletion = table == Table::Meta && key.get(4) == Some(&b's');
        assert!(!is_deletion || value[0] == 1, "a deletion with its revision");
    }
    let access = manager(&database);
    run(Upgrade::begin(&world.databases, &access));
    update("4", 3);
    assert_sound(&database);
    let reader: Access<level::Reader> = database.authorize(&identity(ANN)).expect("Ann may");
    let record = reader.read().and_then(|reading| reading.revisions(note)).expect("sound").expect("it exists");
    assert_eq!(record.changes.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["subject"]);
}
