//! Flipped bytes in the files of the real engine: a repair ends for any file and any position, and the remaining data
//! are consistent and readable.
//!
//! The store holds two databases; each table has several files, and newer ones above them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{Modseq, Name, NoteId};
use notes::fixup::{FixupFinding, check, repair_at};
use notes::{Acl, Database, DatabaseKind, Databases, Item, ItemValue, Marks, NewDatabase, NewNote};
use store::{KeyRange, Store, StoreOptions, SyncMode, Table};

use crate::fixture::{identity, reader};

const ANN: &str = "Ann/Acme";
/// Number of documents in each database.
const NOTES: u32 = 800;

const PATHS: [&str; 2] = ["docs.nsf", "more.nsf"];

/// The folder of each database.
const FOLDER: NoteId = NoteId(2);

fn open(folder: &Path) -> store::Result<Arc<Databases>> {
    let options = StoreOptions {
        sync: SyncMode::Each,
        cache_bytes: 1 << 20,
        memtable_bytes: 12 << 20,
        reserve_bytes: 0,
        file_bytes: 24 << 10,
        quiet: true,
        ..StoreOptions::default()
    };
    let store = Arc::new(Store::open(folder, &options)?);
    Ok(Databases::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(5))))
}

fn sorted_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "sst")).collect()
}

/// Creates a store with two databases. Returns its old files with their tables, and the new files.
fn filled(folder: &Path) -> (BTreeMap<PathBuf, Table>, Vec<PathBuf>) {
    let databases = open(folder).unwrap();
    PATHS.iter().for_each(|path| fill(&databases, path));
    let store = databases.store();
    store.flush().unwrap();
    let mut files = BTreeMap::new();
    for table in Table::ALL {
        let before = sorted_files(folder);
        store.engine().compact(table, &KeyRange::all()).unwrap();
        files.extend(sorted_files(folder).into_iter().filter(|file| !before.contains(file)).map(|file| (file, table)));
    }
    let before = sorted_files(folder);
    for path in PATHS {
        let database = databases.database_open(path).unwrap();
        let access = database.authorize(&identity(ANN)).unwrap();
        let accesses = [&access];
        let mut transaction = databases.transaction(&accesses).unwrap();
        for note in (10..NOTES).step_by(20) {
            transaction.writer(0).marks_set(NoteId(note), Marks::SEEN, &[]).unwrap();
        }
        transaction.commit().unwrap();
    }
    store.flush().unwrap();
    let young = sorted_files(folder).into_iter().filter(|file| !before.contains(file)).collect();
    (files, young)
}

fn fill(databases: &Databases, path: &str) {
    let acl = Acl::private(&Name::new(ANN));
    let new = NewDatabase { owner: Name::new(ANN), ..NewDatabase::new(path, "Documents", DatabaseKind::Standard, acl) };
    let database = databases.database_create(&new).unwrap();
    let access = database.authorize(&identity(ANN)).unwrap();
    let accesses = [&access];
    let mut transaction = databases.transaction(&accesses).unwrap();
    let mut writer = transaction.writer(0);
    let folder_id = writer.folder_create("F", &[]).unwrap();
    let mut parent = None;
    for number in 0..NOTES {
        let noise = noise(number);
        let items = vec![Item::text("Subject", noise.clone()), Item::body("Body", ItemValue::RichText(noise))];
        let unid = base::Unid(u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_be_bytes());
        let new = NewNote { unid: Some(unid), folders: vec![folder_id], parent, ..NewNote::document(items) };
        writer.note_create(new).unwrap();
        parent = Some(unid).filter(|_| number % 3 == 0);
    }
    transaction.commit().unwrap();
}

/// Returns text that compresses badly.
fn noise(number: u32) -> String {
    let mut state = u64::from(number).wrapping_add(1);
    let mut letters = String::new();
    for _ in 0..60 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        letters.push(char::from(b'a' + (state >> 59) as u8 % 26));
    }
    letters
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Reads every note and returns the number of documents.
fn read_all(database: &Arc<Database>) -> u32 {
    let access = reader(database, ANN).unwrap();
    let reading = access.read().unwrap();
    let mut documents = 0;
    let each = &mut |header: notes::NoteHeader| {
        documents += u32::from(header.class.is_document());
        assert!(reading.note(header.note)?.is_some());
        Ok(true)
    };
    reading.for_each_note(NoteId(0), each).unwrap();
    documents
}

/// The outcome of flipped bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    /// The engine or the catalog does not open and reports an error.
    Refused,
    /// No part of the databases was hit.
    Untouched,
    /// Everything was rebuilt.
    Rebuilt,
    /// This number of notes was set aside.
    Lost(u32),
}

/// Repairs both databases and adds the documents reported as lost to `reported`. Returns the number of findings, or
/// `None` if the catalog is damaged, which the repair does not cover.
fn repair_both(databases: &Databases, reported: &mut BTreeSet<(&'static str, NoteId)>) -> Option<usize> {
    let mut found = 0;
    for path in PATHS {
        let findings = match repair_at(databases, path, &mut |_, _| {}) {
            Ok(report) => report.findings,
            Err(notes::Error::Store(store::Error::Damaged { table: Table::Catalog, .. })) => return None,
            Err(error) => panic!("{error}"),
        };
        found += findings.len();
        let lost = |finding: &FixupFinding| match finding {
            FixupFinding::NoteDamaged { note, .. } if *note != FOLDER => Some((path, *note)),
            _ => None,
        };
        reported.extend(findings.iter().filter_map(lost));
    }
    Some(found)
}

/// Removes damaged blocks from the files, as `doublet fixup` does. Returns `None` if a file cannot be opened, because
/// the engine does not name that file.
fn repair_files(folder: &Path, mut databases: Arc<Databases>) -> Option<Arc<Databases>> {
    loop {
        let engine = databases.store().engine();
        let damage = engine.verify(&mut |_| ()).unwrap();
        let table_of = |error: &store::Error| match error {
            store::Error::Damaged { table, .. } => *table,
            _ => panic!("{error}"),
        };
        let tables: BTreeSet<Table> = damage.iter().map(table_of).collect();
        if tables.is_empty() {
            return Some(databases);
        }
        let files: Vec<_> = tables.iter().flat_map(|table| engine.salvage(*table, &damage).unwrap()).collect();
        if files.is_empty() {
            assert!(damage.iter().all(|error| !error.to_string().contains(".sst")), "{damage:?}");
            return None;
        }
        drop(databases);
        store::rocks::remove_files(folder, &files).unwrap();
        databases = open(folder).unwrap();
    }
}

fn flip_and_repair(folder: &Path, flips: &[(&Path, usize)]) -> Outcome {
    for (file, offset) in flips {
        let victim = folder.join(file.file_name().unwrap());
        let mut bytes = fs::read(&victim).unwrap();
        bytes[*offset] ^= 0x10;
        fs::write(&victim, bytes).unwrap();
    }
    let Ok(databases) = open(folder) else { return Outcome::Refused };
    let mut reported = BTreeSet::new();
    match repair_both(&databases, &mut reported) {
        None => return Outcome::Refused,
        Some(0) => return Outcome::Untouched,
        Some(_) => {}
    }
    let Some(databases) = repair_files(folder, databases) else { return Outcome::Refused };
    repair_both(&databases, &mut reported).unwrap();
    drop(databases);
    let databases = open(folder).unwrap();
    let mut documents = 0;
    for path in PATHS {
        let database = databases.database_open(path).unwrap();
        assert_eq!(check(&database).unwrap().findings, [], "{flips:?}");
        documents += read_all(&database);
        // Clients that follow the changes learn that some may be missing, and lost notes keep their attachments.
        let access = reader(&database, ANN).unwrap();
        let is_touched = access.read().unwrap().is_complete_since(Modseq(3));
        assert!(!is_touched || reported.iter().all(|(lost, _)| *lost != path), "{flips:?}");
    }
    let lost = PATHS.len() as u32 * NOTES - documents;
    assert_eq!(reported.len() as u32, lost, "every lost note was reported: {flips:?}: {reported:?}");
    if lost == 0 { Outcome::Rebuilt } else { Outcome::Lost(lost) }
}

/// Returns offsets in a file: one in its first block, which may hold the records that a database needs to open, and
/// three further on.
fn offsets(file: &Path) -> [usize; 4] {
    let length = fs::metadata(file).unwrap().len() as usize;
    [20, length / 20, length / 3, length * 3 / 5]
}

#[test]
fn flipped_byte_loses_at_most_one_block() {
    let outer = tempfile::tempdir().unwrap();
    let sound = outer.path().join("sound");
    let (old, young) = filled(&sound);
    let of_table = |table| old.values().filter(|found| **found == table).count();
    assert!(of_table(Table::Summary) > 2 && of_table(Table::Body) > 2, "{old:?}");
    let mut outcomes: BTreeMap<Option<Table>, Vec<Outcome>> = BTreeMap::new();
    let files = old.iter().map(|(file, table)| (file, Some(*table))).chain(young.iter().map(|file| (file, None)));
    for (file, table) in files {
        for offset in offsets(file) {
            let folder = outer.path().join("damaged");
            copy(&sound, &folder);
            outcomes.entry(table).or_default().push(flip_and_repair(&folder, &[(file, offset)]));
            fs::remove_dir_all(&folder).unwrap();
        }
    }
    for (table, found) in &outcomes {
        let lost = found.iter().map(|outcome| if let Outcome::Lost(count) = outcome { *count } else { 0 }).max();
        assert!(lost.unwrap_or(0) <= NOTES / 6, "{table:?}: {found:?}");
    }
    for table in [Table::Unid, Table::ByModseq, Table::Children, Table::View, Table::Meta] {
        assert!(outcomes[&Some(table)].contains(&Outcome::Rebuilt), "{table:?}: {outcomes:?}");
    }
    for table in [Some(Table::Summary), Some(Table::Body), None] {
        assert!(outcomes[&table].iter().any(|outcome| matches!(outcome, Outcome::Lost(_))), "{table:?}: {outcomes:?}");
    }
}

#[test]
fn several_flipped_bytes_lose_only_their_blocks() {
    let outer = tempfile::tempdir().unwrap();
    let sound = outer.path().join("sound");
    let (old, young) = filled(&sound);
    let folder = outer.path().join("damaged");
    copy(&sound, &folder);
    // The offsets are in data, not in the parts that the engine needs to open a file.
    let is_large = |file: &&PathBuf| fs::metadata(file).unwrap().len() > 15_000;
    let old = old.keys().filter(is_large).step_by(2).map(|file| (file.as_path(), offsets(file)[2]));
    let victims: Vec<(&Path, usize)> = old.chain(young.iter().step_by(3).map(|file| (file.as_path(), 20))).collect();
    assert!(victims.len() > 4, "{victims:?}");
    let outcome = flip_and_repair(&folder, &victims);
    assert!(matches!(outcome, Outcome::Lost(lost) if lost < NOTES), "{outcome:?}");
}
