//! Durable storage: the engine behind a narrow trait, group commit, blobs, backup.
//!
//! | module | what it holds |
//! |---|---|
//! | [`engine`] | the trait every engine implements: tables, batches, scans, snapshots |
//! | [`rocks`] | the real engine, RocksDB |
//! | [`memory`] | the engine of the tests: in memory, loses unsynced writes, tears tails, fails syncs, flips bits |
//! | [`commit`] | one sync for many writers; poisoning after a failed sync |
//! | [`blob`] | attachments: content-addressed, deduplicated, compressed, reference-counted |
//! | [`sort`] | sorting more than memory holds |
//! | [`backup`] | copies of a running store, and back |
//!
//! Promises: a [`commit::Ticket`] that was waited for survives `kill -9` and power loss; a batch is there whole or
//! not at all; bytes that come back damaged are an error that names the table and the key, never a wrong value.
//! The format is described in `docs/store-format.md`. This room touches files; no room above does.

pub mod backup;
pub mod batch;
pub mod blob;
pub mod commit;
pub mod engine;
pub mod error;
pub mod limits;
pub mod memory;
pub mod rocks;
pub mod sort;

mod store;
mod write_cache;

pub use batch::{Batch, Operation};
pub use blob::{BlobId, BlobOptions, BlobOwner};
pub use commit::{Durable, SyncMode, Ticket};
pub use engine::{Cursor, Direction, Engine, KeyRange, Read, SortedFile, Table};
pub use error::{Error, Result};
pub use store::{Options, Snapshot, Store};
