//! The chunks of a content that is not complete, and their move to the ID of the content when it is.
//!
//! The chunks are kept under an ID of their own. A content without a head does not exist, so no note can use them. The
//! release of both IDs is recorded with their first chunk, so the collector removes after the grace period what was
//! never finished, or never used.

use base::Timestamp;

use super::arrivals::{Arrival, ArrivedContent};
use super::id::BlobId;
use super::{chunk, collect, damaged, head};
use crate::batch::Batch;
use crate::engine::{Table, TableReader};
use crate::error::{Error, Result};
use crate::limits;
use crate::store::Store;

/// Number of chunks that are moved in one batch.
const CHUNKS_PER_BATCH: u32 = 8;

pub(super) const CHUNK_BYTES: usize = limits::BLOB_CHUNK_BYTES as usize;

/// The chunks of a content that is not complete.
pub(super) struct UnfinishedChunks {
    now: Timestamp,
    /// The ID under which the chunks are kept.
    arrival: Arrival,
    hasher: Box<blake3::Hasher>,
    /// Number of chunks that are stored.
    pub(super) count: u32,
    /// Size of the chunks as stored, in bytes.
    stored_length: u64,
    /// The beginning of the next chunk.
    rest: Vec<u8>,
}

impl UnfinishedChunks {
    pub(super) fn new(arrival: Arrival, now: Timestamp) -> Self {
        Self { now, arrival, hasher: Box::default(), count: 0, stored_length: 0, rest: Vec::new() }
    }

    pub(super) fn id(&self) -> &BlobId {
        self.arrival.id()
    }

    /// Returns the number of bytes that have arrived.
    pub(super) fn length(&self) -> u64 {
        u64::from(self.count) * u64::from(limits::BLOB_CHUNK_BYTES) + self.rest.len() as u64
    }

    /// Reads what an earlier arrival has stored.
    pub(super) fn read(&mut self, store: &Store) -> Result<()> {
        let blobs = store.blobs();
        let id = *self.id();
        while let Some(stored) = store.get(Table::Blob, &chunk::chunk_key(&id, self.count))? {
            let raw = blobs.codec.decode(&id, self.count, limits::BLOB_CHUNK_BYTES, blobs.cipher.as_ref(), &stored);
            // The last chunk of a content that was not moved completely is shorter. It is stored again.
            let Ok(raw) = raw else { break };
            self.hasher.update(&raw);
            self.stored_length += stored.len() as u64;
            self.count += 1;
        }
        Ok(())
    }

    /// Adds the next bytes.
    ///
    /// Returns [`Error::Failed`] if the content becomes longer than [`limits::BLOB_BYTES_MAX`].
    pub(super) fn add(&mut self, store: &Store, mut piece: &[u8]) -> Result<()> {
        let length = self.length() + piece.len() as u64;
        if length > limits::BLOB_BYTES_MAX {
            let reason = format!("{length} bytes exceed the maximum of {}", limits::BLOB_BYTES_MAX);
            return Err(Error::Failed { what: "store an attachment", reason });
        }
        while !piece.is_empty() {
            let (taken, behind) = piece.split_at(piece.len().min(CHUNK_BYTES - self.rest.len()));
            self.rest.extend_from_slice(taken);
            piece = behind;
            if self.rest.len() == CHUNK_BYTES {
                self.store_chunk(store)?;
            }
        }
        Ok(())
    }

    /// Removes what has arrived.
    pub(super) fn clear(&mut self, store: &Store) -> Result<()> {
        let mut batch = Batch::new();
        chunk::remove_chunks(&mut batch, self.id());
        store.commit(&batch)?;
        self.hasher.reset();
        self.count = 0;
        self.stored_length = 0;
        self.rest.clear();
        Ok(())
    }

    /// Releases the memory of the beginning of the next chunk, before the chunks are removed.
    pub(super) fn forget_rest(&mut self) {
        self.rest = Vec::new();
    }

    /// Stores the last chunk. Returns the BLAKE3 hash of the content, and its length.
    pub(super) fn complete(&mut self, store: &Store) -> Result<([u8; 32], u64)> {
        let length = self.length();
        if !self.rest.is_empty() {
            self.store_chunk(store)?;
        }
        Ok((*self.hasher.finalize().as_bytes(), length))
    }

    pub(super) fn store_chunk(&mut self, store: &Store) -> Result<()> {
        let blobs = store.blobs();
        let id = self.arrival.id();
        self.hasher.update(&self.rest);
        let stored = blobs.codec.encode(id, self.count, blobs.cipher.as_ref(), &self.rest)?;
        let mut batch = Batch::new();
        if self.count == 0 {
            batch.put(Table::BlobFree, &collect::free_key(self.now, id), &[]);
        }
        batch.put(Table::Blob, &chunk::chunk_key(id, self.count), &stored);
        store.commit(&batch)?;
        self.stored_length += stored.len() as u64;
        self.count += 1;
        self.rest.clear();
        Ok(())
    }
}

/// The move of the chunks of a complete content to its ID.
pub(super) struct ChunkMove {
    whole: Arrival,
    hash: [u8; 32],
    length: u64,
    /// Number of chunks that are moved.
    moved: u32,
}

impl ChunkMove {
    /// Begins to move chunks to the ID of their content, which has a hash and a length.
    pub(super) fn new(whole: Arrival, (hash, length): ([u8; 32], u64)) -> Self {
        Self { whole, hash, length, moved: 0 }
    }

    pub(super) fn whole_id(&self) -> BlobId {
        *self.whole.id()
    }

    /// Moves some chunks. Returns the content when it exists.
    pub(super) fn step(&mut self, store: &Store, chunks: &UnfinishedChunks) -> Result<Option<ArrivedContent>> {
        let to = self.whole_id();
        let mut batch = Batch::new();
        if self.moved == 0 {
            batch.put(Table::BlobFree, &collect::free_key(chunks.now, &to), &[]);
        }
        let is_new = store.get(Table::BlobRef, &head::head_key(&to))?.is_none();
        if is_new {
            let end = chunks.count.min(self.moved + CHUNKS_PER_BATCH);
            for number in self.moved..end {
                batch.put(Table::Blob, &chunk::chunk_key(&to, number), &self.moved_chunk(store, chunks, number)?);
            }
            if end < chunks.count {
                store.commit(&batch)?;
                self.moved = end;
                return Ok(None);
            }
            store.blobs().add_head(&mut batch, &self.hash, (self.length, chunks.stored_length))?;
        }
        chunk::remove_chunks(&mut batch, chunks.id());
        store.commit(&batch)?;
        Ok(Some(ArrivedContent::new(store.blobs().begin_arrival(to), is_new)))
    }

    /// Returns the stored form of a chunk under the ID of the content.
    fn moved_chunk(&self, store: &Store, chunks: &UnfinishedChunks, number: u32) -> Result<Vec<u8>> {
        let cipher = store.blobs().cipher.as_ref();
        let from = chunks.id();
        let missing = || damaged(from, number, "the chunk is missing");
        let stored = store.get(Table::Blob, &chunk::chunk_key(from, number))?.ok_or_else(missing)?;
        let opened = chunk::open(from, number, cipher, &stored);
        let (flags, packed) = opened.map_err(|error| damaged(from, number, &error.to_string()))?;
        chunk::store_opened(self.whole.id(), number, (flags, &packed), cipher)
    }
}
