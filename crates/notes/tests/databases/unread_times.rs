//! Times of unread marks: what a mark costs, what is not written without the option, and repairs.

use std::sync::Arc;

use base::{Modseq, NoteId};
use notes::fixup::{FixupFinding, check, repair};
use notes::{Access, AclLevel, Database, DatabaseOptions, Item, NewNote, UnreadReplication, level};
use store::{Batch, Direction, KeyRange, Table, TableReader as _};

use crate::fixture::{TestServer, assert_sound, identity, reader};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const DOCUMENTS: u32 = 1_000;

fn set_replication(world: &TestServer, database: &Arc<Database>, unread_replication: UnreadReplication) {
    let manager: Access<level::Manager> = database.authorize(&identity(ANN)).unwrap();
    let options = DatabaseOptions { unread_replication, ..database.record().options };
    world.databases.database_options_set(&manager, "Documents", options).unwrap();
}

/// Returns a database with a thousand documents that Bob may read.
fn filled(unread_replication: UnreadReplication) -> (TestServer, Arc<Database>, Vec<NoteId>) {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    set_replication(&world, &database, unread_replication);
    let create = |writer: &mut notes::Writer<'_, '_>| {
        let one = |number: u32| writer.note_create(NewNote::document(vec![Item::text("Subject", number.to_string())]));
        (0..DOCUMENTS).map(one).collect()
    };
    let notes = world.write(&database, ANN, create).unwrap();
    (world, database, notes)
}

/// Returns the records of a kind in the table `meta`.
fn records(world: &TestServer, database: &Database, kind: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
    let range = KeyRange::prefix(&[&database.number().to_key()[..], &[kind]].concat());
    let mut cursor = world.databases.store().scan(Table::Meta, &range, Direction::Forward).unwrap();
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        found.push((key.to_vec(), value.to_vec()));
    }
    found
}

fn counts(world: &TestServer, database: &Database) -> [usize; 4] {
    [b'u', b'm', b'r', b'n'].map(|kind| records(world, database, kind).len())
}

#[test]
fn marks_that_do_not_replicate_write_nothing_more() {
    for replication in [UnreadReplication::Never, UnreadReplication::Cluster] {
        let (world, database, notes) = filled(replication);
        world.write(&database, BOB, |writer| writer.mark_read(&notes)).unwrap();
        world.write(&database, BOB, |writer| writer.mark_unread(&notes[..7])).unwrap();
        assert_eq!(counts(&world, &database), [0; 4], "{replication:?}");
    }
}

#[test]
fn marks_of_all_documents_take_a_record_for_each_block() {
    let (world, database, notes) = filled(UnreadReplication::Everywhere);
    let before = database.modseq();
    world.write(&database, BOB, |writer| writer.mark_read(&notes)).unwrap();
    assert_eq!(counts(&world, &database), [4, 4, 0, 1]);
    let bytes: usize = records(&world, &database, b'u').iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(bytes < 4 * 70, "{bytes} bytes");
    // The changes of notes say nothing of it.
    let access = reader(&database, ANN).unwrap();
    let mut changes = 0;
    let mut each = |_| {
        changes += 1;
        Ok(())
    };
    access.read().unwrap().changes(before, &mut each).unwrap();
    assert_eq!(changes, 0);
    // What is known changes nothing.
    let before = database.modseq();
    world.write(&database, BOB, |writer| writer.mark_read(&notes)).unwrap();
    assert_eq!(database.modseq(), before);
    // A single mark moves its block to the end of the order.
    world.write(&database, BOB, |writer| writer.mark_unread(&notes[500..501])).unwrap();
    assert_eq!(counts(&world, &database), [4, 4, 0, 1]);
    assert_sound(&database);
    set_replication(&world, &database, UnreadReplication::Cluster);
    assert_eq!(counts(&world, &database), [0; 4], "the times are deleted");
    let access = reader(&database, BOB).unwrap();
    let reading = access.read().unwrap();
    assert!(reading.is_read(notes[499]).unwrap() && !reading.is_read(notes[500]).unwrap());
}

#[test]
fn many_times_in_a_block_bound_what_a_mark_writes() {
    let (world, database, notes) = filled(UnreadReplication::Everywhere);
    for note in &notes[..300] {
        world.write(&database, BOB, |writer| writer.mark_read(&[*note])).unwrap();
    }
    let largest = records(&world, &database, b'u').iter().map(|(_, value)| value.len()).max();
    assert!(largest.is_some_and(|bytes| (3_000..5_200).contains(&bytes)), "{largest:?} bytes");
    assert_sound(&database);
}

#[test]
fn damaged_times_are_removed_and_the_marks_stay() {
    let (world, database, notes) = filled(UnreadReplication::Everywhere);
    world.write(&database, BOB, |writer| writer.mark_read(&notes)).unwrap();
    let [times, order, _, state] = [b'u', b'm', b'r', b'n'].map(|kind| records(&world, &database, kind));
    let damages: [&dyn Fn(&mut Batch); 4] = [
        &|batch| batch.put(Table::Meta, &times[1].0, &[9]),
        &|batch| batch.delete(Table::Meta, &order[2].0),
        &|batch| batch.put(Table::Meta, &state[0].0, &[1, 0, 5]),
        &|batch| batch.put(Table::Meta, &state[0].0, &[]),
    ];
    for damage in damages {
        let mut batch = Batch::new();
        damage(&mut batch);
        world.databases.store().commit(&batch).unwrap();
        let found = check(&database).unwrap().findings;
        assert!(!found.is_empty(), "the damage is found");
        assert!(found.iter().all(|finding| matches!(finding, FixupFinding::UnreadTimes { .. })), "{found:?}");
        assert!(repair(&database).unwrap().repaired);
        assert_sound(&database);
        let access = reader(&database, BOB).unwrap();
        assert!(access.read().unwrap().is_read(notes[300]).unwrap());
    }
    assert!(database.modseq() > Modseq(0));
}
