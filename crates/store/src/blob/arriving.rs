//! Content that arrives in pieces from another server.
//!
//! A large content is stored while it arrives, chunk by chunk. So it takes no memory, and an arrival that was cut off
//! continues where it was. Until it is complete, the content has no head, so no note can use it.
//!
//! What arrives is known to be the announced content only when all of it has been hashed. Its chunks are kept under an
//! ID of their own until then, which is derived from the ID of the content and the sender. So a wrong sender can change
//! neither an existing content nor one that arrives from somebody else. [`ArrivingContent::finish`] compares the hash
//! and moves the chunks.

use base::Timestamp;

use super::arrivals::{Arrival, ArrivedContent};
use super::id::BlobId;
use super::unfinished::{ChunkMove, UnfinishedChunks};
use crate::error::Result;
use crate::store::Store;

/// Context of the derivation of the ID under which chunks are kept until their content is complete.
const UNFINISHED_ID_CONTEXT: &str = "doublet store: unfinished attachment, version 1";

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
    /// The ID of the content.
    whole: Arrival,
    chunks: UnfinishedChunks,
}

impl<'s> ArrivingContent<'s> {
    /// Begins the arrival of a content, or continues an earlier one. The thread must not hold a [`super::BlobWriter`].
    pub fn begin(store: &'s Store, announced: AnnouncedContent<'_>, now: Timestamp) -> Result<Self> {
        let blobs = store.blobs();
        let id = blobs.id_of_hash(&announced.hash);
        let mut hasher = blake3::Hasher::new_derive_key(UNFINISHED_ID_CONTEXT);
        hasher.update(&id.0).update(announced.sender);
        let unfinished = BlobId(*hasher.finalize().as_bytes());
        let whole = blobs.begin_arrival(id);
        let mut chunks = UnfinishedChunks::new(blobs.begin_arrival(unfinished), now);
        chunks.read(store)?;
        Ok(Self { store, hash: announced.hash, whole, chunks })
    }

    /// Returns the number of bytes that have arrived, at which the sender is to continue.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.chunks.length()
    }

    /// Removes what has arrived.
    pub fn restart(&mut self) -> Result<()> {
        self.chunks.clear(self.store)
    }

    /// Adds the next bytes.
    ///
    /// Returns [`crate::Error::Failed`] if the content becomes longer than [`crate::limits::BLOB_BYTES_MAX`].
    pub fn add(&mut self, piece: &[u8]) -> Result<()> {
        self.chunks.add(self.store, piece)
    }

    /// Ends the arrival: the content exists from now on. Returns `None` if what has arrived is another content than the
    /// announced one. It is removed then.
    pub fn finish(mut self) -> Result<Option<ArrivedContent>> {
        let (hash, length) = self.chunks.complete(self.store)?;
        if hash != self.hash {
            self.restart()?;
            return Ok(None);
        }
        let mut moving = ChunkMove::new(self.whole, (hash, length));
        loop {
            if let Some(arrived) = moving.step(self.store, &self.chunks)? {
                return Ok(Some(arrived));
            }
        }
    }
}

#[cfg(test)]
mod tests;
