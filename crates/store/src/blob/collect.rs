//! Garbage collection of attachments that have no users.
//!
//! A release records the blob under the current time in the free table. After the grace period the collector checks
//! whether the blob has users. If so, it removes only the record; otherwise it also removes the content. It works in
//! small steps, and each step takes the write side of the gate, so that no writer is between its check for existing
//! content and its commit. The grace period counts from the recorded release, even if the content was used again for
//! some time since.
//!
//! Invariant: nothing is removed from the moment at which references may be missing ([`Blobs::set_references_missing`])
//! until they are rebuilt from the notes.

use base::Timestamp;
use base::codec::Decoder;

use super::chunk::remove_chunks;
use super::head::{RefKey, decode_key};
use super::{BlobId, Blobs, chunk, head};
use crate::batch::Batch;
use crate::engine::{Direction, KeyRange, Table, TableReader};
use crate::error::{Error, Result};
use crate::store::Store;

/// Key in [`Table::Store`] whose presence means that references may be missing.
const REFERENCES_LOST_KEY: &[u8] = b"references-lost";

/// Number of releases that are examined while the gate is held once.
const RELEASES_PER_STEP: usize = 32;

/// The result of a run of the collector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollectionReport {
    /// Number of releases examined.
    pub examined: u64,
    /// Number of blobs removed.
    pub removed: u64,
    /// Number of bytes that the removed blobs took on disk.
    pub removed_bytes: u64,
    /// Whether more releases are due than the budget allowed.
    pub more: bool,
}

impl Blobs {
    /// Removes content without users. Examines at most `budget` releases.
    ///
    /// Returns [`Error::ReferencesMissing`] if references may be missing.
    pub fn collect(&self, store: &Store, now: Timestamp, budget: usize) -> Result<CollectionReport> {
        if self.are_references_missing(store)? {
            return Err(Error::ReferencesMissing);
        }
        let mut due = KeyRange::between(Vec::new(), free_key(now.before(self.grace), &BlobId([0xFF; 32])));
        let mut collected = CollectionReport::default();
        let mut rest = budget;
        while rest > 0 {
            let wanted = rest.min(RELEASES_PER_STEP);
            let keys = first_keys(store, &due, wanted)?;
            self.collect_step(store, &keys, &mut collected)?;
            if keys.len() < wanted {
                store.engine().reclaim()?;
                return Ok(collected);
            }
            rest -= keys.len();
            // Continue after the last key, so that the scan does not step over the keys just deleted.
            due.start = keys.last().map_or(due.start, |key| [key, &[0][..]].concat());
        }
        collected.more = !first_keys(store, &due, 1)?.is_empty();
        Ok(collected)
    }

    /// Removes those of some contents that have no users, without a grace period. The caller knows that nobody needs
    /// them again. While references may be missing, the contents stay, and the collector removes them later.
    pub fn remove_unused(&self, store: &Store, ids: &[BlobId]) -> Result<CollectionReport> {
        let mut collected = CollectionReport::default();
        if self.are_references_missing(store)? {
            return Ok(collected);
        }
        for ids in ids.chunks(RELEASES_PER_STEP) {
            let _gate = self.gate.write();
            let mut batch = Batch::new();
            let mut removed = Vec::new();
            for id in ids {
                self.remove_if_unused(store, &mut batch, (id, &mut removed), &mut collected)?;
            }
            self.forget(&removed);
            store.commit(&batch)?;
        }
        Ok(collected)
    }

    /// Returns `true` if references may be missing and have not been rebuilt.
    pub fn are_references_missing(&self, store: &Store) -> Result<bool> {
        Ok(store.get(Table::Store, REFERENCES_LOST_KEY)?.is_some())
    }

    /// Records that references may be missing, before damage is removed from their table. The record is durable on
    /// return.
    pub fn set_references_missing(&self, store: &Store) -> Result<()> {
        let _gate = self.gate.write();
        let mut batch = Batch::new();
        batch.put(Table::Store, REFERENCES_LOST_KEY, &[]);
        store.durable(store.commit(&batch)?).wait()
    }

    fn collect_step(&self, store: &Store, keys: &[Vec<u8>], collected: &mut CollectionReport) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let _gate = self.gate.write();
        let mut batch = Batch::new();
        let mut removed = Vec::new();
        for key in keys {
            let id = decode_free_key(key)?;
            if self.arrivals.contains(&id) {
                continue;
            }
            self.remove_if_unused(store, &mut batch, (&id, &mut removed), collected)?;
            batch.delete(Table::BlobFree, key);
        }
        self.forget(&removed);
        collected.examined += keys.len() as u64;
        store.commit(&batch).map(drop)
    }

    /// Adds the removal of a content to a batch, unless it has a user, is arriving, or was removed in this step. The
    /// caller holds the write side of the gate.
    fn remove_if_unused(
        &self,
        store: &Store,
        batch: &mut Batch,
        (id, removed): (&BlobId, &mut Vec<BlobId>),
        collected: &mut CollectionReport,
    ) -> Result<()> {
        if removed.contains(id) || self.arrivals.contains(id) || is_used(store, id)? {
            return Ok(());
        }
        collected.removed_bytes += self.remove_content(store, batch, id, &mut collected.removed)?;
        removed.push(*id);
        Ok(())
    }

    /// Removes contents from the list of those that are known to exist.
    fn forget(&self, removed: &[BlobId]) {
        for id in removed {
            self.known.remove(id);
        }
    }

    /// Returns `true` if there are chunks of a content that has no head.
    fn has_chunks(&self, reader: &dyn TableReader, id: &BlobId) -> Result<bool> {
        let mut cursor = reader.scan(Table::Blob, &KeyRange::prefix(&id.0), Direction::Forward)?;
        Ok(cursor.next()?.is_some())
    }

    /// Adds the removal of a blob to a batch. Returns the number of bytes that the blob took on disk.
    fn remove_content(&self, store: &Store, batch: &mut Batch, id: &BlobId, removed: &mut u64) -> Result<u64> {
        let stored_length = match self.head(store, id) {
            Ok(None) => {
                // The chunks of a content that has not arrived completely.
                if self.has_chunks(store, id)? {
                    remove_chunks(batch, id);
                    *removed += 1;
                }
                return Ok(0);
            }
            Ok(Some(head)) => {
                (0..head.chunks()).for_each(|number| batch.delete(Table::Blob, &chunk::chunk_key(id, number)));
                head.stored_length
            }
            // The blob has no users, so its damage is harmless. Without the head the number of chunks is unknown, so
            // all of them are deleted as a range.
            Err(Error::Damaged { .. }) => {
                remove_chunks(batch, id);
                0
            }
            Err(error) => return Err(error),
        };
        batch.delete(Table::BlobRef, &head::head_key(id));
        *removed += 1;
        Ok(stored_length)
    }
}

/// Adds to a batch the removal of the record that references may be missing.
pub(super) fn clear_references_missing(batch: &mut Batch) {
    batch.delete(Table::Store, REFERENCES_LOST_KEY);
}

/// Returns the key under which a release is recorded: the time, then the blob.
pub(super) fn free_key(time: Timestamp, id: &BlobId) -> [u8; 40] {
    let mut key = [0; 40];
    // Inverting the sign bit sorts times before 1970 first.
    key[..8].copy_from_slice(&(time.0 ^ i64::MIN).to_be_bytes());
    key[8..].copy_from_slice(&id.0);
    key
}

fn decode_free_key(key: &[u8]) -> Result<BlobId> {
    let mut decoder = Decoder::new(key);
    let time = decoder.u64();
    match (time, decoder.array()) {
        (Ok(_), Ok(id)) if decoder.is_empty() => Ok(BlobId(id)),
        _ => Err(Error::Damaged {
            table: Table::BlobFree,
            key: key.to_vec(),
            reason: "the key has the wrong length".into(),
        }),
    }
}

fn first_keys(reader: &dyn TableReader, range: &KeyRange, count: usize) -> Result<Vec<Vec<u8>>> {
    let mut cursor = reader.scan(Table::BlobFree, range, Direction::Forward)?;
    let mut keys = Vec::with_capacity(count);
    while keys.len() < count {
        let Some((key, _)) = cursor.next()? else { break };
        keys.push(key.to_vec());
    }
    Ok(keys)
}

/// Returns `true` if a blob has a user.
pub(super) fn is_used(reader: &dyn TableReader, id: &BlobId) -> Result<bool> {
    let mut cursor = reader.scan(Table::BlobRef, &KeyRange::prefix(&id.0), Direction::Backward)?;
    let last = cursor.next()?;
    Ok(last.is_some_and(|(key, _)| matches!(decode_key(key), Some(RefKey::User(..)))))
}
