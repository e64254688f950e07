//! How the store is opened: the choices that an operator has, and how they become RocksDB's.
//!
//! The defaults fit a machine of two to four gigabytes that also runs the rest of the server: 256 MiB of block cache (which holds
//! indexes and filters too, so that memory does not grow with the data) and at most 192 MiB of memtables over all tables.
//!
//! [`Restart`] is the choice between few checkpoints and a fast restart. Everything that was written since the memtables were last
//! flushed is replayed from the log at start, so the log's length is the restart time. A short log means frequent flushes of
//! small files and more compaction. Replay runs at 25 to 80 MB a second (`docs/store-format.md`).

use std::path::PathBuf;

use rocksdb::{BlockBasedIndexType, BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, LogLevel};
use rocksdb::{WriteBufferManager, statistics::StatsLevel};

use crate::blob::BlobOptions;
use crate::commit::SyncMode;
use crate::engine::Table;
use crate::limits;

/// How often memtables are written out, which decides how much log a restart has to replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Restart {
    /// Few flushes and up to 1 GiB of log: least work while running, 15 to 40 seconds at start after a crash.
    FavorRuntime,
    /// Up to 256 MiB of log: 3 to 10 seconds at start after a crash.
    #[default]
    Standard,
    /// Up to 64 MiB of log: 1 to 3 seconds at start after a crash, for some more work while running.
    FavorRestart,
}

impl Restart {
    /// Gives the log size at which the oldest memtables are flushed.
    #[must_use]
    pub const fn max_wal_bytes(self) -> u64 {
        match self {
            Self::FavorRuntime => 1 << 30,
            Self::Standard => 256 << 20,
            Self::FavorRestart => 64 << 20,
        }
    }
}

/// What to do when the log has lost acknowledged changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DamagedLog {
    /// The store is not opened; the error says where the damage is.
    #[default]
    Refuse,
    /// The store is opened without what lies behind the damage. When there is no backup to go back to.
    DropTail,
}

/// How a store is opened. [`Options::default`] is right for most servers.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the write-ahead log lies; `None` is in the store's own folder. A device of its own keeps commits fast while other work goes on.
    pub wal_folder: Option<PathBuf>,
    /// The log size at which memtables are flushed; `None` leaves it to `restart`.
    pub max_wal_bytes: Option<u64>,
    /// Few flushes, or a fast restart.
    pub restart: Restart,
    /// Memory for blocks, indexes and filters that were read.
    pub cache_bytes: usize,
    /// Memory for what was written and not flushed yet, all tables together.
    pub memtable_bytes: usize,
    /// Free space below which writes are refused, so that the engine can still flush and compact.
    pub reserve_bytes: u64,
    /// What to do when the log has lost acknowledged changes.
    pub damaged_log: DamagedLog,
    /// Bytes of a sorted file, about; the first level that is merged holds four of them, each further one ten times more.
    pub file_bytes: u64,
    /// Files that the engine holds open at most.
    pub open_files_max: u32,
    /// The engine merges no files of its own accord. For maintenance: merging reads whole files, and a damaged block in one of them would end all
    /// writing before anything can be mended. And bytes that the disk refuses to read are damage.
    pub quiet: bool,
    /// How writes become durable.
    pub sync: SyncMode,
    /// How attachments are kept.
    pub blobs: BlobOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wal_folder: None,
            max_wal_bytes: None,
            restart: Restart::default(),
            cache_bytes: 256 << 20,
            memtable_bytes: 192 << 20,
            reserve_bytes: 256 << 20,
            damaged_log: DamagedLog::default(),
            file_bytes: 64 << 20,
            open_files_max: 512,
            quiet: false,
            sync: SyncMode::default(),
            blobs: BlobOptions::default(),
        }
    }
}

/// RocksDB's options for the database as a whole and, through [`Tuning::table`], for each table.
pub(super) struct Tuning {
    pub(super) database: rocksdb::Options,
    cache: Cache,
    memtables: WriteBufferManager,
    memtable_bytes: usize,
    file_bytes: u64,
    pub(super) quiet: bool,
}

impl Tuning {
    /// Translates the operator's choices.
    pub(super) fn new(options: &Options) -> Self {
        // The cache without locks; a look-up of a document touches it four to six times.
        let cache = Cache::new_hyper_clock_cache(options.cache_bytes, BLOCK_BYTES);
        // It flushes the table whose memtable is oldest when the sum nears the limit, and never stalls a writer.
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
            quiet: options.quiet,
        }
    }

    /// Gives the options of one table.
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
            set_separate_values(&mut options);
        } else {
            options.set_compression_type(DBCompressionType::Lz4);
            options.set_bottommost_compression_type(DBCompressionType::Zstd);
            options.set_bottommost_compression_options(-14, 1, 0, 0, true);
        }
        if is_passed_over(table) {
            options.add_compact_on_deletion_collector_factory(1_024, 512, 0.5);
        }
        if self.quiet { options } else { with_short_scans(&mut options) }
    }

    /// Gives the options of a sorted file that is taken in. It is compressed as new files are, which costs a tenth of what the last level's costs; compaction does the rest.
    pub(super) fn sorted_file(&self, table: Table) -> rocksdb::Options {
        let mut options = self.table(table);
        if table != Table::Blob {
            options.set_bottommost_compression_type(DBCompressionType::Lz4);
            options.set_bottommost_compression_options(-14, DEFAULT_LEVEL, 0, 0, true);
        }
        options
    }

    /// Gives the bytes that memtables take, and those that the cache holds.
    pub(super) fn memory(&self) -> (usize, usize) {
        (self.memtables.get_usage(), self.cache.get_usage())
    }

    fn blocks(&self) -> BlockBasedOptions {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&self.cache);
        blocks.set_block_size(BLOCK_BYTES);
        blocks.set_bloom_filter(10.0, false);
        // Indexes and filters in two levels, kept in the cache: memory is bounded by the cache whatever the data.
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

/// Bytes of a block of a file: of entries, and of the partitions of its index and filter.
const BLOCK_BYTES: usize = 8 << 10;

/// What the engine takes for a codec's own level (`CompressionOptions::kDefaultCompressionLevel`). Any other makes LZ4 slow and thorough.
const DEFAULT_LEVEL: i32 = 32_767;

/// Values of [`limits::SEPARATE_VALUE_BYTES_MIN`] and more go to files of their own, which compaction does not rewrite over and over. They are
/// compressed by [`crate::blob`] already.
fn set_separate_values(options: &mut rocksdb::Options) {
    options.set_compression_type(DBCompressionType::None);
    options.set_bottommost_compression_type(DBCompressionType::None);
    options.set_enable_blob_files(true);
    options.set_min_blob_size(limits::SEPARATE_VALUE_BYTES_MIN);
    options.set_blob_file_size(256 << 20);
    options.set_blob_compression_type(DBCompressionType::None);
    options.set_enable_blob_gc(true);
    options.set_blob_gc_age_cutoff(0.5);
    options.set_blob_gc_force_threshold(0.5);
}

/// Tells whether a table is read over what was removed in it: files full of removals are compacted soon. In the tables of documents records are found by
/// their keys, and scans of views know where nothing is (`gaps`); to compact the whole view for each memtable would cost a fifth of the processor time of
/// a busy server.
const fn is_passed_over(table: Table) -> bool {
    match table {
        Table::Bymod | Table::Children | Table::Unread | Table::Meta | Table::Catalog => true,
        Table::BlobRef | Table::BlobFree | Table::Store => true,
        Table::Summary | Table::Body | Table::Unid | Table::View | Table::Tree | Table::ViewBack | Table::Blob => false,
    }
}

/// A scan passes over every removal that a memtable holds. One that passes over many for each entry that it finds has the memtable written
/// out, whereupon compaction forgets them; otherwise a view whose newest documents come and go would be read ever more slowly.
fn with_short_scans(options: &mut rocksdb::Options) -> rocksdb::Options {
    let (all, each) = (limits::PASSED_REMOVALS_MAX, limits::PASSED_REMOVALS_MAX / 100);
    let said = format!("memtable_op_scan_flush_trigger={all};memtable_avg_op_scan_flush_trigger={each}");
    options.get_options_from_string(said).expect("the engine knows its options")
}

fn set_files(database: &mut rocksdb::Options, options: &Options) {
    database.create_missing_column_families(true);
    database.set_paranoid_checks(true);
    database.set_max_open_files(i32::try_from(options.open_files_max).unwrap_or(i32::MAX));
    database.set_keep_log_file_num(4);
    database.set_max_log_file_size(4 << 20);
    database.set_log_level(LogLevel::Warn);
    database.set_stats_dump_period_sec(0);
    database.set_stats_persist_period_sec(0);
    database.enable_statistics();
    database.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
}

fn set_log(database: &mut rocksdb::Options, options: &Options) {
    if let Some(folder) = &options.wal_folder {
        database.set_wal_dir(folder);
    }
    let wal_bytes = options.max_wal_bytes.unwrap_or(options.restart.max_wal_bytes());
    database.set_max_total_wal_size(wal_bytes.max(limits::WAL_BYTES_MIN));
    // A log that breaks off is what a power failure leaves. What follows the break is dropped, whole batches at a time, so that what is
    // kept is a prefix of what was written. That it was no more than a torn tail was looked at before (`log`).
    database.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    database.set_track_and_verify_wals_in_manifest(true);
    // With group commit nobody relies on a write before its sync: the log is handed to the system once a sync, not once a write.
    database.set_manual_wal_flush(options.sync != SyncMode::Off);
}

fn set_work(database: &mut rocksdb::Options) {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    database.set_max_background_jobs(i32::try_from(cores.clamp(2, 8)).unwrap_or(2));
    // One thread applies a group's batches to the memtables: with batches of a dozen small changes, handing them out to the writers
    // costs more in wake-ups (4 us of CPU a commit, 32 writers, 2 cores) than it saves.
    database.set_allow_concurrent_memtable_write(false);
    // Written files reach the disk little by little, so that a log sync does not queue behind a whole compaction.
    database.set_bytes_per_sync(1 << 20);
}
