//! Sorting of more pairs than fit into memory.
//!
//! An [`ExternalSorter`] accepts pairs in any order and returns them in the order of their keys. It keeps as many as
//! fit into its memory. Beyond that it writes sorted runs into a folder and merges them. The runs of a sorter are in
//! one file, one behind the other, so that a large view takes no more descriptors than a small one. The file has no
//! name: it is unlinked as soon as it is open, so that it disappears when the program ends, even after a crash.
//!
//! Pairs with equal keys are returned in the order in which they were added. Runs are private to one sorter of one
//! process, so they have no version and no checksums.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// The pairs that did not fit into the memory.
    spilled: Option<RunFile>,
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
        Self { folder: folder.to_owned(), memory_max, arena: Vec::new(), pairs: Vec::new(), spilled: None }
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
        self.spilled.as_ref().map_or(0, RunFile::end)
    }

    /// Returns the pairs in the order of their keys.
    pub fn finish(mut self) -> Result<SortedPairs> {
        if self.spilled.is_some() {
            self.spill()?;
        }
        let Some(runs) = self.spilled.take() else {
            self.sort();
            return Ok(SortedPairs(Source::Memory { arena: self.arena, pairs: self.pairs.into_iter() }));
        };
        drop(self.arena);
        let runs: Vec<_> =
            runs.readers().into_iter().map(|run| BufReader::with_capacity(SORT_BUFFER_BYTES, run)).collect();
        let count = runs.len();
        let mut merge = Merge { folder: self.folder, runs, heads: BinaryHeap::new(), current: None };
        for run in 0..count {
            merge.advance(run)?;
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
        self.sort();
        let folder = &self.folder;
        let runs = match &mut self.spilled {
            Some(runs) => runs,
            none => none.insert(RunFile::create(folder).map_err(|error| unusable(folder, &error))?),
        };
        if runs.ends.len() >= SORT_RUNS_MAX {
            let reason = format!("sorting needs more than {SORT_RUNS_MAX} runs; increase views.rebuild_memory");
            return Err(Error::Unusable { path: folder.clone(), reason });
        }
        runs.append(&self.pairs, &self.arena).map_err(|error| unusable(folder, &error))?;
        self.arena.clear();
        self.pairs.clear();
        Ok(())
    }
}

/// A file of sorted runs.
struct RunFile {
    file: File,
    /// The end of each run.
    ends: Vec<u64>,
}

impl RunFile {
    fn create(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: unnamed_file(folder)?, ends: Vec::new() })
    }

    /// Returns the end of the last run.
    fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Appends a run of sorted pairs, whose bytes are in `arena`.
    fn append(&mut self, pairs: &[Pair], arena: &[u8]) -> io::Result<()> {
        let mut end = self.end();
        let mut file = &self.file;
        // An earlier attempt may have failed halfway.
        file.seek(SeekFrom::Start(end))?;
        let mut out = BufWriter::with_capacity(SORT_BUFFER_BYTES, file);
        for pair in pairs {
            let bytes = &arena[pair.start..pair.end()];
            out.write_all(&pair.key_bytes.to_be_bytes())?;
            out.write_all(&pair.value_bytes.to_be_bytes())?;
            out.write_all(bytes)?;
            end += (2 * size_of::<u32>() + bytes.len()) as u64;
        }
        out.flush()?;
        self.ends.push(end);
        Ok(())
    }

    /// Returns a reader of each run.
    fn readers(self) -> Vec<RunReader> {
        let file = Arc::new(self.file);
        let mut at = 0;
        let reader = |end| RunReader { file: Arc::clone(&file), at: std::mem::replace(&mut at, end), end };
        self.ends.into_iter().map(reader).collect()
    }
}

/// A reader of one run.
struct RunReader {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for RunReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let wanted = into.len().min(left);
        let count = self.file.read_at(&mut into[..wanted], self.at)?;
        if count == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.at += count as u64;
        Ok(count)
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
    runs: Vec<BufReader<RunReader>>,
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

fn unnamed_file(folder: &Path) -> io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let mut number = 0_u64;
    loop {
        let path = folder.join(format!("doublet-sort-{number}.tmp"));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => return std::fs::remove_file(&path).map(|()| file),
            // Another sorter is about to unlink the file, or was killed before it could.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn unusable(folder: &Path, error: &io::Error) -> Error {
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
    fn runs_share_one_descriptor() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().canonicalize().expect("it exists");
        let open = || {
            let all = std::fs::read_dir("/proc/self/fd").expect("the descriptors of this process").flatten();
            all.filter_map(|entry| entry.path().read_link().ok()).filter(|file| file.starts_with(&place)).count()
        };
        let mut sorter = ExternalSorter::new(&place, 1);
        for number in (0..100_u32).rev() {
            sorter.push(&number.to_be_bytes(), b"value").expect("taken");
        }
        assert_eq!(sorter.spilled.as_ref().map(|runs| runs.ends.len()), Some(99));
        assert_eq!(open(), 1);
        let mut sorted = sorter.finish().expect("sorted");
        assert!(sorted.next().expect("read").is_some_and(|(key, _)| key == 0_u32.to_be_bytes()));
        assert_eq!(open(), 1);
        assert_eq!(all(sorted).len(), 99);
        assert_eq!(open(), 0);
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
