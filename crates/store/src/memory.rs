//! The engine of the tests: everything is in memory, and every kind of disk failure can be injected, on demand or from
//! a seed.
//!
//! Each value carries the sequence number of the batch that wrote it, and older values are kept while a reader may
//! still see them. A snapshot is then just a sequence number, and so is a crash: [`MemoryEngine::crash`] returns a new
//! engine that contains everything synced and a random prefix of the later batches, as a torn log would. Every value
//! has a checksum. A bit flipped by [`MemoryEngine::damage`] is detected when the value is read, and reported as
//! [`Error::Damaged`].
//!
//! Failures are controlled through [`MemoryEngine::faults`]. Several threads may use the engine. A run is reproducible
//! from its seed if only one thread uses it.
//!
//! Not a goal: speed. Every step of a scan takes the lock and searches the map.

mod faults;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::Path;

use base::Random;
use base::codec::{Decoder, Encoder, InvalidRecord};
use base::sim::SeededRandom;
use base::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use faults::Faults;

use crate::batch::{Batch, BatchOperation};
use crate::engine::{Cursor, Direction, Engine, KeyRange, Metrics, Table, TableReader};
use crate::error::{Error, Result};

/// Name of the single file of a checkpoint.
const CHECKPOINT_FILE: &str = "memory";

/// An engine in memory.
pub struct MemoryEngine {
    tables: RwLock<Tables>,
    faults: Faults,
}

/// The versions of one key, oldest first.
type Versions = Vec<Version>;

struct Version {
    /// Sequence number of the batch that wrote the version.
    sequence: u64,
    /// The value, or `None` if the key was removed.
    value: Option<Stored>,
}

#[derive(Clone)]
struct Stored {
    bytes: Vec<u8>,
    checksum: [u8; 8],
}

impl Stored {
    fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), checksum: checksum(bytes) }
    }
}

#[derive(Default)]
struct Tables {
    maps: [BTreeMap<Vec<u8>, Versions>; Table::ALL.len()],
    /// Sequence number of the last batch.
    written: u64,
    /// Sequence number of the last batch that a sync covered.
    synced: u64,
    /// Number of readers by the sequence number at which they read.
    readers: BTreeMap<u64, usize>,
    /// Removed keys by the batch that removed them. A key is dropped once no reader can see its old value.
    removed: VecDeque<(u64, Table, Vec<u8>)>,
    bytes: u64,
}

impl MemoryEngine {
    /// Creates an empty engine whose faults are derived from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { tables: RwLock::default(), faults: Faults::new(seed) }
    }

    /// Returns the fault controls of the engine.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the engine as it would be after a power failure now: everything synced, and a random prefix of the later
    /// batches.
    #[must_use]
    pub fn crash(&self) -> Self {
        let tables = self.read_lock();
        let unsynced = tables.written - tables.synced;
        let kept = tables.synced + self.faults.random().below(unsynced + 1);
        self.state_at(&tables, kept)
    }

    /// Returns the engine as it would be after a power failure now if only the synced batches survived.
    #[must_use]
    pub fn crash_losing_all(&self) -> Self {
        let tables = self.read_lock();
        self.state_at(&tables, tables.synced)
    }

    /// Returns the sequence numbers of the last batch written and of the last batch synced.
    #[must_use]
    pub fn sequences(&self) -> (u64, u64) {
        let tables = self.read_lock();
        (tables.written, tables.synced)
    }

    /// Flips a random bit of a stored value. Returns `false` if there is no value or it is empty.
    pub fn damage(&self, table: Table, key: &[u8]) -> bool {
        let mut tables = self.write_lock();
        let versions = tables.maps[table as usize].get_mut(key);
        let stored = versions.and_then(|versions| versions.last_mut()).and_then(|version| version.value.as_mut());
        let Some(stored) = stored.filter(|stored| !stored.bytes.is_empty()) else { return false };
        let place = self.faults.random().below(stored.bytes.len() as u64) as usize;
        stored.bytes[place] ^= 1 << self.faults.random().below(8);
        true
    }

    /// Flips a random bit of a stored value and corrects its checksum, like corruption that happened before the value
    /// was stored. Returns `false` if there is no value or it is empty.
    pub fn damage_with_valid_checksum(&self, table: Table, key: &[u8]) -> bool {
        if !self.damage(table, key) {
            return false;
        }
        let mut tables = self.write_lock();
        let versions = tables.maps[table as usize].get_mut(key);
        if let Some(stored) = versions.and_then(|versions| versions.last_mut()?.value.as_mut()) {
            stored.checksum = checksum(&stored.bytes);
        }
        true
    }

    /// Opens a checkpoint written by [`Engine::checkpoint`].
    pub fn open(folder: &Path, seed: u64) -> Result<Self> {
        let unusable = |reason: String| Error::Unusable { path: folder.to_path_buf(), reason };
        let bytes = std::fs::read(folder.join(CHECKPOINT_FILE)).map_err(|error| unusable(error.to_string()))?;
        let batch = decode_checkpoint(&bytes).map_err(|error| unusable(error.to_string()))?;
        let memory = Self::new(seed);
        memory.write(&batch)?;
        memory.sync()?;
        Ok(memory)
    }

    fn state_at(&self, tables: &Tables, sequence: u64) -> Self {
        assert!((tables.synced..=tables.written).contains(&sequence), "a crash keeps all synced batches");
        let mut kept = Tables { written: sequence, synced: sequence, ..Tables::default() };
        for (map, target) in tables.maps.iter().zip(&mut kept.maps) {
            for (key, versions) in map {
                if let Some(stored) = visible(versions, sequence) {
                    kept.bytes += (key.len() + stored.bytes.len()) as u64;
                    target.insert(key.clone(), vec![Version { sequence, value: Some(stored.clone()) }]);
                }
            }
        }
        Self { tables: RwLock::new(kept), faults: Faults::new(self.faults.random().next_u64()) }
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read()
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write()
    }

    fn read_view(&self) -> ReadView<'_> {
        let mut tables = self.write_lock();
        let sequence = tables.written;
        assert!(sequence >= tables.oldest_visible(), "the state that a new reader sees is still kept");
        *tables.readers.entry(sequence).or_insert(0) += 1;
        ReadView { memory: self, sequence }
    }
}

/// Returns the value that a reader at `sequence` sees.
fn visible(versions: &[Version], sequence: u64) -> Option<&Stored> {
    versions.iter().rev().find(|version| version.sequence <= sequence)?.value.as_ref()
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut checksum = [0; 8];
    blake3::Hasher::new().update(bytes).finalize_xof().fill(&mut checksum);
    checksum
}

impl Tables {
    fn apply(&mut self, batch: &Batch) {
        self.written += 1;
        assert!(self.synced < self.written, "a sync covers only batches written before it");
        for operation in batch.operations() {
            match operation {
                BatchOperation::Put { table, key, value } => self.set(table, key, Some(Stored::new(value))),
                BatchOperation::Delete { table, key } => self.set(table, key, None),
                BatchOperation::DeleteRange { table, start, end } => {
                    let range = (Bound::Included(start), Bound::Excluded(end));
                    let keys: Vec<_> =
                        self.maps[table as usize].range::<[u8], _>(range).map(|(key, _)| key.clone()).collect();
                    keys.iter().for_each(|key| self.set(table, key, None));
                }
            }
        }
    }

    fn set(&mut self, table: Table, key: &[u8], value: Option<Stored>) {
        let sequence = self.written;
        let floor = self.oldest_visible();
        if value.is_none() {
            if !self.maps[table as usize].contains_key(key) {
                return;
            }
            self.removed.push_back((sequence, table, key.to_vec()));
        }
        self.bytes += (key.len() + value.as_ref().map_or(0, |stored| stored.bytes.len())) as u64;
        let versions = self.maps[table as usize].entry(key.to_vec()).or_default();
        if let Some(newest) = versions.iter().rposition(|version| version.sequence <= floor) {
            versions.drain(..newest);
        }
        if versions.last().is_some_and(|version| version.sequence == sequence) {
            versions.pop();
        }
        assert!(versions.last().is_none_or(|last| last.sequence < sequence), "versions rise");
        versions.push(Version { sequence, value });
    }

    /// Returns the sequence number below which no reader reads and to which no crash falls back.
    fn oldest_visible(&self) -> u64 {
        let oldest = self.readers.keys().next().copied().unwrap_or(u64::MAX);
        self.synced.min(oldest)
    }

    fn drop_invisible_keys(&mut self) {
        let floor = self.oldest_visible();
        while self.removed.front().is_some_and(|(sequence, ..)| *sequence <= floor) {
            let Some((_, table, key)) = self.removed.pop_front() else { return };
            let map = &mut self.maps[table as usize];
            let gone = |versions: &Versions| {
                versions.last().is_some_and(|version| version.value.is_none() && version.sequence <= floor)
            };
            if map.get(&key).is_some_and(gone) {
                map.remove(&key);
            }
        }
    }
}

/// A read view that keeps the values visible at `sequence`.
struct ReadView<'memory> {
    memory: &'memory MemoryEngine,
    sequence: u64,
}

impl ReadView<'_> {
    fn value(table: Table, key: &[u8], stored: &Stored) -> Result<Vec<u8>> {
        if checksum(&stored.bytes) == stored.checksum {
            return Ok(stored.bytes.clone());
        }
        Err(Error::Damaged { table, key: key.to_vec(), reason: "the checksum does not match".into() })
    }
}

impl Drop for ReadView<'_> {
    fn drop(&mut self) {
        let mut tables = self.memory.write_lock();
        assert!(tables.readers.contains_key(&self.sequence), "every reader is counted");
        if let Some(count) = tables.readers.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                tables.readers.remove(&self.sequence);
            }
        }
    }
}

impl TableReader for ReadView<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let tables = self.memory.read_lock();
        let versions = tables.maps[table as usize].get(key);
        let stored = versions.and_then(|versions| visible(versions, self.sequence));
        stored.map(|stored| ReadView::value(table, key, stored)).transpose()
    }

    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(table, key)).collect()
    }

    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        let mut tables = self.memory.write_lock();
        *tables.readers.entry(self.sequence).or_insert(0) += 1;
        let held = ReadView { memory: self.memory, sequence: self.sequence };
        Ok(Box::new(MemoryCursor::new(held, table, range, direction)))
    }
}

/// A scan in progress: the remaining part of the range and the last returned pair.
struct MemoryCursor<'memory> {
    held: ReadView<'memory>,
    table: Table,
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    direction: Direction,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'memory> MemoryCursor<'memory> {
    fn new(held: ReadView<'memory>, table: Table, range: &KeyRange, direction: Direction) -> Self {
        let start = Bound::Included(range.start.clone());
        let end = range.end.clone().map_or(Bound::Unbounded, |end| Bound::Excluded(end.max(range.start.clone())));
        Self { held, table, start, end, direction, key: Vec::new(), value: Vec::new() }
    }

    fn find(&self) -> Option<(Vec<u8>, Result<Vec<u8>>)> {
        let tables = self.held.memory.read_lock();
        let sees = |(key, versions): (&Vec<u8>, &Versions)| {
            let stored = visible(versions, self.held.sequence)?;
            Some((key.clone(), ReadView::value(self.table, key, stored)))
        };
        let mut rest = tables.maps[self.table as usize].range((self.start.clone(), self.end.clone()));
        match self.direction {
            Direction::Forward => rest.find_map(sees),
            Direction::Backward => rest.rev().find_map(sees),
        }
    }

    /// Returns `true` if the remaining bounds are empty in a way that `BTreeMap::range` rejects with a panic.
    fn is_range_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Excluded(start), Bound::Excluded(end)) => start >= end,
            _ => false,
        }
    }
}

impl Cursor for MemoryCursor<'_> {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.is_range_empty() {
            return Ok(None);
        }
        let Some((key, value)) = self.find() else { return Ok(None) };
        match self.direction {
            Direction::Forward => self.start = Bound::Excluded(key.clone()),
            Direction::Backward => self.end = Bound::Excluded(key.clone()),
        }
        assert!(
            self.key.is_empty() || (key > self.key) == (self.direction == Direction::Forward),
            "a scan does not change its direction"
        );
        self.key = key;
        self.value = value?;
        Ok(Some((&self.key, &self.value)))
    }
}

impl TableReader for MemoryEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read_view().get(table, key)
    }

    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.read_view().multi_get(table, keys)
    }

    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(MemoryCursor::new(self.read_view(), table, range, direction)))
    }
}

impl Engine for MemoryEngine {
    fn check_space(&self, bytes: u64) -> Result<()> {
        if self.write_lock().bytes.saturating_add(bytes) > self.faults.capacity() {
            return Err(Error::Full("the simulated disk is full".into()));
        }
        Ok(())
    }

    fn write(&self, batch: &Batch) -> Result<()> {
        self.faults.before_write()?;
        let mut tables = self.write_lock();
        if tables.bytes.saturating_add(batch.byte_count() as u64) > self.faults.capacity() {
            return Err(Error::Full("the simulated disk is full".into()));
        }
        tables.apply(batch);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let target = self.read_lock().written;
        self.faults.before_sync()?;
        let mut tables = self.write_lock();
        tables.synced = tables.synced.max(target);
        assert!(tables.synced <= tables.written, "only written batches are synced");
        tables.drop_invisible_keys();
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn TableReader + Send + Sync + '_>> {
        Ok(Box::new(self.read_view()))
    }

    fn ingest(&self, table: Table, pairs: &mut dyn Cursor) -> Result<()> {
        let mut batch = Batch::new();
        while let Some((key, value)) = pairs.next()? {
            batch.put(table, key, value);
        }
        self.write(&batch)?;
        self.sync()
    }

    fn compact(&self, _table: Table, _range: &KeyRange) -> Result<()> {
        self.faults.check_compaction()
    }

    fn checkpoint(&self, target: &Path) -> Result<()> {
        let failed = |error: std::io::Error| Error::Unusable { path: target.to_path_buf(), reason: error.to_string() };
        let held = self.read_view();
        let mut encoder = Encoder::new();
        for table in Table::ALL {
            let mut cursor = held.scan(table, &KeyRange::all(), Direction::Forward)?;
            while let Some((key, value)) = cursor.next()? {
                encoder.u8(table as u8).bytes(key).bytes(value);
            }
        }
        std::fs::create_dir(target).map_err(failed)?;
        std::fs::write(target.join(CHECKPOINT_FILE), encoder.finish()).map_err(failed)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<Error>> {
        let mut bytes = 0;
        let mut damage = Vec::new();
        for table in Table::ALL {
            let mut cursor = self.scan(table, &KeyRange::all(), Direction::Forward)?;
            loop {
                match cursor.next() {
                    Ok(Some((key, value))) => bytes += (key.len() + value.len()) as u64,
                    Ok(None) => break,
                    Err(error) => damage.push(error),
                }
            }
            progress(bytes);
        }
        Ok(damage)
    }

    fn size(&self, table: Table, range: &KeyRange) -> Result<u64> {
        let mut bytes = 0;
        let mut cursor = self.scan(table, range, Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            bytes += (key.len() + value.len()) as u64;
        }
        Ok(bytes)
    }

    fn metrics(&self) -> Metrics {
        let tables = self.read_lock();
        vec![
            ("batches-written-count".into(), tables.written),
            ("batches-synced-count".into(), tables.synced),
            ("written-bytes".into(), tables.bytes),
        ]
    }
}

fn decode_checkpoint(bytes: &[u8]) -> std::result::Result<Batch, InvalidRecord> {
    let mut decoder = Decoder::new(bytes);
    let mut batch = Batch::new();
    while !decoder.is_empty() {
        let table = Table::from_number(decoder.u8()?).ok_or(InvalidRecord)?;
        let key = decoder.bytes()?;
        batch.put(table, key, decoder.bytes()?);
    }
    Ok(batch)
}

impl MemoryEngine {
    /// Returns the random generator of the faults, for tests that share it.
    #[must_use]
    pub fn random(&self) -> &SeededRandom {
        self.faults.random()
    }
}

#[cfg(test)]
mod tests;
