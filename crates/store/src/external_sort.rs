//! Sorting of more pairs than fit into memory.
//!
//! An [`ExternalSorter`] accepts pairs in any order and returns them in the order of their keys. It keeps as many as
//! fit into its memory. Beyond that it writes sorted runs into a folder and merges them. A run has no name: its file is
//! unlinked as soon as it is open, so that it disappears when the program ends, even after a crash.
//!
//! Pairs with equal keys are returned in the order in which they were added. Runs are private to one sorter of one
//! process, so they have no version and no checksums.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::engine::Cursor;
use crate::error::{Error, Result};
use crate::limits::{SORT_BUFFER_BYTES, SORT_PAIR_BYTES_MAX, SORT_RUNS_MAX};

/// A sorter that accepts pairs in any order.
pub struct ExternalSorter {
    folder: PathBuf,
    memory_max: usize,
    /// Keys and values, concatenated.
    arena: Vec<u8>,
    pairs: Vec<Pair>,
    runs: Vec<File>,
}

/// A pair in the arena.
#[derive(Clone, Copy)]
struct Pair {
    /// Eight bytes of the key as a number, from the depth at which the pairs are being sorted.
    head: u64,
    start: usize,
    key_bytes: u32,
    value_bytes: u32,
}

impl ExternalSorter {
    /// Creates a sorter that uses about `memory_max` bytes and writes the rest into `folder`.
    #[must_use]
    pub fn new(folder: &Path, memory_max: usize) -> Self {
        Self { folder: folder.to_owned(), memory_max, arena: Vec::new(), pairs: Vec::new(), runs: Vec::new() }
    }

    /// Adds a pair.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let bytes = key.len() + value.len();
        assert!(bytes <= SORT_PAIR_BYTES_MAX, "a pair has at most {SORT_PAIR_BYTES_MAX} bytes");
        if !self.pairs.is_empty() && self.memory() + bytes + size_of::<Pair>() > self.memory_max {
            self.spill()?;
        }
        let start = self.arena.len();
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(value);
        self.pairs.push(Pair { head: 0, start, key_bytes: key.len() as u32, value_bytes: value.len() as u32 });
        Ok(())
    }

    /// Returns the number of bytes written into the folder so far.
    pub fn spilled_bytes(&self) -> u64 {
        self.runs.iter().filter_map(|run| run.metadata().ok()).map(|run| run.len()).sum()
    }

    /// Returns the pairs in the order of their keys.
    pub fn finish(mut self) -> Result<SortedPairs> {
        if self.runs.is_empty() {
            self.sort();
            return Ok(SortedPairs(Source::Memory { arena: self.arena, pairs: self.pairs.into_iter() }));
        }
        self.spill()?;
        let folder = self.folder;
        let runs = self.runs;
        drop(self.arena);
        let mut merge = Merge { folder, runs: Vec::with_capacity(runs.len()), heads: BinaryHeap::new(), current: None };
        for file in runs {
            merge.runs.push(BufReader::with_capacity(SORT_BUFFER_BYTES, file));
            merge.advance(merge.runs.len() - 1)?;
        }
        Ok(SortedPairs(Source::Merge(merge)))
    }

    fn memory(&self) -> usize {
        self.arena.len() + self.pairs.len() * size_of::<Pair>()
    }

    fn sort(&mut self) {
        sort_from_depth(&mut self.pairs, &self.arena, 0);
    }

    fn spill(&mut self) -> Result<()> {
        if self.runs.len() >= SORT_RUNS_MAX {
            let reason = format!("sorting needs more than {SORT_RUNS_MAX} runs; increase views.rebuild_memory");
            return Err(Error::Unusable { path: self.folder.clone(), reason });
        }
        self.sort();
        let file = unnamed_file(&self.folder).map_err(|error| unusable(&self.folder, &error))?;
        let mut out = BufWriter::with_capacity(SORT_BUFFER_BYTES, file);
        for pair in &self.pairs {
            let key_bytes = pair.key_bytes.to_be_bytes();
            let value_bytes = pair.value_bytes.to_be_bytes();
            let bytes = &self.arena[pair.start..pair.end()];
            let written = out.write_all(&key_bytes).and_then(|()| out.write_all(&value_bytes));
            written.and_then(|()| out.write_all(bytes)).map_err(|error| unusable(&self.folder, &error))?;
        }
        let mut file = out.into_inner().map_err(|error| unusable(&self.folder, error.error()))?;
        file.seek(SeekFrom::Start(0)).map_err(|error| unusable(&self.folder, &error))?;
        self.runs.push(file);
        self.arena.clear();
        self.pairs.clear();
        Ok(())
    }
}

impl Pair {
    fn key<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &arena[self.start..self.start + self.key_bytes as usize]
    }

    fn value<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        &arena[self.start + self.key_bytes as usize..self.end()]
    }

    fn end(&self) -> usize {
        self.start + self.key_bytes as usize + self.value_bytes as usize
    }
}

/// Pairs in the order of their keys.
pub struct SortedPairs(Source);

enum Source {
    /// The pairs are all in memory.
    Memory { arena: Vec<u8>, pairs: std::vec::IntoIter<Pair> },
    /// The pairs are merged from runs.
    Merge(Merge),
}

impl Cursor for SortedPairs {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match &mut self.0 {
            Source::Memory { arena, pairs } => Ok(pairs.next().map(|pair| (pair.key(arena), pair.value(arena)))),
            Source::Merge(merge) => merge.next(),
        }
    }
}

/// A merge of sorted runs.
struct Merge {
    folder: PathBuf,
    runs: Vec<BufReader<File>>,
    heads: BinaryHeap<Reverse<RunHead>>,
    /// The pair returned last, whose buffers are reused.
    current: Option<RunHead>,
}

/// The next pair of a run.
#[derive(PartialEq, Eq)]
struct RunHead {
    key: Vec<u8>,
    value: Vec<u8>,
    run: usize,
}

impl Ord for RunHead {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for RunHead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Merge {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if let Some(last) = self.current.take() {
            self.advance_into(last)?;
        }
        let Some(Reverse(head)) = self.heads.pop() else { return Ok(None) };
        assert!(self.heads.peek().is_none_or(|Reverse(next)| head.key <= next.key), "the smallest key comes first");
        let head = self.current.insert(head);
        Ok(Some((&head.key, &head.value)))
    }

    fn advance(&mut self, run: usize) -> Result<()> {
        self.advance_into(RunHead { key: Vec::new(), value: Vec::new(), run })
    }

    /// Reads the next pair of a run.
    fn advance_into(&mut self, mut head: RunHead) -> Result<()> {
        let folder = &self.folder;
        let reader = &mut self.runs[head.run];
        let mut lengths = [0; 8];
        match reader.read(&mut lengths[..1]) {
            Ok(0) => return Ok(()),
            Ok(_) => reader.read_exact(&mut lengths[1..]).map_err(|error| unusable(folder, &error))?,
            Err(error) => return Err(unusable(folder, &error)),
        }
        let [k0, k1, k2, k3, v0, v1, v2, v3] = lengths;
        let key_bytes = u32::from_be_bytes([k0, k1, k2, k3]) as usize;
        let value_bytes = u32::from_be_bytes([v0, v1, v2, v3]) as usize;
        if key_bytes + value_bytes > SORT_PAIR_BYTES_MAX {
            let reason = "a sorted run is damaged".to_owned();
            return Err(Error::Unusable { path: folder.clone(), reason });
        }
        head.key.resize(key_bytes, 0);
        head.value.resize(value_bytes, 0);
        reader.read_exact(&mut head.key).map_err(|error| unusable(folder, &error))?;
        reader.read_exact(&mut head.value).map_err(|error| unusable(folder, &error))?;
        self.heads.push(Reverse(head));
        Ok(())
    }
}

/// Sorts pairs whose keys agree in the first `depth` bytes.
///
/// Keys of a view have long common prefixes, so they are compared eight bytes at a time, as numbers stored in the pairs
/// themselves.
fn sort_from_depth(pairs: &mut [Pair], arena: &[u8], depth: usize) {
    for pair in &mut *pairs {
        pair.head = key_prefix(pair.key(arena).get(depth..).unwrap_or_default());
    }
    pairs.sort_unstable_by_key(|pair| pair.head);
    for group in pairs.chunk_by_mut(|one, other| one.head == other.head) {
        let depth = depth + size_of::<u64>();
        let goes_on = depth < HEADS_DEPTH_MAX && group.iter().any(|pair| pair.key_bytes as usize > depth);
        if goes_on && group.len() > COMPARISON_SORT_MAX {
            sort_from_depth(group, arena, depth);
        } else if group.len() > 1 {
            // Pairs with equal keys lie in the arena in the order in which they were added.
            group.sort_unstable_by(|one, other| one.key(arena).cmp(other.key(arena)).then(one.start.cmp(&other.start)));
        }
    }
}

/// Maximum number of pairs that are compared by their whole keys.
const COMPARISON_SORT_MAX: usize = 12;

/// Depth from which on keys are compared as a whole.
const HEADS_DEPTH_MAX: usize = 1_024;

/// Returns the first eight bytes as a number with the same order.
fn key_prefix(bytes: &[u8]) -> u64 {
    let mut first = [0; size_of::<u64>()];
    let count = bytes.len().min(first.len());
    first[..count].copy_from_slice(&bytes[..count]);
    u64::from_be_bytes(first)
}

fn unnamed_file(folder: &Path) -> std::io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let mut number = 0_u64;
    loop {
        let path = folder.join(format!("doublet-sort-{number}.tmp"));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => return std::fs::remove_file(&path).map(|()| file),
            // Another sorter is about to unlink the file, or was killed before it could.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn unusable(folder: &Path, error: &std::io::Error) -> Error {
    Error::Unusable { path: folder.to_owned(), reason: format!("sorting in this folder failed: {error}") }
}

#[cfg(test)]
mod tests {
    use base::Random;
    use base::sim::SeededRandom;

    use super::*;

    fn all(mut sorted: SortedPairs) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut pairs = Vec::new();
        while let Some((key, value)) = sorted.next().expect("sorted") {
            pairs.push((key.to_vec(), value.to_vec()));
        }
        pairs
    }

    #[test]
    fn pairs_are_sorted_in_memory_and_on_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let random = SeededRandom::new(5);
        for (count, memory, common) in [
            (0, 1, 0),
            (1, 1, 0),
            (2_000, 1, 0),
            (5_000, 20_000, 0),
            (5_000, 1 << 20, 0),
            (1_000, 2 << 20, 1_500),
            (5_000, 1 << 20, 21),
        ] {
            let mut sorter = ExternalSorter::new(folder.path(), memory);
            let mut expected = Vec::new();
            for number in 0..count.min(if memory == 1 { 50 } else { count }) {
                let length = random.below(12) as usize;
                let behind = (0..length).map(|_| random.below(3) as u8 * 127);
                let key: Vec<u8> = std::iter::repeat_n(7, common).chain(behind).collect();
                let value = u32::to_be_bytes(number).to_vec();
                sorter.push(&key, &value).expect("taken");
                expected.push((key, value));
            }
            expected.sort_by(|one, other| one.0.cmp(&other.0));
            assert_eq!(sorter.spilled_bytes() > 0, memory < 1 << 20 && expected.len() > 1);
            assert_eq!(all(sorter.finish().expect("sorted")), expected, "{count} in {memory}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "runs have no names");
    }

    #[test]
    fn unusable_folder_is_reported() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut sorter = ExternalSorter::new(&file.path().join("below"), 1);
        sorter.push(b"a", b"").expect("it fits");
        let error = sorter.push(b"b", b"").expect_err("there is no such folder");
        assert!(error.to_string().contains("below"), "{error}");
    }
}
