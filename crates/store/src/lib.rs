//! Durable storage: an engine behind a narrow trait, group commit, blobs and backup.
//!
//! | module | content |
//! |---|---|
//! | [`engine`] | the trait that every engine implements: tables, batches, scans, snapshots |
//! | [`rocks`] | the production engine, RocksDB |
//! | [`memory`] | the engine of the tests: in memory, loses unsynced writes, tears log tails, fails syncs, flips bits |
//! | [`commit`] | group commit: one sync for many writers; poisoning after a failed sync |
//! | [`blob`] | attachments: content-addressed, deduplicated, compressed, reference-counted |
//! | [`external_sort`] | sorting of more data than fits into memory |
//! | [`backup`] | backup and restore of a running store |
//!
//! Guarantees:
//! - A batch whose [`commit::Ticket`] has become durable survives `kill -9` and power loss.
//! - A batch is present completely or not at all.
//! - Damaged bytes are reported as an error that names the table and the key, never returned as a wrong value.
//!
//! The format is described in `docs/store-format.md`. This crate accesses files. Of the crates above it and below
//! `instance`, only `search` also does.

pub mod backup;
pub mod batch;
pub mod blob;
pub mod commit;
pub mod engine;
pub mod error;
pub mod external_sort;
pub mod limits;
pub mod memory;
pub mod rocks;

mod store;
mod write_cache;

pub use batch::{Batch, BatchOperation};
pub use blob::{BlobCodec, BlobId, BlobOptions, BlobOwner};
pub use commit::{DurableFuture, SyncMode, Ticket};
pub use engine::{Cursor, Direction, Engine, KeyRange, SortedFile, Table, TableReader};
pub use error::{Error, Result};
pub use store::{Snapshot, Store, StoreOptions};
