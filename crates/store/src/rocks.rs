//! The production engine: RocksDB, with one column family per table.
//!
//! A write goes to the log's buffer and to the memtable. [`Engine::sync`] writes the buffer out and syncs the log.
//! Snapshots see a batch completely or not at all: neither `unordered_write`, which gives up this guarantee, nor any
//! other option that weakens it is enabled. Every block, log record and separate value is verified by its checksum when
//! it is read. A mismatch is reported as [`Error::Damaged`] with table and key.
//!
//! The folder belongs to one process at a time ([`Error::Locked`]). The `store` table holds the format version; data of
//! a newer format is refused ([`Error::Newer`]). If the disk is nearly full ([`StoreOptions::reserve_bytes`]), writes
//! are refused before the engine itself runs out of space.
//!
//! Before the engine opens the log, the log is read once to distinguish a torn tail, which is normal, from damage
//! ([`DamagedLog`]). A store without its log, or without the `CURRENT` file that leads to all others, is refused and
//! never recreated (`placement`). A store that lacks a file of a table is refused too (`manifest`).
//!
//! Described elsewhere: the effect of the options on speed and restart (see [`StoreOptions`]), and the location of a
//! store's log (see `placement`).

mod checksum;
mod disk_space;
mod engine_error;
mod gaps;
mod log;
mod manifest;
mod metrics;
mod options;
mod placement;
mod read;
mod salvage;
mod synced_log;
mod version_edit;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::sync::Mutex;
use rocksdb::{BottommostLevelCompaction, ColumnFamily, ColumnFamilyDescriptor, CompactOptions, DB, ErrorKind};

pub use manifest::remove_files;
pub use options::{Compression, DamagedLog, RestartTradeOff, StoreOptions};
pub(crate) use placement::{CHECKPOINT_FOLDER, CURRENT_FILE, RESTORING_FOLDER, make_folder, mark_unopened};
pub use read::tombstones_passed;

use crate::batch::{Batch, BatchOperation};
use crate::engine::{Cursor, Direction, Engine, KeyRange, Metrics, SortedFile, Table, TableReader, next_key};
use crate::error::{Error, Result};
use crate::limits;
use disk_space::DiskSpaceMonitor;
use engine_error::{damage_reason, failure, is_damage, is_log_full, is_no_space, opening_failure};
use gaps::Gaps;
use options::RocksOptions;
use placement::{LastLog, StoreState};
use read::{KeyCursor, NumberedSnapshot, RocksReader};
use synced_log::SyncMark;

/// Format version that this program writes. Version 1 is described in `docs/store-format.md`.
pub const FORMAT: u32 = 1;

/// Key of the format version in [`Table::Store`].
pub const FORMAT_KEY: &[u8] = b"format";

/// An open RocksDB database.
pub struct RocksEngine {
    db: DB,
    folder: PathBuf,
    tuning: RocksOptions,
    /// Write options for log writes without a sync, reused for every write.
    write: rocksdb::WriteOptions,
    space: DiskSpaceMonitor,
    /// Whether the engine refused the last write because the disk was full.
    was_refused: AtomicBool,
    /// The engine's sequence number up to which the log is synced. Every batch records it in its sync marker.
    synced: AtomicU64,
    /// Sequence numbers that belong to no batch in the log.
    ingested: Mutex<IngestedSequences>,
    /// Whether the log had a torn tail when it was opened.
    was_torn: bool,
    /// Lock that allows one ingestion at a time, because the sorted file being made has a fixed name.
    ingestion: Mutex<()>,
    /// Known gaps for scans of views.
    gaps: Gaps,
    /// Whether compactions rewrite separate values at present.
    rewrites_values: Mutex<bool>,
    /// The records by which the next start detects a missing log and a log whose end is missing.
    last_log: Mutex<LastLog>,
}

impl RocksEngine {
    /// Opens the database in a folder, or creates one there.
    pub fn open(folder: &Path, options: &StoreOptions) -> Result<Self> {
        let state = placement::prepare(folder, options.wal_folder.as_deref(), options.damaged_log)?;
        let wal_folder = options.wal_folder.as_deref().unwrap_or(folder);
        let was_torn = examine_log(wal_folder, state, options.damaged_log)?;
        let mut tuning = RocksOptions::new(options);
        tuning.database.create_if_missing(state == StoreState::New);
        if !options.quiet {
            manifest::check_files(folder, &placement::known_missing(folder)?)?;
        }
        let db = open_tables(folder, wal_folder, &tuning)?;
        if options.quiet {
            // A repair reports the missing files of attachments, but cannot replace them.
            placement::record_known_missing(folder, &manifest::missing_files(folder, Table::Blob))?;
        }
        placement::record_wal_folder_and_clean(folder, options.wal_folder.as_deref())?;
        let last_log = LastLog::start(folder, options.wal_folder.as_deref())?;
        let space = DiskSpaceMonitor::new(folder, wal_folder, options.reserve_bytes);
        // The last number may be that of an ingested file.
        let ingested = IngestedSequences { before: 0, end: db.latest_sequence_number() };
        let rocks = Self {
            db,
            folder: folder.to_path_buf(),
            tuning,
            write: rocksdb::WriteOptions::default(),
            space,
            was_refused: AtomicBool::new(false),
            synced: AtomicU64::new(0),
            ingested: Mutex::new(ingested),
            was_torn,
            ingestion: Mutex::new(()),
            gaps: Gaps::new(),
            rewrites_values: Mutex::new(false),
            last_log: Mutex::new(last_log),
        };
        rocks.check_format()?;
        placement::mark_opened(folder)?;
        Ok(rocks)
    }

    /// Returns the folder of the database.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn check_format(&self) -> Result<()> {
        let Some(stored) = self.get(Table::Store, FORMAT_KEY)? else {
            let mut batch = Batch::new();
            batch.put(Table::Store, FORMAT_KEY, &FORMAT.to_be_bytes());
            self.write(&batch)?;
            return self.sync();
        };
        let bytes = <[u8; 4]>::try_from(stored.as_slice()).map_err(|_| Error::Damaged {
            table: Table::Store,
            key: FORMAT_KEY.to_vec(),
            reason: "the format version must be four bytes".into(),
        })?;
        let found = u32::from_be_bytes(bytes);
        if found > FORMAT { Err(Error::Newer { found, known: FORMAT }) } else { Ok(()) }
    }

    /// Passes the buffer of the log to the operating system and returns the end of the log, up to which the next sync
    /// reaches at least. Returns `None` if it is unknown.
    ///
    /// Without a buffer the length may lie within a batch that a concurrent sync covers only in part. Then it is no
    /// valid mark ([`log::examine`]).
    fn measure_log(&self) -> Result<Option<SyncMark>> {
        self.db.flush_wal(false).map_err(|error| failure("write the log", &error))?;
        let end = self.last_log.lock().measure().ok();
        Ok(end.filter(|_| self.tuning.buffers_log))
    }

    /// Returns a sequence number up to which all batches are in the log's buffer. It is not greater than that of the
    /// last batch.
    fn logged_sequence(&self) -> u64 {
        let ingested = self.ingested.lock();
        ingested.last_of_batches(self.db.latest_sequence_number())
    }

    /// Runs an ingestion, and excludes the sequence numbers that it takes from sync markers.
    fn ingest_without_log<T>(&self, ingestion: impl FnOnce() -> T) -> T {
        let mut ingested = self.ingested.lock();
        ingested.before = ingested.last_of_batches(self.db.latest_sequence_number());
        ingested.end = u64::MAX;
        drop(ingested);
        let outcome = ingestion();
        self.ingested.lock().end = self.db.latest_sequence_number();
        outcome
    }

    /// Writes sorted pairs to a file and makes it part of a table.
    fn ingest_through(&self, file: &Path, table: Table, pairs: &mut dyn Cursor) -> Result<()> {
        self.space.check_space(0)?;
        let options = self.tuning.sorted_file(table);
        let mut writer = rocksdb::SstFileWriter::create(&options);
        writer.open(file).map_err(|error| failure("create a sorted file", &error))?;
        let mut count = 0_u64;
        let mut unchecked_bytes = 0;
        while let Some((key, value)) = pairs.next()? {
            writer.put(key, value).map_err(|error| failure("write to a sorted file", &error))?;
            count += 1;
            unchecked_bytes += (key.len() + value.len()) as u64;
            if unchecked_bytes >= limits::SPACE_CHECK_BYTES {
                self.space.check_space(0)?;
                unchecked_bytes = 0;
            }
        }
        if count == 0 {
            return placement::remove_if_there(file);
        }
        writer.finish().map_err(|error| failure("finish a sorted file", &error))?;
        // Earlier writes must be durable before the ingested file is.
        self.sync()?;
        let mut how = rocksdb::IngestExternalFileOptions::default();
        how.set_move_files(true);
        let take_in = || self.db.ingest_external_file_cf_opts(self.family(table), &how, vec![file]);
        let outcome = self
            .ingest_without_log(|| if gaps::is_covered(table) { self.gaps.clear_during(take_in) } else { take_in() });
        outcome.map_err(|error| failure("ingest a sorted file", &error))
    }

    /// Checks whether the memtables can be flushed. A flush that meets a full disk makes the engine refuse writes.
    fn check_flush(&self) -> Result<()> {
        let (memtable_bytes, _) = self.tuning.memory();
        self.space.check_flush(memtable_bytes as u64)
    }

    /// Sets whether compactions rewrite separate values, so that the files with their garbage can be removed.
    fn rewrite_separate_values(&self, is_wanted: bool) -> Result<()> {
        let mut rewrites = self.rewrites_values.lock();
        if *rewrites == is_wanted {
            // A change writes a file with all options of the engine.
            return Ok(());
        }
        let setting = [("enable_blob_garbage_collection", if is_wanted { "true" } else { "false" })];
        let outcome = self.db.set_options_cf(self.family(Table::Blob), &setting);
        outcome.map_err(|error| failure("change the treatment of removed attachments", &error))?;
        *rewrites = is_wanted;
        Ok(())
    }

    /// Converts an engine error that concerns a key.
    fn read_failure(&self, table: Table, key: &[u8], error: &rocksdb::Error) -> Error {
        let reason = error.to_string();
        if is_damage(&error.kind(), &reason, self.tuning.quiet) {
            return Error::Damaged { table, key: key.to_vec(), reason: damage_reason(reason) };
        }
        Error::Failed { what: "read", reason: format!("table {}: {reason}", table.name()) }
    }

    /// Converts the outcome of a write, and remembers whether the engine refused it because the disk was full.
    fn note_write(&self, outcome: std::result::Result<(), rocksdb::Error>) -> Result<()> {
        if let Err(error) = outcome {
            return Err(self.write_failure(error.to_string()));
        }
        if self.was_refused.load(Ordering::Relaxed) {
            self.was_refused.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn write_failure(&self, reason: String) -> Error {
        if !is_no_space(&reason) || self.tuning.buffers_log && is_log_full(&reason) {
            return Error::Failed { what: "write", reason };
        }
        self.was_refused.store(true, Ordering::Relaxed);
        match self.space.check_space(0) {
            Err(error) => error,
            Ok(()) => {
                Error::Full(format!("there is space again, and the engine resumes by itself within seconds ({reason})"))
            }
        }
    }

    fn family(&self, table: Table) -> &ColumnFamily {
        self.db.cf_handle(table.name()).expect("every table was opened with the database")
    }

    /// Reads a table and returns the damage found.
    fn verify_table(&self, table: Table, bytes: &mut u64, progress: &mut dyn FnMut(u64)) -> Result<Vec<Error>> {
        let files = self.db.live_files().map_err(|error| failure("list the files", &error))?;
        let of_table = || files.iter().filter(|file| file.column_family_name == table.name());
        let mut damage = Vec::new();
        let mut start = Vec::new();
        // Scans do not use filters, so point lookups check them. The lookups come first: once a scan has failed to read
        // a filter, the engine works without it.
        let firsts = of_table().filter_map(|file| file.start_key.as_deref());
        let lasts = of_table().filter_map(|file| file.end_key.as_deref());
        for key in firsts.chain(lasts) {
            self.check_key(table, key, &mut damage)?;
            self.check_key(table, &next_key(key), &mut damage)?;
        }
        while let Err((last, error)) = self.verify_from(table, &start, bytes, progress) {
            if !matches!(error, Error::Damaged { .. }) {
                return Err(error);
            }
            add_new(&mut damage, error);
            // An unreadable block ends the scan. Continue at the next file, which may be intact.
            let ends = of_table().filter_map(|file| file.end_key.as_deref()).filter(|end| **end > *last);
            let Some(end) = ends.min() else { break };
            start = next_key(end);
        }
        Ok(damage)
    }

    /// Reads one key and adds any damage found.
    fn check_key(&self, table: Table, key: &[u8], damage: &mut Vec<Error>) -> Result<()> {
        match self.get(table, key) {
            Err(error @ Error::Damaged { .. }) => add_new(damage, error),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        Ok(())
    }

    /// Reads a table from a key on. An error comes with the last key reached.
    fn verify_from(
        &self,
        table: Table,
        start: &[u8],
        bytes: &mut u64,
        progress: &mut dyn FnMut(u64),
    ) -> std::result::Result<(), (Vec<u8>, Error)> {
        let mut cursor = KeyCursor::start_whole(self, table, start);
        let mut reported = *bytes;
        let mut last = start.to_vec();
        loop {
            match cursor.next() {
                Ok(Some((key, value))) => {
                    assert!(key >= last.as_slice(), "a scan returns keys in ascending order");
                    *bytes += (key.len() + value.len()) as u64;
                    last.clear();
                    last.extend_from_slice(key);
                }
                Ok(None) => break,
                Err(error) => return Err((last, error)),
            }
            if *bytes - reported >= 16 << 20 {
                progress(*bytes);
                reported = *bytes;
            }
        }
        progress(*bytes);
        Ok(())
    }

    fn reader(&self) -> RocksReader<'_> {
        RocksReader::new(self, None)
    }
}

/// The sequence numbers that the last ingestion took, which belong to no batch in the log.
///
/// A sync marker with such a number would claim that a batch was synced although none has the number. If a power
/// failure then garbled the next batches, which are not synced, their loss would count as proved ([`log::examine`]).
struct IngestedSequences {
    /// Sequence number of the last batch before the ingestion, or a smaller one.
    before: u64,
    /// Last sequence number in use after the ingestion; `u64::MAX` while it runs.
    end: u64,
}

impl IngestedSequences {
    /// Returns the sequence number of the last batch, or a smaller one. `latest` is the last number in use.
    fn last_of_batches(&self, latest: u64) -> u64 {
        if latest > self.end { latest } else { self.before }
    }
}

/// Returns `true` if the log has a torn tail. Returns an error if the log has lost acknowledged changes, unless
/// `damaged_log` allows dropping the tail.
fn examine_log(folder: &Path, state: StoreState, damaged_log: DamagedLog) -> Result<bool> {
    let mark = match state {
        StoreState::New => None,
        StoreState::Existing(mark) => mark,
    };
    let condition = log::examine(folder, mark)?;
    match condition.loss {
        Some(loss) if damaged_log == DamagedLog::Refuse => Err(loss.into()),
        _ => Ok(condition.is_torn),
    }
}

/// Opens every existing table, including tables that only a newer program knows. The format version of such a store is
/// in a known table, so it can still be checked.
fn open_tables(folder: &Path, logs: &Path, tuning: &RocksOptions) -> Result<DB> {
    let stored = DB::list_cf(&tuning.database, folder).unwrap_or_default();
    let is_foreign = |name: &String| name != "default" && Table::ALL.iter().all(|table| table.name() != name);
    let foreign = stored.into_iter().filter(is_foreign);
    let known = Table::ALL.iter().map(|table| ColumnFamilyDescriptor::new(table.name(), tuning.table(*table)));
    let families = known.chain(foreign.map(|name| ColumnFamilyDescriptor::new(name, rocksdb::Options::default())));
    DB::open_cf_descriptors(&tuning.database, folder, families)
        .map_err(|error| opening_failure(folder, logs, &error.kind(), error.as_ref()))
}

/// Adds damage unless the same place is already listed.
fn add_new(damage: &mut Vec<Error>, error: Error) {
    let place = |error: &Error| if let Error::Damaged { reason, .. } = error { Some(reason.clone()) } else { None };
    if !damage.iter().any(|known| place(known) == place(&error)) {
        damage.push(error);
    }
}

impl TableReader for RocksEngine {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.reader().get(table, key)
    }

    fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.reader().multi_get(table, keys)
    }

    fn scan(&self, table: Table, range: &KeyRange, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(KeyCursor::start(self, None, table, range, direction)))
    }
}

impl Engine for RocksEngine {
    fn write(&self, batch: &Batch) -> Result<()> {
        self.space.check_space(batch.byte_count() as u64)?;
        let mut changes = rocksdb::WriteBatch::with_capacity_bytes(batch.byte_count() + 16 * batch.len() + 32);
        changes.put_log_data(log::sync_marker(self.synced.load(Ordering::Relaxed)));
        for operation in batch.operations() {
            match operation {
                BatchOperation::Put { table, key, value } => changes.put_cf(self.family(table), key, value),
                BatchOperation::Delete { table, key } => changes.delete_cf(self.family(table), key),
                BatchOperation::DeleteRange { table, start, end } => {
                    changes.delete_range_cf(self.family(table), start, end);
                }
            }
        }
        let turn = self.gaps.begin(batch);
        let outcome = self.db.write_opt(changes, &self.write);
        self.gaps.end(batch, &turn, outcome.is_ok());
        self.note_write(outcome)
    }

    fn check_space(&self, bytes: u64) -> Result<()> {
        self.space.check_space(bytes)
    }

    fn write_refusal(&self) -> Option<String> {
        if !self.was_refused.load(Ordering::Relaxed) {
            return None;
        }
        // If clients wait until writes are accepted, none of them finds out. A batch without changes does.
        let mut nothing = rocksdb::WriteBatch::default();
        nothing.put_log_data(log::sync_marker(self.synced.load(Ordering::Relaxed)));
        let mut at_once = rocksdb::WriteOptions::default();
        at_once.set_no_slowdown(true);
        let outcome = match self.db.write_opt(nothing, &at_once) {
            // The engine accepts writes again, but delays them.
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok(()),
            outcome => outcome,
        };
        self.note_write(outcome).err().map(|refusal| refusal.to_string())
    }

    fn sync(&self) -> Result<()> {
        let sequence = self.logged_sequence();
        let mark = self.measure_log()?;
        self.db.flush_wal(true).map_err(|error| failure("sync the log", &error))?;
        let synced = self.synced.fetch_max(sequence, Ordering::Relaxed);
        assert!(synced <= self.db.latest_sequence_number(), "only written batches are synced");
        // The sync itself has succeeded. If the records cannot be written, they stay older, which only detects less,
        // and the next sync tries again.
        let _ = self.last_log.lock().record(mark);
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn TableReader + Send + Sync + '_>> {
        let at = self.gaps.last_visible_batch();
        Ok(Box::new(RocksReader::new(self, Some(NumberedSnapshot { snapshot: self.db.snapshot(), at }))))
    }

    fn ingest(&self, table: Table, pairs: &mut dyn Cursor) -> Result<()> {
        let _turn = self.ingestion.lock();
        let file = self.folder.join(placement::INGEST_FILE);
        let outcome = self.ingest_through(&file, table, pairs);
        if outcome.is_err() {
            // It may be this file that fills the disk.
            let _ = placement::remove_if_there(&file);
        }
        outcome
    }

    fn flush(&self) -> Result<()> {
        // The free space is not checked: a flush takes less than the memtables, by how much is unknown, and an attempt
        // before the store is closed does no harm.
        let families: Vec<&ColumnFamily> = Table::ALL.iter().map(|table| self.family(*table)).collect();
        let outcome = self.db.flush_cfs_opt(&families, &rocksdb::FlushOptions::default());
        outcome.map_err(|error| failure("flush", &error))
    }

    fn reclaim(&self) -> Result<()> {
        let family = self.family(Table::Blob);
        let garbage = metrics::property(&self.db, family, "rocksdb.live-blob-file-garbage-size");
        let total = metrics::property(&self.db, family, "rocksdb.live-blob-file-size");
        match garbage {
            much if much >= total / 2 && much > 0 => self.rewrite_separate_values(true),
            little if little <= total / 4 => self.rewrite_separate_values(false),
            _ => Ok(()),
        }
    }

    fn compact(&self, table: Table, range: &KeyRange) -> Result<()> {
        let mut how = CompactOptions::default();
        how.set_exclusive_manual_compaction(false);
        how.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        let family = self.family(table);
        self.check_flush()?;
        self.db.flush_cf(family).map_err(|error| failure("flush before compacting", &error))?;
        if table == Table::Blob {
            self.rewrite_separate_values(true)?;
        }
        self.db.compact_range_cf_opt(family, Some(&range.start), range.end.as_ref(), &how);
        if table == Table::Blob { self.reclaim() } else { Ok(()) }
    }

    fn checkpoint(&self, target: &Path) -> Result<()> {
        self.check_flush()?;
        let checkpoint =
            rocksdb::checkpoint::Checkpoint::new(&self.db).map_err(|error| failure("prepare a checkpoint", &error))?;
        checkpoint.create_checkpoint(target).map_err(|error| failure("create a checkpoint", &error))
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<Vec<Error>> {
        let mut bytes = 0;
        let mut damage = Vec::new();
        for table in Table::ALL {
            damage.extend(self.verify_table(table, &mut bytes, progress)?);
        }
        Ok(damage)
    }

    fn salvage(&self, table: Table, known: &[Error]) -> Result<Vec<SortedFile>> {
        self.gaps.clear_during(|| salvage::salvage(self, table, known))
    }

    fn size(&self, table: Table, range: &KeyRange) -> Result<u64> {
        let unbounded = [0xFF; 64];
        let end = range.end.as_deref().unwrap_or(&unbounded);
        if range.start.as_slice() >= end {
            return Ok(0);
        }
        let family = self.family(table);
        let sizes = self.db.get_approximate_sizes_cf(family, &[rocksdb::Range::new(&range.start, end)]);
        let separate = if table == Table::Blob && *range == KeyRange::all() {
            metrics::property(&self.db, family, "rocksdb.live-blob-file-size")
        } else {
            0
        };
        Ok(sizes.first().copied().unwrap_or(0) + separate)
    }

    fn metrics(&self) -> Metrics {
        metrics::collect(self)
    }
}

#[cfg(test)]
mod tests;
