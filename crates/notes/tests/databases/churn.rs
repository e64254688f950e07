//! Reads after many keys have come and gone cost what is alive, counted in the engine's own steps.
//!
//! Each test plays a history on the real engine and counts the tombstones that reads step over. The first read of a
//! range may step over what was deleted since the last one; every later read must not.

use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{Modseq, Name, NoteId, Random, Uid, ViewId};
use notes::view::note::ViewNote;
use notes::view::sort_key::SortDirection;
use notes::view::view_format::{Column, ViewDesign};
use notes::{
    Access, Acl, Database, DatabaseKind, DatabaseSnapshot, Databases, Item, ItemValue, Marks, NewDatabase, NewNote,
    level,
};
use store::rocks::tombstones_passed;
use store::{KeyRange, Store, StoreOptions, SyncMode, Table};

use crate::fixture::{column, identity};

const ANN: &str = "Ann/Acme";
/// Tombstones that a read may step over in each place where something lives; the engine learns of longer runs.
const NEAR_TOMBSTONES_MAX: u64 = 16;

/// Messages of a mailbox that is listed as a whole.
const LISTED_MAX: usize = 100;

/// A database with one folder in a store on disk.
struct Fixture {
    _folder: tempfile::TempDir,
    databases: Arc<Databases>,
    database: Arc<Database>,
    mailbox: ViewId,
    /// The messages in the mailbox, by rising UID.
    alive: Vec<NoteId>,
}

impl Fixture {
    fn new(messages: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = StoreOptions { sync: SyncMode::Off, ..StoreOptions::default() };
        let store = Arc::new(Store::open(folder.path(), &options).expect("a new store"));
        let databases = Databases::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(1)));
        let acl = Acl::private(&Name::new(ANN));
        let new = NewDatabase::new("mail.nsf", "Mail", DatabaseKind::Standard, acl);
        let database = databases.database_create(&new).expect("created");
        let mut fixture = Self { _folder: folder, databases, database, mailbox: ViewId(0), alive: Vec::new() };
        fixture.mailbox = fixture.write(|writer| writer.folder_create("Mailbox", &[]));
        (0..messages).for_each(|_| fixture.append());
        fixture
    }

    fn write<T>(&self, change: impl FnOnce(&mut notes::Writer<'_, '_>) -> notes::Result<T>) -> T {
        let access: Access<level::Depositor> = self.database.authorize(&identity(ANN)).expect("Ann may write");
        let accesses = [&access];
        let mut transaction = self.databases.transaction(&accesses).expect("a transaction");
        let outcome = change(&mut transaction.writer(0)).expect("changed");
        transaction.commit().expect("committed");
        outcome
    }

    fn append(&mut self) {
        let folders = vec![self.mailbox];
        let new = NewNote { folders, ..NewNote::document(vec![Item::text("Subject", "passing")]) };
        let note = self.write(|writer| writer.note_create(new));
        self.alive.push(note);
    }

    fn expunge(&mut self, index: usize) {
        let note = self.alive.remove(index);
        self.write(|writer| writer.note_delete(note));
    }

    /// Runs a read on a fresh snapshot. Returns the tombstones that it stepped over.
    fn steps(&self, read: impl FnOnce(&DatabaseSnapshot<'_>)) -> u64 {
        let access: Access<level::Reader> = self.database.authorize(&identity(ANN)).expect("Ann may read");
        let reading = access.read().expect("a snapshot");
        let before = tombstones_passed();
        read(&reading);
        tombstones_passed() - before
    }

    /// Asks for positions, entries and sums at both ends and in the middle of the mailbox.
    fn read_mailbox(&self) -> u64 {
        self.steps(|reading| {
            let folder = reading.folder(self.mailbox).expect("the mailbox");
            let count = folder.totals().expect("totals").count;
            assert_eq!(count, self.alive.len() as u64);
            for position in [0, count / 2, count - 1] {
                let uid = folder.uid_at(position).expect("sound").expect("a message");
                assert_eq!(folder.rank(uid).expect("sound"), position);
            }
            let first = folder.unseen_at(0).expect("sound").expect("a message");
            assert!(!first.marks.contains(Marks::SEEN));
            // A large folder that is listed as a whole stays in memory; then the index would not be read again.
            if self.alive.len() <= LISTED_MAX {
                let mut listed = Vec::new();
                let list = &mut |entry: notes::FolderEntry| {
                    listed.push(entry.note);
                    Ok(true)
                };
                folder.for_each_entry(Uid(1), list).expect("sound");
                assert_eq!(listed, self.alive);
            }
        })
    }

    fn read_changes(&self, since: Modseq) -> u64 {
        self.steps(|reading| reading.changes(since, &mut |_| Ok(())).expect("sound"))
    }
}

#[test]
fn mailbox_reads_cost_only_present_messages() {
    // More messages than are loaded into memory, so that every question goes to the index.
    for (messages, seed) in [(300, 1), (300, 2), (30, 3)] {
        let mut fixture = Fixture::new(messages);
        let dice = SeededRandom::new(seed);
        let mut passed = 0_u64;
        let mut steps = 0;
        for round in 0..60 {
            for _ in 0..25 {
                fixture.append();
                // Neighbors, so that long runs of deleted keys arise in the middle too.
                let index = messages / 2 + usize::try_from(dice.below(3)).expect("small");
                fixture.expunge(if round % 2 == 0 { index } else { 0 });
                passed += 1;
            }
            steps += fixture.read_mailbox();
        }
        assert!(
            steps <= 4 * passed,
            "seed {seed}: all reads together step over each deletion a few times: {steps} of {passed}"
        );
        let again = fixture.read_mailbox();
        assert!(again <= 10 * NEAR_TOMBSTONES_MAX, "seed {seed}: {again} steps");
    }
}

#[test]
fn change_reads_cost_only_changed_documents() {
    let fixture = Fixture::new(20);
    let since = fixture.steps_modseq();
    for round in 0..100 {
        for note in &fixture.alive {
            let marks = if round % 2 == 0 { Marks::SEEN } else { Marks::default() };
            fixture.write(|writer| writer.marks_set(*note, marks, &[]));
        }
    }
    let first = fixture.read_changes(since);
    assert!(first <= 2_100, "the first read steps over each place that was left once: {first}");
    let again = fixture.read_changes(since);
    assert!(again <= NEAR_TOMBSTONES_MAX, "{again} steps");
}

#[test]
fn last_changes_are_read_without_the_engine() {
    let mut fixture = Fixture::new(10);
    let since = fixture.steps_modseq();
    for round in 0..20 {
        for note in &fixture.alive {
            let marks = if round % 2 == 0 { Marks::SEEN } else { Marks::default() };
            fixture.write(|writer| writer.marks_set(*note, marks, &[]));
        }
    }
    assert_eq!(fixture.read_changes(since), 0, "a scan would step over the earlier changes of the notes");
    // The same store, opened again: nothing is in memory.
    let store = Arc::clone(fixture.databases.store());
    let reopened = Databases::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(2)));
    fixture.database = reopened.database_open("mail.nsf").expect("it exists");
    assert!(fixture.read_changes(since) > 0, "the changes before the opening are scanned");
}

#[test]
fn folder_reads_cost_only_entries_left_after_deletion() {
    let mut fixture = Fixture::new(2_000);
    (0..1_000).for_each(|_| fixture.expunge(0));
    let first = fixture.read_mailbox();
    assert!(first <= 2_000, "the first read steps over each deletion once or twice: {first}");
    let again = fixture.read_mailbox();
    assert!(again <= 10 * NEAR_TOMBSTONES_MAX, "{again} steps");
    fixture.compact();
    let compacted = fixture.read_mailbox();
    assert!(compacted <= 10 * NEAR_TOMBSTONES_MAX, "{compacted} steps after a compaction");
}

#[test]
fn view_reads_cost_only_present_rows_after_moves() {
    let fixture = Fixture::new(200);
    let column = Column { sort: Some(SortDirection::Ascending), ..column("Number") };
    let design = ViewDesign { columns: vec![column], ..ViewDesign::default() };
    let view = ViewNote { title: "All".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() };
    let view = fixture.write(|writer| writer.view_create(&view));
    let dice = SeededRandom::new(5);
    let mut moved = 0;
    for _ in 0..40 {
        for notes in fixture.alive.clone().chunks(20) {
            fixture.move_documents(notes, &dice);
            fixture.follow(view);
            moved += notes.len() as u64;
        }
    }
    let first = fixture.read_view(view);
    assert!(first <= 4 * moved, "the first read steps over each place a few times: {first} of {moved}");
    let again = fixture.read_view(view);
    // Forty places were left beside each row; runs of at most sixteen are stepped over.
    let rows_read = 3 * 20;
    assert!(again <= rows_read * NEAR_TOMBSTONES_MAX, "{again} steps");
    fixture.compact();
    let compacted = fixture.read_view(view);
    assert!(compacted <= 10 * NEAR_TOMBSTONES_MAX, "{compacted} steps after a compaction");
}

impl Fixture {
    fn compact(&self) {
        let all = KeyRange::all();
        Table::ALL.iter().for_each(|table| self.databases.store().engine().compact(*table, &all).expect("compacted"));
    }

    fn reader(&self) -> Access<level::Reader> {
        self.database.authorize(&identity(ANN)).expect("Ann may read")
    }

    /// Assigns a random number to each document, by which the view sorts.
    fn move_documents(&self, notes: &[NoteId], dice: &SeededRandom) {
        self.write(|writer| {
            for note in notes {
                let sequence = writer.header(*note)?.expect("the document exists").sequence;
                let number = Item::summary("Number", ItemValue::Number(dice.below(1_000_000) as f64));
                writer.note_update(*note, sequence, &[number], &[])?;
            }
            Ok(())
        });
    }

    fn follow(&self, view: NoteId) {
        assert!(self.reader().view_refresh(view, 1_000).expect("refreshed").complete);
    }

    /// Reads a page at the beginning, in the middle and at the end of a view.
    fn read_view(&self, view: NoteId) -> u64 {
        self.steps(|reading| {
            let opened = reading.view(view).expect("the view");
            let rows = reading.view_rows(&opened, 0).expect("rows");
            let count = rows.count().expect("sound");
            assert_eq!(count, self.alive.len() as u64);
            for position in [0, count / 2, count - 20] {
                assert_eq!(rows.page(position, 20).expect("sound").len(), 20);
            }
        })
    }

    fn steps_modseq(&self) -> Modseq {
        let access: Access<level::Reader> = self.database.authorize(&identity(ANN)).expect("Ann may read");
        access.read().expect("a snapshot").modseq()
    }
}
