//! Limits of the store.
//!
//! Every size that is read from disk or set by the operator has its maximum here. Limits shared by several crates are
//! in `base::limits`.

/// Minimum size at which a value of the attachment table is stored in a separate file.
pub const SEPARATE_VALUE_BYTES_MIN: u64 = 4 << 10;

/// Smallest configurable log size. With a smaller log the engine would do nothing but flush.
pub const WAL_BYTES_MIN: u64 = 4 << 20;

/// Raw size of one chunk of an attachment.
pub const BLOB_CHUNK_BYTES: u32 = 256 << 10;

/// Largest chunk size that is accepted when it is read from disk.
pub const BLOB_CHUNK_BYTES_MAX: u32 = 16 << 20;

/// Maximum size of an attachment.
pub const BLOB_BYTES_MAX: u64 = 4 << 30;

/// Maximum number of attachments that are cached as existing, so that the engine need not be asked. Each takes some
/// forty bytes.
pub const PRESENT_BLOBS_CACHED_MAX: usize = 65_536;

/// Maximum number of attachments that a report lists individually.
pub const BLOBS_NAMED_MAX: usize = 1_000;

/// Number of bytes written to a file that is being ingested between two checks of the free disk space.
pub const SPACE_CHECK_BYTES: u64 = 4 << 20;

/// Number of times that the list of the engine's files is read while files in it seem to be missing.
pub const MANIFEST_READS_MAX: usize = 4;

/// Maximum size of a backup manifest.
pub const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// Maximum size of a file beside the store in a backup.
pub const DATA_FILE_BYTES_MAX: u64 = 4 << 20;

/// Maximum number of files beside the store in a backup.
pub const DATA_FILES_MAX: usize = 1_000;

/// Minimum length of the passphrase that encrypts the key files of a backup.
pub const PASSPHRASE_CHARACTERS_MIN: usize = 12;

/// Maximum memory that turning a passphrase into a key may require, in KiB.
pub const PASSPHRASE_MEMORY_KIB_MAX: u32 = 1 << 20;

/// Maximum number of passes over that memory.
pub const PASSPHRASE_PASSES_MAX: u32 = 64;

/// Number of invisible entries of one memtable that a scan skips before that memtable is flushed. Skipping them takes a
/// third of a millisecond.
pub const SKIPPED_TOMBSTONES_MAX: u32 = 4_000;

/// Tombstones between two entries from which on a scan reports the range between them as a gap. Stepping over as many
/// takes a microsecond.
pub const GAP_TOMBSTONES_MIN: u64 = 16;

/// Gaps that are kept for each sixty-fourth of the databases, about 150 bytes each.
pub const GAPS_PER_SLOT_MAX: usize = 2_048;

/// Recent changes that are listed for each sixty-fourth of the databases, to decide which empty range may become a gap.
pub const LISTED_CHANGES_PER_SLOT_MAX: usize = 512;

/// Changes of one batch that are listed; while a larger batch is written, no gaps are learned in its databases.
pub const LISTED_CHANGES_PER_BATCH_MAX: usize = 256;

/// Longest key at which a gap begins or ends.
pub const GAP_KEY_BYTES_MAX: usize = 512;

/// Maximum memory for recently written records.
pub const WRITE_CACHE_BYTES_MAX: usize = 32 << 20;

/// Maximum length of a key in the write cache.
pub const CACHED_KEY_BYTES_MAX: usize = 127;

/// Maximum length of a value in the write cache.
pub const CACHED_VALUE_BYTES_MAX: usize = 4 << 10;

/// Approximate size of one batch when the readable content of a damaged file is rewritten.
pub const SALVAGE_BATCH_BYTES: usize = 16 << 20;

/// Maximum size of a pair to be sorted, key and value together.
pub const SORT_PAIR_BYTES_MAX: usize = 64 << 20;

/// Maximum number of sorted runs that are merged at once.
pub const SORT_RUNS_MAX: usize = 1_000;

/// Number of bytes that are read or written at a time for each run.
pub const SORT_BUFFER_BYTES: usize = 128 << 10;

/// Number of keys that are probed for intact blocks between damaged ones.
pub const SALVAGE_PROBES: usize = 64;
