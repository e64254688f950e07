//! Damage that is done on purpose: it is found, what is derived is written again, and the rest works on.

use std::sync::Arc;

use base::{NoteId, Uid};
use notes::fixup::{Finding, check, repair};
use notes::{Database, Item, Marks, NewNote};
use store::{Batch, Direction, KeyRange, Read, Table};

use crate::world::{World, assert_sound, identity, reader};

const ANN: &str = "Ann/Acme";

fn filled() -> (World, Arc<Database>) {
    let world = World::new();
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

/// Applies a change behind the database's back.
fn damage(world: &World, change: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    change(&mut batch);
    world.notes.store().commit(&batch).unwrap();
}

fn keys(world: &World, database: &Database, table: Table) -> Vec<Vec<u8>> {
    let range = KeyRange::prefix(&database.number().to_key());
    let mut cursor = world.notes.store().scan(table, &range, Direction::Forward).unwrap();
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        keys.push(key.to_vec());
    }
    keys
}

#[test]
fn what_is_derived_is_written_again() {
    for table in [Table::Unid, Table::Bymod, Table::Children, Table::View, Table::Tree] {
        let (world, database) = filled();
        let before = keys(&world, &database, table);
        let victim = before[before.len() / 2].clone();
        damage(&world, |batch| batch.delete(table, &victim));
        let report = check(&database).unwrap();
        assert!(!report.findings.is_empty(), "{table:?}");
        assert!(report.findings.iter().all(Finding::is_repairable), "{table:?}: {:?}", report.findings);
        assert!(repair(&database).unwrap().repaired);
        assert_sound(&database);
        assert_eq!(keys(&world, &database, table).len(), before.len(), "{table:?}");
        assert_sound(&world.restarted().notes.database_open("docs.nsf").unwrap());
    }
}

#[test]
fn a_database_that_is_sound_is_left_alone() {
    let (_, database) = filled();
    let before = database.modseq();
    assert!(!repair(&database).unwrap().repaired);
    assert_eq!(database.modseq(), before);
}

#[test]
fn wrong_counters_are_set_right() {
    let (world, database) = filled();
    let key = [&database.number().to_key()[..], b"c"].concat();
    let mut counters =
        notes::counters::Counters::decode(&world.notes.store().get(Table::Meta, &key).unwrap().unwrap()).unwrap();
    counters.notes += 5;
    counters.bytes = 1;
    damage(&world, |batch| batch.put(Table::Meta, &key, &counters.encode()));
    let findings = check(&database).unwrap().findings;
    assert!(matches!(findings[..], [Finding::Counters { what: "notes", .. }, Finding::Counters { what: "bytes", .. }]));
    repair(&database).unwrap();
    assert_sound(&database);
}

#[test]
fn a_damaged_note_does_not_take_the_others_with_it() {
    let (world, database) = filled();
    let key = [&database.number().to_key()[..], &NoteId(100).to_key(), &[0]].concat();
    damage(&world, |batch| batch.put(Table::Summary, &key, b"rubbish"));
    let findings = check(&database).unwrap().findings;
    assert!(findings.contains(&Finding::NoteDamaged { note: NoteId(100), record: "header" }));
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
