//! Tests of the gap cache: scans that jump over gaps return the same entries as scans that do not.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::thread;

use base::Random;
use base::sim::SeededRandom;

use super::super::RocksEngine;
use super::super::read::tombstones_passed;
use super::*;
use crate::engine::tests::{scan_all, small};
use crate::engine::{Cursor, Engine, TableReader, next_key};
use crate::error::Result;
use crate::limits::LISTED_CHANGES_PER_SLOT_MAX;
use crate::limits::{GAP_TOMBSTONES_MIN, GAPS_PER_SLOT_MAX};

const TABLE: Table = Table::View;

/// Databases of the tests. Their key ranges are adjacent.
const DATABASES: [u32; 2] = [7, 8];

/// Number of keys per database.
const KEYS: u64 = 400;

const FEW: u64 = GAP_TOMBSTONES_MIN - 1;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open() -> (tempfile::TempDir, RocksEngine) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rocks = RocksEngine::open(folder.path(), &small()).expect("a new store");
    (folder, rocks)
}

fn key(home: u32, number: u64) -> Vec<u8> {
    [&home.to_be_bytes()[..], &u16::try_from(number).expect("few keys").to_be_bytes()].concat()
}

fn write(rocks: &RocksEngine, fill: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    fill(&mut batch);
    rocks.write(&batch).expect("written");
}

fn put(rocks: &RocksEngine, number: u64) {
    write(rocks, |batch| batch.put(TABLE, &key(7, number), b"v"));
}

fn delete(rocks: &RocksEngine, number: u64) {
    write(rocks, |batch| batch.delete(TABLE, &key(7, number)));
}

/// Reads database 7. Returns the numbers of its keys and the number of tombstones skipped.
fn read(reader: &dyn TableReader, direction: Direction) -> (Vec<u64>, u64) {
    let before = tombstones_passed();
    let found = scan_all(reader, TABLE, &KeyRange::prefix(&7_u32.to_be_bytes()), direction);
    let number = |key: &[u8]| u64::from(u16::from_be_bytes([key[4], key[5]]));
    (found.iter().map(|(key, _)| number(key)).collect(), tombstones_passed() - before)
}

fn read_now(rocks: &RocksEngine, direction: Direction) -> (Vec<u64>, u64) {
    read(rocks.snapshot().expect("a snapshot").as_ref(), direction)
}

/// Creates a store in which only keys 0, 200 and 399 of database 7 remain.
fn three_left() -> (tempfile::TempDir, RocksEngine) {
    let (folder, rocks) = open();
    (0..KEYS).for_each(|number| put(&rocks, number));
    (0..KEYS).filter(|number| ![0, 200, 399].contains(number)).for_each(|number| delete(&rocks, number));
    (folder, rocks)
}

#[test]
fn second_scan_skips_the_gaps_of_the_first() {
    for direction in [Direction::Forward, Direction::Backward] {
        let (_folder, rocks) = three_left();
        let (found, passed) = read_now(&rocks, direction);
        assert!(found.len() == 3 && passed >= 397, "the first passes over all: {found:?}, {passed}");
        for again in [Direction::Forward, Direction::Backward] {
            let (found, passed) = read_now(&rocks, again);
            assert!(found.len() == 3 && passed <= FEW, "{direction:?} {again:?}: {found:?}, {passed}");
        }
    }
}

#[test]
fn writes_split_gaps_and_removals_widen_them() {
    let (_folder, rocks) = three_left();
    let before = rocks.snapshot().expect("a snapshot");
    read_now(&rocks, Direction::Forward);
    put(&rocks, 100);
    assert_eq!(read_now(&rocks, Direction::Forward).0, [0, 100, 200, 399]);
    assert_eq!(read_now(&rocks, Direction::Backward).0, [399, 200, 100, 0]);
    let between = rocks.snapshot().expect("a snapshot");
    delete(&rocks, 100);
    delete(&rocks, 200);
    let (found, passed) = read_now(&rocks, Direction::Forward);
    assert!(found == [0, 399] && passed <= FEW, "{found:?}, {passed}");
    assert_eq!(read(between.as_ref(), Direction::Forward).0, [0, 100, 200, 399], "a snapshot does not change");
    assert_eq!(read(before.as_ref(), Direction::Forward).0, [0, 200, 399]);
}

#[test]
fn ingested_keys_are_found_in_gaps() {
    struct One(bool);
    impl Cursor for One {
        fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
            let is_first = std::mem::take(&mut self.0);
            Ok(is_first.then_some((&[0, 0, 0, 7, 0, 50], &[1])))
        }
    }
    let (_folder, rocks) = three_left();
    read_now(&rocks, Direction::Forward);
    rocks.ingest(TABLE, &mut One(true)).expect("taken in");
    assert_eq!(read_now(&rocks, Direction::Forward).0, [0, 50, 200, 399]);
}

fn batch(fill: impl FnOnce(&mut Batch)) -> Batch {
    let mut batch = Batch::new();
    fill(&mut batch);
    batch
}

fn setting(number: u64) -> Batch {
    batch(|batch| batch.put(TABLE, &key(7, number), b"v"))
}

fn deleting(number: u64) -> Batch {
    batch(|batch| batch.delete(TABLE, &key(7, number)))
}

/// Returns the gap that contains a key of database 7 or comes next after it.
fn gap_from(gaps: &Gaps, number: u64) -> Option<KeyRange> {
    gaps.next_gap((slot_number(TABLE, &key(7, 0)), TABLE), &key(7, number), Direction::Forward, u64::MAX)
}

fn record(gaps: &Gaps, start: u64, end: u64, at: u64) -> bool {
    gaps.record(TABLE, &key(7, start), &key(7, end), at);
    gap_from(gaps, start).is_some_and(|gap| gap.contains(&key(7, start)))
}

#[test]
fn gap_is_split_before_its_key_is_written() {
    let gaps = Gaps::new();
    assert!(record(&gaps, 10, 20, 0));
    let batch = setting(15);
    let turn = gaps.begin(&batch);
    let [before, after] = [10, 15].map(|number| gap_from(&gaps, number).expect("two gaps"));
    assert_eq!((before.end, after.start), (Some(key(7, 15)), next_key(&key(7, 15))));
    gaps.end(&batch, &turn, true);
}

#[test]
fn range_with_concurrent_or_later_changes_is_not_recorded() {
    let range = batch(|batch| batch.delete_range(TABLE, &key(3, 0), &key(9, 0)));
    let large = batch(|batch| {
        (0..=LISTED_CHANGES_PER_BATCH_MAX as u64).for_each(|n| batch.put(TABLE, &key(7, 1_000 + n), b"v"))
    });
    for batch in [setting(15), deleting(15), range, large] {
        let gaps = Gaps::new();
        let before = gaps.last_visible_batch();
        let turn = gaps.begin(&batch);
        assert!(!record(&gaps, 10, 20, gaps.last_visible_batch()), "the snapshot may show the batch or not");
        gaps.end(&batch, &turn, true);
        assert!(!record(&gaps, 10, 20, before), "the snapshot may be older than the batch");
        assert!(record(&gaps, 10, 20, gaps.last_visible_batch()));
    }
}

#[test]
fn range_is_recorded_while_adjacent_keys_change() {
    for batch in [setting(9), setting(20), deleting(300)] {
        let gaps = Gaps::new();
        let before = gaps.last_visible_batch();
        let turn = gaps.begin(&batch);
        assert!(record(&gaps, 10, 20, gaps.last_visible_batch()));
        gaps.end(&batch, &turn, true);
        assert!(record(&gaps, 12, 20, before));
    }
}

#[test]
fn change_dropped_from_the_list_still_prevents_recording() {
    let gaps = Gaps::new();
    let before = gaps.last_visible_batch();
    let write = |number| {
        let batch = setting(number);
        let turn = gaps.begin(&batch);
        gaps.end(&batch, &turn, true);
    };
    write(15);
    (0..=LISTED_CHANGES_PER_SLOT_MAX as u64).for_each(|number| write(1_000 + number));
    assert!(!record(&gaps, 10, 20, before));
    assert!(record(&gaps, 10, 20, gaps.last_visible_batch()));
}

#[test]
fn concurrent_writes_of_a_key_do_not_widen_its_gap() {
    let setting = setting(20);
    let removing = deleting(20);
    for is_setting_first in [true, false] {
        let gaps = Gaps::new();
        assert!(record(&gaps, 10, 20, 0));
        let (of_setting, of_removing) = if is_setting_first {
            (gaps.begin(&setting), gaps.begin(&removing))
        } else {
            let of_removing = gaps.begin(&removing);
            (gaps.begin(&setting), of_removing)
        };
        // The engine may have applied the batches in a different order from the one in which they end.
        gaps.end(&setting, &of_setting, true);
        gaps.end(&removing, &of_removing, true);
        assert_eq!(gap_from(&gaps, 10).expect("a gap").end, Some(key(7, 20)));
    }
    let gaps = Gaps::new();
    assert!(record(&gaps, 10, 20, 0));
    let turn = gaps.begin(&removing);
    gaps.end(&removing, &turn, false);
    assert_eq!(gap_from(&gaps, 10).expect("a gap").end, Some(key(7, 20)), "a failed write removes nothing");
    let turn = gaps.begin(&removing);
    gaps.end(&removing, &turn, true);
    assert_eq!(gap_from(&gaps, 10).expect("a gap").end, Some(next_key(&key(7, 20))));
}

#[test]
fn gap_count_and_key_length_are_limited() {
    let gaps = Gaps::new();
    let many = GAPS_PER_SLOT_MAX as u64 + 10;
    (0..many).for_each(|number| assert!(record(&gaps, number * 3, number * 3 + 1, 0)));
    let count = || gaps.lock(slot_number(TABLE, &key(7, 0))).len();
    assert_eq!(count(), GAPS_PER_SLOT_MAX);
    assert_eq!(gap_from(&gaps, 0).expect("a gap").start, key(7, 30), "the first ten were dropped");
    gaps.record(TABLE, &[7; GAP_KEY_BYTES_MAX + 1], &[8; 4], 0);
    gaps.record(TABLE, &[0, 0, 0, 7], &[0, 0, 0, 9], 0);
    gaps.record(Table::Tree, &key(7, 9_000), &key(7, 9_001), 0);
    assert_eq!(gaps.lock(slot_number(TABLE, &[7; 4])).len(), 0, "long keys are not kept");
    assert_eq!(count(), GAPS_PER_SLOT_MAX, "nor ranges of several databases, nor tables that are not covered");
}

#[test]
fn scans_of_random_histories_match_the_model() {
    for seed in 0..6 {
        let mut dice = SeededRandom::new(seed);
        let (_folder, rocks) = open();
        let mut model = Model::new();
        let mut held: Vec<(Box<dyn TableReader + Send + Sync>, Model)> = Vec::new();
        let mut jumped = 0;
        for _ in 0..1_500 {
            change(&rocks, &mut model, &mut dice);
            if dice.below(12) == 0 {
                held.truncate(3);
                held.insert(0, (rocks.snapshot().expect("a snapshot"), model.clone()));
            }
            if let Some((reader, seen)) = held.get(usize::try_from(dice.below(5)).expect("few")) {
                let (range, direction) = random_scan(&mut dice);
                let mut expected: Vec<_> = seen
                    .iter()
                    .filter(|(key, _)| range.contains(key))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                if direction == Direction::Backward {
                    expected.reverse();
                }
                let found = scan_all(reader.as_ref(), TABLE, &range, direction);
                assert_eq!(found, expected, "seed {seed}: {range:?} {direction:?}");
            }
            jumped += rocks.gaps.slots.iter().map(|slot| slot.lock().len()).sum::<usize>();
        }
        assert!(jumped > 1_000, "seed {seed}: there were gaps to be jumped over");
    }
}

/// Changes a store and its model. Most changes set or remove runs of keys.
fn change(rocks: &RocksEngine, model: &mut Model, dice: &mut SeededRandom) {
    let home = DATABASES[usize::try_from(dice.below(2)).expect("few")];
    let first = dice.below(KEYS);
    let count = if dice.below(3) == 0 { 1 + dice.below(150) } else { 1 };
    let keys: Vec<_> = (first..KEYS.min(first + count)).map(|number| key(home, number)).collect();
    let mut batch = Batch::new();
    match dice.below(10) {
        0 => {
            let end = key(home, KEYS.min(first + count));
            batch.delete_range(TABLE, &keys[0], &end);
            keys.iter().for_each(|key| drop(model.remove(key)));
        }
        1..=4 => {
            let value = dice.below(1 << 20).to_be_bytes();
            for key in keys {
                batch.put(TABLE, &key, &value);
                model.insert(key, value.to_vec());
            }
        }
        _ => {
            for key in keys {
                batch.delete(TABLE, &key);
                model.remove(&key);
            }
        }
    }
    rocks.write(&batch).expect("written");
    if dice.below(400) == 0 {
        rocks.flush().expect("flushed");
    }
}

/// Returns a random range and direction for a scan.
fn random_scan(dice: &mut SeededRandom) -> (KeyRange, Direction) {
    let direction = if dice.below(2) == 0 { Direction::Forward } else { Direction::Backward };
    let home = DATABASES[usize::try_from(dice.below(2)).expect("few")];
    let range = match dice.below(4) {
        0 => KeyRange::all(),
        1 => KeyRange::prefix(&home.to_be_bytes()),
        _ => {
            let first = dice.below(KEYS);
            let count = dice.below(KEYS);
            KeyRange::between(key(home, first), key(home, first + count))
        }
    };
    (range, direction)
}

#[test]
fn concurrent_scans_miss_no_key() {
    let (_folder, rocks) = open();
    let is_over = AtomicBool::new(false);
    // At any time exactly two keys of each writer exist. The keys of the writers are interleaved.
    (0..4).for_each(|number| put(&rocks, number));
    let scans = thread::scope(|scope| {
        let writers = [0, 1].map(|writer| {
            scope.spawn({
                let rocks = &rocks;
                move || move_keys(rocks, writer)
            })
        });
        let readers = [Direction::Forward, Direction::Backward].map(|direction| {
            let rocks = &rocks;
            let is_over = &is_over;
            scope.spawn(move || {
                let mut scans = 0_u64;
                while !is_over.load(Ordering::SeqCst) || scans == 0 {
                    let (found, _) = read_now(rocks, direction);
                    let evens = found.iter().filter(|number| *number % 2 == 0).count();
                    assert_eq!((evens, found.len()), (2, 4), "{found:?}");
                    scans += 1;
                }
                scans
            })
        });
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        is_over.store(true, Ordering::SeqCst);
        readers.map(|reader| reader.join().expect("a reader"))
    });
    assert!(scans.iter().all(|scans| *scans > 0), "{scans:?}");
}

/// Moves the two keys of a writer repeatedly.
fn move_keys(rocks: &RocksEngine, writer: u64) {
    let dice = SeededRandom::new(writer);
    let mut positions = [writer, writer + 2];
    for _ in 0..6_000 {
        let to = dice.below(KEYS / 2) * 2 + writer;
        if positions.contains(&to) {
            continue;
        }
        let from = std::mem::replace(&mut positions[usize::try_from(dice.below(2)).expect("few")], to);
        write(rocks, |batch| {
            batch.delete(TABLE, &key(7, from));
            batch.put(TABLE, &key(7, to), b"v");
        });
    }
}
