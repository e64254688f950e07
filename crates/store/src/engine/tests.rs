//! Tests of the guarantees that all engines share: the same operations return the same results as an ordered map.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::external_sort::ExternalSorter;
use crate::memory::MemoryEngine;
use crate::rocks::{RocksEngine, StoreOptions};
use crate::write_cache::WriteCache;

#[test]
fn table_numbers_and_names_are_distinct() {
    for (number, table) in Table::ALL.iter().enumerate() {
        assert_eq!(Table::from_number(number as u8), Some(*table));
        assert_eq!(Table::ALL.iter().filter(|other| other.name() == table.name()).count(), 1);
    }
    assert_eq!(Table::from_number(15), None);
}

#[test]
fn a_prefix_range_ends_after_its_last_key() {
    assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
    assert_eq!(prefix_end(&[1, 0xFF]), Some(vec![2]));
    assert_eq!(prefix_end(&[0xFF]), None);
    let range = KeyRange::prefix(b"ab");
    assert!(range.contains(b"ab") && range.contains(b"ab\xFF\xFF") && !range.contains(b"ac"));
}

/// Returns options for tests that open many small stores.
pub(crate) fn small() -> StoreOptions {
    StoreOptions { cache_bytes: 4 << 20, memtable_bytes: 8 << 20, reserve_bytes: 0, ..StoreOptions::default() }
}

/// Runs a check over the engine in memory, the write cache over it, and RocksDB.
fn check(run: impl Fn(&dyn Engine)) {
    run(&MemoryEngine::new(1));
    run(&WriteCache::new(Arc::new(MemoryEngine::new(1))));
    let folder = tempfile::tempdir().expect("a temporary folder");
    run(&RocksEngine::open(folder.path(), &small()).expect("a new store"));
}

fn put(engine: &dyn Engine, table: Table, pairs: &[(&[u8], &[u8])]) {
    let mut batch = Batch::new();
    pairs.iter().for_each(|(key, value)| batch.put(table, key, value));
    engine.write(&batch).expect("written");
}

pub(crate) fn scan_all(
    reader: &dyn TableReader,
    table: Table,
    range: &KeyRange,
    direction: Direction,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = reader.scan(table, range, direction).expect("a scan");
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next().expect("sound") {
        found.push((key.to_vec(), value.to_vec()));
    }
    assert!(cursor.next().expect("sound").is_none(), "the cursor stays at its end");
    found
}

#[test]
fn a_scan_keeps_to_its_range_and_direction() {
    check(|engine| {
        put(engine, Table::View, &[(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"d", b"4")]);
        put(engine, Table::Unid, &[(b"b", b"other table")]);
        let keys = |range: KeyRange, direction| {
            let found = scan_all(engine, Table::View, &range, direction);
            found.into_iter().map(|(key, _)| String::from_utf8(key).expect("ASCII")).collect::<String>()
        };
        assert_eq!(keys(KeyRange::all(), Direction::Forward), "abcd");
        assert_eq!(keys(KeyRange::all(), Direction::Backward), "dcba");
        assert_eq!(keys(KeyRange::between(*b"b", *b"d"), Direction::Forward), "bc");
        assert_eq!(keys(KeyRange::between(*b"b", *b"d"), Direction::Backward), "cb");
        assert_eq!(keys(KeyRange::between(*b"bb", *b"bc"), Direction::Backward), "");
        assert_eq!(keys(KeyRange::between(*b"d", *b"b"), Direction::Forward), "", "a reversed range is empty");
        assert_eq!(keys(KeyRange::between(*b"b", *b"b"), Direction::Backward), "");
        assert_eq!(keys(KeyRange::prefix(b"c"), Direction::Forward), "c");
    });
}

#[test]
fn snapshot_does_not_see_later_writes() {
    check(|engine| {
        put(engine, Table::Meta, &[(b"a", b"old"), (b"b", b"old")]);
        let snapshot = engine.snapshot().expect("a snapshot");
        put(engine, Table::Meta, &[(b"a", b"new"), (b"c", b"new")]);
        let mut batch = Batch::new();
        batch.delete(Table::Meta, b"b");
        engine.write(&batch).expect("written");
        let old = [(b"a".to_vec(), b"old".to_vec()), (b"b".to_vec(), b"old".to_vec())];
        assert_eq!(scan_all(snapshot.as_ref(), Table::Meta, &KeyRange::all(), Direction::Forward), old);
        assert_eq!(snapshot.multi_get(Table::Meta, &[b"b", b"c"]).expect("sound"), [Some(b"old".to_vec()), None]);
        assert_eq!(engine.multi_get(Table::Meta, &[b"b", b"c"]).expect("sound"), [None, Some(b"new".to_vec())]);
    });
}

#[test]
fn scan_does_not_see_writes_after_its_start() {
    check(|engine| {
        put(engine, Table::Meta, &[(b"a", b"1"), (b"c", b"3")]);
        let mut cursor = engine.scan(Table::Meta, &KeyRange::all(), Direction::Forward).expect("a scan");
        put(engine, Table::Meta, &[(b"b", b"2"), (b"c", b"changed")]);
        assert_eq!(cursor.next().expect("sound"), Some((&b"a"[..], &b"1"[..])));
        assert_eq!(cursor.next().expect("sound"), Some((&b"c"[..], &b"3"[..])));
        assert_eq!(cursor.next().expect("sound"), None);
    });
}

#[test]
fn last_change_of_a_key_in_a_batch_wins() {
    check(|engine| {
        let mut batch = Batch::new();
        batch.put(Table::Body, b"a", b"1");
        batch.put(Table::Body, b"a", b"2");
        batch.put(Table::Body, b"b", b"1");
        batch.delete_range(Table::Body, b"b", b"c");
        batch.put(Table::Body, b"c", b"1");
        batch.delete(Table::Body, b"c");
        batch.put(Table::Body, b"c", b"again");
        engine.write(&batch).expect("written");
        let found = scan_all(engine, Table::Body, &KeyRange::all(), Direction::Forward);
        assert_eq!(found, [(b"a".to_vec(), b"2".to_vec()), (b"c".to_vec(), b"again".to_vec())]);
    });
}

#[test]
fn ingested_pairs_are_readable_and_survive_compaction() {
    check(|engine| {
        put(engine, Table::View, &[(b"0", b"before")]);
        let folder = tempfile::tempdir().expect("a folder");
        let mut sorter = ExternalSorter::new(folder.path(), 1 << 20);
        (0..500_u32).for_each(|number| sorter.push(&number.to_be_bytes(), &[7; 100]).expect("taken"));
        engine.ingest(Table::View, &mut sorter.finish().expect("sorted")).expect("taken in");
        let nothing = ExternalSorter::new(folder.path(), 1 << 20).finish();
        engine.ingest(Table::View, &mut nothing.expect("sorted")).expect("an empty file is accepted");
        assert_eq!(scan_all(engine, Table::View, &KeyRange::all(), Direction::Forward).len(), 501);
        engine.compact(Table::View, &KeyRange::all()).expect("compacted");
        assert!(engine.size(Table::View, &KeyRange::all()).expect("a size") > 0);
        assert_eq!(engine.size(Table::View, &KeyRange::between(*b"z", *b"a")).expect("a size"), 0);
        let mut bytes = 0;
        assert!(engine.verify(&mut |read| bytes = read).expect("it runs").is_empty());
        assert!(bytes >= 500 * 104, "{bytes}");
        assert!(!engine.metrics().is_empty());
    });
}

#[derive(Clone, Debug)]
enum Change {
    Put(u8, Vec<u8>),
    Delete(u8),
    DeleteRange(u8, u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any::<u8>(), prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(key, value)| Change::Put(key, value)),
        2 => any::<u8>().prop_map(Change::Delete),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Change::DeleteRange(a.min(b), a.max(b))),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(model: &mut Model, batch: &mut Batch, change: &Change) {
    match change {
        Change::Put(key, value) => {
            batch.put(Table::Tree, &[*key], value);
            model.insert(vec![*key], value.clone());
        }
        Change::Delete(key) => {
            batch.delete(Table::Tree, &[*key]);
            model.remove(&[*key][..]);
        }
        Change::DeleteRange(start, end) => {
            batch.delete_range(Table::Tree, &[*start], &[*end]);
            model.retain(|key, _| key[0] < *start || key[0] >= *end);
        }
    }
}

fn compare(reader: &dyn TableReader, model: &Model, start: u8, end: u8) {
    let range = KeyRange::between([start], [end]);
    let expected: Vec<_> =
        model.iter().filter(|(key, _)| range.contains(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(scan_all(reader, Table::Tree, &range, Direction::Forward), expected);
    let backward: Vec<_> = expected.into_iter().rev().collect();
    assert_eq!(scan_all(reader, Table::Tree, &range, Direction::Backward), backward);
    assert_eq!(reader.get(Table::Tree, &[start]).expect("sound").as_ref(), model.get(&[start][..]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn an_engine_behaves_like_an_ordered_map(
        batches in prop::collection::vec(prop::collection::vec(change(), 1..12), 1..30),
        frozen_at in 0_usize..30,
        (start, end) in (any::<u8>(), any::<u8>()),
    ) {
        check(|engine| {
            let mut model = Model::new();
            let mut frozen = None;
            for (number, changes) in batches.iter().enumerate() {
                if number == frozen_at {
                    frozen = Some((model.clone(), engine.snapshot().expect("a snapshot")));
                }
                let mut batch = Batch::new();
                changes.iter().for_each(|change| apply(&mut model, &mut batch, change));
                engine.write(&batch).expect("written");
                if number % 7 == 3 {
                    engine.sync().expect("synced");
                }
            }
            compare(engine, &model, start, end);
            compare(engine, &model, 0, 255);
            if let Some((model, snapshot)) = frozen {
                compare(snapshot.as_ref(), &model, start, end);
            }
        });
    }
}
