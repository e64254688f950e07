//! Databases under many threads: no deadlock, no partly visible transaction, no missed change, and no remains of a
//! deleted database.
//!
//! The engine is the one in memory with the log's own thread, as on a server. Iterations are bounded, and no test waits
//! for time. A broken guarantee shows as a failed assertion; a missed wake-up or a deadlock shows as a test that does
//! not end.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::sync::Mutex;
use base::{Clock, Modseq, Name, NoteId, Random, Timestamp, Uid, ViewId};
use event_listener::Listener;
use notes::catalog::DatabaseOptions;
use notes::change_log::NoteChange;
use notes::view::cell::CellValue;
use notes::view::note::ViewNote;
use notes::view::reader::{ViewRow, ViewRowContents};
use notes::view::view_format::ViewDesign;
use notes::{
    Access, Acl, Database, DatabaseKind, Databases, Error, Identity, Item, ItemValue, Marks, NewDatabase, NewNote,
    Writer, fixup, level,
};
use store::memory::MemoryEngine;
use store::{Direction, KeyRange, Store, StoreOptions, SyncMode, Table, TableReader};

use crate::fixture::sorted;

const OWNER: &str = "Ann/Acme";

/// Returns the number of repetitions: `count`, or twenty times as many with `DOUBLET_SOAK`.
fn rounds(count: u64) -> u64 {
    if std::env::var_os("DOUBLET_SOAK").is_some() { count * 20 } else { count }
}

struct World {
    memory: Arc<MemoryEngine>,
    clock: Arc<SimClock>,
    databases: Arc<Databases>,
}

impl World {
    fn new(sync: SyncMode) -> Self {
        Self::over(Arc::new(MemoryEngine::new(5)), sync)
    }

    fn over(memory: Arc<MemoryEngine>, sync: SyncMode) -> Self {
        let clock = Arc::new(SimClock::new());
        let engine: Arc<dyn store::Engine> = memory.clone();
        let store = Store::with_engine(engine, &StoreOptions { sync, ..StoreOptions::default() })
            .expect("a store in memory opens");
        let databases = Databases::open(Arc::new(store), clock.clone(), Arc::new(SeededRandom::new(9)));
        Self { memory, clock, databases }
    }

    fn database(&self, path: &str) -> Arc<Database> {
        self.databases.database_create(&new_database(path)).expect("the database is created")
    }

    fn store(&self) -> &Arc<Store> {
        self.databases.store()
    }
}

fn new_database(path: &str) -> NewDatabase {
    NewDatabase::new(path, "Shared", DatabaseKind::Standard, Acl::private(&Name::new(OWNER)))
}

fn access<L: notes::Level>(database: &Arc<Database>) -> Access<L> {
    database.authorize(&Arc::new(Identity::person(OWNER))).expect("the owner may do everything")
}

fn write<T>(
    databases: &Databases,
    database: &Arc<Database>,
    change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>,
) -> notes::Result<T> {
    let access = access::<level::Depositor>(database);
    let accesses = [&access];
    let mut transaction = databases.transaction(&accesses)?;
    let outcome = change(&mut transaction.writer(0))?;
    let ticket = transaction.commit()?;
    databases.store().durable(ticket).wait()?;
    Ok(outcome)
}

fn number(value: i64) -> Vec<Item> {
    vec![Item::summary("Number", ItemValue::Number(value as f64))]
}

fn number_of(note: &notes::Note) -> i64 {
    match note.item("Number").map(|item| &item.value) {
        Some(ItemValue::Number(number)) => *number as i64,
        other => panic!("expected a number, found {other:?}"),
    }
}

fn assert_sound(database: &Database) {
    assert_eq!(fixup::check(database).expect("a check runs").findings, [], "the database is sound");
}

/// The first note after the ACL.
const NOTE: NoteId = NoteId(2);

/// Moves an amount from the first of some databases to the others, in one transaction.
fn shift(databases: &Databases, changed: &[&Arc<Database>], amount: i64) -> notes::Result<()> {
    let accesses: Vec<_> = changed.iter().map(|database| access::<level::Depositor>(database)).collect();
    let accesses: Vec<&Access<_>> = accesses.iter().collect();
    let mut transaction = databases.transaction(&accesses)?;
    let others = changed.len() as i64 - 1;
    for index in 0..changed.len() {
        let mut writer = transaction.writer(index);
        let note = writer.note(NOTE)?.expect("the note was created at the start");
        let more = if index == 0 { -amount * others } else { amount };
        writer.note_update(NOTE, note.header.sequence, &number(number_of(&note) + more), &[])?;
    }
    transaction.commit().map(drop)
}

/// Returns the sum over all databases, or `None` if anything changed meanwhile.
fn sum(databases: &[Arc<Database>]) -> Option<i64> {
    let accesses: Vec<_> = databases.iter().map(access::<level::Reader>).collect();
    let readings: Vec<_> = accesses.iter().map(|access| access.read().expect("a snapshot")).collect();
    let unchanged = |(access, reading): (&Access<level::Reader>, &notes::DatabaseSnapshot<'_>)| {
        access.read().expect("a snapshot").modseq() == reading.modseq()
    };
    let same = accesses.iter().zip(&readings).all(unchanged);
    let total = readings.iter().map(|reading| number_of(&reading.note(NOTE).expect("sound").expect("there"))).sum();
    same.then_some(total)
}

#[test]
fn overlapping_transactions_finish_and_are_atomic() {
    let world = World::new(SyncMode::Group);
    let databases: Vec<_> = (0..5).map(|index| world.database(&format!("d{index}.nsf"))).collect();
    for database in &databases {
        write(&world.databases, database, |writer| writer.note_create(NewNote::document(number(100)))).unwrap();
    }
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..4 {
            let world = &world;
            let databases = &databases;
            let done = &done;
            scope.spawn(move || {
                let random = SeededRandom::new(thread);
                for _ in 0..rounds(300) {
                    let mut chosen: Vec<&Arc<Database>> = databases.iter().collect();
                    for index in 0..chosen.len() {
                        let other = random.below(chosen.len() as u64) as usize;
                        chosen.swap(index, other);
                    }
                    chosen.truncate(2 + random.below(3) as usize);
                    shift(&world.databases, &chosen, random.below(10) as i64).unwrap();
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        while done.load(Ordering::SeqCst) < 4 {
            assert!(sum(&databases).is_none_or(|sum| sum == 500), "a transaction is seen whole or not at all");
        }
    });
    assert_eq!(sum(&databases), Some(500));
    databases.iter().for_each(|database| assert_sound(database));
}

#[test]
fn first_of_concurrent_saves_wins() {
    let world = World::new(SyncMode::Group);
    let database = world.database("d.nsf");
    write(&world.databases, &database, |writer| writer.note_create(NewNote::document(number(0)))).unwrap();
    let saved = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..rounds(200) {
                    let read = access::<level::Reader>(&database).read().unwrap().note(NOTE).unwrap().expect("there");
                    let more = number(number_of(&read) + 1);
                    match write(&world.databases, &database, |w| w.note_update(NOTE, read.header.sequence, &more, &[]))
                    {
                        Ok(_) => drop(saved.fetch_add(1, Ordering::SeqCst)),
                        Err(Error::Conflict { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let note = access::<level::Reader>(&database).read().unwrap().note(NOTE).unwrap().expect("there");
    assert_eq!(number_of(&note) as u64, saved.into_inner(), "no save was lost");
}

/// The contents of a folder as a reader sees them.
type FolderContents = BTreeMap<Uid, (NoteId, Marks, Modseq)>;

/// Reads a folder and checks its counts against its entries.
fn read_folder(reading: &notes::DatabaseSnapshot<'_>, folder: ViewId) -> FolderContents {
    let reader = reading.folder(folder).expect("the folder exists");
    let mut seen = FolderContents::new();
    let mut entries = Vec::new();
    reader
        .for_each_entry(Uid(0), &mut |entry| {
            seen.insert(entry.uid, (entry.note, entry.marks, entry.modseq));
            entries.push(entry);
            Ok(true)
        })
        .expect("entries can be read");
    let totals = reader.totals().expect("counts can be read");
    assert_eq!(totals.count, entries.len() as u64);
    let having = |mark: Marks| entries.iter().filter(|entry| entry.marks.contains(mark)).count() as u64;
    assert_eq!((totals.unseen, totals.deleted), (totals.count - having(Marks::SEEN), having(Marks::DELETED)));
    assert_eq!(totals.size, entries.iter().map(|entry| entry.size).sum::<u64>());
    if let Some(entry) = entries.last() {
        assert_eq!(reader.rank(entry.uid).unwrap(), totals.count - 1);
        assert_eq!(reader.uid_at(totals.count - 1).unwrap(), Some(entry.uid));
        let header = reading.header(entry.note).unwrap().expect("an entry has its note");
        assert_eq!((header.marks, header.uid_in(folder)), (entry.marks, Some(entry.uid)));
    }
    assert!(reader.state().highest_modseq <= reading.modseq());
    seen
}

/// Applies the changes after `since` to the contents that were read then.
fn apply_changes(
    reading: &notes::DatabaseSnapshot<'_>,
    folder: ViewId,
    since: Modseq,
    mut seen: FolderContents,
) -> FolderContents {
    let reader = reading.folder(folder).expect("the folder exists");
    reading
        .changes(since, &mut |entry| {
            let memberships = match &entry.change {
                NoteChange::Changed { folders } | NoteChange::Deleted { folders, .. } => folders.clone(),
                NoteChange::Left { from, .. } => vec![*from],
            };
            for membership in memberships.iter().filter(|membership| membership.folder == folder) {
                seen.remove(&membership.uid);
                if let Some(now) = reader.entry(membership.uid)? {
                    seen.insert(now.uid, (now.note, now.marks, now.modseq));
                }
            }
            Ok(())
        })
        .expect("the order of changes can be read");
    seen
}

/// Makes one random change to a folder.
fn random_change(
    writer: &mut Writer<'_, '_>,
    random: &SeededRandom,
    folders: [ViewId; 2],
    thread: u64,
) -> notes::Result<()> {
    let from = folders[random.below(2) as usize];
    let mut notes = Vec::new();
    writer.folder_read(from)?.for_each_entry(Uid(0), &mut |entry| {
        notes.push(entry.note);
        Ok(true)
    })?;
    let choice = if notes.len() < 5 { 0 } else { random.below(4) };
    let victim = if notes.is_empty() { NoteId(0) } else { notes[random.below(notes.len() as u64) as usize] };
    match choice {
        0 => {
            let marks = Marks(random.below(16) as u8);
            let new = NewNote { folders: vec![from], marks, ..NewNote::document(number(random.below(1 << 40) as i64)) };
            writer.note_create(new).map(drop)
        }
        1 => writer.note_delete(victim).map(drop),
        2 => {
            let keyword = format!("Key{thread}-{}", random.below(8));
            writer.marks_set(victim, Marks(random.below(16) as u8), &[keyword]).map(drop)
        }
        _ => {
            writer.folder_remove(victim, from)?;
            writer.folder_add(victim, folders[random.below(2) as usize]).map(drop)
        }
    }
}

#[test]
fn readers_see_consistent_snapshots_and_can_follow_the_changes() {
    let world = World::new(SyncMode::Group);
    let database = world.database("d.nsf");
    let create = |name| write(&world.databases, &database, |writer| writer.folder_create(name, &[])).unwrap();
    let folders = [create("A"), create("B")];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let world = &world;
                let database = &database;
                scope.spawn(move || {
                    let random = SeededRandom::new(thread);
                    for _ in 0..rounds(300) {
                        write(&world.databases, database, |writer| random_change(writer, &random, folders, thread))
                            .unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let access = access::<level::Reader>(&database);
                let mut known = (Modseq(0), FolderContents::new());
                while !stop.load(Ordering::SeqCst) {
                    let reading = access.read().unwrap();
                    let keywords = database.keywords();
                    assert!(reading.modseq() >= known.0, "time does not run backwards");
                    let seen = read_folder(&reading, folders[0]);
                    assert_eq!(apply_changes(&reading, folders[0], known.0, known.1), seen);
                    for (note, ..) in seen.values() {
                        let header = reading.header(*note).unwrap().expect("an entry has its note");
                        assert!(header.keywords.iter().all(|keyword| keywords.name(*keyword).is_some()));
                    }
                    known = (reading.modseq(), seen);
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                assert_sound(&database);
                assert!(!fixup::repair(&database).unwrap().repaired);
                notes::purge::purge(&database).unwrap();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::SeqCst);
    });
    assert_sound(&database);
}

#[test]
fn visible_snapshot_is_durable_only_with_its_ticket() {
    let world = World::new(SyncMode::Group);
    let database = world.database("d.nsf");
    let access = access::<level::Reader>(&database);
    world.memory.faults().hold_syncs();
    let depositor = self::access::<level::Depositor>(&database);
    let accesses = [&depositor];
    let mut transaction = world.databases.transaction(&accesses).unwrap();
    transaction.writer(0).note_create(NewNote::document(number(1))).unwrap();
    transaction.commit().unwrap();
    let reading = access.read().unwrap();
    assert!(reading.note(NOTE).unwrap().is_some(), "it is visible");
    let mut durable = pin!(world.store().durable(reading.ticket()));
    assert!(durable.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "and not durable");
    world.memory.faults().release_syncs();
    assert!(matches!(poll_to_end(durable), Ok(())));
    assert_eq!(reopened(&world).modseq(), reading.modseq());
}

fn poll_to_end<F: Future>(mut future: std::pin::Pin<&mut F>) -> F::Output {
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome;
        }
        thread::yield_now();
    }
}

fn reopened(world: &World) -> Arc<Database> {
    let left = World::over(Arc::new(world.memory.crash_losing_all()), SyncMode::Each);
    left.databases.database_open("d.nsf").expect("a crash leaves the database")
}

#[test]
fn state_with_durable_ticket_survives_a_crash() {
    let world = World::new(SyncMode::Group);
    let database = world.database("d.nsf");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for value in 0..rounds(100) as i64 {
                        write(&world.databases, &database, |writer| {
                            writer.note_create(NewNote::document(number(value)))
                        })
                        .unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let access = access::<level::Reader>(&database);
            while !stop.load(Ordering::SeqCst) {
                let reading = access.read().unwrap();
                world.store().durable(reading.ticket()).wait().unwrap();
                assert!(reopened(&world).modseq() >= reading.modseq(), "a durable state survives");
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::SeqCst);
    });
    assert_sound(&reopened(&world));
}

/// Waits until the number in the note satisfies a condition. Reads the note only after a notification.
fn wait_for(database: &Arc<Database>, is_right: impl Fn(i64) -> bool) -> i64 {
    let access = access::<level::Reader>(database);
    loop {
        let listener = database.listen();
        let reading = access.read().unwrap();
        let number = number_of(&reading.note(NOTE).unwrap().expect("there"));
        if is_right(number) {
            return number;
        }
        drop(reading);
        listener.wait();
    }
}

#[test]
fn listening_before_reading_misses_no_change() {
    const PLAYERS: i64 = 3;
    let rounds = rounds(200);
    let world = World::new(SyncMode::Group);
    let database = world.database("d.nsf");
    write(&world.databases, &database, |writer| writer.note_create(NewNote::document(number(0)))).unwrap();
    thread::scope(|scope| {
        for player in 0..PLAYERS {
            let world = &world;
            let database = &database;
            scope.spawn(move || {
                for _ in 0..rounds {
                    // Each thread waits for the one before; one lost wake-up stops all.
                    let found = wait_for(database, |number| number % PLAYERS == player);
                    write(&world.databases, database, |writer| {
                        let sequence = writer.note(NOTE)?.expect("there").header.sequence;
                        writer.note_update(NOTE, sequence, &number(found + 1), &[])
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(wait_for(&database, |_| true), PLAYERS * rounds as i64);
}

fn by_number() -> ViewNote {
    let design = ViewDesign { columns: vec![sorted("Number")], ..ViewDesign::default() };
    ViewNote { title: "By Number".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() }
}

/// Returns the numbers of the documents in the order of a view.
fn numbers_in_view(database: &Arc<Database>, view: NoteId) -> Vec<i64> {
    let access = access::<level::Reader>(database);
    let reading = access.read().unwrap();
    let view = reading.view(view).unwrap();
    let rows = reading.view_rows(&view, 0).unwrap();
    let number = |row: &ViewRow| match &row.contents {
        ViewRowContents::Document { row, .. } => match row.cells[0].one(0) {
            CellValue::Number(number) => number as i64,
            other => panic!("{other:?} is no number"),
        },
        ViewRowContents::Category { .. } => panic!("the view has no categories"),
    };
    rows.page(0, 1_000).unwrap().iter().map(number).collect()
}

/// A clock that runs an action at the next measurement, as if another thread did so meanwhile.
struct InterruptingClock {
    clock: SimClock,
    action: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for InterruptingClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        let action = self.action.lock().take();
        if let Some(action) = action {
            action();
        }
        self.clock.monotonic()
    }
}

#[test]
fn documents_change_while_a_view_is_updated() {
    let clock = Arc::new(InterruptingClock { clock: SimClock::new(), action: Mutex::new(None) });
    let engine: Arc<dyn store::Engine> = Arc::new(MemoryEngine::new(5));
    let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
    let store = Store::with_engine(engine, &options).expect("a store in memory opens");
    let databases = Databases::open(Arc::new(store), clock.clone(), Arc::new(SeededRandom::new(9)));
    let database = databases.database_create(&new_database("d.nsf")).expect("the database is created");
    let view = write(&databases, &database, |writer| writer.view_create(&by_number())).unwrap();
    for value in 1..=3 {
        write(&databases, &database, |writer| writer.note_create(NewNote::document(number(value)))).unwrap();
    }
    let other_databases = Arc::clone(&databases);
    let other_database = Arc::clone(&database);
    // An update that holds the lock of the database while it evaluates would wait for itself.
    *clock.action.lock() = Some(Box::new(move || {
        let create = |writer: &mut Writer<'_, '_>| writer.note_create(NewNote::document(number(4)));
        write(&other_databases, &other_database, create).unwrap();
    }));
    let reader = access::<level::Reader>(&database);
    assert!(reader.view_refresh(view, 100).unwrap().complete, "as of the snapshot of the update");
    assert!(clock.action.lock().is_none(), "the document was created meanwhile");
    assert_eq!(numbers_in_view(&database, view), [1, 2, 3]);
    assert!(reader.view_refresh(view, 100).unwrap().complete);
    assert_eq!(numbers_in_view(&database, view), [1, 2, 3, 4]);
    assert_sound(&database);
}

#[test]
fn concurrent_updates_of_a_view_lose_no_change() {
    let world = World::new(SyncMode::Group);
    let database = world.database("d.nsf");
    let view = write(&world.databases, &database, |writer| writer.view_create(&by_number())).unwrap();
    let create = |value| {
        write(&world.databases, &database, |writer| writer.note_create(NewNote::document(number(value)))).unwrap()
    };
    let notes: Vec<NoteId> = (0..8).map(create).collect();
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for (thread, half) in notes.chunks(4).enumerate() {
            let world = &world;
            let database = &database;
            let done = &done;
            scope.spawn(move || {
                let random = SeededRandom::new(thread as u64);
                for round in 0..rounds(100) {
                    let note = half[random.below(4) as usize];
                    write(&world.databases, database, |writer| {
                        let sequence = writer.header(note)?.expect("the document exists").sequence;
                        writer.note_update(note, sequence, &number(round as i64), &[])
                    })
                    .unwrap();
                }
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = access::<level::Reader>(&database);
                while done.load(Ordering::SeqCst) < 2 {
                    reader.view_refresh(view, 3).unwrap();
                }
            });
        }
    });
    let reader = access::<level::Reader>(&database);
    while !reader.view_refresh(view, 100).unwrap().complete {}
    let reading = reader.read().unwrap();
    let number_in = |note: &NoteId| number_of(&reading.note(*note).unwrap().unwrap());
    let mut expected: Vec<i64> = notes.iter().map(number_in).collect();
    expected.sort_unstable();
    assert_eq!(numbers_in_view(&database, view), expected);
    assert_sound(&database);
}

#[test]
fn blob_is_not_collected_while_it_is_added_again() {
    let world = World::new(SyncMode::Group);
    let databases = [world.database("a.nsf"), world.database("b.nsf")];
    let contents: Vec<Vec<u8>> = (0u8..3).map(|content| vec![content; 10_000]).collect();
    let later = world.clock.now().after(std::time::Duration::from_hours(100));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let world = &world;
                let databases = &databases;
                let contents = &contents;
                scope.spawn(move || {
                    let random = SeededRandom::new(thread);
                    for _ in 0..rounds(300) {
                        let content = &contents[random.below(3) as usize];
                        create_and_delete(world, &databases[random.below(2) as usize], content);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                world.store().blobs().collect(world.store(), later, 3).unwrap();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::SeqCst);
    });
    world.store().blobs().collect(world.store(), later, usize::MAX).unwrap();
    let report = world.store().blobs().report(world.store().as_ref()).unwrap();
    assert_eq!(report, store::blob::BlobReport::default(), "no content is used any more");
    databases.iter().for_each(|database| assert_sound(database));
}

/// Creates a note with a blob, reads the blob, and deletes the note.
fn create_and_delete(world: &World, database: &Arc<Database>, content: &[u8]) {
    let (note, blob) = write(&world.databases, database, |writer| {
        let blob = writer.blob_put(content)?;
        let new = NewNote { blobs: vec![blob], ..NewNote::document(number(1)) };
        Ok((writer.note_create(new)?, blob))
    })
    .unwrap();
    let access = access::<level::Reader>(database);
    assert_eq!(access.read().unwrap().blob(note, &blob).unwrap(), content);
    write(&world.databases, database, |writer| writer.note_delete(note)).unwrap();
}

/// Returns `true` for the error that is expected if a database may be deleted at any time.
fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. })
}

/// Uses a database that other threads create and delete meanwhile.
fn use_briefly(world: &World, path: &str) -> notes::Result<()> {
    let database = world.databases.database_open(path)?;
    let who = Arc::new(Identity::person(OWNER));
    let access: Access<level::Reader> = database.authorize(&who)?;
    write(&world.databases, &database, |writer| {
        let blob = writer.blob_put(&[7; 5_000])?;
        let new = NewNote { blobs: vec![blob], ..NewNote::document(number(1)) };
        writer.note_create(new)
    })?;
    for _ in 0..20 {
        let reading = access.read()?;
        let mut notes = 0;
        reading.for_each_note(NoteId(0), &mut |_| {
            notes += 1;
            Ok(true)
        })?;
        assert!(notes >= 2, "a snapshot is not disturbed by a deletion");
        assert_eq!(fixup::check(&database)?.findings, []);
    }
    Ok(())
}

#[test]
fn databases_can_be_created_and_deleted_while_in_use() {
    let world = World::new(SyncMode::Group);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let creators: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..rounds(200) {
                        match world.databases.database_create(&new_database("d.nsf")) {
                            Ok(_) | Err(Error::Exists { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                        let deleted = world.databases.database_open("d.nsf").and_then(|database| {
                            let manager = database.authorize(&Arc::new(Identity::person(OWNER)))?;
                            world.databases.database_delete(&manager)
                        });
                        assert!(deleted.as_ref().err().is_none_or(is_not_found), "{deleted:?}");
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let used = use_briefly(&world, "d.nsf");
                    assert!(used.as_ref().err().is_none_or(is_not_found), "{used:?}");
                    world.databases.close_idle();
                }
            });
        }
        creators.into_iter().for_each(|creator| creator.join().unwrap());
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(world.databases.database_list().unwrap(), []);
    for table in [Table::Summary, Table::Body, Table::Unid, Table::ByModseq, Table::View, Table::Tree, Table::Meta] {
        let mut cursor = world.store().scan(table, &KeyRange::all(), Direction::Forward).unwrap();
        assert_eq!(cursor.next().unwrap(), None, "{table:?} has something left");
    }
    let report = world.store().blobs().report(world.store().as_ref()).unwrap();
    assert_eq!(report.references, 0);
}

#[test]
fn deleted_database_is_inaccessible_to_open_managers() {
    let world = World::new(SyncMode::Each);
    let manager = access::<level::Manager>(&world.database("d.nsf"));
    world.databases.database_delete(&manager).unwrap();
    let next = world.database("d.nsf");
    let refused = [
        world.databases.database_rename(&manager, "e.nsf"),
        world.databases.database_options_set(&manager, "Ghost", DatabaseOptions::default()),
        world.databases.database_delete(&manager),
    ];
    assert!(refused.iter().all(|outcome| outcome.as_ref().is_err_and(is_not_found)), "{refused:?}");
    let listed: Vec<String> = world.databases.database_list().unwrap().into_iter().map(|record| record.title).collect();
    assert_eq!(listed, ["Shared"], "the next database is untouched");
    assert_sound(&next);
}

#[test]
fn database_stays_usable_after_a_failed_deletion() {
    let world = World::new(SyncMode::Each);
    let database = world.database("d.nsf");
    write(&world.databases, &database, |writer| {
        let blobs = vec![writer.blob_put(&[1; 5_000])?];
        writer.note_create(NewNote { blobs, ..NewNote::document(number(1)) })
    })
    .unwrap();
    world.memory.faults().set_capacity(0);
    let manager = access::<level::Manager>(&database);
    let refused = world.databases.database_delete(&manager);
    assert!(matches!(refused, Err(Error::Store(store::Error::Full(_)))), "{refused:?}");
    world.memory.faults().free_disk();
    write(&world.databases, &database, |writer| writer.note_create(NewNote::document(number(2)))).unwrap();
    assert_sound(&world.databases.database_open("d.nsf").unwrap());
    world.databases.database_delete(&manager).unwrap();
    assert!(world.databases.database_open("d.nsf").is_err());
}

#[test]
fn deletion_succeeds_if_its_space_cannot_be_reclaimed_at_once() {
    let world = World::new(SyncMode::Each);
    let database = world.database("d.nsf");
    world.memory.faults().fail_compactions();
    world.databases.database_delete(&access::<level::Manager>(&database)).unwrap();
    assert!(world.databases.database_open("d.nsf").is_err());
}

#[test]
fn readers_get_an_error_after_a_store_failure() {
    for sync in [SyncMode::Each, SyncMode::Group] {
        let world = World::new(sync);
        let database = world.database("d.nsf");
        world.memory.faults().fail_next_sync();
        let failed = write(&world.databases, &database, |writer| writer.note_create(NewNote::document(number(1))));
        assert!(matches!(failed, Err(Error::Store(store::Error::Poisoned(_)))), "{failed:?}");
        let access = access::<level::Reader>(&database);
        let outcome = access.read().and_then(|reading| Ok(world.store().durable(reading.ticket()).wait()?));
        assert!(matches!(outcome, Err(Error::Store(store::Error::Poisoned(_)))), "{sync:?}: {outcome:?}");
        assert_sound(&reopened(&world));
    }
}
