//! Changes by callers that know the entry which they replace: they save a lookup and must leave the same tree.
//!
//! Each history runs twice, with lookups and without. Both collections must agree with the model, and a transaction
//! must see its own changes in every range.

use base::Random;
use base::sim::SeededRandom;
use collection::{CollectionReader, CollectionWriter, EntryWeigher, NodeSizes};
use store::memory::MemoryEngine;
use store::{Batch, Engine};

use crate::{ID, MIDDLE, Model, SMALL, ThreeSums, check_pages, check_reader, commit};

/// A change of one entry whose present value the model knows.
struct Change {
    key: Vec<u8>,
    /// The new value, or `None` to remove the entry.
    value: Option<Vec<u8>>,
}

fn random_change(random: &SeededRandom, keys_max: u64) -> Change {
    let key = (random.below(keys_max) as u32).to_be_bytes().to_vec();
    let value = (random.below(3) > 0).then(|| random.next_u64().to_be_bytes()[..4].to_vec());
    Change { key, value }
}

/// Applies a change with a lookup.
fn change(writer: &mut CollectionWriter<'_>, change: &Change) {
    match &change.value {
        Some(value) => drop(writer.put(&change.key, value).unwrap()),
        None => drop(writer.remove(&change.key).unwrap()),
    }
}

/// Applies a change without a lookup.
fn change_known(writer: &mut CollectionWriter<'_>, model: &Model, change: &Change) {
    let old = model.get(&change.key).map(|value| ThreeSums.weigh(&change.key, value).expect("a sound value"));
    match (&change.value, old) {
        (Some(value), Some(weight)) => writer.put_known(&change.key, value, weight).unwrap(),
        (Some(value), None) => writer.insert(&change.key, value).unwrap(),
        (None, Some(weight)) => writer.remove_known(&change.key, weight).unwrap(),
        (None, None) => {}
    }
}

/// Compares the entries that a writer visits with the model, from one random key to another.
fn check_visit(writer: &CollectionWriter<'_>, model: &Model, random: &SeededRandom, keys_max: u64) {
    let one = (random.below(keys_max) as u32).to_be_bytes().to_vec();
    let other = (random.below(keys_max) as u32).to_be_bytes().to_vec();
    let (start, end) = if one <= other { (one, other) } else { (other, one) };
    let mut visited = Model::new();
    let visit = |key: &[u8], value: &[u8]| {
        visited.insert(key.to_vec(), value.to_vec());
        Ok(())
    };
    writer.visit(&start, Some(&end), visit).unwrap();
    assert!(visited.iter().eq(model.range(start..end)));
}

fn check_history(seed: u64, keys_max: u64, variants: &[NodeSizes]) {
    let random = SeededRandom::new(seed);
    let looked_up = MemoryEngine::new(seed);
    let known = MemoryEngine::new(seed);
    let mut model = Model::new();
    for transaction in 0..40 {
        let node_sizes = variants[transaction % variants.len()];
        let mut slow = CollectionWriter::open_with_sizes(&looked_up, ID, &ThreeSums, node_sizes).unwrap();
        let mut fast = CollectionWriter::open_with_sizes(&known, ID, &ThreeSums, node_sizes).unwrap();
        for _ in 0..random.below(120) {
            let next = random_change(&random, keys_max);
            change(&mut slow, &next);
            change_known(&mut fast, &model, &next);
            match next.value {
                Some(value) => drop(model.insert(next.key, value)),
                None => drop(model.remove(&next.key)),
            }
            assert_eq!(fast.totals().unwrap(), slow.totals().unwrap(), "seed {seed}");
        }
        check_visit(&fast, &model, &random, keys_max);
        commit(&looked_up, slow);
        commit(&known, fast);
    }
    let positions: Vec<usize> = (0..20).map(|_| random.below(1 << 20) as usize).collect();
    for engine in [&looked_up, &known] {
        check_reader(engine, ID, &model, &[]);
        check_pages(engine, &model, &positions);
    }
}

#[test]
fn changes_without_look_ups_leave_the_same_collection() {
    for seed in 0..12 {
        check_history(seed, 40 + seed * 30, &[SMALL]);
    }
}

#[test]
fn node_sizes_may_differ_between_transactions() {
    for seed in 100..106 {
        check_history(seed, 300, &[SMALL, MIDDLE, NodeSizes::default(), NodeSizes { recent_max: 0, ..SMALL }]);
    }
}

#[test]
fn an_entry_may_change_several_times_in_a_transaction() {
    let engine = MemoryEngine::new(1);
    let mut writer = CollectionWriter::open_with_sizes(&engine, ID, &ThreeSums, SMALL).unwrap();
    let weigh = |value: &[u8]| ThreeSums.weigh(b"key", value).expect("a sound value");
    writer.insert(b"key", &[1, 5, 0]).unwrap();
    writer.put_known(b"key", &[0, 7, 0], weigh(&[1, 5, 0])).unwrap();
    assert_eq!(writer.totals().unwrap().sums, weigh(&[0, 7, 0]));
    writer.remove_known(b"key", weigh(&[0, 7, 0])).unwrap();
    assert_eq!((writer.totals().unwrap().count, writer.find(b"key").unwrap()), (0, None));
    writer.insert(b"key", &[3, 9, 0]).unwrap();
    writer.insert(b"key", &[2, 9, 0]).unwrap();
    commit(&engine, writer);
    check_reader(&engine, ID, &Model::from([(b"key".to_vec(), vec![2, 9, 0])]), &[]);
}

#[test]
fn reopened_reader_shows_the_same_snapshot() {
    let engine = MemoryEngine::new(1);
    let mut writer = CollectionWriter::open(&engine, ID, &ThreeSums).unwrap();
    writer.insert(b"a", &[1, 1, 0]).unwrap();
    writer.set_state(b"first");
    commit(&engine, writer);
    let snapshot = engine.snapshot().unwrap();
    let opening = CollectionReader::open(snapshot.as_ref(), ID).unwrap().opening();
    let mut writer = CollectionWriter::open(&engine, ID, &ThreeSums).unwrap();
    writer.insert(b"b", &[1, 1, 0]).unwrap();
    writer.set_state(b"second");
    let mut batch = Batch::new();
    writer.finish(&mut batch).unwrap();
    engine.write(&batch).unwrap();
    let again = CollectionReader::reopen(snapshot.as_ref(), &opening);
    assert_eq!((again.exists(), again.state(), again.count().unwrap()), (true, &b"first"[..], 1));
    let now = CollectionReader::open(&engine, ID).unwrap();
    assert_eq!((now.state(), now.count().unwrap()), (&b"second"[..], 2));
}
