//! Collections against a naive model: a sorted map that is counted by walking it.
//!
//! Small blocks and nodes make trees of several levels out of few entries. Keys come from a few bytes at the ends of
//! the range, so that they are prefixes of each other and meet at fences. After each transaction everything a
//! reader can be asked is compared, and [`check`] finds nothing.

use std::collections::BTreeMap;

use base::{DbNumber, ViewId};
use notes::collection::{Builder, CollectionId, Entry, Reader, Totals, Tuning, Weigh, Weight, Writer, check};
use proptest::collection::vec;
use proptest::prelude::*;
use store::memory::Memory;
use store::{Batch, Direction, Engine, KeyRange, Read};

/// Three sums from the first three bytes of a value: a mark, another mark, and a signed size.
struct Three;

impl Weigh for Three {
    fn sums(&self) -> usize {
        3
    }

    fn weigh(&self, _key: &[u8], value: &[u8]) -> Option<Weight> {
        let [marks, size, factor, ..] = value else { return None };
        let size = i64::from(*size as i8) << (factor % 32);
        Some(Weight::new(&[i64::from(marks & 1), i64::from(marks >> 1 & 1), size]))
    }
}

const ID: CollectionId = CollectionId::new(DbNumber(7), ViewId(300));

const SMALL: Tuning = Tuning {
    block_entries_max: 3,
    node_children_max: 3,
    node_bytes_max: 4_096,
    root_bytes_max: 50,
    recent_max: 4,
    recent_bytes_max: 100,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn totals_of<'a>(entries: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> Totals {
    let (mut count, mut sums) = (0, [0; 3]);
    for (key, value) in entries {
        let weight = Three.weigh(key, value).expect("the model holds sound values");
        count += 1;
        sums.iter_mut().enumerate().for_each(|(sum, total)| *total += weight.value(sum));
    }
    Totals { count, sums: Weight::new(&sums) }
}

fn entry((key, value): (&Vec<u8>, &Vec<u8>)) -> Entry {
    Entry { key: key.clone(), value: value.clone() }
}

/// One step of a transaction.
#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    /// Removes the entry at a position, modulo the count, and puts it at another key.
    Move(usize, Vec<u8>),
    /// Gives the entry at a position another value.
    Update(usize, Vec<u8>),
    RemoveAt(usize),
    State(Vec<u8>),
}

fn apply(writer: &mut Writer<'_>, model: &mut Model, step: &Step) {
    let at = |model: &Model, position: usize| model.keys().nth(position % model.len().max(1)).cloned();
    match step {
        Step::Put(key, value) => {
            assert_eq!(writer.put(key, value).unwrap(), model.insert(key.clone(), value.clone()));
        }
        Step::Remove(key) => assert_eq!(writer.remove(key).unwrap(), model.remove(key)),
        Step::Move(position, target) => {
            let Some(key) = at(model, *position) else { return };
            let value = model.remove(&key).expect("it was just found");
            assert_eq!(writer.remove(&key).unwrap(), Some(value.clone()));
            assert_eq!(writer.put(target, &value).unwrap(), model.insert(target.clone(), value));
        }
        Step::Update(position, value) => {
            let Some(key) = at(model, *position) else { return };
            assert_eq!(writer.find(&key).unwrap().as_ref(), model.get(&key));
            assert_eq!(writer.put(&key, value).unwrap(), model.insert(key, value.clone()));
        }
        Step::RemoveAt(position) => {
            let Some(key) = at(model, *position) else { return };
            assert_eq!(writer.remove(&key).unwrap(), model.remove(&key));
        }
        Step::State(state) => writer.set_state(state),
    }
}

/// Runs one transaction against the engine and the model.
fn transact(engine: &Memory, id: CollectionId, tuning: Tuning, model: &mut Model, steps: &[Step]) {
    let mut writer = Writer::open_tuned(engine, id, &Three, tuning).unwrap();
    for step in steps {
        apply(&mut writer, model, step);
        assert_eq!(writer.totals().unwrap(), totals_of(model.iter()));
    }
    let mut visited = Vec::new();
    let visit = |key: &[u8], value: &[u8]| {
        visited.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    writer.visit(&[], None, visit).unwrap();
    assert!(visited.iter().map(|(key, value)| (key, value)).eq(model.iter()), "a transaction sees its own changes");
    let mut batch = Batch::new();
    writer.finish(&mut batch).unwrap();
    engine.write(&batch).unwrap();
}

/// Compares everything a reader tells with the model. `probes` are keys that may or may not exist.
fn check_reader(reader: &dyn Read, id: CollectionId, model: &Model, probes: &[Vec<u8>]) {
    assert_eq!(check(reader, id, &Three).unwrap(), []);
    let collection = Reader::open(reader, id).unwrap();
    assert_eq!(collection.totals().unwrap(), totals_of(model.iter()));
    assert_eq!(collection.count().unwrap(), model.len() as u64);
    for key in model.keys().chain(probes) {
        check_key(&collection, model, key);
    }
    for (position, expected) in model.iter().enumerate() {
        assert_eq!(collection.entry_at(position as u64).unwrap(), Some(entry(expected)));
    }
    assert_eq!(collection.entry_at(model.len() as u64).unwrap(), None);
    check_marked(&collection, model);
}

fn check_key(collection: &Reader<'_>, model: &Model, key: &Vec<u8>) {
    assert_eq!(collection.find(key).unwrap().as_ref(), model.get(key));
    assert_eq!(collection.rank(key).unwrap(), model.range(..key.clone()).count() as u64);
    assert_eq!(collection.totals_before(key, &Three).unwrap(), totals_of(model.range(..key.clone())));
    let range = KeyRange { start: key.clone(), end: None };
    let from = collection.scan(&range, Direction::Forward).unwrap().take(4).unwrap();
    assert!(from.into_iter().eq(model.range(key.clone()..).take(4).map(entry)));
    let range = KeyRange { start: Vec::new(), end: Some(key.clone()) };
    let before = collection.scan(&range, Direction::Backward).unwrap().take(4).unwrap();
    assert!(before.into_iter().eq(model.range(..key.clone()).rev().take(4).map(entry)));
}

/// Looks entries up by the first sum: the marked ones.
fn check_marked(collection: &Reader<'_>, model: &Model) {
    let marked = model.iter().enumerate().filter(|(_, (_, value))| value[0] & 1 == 1);
    let mut count = 0;
    for (position, expected) in marked {
        let found = collection.entry_at_sum(0, count, &Three).unwrap();
        assert_eq!(found, Some((position as u64, entry(expected))));
        count += 1;
    }
    assert_eq!(collection.entry_at_sum(0, count, &Three).unwrap(), None);
}

/// Compares pages in both directions and counts of ranges.
fn check_pages(reader: &dyn Read, model: &Model, positions: &[usize]) {
    let collection = Reader::open(reader, ID).unwrap();
    let keys: Vec<_> = model.keys().collect();
    for pair in positions.windows(2) {
        let position = pair[0] % (model.len() + 1);
        let limit = pair[1] % 9;
        let forward = collection.page(position as u64, limit).unwrap();
        assert!(forward.into_iter().eq(model.iter().skip(position).take(limit).map(entry)));
        let scan = collection.scan_at(position as u64, Direction::Backward).unwrap();
        assert_eq!(scan.is_some(), position < model.len());
        let backward = scan.map_or(Vec::new(), |mut scan| scan.take(limit).unwrap());
        let skipped = model.len().saturating_sub(position + 1);
        let expected = model.iter().rev().skip(skipped).take(if position < model.len() { limit } else { 0 });
        assert!(backward.into_iter().eq(expected.map(entry)));
        let (low, high) = (position.min(pair[1] % (model.len() + 1)), position.max(pair[1] % (model.len() + 1)));
        let (Some(start), end) = (keys.get(low), keys.get(high)) else { continue };
        let end = end.map(|end| end.as_slice());
        assert_eq!(collection.count_range(start, end).unwrap(), (high - low) as u64);
        let expected = totals_of(model.iter().skip(low).take(high - low));
        assert_eq!(collection.totals_range(start, end, &Three).unwrap(), expected);
    }
}

fn some_key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0x7F), Just(0xFE), Just(0xFF), any::<u8>()];
    prop_oneof![
        4 => vec(byte.clone(), 0..5),
        2 => (0u32..400).prop_map(|number| number.to_be_bytes().to_vec()),
        2 => vec(byte, 0..4).prop_map(|tail| [b"the same long beginning of a view's key: ".as_slice(), &tail].concat()),
        1 => (any::<u8>(), 100usize..700).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn some_value() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 3..8)
}

fn some_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (some_key(), some_value()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => some_key().prop_map(Step::Remove),
        2 => (any::<usize>(), some_key()).prop_map(|(position, key)| Step::Move(position, key)),
        2 => (any::<usize>(), some_value()).prop_map(|(position, value)| Step::Update(position, value)),
        3 => any::<usize>().prop_map(Step::RemoveAt),
        1 => vec(any::<u8>(), 0..20).prop_map(Step::State),
    ]
}

fn some_tuning() -> impl Strategy<Value = Tuning> {
    let node_bytes_max = prop_oneof![Just(64u32), Just(300), Just(4_096)];
    let recent = (prop_oneof![Just(0u32), 1u32..20], prop_oneof![Just(40u32), Just(500)]);
    (2u32..7, 3u32..7, 0u32..4, node_bytes_max, recent).prop_map(|(block, node, less, node_bytes_max, recent)| Tuning {
        block_entries_max: block,
        node_children_max: node,
        node_bytes_max,
        root_bytes_max: node_bytes_max >> less,
        recent_max: recent.0,
        recent_bytes_max: recent.1,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_collection_is_like_a_sorted_list(
        tuning in some_tuning(),
        transactions in vec(vec(some_step(), 0..30), 1..8),
        probes in vec(some_key(), 0..6),
        positions in vec(any::<usize>(), 2..10),
    ) {
        let engine = Memory::new(1);
        let mut model = Model::new();
        let mut state = Vec::new();
        for steps in &transactions {
            transact(&engine, ID, tuning, &mut model, steps);
            check_reader(&engine, ID, &model, &probes);
            check_pages(&engine, &model, &positions);
            let set = steps.iter().rev().find_map(|step| if let Step::State(state) = step { Some(state) } else { None });
            state = set.cloned().unwrap_or(state);
            assert_eq!(Reader::open(&engine, ID).unwrap().state(), state);
        }
    }

    #[test]
    fn collections_side_by_side_do_not_touch_each_other(
        transactions in vec((0usize..4, vec(some_step(), 1..20)), 1..10),
        removed in 0usize..4,
    ) {
        let ids = [
            ID,
            CollectionId { collation: 1, ..ID },
            CollectionId::new(DbNumber(7), ViewId(301)),
            CollectionId::new(DbNumber(8), ViewId(0)),
        ];
        let engine = Memory::new(1);
        let mut models = vec![Model::new(); 4];
        for (which, steps) in &transactions {
            transact(&engine, ids[*which], SMALL, &mut models[*which], steps);
        }
        let mut batch = Batch::new();
        ids[removed].remove_all(&mut batch);
        engine.write(&batch).unwrap();
        models[removed].clear();
        for (id, model) in ids.iter().zip(&models) {
            check_reader(&engine, *id, model, &[]);
        }
        prop_assert!(!Reader::open(&engine, ids[removed]).unwrap().exists());
    }

    #[test]
    fn a_built_tree_equals_a_grown_one(
        tuning in some_tuning(),
        entries in proptest::collection::btree_map(some_key(), some_value(), 0..120),
        steps in vec(some_step(), 0..20),
    ) {
        let engine = Memory::new(1);
        let mut batch = Batch::new();
        let mut builder = Builder::start(ID, 3, tuning, &mut batch);
        for (key, value) in &entries {
            builder.put(&mut batch, key, value, Three.weigh(key, value).unwrap()).unwrap();
        }
        prop_assert_eq!(builder.finish(&mut batch, b"state").unwrap(), totals_of(entries.iter()));
        engine.write(&batch).unwrap();
        let mut model: Model = entries;
        check_reader(&engine, ID, &model, &[]);
        transact(&engine, ID, tuning, &mut model, &steps);
        check_reader(&engine, ID, &model, &[]);
    }
}
