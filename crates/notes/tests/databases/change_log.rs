//! Changes that come from memory equal those in the table, for every snapshot and every position.

use std::sync::Arc;
use std::time::Duration;

use base::sim::SeededRandom;
use base::{Modseq, NoteId, Random, ViewId};
use notes::change_log::{self, ChangeCursor, ChangeEntry};
use notes::{
    Access, AclLevel, Database, DatabaseOptions, DatabaseSnapshot, Error, Item, Marks, NewNote, Writer, level, purge,
    soft_deletion,
};
use store::{Direction, KeyRange, Table, TableReader};

use crate::fixture::{TestServer, assert_sound, identity, server};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

/// Number of random changes of a run.
const STEPS: u64 = 120;

/// Number of snapshots that are kept while later changes are made.
const SNAPSHOTS: usize = 4;

/// A database in which random changes are made.
struct Scenario {
    world: TestServer,
    database: Arc<Database>,
    folders: Vec<ViewId>,
    /// The notes that were created, deleted ones included.
    notes: Vec<NoteId>,
    dice: SeededRandom,
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let world = TestServer::new();
        let database = world.database(&[(BOB, AclLevel::Reader)]);
        let folders = world.write(&database, ANN, |writer| {
            ["A", "B", "C"].into_iter().map(|name| writer.folder_create(name, &[])).collect::<notes::Result<Vec<_>>>()
        });
        if seed.is_multiple_of(2) {
            let access: Access<level::Manager> = database.authorize(&identity(ANN)).expect("Ann may");
            let options = DatabaseOptions { keep_deleted_hours: Some(1), ..DatabaseOptions::default() };
            world.databases.database_options_set(&access, "", options).expect("Ann may");
        }
        let folders = folders.expect("Ann may");
        Self { world, database, folders, notes: Vec::new(), dice: SeededRandom::new(seed) }
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.dice.below(bound as u64)).expect("it is below a usize")
    }

    fn folder(&self) -> ViewId {
        self.folders[self.below(self.folders.len())]
    }

    /// Makes a random change, or several in one transaction.
    fn step(&mut self) {
        match self.below(20) {
            0 => self.purge(),
            1 => self.fail(),
            2 => self.change_unread_marks(),
            3 => {
                let count = self.below(32) + 1;
                self.create(count);
            }
            4..8 => self.create(1),
            _ if self.notes.is_empty() => self.create(2),
            _ => {
                let count = self.below(4) + 1;
                let changes: Vec<_> = (0..count).map(|_| self.choose()).collect();
                let changed = self
                    .world
                    .write(&self.database, ANN, |writer| changes.iter().try_for_each(|one| one.apply(writer)));
                changed.expect("Ann may change everything");
            }
        }
    }

    fn create(&mut self, count: usize) {
        let folder = self.folder();
        let created = self.world.write(&self.database, ANN, |writer| {
            let new = || NewNote { folders: vec![folder], ..NewNote::document(Vec::new()) };
            (0..count).map(|_| writer.note_create(new())).collect::<notes::Result<Vec<_>>>()
        });
        self.notes.extend(created.expect("Ann may create notes"));
    }

    fn choose(&self) -> NoteChange {
        let note = self.notes[self.below(self.notes.len())];
        let mut folders = [self.folder(), self.folder()];
        if self.below(2) == 0 {
            folders[1] = folders[0];
        }
        NoteChange { note, folders, kind: self.below(8), marks: Marks(self.dice.below(32) as u8) }
    }

    /// Purges what is older than a random age: everything, or nothing.
    fn purge(&self) {
        if self.below(2) == 0 {
            self.world.clock.advance(Duration::from_secs(91 * 86_400));
        }
        soft_deletion::purge_deleted(&self.database).expect("purged");
        purge::purge(&self.database).expect("purged");
    }

    /// Makes changes that are not committed: the caller gives up, or the disk is full.
    fn fail(&self) {
        let new = || NewNote { folders: self.folders.clone(), ..NewNote::document(Vec::new()) };
        let given_up = self.world.write(&self.database, ANN, |writer| {
            writer.note_create(new())?;
            Err::<(), _>(Error::invalid("the change", "it is given up"))
        });
        assert!(given_up.is_err());
        let faults = self.world.memory.faults();
        faults.set_capacity(0);
        let refused = self.world.write(&self.database, ANN, |writer| writer.note_create(new()));
        faults.free_disk();
        assert!(matches!(refused, Err(Error::Store(store::Error::Full(_)))), "{refused:?}");
    }

    /// Makes a transaction without changes of notes.
    fn change_unread_marks(&self) {
        self.world.write(&self.database, BOB, |writer| writer.mark_read(&self.notes)).expect("Bob may read");
    }

    /// Returns the entries of the change log in the table.
    fn stored(&self) -> Vec<ChangeEntry> {
        let range = KeyRange::prefix(&self.database.number().to_key());
        let mut cursor =
            self.world.databases.store().scan(Table::ByModseq, &range, Direction::Forward).expect("a table");
        let mut entries = Vec::new();
        while let Some((key, value)) = cursor.next().expect("sound") {
            entries.push(change_log::decode(key, value).expect("sound"));
        }
        entries
    }
}

/// A change of one note.
struct NoteChange {
    note: NoteId,
    folders: [ViewId; 2],
    kind: usize,
    marks: Marks,
}

impl NoteChange {
    fn apply(&self, writer: &mut Writer<'_, '_>) -> notes::Result<()> {
        let Self { note, folders: [from, to], kind, marks } = *self;
        let Some(header) = writer.header(note)? else {
            let is_restorable = kind == 0 && writer.note_restore(note).is_ok();
            return if is_restorable || kind > 1 { Ok(()) } else { writer.note_delete_permanently(note).map(drop) };
        };
        match kind {
            0 => writer.note_delete_permanently(note).map(drop),
            1 => writer.note_delete(note).map(drop),
            2 => writer.note_update(note, header.sequence, &[Item::text("Marks", marks.0.to_string())], &[]).map(drop),
            3 => writer.folder_remove(note, from).map(drop),
            4 => writer.folder_add(note, to).map(drop),
            5 => {
                writer.folder_remove(note, from)?;
                writer.folder_add(note, to).map(drop)
            }
            // The note leaves all its folders in one transaction.
            6 => header.folders.iter().try_for_each(|place| writer.folder_remove(note, place.folder).map(drop)),
            _ => writer.marks_set(note, marks, &[]).map(drop),
        }
    }
}

/// Compares what a snapshot returns after random positions with the entries that the table had at that time.
fn compare(reading: &DatabaseSnapshot<'_>, stored: &[ChangeEntry], dice: &SeededRandom) -> notes::Result<()> {
    let last = reading.modseq().0;
    // Positions among the last changes, and any position.
    for reach in [8, last + 2] {
        let since = Modseq((last + 1).saturating_sub(dice.below(reach)));
        let expected: Vec<&ChangeEntry> = stored.iter().filter(|entry| entry.modseq > since).collect();
        let mut found = Vec::new();
        reading.changes(since, &mut |entry| {
            found.push(entry);
            Ok(())
        })?;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "after {since} of {last}");
        let limit = usize::try_from(dice.below(40)).expect("small") + 1 + expected.len() / 16;
        let whole = reading.changes_by_transaction(since, limit)?;
        let end = (limit..expected.len()).find(|index| expected[*index].modseq != expected[*index - 1].modseq);
        assert_eq!(whole.iter().collect::<Vec<_>>(), &expected[..end.unwrap_or(expected.len())], "{since} {limit}");
        let mut paged = Vec::new();
        let mut cursor = ChangeCursor::after(since);
        loop {
            let page = reading.changes_page(cursor, limit)?;
            assert!(page.entries.len() <= limit, "{since} {limit}");
            paged.extend(page.entries);
            cursor = page.next;
            if cursor.is_at_transaction_boundary() && cursor.modseq >= reading.modseq() {
                break;
            }
        }
        assert_eq!(paged.iter().collect::<Vec<_>>(), expected, "pages after {since} of {last}");
    }
    Ok(())
}

#[test]
fn changes_in_memory_equal_those_in_the_table() {
    for seed in 0..12 {
        println!("seed {seed}");
        let mut scenario = Scenario::new(seed);
        let access: Access<level::Reader> = scenario.database.authorize(&server()).expect("the server may");
        let mut snapshots: Vec<(DatabaseSnapshot<'_>, Vec<ChangeEntry>)> = Vec::new();
        for _ in 0..STEPS {
            scenario.step();
            let reading = access.read().expect("a snapshot");
            let stored = scenario.stored();
            compare(&reading, &stored, &scenario.dice).expect("sound");
            if snapshots.len() < SNAPSHOTS {
                snapshots.push((reading, stored));
            } else if scenario.below(8) == 0 {
                let index = scenario.below(SNAPSHOTS);
                snapshots[index] = (reading, stored);
            }
            for (older, stored) in &snapshots {
                compare(older, stored, &scenario.dice).expect("sound");
            }
        }
        assert_sound(&scenario.database);
    }
}
