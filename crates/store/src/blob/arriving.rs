//! Content that arrives in pieces from another server.
//!
//! A large content is stored while it arrives, chunk by chunk. So it takes no memory, and an arrival that was cut off
//! continues where it was. Until it is complete, the content has no head, so no note can use it.
//!
//! What arrives is known to be the announced content only when all of it has been hashed. Its chunks are kept under an
//! ID of their own until then, which is derived from the ID of the content and the sender. So a wrong sender can change
//! neither an existing content nor one that arrives from somebody else. [`ArrivingContent::finish`] compares the hash
//! and moves the chunks.
//!
//! The release of both IDs is recorded with their first chunk. So the collector removes after the grace period what was
//! never finished, or never used. It leaves out contents that are arriving.

use std::collections::HashMap;
use std::sync::Arc;

use base::Timestamp;
use base::sync::Mutex;

use super::{BlobId, Blobs, chunk, collect, damaged, head};
use crate::batch::Batch;
use crate::engine::{Direction, KeyRange, Table, TableReader};
use crate::error::{Error, Result};
use crate::limits;
use crate::store::Store;

/// Context of the derivation of the ID under which chunks are kept until their content is complete.
const UNFINISHED_ID_CONTEXT: &str = "doublet store: unfinished attachment, version 1";

/// Number of chunks that are moved in one batch.
const CHUNKS_PER_BATCH: u32 = 8;

const CHUNK_BYTES: usize = limits::BLOB_CHUNK_BYTES as usize;

/// The contents that are arriving, with the number of their arrivals. The collector does not remove them.
#[derive(Default)]
pub(super) struct Arrivals(Mutex<HashMap<BlobId, usize>>);

impl Arrivals {
    pub(super) fn contains(&self, id: &BlobId) -> bool {
        self.0.lock().contains_key(id)
    }

    fn begin(self: &Arc<Self>, id: BlobId) -> Arrival {
        *self.0.lock().entry(id).or_default() += 1;
        Arrival { arrivals: Arc::clone(self), id }
    }
}

/// An entry of [`Arrivals`]. Dropping it ends it.
struct Arrival {
    arrivals: Arc<Arrivals>,
    id: BlobId,
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut arrivals = self.arrivals.0.lock();
        if let Some(count) = arrivals.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                arrivals.remove(&self.id);
            }
        }
    }
}

/// The content that another server announces.
#[derive(Clone, Copy)]
pub struct AnnouncedContent<'a> {
    /// The BLAKE3 hash of the content.
    pub hash: [u8; 32],
    /// Identifies the sender, and what it sends the content for. Arrivals with the same sender continue each other.
    pub sender: &'a [u8],
}

/// A content that is being stored in pieces.
pub struct ArrivingContent<'s> {
    store: &'s Store,
    hash: [u8; 32],
    now: Timestamp,
    /// The ID of the content.
    whole: Arrival,
    /// The ID under which the chunks are kept.
    unfinished: Arrival,
    hasher: Box<blake3::Hasher>,
    /// Number of chunks that are stored.
    chunks: u32,
    /// Size of the chunks as stored, in bytes.
    stored_length: u64,
    /// The beginning of the next chunk.
    rest: Vec<u8>,
}

/// A content that has arrived. The collector does not remove it before this value is dropped, so that a note can be
/// stored that uses it.
pub struct ArrivedContent {
    whole: Arrival,
}

impl ArrivedContent {
    /// Returns the ID of the content.
    #[must_use]
    pub fn id(&self) -> BlobId {
        self.whole.id
    }
}

impl<'s> ArrivingContent<'s> {
    /// Begins the arrival of a content, or continues an earlier one. The thread must not hold a [`super::BlobWriter`].
    pub fn begin(store: &'s Store, announced: AnnouncedContent<'_>, now: Timestamp) -> Result<Self> {
        let blobs = store.blobs();
        let id = blobs.id_of_hash(&announced.hash);
        let mut hasher = blake3::Hasher::new_derive_key(UNFINISHED_ID_CONTEXT);
        hasher.update(&id.0).update(announced.sender);
        let unfinished = BlobId(*hasher.finalize().as_bytes());
        // A step of the collector has ended, or sees the arrivals.
        let gate = blobs.gate.read();
        let mut arriving = Self {
            store,
            hash: announced.hash,
            now,
            whole: blobs.arrivals.begin(id),
            unfinished: blobs.arrivals.begin(unfinished),
            hasher: Box::default(),
            chunks: 0,
            stored_length: 0,
            rest: Vec::new(),
        };
        drop(gate);
        arriving.read_chunks()?;
        Ok(arriving)
    }

    /// Returns the number of bytes that have arrived, at which the sender is to continue.
    #[must_use]
    pub fn offset(&self) -> u64 {
        u64::from(self.chunks) * u64::from(limits::BLOB_CHUNK_BYTES) + self.rest.len() as u64
    }

    /// Removes what has arrived.
    pub fn restart(&mut self) -> Result<()> {
        let mut batch = Batch::new();
        remove_chunks(&mut batch, &self.unfinished.id);
        self.store.commit(&batch)?;
        self.hasher.reset();
        (self.chunks, self.stored_length) = (0, 0);
        self.rest.clear();
        Ok(())
    }

    /// Adds the next bytes.
    ///
    /// Returns [`Error::Failed`] if the content becomes longer than [`limits::BLOB_BYTES_MAX`].
    pub fn add(&mut self, mut piece: &[u8]) -> Result<()> {
        let length = self.offset() + piece.len() as u64;
        if length > limits::BLOB_BYTES_MAX {
            let reason = format!("{length} bytes exceed the maximum of {}", limits::BLOB_BYTES_MAX);
            return Err(Error::Failed { what: "store an attachment", reason });
        }
        while !piece.is_empty() {
            let (taken, behind) = piece.split_at(piece.len().min(CHUNK_BYTES - self.rest.len()));
            self.rest.extend_from_slice(taken);
            piece = behind;
            if self.rest.len() == CHUNK_BYTES {
                self.store_chunk()?;
            }
        }
        Ok(())
    }

    /// Ends the arrival: the content exists from now on. Returns `None` if what has arrived is another content than the
    /// announced one. It is removed then.
    pub fn finish(mut self) -> Result<Option<ArrivedContent>> {
        let length = self.offset();
        if !self.rest.is_empty() {
            self.store_chunk()?;
        }
        if *self.hasher.finalize().as_bytes() != self.hash {
            self.restart()?;
            return Ok(None);
        }
        self.move_chunks(length)?;
        Ok(Some(ArrivedContent { whole: self.whole }))
    }

    /// Reads what an earlier arrival has stored.
    fn read_chunks(&mut self) -> Result<()> {
        let blobs = self.store.blobs();
        let id = self.unfinished.id;
        while let Some(stored) = self.store.get(Table::Blob, &chunk::chunk_key(&id, self.chunks))? {
            let raw = blobs.codec.decode(&id, self.chunks, limits::BLOB_CHUNK_BYTES, blobs.cipher.as_ref(), &stored);
            // The last chunk of a content that was not moved completely is shorter. It is stored again.
            let Ok(raw) = raw else { break };
            self.hasher.update(&raw);
            self.stored_length += stored.len() as u64;
            self.chunks += 1;
        }
        Ok(())
    }

    fn store_chunk(&mut self) -> Result<()> {
        let blobs = self.store.blobs();
        let id = &self.unfinished.id;
        self.hasher.update(&self.rest);
        let stored = blobs.codec.encode(id, self.chunks, blobs.cipher.as_ref(), &self.rest)?;
        let mut batch = Batch::new();
        if self.chunks == 0 {
            batch.put(Table::BlobFree, &collect::free_key(self.now, id), &[]);
        }
        batch.put(Table::Blob, &chunk::chunk_key(id, self.chunks), &stored);
        self.store.commit(&batch)?;
        self.stored_length += stored.len() as u64;
        self.chunks += 1;
        self.rest.clear();
        Ok(())
    }

    /// Returns the stored form of a chunk under the ID of the content.
    fn moved(&self, number: u32, stored: &[u8]) -> Result<Vec<u8>> {
        let cipher = self.store.blobs().cipher.as_ref();
        let from = &self.unfinished.id;
        let opened = chunk::open(from, number, cipher, stored);
        let (flags, packed) = opened.map_err(|error| damaged(from, number, &error.to_string()))?;
        chunk::store_opened(&self.whole.id, number, (flags, &packed), cipher)
    }

    /// Moves the chunks to the ID of the content, and adds the head with the last of them.
    fn move_chunks(&self, length: u64) -> Result<()> {
        let from = &self.unfinished.id;
        let to = &self.whole.id;
        let mut batch = Batch::new();
        batch.put(Table::BlobFree, &collect::free_key(self.now, to), &[]);
        if self.store.get(Table::BlobRef, &head::head_key(to))?.is_none() {
            for number in 0..self.chunks {
                let missing = || damaged(from, number, "the chunk is missing");
                let stored = self.store.get(Table::Blob, &chunk::chunk_key(from, number))?.ok_or_else(missing)?;
                let moved = self.moved(number, &stored)?;
                batch.put(Table::Blob, &chunk::chunk_key(to, number), &moved);
                if (number + 1) % CHUNKS_PER_BATCH == 0 {
                    self.store.commit(&std::mem::take(&mut batch))?;
                }
            }
            self.store.blobs().add_head(&mut batch, &self.hash, (length, self.stored_length))?;
        }
        remove_chunks(&mut batch, from);
        self.store.commit(&batch).map(drop)
    }
}

impl Blobs {
    /// Returns `true` if there are chunks of a content that has no head.
    pub(super) fn has_chunks(&self, reader: &dyn TableReader, id: &BlobId) -> Result<bool> {
        let mut cursor = reader.scan(Table::Blob, &KeyRange::prefix(&id.0), Direction::Forward)?;
        Ok(cursor.next()?.is_some())
    }
}

/// Adds the removal of all chunks of a content to a batch.
pub(super) fn remove_chunks(batch: &mut Batch, id: &BlobId) {
    batch.delete_range(Table::Blob, &chunk::chunk_key(id, 0), &chunk::chunk_key(id, u32::MAX));
}

#[cfg(test)]
mod tests;
