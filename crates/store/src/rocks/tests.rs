//! Tests of RocksDB where it differs from the engine in memory: files, formats, locks, damage and the log.

mod compression;
mod log_end;
mod missing_files;

use std::fs;

use super::*;
use crate::engine::tests::{scan_all, small};
use crate::engine::{SortedFile, prefix_end};
use crate::limits;
use crate::store::Store;

fn open(folder: &Path) -> Result<RocksEngine> {
    RocksEngine::open(folder, &small())
}

fn put(rocks: &RocksEngine, table: Table, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(table, key, value);
    rocks.write(&batch).expect("written");
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Returns the files of a folder whose names end with `end`.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries.filter(|path| path.to_string_lossy().ends_with(end)).collect();
    files.sort();
    files
}

#[test]
fn synced_data_is_present_after_reopening() {
    let folder = folder();
    {
        let rocks = open(folder.path()).expect("a new store");
        put(&rocks, Table::Meta, b"key", b"value");
        rocks.sync().expect("synced");
    }
    let rocks = open(folder.path()).expect("opened again");
    assert_eq!(rocks.get(Table::Meta, b"key").expect("sound"), Some(b"value".to_vec()));
    assert_eq!(rocks.get(Table::Store, FORMAT_KEY).expect("sound"), Some(FORMAT.to_be_bytes().to_vec()));
    assert!(!rocks.was_torn);
}

#[test]
fn data_of_a_newer_format_is_refused() {
    let folder = folder();
    {
        let mut rocks = open(folder.path()).expect("a new store");
        put(&rocks, Table::Store, FORMAT_KEY, &2_u32.to_be_bytes());
        rocks.sync().expect("synced");
        rocks.db.create_cf("invented-later", &rocksdb::Options::default()).expect("made");
    }
    assert!(matches!(open(folder.path()), Err(Error::Newer { found: 2, known: FORMAT })));
}

#[test]
fn a_damaged_format_version_is_refused() {
    let folder = folder();
    {
        let rocks = open(folder.path()).expect("a new store");
        put(&rocks, Table::Store, FORMAT_KEY, b"one");
        rocks.sync().expect("synced");
    }
    assert!(matches!(open(folder.path()), Err(Error::Damaged { table: Table::Store, .. })));
}

#[test]
fn a_store_that_is_open_is_locked() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    assert!(matches!(open(folder.path()), Err(Error::Locked { .. })));
    drop(rocks);
    assert!(open(folder.path()).is_ok());
}

#[test]
fn new_store_is_accessible_to_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let store = folder.path().join("deep/store");
    drop(open(&store).expect("a new store"));
    assert_eq!(fs::metadata(&store).expect("a folder").permissions().mode() & 0o777, 0o700);
}

#[test]
fn log_in_another_folder_is_refused() {
    let logs = folder();
    let folder = folder();
    let wal_folder = logs.path().join("log");
    let apart = StoreOptions { wal_folder: Some(wal_folder.clone()), ..small() };
    let fill = |options: &StoreOptions, key: &[u8]| {
        let rocks = RocksEngine::open(folder.path(), options).expect("opened");
        put(&rocks, Table::Meta, key, b"value");
        rocks.sync().expect("synced");
    };
    fill(&apart, b"a");
    assert_eq!((files(folder.path(), ".log").len(), files(&wal_folder, ".log").len()), (0, 1));
    let error = open(folder.path()).err().expect("the log is elsewhere");
    assert!(matches!(error, Error::Unusable { .. }));
    assert!(error.to_string().contains(&*wal_folder.to_string_lossy()), "{error}");
    fill(&apart, b"b");
    for log in files(&wal_folder, ".log") {
        fs::rename(&log, folder.path().join(log.file_name().expect("a name"))).expect("moved, as the message says");
    }
    fill(&small(), b"c");
    assert!(
        matches!(RocksEngine::open(folder.path(), &apart), Err(Error::Unusable { .. })),
        "the reverse is refused too"
    );
    let rocks = open(folder.path()).expect("opened");
    for key in [b"a", b"b", b"c"] {
        assert!(rocks.get(Table::Meta, key).expect("sound").is_some());
    }
}

/// Creates a store with one acknowledged value. The options determine whether its log is in a separate folder.
fn acknowledged(folder: &Path, options: &StoreOptions) {
    let rocks = RocksEngine::open(folder, options).expect("a new store");
    put(&rocks, Table::Meta, b"key", b"value");
    rocks.sync().expect("synced");
}

fn check_refused(folder: &Path, options: &StoreOptions, expected: &[&str]) {
    for attempt in 1..=3 {
        let Err(error) = RocksEngine::open(folder, options) else { panic!("attempt {attempt} is refused") };
        assert!(matches!(error, Error::Unusable { .. }), "{error}");
        let text = error.to_string();
        assert!(expected.iter().all(|part| text.contains(part)), "attempt {attempt}: {text}");
    }
}

#[test]
fn a_store_without_its_log_is_refused() {
    for is_apart in [true, false] {
        let logs = folder();
        let folder = folder();
        let wal_folder = logs.path().join("log");
        let options = StoreOptions { wal_folder: is_apart.then(|| wal_folder.clone()), ..small() };
        let log_folder = if is_apart { wal_folder.clone() } else { folder.path().to_path_buf() };
        acknowledged(folder.path(), &options);
        let log = files(&log_folder, ".log").pop().expect("a log");
        let away = logs.path().join("away");
        fs::rename(&log, &away).expect("moved away");
        check_refused(folder.path(), &options, &["is missing from", "mount the device of the log"]);
        if is_apart {
            fs::remove_dir(&wal_folder).expect("removed");
            check_refused(folder.path(), &options, &["is missing from", &wal_folder.to_string_lossy()]);
            assert!(!wal_folder.exists(), "no folder is created for a device that is not mounted");
            fs::create_dir(&wal_folder).expect("mounted");
        }
        fs::write(log_folder.join("000001.log"), b"").expect("an older log does not replace the missing one");
        check_refused(folder.path(), &options, &["is missing from"]);
        fs::rename(&away, &log).expect("brought back");
        let rocks = RocksEngine::open(folder.path(), &options).expect("nothing was lost");
        assert_eq!(rocks.get(Table::Meta, b"key").expect("sound"), Some(b"value".to_vec()));
    }
}

#[test]
fn drop_tail_option_opens_a_store_without_its_log() {
    let folder = folder();
    acknowledged(folder.path(), &small());
    files(folder.path(), ".log").iter().for_each(|log| fs::remove_file(log).expect("removed"));
    let options = StoreOptions { damaged_log: DamagedLog::DropTail, ..small() };
    let rocks = RocksEngine::open(folder.path(), &options).expect("the option drops the tail");
    assert_eq!(rocks.get(Table::Meta, b"key").expect("sound"), None);
    drop(rocks);
    assert!(open(folder.path()).is_ok(), "it opens without the option");
}

#[test]
fn missing_log_started_while_running_is_detected() {
    let folder = folder();
    {
        let rocks = open(folder.path()).expect("a new store");
        put(&rocks, Table::Meta, b"a", b"1");
        rocks.flush().expect("flushed");
        put(&rocks, Table::Meta, b"b", b"2");
        rocks.sync().expect("synced");
    }
    let log = files(folder.path(), ".log").pop().expect("a log");
    let number = log.file_stem().and_then(|stem| stem.to_str()).expect("a number").to_owned();
    assert_eq!(fs::read_to_string(folder.path().join("last-log")).expect("read").parse(), number.parse::<u64>());
    fs::remove_file(&log).expect("removed");
    check_refused(folder.path(), &small(), &["is missing from", &number]);
}

#[test]
fn store_is_not_created_in_a_nonempty_folder() {
    let folder = folder();
    acknowledged(folder.path(), &small());
    let current = folder.path().join("CURRENT");
    let sound = fs::read(&current).expect("read");
    fs::remove_file(&current).expect("removed");
    let before = files(folder.path(), "");
    check_refused(folder.path(), &small(), &["no file `CURRENT`", "restore a backup"]);
    assert_eq!(files(folder.path(), ""), before, "nothing was made or removed");
    fs::write(&current, sound).expect("written");
    let rocks = open(folder.path()).expect("nothing was lost");
    assert_eq!(rocks.get(Table::Meta, b"key").expect("sound"), Some(b"value".to_vec()));
}

#[test]
fn partially_created_store_is_created_again() {
    let folder = folder();
    for name in ["unopened", "LOG", "LOCK", "IDENTITY", "MANIFEST-000001", "000001.dbtmp", "unopened.new"] {
        fs::write(folder.path().join(name), b"half").expect("written");
    }
    acknowledged(folder.path(), &small());
    assert!(!folder.path().join("unopened").exists());
    assert!(open(folder.path()).is_ok());
}

#[test]
fn new_store_with_the_log_of_another_is_refused() {
    let logs = folder();
    let folder = folder();
    let options = StoreOptions { wal_folder: Some(logs.path().to_path_buf()), ..small() };
    acknowledged(&folder.path().join("store"), &options);
    check_refused(&folder.path().join("other"), &options, &["check that the device of the store is mounted"]);
}

/// Creates a store whose log has the batches 0 to `count` (exclusive), syncs after the batches chosen by `sync`, and
/// closes it. Returns the path of the log.
fn fill_log(folder: &Path, count: u32, sync: impl Fn(u32) -> bool) -> PathBuf {
    let rocks = open(folder).expect("a new store");
    for number in 0..count {
        put(&rocks, Table::Body, &number.to_be_bytes(), &[7; 1_000]);
        if sync(number) {
            rocks.sync().expect("synced");
        }
    }
    drop(rocks);
    files(folder, ".log").pop().expect("a log")
}

/// Returns the number of batches in the store and checks that they are a prefix.
fn prefix(rocks: &RocksEngine) -> u32 {
    let found = scan_all(rocks, Table::Body, &KeyRange::all(), Direction::Forward);
    for (index, (key, _)) in found.iter().enumerate() {
        assert_eq!(*key, (index as u32).to_be_bytes(), "no batch is missing before one that is there");
    }
    found.len() as u32
}

#[test]
fn a_torn_tail_of_the_log_is_dropped() {
    for cut in [1, 500, 1_500, 40_000] {
        let folder = folder();
        let log = fill_log(folder.path(), 100, |number| number == 50);
        let length = fs::metadata(&log).expect("a file").len();
        fs::OpenOptions::new().write(true).open(&log).and_then(|file| file.set_len(length - cut)).expect("cut");
        let rocks = open(folder.path()).expect("a torn tail is in order");
        let there = prefix(&rocks);
        assert!((55..100).contains(&there), "{there} after cutting {cut} bytes");
        assert!(rocks.was_torn);
        put(&rocks, Table::Body, &there.to_be_bytes(), b"and on it goes");
        rocks.sync().expect("synced");
        drop(rocks);
        assert_eq!(prefix(&open(folder.path()).expect("opened again")), there + 1);
    }
}

fn flip(file: &Path, offset: usize) {
    let mut bytes = fs::read(file).expect("a file");
    bytes[offset] ^= 0x10;
    fs::write(file, bytes).expect("written");
}

#[test]
fn damaged_unacknowledged_tail_is_dropped() {
    let folder = folder();
    let log = fill_log(folder.path(), 100, |number| number == 50);
    flip(&log, 80_000);
    let there = prefix(&open(folder.path()).expect("unsynced batches may be lost"));
    assert!((70..80).contains(&there), "{there}");
}

#[test]
fn damage_before_acknowledged_changes_is_refused() {
    let folder = folder();
    let log = fill_log(folder.path(), 100, |_| true);
    flip(&log, 50_000);
    let damaged = format!("{}: this log is damaged at byte ", log.display());
    check_refused(folder.path(), &small(), &[&damaged, "acknowledged changes after it are lost"]);
    let options = StoreOptions { damaged_log: DamagedLog::DropTail, ..small() };
    let there = prefix(&RocksEngine::open(folder.path(), &options).expect("the option drops the tail"));
    assert!((40..50).contains(&there), "{there}");
    assert!(open(folder.path()).is_ok(), "it opens without the option");
}

fn incompressible(length: usize) -> Vec<u8> {
    noise(b"", length)
}

/// Returns bytes that compress neither by themselves nor together with those of another seed.
fn noise(seed: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(seed).finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn damage_in_a_file_is_found_when_it_is_read() {
    for (table, end) in [(Table::Summary, ".sst"), (Table::Blob, ".blob")] {
        let folder = folder();
        {
            let rocks = open(folder.path()).expect("a new store");
            put(&rocks, table, b"key", &incompressible(10_000));
            rocks.compact(table, &KeyRange::all()).expect("compacted");
        }
        let sizes = |path: &PathBuf| fs::metadata(path).map_or(0, |data| data.len());
        let file = files(folder.path(), end).into_iter().max_by_key(sizes).expect("a file");
        flip(&file, 60);
        let Ok(rocks) = open(folder.path()) else { continue };
        let error = rocks.get(table, b"key").map(|value| value.map(|bytes| bytes.len())).expect_err("damaged");
        assert!(
            matches!(&error, Error::Damaged { table: found, key, .. } if *found == table && key == b"key"),
            "{error}"
        );
        assert!(rocks.multi_get(table, &[b"key"]).is_err());
        assert!(
            rocks.scan(table, &KeyRange::all(), Direction::Forward).and_then(|mut all| all.next().map(drop)).is_err()
        );
        assert_eq!(rocks.verify(&mut |_| {}).expect("it runs").len(), 1);
    }
}

/// Creates a store with `count` separate values in four files.
fn with_separate_values(folder: &Path, count: u32) -> RocksEngine {
    let rocks = open(folder).expect("a new store");
    for number in 0..count {
        put(&rocks, Table::Blob, &number.to_be_bytes(), &noise(&number.to_be_bytes(), 8_192));
        if number % (count / 4) == count / 4 - 1 {
            rocks.flush().expect("flushed");
        }
    }
    rocks
}

/// Merges the sorted files of the blob table, as the engine does by itself after some flushes.
fn merge_blob_table(rocks: &RocksEngine) {
    rocks.flush().expect("flushed");
    rocks.db.compact_range_cf(rocks.family(Table::Blob), None::<&[u8]>, None::<&[u8]>);
}

fn metric(rocks: &RocksEngine, name: &str) -> u64 {
    rocks.metrics().into_iter().find(|(found, _)| found == name).expect("a known metric").1
}

#[test]
fn compactions_do_not_rewrite_separate_values() {
    let folder = folder();
    let rocks = with_separate_values(folder.path(), 40);
    let written = files(folder.path(), ".blob");
    assert_eq!(written.len(), 4);
    merge_blob_table(&rocks);
    assert_eq!(files(folder.path(), ".blob"), written);
}

#[test]
fn space_of_removed_separate_values_is_reclaimed_when_it_is_half() {
    let folder = folder();
    let rocks = with_separate_values(folder.path(), 200);
    // A file is removed with its last value, so values are removed from every file.
    let remove = |is_removed: fn(u32) -> bool| {
        let mut batch = Batch::new();
        (0..200)
            .filter(|number| is_removed(*number))
            .for_each(|number| batch.delete(Table::Blob, &number.to_be_bytes()));
        rocks.write(&batch).expect("written");
        merge_blob_table(&rocks);
        rocks.reclaim().expect("a known setting");
    };
    remove(|number| number % 5 < 2);
    let garbage = metric(&rocks, "separate-values-garbage-bytes");
    assert!(garbage >= 80 * 8_192, "{garbage}");
    remove(|number| number % 5 == 2);
    while metric(&rocks, "separate-values-garbage-bytes") > 0 {
        std::thread::yield_now();
    }
    let bytes = metric(&rocks, "separate-values-bytes");
    assert!((80 * 8_192..90 * 8_192).contains(&bytes), "{bytes}");
    for number in (0..200_u32).filter(|number| number % 5 > 2) {
        let value = rocks.get(Table::Blob, &number.to_be_bytes()).expect("readable");
        assert_eq!(value, Some(noise(&number.to_be_bytes(), 8_192)));
    }
}

#[test]
fn quiet_store_does_not_compact_damaged_files() {
    let quiet = StoreOptions { quiet: true, ..small() };
    let folder = folder();
    {
        let rocks = RocksEngine::open(folder.path(), &quiet).expect("a new store");
        for round in 0..6_u32 {
            for number in 0..100_u32 {
                let seed = [round.to_be_bytes(), number.to_be_bytes()].concat();
                put(&rocks, Table::Summary, &number.to_be_bytes(), &noise(&seed, 200));
            }
            rocks.flush().expect("flushed");
        }
    }
    let sizes = |path: &PathBuf| fs::metadata(path).map_or(0, |data| data.len());
    let mut sorted = files(folder.path(), ".sst");
    sorted.retain(|path| sizes(path) > 10_000);
    assert_eq!(sorted.len(), 6, "the engine would merge so many files");
    flip(&sorted[3], 5_000);
    let is_writable = |options: &StoreOptions| {
        let rocks = RocksEngine::open(folder.path(), options).expect("opened");
        let waited = rocks.db.wait_for_compact(&rocksdb::WaitForCompactOptions::default());
        let mut batch = Batch::new();
        batch.put(Table::Meta, b"key", b"value");
        waited.is_ok() && rocks.write(&batch).is_ok() && rocks.flush().is_ok()
    };
    assert!(is_writable(&quiet));
    assert!(!is_writable(&small()), "the merge fails at the damage");
    assert!(is_writable(&quiet), "the failed merge is not repeated");
}

/// Repairs a table until no more files have to be removed. Returns the number of removed files.
fn salvage_all(folder: &Path, table: Table, options: &StoreOptions) -> usize {
    let mut taken = 0;
    loop {
        let rocks = RocksEngine::open(folder, options).expect("opened");
        let damaged = rocks.salvage(table, &[]).expect("salvaged");
        drop(rocks);
        if damaged.is_empty() {
            return taken;
        }
        taken += damaged.len();
        remove_files(folder, &damaged).expect("taken out");
    }
}

/// Creates a table with several levels and several files per level. Each key of `0..KEYS` is written, some are
/// overwritten once or twice, and some are deleted. Returns the sorted files of each level, from the oldest.
fn levels(folder: &Path, options: &StoreOptions) -> Vec<Vec<PathBuf>> {
    let rocks = RocksEngine::open(folder, options).expect("a new store");
    let mut levels = Vec::new();
    let mut known = files(folder, ".sst");
    for (round, every) in [(0, 1), (1, 3), (2, 7)] {
        for number in (0..KEYS).filter(|number| number % every == 0) {
            let seed = [round, number].map(u32::to_be_bytes).concat();
            put(&rocks, Table::Meta, &number.to_be_bytes(), &noise(&seed, 100));
        }
        let mut batch = Batch::new();
        (0..KEYS)
            .filter(|number| round > 0 && number % 50 == round)
            .for_each(|number| batch.delete(Table::Meta, &number.to_be_bytes()));
        rocks.write(&batch).expect("written");
        if round == 0 {
            rocks.compact(Table::Meta, &KeyRange::all()).expect("compacted");
        } else {
            rocks.flush().expect("flushed");
        }
        let is_large = |file: &PathBuf| fs::metadata(file).is_ok_and(|data| data.len() > 10_000);
        let of_table = files(folder, ".sst").into_iter().filter(is_large);
        let new: Vec<PathBuf> = of_table.filter(|file| !known.contains(file)).collect();
        known.extend(new.iter().cloned());
        levels.push(new);
    }
    levels
}

const KEYS: u32 = 20_000;

fn all_values(rocks: &RocksEngine) -> Vec<Result<Option<Vec<u8>>>> {
    (0..KEYS).map(|number| rocks.get(Table::Meta, &number.to_be_bytes())).collect()
}

/// Flips bytes of files (level, number, offsets) and repairs the table. Returns the number of unreadable records and
/// the number of readable records that have changed.
fn check_salvage(damage: &[(usize, usize, &[usize])]) -> (usize, usize) {
    let folder = folder();
    let options = StoreOptions { quiet: true, file_bytes: 256 << 10, ..small() };
    let levels = levels(folder.path(), &options);
    assert!(levels[0].len() > 3 && levels[1].len() == 1 && levels[2].len() == 1, "{levels:?}");
    for (level, file, offsets) in damage {
        offsets.iter().for_each(|offset| flip(&levels[*level][*file], *offset));
    }
    let rocks = RocksEngine::open(folder.path(), &options).expect("opened");
    let before = all_values(&rocks);
    drop(rocks);
    assert!(salvage_all(folder.path(), Table::Meta, &options) > 0);
    let rocks = RocksEngine::open(folder.path(), &small()).expect("opened");
    assert_eq!(rocks.verify(&mut |_| {}).expect("it runs").len(), 0);
    rocks.compact(Table::Meta, &KeyRange::all()).expect("compacted");
    put(&rocks, Table::Meta, b"x", b"and on it goes");
    rocks.flush().expect("it takes changes");
    let after = all_values(&rocks);
    let both = before.iter().zip(&after);
    let readable = both.filter_map(|(before, after)| Some((before.as_ref().ok()?, after.as_ref().expect("sound"))));
    let changed = readable.filter(|(before, after)| before != after).count();
    (before.iter().filter(|value| value.is_err()).count(), changed)
}

#[test]
fn repair_keeps_readable_records_of_damaged_files() {
    for (what, damage) in [
        ("one of several old files", (0, 1, &[100_000][..])),
        ("the first block", (0, 0, &[100])),
        ("the first block of a young file", (1, 0, &[100])),
        ("above others", (2, 0, &[100_000])),
    ] {
        let (unreadable, changed) = check_salvage(&[damage]);
        assert!((1..150).contains(&unreadable) && changed == 0, "{what}: {unreadable}, {changed}");
    }
}

#[test]
fn repair_keeps_sound_blocks_between_damaged_ones() {
    // Damage every other block of a stretch.
    let every: Vec<usize> = (0..8).map(|block| 40_000 + block * 2 * 8_400).collect();
    let (unreadable, changed) = check_salvage(&[(0, 1, &every)]);
    assert!((200..900).contains(&unreadable) && changed == 0, "{unreadable}, {changed}");
}

#[test]
fn repair_of_overlapping_damaged_files_limits_the_loss() {
    let old: [(usize, usize, &[usize]); 2] = [(0, 1, &[50_000, 75_000, 150_000]), (0, 2, &[100])];
    let (unreadable, changed) = check_salvage(&[old[0], old[1], (1, 0, &[200_000]), (2, 0, &[1_000, 90_000])]);
    assert!((200..1_100).contains(&unreadable), "{unreadable}");
    assert!(changed < 200, "{changed}");
}

#[test]
fn repair_removes_no_sound_file() {
    let folder = folder();
    let options = StoreOptions { file_bytes: 256 << 10, ..small() };
    levels(folder.path(), &options);
    assert_eq!(salvage_all(folder.path(), Table::Meta, &options), 0);
}

/// Flips a byte of a young file with `young` keys above `old` older ones. Returns the values of all keys after the file
/// is removed.
fn after_damage_to_a_young_file(old: u32, young: u32, offset: usize) -> Vec<Option<Vec<u8>>> {
    let folder = folder();
    let value = |number: u32, age: u8| {
        let mut bytes = vec![0; 300];
        blake3::Hasher::new().update(&number.to_be_bytes()).finalize_xof().fill(&mut bytes);
        *bytes.last_mut().expect("not empty") = age;
        bytes
    };
    let rocks = open(folder.path()).expect("a new store");
    for number in 0..old {
        put(&rocks, Table::Meta, &number.to_be_bytes(), &value(number, 0));
    }
    rocks.compact(Table::Meta, &KeyRange::all()).expect("compacted");
    let before = files(folder.path(), ".sst");
    for number in (0..old).rev().step_by((old / young) as usize) {
        put(&rocks, Table::Meta, &number.to_be_bytes(), &value(number, 1));
    }
    let mut batch = Batch::new();
    batch.delete(Table::Meta, &(old - 2).to_be_bytes());
    rocks.write(&batch).expect("written");
    rocks.flush().expect("flushed");
    let sizes = |path: &PathBuf| fs::metadata(path).map_or(0, |data| data.len());
    let file = files(folder.path(), ".sst").into_iter().filter(|file| !before.contains(file)).max_by_key(sizes);
    let file = file.expect("a young file");
    drop(rocks);
    flip(&file, offset);
    let rocks = open(folder.path()).expect("opened");
    let damaged = rocks.salvage(Table::Meta, &[]).expect("salvaged");
    assert!(matches!(damaged[..], [SortedFile { table: Table::Meta, level: 0, .. }]), "{damaged:?}");
    drop(rocks);
    remove_files(folder.path(), &damaged).expect("taken out");
    let rocks = open(folder.path()).expect("opened without it");
    assert_eq!(rocks.verify(&mut |_| {}).expect("it runs").len(), 0);
    assert!(!file.exists());
    rocks.compact(Table::Meta, &KeyRange::all()).expect("compacted");
    put(&rocks, Table::Meta, b"x", b"and on it goes");
    rocks.sync().expect("synced");
    let values = (0..old).map(|number| rocks.get(Table::Meta, &number.to_be_bytes()).expect("sound")).collect();
    drop(rocks);
    assert_eq!(open(folder.path()).expect("opened again").verify(&mut |_| {}).expect("it runs").len(), 0);
    values
}

#[test]
fn damaged_young_file_is_removed_from_the_closed_store() {
    let age = |value: &Vec<u8>| *value.last().expect("not empty");
    // The file has one block, which is damaged, so all old values reappear.
    let values = after_damage_to_a_young_file(2_000, 4, 60);
    assert!(values.iter().all(|value| value.as_ref().map(age) == Some(0)));
    // The file has many blocks. The damage is in the first one, then in one in the middle.
    for offset in [60, 100_000] {
        let values = after_damage_to_a_young_file(2_000, 1_000, offset);
        assert_eq!(values.iter().flatten().count(), 1_999, "deleted keys stay deleted");
        let young = values.iter().flatten().filter(|value| age(value) == 1).count();
        assert!((940..1_000).contains(&young), "{young}");
    }
}

#[test]
fn remove_files_refuses_a_folder_without_a_store() {
    let folder = folder();
    assert!(matches!(remove_files(folder.path(), &[]), Err(Error::Unusable { .. })));
    fs::write(folder.path().join("CURRENT"), "../MANIFEST-000001\n").expect("written");
    assert!(matches!(remove_files(folder.path(), &[]), Err(Error::Unusable { .. })));
    fs::write(folder.path().join("CURRENT"), "MANIFEST-000001\n").expect("written");
    fs::write(folder.path().join("MANIFEST-000001"), b"no manifest is this").expect("written");
    let file = SortedFile { table: Table::Meta, level: 0, number: 7 };
    assert!(matches!(remove_files(folder.path(), &[file]), Err(Error::Unusable { .. })));
}

#[test]
fn nothing_is_written_when_the_disk_is_nearly_full() {
    let folder = folder();
    drop(open(folder.path()).expect("a new store"));
    let options = StoreOptions { reserve_bytes: u64::MAX, ..small() };
    let store = Store::open(folder.path(), &options).expect("reading needs no space");
    let mut batch = Batch::new();
    batch.put(Table::Meta, b"a", b"b");
    assert!(matches!(store.commit(&batch), Err(Error::Full(_))));
    assert_eq!(store.committer().poison_reason(), None);
    assert!(store.get(Table::Meta, b"a").expect("sound").is_none());
}

#[test]
fn full_disk_is_reported_until_a_write_succeeds() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    put(&rocks, Table::Meta, b"a", b"1");
    assert_eq!(rocks.write_refusal(), None);
    let full = "IO error: No space left on device: While appending to file: ";
    let error = rocks.write_failure(format!("{full}{}/000012.sst: x", folder.path().display()));
    assert!(matches!(&error, Error::Full(reason) if reason.contains("resumes by itself within seconds")), "{error}");
    assert!(rocks.was_refused.load(Ordering::Relaxed));
    assert_eq!(rocks.write_refusal(), None, "a write without changes succeeds");
    assert!(!rocks.was_refused.load(Ordering::Relaxed));
    let error = rocks.write_failure(format!("{full}{}/000012.log: x", folder.path().display()));
    assert!(matches!(error, Error::Failed { what: "write", .. }), "the engine does not resume: {error}");
    put(&rocks, Table::Meta, b"b", b"2");
    rocks.sync().expect("synced");
    drop(rocks);
    let rocks = open(folder.path()).expect("the log with the write without changes is sound");
    assert!(!rocks.was_torn);
    assert_eq!(scan_all(&rocks, Table::Meta, &KeyRange::all(), Direction::Forward).len(), 2);
}

/// Pairs of which only the first can be read.
struct BrokenPairs {
    is_first_read: bool,
}

impl Cursor for BrokenPairs {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.is_first_read {
            return Err(Error::Full("there is no second pair".into()));
        }
        self.is_first_read = true;
        Ok(Some((&b"key"[..], &b"value"[..])))
    }
}

#[test]
fn failed_ingestion_leaves_no_file() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    let outcome = rocks.ingest(Table::View, &mut BrokenPairs { is_first_read: false });
    assert!(matches!(outcome, Err(Error::Full(_))), "{outcome:?}");
    assert!(!folder.path().join(placement::INGEST_FILE).exists());
    drop(rocks);
    let options = StoreOptions { reserve_bytes: u64::MAX, ..small() };
    let rocks = RocksEngine::open(folder.path(), &options).expect("reading needs no space");
    let outcome = rocks.ingest(Table::View, &mut BrokenPairs { is_first_read: false });
    let text = outcome.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains("kept in reserve"), "nothing is written while the disk is nearly full: {text}");
}

#[test]
fn compaction_frees_the_space_of_a_deleted_range() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    let prefixes = [1_u32.to_be_bytes(), 2_u32.to_be_bytes()];
    let value = |number: u32| blake3::hash(&number.to_be_bytes()).as_bytes().repeat(200);
    for (prefix, number) in prefixes.iter().flat_map(|prefix| (0..300_u32).map(move |number| (prefix, number))) {
        for table in [Table::Summary, Table::Blob] {
            put(&rocks, table, &[prefix, &number.to_be_bytes()[..]].concat(), &value(number));
        }
    }
    let sizes = || {
        [".sst", ".blob"].map(|end| {
            files(folder.path(), end).iter().map(|file| fs::metadata(file).map_or(0, |data| data.len())).sum::<u64>()
        })
    };
    let compact = || {
        for table in [Table::Summary, Table::Blob] {
            rocks.compact(table, &KeyRange::all()).expect("compacted");
        }
        sizes()
    };
    let before = compact();
    let end = prefix_end(&prefixes[0]).expect("there is one");
    let mut batch = Batch::new();
    for table in [Table::Summary, Table::Blob] {
        batch.delete_range(table, &prefixes[0], &end);
    }
    rocks.write(&batch).expect("written");
    let after = compact();
    for (before, after) in before.iter().zip(after) {
        assert!(*before > 10_000 && after < *before * 6 / 10, "{after} of {before}");
    }
    assert_eq!(scan_all(&rocks, Table::Summary, &KeyRange::all(), Direction::Forward).len(), 300);
}

#[test]
fn a_flushed_store_has_nothing_to_replay() {
    let folder = folder();
    {
        let rocks = open(folder.path()).expect("a new store");
        put(&rocks, Table::Meta, b"a", b"1");
        put(&rocks, Table::Body, b"b", b"2");
        rocks.flush().expect("flushed");
    }
    for log in files(folder.path(), ".log") {
        fs::remove_file(log).expect("removed");
    }
    let options = StoreOptions { damaged_log: DamagedLog::DropTail, ..small() };
    let rocks = RocksEngine::open(folder.path(), &options).expect("opened");
    assert!(rocks.get(Table::Meta, b"a").expect("sound").is_some());
    assert!(rocks.get(Table::Body, b"b").expect("sound").is_some());
}

#[test]
fn leftovers_of_a_crash_are_removed() {
    let folder = folder();
    drop(open(folder.path()).expect("a new store"));
    fs::write(folder.path().join(placement::INGEST_FILE), b"half").expect("written");
    fs::create_dir(folder.path().join(placement::CHECKPOINT_FOLDER)).expect("made");
    fs::create_dir(folder.path().join("checkpoint.tmp.tmp")).expect("made");
    drop(open(folder.path()).expect("opened"));
    assert!(files(folder.path(), ".tmp").is_empty());
}

#[test]
fn metrics_follow_operations() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    put(&rocks, Table::Summary, b"key", &[7; 5_000]);
    rocks.sync().expect("synced");
    let figure = |name: &str| {
        let metrics = rocks.metrics();
        metrics.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("no metric {name}")).1
    };
    assert!(figure("log-bytes") >= 5_000);
    assert!(figure("log-syncs-count") >= 1 && figure("log-written-bytes") >= 5_000);
    assert!(figure("memtables-bytes") > 0 && figure("disk-free-bytes") > 0);
    assert_eq!((figure("writes-stopped"), figure("background-errors-count")), (0, 0));
    rocks.compact(Table::Summary, &KeyRange::all()).expect("compacted");
    rocks.get(Table::Summary, b"key").expect("sound");
    rocks.get(Table::Summary, b"key").expect("sound");
    assert!(figure("sorted-files-bytes") > 0 && figure("summary.sorted-files-bytes") > 0);
    assert!(figure("cache-hits-count") > 0 && figure("cache-misses-count") > 0);
}

#[test]
fn long_log_triggers_a_flush() {
    let folder = folder();
    let options = StoreOptions { max_wal_bytes: Some(limits::WAL_BYTES_MIN), memtable_bytes: 64 << 20, ..small() };
    let rocks = RocksEngine::open(folder.path(), &options).expect("a new store");
    let flushed = || rocks.metrics().iter().any(|(name, bytes)| name == "flush-written-bytes" && *bytes > 0);
    let needed = (0..100_000_u32).find(|number| {
        put(&rocks, Table::Summary, &number.to_be_bytes(), &[7; 500]);
        number % 500 == 0 && flushed()
    });
    // The memtables alone would hold forty thousand of these records before a flush.
    assert!(needed.is_some_and(|count| count < 35_000), "{needed:?}");
}

#[test]
fn scan_over_many_tombstones_switches_the_memtable() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    let in_memory = || {
        let family = rocks.family(Table::View);
        rocks.db.property_int_value_cf(family, "rocksdb.num-entries-active-mem-table").expect("sound").expect("known")
    };
    let key = |number: u32| number.to_be_bytes();
    put(&rocks, Table::View, &key(u32::MAX), b"the last");
    let scanned = |count: u32| {
        for number in 0..count {
            let mut batch = Batch::new();
            batch.put(Table::View, &key(number), b"soon gone");
            rocks.write(&batch).expect("written");
            let mut batch = Batch::new();
            batch.delete(Table::View, &key(number));
            rocks.write(&batch).expect("written");
        }
        assert_eq!(
            scan_all(&rocks, Table::View, &KeyRange::all(), Direction::Forward).len(),
            1,
            "removed keys are not returned"
        );
        // The first write switches the memtable, and the second one goes to the new memtable.
        put(&rocks, Table::View, &key(u32::MAX), b"the last");
        put(&rocks, Table::View, &key(u32::MAX), b"the last");
        in_memory()
    };
    let few = limits::SKIPPED_TOMBSTONES_MAX / 10;
    assert!(scanned(few) > u64::from(few), "a few stay");
    assert!(scanned(limits::SKIPPED_TOMBSTONES_MAX) < u64::from(few), "many go");
    assert_eq!(scan_all(&rocks, Table::View, &KeyRange::all(), Direction::Forward).len(), 1);
}
