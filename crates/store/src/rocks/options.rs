//! Options for opening the store, and their translation to RocksDB's options.
//!
//! The defaults fit a machine with two to four gigabytes that also runs the rest of the server: 256 MiB of block cache
//! and at most 192 MiB of memtables over all tables. The block cache also holds indexes and filters, so that memory
//! does not grow with the data.
//!
//! [`RestartTradeOff`] chooses between few flushes and a fast restart. Everything written since the last flush of the
//! memtables is replayed from the log at start, so the log's length determines the restart time. A short log means
//! frequent flushes of small files and more compaction. Replay runs at 25 to 80 MB per second (`docs/store-format.md`).

use std::path::PathBuf;

use rocksdb::{BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, LogLevel};
use rocksdb::{WriteBufferManager, statistics::StatsLevel};

use super::gaps::database_prefix_bytes;
use crate::blob::{BlobCodec, BlobOptions};
use crate::commit::SyncMode;
use crate::engine::Table;
use crate::limits;

/// Frequency at which memtables are flushed, which determines how much log a restart has to replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RestartTradeOff {
    /// Few flushes and up to 1 GiB of log: the least work while running, 15 to 40 seconds at start after a crash.
    FavorRuntime,
    /// Up to 256 MiB of log: 3 to 10 seconds at start after a crash.
    #[default]
    Standard,
    /// Up to 64 MiB of log: 1 to 3 seconds at start after a crash, and some more work while running.
    FavorRestart,
}

impl RestartTradeOff {
    /// Returns the log size at which the oldest memtables are flushed.
    #[must_use]
    pub const fn max_wal_bytes(self) -> u64 {
        match self {
            Self::FavorRuntime => 1 << 30,
            Self::Standard => 256 << 20,
            Self::FavorRestart => 64 << 20,
        }
    }
}

/// The codec with which new and rewritten data of a table is compressed. Data that is there stays readable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// LZ4, and Zstandard in the last level, which has most of the data and is written last.
    #[default]
    Tiered,
    /// None.
    None,
    /// LZ4 in all levels: fast, and less small.
    Lz4,
    /// Zstandard in all levels: small, and slower.
    Zstd,
}

impl Compression {
    /// Sets the codec of a table.
    fn apply(self, options: &mut rocksdb::Options) {
        let (upper, last) = match self {
            Self::Tiered => (DBCompressionType::Lz4, DBCompressionType::Zstd),
            Self::None => (DBCompressionType::None, DBCompressionType::None),
            Self::Lz4 => (DBCompressionType::Lz4, DBCompressionType::Lz4),
            Self::Zstd => (DBCompressionType::Zstd, DBCompressionType::Zstd),
        };
        let level = |codec| if codec == DBCompressionType::Zstd { ZSTD_LEVEL } else { DEFAULT_LEVEL };
        options.set_compression_type(upper);
        options.set_compression_options(WINDOW_BITS, level(upper), 0, 0);
        options.set_bottommost_compression_type(last);
        options.set_bottommost_compression_options(WINDOW_BITS, level(last), 0, 0, true);
    }

    /// Returns the codec of files that are ingested. Compaction does the rest.
    const fn of_ingested_files(self) -> Self {
        match self {
            Self::Tiered => Self::Lz4,
            other => other,
        }
    }
}

/// The reaction to a log that has lost acknowledged changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DamagedLog {
    /// Do not open the store. The error names the place of the damage.
    #[default]
    Refuse,
    /// Open the store without the changes after the damage. For use when there is no backup to restore.
    DropTail,
}

/// Options for opening a store. [`StoreOptions::default`] is right for most servers.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Folder of the write-ahead log; `None` means the store's own folder. A separate device keeps commits fast while
    /// other work is running.
    pub wal_folder: Option<PathBuf>,
    /// Log size at which memtables are flushed; `None` derives it from `restart`.
    pub max_wal_bytes: Option<u64>,
    /// Trade-off between few flushes and a fast restart.
    pub restart: RestartTradeOff,
    /// Memory for cached blocks, indexes and filters, in bytes.
    pub cache_bytes: usize,
    /// Memory for data that is written and not yet flushed, all tables together, in bytes.
    pub memtable_bytes: usize,
    /// Free disk space below which writes are refused, so that the engine can still flush and compact.
    pub reserve_bytes: u64,
    /// Reaction to a log that has lost acknowledged changes.
    pub damaged_log: DamagedLog,
    /// Approximate size of a sorted file. The first compacted level holds four such files, and each further level ten
    /// times more.
    pub file_bytes: u64,
    /// Compression of the tables of documents and designs: `summary` and `body`.
    pub document_compression: Compression,
    /// Compression of the tables of the indexes of views and folders: `view`, `tree` and `viewback`.
    pub index_compression: Compression,
    /// Number of bytes that a scan reads ahead of its position from the beginning, or `None` to read ahead more and
    /// more, from 8 KiB to 256 KiB, after the second block in a row.
    pub read_ahead_bytes: Option<usize>,
    /// Maximum number of files of tables that the engine keeps open. Scans may hold some more, and the log, the list of
    /// files and the files that are being written are not counted.
    pub open_files_max: u32,
    /// Maintenance mode: disables automatic compaction and counts bytes that the disk refuses to read as damage.
    /// Compaction reads whole files, and a damaged block in one of them would stop all writes before a repair is
    /// possible.
    pub quiet: bool,
    /// Policy by which writes become durable.
    pub sync: SyncMode,
    /// Options for storing attachments.
    pub blobs: BlobOptions,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            wal_folder: None,
            max_wal_bytes: None,
            restart: RestartTradeOff::default(),
            cache_bytes: 256 << 20,
            memtable_bytes: 192 << 20,
            reserve_bytes: 256 << 20,
            damaged_log: DamagedLog::default(),
            file_bytes: 64 << 20,
            document_compression: Compression::default(),
            index_compression: Compression::default(),
            read_ahead_bytes: None,
            open_files_max: 512,
            quiet: false,
            sync: SyncMode::default(),
            blobs: BlobOptions::default(),
        }
    }
}

/// RocksDB's options for the whole database and, through [`RocksOptions::table`], for each table.
pub(super) struct RocksOptions {
    pub(super) database: rocksdb::Options,
    cache: Cache,
    memtables: WriteBufferManager,
    memtable_bytes: usize,
    file_bytes: u64,
    document_compression: Compression,
    index_compression: Compression,
    blob_codec: BlobCodec,
    /// Number of bytes that scans read ahead, or `None` for the engine's choice.
    pub(super) read_ahead_bytes: Option<usize>,
    pub(super) quiet: bool,
    /// Whether batches stay in the log's buffer until a sync.
    pub(super) buffers_log: bool,
}

impl RocksOptions {
    /// Translates the operator's options.
    pub(super) fn new(options: &StoreOptions) -> Self {
        // This cache type is lock-free. A lookup of a document accesses it four to six times.
        let cache = Cache::new_hyper_clock_cache(options.cache_bytes, BLOCK_BYTES);
        // When the total nears the limit, the table with the oldest memtable is flushed. Writers are never stalled.
        let memtables = WriteBufferManager::new_write_buffer_manager(options.memtable_bytes, false);
        let mut database = rocksdb::Options::default();
        set_files(&mut database, options);
        set_log(&mut database, options);
        set_work(&mut database);
        database.set_write_buffer_manager(&memtables);
        Self {
            database,
            cache,
            memtables,
            memtable_bytes: options.memtable_bytes,
            file_bytes: options.file_bytes,
            document_compression: options.document_compression,
            index_compression: options.index_compression,
            blob_codec: options.blobs.codec,
            read_ahead_bytes: options.read_ahead_bytes,
            quiet: options.quiet,
            buffers_log: buffers_log(options),
        }
    }

    /// Returns the options of a table.
    pub(super) fn table(&self, table: Table) -> rocksdb::Options {
        let mut options = rocksdb::Options::default();
        options.set_block_based_table_factory(&self.blocks());
        options.set_write_buffer_size(self.memtable_bytes / 3);
        options.set_max_write_buffer_number(3);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_target_file_size_base(self.file_bytes);
        options.set_max_bytes_for_level_base(self.file_bytes.saturating_mul(4));
        options.set_disable_auto_compactions(self.quiet);
        if table == Table::Blob {
            set_separate_values(&mut options, self.blob_codec);
        } else {
            self.compression(table).apply(&mut options);
        }
        if is_scanned_over_tombstones(table) {
            options.add_compact_on_deletion_collector_factory(1_024, 512, 0.5);
        }
        let mut settings = insert_hints(table);
        if !self.quiet {
            settings += &tombstone_flush_trigger();
        }
        options.get_options_from_string(settings).expect("the engine has these options")
    }

    /// Returns the options of a sorted file to be ingested.
    ///
    /// It is compressed like new files, which costs a tenth of the compression of the last level. Compaction does the
    /// rest.
    pub(super) fn sorted_file(&self, table: Table) -> rocksdb::Options {
        let mut options = self.table(table);
        if table != Table::Blob {
            self.compression(table).of_ingested_files().apply(&mut options);
        }
        options
    }

    fn compression(&self, table: Table) -> Compression {
        match table {
            Table::Summary | Table::Body => self.document_compression,
            Table::View | Table::Tree | Table::ViewBack => self.index_compression,
            _ => Compression::Tiered,
        }
    }

    /// Returns the size of the memtables and the size of the cache content, in bytes.
    pub(super) fn memory(&self) -> (usize, usize) {
        (self.memtables.get_usage(), self.cache.get_usage())
    }

    fn blocks(&self) -> BlockBasedOptions {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&self.cache);
        blocks.set_block_size(BLOCK_BYTES);
        blocks.set_bloom_filter(10.0, false);
        // Indexes and filters are partitioned and kept in the cache, so that memory is bounded by the cache for any
        // amount of data.
        blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        blocks.set_partition_filters(true);
        blocks.set_metadata_block_size(BLOCK_BYTES);
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        blocks.set_pin_top_level_index_and_filter(true);
        blocks.set_format_version(6);
        blocks
    }
}

/// Size of a block in a sorted file. Applies to entries and to the partitions of index and filter.
const BLOCK_BYTES: usize = 8 << 10;

/// RocksDB's value for the default level of a compression codec (`CompressionOptions::kDefaultCompressionLevel`). Any
/// other value makes LZ4 slow and thorough.
const DEFAULT_LEVEL: i32 = 32_767;

/// The level of Zstandard. Higher levels cost more than they save here.
const ZSTD_LEVEL: i32 = 1;

/// RocksDB's value for the default size of the window of a codec.
const WINDOW_BITS: i32 = -14;

/// Configures separate files for values of at least [`limits::SEPARATE_VALUE_BYTES_MIN`] bytes, which compaction does
/// not rewrite again and again. The values are already compressed by [`crate::blob`], unless the codec is LZ4.
fn set_separate_values(options: &mut rocksdb::Options, codec: BlobCodec) {
    let codec = if codec == BlobCodec::Lz4 { DBCompressionType::Lz4 } else { DBCompressionType::None };
    options.set_compression_type(codec);
    options.set_bottommost_compression_type(codec);
    options.set_enable_blob_files(true);
    options.set_min_blob_size(limits::SEPARATE_VALUE_BYTES_MIN);
    options.set_blob_file_size(256 << 20);
    options.set_blob_compression_type(codec);
    // While it is enabled, every compaction rewrites all values that it meets, and the engine compacts by itself where
    // a quarter of a file is garbage. `reclaim` enables it only while there is much garbage.
    options.set_enable_blob_gc(false);
    options.set_blob_gc_age_cutoff(1.0);
    options.set_blob_gc_force_threshold(0.25);
}

/// Returns `true` if reads of a table scan over its tombstones. Files of such a table that are full of tombstones are
/// compacted soon.
///
/// Records in the tables of documents are found by their keys, and scans of views know where the empty ranges are
/// (`gaps`). Compacting the whole view table for each memtable would cost a fifth of the processor time of a busy
/// server.
const fn is_scanned_over_tombstones(table: Table) -> bool {
    match table {
        Table::ByModseq | Table::Children | Table::Unread | Table::Meta | Table::Catalog => true,
        Table::BlobRef | Table::BlobFree | Table::Store => true,
        Table::Summary | Table::Body | Table::Unid | Table::View | Table::Tree | Table::ViewBack | Table::Blob => false,
    }
}

/// Returns the settings with which a memtable remembers, for each database, the position of the last insert. Empty for
/// tables of the whole server.
///
/// The next key of the same database is mostly close to it, so the insert searches from there and not from the top of
/// the skip list. A remembered position takes some 300 bytes of the memtable.
fn insert_hints(table: Table) -> String {
    match database_prefix_bytes(table) {
        0 => String::new(),
        bytes => format!("memtable_insert_with_hint_prefix_extractor=rocksdb.FixedPrefix.{bytes};"),
    }
}

/// Returns the settings for the flush of memtables in which scans skip many tombstones.
///
/// A scan skips every tombstone in a memtable. If it skips many for each entry that it finds, the memtable is flushed,
/// and compaction then drops the tombstones. Otherwise reading a view whose newest documents come and go would become
/// slower and slower.
fn tombstone_flush_trigger() -> String {
    let all = limits::SKIPPED_TOMBSTONES_MAX;
    let each = limits::SKIPPED_TOMBSTONES_MAX / 100;
    format!("memtable_op_scan_flush_trigger={all};memtable_avg_op_scan_flush_trigger={each};")
}

fn set_files(database: &mut rocksdb::Options, options: &StoreOptions) {
    database.create_missing_column_families(true);
    database.set_paranoid_checks(true);
    let (open_files_max, shard_bits) = open_file_cache(options.open_files_max);
    database.set_max_open_files(open_files_max);
    database.set_table_cache_num_shard_bits(shard_bits);
    database.set_keep_log_file_num(4);
    database.set_max_log_file_size(4 << 20);
    database.set_log_level(LogLevel::Warn);
    database.set_stats_dump_period_sec(0);
    database.set_stats_persist_period_sec(0);
    database.enable_statistics();
    database.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
}

/// Number of files that the engine subtracts from `max_open_files` for other files than those of tables.
const OTHER_FILES: u32 = 10;

/// Returns the engine's options for keeping at most `count` files of tables open: `max_open_files`, and the binary
/// logarithm of the number of shards of the cache of these files.
///
/// The engine divides the number by the shards and rounds up. So the number is a multiple of the shards, of which there
/// are few for a small number.
fn open_file_cache(count: u32) -> (i32, i32) {
    let shard_bits = if count < 512 { 3 } else { 6 };
    let shards = 1_u32 << shard_bits;
    let files = (count / shards).max(1).saturating_mul(shards);
    (i32::try_from(files.saturating_add(OTHER_FILES)).unwrap_or(i32::MAX), shard_bits)
}

fn set_log(database: &mut rocksdb::Options, options: &StoreOptions) {
    if let Some(folder) = &options.wal_folder {
        database.set_wal_dir(folder);
    }
    let wal_bytes = options.max_wal_bytes.unwrap_or(options.restart.max_wal_bytes());
    database.set_max_total_wal_size(wal_bytes.max(limits::WAL_BYTES_MIN));
    // A power failure leaves a torn log. Everything after the tear is dropped in whole batches, so that a prefix of the
    // written batches is kept. `log` has already checked that it is only a torn tail.
    database.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    database.set_track_and_verify_wals_in_manifest(true);
    database.set_manual_wal_flush(buffers_log(options));
}

/// Returns `true` if the log is passed to the operating system once per sync instead of once per write. With group
/// commit no caller relies on a write before its sync.
fn buffers_log(options: &StoreOptions) -> bool {
    options.sync != SyncMode::Off
}

fn set_work(database: &mut rocksdb::Options) {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    database.set_max_background_jobs(i32::try_from(cores.clamp(2, 8)).unwrap_or(2));
    // One thread applies the batches of a group to the memtables. For batches of a dozen small changes, distributing
    // them to the writers costs more in wake-ups (4 us of CPU per commit, 32 writers, 2 cores) than it saves.
    database.set_allow_concurrent_memtable_write(false);
    // Files are written to disk gradually, so that a log sync does not wait behind a whole compaction.
    database.set_bytes_per_sync(1 << 20);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_of_open_files_is_not_larger_than_wanted() {
        for count in (8..2_000).chain([100_000, u32::MAX / 2]) {
            let (open_files_max, shard_bits) = open_file_cache(count);
            let files = u64::try_from(open_files_max).expect("positive") - u64::from(OTHER_FILES);
            let shards = 1_u64 << shard_bits;
            let rounded = files.div_ceil(shards) * shards;
            assert!(rounded <= u64::from(count) && rounded + shards > u64::from(count), "{rounded} of {count}");
        }
        assert_eq!(open_file_cache(512), (522, 6));
    }
}
