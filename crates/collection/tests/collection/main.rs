//! Collections against a naive model: a sorted map whose counts are computed by a full pass.
//!
//! Small blocks and nodes make trees of several levels out of few entries. Keys come from a few bytes at the ends of
//! the range, so that they are prefixes of each other and meet at fences. After each transaction, all results of a
//! reader are compared with the model, and [`check`] must find nothing.

mod boundaries;
mod known_weights;
mod running_sums;

use std::collections::BTreeMap;

use base::sim::SeededRandom;
use base::{DbNumber, Random, ViewId};
use collection::{
    CollectionBuilder, CollectionEntry, CollectionId, CollectionReader, CollectionWriter, CountOnly, EntryWeigher,
    Inconsistency, NodeSizes, Shape, Totals, Weight, check, rebuild, shape,
};
use proptest::collection::vec;
use proptest::prelude::*;
use store::memory::MemoryEngine;
use store::{Batch, BatchOperation, Direction, Engine, KeyRange, Table, TableReader};

/// Three sums from the first three bytes of a value: a mark, another mark, and a signed size.
struct ThreeSums;

impl EntryWeigher for ThreeSums {
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

const SMALL: NodeSizes = NodeSizes {
    block_entries_max: 3,
    node_children_max: 3,
    node_bytes_max: 4_096,
    root_bytes_max: 50,
    recent_max: 4,
    recent_bytes_max: 100,
};

const MIDDLE: NodeSizes =
    NodeSizes { block_entries_max: 20, node_children_max: 6, recent_max: 30, recent_bytes_max: 400, ..SMALL };

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn totals_of<'a>(entries: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>) -> Totals {
    let mut count = 0;
    let mut sums = [0; 3];
    for (key, value) in entries {
        let weight = ThreeSums.weigh(key, value).expect("the model holds sound values");
        count += 1;
        sums.iter_mut().enumerate().for_each(|(sum, total)| *total += weight.value(sum));
    }
    Totals { count, sums: Weight::new(&sums) }
}

fn entry((key, value): (&Vec<u8>, &Vec<u8>)) -> CollectionEntry {
    CollectionEntry { key: key.clone(), value: value.clone() }
}

/// A step of a transaction.
#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    /// Removes the entry at a position, modulo the count, and puts it at another key.
    Move(usize, Vec<u8>),
    /// Replaces the value of the entry at a position.
    Update(usize, Vec<u8>),
    RemoveAt(usize),
    State(Vec<u8>),
    /// Removes consecutive entries from a position on.
    RemoveRange(usize, usize),
}

fn apply(writer: &mut CollectionWriter<'_>, model: &mut Model, step: &Step) {
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
        Step::RemoveRange(position, count) => {
            let keys: Vec<_> = model.keys().skip(position % model.len().max(1)).take(*count).cloned().collect();
            keys.iter().for_each(|key| assert_eq!(writer.remove(key).unwrap(), model.remove(key)));
        }
    }
}

/// Runs one transaction against the engine and the model.
fn transact(engine: &MemoryEngine, id: CollectionId, node_sizes: NodeSizes, model: &mut Model, steps: &[Step]) {
    let mut writer = CollectionWriter::open_with_sizes(engine, id, &ThreeSums, node_sizes).unwrap();
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

/// Compares all results of a reader with the model. `probes` are keys that may or may not exist.
fn check_reader(reader: &dyn TableReader, id: CollectionId, model: &Model, probes: &[Vec<u8>]) {
    assert_eq!(check(reader, id, &ThreeSums).unwrap(), []);
    let collection = CollectionReader::open(reader, id).unwrap();
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

fn check_key(collection: &CollectionReader<'_>, model: &Model, key: &Vec<u8>) {
    assert_eq!(collection.find(key).unwrap().as_ref(), model.get(key));
    assert_eq!(collection.rank(key).unwrap(), model.range(..key.clone()).count() as u64);
    assert_eq!(collection.totals_before(key, &ThreeSums).unwrap(), totals_of(model.range(..key.clone())));
    let range = KeyRange { start: key.clone(), end: None };
    let from = collection.scan(&range, Direction::Forward).unwrap().take(4).unwrap();
    assert!(from.into_iter().eq(model.range(key.clone()..).take(4).map(entry)));
    let range = KeyRange { start: Vec::new(), end: Some(key.clone()) };
    let before = collection.scan(&range, Direction::Backward).unwrap().take(4).unwrap();
    assert!(before.into_iter().eq(model.range(..key.clone()).rev().take(4).map(entry)));
}

/// Checks the search by the first sum, which finds the marked entries.
fn check_marked(collection: &CollectionReader<'_>, model: &Model) {
    let marked = model.iter().enumerate().filter(|(_, (_, value))| value[0] & 1 == 1);
    let mut count = 0;
    for (position, expected) in marked {
        let found = collection.entry_at_sum(0, count, &ThreeSums).unwrap();
        assert_eq!(found, Some((position as u64, entry(expected))));
        count += 1;
    }
    assert_eq!(collection.entry_at_sum(0, count, &ThreeSums).unwrap(), None);
}

/// Compares pages in both directions and counts of ranges.
fn check_pages(reader: &dyn TableReader, model: &Model, positions: &[usize]) {
    let collection = CollectionReader::open(reader, ID).unwrap();
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
        let low = position.min(pair[1] % (model.len() + 1));
        let high = position.max(pair[1] % (model.len() + 1));
        let (Some(start), end) = (keys.get(low), keys.get(high)) else { continue };
        let end = end.map(|end| end.as_slice());
        assert_eq!(collection.count_range(start, end).unwrap(), (high - low) as u64);
        let expected = totals_of(model.iter().skip(low).take(high - low));
        assert_eq!(collection.totals_range(start, end, &ThreeSums).unwrap(), expected);
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
        1 => (any::<usize>(), 0usize..40).prop_map(|(position, count)| Step::RemoveRange(position, count)),
    ]
}

fn some_node_sizes() -> impl Strategy<Value = NodeSizes> {
    let node_bytes_max = prop_oneof![Just(64u32), Just(300), Just(4_096)];
    let recent = (prop_oneof![Just(0u32), 1u32..20], prop_oneof![Just(40u32), Just(500)]);
    (2u32..7, 3u32..7, 0u32..4, node_bytes_max, recent).prop_map(|(block, node, less, node_bytes_max, recent)| {
        NodeSizes {
            block_entries_max: block,
            node_children_max: node,
            node_bytes_max,
            root_bytes_max: node_bytes_max >> less,
            recent_max: recent.0,
            recent_bytes_max: recent.1,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn collection_matches_a_sorted_map(
        node_sizes in some_node_sizes(),
        transactions in vec(vec(some_step(), 0..30), 1..8),
        probes in vec(some_key(), 0..6),
        positions in vec(any::<usize>(), 2..10),
    ) {
        let engine = MemoryEngine::new(1);
        let mut model = Model::new();
        let mut state = Vec::new();
        for steps in &transactions {
            transact(&engine, ID, node_sizes, &mut model, steps);
            check_reader(&engine, ID, &model, &probes);
            check_pages(&engine, &model, &positions);
            let set = steps.iter().rev().find_map(|step| if let Step::State(state) = step { Some(state) } else { None });
            state = set.cloned().unwrap_or(state);
            assert_eq!(CollectionReader::open(&engine, ID).unwrap().state(), state);
        }
    }

    #[test]
    fn collections_are_independent_of_each_other(
        transactions in vec((0usize..4, vec(some_step(), 1..20)), 1..10),
        removed in 0usize..4,
    ) {
        let ids = [
            ID,
            CollectionId { collation: 1, ..ID },
            CollectionId::new(DbNumber(7), ViewId(301)),
            CollectionId::new(DbNumber(8), ViewId(0)),
        ];
        let engine = MemoryEngine::new(1);
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
        prop_assert!(!CollectionReader::open(&engine, ids[removed]).unwrap().exists());
    }

    #[test]
    fn built_tree_equals_an_incrementally_grown_one(
        node_sizes in some_node_sizes(),
        entries in proptest::collection::btree_map(some_key(), some_value(), 0..120),
        steps in vec(some_step(), 0..20),
    ) {
        let engine = MemoryEngine::new(1);
        let mut batch = Batch::new();
        let mut builder = CollectionBuilder::start(ID, 3, node_sizes, &mut batch);
        for (key, value) in &entries {
            builder.put(&mut batch, key, value, ThreeSums.weigh(key, value).unwrap()).unwrap();
        }
        prop_assert_eq!(builder.finish(&mut batch, b"state").unwrap(), totals_of(entries.iter()));
        engine.write(&batch).unwrap();
        let mut model: Model = entries;
        check_reader(&engine, ID, &model, &[]);
        transact(&engine, ID, node_sizes, &mut model, &steps);
        check_reader(&engine, ID, &model, &[]);
    }
}

/// Writes entries in transactions of `entries_per_transaction` entries.
fn load(
    engine: &MemoryEngine,
    node_sizes: NodeSizes,
    numbers: impl IntoIterator<Item = u32>,
    entries_per_transaction: usize,
) {
    let numbers: Vec<u32> = numbers.into_iter().collect();
    for some in numbers.chunks(entries_per_transaction) {
        let mut writer = CollectionWriter::open_with_sizes(engine, ID, &ThreeSums, node_sizes).unwrap();
        for number in some {
            writer.put(&number.to_be_bytes(), &[1, number.to_be_bytes()[3], 0]).unwrap();
        }
        commit(engine, writer);
    }
}

fn commit(engine: &MemoryEngine, writer: CollectionWriter<'_>) {
    let mut batch = Batch::new();
    writer.finish(&mut batch).unwrap();
    engine.write(&batch).unwrap();
    // After the sync, the engine drops states that a crash can no longer restore.
    engine.sync().unwrap();
}

fn model_of(engine: &MemoryEngine) -> Model {
    let collection = CollectionReader::open(engine, ID).unwrap();
    let entries = collection.scan(&KeyRange::all(), Direction::Forward).unwrap().take(usize::MAX).unwrap();
    entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
}

#[test]
fn growth_at_one_end_fills_blocks_and_nodes() {
    let check = |numbers: &mut dyn Iterator<Item = u32>, entries_per_transaction| {
        let engine = MemoryEngine::new(1);
        load(&engine, NodeSizes::default(), numbers, entries_per_transaction);
        let shape = shape(&engine, ID).unwrap();
        assert_eq!(shape.entries, 20_000);
        // The entries fill 78.1 blocks, and these fill 1.2 nodes.
        assert!(shape.blocks <= 80 && shape.nodes <= 4, "{shape:?}");
    };
    check(&mut (0..20_000), 1);
    check(&mut (0..20_000), 300);
    check(&mut (0..20_000), 20_000);
    check(&mut (0..20_000).rev(), 1);
    check(&mut (0..20_000).rev(), 300);
}

#[test]
fn a_transaction_writes_each_entry_and_node_once() {
    let engine = MemoryEngine::new(1);
    load(&engine, NodeSizes::default(), (0..60_000).map(|number| number * 2), 5_000);
    let mut writer = CollectionWriter::open(&engine, ID, &ThreeSums).unwrap();
    for number in 60_000u32..61_000 {
        writer.put(&number.to_be_bytes(), &[0, 1, 0]).unwrap();
        writer.put(&number.to_be_bytes(), &[1, 1, 0]).unwrap();
    }
    writer.set_state(b"first");
    writer.set_state(b"second");
    let mut batch = Batch::new();
    writer.finish(&mut batch).unwrap();
    let keys: Vec<_> = batch.operations().map(|operation| format!("{operation:?}")).collect();
    let puts_to = |table: &str| keys.iter().filter(|key| key.contains(table) && key.starts_with("Put")).count();
    assert_eq!((puts_to("View"), keys.len()), (1_000, 1_000 + puts_to("Tree")));
    assert!(puts_to("Tree") <= 4, "the root, the node of some dozen blocks, perhaps its halves: {}", puts_to("Tree"));
}

#[test]
fn changes_without_effect_write_no_entries() {
    let engine = MemoryEngine::new(1);
    load(&engine, SMALL, 0..50, 7);
    let before = CollectionReader::open(&engine, ID).unwrap().totals().unwrap();
    let mut writer = CollectionWriter::open(&engine, ID, &ThreeSums).unwrap();
    assert_eq!(writer.remove(b"nobody").unwrap(), None);
    assert_eq!(writer.put(&7u32.to_be_bytes(), &[1, 7, 0]).unwrap(), Some(vec![1, 7, 0]));
    assert_eq!(writer.put(b"passing", &[1, 2, 3]).unwrap(), None);
    assert_eq!(writer.remove(b"passing").unwrap(), Some(vec![1, 2, 3]));
    writer.set_state(b"");
    let mut batch = Batch::new();
    writer.finish(&mut batch).unwrap();
    engine.write(&batch).unwrap();
    assert!(batch.operations().all(|operation| !matches!(operation, BatchOperation::Put { table: Table::View, .. })));
    assert_eq!(CollectionReader::open(&engine, ID).unwrap().totals().unwrap(), before);
    // A writer that is dropped leaves nothing either.
    CollectionWriter::open(&engine, ID, &ThreeSums).unwrap().put(b"dropped", &[1, 2, 3]).unwrap();
    assert_eq!(CollectionReader::open(&engine, ID).unwrap().find(b"dropped").unwrap(), None);
}

#[test]
fn emptied_collection_frees_its_nodes() {
    // The root keeps no recent changes, so the tree reflects each removal at once.
    let node_sizes = NodeSizes { recent_max: 0, ..SMALL };
    for entries_per_transaction in [1, 7, 600] {
        let engine = MemoryEngine::new(1);
        load(&engine, node_sizes, (0..600).rev(), 13);
        assert!(shape(&engine, ID).unwrap().levels > 4);
        // From the middle outwards, so that neighbors merge on both sides.
        let mut numbers: Vec<u32> = (0..600).collect();
        numbers.sort_by_key(|number| number.abs_diff(300));
        for some in numbers.chunks(entries_per_transaction) {
            let mut writer = CollectionWriter::open_with_sizes(&engine, ID, &ThreeSums, node_sizes).unwrap();
            for number in some {
                assert!(writer.remove(&number.to_be_bytes()).unwrap().is_some());
            }
            commit(&engine, writer);
            assert_eq!(check(&engine, ID, &ThreeSums).unwrap(), []);
        }
        let expected = Shape { levels: 1, nodes: 1, blocks: 1, entries: 0, ..shape(&engine, ID).unwrap() };
        assert_eq!(shape(&engine, ID).unwrap(), expected);
        let mut cursor = engine.scan(Table::Tree, &KeyRange::all(), Direction::Forward).unwrap();
        assert!(cursor.next().unwrap().is_some() && cursor.next().unwrap().is_none(), "only the root record is left");
    }
}

#[test]
fn a_snapshot_keeps_entries_and_counts_together() {
    let engine = MemoryEngine::new(1);
    load(&engine, SMALL, 0..200, 50);
    let snapshot = engine.snapshot().unwrap();
    let model = model_of(&engine);
    load(&engine, SMALL, 200..400, 3);
    let mut writer = CollectionWriter::open_with_sizes(&engine, ID, &ThreeSums, SMALL).unwrap();
    (0..100u32).for_each(|number| drop(writer.remove(&number.to_be_bytes()).unwrap()));
    commit(&engine, writer);
    check_reader(snapshot.as_ref(), ID, &model, &[]);
    check_reader(&engine, ID, &model_of(&engine), &[]);
}

#[test]
fn long_random_histories_match_the_model() {
    for (seed, node_sizes, count) in
        [(1, SMALL, 3_000), (2, NodeSizes { recent_max: 16, ..SMALL }, 3_000), (3, MIDDLE, 10_000)]
    {
        let engine = MemoryEngine::new(1);
        let random = SeededRandom::new(seed);
        let mut model = Model::new();
        let mut done = 0;
        while done < count {
            let steps: Vec<Step> =
                (0..1 + random.below(400)).map(|_| random_step(&random, done < count * 2 / 3)).collect();
            done += steps.len();
            let mut writer = CollectionWriter::open_with_sizes(&engine, ID, &ThreeSums, node_sizes).unwrap();
            steps.iter().for_each(|step| apply(&mut writer, &mut model, step));
            assert_eq!(writer.totals().unwrap(), totals_of(model.iter()));
            commit(&engine, writer);
            assert_eq!(check(&engine, ID, &ThreeSums).unwrap(), [], "seed {seed}");
        }
        let positions: Vec<usize> = (0..100).map(|_| random.below(1 << 20) as usize).collect();
        check_pages(&engine, &model, &positions);
        check_reader(&engine, ID, &model, &[]);
    }
}

/// Returns a random step. While `growing`, more entries are added than removed.
fn random_step(random: &SeededRandom, growing: bool) -> Step {
    let key = (random.below(1 << 11) as u32).to_be_bytes().to_vec();
    let value = random.next_u64().to_be_bytes()[..3].to_vec();
    let position = random.below(1 << 20) as usize;
    match random.below(10) {
        0..3 if growing => Step::Put(key, value),
        0..3 => Step::RemoveAt(position),
        3 | 4 => Step::Put(key, value),
        5 => Step::Remove(key),
        6 => Step::Move(position, key),
        7 => Step::RemoveAt(position),
        _ => Step::Update(position, value),
    }
}

#[test]
fn crash_leaves_a_sound_earlier_state() {
    for seed in 0..40 {
        let engine = MemoryEngine::new(seed);
        let random = SeededRandom::new(seed);
        let mut model = Model::new();
        let mut moments = vec![model.clone()];
        let mut synced = 0;
        for moment in 1..30 {
            let steps: Vec<Step> = (0..random.below(30)).map(|_| random_step(&random, true)).collect();
            transact(&engine, ID, SMALL, &mut model, &steps);
            moments.push(model.clone());
            if random.below(5) == 0 {
                engine.sync().unwrap();
                synced = moment;
            }
        }
        let crashed = engine.crash();
        assert_eq!(check(&crashed, ID, &ThreeSums).unwrap(), [], "seed {seed}");
        let survivor = model_of(&crashed);
        assert!(moments[synced..].contains(&survivor), "seed {seed}: synced transactions survive");
        check_reader(&crashed, ID, &survivor, &[]);
        load(&crashed, SMALL, 0..50, 5);
        check_reader(&crashed, ID, &model_of(&crashed), &[]);
    }
}

/// Returns the keys of all records of a table.
fn keys_of(engine: &MemoryEngine, table: Table) -> Vec<Vec<u8>> {
    let mut cursor = engine.scan(table, &KeyRange::all(), Direction::Forward).unwrap();
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        keys.push(key.to_vec());
    }
    keys
}

/// Calls all functions of readers and writers. Errors are allowed, panics are not.
fn exercise_damaged(engine: &MemoryEngine) {
    if let Ok(collection) = CollectionReader::open(engine, ID) {
        let _ = (collection.totals(), collection.count());
        for number in (0..120u32).step_by(7) {
            let _ = (collection.rank(&number.to_be_bytes()), collection.page(u64::from(number), 3));
            let _ = collection.totals_before(&number.to_be_bytes(), &ThreeSums);
            let _ = collection.entry_at_sum(0, u64::from(number), &ThreeSums);
            let _ = collection
                .scan_at(u64::from(number), Direction::Backward)
                .map(|scan| scan.map(|mut scan| scan.take(3)));
        }
    }
    for number in (0..120u32).step_by(5) {
        let Ok(mut writer) = CollectionWriter::open_with_sizes(engine, ID, &ThreeSums, SMALL) else { return };
        let outcome = (number..number + 9).try_for_each(|number| {
            writer.put(&(number * 3).to_be_bytes(), &[1, 2, 3])?;
            writer.remove(&(number * 2).to_be_bytes()).map(drop)
        });
        let _ = outcome.and_then(|()| writer.finish(&mut Batch::new()));
    }
}

#[test]
fn damaged_tree_records_never_panic_and_are_rebuilt() {
    let mut found = 0;
    for seed in 0..400 {
        let engine = MemoryEngine::new(seed);
        load(&engine, SMALL, (0..100).map(|number| number * 3), 9);
        let model = model_of(&engine);
        let keys = keys_of(&engine, Table::Tree);
        for _ in 0..1 + seed % 3 {
            engine.damage_with_valid_checksum(Table::Tree, &keys[engine.random().below(keys.len() as u64) as usize]);
        }
        found += u32::from(!check(&engine, ID, &ThreeSums).unwrap().is_empty());
        exercise_damaged(&engine);
        repair(&engine, &model);
    }
    assert!(found > 350, "few flips hit bytes without effect, such as the next number: {found}");
}

fn repair(engine: &MemoryEngine, model: &Model) {
    let mut batch = Batch::new();
    let rebuilt = rebuild(engine, ID, &ThreeSums, b"", &mut batch).unwrap();
    assert_eq!((rebuilt.totals, rebuilt.removed), (totals_of(model.iter()), Vec::new()));
    engine.write(&batch).unwrap();
    check_reader(engine, ID, model, &[]);
}

#[test]
fn check_finds_and_names_damage() {
    let node = |number: u32| [ID.prefix().as_slice(), &number.to_be_bytes()].concat();
    let entry = |number: u32| ID.entry_key(&number.to_be_bytes());
    let check_damage = |damage: &dyn Fn(&mut Batch), expected: &dyn Fn(&Inconsistency) -> bool| {
        let engine = MemoryEngine::new(1);
        load(&engine, SMALL, 0..100, 9);
        let mut batch = Batch::new();
        damage(&mut batch);
        engine.write(&batch).unwrap();
        let inconsistencies = check(&engine, ID, &ThreeSums).unwrap();
        assert!(inconsistencies.iter().any(expected), "{inconsistencies:?}");
        assert!(inconsistencies.iter().all(|inconsistency| !inconsistency.to_string().is_empty()));
        let mut batch = Batch::new();
        let rebuilt = rebuild(&engine, ID, &ThreeSums, b"", &mut batch).unwrap();
        engine.write(&batch).unwrap();
        assert_eq!(check(&engine, ID, &ThreeSums).unwrap(), []);
        rebuilt
    };
    check_damage(&|batch| batch.delete(Table::View, &entry(50)), &|f| matches!(f, Inconsistency::TotalsDiffer { .. }));
    check_damage(&|batch| batch.put(Table::View, &entry(500), &[1, 1, 1]), &|f| {
        matches!(f, Inconsistency::TotalsDiffer { .. })
    });
    check_damage(&|batch| batch.put(Table::View, &entry(7), &[0, 9, 9]), &|f| {
        matches!(f, Inconsistency::TotalsDiffer { .. })
    });
    check_damage(&|batch| batch.put(Table::Tree, &node(9_999), &[1]), &|f| {
        *f == Inconsistency::NodeOrphaned { number: 9_999 }
    });
    check_damage(&|batch| batch.delete(Table::Tree, &node(0)), &|f| *f == Inconsistency::TreeMissing);
    check_damage(&|batch| batch.delete(Table::Tree, &node(3)), &|f| *f == Inconsistency::NodeMissing { number: 3 });
    check_damage(&|batch| batch.put(Table::Tree, &node(3), &[1, 9]), &|f| {
        matches!(f, Inconsistency::NodeUnreadable { number: 3, .. })
    });
    let unreadable = Inconsistency::EntryUnreadable { key: 7u32.to_be_bytes().to_vec() };
    let rebuilt = check_damage(&|batch| batch.put(Table::View, &entry(7), &[0]), &|f| *f == unreadable);
    assert_eq!((rebuilt.removed, rebuilt.totals.count), (vec![7u32.to_be_bytes().to_vec()], 99));
}

#[test]
fn the_state_survives_a_rebuild_unless_the_root_is_lost() {
    let engine = MemoryEngine::new(1);
    load(&engine, SMALL, 0..100, 9);
    let mut writer = CollectionWriter::open(&engine, ID, &ThreeSums).unwrap();
    writer.set_state(b"kept");
    commit(&engine, writer);
    let rebuilt = |engine: &MemoryEngine| {
        let mut batch = Batch::new();
        let rebuilt = rebuild(engine, ID, &ThreeSums, b"given", &mut batch).unwrap();
        engine.write(&batch).unwrap();
        (rebuilt.state_lost, CollectionReader::open(engine, ID).unwrap().state().to_vec())
    };
    assert_eq!(rebuilt(&engine), (false, b"kept".to_vec()));
    assert!(engine.damage(Table::Tree, &[ID.prefix().as_slice(), &[0; 4]].concat()));
    assert!(CollectionReader::open(&engine, ID).is_err() && CollectionWriter::open(&engine, ID, &ThreeSums).is_err());
    assert!(matches!(check(&engine, ID, &ThreeSums).unwrap()[..], [Inconsistency::NodeUnreadable { number: 0, .. }]));
    assert_eq!(rebuilt(&engine), (true, b"given".to_vec()));
}

#[test]
fn collection_with_other_sums_is_refused_until_rebuilt() {
    let engine = MemoryEngine::new(1);
    load(&engine, SMALL, 0..100, 9);
    assert!(CollectionWriter::open(&engine, ID, &CountOnly).is_err());
    assert!(CollectionReader::open(&engine, ID).unwrap().totals_before(b"x", &CountOnly).is_err());
    assert_eq!(check(&engine, ID, &CountOnly).unwrap(), [Inconsistency::SumCountDiffers { found: 3, expected: 0 }]);
    let mut batch = Batch::new();
    rebuild(&engine, ID, &CountOnly, b"", &mut batch).unwrap();
    engine.write(&batch).unwrap();
    assert_eq!(check(&engine, ID, &CountOnly).unwrap(), []);
    assert_eq!(
        CollectionReader::open(&engine, ID).unwrap().totals().unwrap(),
        Totals { count: 100, sums: Weight::ZERO }
    );
}

#[test]
fn buffered_changes_survive_the_removal_of_upper_levels() {
    let node_sizes = NodeSizes { block_entries_max: 4, node_children_max: 4, recent_max: 8, ..SMALL };
    for count in 10..80u32 {
        for kept in 1..count.min(12) {
            let engine = MemoryEngine::new(1);
            load(&engine, node_sizes, 0..count, 1_000);
            let mut writer = CollectionWriter::open_with_sizes(&engine, ID, &ThreeSums, node_sizes).unwrap();
            writer.put(&0u32.to_be_bytes(), &[3, 0, 0]).unwrap();
            writer.remove(&1u32.to_be_bytes()).unwrap();
            commit(&engine, writer);
            let mut writer = CollectionWriter::open_with_sizes(&engine, ID, &ThreeSums, node_sizes).unwrap();
            (kept..count).for_each(|number| drop(writer.remove(&number.to_be_bytes()).unwrap()));
            commit(&engine, writer);
            check_reader(&engine, ID, &model_of(&engine), &[]);
        }
    }
}
