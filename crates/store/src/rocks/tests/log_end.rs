//! Tests of logs whose end is missing or damaged, and of the records that detect this.

use super::*;
use crate::commit::SyncMode;
use crate::external_sort::ExternalSorter;

const DROP_TAIL: &str = "set store.damaged_log = \"drop-tail\" to start without them";

fn length(file: &Path) -> u64 {
    fs::metadata(file).expect("a file").len()
}

fn cut(file: &Path, length: u64) {
    fs::OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(length)).expect("cut");
}

fn mark(folder: &Path) -> SyncMark {
    synced_log::read_mark(folder).expect("a mark is written")
}

/// Checks that a store is refused with a text, that it opens without its tail, and that it opens normally afterwards.
fn check_tail_is_needed(folder: &Path, expected: &[&str]) {
    check_refused(folder, &small(), expected);
    let options = StoreOptions { damaged_log: DamagedLog::DropTail, ..small() };
    let rocks = RocksEngine::open(folder, &options).expect("the option drops the tail");
    let there = prefix(&rocks);
    assert!(there < 100, "{there}");
    drop(rocks);
    assert_eq!(prefix(&open(folder).expect("it opens without the option")), there);
}

#[test]
fn log_that_ends_before_synced_changes_is_refused() {
    let kept: [fn(u64) -> u64; 5] =
        [|length| length * 9 / 10, |length| length / 2, |_| 0, |length| length - 1, |length| length - 1_100];
    for kept in kept {
        let folder = folder();
        let log = fill_log(folder.path(), 100, |_| true);
        let synced = length(&log);
        let kept = kept(synced);
        cut(&log, kept);
        let ends = format!("{}: this log ends at byte {kept}, but was synced to byte {synced}", log.display());
        check_tail_is_needed(folder.path(), &[&ends, DROP_TAIL]);
    }
}

#[test]
fn log_may_end_where_it_was_synced() {
    let folder = folder();
    let log = fill_log(folder.path(), 100, |number| number == 50);
    let synced = mark(folder.path()).length;
    assert!(synced < length(&log));
    let whole = fs::read(&log).expect("read");
    cut(&log, synced - 1);
    check_refused(folder.path(), &small(), &["this log ends at byte"]);
    fs::write(&log, whole).expect("written");
    cut(&log, synced);
    assert_eq!(prefix(&open(folder.path()).expect("everything that was synced is there")), 51);
}

#[test]
fn damage_in_the_last_synced_group_is_refused() {
    let folder = folder();
    let log = fill_log(folder.path(), 100, |number| number == 99);
    flip(&log, 50_000);
    let damaged = format!("{}: this log is damaged at byte ", log.display());
    check_tail_is_needed(folder.path(), &[&damaged, "acknowledged changes after it are lost", DROP_TAIL]);
}

#[test]
fn garbled_records_are_repaired() {
    let garbage: [&[u8]; 5] = [b"", b"number", b"\xFF\xFE", &[0; 1_024], &[0xFF; 1_024]];
    for names in [&["last-log"][..], &["synced-log"], &["last-log", "synced-log"]] {
        for garbage in garbage {
            let folder = folder();
            fill_log(folder.path(), 100, |_| true);
            for name in names {
                fs::write(folder.path().join(name), garbage).expect("written");
            }
            assert_eq!(prefix(&open(folder.path()).expect("the data is whole")), 100);
            let recorded = fs::read_to_string(folder.path().join("last-log")).expect("repaired");
            assert_eq!(recorded.parse::<u64>(), Ok(mark(folder.path()).log));
        }
    }
}

#[test]
fn missing_log_is_detected_with_one_garbled_record() {
    for (names, text) in [
        (&["last-log"][..], ".log is missing from"),
        (&["synced-log"], ".log is missing from"),
        (&["last-log", "synced-log"], "its log is missing from"),
    ] {
        let folder = folder();
        let log = fill_log(folder.path(), 10, |_| true);
        fs::remove_file(&log).expect("removed");
        for name in names {
            fs::write(folder.path().join(name), b"garbage").expect("written");
        }
        check_refused(folder.path(), &small(), &[text]);
    }
}

#[test]
fn older_log_that_is_missing_or_cut_off_is_named() {
    let folder = folder();
    {
        let rocks = open(folder.path()).expect("a new store");
        put(&rocks, Table::Meta, b"a", b"1");
        put(&rocks, Table::Body, b"b", b"2");
        rocks.sync().expect("synced");
        // The engine begins another log, and keeps this one for the other table.
        rocks.db.flush_cf(rocks.family(Table::Meta)).expect("flushed");
        put(&rocks, Table::Body, b"c", b"3");
        rocks.sync().expect("synced");
    }
    let logs = files(folder.path(), ".log");
    assert!(logs.len() > 1, "{logs:?}");
    let older = &logs[0];
    let sound = fs::read(older).expect("read");
    let drop_tail = StoreOptions { damaged_log: DamagedLog::DropTail, ..small() };
    fs::remove_file(older).expect("removed");
    let missing = format!("{}: this log is missing, and acknowledged changes with it", older.display());
    check_refused(folder.path(), &small(), &[&missing, "bring the complete file back, else restore a backup"]);
    check_refused(folder.path(), &drop_tail, &[&missing]);
    fs::write(older, &sound[..sound.len() - 1]).expect("written");
    let shorter = format!("{}: this log is shorter than it was synced", older.display());
    check_refused(folder.path(), &drop_tail, &[&shorter, "bring the complete file back, else restore a backup"]);
    fs::write(older, sound).expect("brought back");
    let rocks = open(folder.path()).expect("nothing was lost");
    assert_eq!(rocks.get(Table::Body, b"b").expect("sound"), Some(b"2".to_vec()));
}

#[test]
fn log_that_is_no_longer_needed_may_be_gone() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    put(&rocks, Table::Meta, b"a", b"1");
    rocks.sync().expect("synced");
    let synced = fs::read(folder.path().join("synced-log")).expect("read");
    rocks.flush().expect("flushed");
    put(&rocks, Table::Meta, b"b", b"2");
    rocks.sync().expect("synced");
    drop(rocks);
    fs::write(folder.path().join("synced-log"), synced).expect("an older mark, as after a power failure");
    assert!(open(folder.path()).is_ok());
}

#[test]
fn mark_of_a_younger_log_is_exact() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    for number in 0..20_u32 {
        put(&rocks, Table::Meta, &number.to_be_bytes(), &[7; 100]);
        rocks.flush().expect("flushed");
        put(&rocks, Table::Meta, &number.to_be_bytes(), &[8; 100]);
        rocks.sync().expect("synced");
        let log = files(folder.path(), ".log").pop().expect("a log");
        let expected = SyncMark { log: log::log_number(&log).expect("a number"), length: length(&log) };
        assert_eq!(mark(folder.path()), expected, "round {number}");
    }
}

#[test]
fn large_batches_during_syncs_cause_no_false_alarm() {
    let folder = folder();
    // Nothing is flushed, so the log stays.
    let options = StoreOptions { memtable_bytes: 384 << 20, ..small() };
    let rocks = RocksEngine::open(folder.path(), &options).expect("a new store");
    let write = || {
        // The batches are larger than the engine's buffer, so a sync meets parts of them in the file.
        for number in 0..30_u32 {
            put(&rocks, Table::Body, &number.to_be_bytes(), &vec![7; 2_500_000]);
        }
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(write);
        while !writer.is_finished() {
            rocks.sync().expect("synced");
            // The process could be killed now.
            let condition = log::examine(folder.path(), Some(mark(folder.path()))).expect("read");
            assert_eq!(condition.loss, None);
        }
    });
    rocks.sync().expect("synced");
    let log = files(folder.path(), ".log").pop().expect("a log");
    assert_eq!(mark(folder.path()).length, length(&log));
}

#[test]
fn nothing_is_marked_while_writes_are_not_synced() {
    let folder = folder();
    let options = StoreOptions { sync: SyncMode::Off, ..small() };
    let rocks = RocksEngine::open(folder.path(), &options).expect("a new store");
    put(&rocks, Table::Meta, b"a", b"1");
    rocks.sync().expect("synced");
    assert_eq!(mark(folder.path()).length, 0);
}

#[test]
fn ingested_file_does_not_vouch_for_the_next_batches() {
    let folder = folder();
    let rocks = open(folder.path()).expect("a new store");
    put(&rocks, Table::Body, &0_u32.to_be_bytes(), &[7; 1_000]);
    rocks.sync().expect("synced");
    let logged = rocks.db.latest_sequence_number();
    let mut sorter = ExternalSorter::new(folder.path(), 1 << 20);
    sorter.push(b"ingested", b"1").expect("taken");
    // With a snapshot, the engine gives the file a sequence number of its own.
    let snapshot = rocks.snapshot().expect("a snapshot");
    rocks.ingest(Table::View, &mut sorter.finish().expect("sorted")).expect("taken in");
    drop(snapshot);
    assert_eq!(rocks.db.latest_sequence_number(), logged + 1, "the file has the next number");
    rocks.sync().expect("synced");
    let log = files(folder.path(), ".log").pop().expect("a log");
    let synced = length(&log) as usize;
    for number in 1..100_u32 {
        put(&rocks, Table::Body, &number.to_be_bytes(), &[7; 1_000]);
    }
    drop(rocks);
    // The sync markers of the batches in the next block cover the ingested file, but not the damaged batch.
    flip(&log, synced + 500);
    let rocks = open(folder.path()).expect("the damaged batch was not synced");
    assert_eq!(prefix(&rocks), 1);
    assert_eq!(rocks.get(Table::View, b"ingested").expect("sound"), Some(b"1".to_vec()));
}
