//! The limits of the store.
//!
//! Sizes that come from the disk or from the operator have their maximum here. Limits that several rooms share stand in
//! `base::limits`.

/// Values of the attachment table that are at least this long lie in files of their own.
pub const SEPARATE_VALUE_BYTES_MIN: u64 = 4 << 10;

/// Smallest log that can be asked for; below that, flushing would be all that the engine does.
pub const WAL_BYTES_MIN: u64 = 4 << 20;

/// Raw bytes of one chunk of an attachment.
pub const BLOB_CHUNK_BYTES: u32 = 256 << 10;

/// Largest chunk size that is believed when it is read from the disk.
pub const BLOB_CHUNK_BYTES_MAX: u32 = 16 << 20;

/// Longest attachment.
pub const BLOB_BYTES_MAX: u64 = 4 << 30;

/// Attachments that are known to exist without asking the engine; some forty bytes each.
pub const KNOWN_BLOBS_MAX: usize = 65_536;

/// Attachments that a report names one by one.
pub const BLOBS_NAMED_MAX: usize = 1_000;

/// Bytes written between two looks at the free space of the disk.
pub const SPACE_CHECK_BYTES: u64 = 4 << 20;

/// Longest manifest of a backup.
pub const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// Most backups in one target.
pub const BACKUPS_MAX: u32 = 1_000_000;

/// Entries that nobody sees any more, of one memtable, that a scan passes over before that memtable is written out. They take a third of a millisecond.
pub const PASSED_REMOVALS_MAX: u32 = 4_000;

/// Tombstones between two entries from which on a scan reports the range between them as a gap. Stepping over as many takes a microsecond.
pub const GAP_TOMBSTONES_MIN: u64 = 16;

/// Gaps that are kept for each sixty-fourth of the databases, about 150 bytes each.
pub const GAPS_PER_SLOT_MAX: usize = 2_048;

/// Recent changes that are listed for each sixty-fourth of the databases, to decide which empty range may become a gap.
pub const LISTED_CHANGES_PER_SLOT_MAX: usize = 512;

/// Changes of one batch that are listed; while a larger batch is written, no gaps are learned in its databases.
pub const LISTED_CHANGES_PER_BATCH_MAX: usize = 256;

/// Longest key at which a gap begins or ends.
pub const GAP_KEY_BYTES_MAX: usize = 512;

/// Memory for records that were lately written, at most.
pub const WRITE_CACHE_BYTES_MAX: usize = 32 << 20;

/// Longest key that is remembered there.
pub const CACHED_KEY_BYTES_MAX: usize = 127;

/// Longest value that is remembered there.
pub const CACHED_VALUE_BYTES_MAX: usize = 4 << 10;

/// About as many bytes are written in one batch when what can be read of a damaged file is written again.
pub const MEND_BATCH_BYTES: usize = 16 << 20;

/// Longest pair that is sorted, key and value together.
pub const SORT_PAIR_BYTES_MAX: usize = 64 << 20;

/// Most sorted runs that are merged at once.
pub const SORT_RUNS_MAX: usize = 1_000;

/// Bytes that are read or written at once of each run.
pub const SORT_BUFFER_BYTES: usize = 128 << 10;

/// Keys that are looked at for sound blocks between damaged ones.
pub const MEND_PROBES: usize = 64;
