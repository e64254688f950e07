//! Tests that compare the cache with the engine beneath it.

use std::sync::atomic::AtomicBool;
use std::thread;

use base::Random;
use base::sim::SeededRandom;

use super::*;
use crate::engine::tests::scan_all;
use crate::memory::MemoryEngine;

fn cache() -> (Arc<MemoryEngine>, WriteCache) {
    let memory = Arc::new(MemoryEngine::new(1));
    (Arc::clone(&memory), WriteCache::new(memory))
}

fn put(cache: &WriteCache, table: Table, key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(table, key, value);
    cache.write(&batch).expect("written");
}

fn delete(cache: &WriteCache, table: Table, key: &[u8]) {
    let mut batch = Batch::new();
    batch.delete(table, key);
    cache.write(&batch).expect("written");
}

/// Returns the value that a reader sees.
fn get(reader: &dyn TableReader, key: &[u8]) -> Option<Vec<u8>> {
    reader.get(Table::Summary, key).expect("sound")
}

/// Returns the state of a key in the cache alone.
fn recalled(cache: &WriteCache, key: &[u8]) -> Option<Option<Vec<u8>>> {
    cache.lookup(Table::Summary, key, u64::MAX)
}

#[test]
fn writes_and_removals_are_cached() {
    let (_, cache) = cache();
    assert_eq!(recalled(&cache, b"k"), None, "a key that was never written is unknown");
    put(&cache, Table::Summary, b"k", b"one");
    assert_eq!(recalled(&cache, b"k"), Some(Some(b"one".to_vec())));
    assert_eq!(cache.lookup(Table::Tree, b"k", u64::MAX), None, "tables are separate");
    delete(&cache, Table::Summary, b"k");
    assert_eq!(recalled(&cache, b"k"), Some(None));
    assert_eq!(get(&cache, b"k"), None);
}

#[test]
fn older_snapshot_does_not_see_a_newer_value() {
    let (_, cache) = cache();
    put(&cache, Table::Summary, b"k", b"one");
    let older = cache.snapshot().expect("a snapshot");
    put(&cache, Table::Summary, b"k", b"two");
    let newer = cache.snapshot().expect("a snapshot");
    delete(&cache, Table::Summary, b"k");
    assert_eq!(get(older.as_ref(), b"k"), Some(b"one".to_vec()));
    assert_eq!(get(newer.as_ref(), b"k"), Some(b"two".to_vec()));
    assert_eq!(get(&cache, b"k"), None);
}

#[test]
fn long_keys_long_values_and_other_tables_are_not_cached() {
    let (_, cache) = cache();
    let key = [7; CACHED_KEY_BYTES_MAX + 1];
    let value = [7; CACHED_VALUE_BYTES_MAX + 1];
    put(&cache, Table::Summary, &key, b"v");
    put(&cache, Table::Summary, b"k", b"short");
    put(&cache, Table::Summary, b"k", &value);
    put(&cache, Table::Blob, b"k", b"v");
    assert_eq!(recalled(&cache, &key), None);
    assert_eq!(recalled(&cache, b"k"), None, "the short value is forgotten when a long one takes its place");
    assert_eq!(cache.lookup(Table::Blob, b"k", u64::MAX), None);
    assert_eq!(get(&cache, &key), Some(b"v".to_vec()));
    assert_eq!(get(&cache, b"k"), Some(value.to_vec()));
}

#[test]
fn failed_write_removes_its_keys_from_the_cache() {
    let (memory, cache) = cache();
    put(&cache, Table::Summary, b"k", b"one");
    memory.faults().fail_writes(1_000);
    let mut batch = Batch::new();
    batch.put(Table::Summary, b"k", b"two");
    assert!(cache.write(&batch).is_err());
    assert_eq!(recalled(&cache, b"k"), None, "the outcome of the write is unknown");
    assert_eq!(get(&cache, b"k"), Some(b"one".to_vec()));
}

#[test]
fn changing_key_is_not_answered_from_the_cache() {
    let (_, cache) = cache();
    put(&cache, Table::Summary, b"k", b"one");
    let mut batch = Batch::new();
    batch.put(Table::Summary, b"k", b"two");
    batch.put(Table::Summary, b"k", b"three");
    cache.begin(&batch, 77);
    assert_eq!(recalled(&cache, b"k"), None);
    cache.shards.iter().for_each(|shard| (0..3).for_each(|_| lock(shard).age()));
    cache.end(&batch, Some(9));
    assert_eq!(recalled(&cache, b"k"), Some(Some(b"three".to_vec())), "the last of a batch counts");
}

#[test]
fn concurrent_writers_of_a_key_leave_it_uncached() {
    let (_, cache) = cache();
    let mut batch = Batch::new();
    batch.put(Table::Summary, b"k", b"one");
    cache.begin(&batch, 1);
    cache.begin(&batch, 2);
    cache.end(&batch, Some(1));
    assert_eq!(recalled(&cache, b"k"), None, "the other writer has not finished");
    cache.end(&batch, Some(2));
    assert_eq!(recalled(&cache, b"k"), None, "the last writer is unknown");
    put(&cache, Table::Summary, b"k", b"two");
    assert_eq!(recalled(&cache, b"k"), Some(Some(b"two".to_vec())));
}

#[test]
fn deleting_a_range_evicts_its_keys() {
    let (_, cache) = cache();
    put(&cache, Table::Summary, b"k", b"one");
    let mut under_way = Batch::new();
    under_way.put(Table::Summary, b"kk", b"two");
    cache.begin(&under_way, 77);
    let mut batch = Batch::new();
    batch.delete_range(Table::Summary, b"k", b"l");
    batch.put(Table::Summary, b"kkk", b"three");
    cache.write(&batch).expect("written");
    cache.end(&under_way, Some(9));
    for key in [&b"k"[..], b"kk", b"kkk"] {
        assert_eq!(recalled(&cache, key), None);
    }
    assert_eq!(get(&cache, b"k"), None);
    assert_eq!(get(&cache, b"kkk"), Some(b"three".to_vec()));
}

#[test]
fn memory_is_bounded_and_read_keys_stay() {
    let (_, cache) = cache();
    put(&cache, Table::Summary, b"read key", b"value");
    for number in 0..40_000_u32 {
        put(&cache, Table::Body, &number.to_be_bytes(), &[1; 1_000]);
        assert!(recalled(&cache, b"read key").is_some(), "after {number}");
    }
    let bytes = |map: &Generation| map.iter().map(|(key, state)| byte_count(key, state)).sum::<usize>();
    let mut sum = 0;
    for shard in &cache.shards {
        let shard = lock(shard);
        assert_eq!(shard.young_bytes, bytes(&shard.young), "the account is right");
        sum += shard.young_bytes + bytes(&shard.old);
    }
    assert!((WRITE_CACHE_BYTES_MAX / 3..=WRITE_CACHE_BYTES_MAX).contains(&sum), "{sum} bytes");
}

/// Checks that after random writes, deletions, range deletions and snapshots, the cache returns the same values as the
/// underlying engine.
#[test]
fn answers_equal_those_of_the_engine() {
    for seed in 0..30 {
        let (_, cache) = cache();
        let random = SeededRandom::new(seed);
        let key = || [b'k', random.below(20) as u8];
        let mut snapshots = Vec::new();
        for step in 0..300_u32 {
            match random.below(10) {
                0 => snapshots.push(cache.snapshot().expect("a snapshot")),
                1 => delete(&cache, Table::Summary, &key()),
                2 => {
                    let mut batch = Batch::new();
                    let one = key();
                    let other = key();
                    batch.delete_range(Table::Summary, &one.min(other), &one.max(other));
                    cache.write(&batch).expect("written");
                }
                _ => put(&cache, Table::Summary, &key(), &step.to_be_bytes()),
            }
            let keys: Vec<[u8; 2]> = (0..20).map(|number| [b'k', number]).collect();
            let stored = |key: &[u8; 2]| get(cache.inner.as_ref(), key);
            check_answers(&cache, &keys, stored, seed);
            for snapshot in &snapshots {
                let scan = |key: &[u8; 2]| {
                    let range = KeyRange::prefix(key);
                    let scanned = scan_all(snapshot.as_ref(), Table::Summary, &range, Direction::Forward);
                    scanned.into_iter().next().map(|(_, value)| value)
                };
                check_answers(snapshot.as_ref(), &keys, scan, seed);
            }
        }
    }
}

/// Checks single and batched lookups of the keys.
fn check_answers(
    reader: &dyn TableReader,
    keys: &[[u8; 2]],
    expected: impl Fn(&[u8; 2]) -> Option<Vec<u8>>,
    seed: u64,
) {
    let expected: Vec<_> = keys.iter().map(expected).collect();
    let single: Vec<_> = keys.iter().map(|key| get(reader, key)).collect();
    assert_eq!(single, expected, "seed {seed}");
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    assert_eq!(reader.multi_get(Table::Summary, &keys).expect("sound"), expected, "seed {seed}");
}

/// Checks snapshots while each writer sets its two keys to the same increasing value: a reader sees them equal, and
/// never older than the value written before its snapshot.
#[test]
fn snapshots_are_consistent_during_writes() {
    let (_, cache) = cache();
    let written: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u8)
            .map(|number| {
                let cache = &cache;
                let written = &written[usize::from(number)];
                scope.spawn(move || {
                    for value in 1..=3_000_u64 {
                        let mut batch = Batch::new();
                        batch.put(Table::Summary, &[number], &value.to_be_bytes());
                        batch.put(Table::Tree, &[number], &value.to_be_bytes());
                        cache.write(&batch).expect("written");
                        written.store(value, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let read = || {
            while !ended.load(Ordering::SeqCst) {
                for number in 0..3_u8 {
                    let before = written[usize::from(number)].load(Ordering::SeqCst);
                    let snapshot = cache.snapshot().expect("a snapshot");
                    let of = |table| snapshot.get(table, &[number]).expect("sound").map(|value| number_of(&value));
                    let one = of(Table::Summary);
                    let other = of(Table::Tree);
                    assert_eq!(one, other);
                    assert!(one.unwrap_or(0) >= before);
                }
            }
        };
        scope.spawn(read);
        scope.spawn(read);
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
        ended.store(true, Ordering::SeqCst);
    });
    assert_eq!(recalled(&cache, &[0]), Some(Some(3_000_u64.to_be_bytes().to_vec())));
}

fn number_of(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}
