//! Flipped bytes in the files of the real engine: whichever file it is, a repair ends, and what is left is sound and can be read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{Name, NoteId};
use notes::fixup::{Finding, check, check_at, repair_at};
use notes::{Acl, Database, DatabaseKind, Item, NewDatabase, NewNote, Notes, Value};
use store::{KeyRange, Options, Store, SyncMode, Table};

use crate::world::{identity, reader};

const ANN: &str = "Ann/Acme";
const NOTES: u32 = 1_500;

fn open(folder: &Path) -> store::Result<Arc<Notes>> {
    let options = Options {
        sync: SyncMode::Each,
        cache_bytes: 1 << 20,
        memtable_bytes: 12 << 20,
        reserve_bytes: 0,
        ..Options::default()
    };
    let store = Arc::new(Store::open(folder, &options)?);
    Ok(Notes::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(5))))
}

fn sorted_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "sst")).collect()
}

/// Makes a store whose tables each have their own sorted file; gives the files.
fn filled(folder: &Path) -> BTreeMap<PathBuf, Table> {
    let notes = open(folder).unwrap();
    let acl = Acl::private(&Name::new(ANN));
    let new =
        NewDatabase { owner: Name::new(ANN), ..NewDatabase::new("docs.nsf", "Documents", DatabaseKind::Standard, acl) };
    let database = notes.database_create(&new).unwrap();
    let access = database.authorize(&identity(ANN)).unwrap();
    let accesses = [&access];
    let mut transaction = notes.transaction(&accesses).unwrap();
    let mut writer = transaction.on(0);
    let folder_id = writer.folder_create("F", &[]).unwrap();
    let mut parent = None;
    for number in 0..NOTES {
        let noise = blake(number);
        let items = vec![Item::text("Subject", noise.clone()), Item::body("Body", Value::RichText(noise))];
        let unid = base::Unid(u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_be_bytes());
        let new = NewNote { unid: Some(unid), folders: vec![folder_id], parent, ..NewNote::document(items) };
        writer.note_create(new).unwrap();
        parent = Some(unid).filter(|_| number % 3 == 0);
    }
    transaction.commit().unwrap();
    let store = notes.store();
    store.flush().unwrap();
    let mut files = BTreeMap::new();
    for table in Table::ALL {
        let before = sorted_files(folder);
        store.engine().compact(table, &KeyRange::all()).unwrap();
        files.extend(sorted_files(folder).into_iter().filter(|file| !before.contains(file)).map(|file| (file, table)));
    }
    store.flush().unwrap();
    files
}

/// Gives text that does not compress to nothing.
fn blake(number: u32) -> String {
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

/// Reads every note; gives how many documents there are.
fn read_all(database: &Arc<Database>) -> u32 {
    let access = reader(database, ANN).unwrap();
    let reading = access.read().unwrap();
    let mut documents = 0;
    let each = &mut |header: notes::Header| {
        documents += u32::from(header.class.is_document());
        assert!(reading.note(header.note)?.is_some());
        Ok(true)
    };
    reading.each_note(NoteId(0), each).unwrap();
    documents
}

/// What came of one flipped byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    /// The engine or the catalog does not open, and says so.
    Refused,
    /// Nothing of the database was there.
    Untouched,
    /// Everything was written again.
    Mended,
    /// So many notes were put aside.
    Lost(u32),
}

fn lost_note(finding: &Finding) -> Option<NoteId> {
    if let Finding::NoteDamaged { note, .. } = finding { Some(*note) } else { None }
}

fn flip_and_repair(folder: &Path, file: &Path, place: usize) -> Outcome {
    let victim = folder.join(file.file_name().unwrap());
    let mut bytes = fs::read(&victim).unwrap();
    bytes[place] ^= 0x10;
    fs::write(&victim, bytes).unwrap();
    let Ok(notes) = open(folder) else { return Outcome::Refused };
    let found = match check_at(&notes, "docs.nsf") {
        Ok(report) => report.findings,
        // The catalog is not repaired.
        Err(notes::Error::Store(store::Error::Damaged { table: Table::Catalog, .. })) => return Outcome::Refused,
        Err(error) => panic!("{error}"),
    };
    if found.is_empty() {
        return Outcome::Untouched;
    }
    // As `doublet fixup` does it: what is lost is told, then the blocks are taken out, then what is derived is written again.
    let engine = notes.store().engine();
    for error in engine.verify(&mut |_| ()).unwrap() {
        let store::Error::Damaged { table, .. } = error else { panic!("{error}") };
        assert_eq!(engine.mend(table, &[]).unwrap().left, [], "the files are old");
    }
    assert!(engine.verify(&mut |_| ()).unwrap().is_empty());
    let late = repair_at(&notes, "docs.nsf").unwrap().findings;
    let database = notes.database_open("docs.nsf").unwrap();
    assert_eq!(check(&database).unwrap().findings, [], "{found:?}");
    let documents = read_all(&database);
    drop((database, notes));
    let notes = open(folder).unwrap();
    let database = notes.database_open("docs.nsf").unwrap();
    assert_eq!(check(&database).unwrap().findings, [], "when it is opened again: {found:?}");
    assert_eq!(read_all(&database), documents);
    let mut told: Vec<NoteId> = found.iter().chain(&late).filter_map(lost_note).collect();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len() as u32, NOTES - documents, "every note that was lost was told of: {found:?}, then {late:?}");
    if documents == NOTES { Outcome::Mended } else { Outcome::Lost(NOTES - documents) }
}

#[test]
fn one_flipped_byte_in_any_file_costs_a_block_at_most() {
    let outer = tempfile::tempdir().unwrap();
    let sound = outer.path().join("sound");
    let files = filled(&sound);
    let mut outcomes: BTreeMap<Table, Vec<Outcome>> = BTreeMap::new();
    for (file, table) in &files {
        let length = fs::metadata(file).unwrap().len() as usize;
        for place in [length / 20, length / 3, length * 3 / 5] {
            let folder = outer.path().join("damaged");
            copy(&sound, &folder);
            outcomes.entry(*table).or_default().push(flip_and_repair(&folder, file, place));
            fs::remove_dir_all(&folder).unwrap();
        }
    }
    for (table, found) in &outcomes {
        let lost = found.iter().map(|outcome| if let Outcome::Lost(count) = outcome { *count } else { 0 }).max();
        assert!(lost.unwrap_or(0) <= NOTES / 10, "{table:?}: {found:?}");
    }
    for table in [Table::Unid, Table::Bymod, Table::Children, Table::View, Table::Meta] {
        assert!(outcomes[&table].contains(&Outcome::Mended), "{table:?}: {outcomes:?}");
    }
    for table in [Table::Summary, Table::Body] {
        assert!(outcomes[&table].iter().any(|outcome| matches!(outcome, Outcome::Lost(_))), "{table:?}: {outcomes:?}");
    }
}
