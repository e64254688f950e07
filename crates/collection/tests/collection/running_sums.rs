//! Sums that are larger than 1 for an entry: the search by a running sum, and sums that leave the range.

use base::Random;
use base::sim::SeededRandom;
use collection::{CollectionBuilder, CollectionReader, CollectionWriter, EntryWeigher, NodeSizes, Totals, Weight};
use store::memory::MemoryEngine;
use store::{Batch, Engine};

use crate::{ID, MIDDLE, SMALL, commit};

/// One sum: the number in the eight bytes of a value.
struct OneNumber;

impl EntryWeigher for OneNumber {
    fn sums(&self) -> usize {
        1
    }

    fn weigh(&self, _key: &[u8], value: &[u8]) -> Option<Weight> {
        Some(Weight::new(&[i64::from_be_bytes(value.try_into().ok()?)]))
    }
}

fn key(number: usize) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

/// Stores numbers at ascending keys, in a random order of insertion.
fn store_numbers(numbers: &[i64], node_sizes: NodeSizes, random: &SeededRandom) -> MemoryEngine {
    let engine = MemoryEngine::new(1);
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    for index in (1..order.len()).rev() {
        order.swap(index, random.below(index as u64 + 1) as usize);
    }
    for some in order.chunks(50) {
        let mut writer = CollectionWriter::open_with_sizes(&engine, ID, &OneNumber, node_sizes).unwrap();
        for index in some {
            writer.insert(&key(*index), &numbers[*index].to_be_bytes()).unwrap();
        }
        commit(&engine, writer);
    }
    engine
}

#[test]
fn the_entry_at_a_running_sum_is_found() {
    for (seed, node_sizes) in [(1, SMALL), (2, MIDDLE), (3, NodeSizes::default())] {
        let random = SeededRandom::new(seed);
        // Many entries add nothing, and some add much more than others.
        let numbers: Vec<i64> =
            (0..400).map(|_| if random.below(2) == 0 { 0 } else { 1 << random.below(12) }).collect();
        let engine = store_numbers(&numbers, node_sizes, &random);
        let collection = CollectionReader::open(&engine, ID).unwrap();
        let total: i64 = numbers.iter().sum();
        let mut before = 0;
        for (index, number) in numbers.iter().enumerate().filter(|(_, number)| **number > 0) {
            for target in [before, before + number / 2, before + number - 1] {
                let (position, entry) = collection.entry_at_sum(0, target as u64, &OneNumber).unwrap().expect("found");
                assert_eq!((position, entry.key), (index as u64, key(index).to_vec()), "seed {seed}: {target}");
            }
            before += number;
        }
        for target in [total as u64, total as u64 + 1, u64::MAX] {
            assert_eq!(collection.entry_at_sum(0, target, &OneNumber).unwrap(), None);
        }
    }
}

#[test]
fn totals_before_a_key_match_a_plain_list() {
    let random = SeededRandom::new(9);
    let numbers: Vec<i64> = (0..500).map(|_| random.below(1 << 40) as i64 - (1 << 39)).collect();
    let engine = store_numbers(&numbers, SMALL, &random);
    let collection = CollectionReader::open(&engine, ID).unwrap();
    for index in 0..=500 {
        let totals = collection.totals_before(&key(index), &OneNumber).unwrap();
        let expected = Weight::new(&[numbers[..index].iter().sum()]);
        assert_eq!(totals, Totals { count: index as u64, sums: expected });
        let rest = collection.totals_range(&key(index), None, &OneNumber).unwrap();
        assert_eq!(rest, Totals { count: 500 - index as u64, sums: Weight::new(&[numbers[index..].iter().sum()]) });
    }
}

#[test]
fn a_sum_beyond_its_range_is_refused_and_changes_nothing() {
    let engine = MemoryEngine::new(1);
    let mut writer = CollectionWriter::open(&engine, ID, &OneNumber).unwrap();
    writer.put(b"first", &i64::MAX.to_be_bytes()).unwrap();
    commit(&engine, writer);
    let mut writer = CollectionWriter::open(&engine, ID, &OneNumber).unwrap();
    assert!(writer.put(b"second", &1i64.to_be_bytes()).is_err());
    drop(writer);
    let expected = Totals { count: 1, sums: Weight::new(&[i64::MAX]) };
    assert_eq!(CollectionReader::open(&engine, ID).unwrap().totals().unwrap(), expected);
    let mut writer = CollectionWriter::open(&engine, ID, &OneNumber).unwrap();
    writer.put(b"second", &(-1i64).to_be_bytes()).unwrap();
    writer.put(b"third", &1i64.to_be_bytes()).unwrap();
    commit(&engine, writer);
    let expected = Totals { count: 3, sums: Weight::new(&[i64::MAX]) };
    assert_eq!(CollectionReader::open(&engine, ID).unwrap().totals().unwrap(), expected);
}

#[test]
fn builder_creates_a_tree_over_stored_entries() {
    let numbers: Vec<i64> = (0..100).map(|number| number * number).collect();
    let engine = store_numbers(&numbers, SMALL, &SeededRandom::new(4));
    let expected = Totals { count: 100, sums: Weight::new(&[numbers.iter().sum()]) };
    let mut batch = Batch::new();
    let mut builder = CollectionBuilder::start(ID, 1, MIDDLE, &mut batch);
    for (index, number) in numbers.iter().enumerate() {
        builder.add(&mut batch, &key(index), Weight::new(&[*number])).unwrap();
    }
    assert_eq!(builder.finish(&mut batch, b"built").unwrap(), expected);
    engine.write(&batch).unwrap();
    assert_eq!(collection::check(&engine, ID, &OneNumber).unwrap(), []);
    let reader = CollectionReader::open(&engine, ID).unwrap();
    assert_eq!((reader.totals().unwrap(), reader.state()), (expected, &b"built"[..]));
}

#[test]
fn a_builder_refuses_a_sum_beyond_its_range() {
    let mut batch = Batch::new();
    let mut builder = CollectionBuilder::start(ID, 1, SMALL, &mut batch);
    builder.add(&mut batch, &key(1), Weight::new(&[i64::MAX])).unwrap();
    assert!(builder.add(&mut batch, &key(2), Weight::new(&[1])).is_err());
}
