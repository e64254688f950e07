//! Operations on the whole reference table: summing it up, verifying the blobs, and rebuilding it from the notes.
//!
//! The notes are authoritative for the uses of blobs. [`Blobs::rebuild`] takes all uses from the caller, adds missing
//! references, removes references that no note has, and marks content without users for the collector. It holds the
//! write side of the gate throughout. No attachment can be added meanwhile, so it is a maintenance operation.

use std::collections::HashSet;

use base::{DbNumber, Timestamp};

use super::head::{RefKey, decode_head, decode_key, head_key, user_key};
use super::{BlobId, BlobOwner, Blobs, collect};
use crate::batch::Batch;
use crate::engine::{Direction, KeyRange, Table, TableReader};
use crate::error::{Error, Result};
use crate::limits;
use crate::store::Store;

/// Number of changes that are committed together.
const BATCH_CHANGES: usize = 1_000;

/// A summary of the reference table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BlobReport {
    /// Number of blobs.
    pub count: u64,
    /// Size of their contents in bytes.
    pub raw_bytes: u64,
    /// Size of the blobs on disk in bytes.
    pub stored_bytes: u64,
    /// Number of references from notes to blobs.
    pub references: u64,
    /// Number of additional bytes that would be needed if every reference had its own uncompressed copy.
    pub saved_bytes: u64,
    /// Number of blobs that notes use and that do not exist. `missing` names the first [`limits::BLOBS_NAMED_MAX`] of
    /// them.
    pub missing_count: u64,
    /// The IDs of missing blobs.
    pub missing: Vec<BlobId>,
    /// Number of blobs without users, including those whose grace period has not ended.
    pub orphaned_count: u64,
    /// Size on disk of the blobs without users, in bytes.
    pub orphaned_bytes: u64,
}

/// The changes made by a rebuild.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RebuildReport {
    /// Number of references that notes had and the table lacked.
    pub added: u64,
    /// Number of references in the table that no note had.
    pub removed: u64,
    /// Number of blobs without users that were passed to the collector.
    pub orphaned: u64,
    /// Uses of blobs that do not exist, at most [`limits::BLOBS_NAMED_MAX`] of them.
    pub missing: Vec<(BlobOwner, BlobId)>,
}

impl Blobs {
    /// Summarizes the reference table.
    pub fn report(&self, reader: &dyn TableReader) -> Result<BlobReport> {
        let mut report = BlobReport::default();
        for_each_blob(reader, &mut |entry| {
            report.add(entry);
            Ok(())
        })?;
        Ok(report)
    }

    /// Returns the notes that use an attachment, at most `count` of them.
    pub fn users(&self, reader: &dyn TableReader, id: &BlobId, count: usize) -> Result<Vec<BlobOwner>> {
        let mut users = Vec::new();
        let mut cursor = reader.scan(Table::BlobRef, &KeyRange::prefix(&id.0), Direction::Forward)?;
        while let Some((key, _)) = cursor.next()?
            && users.len() < count
        {
            if let RefKey::User(_, owner) = parse_key(key)? {
                users.push(owner);
            }
        }
        Ok(users)
    }

    /// Calls `each` for every attachment that one of `owners` uses according to the reference table.
    pub fn uses_of(
        &self,
        reader: &dyn TableReader,
        owners: &HashSet<BlobOwner>,
        each: &mut dyn FnMut(BlobOwner, BlobId),
    ) -> Result<()> {
        if owners.is_empty() {
            return Ok(());
        }
        for_each_key(reader, &mut |key| {
            if let RefKey::User(id, owner) = key
                && owners.contains(&owner)
            {
                each(owner, id);
            }
            Ok(())
        })
    }

    /// Reads every attachment and compares it with its ID. Returns an error for each damaged one, and reports the
    /// number of bytes read to `progress`.
    pub fn verify_all(&self, reader: &dyn TableReader, progress: &mut dyn FnMut(u64)) -> Result<Vec<Error>> {
        let mut bytes = 0_u64;
        let mut damage = Vec::new();
        for_each_blob(reader, &mut |entry| {
            let Some((raw_bytes, _)) = entry.lengths else { return Ok(()) };
            if let Err(error) = self.verify(reader, &entry.id) {
                damage.push(error);
            }
            bytes += raw_bytes;
            progress(bytes);
            Ok(())
        })?;
        Ok(damage)
    }

    /// Makes the reference table match the uses that the caller found in the notes.
    ///
    /// `uses` must not wait for the owner of a [`super::BlobWriter`]. It must read snapshots and must not take a
    /// database's lock.
    pub fn rebuild(
        &self,
        store: &Store,
        uses: &mut dyn Iterator<Item = Result<(BlobOwner, BlobId)>>,
        now: Timestamp,
    ) -> Result<RebuildReport> {
        let _gate = self.gate.write();
        let mut rebuilt = RebuildReport::default();
        let fingerprints = add_missing_references(store, uses, &mut rebuilt)?;
        remove_stale_references(store, &fingerprints, &mut rebuilt)?;
        note_orphans(store, now, &mut rebuilt)?;
        let mut batch = Batch::new();
        collect::clear_references_missing(&mut batch);
        commit_rest(store, &batch)?;
        self.known.clear();
        Ok(rebuilt)
    }

    /// Releases the attachments of a database that is being deleted, at most `budget` references. Returns `true` if
    /// references remain.
    pub fn release_database(&self, store: &Store, database: DbNumber, now: Timestamp, budget: usize) -> Result<bool> {
        let mut batch = Batch::new();
        let mut released = 0;
        let mut more = false;
        for_each_key(store, &mut |key| {
            let RefKey::User(id, owner) = key else { return Ok(()) };
            if owner.database != database {
                return Ok(());
            }
            if released == budget {
                more = true;
                return Ok(());
            }
            released += 1;
            batch.delete(Table::BlobRef, &user_key(&id, owner));
            batch.put(Table::BlobFree, &collect::free_key(now, &id), &[]);
            commit_when_full(store, &mut batch)
        })?;
        commit_rest(store, &batch)?;
        Ok(more)
    }
}

impl BlobReport {
    fn add(&mut self, entry: &Entry) {
        self.references += entry.users;
        let Some((raw_bytes, stored_bytes)) = entry.lengths else {
            self.missing_count += 1;
            if self.missing.len() < limits::BLOBS_NAMED_MAX {
                self.missing.push(entry.id);
            }
            return;
        };
        self.count += 1;
        self.raw_bytes += raw_bytes;
        self.stored_bytes += stored_bytes;
        self.saved_bytes += raw_bytes.saturating_mul(entry.users).saturating_sub(stored_bytes);
        if entry.users == 0 {
            self.orphaned_count += 1;
            self.orphaned_bytes += stored_bytes;
        }
    }
}

/// The entries of one blob in the reference table.
struct Entry {
    id: BlobId,
    /// Raw and stored length in bytes; `None` if the blob has no head.
    lengths: Option<(u64, u64)>,
    users: u64,
}

/// Calls `each` for every blob, in the order of their IDs.
fn for_each_blob(reader: &dyn TableReader, each: &mut dyn FnMut(&Entry) -> Result<()>) -> Result<()> {
    let mut current: Option<Entry> = None;
    let mut cursor = reader.scan(Table::BlobRef, &KeyRange::all(), Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        let parsed = parse_key(key)?;
        let (RefKey::Head(id) | RefKey::User(id, _)) = parsed;
        if current.as_ref().is_none_or(|entry| entry.id != id)
            && let Some(entry) = current.replace(Entry { id, lengths: None, users: 0 })
        {
            each(&entry)?;
        }
        let entry = current.as_mut().expect("the entry was just set");
        match parsed {
            RefKey::User(..) => entry.users += 1,
            RefKey::Head(_) => {
                let head = decode_head(value).map_err(|error| damaged(key, &error.to_string()))?;
                entry.lengths = Some((head.length, head.stored_length));
            }
        }
    }
    current.map_or(Ok(()), |entry| each(&entry))
}

fn for_each_key(reader: &dyn TableReader, each: &mut dyn FnMut(RefKey) -> Result<()>) -> Result<()> {
    let mut cursor = reader.scan(Table::BlobRef, &KeyRange::all(), Direction::Forward)?;
    while let Some((key, _)) = cursor.next()? {
        each(parse_key(key)?)?;
    }
    Ok(())
}

/// Adds the references that the table lacks. Returns the sorted fingerprints of all uses.
///
/// A fingerprint takes eight bytes, so that those of twenty million uses fit into memory. A collision keeps a stale
/// reference, which costs space but never loses content.
fn add_missing_references(
    store: &Store,
    uses: &mut dyn Iterator<Item = Result<(BlobOwner, BlobId)>>,
    rebuilt: &mut RebuildReport,
) -> Result<Vec<u64>> {
    let mut fingerprints = Vec::new();
    let mut batch = Batch::new();
    for each in uses {
        let (owner, id) = each?;
        let key = user_key(&id, owner);
        fingerprints.push(fingerprint(&key));
        if store.get(Table::BlobRef, &key)?.is_none() {
            batch.put(Table::BlobRef, &key, &[]);
            rebuilt.added += 1;
            commit_when_full(store, &mut batch)?;
        }
        if rebuilt.missing.len() < limits::BLOBS_NAMED_MAX && store.get(Table::BlobRef, &head_key(&id))?.is_none() {
            rebuilt.missing.push((owner, id));
        }
    }
    commit_rest(store, &batch)?;
    fingerprints.sort_unstable();
    Ok(fingerprints)
}

fn remove_stale_references(store: &Store, fingerprints: &[u64], rebuilt: &mut RebuildReport) -> Result<()> {
    let mut batch = Batch::new();
    for_each_key(store, &mut |key| {
        let RefKey::User(id, owner) = key else { return Ok(()) };
        let key = user_key(&id, owner);
        if fingerprints.binary_search(&fingerprint(&key)).is_ok() {
            return Ok(());
        }
        batch.delete(Table::BlobRef, &key);
        rebuilt.removed += 1;
        commit_when_full(store, &mut batch)
    })?;
    commit_rest(store, &batch)
}

fn note_orphans(store: &Store, now: Timestamp, rebuilt: &mut RebuildReport) -> Result<()> {
    let mut batch = Batch::new();
    for_each_blob(store, &mut |entry| {
        if entry.users > 0 || entry.lengths.is_none() {
            return Ok(());
        }
        batch.put(Table::BlobFree, &collect::free_key(now, &entry.id), &[]);
        rebuilt.orphaned += 1;
        commit_when_full(store, &mut batch)
    })?;
    commit_rest(store, &batch)
}

fn commit_when_full(store: &Store, batch: &mut Batch) -> Result<()> {
    if batch.len() < BATCH_CHANGES {
        return Ok(());
    }
    store.commit(&std::mem::take(batch)).map(drop)
}

fn commit_rest(store: &Store, batch: &Batch) -> Result<()> {
    if batch.is_empty() { Ok(()) } else { store.durable(store.commit(batch)?).wait() }
}

fn fingerprint(key: &[u8; 40]) -> u64 {
    let hash = blake3::hash(key);
    hash.as_bytes().first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn parse_key(key: &[u8]) -> Result<RefKey> {
    decode_key(key).ok_or_else(|| damaged(key, "not a valid reference key"))
}

fn damaged(key: &[u8], reason: &str) -> Error {
    Error::Damaged { table: Table::BlobRef, key: key.to_vec(), reason: reason.into() }
}
