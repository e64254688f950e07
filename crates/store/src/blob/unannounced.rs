//! Content that arrives in pieces and whose hash is known only at its end, such as an upload of a client.
//!
//! Each piece is stored when it arrives, so a content takes the memory of one chunk, whatever its length. The chunks
//! are kept under an ID of their own, which is derived from random bytes, so two contents never meet. An announced
//! content ([`super::arriving::ArrivingContent`]) continues after it was cut off, and this one does not: its chunks are
//! removed by [`UnannouncedContent::abandon`], and after a crash by the collector.

use std::sync::Arc;

use base::Timestamp;

use super::arrivals::ArrivedContent;
use super::id::BlobId;
use super::unfinished::{MoveStep, MovingChunks, UnfinishedChunks};
use crate::error::Result;
use crate::store::Store;

/// Context of the derivation of the ID under which chunks are kept until their content is complete.
const UNFINISHED_ID_CONTEXT: &str = "doublet store: unannounced attachment, version 1";

/// A content that is being stored in pieces.
pub struct UnannouncedContent {
    store: Arc<Store>,
    chunks: UnfinishedChunks,
}

impl UnannouncedContent {
    /// Begins a content. The token is random and not used again. The thread must not hold a [`super::BlobWriter`].
    #[must_use]
    pub fn begin(store: &Arc<Store>, token: &[u8; 32], now: Timestamp) -> Self {
        let id = BlobId(blake3::derive_key(UNFINISHED_ID_CONTEXT, token));
        let arrival = store.blobs().begin_arrival(id);
        Self { store: Arc::clone(store), chunks: UnfinishedChunks::new(arrival, now) }
    }

    /// Returns the number of bytes that have arrived.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.chunks.length()
    }

    /// Adds the next bytes.
    ///
    /// Returns [`crate::Error::Failed`] if the content becomes longer than [`crate::limits::BLOB_BYTES_MAX`].
    pub fn add(&mut self, piece: &[u8]) -> Result<()> {
        self.chunks.add(&self.store, piece)
    }

    /// Ends the arrival. The content exists when its last step is done.
    pub fn complete(mut self) -> Result<CompletingContent> {
        let (hash, length) = self.chunks.complete(&self.store)?;
        let id = self.store.blobs().id_of_hash(&hash);
        let whole = self.store.blobs().begin_arrival(id);
        Ok(CompletingContent { store: self.store, moving: MovingChunks::new(self.chunks, whole, (hash, length)) })
    }

    /// Removes what has arrived.
    pub fn abandon(mut self) -> Result<()> {
        self.chunks.clear(&self.store)
    }
}

/// A content that has arrived and is put in its place, step by step. A step takes some milliseconds.
pub struct CompletingContent {
    store: Arc<Store>,
    moving: MovingChunks,
}

/// The result of a step.
pub enum CompletionStep {
    /// There are more steps.
    Unfinished(CompletingContent),
    /// The content exists.
    Finished(ArrivedContent),
}

impl CompletingContent {
    /// Executes a step.
    pub fn step(self) -> Result<CompletionStep> {
        let store = self.store;
        Ok(match self.moving.step(&store)? {
            MoveStep::Unfinished(moving) => CompletionStep::Unfinished(Self { store, moving }),
            MoveStep::Finished(arrived) => CompletionStep::Finished(arrived),
        })
    }

    /// Removes what has arrived.
    pub fn abandon(self) -> Result<()> {
        let whole = self.moving.whole_id();
        let mut chunks = self.moving.into_chunks();
        chunks.clear(&self.store)?;
        // The chunks that were moved have no head, unless somebody else has stored the same content meanwhile.
        self.store.blobs().remove_unused(&self.store, &[whole]).map(drop)
    }
}

#[cfg(test)]
mod tests;
