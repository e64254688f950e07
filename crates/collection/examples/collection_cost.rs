//! Benchmark of collection operations at different sizes, on the real engine.
//!
//! `cargo run --release -p collection --example collection_cost [-- [folder|view] [BLOCK NODE ROOT RECENT]]`
//!
//! For each size, two collections are loaded, one in ascending and one in random order, and compacted, so that small
//! and large collections alike lie in sorted files. They resemble folders (keys are UIDs, values have 40 bytes) or
//! views (keys of 100 bytes of which the first 90 are shared by some hundred entries, values of 200 bytes), with four
//! sums. Each operation then runs some thousand times, each time in its own transaction or on its own snapshot, without
//! syncing. Appends use the first collection, all other operations the second. Inserts are followed by as many
//! removals, so that the size stays constant.
//!
//! The output shows the median, the mean (without the slowest hundredth) and the 99th percentile of the time in
//! microseconds, and the bytes that one change writes into its batch. The last two columns are the ratio of the
//! greatest to the least median, and of the greatest to the least mean, over all sizes.

use std::path::Path;
use std::time::Instant;

use base::sim::SeededRandom;
use base::{DbNumber, Random, ViewId};
use collection::{CollectionId, CollectionReader, CollectionWriter, EntryWeigher, NodeSizes, Weight, shape};
use store::rocks::{RocksEngine, StoreOptions};
use store::{Batch, Engine, KeyRange, Table};

/// Collection that is loaded in ascending order.
const RISING: CollectionId = CollectionId::new(DbNumber(1), ViewId(1));
/// Collection that is loaded in random order.
const RANDOM: CollectionId = CollectionId::new(DbNumber(1), ViewId(2));
/// Distance between the numbers of neighboring entries, which leaves gaps for inserts.
const STRIDE: u64 = 16;
/// Number of operations of one kind that run in a row.
const OPERATIONS_PER_CHUNK: usize = 50;
const CHUNKS: usize = 100;
const WARM_UP_CHUNKS: usize = 20;

/// Shape of the collections' keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Folder,
    View,
}

/// Weigher of folder-like entries: unseen, deleted, bytes, restricted.
struct Weigher;

impl EntryWeigher for Weigher {
    fn sums(&self) -> usize {
        4
    }

    fn weigh(&self, _key: &[u8], value: &[u8]) -> Option<Weight> {
        let [flags, size @ ..] = value.first_chunk::<5>()?;
        let size = i64::from(u32::from_be_bytes(*size));
        Some(Weight::new(&[i64::from(flags & 1), i64::from(flags >> 1 & 1), size, 0]))
    }
}

fn value(random: &SeededRandom, kind: Kind) -> Vec<u8> {
    let mut value = vec![7; if kind == Kind::Folder { 40 } else { 200 }];
    // One message in ten is unseen, few are deleted.
    value[0] = u8::from(random.below(10) == 0) | u8::from(random.below(200) == 0) << 1;
    value[1..5].copy_from_slice(&(1_000 + random.below(30_000) as u32).to_be_bytes());
    value
}

/// Times of one operation at one size.
#[derive(Clone, Default)]
struct Samples {
    nanoseconds: Vec<u64>,
    bytes: u64,
}

impl Samples {
    /// Returns the mean of the fastest 99 in 100, because the slowest were interrupted.
    fn mean(&mut self) -> f64 {
        self.nanoseconds.sort_unstable();
        let count = (self.nanoseconds.len() * 99 / 100).max(1);
        self.nanoseconds[..count].iter().sum::<u64>() as f64 / count as f64 / 1_000.0
    }

    fn percentile(&mut self, percent: usize) -> f64 {
        self.nanoseconds.sort_unstable();
        let index = (self.nanoseconds.len() * percent / 100).min(self.nanoseconds.len() - 1);
        self.nanoseconds[index] as f64 / 1_000.0
    }
}

/// The two collections of one size, with their engine.
struct Bench {
    engine: RocksEngine,
    random: SeededRandom,
    kind: Kind,
    node_sizes: NodeSizes,
    entries: u64,
    /// Numbers of the first entry and of the one after the last, in units of [`STRIDE`].
    first: u64,
    next: u64,
}

impl Bench {
    fn load(folder: &Path, entries: u64, (kind, node_sizes): (Kind, NodeSizes)) -> Self {
        let engine = RocksEngine::open(folder, &StoreOptions::default()).expect("the store opens");
        let bench =
            Self { engine, random: SeededRandom::new(1), kind, node_sizes, entries, first: 1, next: entries + 1 };
        let mut numbers: Vec<u64> = (1..=entries).map(|number| number * STRIDE).collect();
        bench.load_in_order(RISING, &numbers, 1_000);
        for index in (1..numbers.len()).rev() {
            numbers.swap(index, bench.random.below(index as u64 + 1) as usize);
        }
        bench.load_in_order(RANDOM, &numbers, 20_000);
        for table in [Table::View, Table::Tree] {
            bench.engine.compact(table, &KeyRange::all()).expect("the engine compacts");
        }
        bench
    }

    fn load_in_order(&self, id: CollectionId, numbers: &[u64], at_once: usize) {
        for some in numbers.chunks(at_once) {
            self.write(id, |writer| {
                some.iter().for_each(|number| put(writer, &key(self.kind, *number), &value(&self.random, self.kind)))
            });
        }
        println!("  {:?}", shape(&self.engine, id).expect("the collection is sound"));
    }

    fn write(&self, id: CollectionId, change: impl FnOnce(&mut CollectionWriter<'_>)) -> u64 {
        let mut writer = CollectionWriter::open_with_sizes(&self.engine, id, &Weigher, self.node_sizes)
            .expect("the collection opens");
        change(&mut writer);
        writer.set_state(&self.random.next_u64().to_be_bytes().repeat(3));
        let mut batch = Batch::new();
        writer.finish(&mut batch).expect("the collection is sound");
        self.engine.write(&batch).expect("the engine writes");
        batch.byte_count() as u64
    }

    fn read<T>(&self, look: impl FnOnce(&CollectionReader<'_>) -> store::Result<T>) -> T {
        let snapshot = self.engine.snapshot().expect("the engine makes snapshots");
        let reader = CollectionReader::open(snapshot.as_ref(), RANDOM).expect("the collection opens");
        look(&reader).expect("the collection is sound")
    }

    fn some_number(&self) -> u64 {
        (1 + self.random.below(self.entries)) * STRIDE
    }

    fn writes(&mut self, samples: &mut [Samples; KINDS.len()]) {
        self.insert_and_remove(samples);
        self.append(samples);
    }

    fn insert_and_remove(&mut self, samples: &mut [Samples; KINDS.len()]) {
        let mut numbers: Vec<u64> =
            (0..OPERATIONS_PER_CHUNK).map(|_| self.some_number() + 1 + self.random.below(STRIDE - 1)).collect();
        // The order is not that of the collection's keys.
        numbers.sort_unstable_by_key(|number| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15), *number));
        numbers.dedup();
        let kind = self.kind;
        let value = value(&self.random, self.kind);
        for number in &numbers {
            timed(&mut samples[INSERT], || self.write(RANDOM, |writer| put(writer, &key(kind, *number), &value)));
        }
        let mut seen = value.clone();
        seen[0] ^= 1;
        for number in &numbers {
            timed(&mut samples[UPDATE], || self.write(RANDOM, |writer| put(writer, &key(kind, *number), &seen)));
        }
        for number in &numbers {
            timed(&mut samples[REMOVE], || self.write(RANDOM, |writer| remove(writer, &key(kind, *number))));
        }
        for number in &numbers {
            let key = [b"plain".as_slice(), &number.to_be_bytes()].concat();
            timed(&mut samples[PLAIN], || {
                let mut batch = Batch::new();
                batch.put(Table::Meta, &key, &value);
                self.engine.write(&batch).expect("the engine writes");
                batch.byte_count() as u64
            });
        }
    }

    fn append(&mut self, samples: &mut [Samples; KINDS.len()]) {
        let kind = self.kind;
        let value = value(&self.random, self.kind);
        for _ in 0..OPERATIONS_PER_CHUNK {
            let next = self.next;
            let first = self.first;
            timed(&mut samples[APPEND], || self.write(RISING, |writer| put(writer, &key(kind, next * STRIDE), &value)));
            self.write(RISING, |writer| remove(writer, &key(kind, first * STRIDE)));
            self.next += 1;
            self.first += 1;
        }
    }

    fn reads(&mut self, samples: &mut [Samples; KINDS.len()]) {
        for _ in 0..OPERATIONS_PER_CHUNK {
            let kind = self.kind;
            let position = self.random.below(self.entries - 50);
            let number = self.some_number();
            let target = self.random.below(self.entries / 20);
            timed(&mut samples[TOTALS], || self.read(|reader| Ok(reader.totals()?.count)));
            timed(&mut samples[RANK], || self.read(|reader| reader.rank(&key(kind, number))));
            timed(&mut samples[AT], || self.read(|reader| Ok(reader.entry_at(position)?.map_or(0, |_| 1))));
            timed(&mut samples[PAGE], || self.read(|reader| Ok(reader.page(position, 50)?.len() as u64)));
            timed(&mut samples[RANGE], || {
                self.read(|reader| reader.count_range(&key(kind, number / 2), Some(&key(kind, number))))
            });
            timed(&mut samples[MARKED], || {
                self.read(|reader| Ok(reader.entry_at_sum(0, target, &Weigher)?.map_or(0, |_| 1)))
            });
        }
    }
}

const KINDS: [&str; 11] = [
    "plain put",
    "insert",
    "append",
    "update",
    "remove",
    "totals",
    "position of key",
    "entry at position",
    "page of 50",
    "count of range",
    "n-th unseen",
];
const PLAIN: usize = 0;
const INSERT: usize = 1;
const APPEND: usize = 2;
const UPDATE: usize = 3;
const REMOVE: usize = 4;
const TOTALS: usize = 5;
const RANK: usize = 6;
const AT: usize = 7;
const PAGE: usize = 8;
const RANGE: usize = 9;
const MARKED: usize = 10;

fn key(kind: Kind, number: u64) -> Vec<u8> {
    let uid = u32::try_from(number).expect("UIDs have 32 bits").to_be_bytes();
    if kind == Kind::Folder {
        return uid.to_vec();
    }
    let mut key = format!("{:010}", number >> 13).repeat(9).into_bytes();
    key.extend_from_slice(&uid);
    key.resize(100, 1);
    key
}

fn put(writer: &mut CollectionWriter<'_>, key: &[u8], value: &[u8]) {
    writer.put(key, value).expect("the collection is sound");
}

fn remove(writer: &mut CollectionWriter<'_>, key: &[u8]) {
    writer.remove(key).expect("the collection is sound");
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn timed(samples: &mut Samples, operation: impl FnOnce() -> u64) {
    let start = Instant::now();
    samples.bytes += operation();
    samples.nanoseconds.push(start.elapsed().as_nanos() as u64);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = if arguments.first().is_some_and(|word| word == "view") { Kind::View } else { Kind::Folder };
    let numbers: Vec<u32> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    let mut node_sizes = NodeSizes::default();
    if let [block_entries_max, node_children_max, root_bytes_max, recent_max] = numbers[..] {
        node_sizes = NodeSizes { block_entries_max, node_children_max, root_bytes_max, recent_max, ..node_sizes };
    }
    println!("like a {kind:?}: {node_sizes:?}");
    let sizes = [1_000, 100_000, 1_000_000];
    let root = std::env::temp_dir().join(format!("collection_cost.{}", std::process::id()));
    std::fs::create_dir(&root).expect("there is no such folder");
    let mut benches: Vec<Bench> = sizes
        .iter()
        .map(|entries| Bench::load(&root.join(entries.to_string()), *entries, (kind, node_sizes)))
        .collect();
    let mut columns: Vec<[Samples; KINDS.len()]> = sizes.iter().map(|_| Default::default()).collect();
    // Reads run first: deletions leave tombstones in the engine, and a small collection has to step over more of them.
    for operations in [Bench::reads, Bench::writes] {
        let before: Vec<_> = columns.clone();
        for chunk in 0..WARM_UP_CHUNKS + CHUNKS {
            // The sizes take turns, so that other load on the machine affects all of them alike.
            for (bench, samples) in benches.iter_mut().zip(&mut columns) {
                operations(bench, samples);
            }
            if chunk + 1 == WARM_UP_CHUNKS {
                columns.clone_from(&before);
            }
        }
    }
    print(&sizes, &mut columns);
    drop(benches);
    std::fs::remove_dir_all(&root).expect("the folder is ours");
}

fn print(sizes: &[u64], columns: &mut [[Samples; KINDS.len()]]) {
    print!("{:<18}", "");
    sizes.iter().for_each(|size| print!("{size:>18} entries      "));
    print!("\n{:<18}", "operation");
    sizes.iter().for_each(|_| print!("{:>8}{:>8}{:>8}{:>8}", "median", "mean", "p99", "bytes"));
    println!("{:>8}{:>8}", "ratio", "of mean");
    for (kind, name) in KINDS.iter().enumerate() {
        print!("{name:<18}");
        let mut medians = Vec::new();
        let mut means = Vec::new();
        for samples in columns.iter_mut().map(|column| &mut column[kind]) {
            let count = samples.nanoseconds.len() as u64;
            medians.push(samples.percentile(50));
            means.push(samples.mean());
            let bytes = if kind <= REMOVE { samples.bytes / count } else { 0 };
            let mean = means.last().copied().unwrap_or_default();
            print!("{:>8.1}{mean:>8.1}{:>8.1}{bytes:>8}", samples.percentile(50), samples.percentile(99));
        }
        println!("{:>8.2}{:>8.2}", spread(&medians), spread(&means));
    }
}

fn spread(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max) / values.iter().copied().fold(f64::MAX, f64::min)
}
