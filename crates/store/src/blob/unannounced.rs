//! Content that arrives in pieces and whose hash is known only at its end, such as an upload of a client.
//!
//! Each piece is stored when it arrives, so a content takes the memory of one chunk, whatever its length. The chunks
//! are kept under an ID of their own, which is derived from random bytes, so two contents never meet. An announced
//! content ([`super::arriving::ArrivingContent`]) continues after it was cut off, and this one does not: its chunks are
//! removed by [`UnannouncedContent::abandon`], and after a crash by the collector.
//! [`UnannouncedContent::complete_step`] moves them to the ID of the content.

use std::sync::Arc;

use base::Timestamp;

use super::arrivals::ArrivedContent;
use super::id::BlobId;
use super::unfinished::{ChunkMove, UnfinishedChunks};
use crate::error::{Error, Result};
use crate::store::Store;

/// Context of the derivation of the ID under which chunks are kept until their content is complete.
const UNFINISHED_ID_CONTEXT: &str = "doublet store: unannounced attachment, version 1";

/// A content that is being stored in pieces.
pub struct UnannouncedContent {
    store: Arc<Store>,
    chunks: UnfinishedChunks,
    /// The move of the chunks to the place of the content, once all have arrived.
    moving: Option<ChunkMove>,
    /// The ID of the content to which some chunks were moved, and from which they are to be removed.
    abandoned: Option<BlobId>,
    /// `true` if the content exists, or never will. Then it takes no more steps.
    has_ended: bool,
}

impl UnannouncedContent {
    /// Begins a content. The token is random and not used again. The thread must not hold a [`super::BlobWriter`].
    #[must_use]
    pub fn begin(store: &Arc<Store>, token: &[u8; 32], now: Timestamp) -> Self {
        let id = BlobId(blake3::derive_key(UNFINISHED_ID_CONTEXT, token));
        let chunks = UnfinishedChunks::new(store.blobs().begin_arrival(id), now);
        Self { store: Arc::clone(store), chunks, moving: None, abandoned: None, has_ended: false }
    }

    /// Returns the number of bytes that have arrived. It is not known after the last step.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.chunks.length()
    }

    /// Adds the next bytes. After a failure, the content can only be abandoned.
    ///
    /// Returns [`crate::Error::Failed`] if the content becomes longer than [`crate::limits::BLOB_BYTES_MAX`], or if no
    /// more bytes are expected.
    pub fn add(&mut self, piece: &[u8]) -> Result<()> {
        if self.moving.is_some() {
            return Err(ended());
        }
        self.step(|content| content.chunks.add(&content.store, piece))
    }

    /// Puts a part of the content in its place after all bytes have arrived, which takes some milliseconds. Returns the
    /// content when it exists. After a failure, the content can only be abandoned.
    pub fn complete_step(&mut self) -> Result<Option<ArrivedContent>> {
        let arrived = self.step(|content| {
            if content.moving.is_none() {
                let (hash, length) = content.chunks.complete(&content.store)?;
                let blobs = content.store.blobs();
                let whole = blobs.begin_arrival(blobs.id_of_hash(&hash));
                content.moving = Some(ChunkMove::new(whole, (hash, length)));
            }
            let Some(moving) = &mut content.moving else { return Err(ended()) };
            moving.step(&content.store, &content.chunks)
        })?;
        self.has_ended = arrived.is_some();
        Ok(arrived)
    }

    fn step<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.has_ended {
            return Err(ended());
        }
        let done = work(self);
        self.has_ended = done.is_err();
        done
    }

    /// Removes what has arrived of a content that does not exist yet. After a failure, as on a full disk, this can be
    /// repeated; what is never removed in this way is removed by the collector.
    pub fn abandon(&mut self) -> Result<()> {
        self.has_ended = true;
        self.chunks.forget_rest();
        if let Some(moving) = self.moving.take() {
            self.abandoned = Some(moving.whole_id());
        }
        if self.chunks.count > 0 {
            self.chunks.clear(&self.store)?;
        }
        // The chunks that were moved have no head, unless somebody else has stored the same content meanwhile.
        if let Some(whole) = self.abandoned {
            self.store.blobs().remove_unused(&self.store, &[whole])?;
            self.abandoned = None;
        }
        Ok(())
    }
}

fn ended() -> Error {
    Error::Failed { what: "store an attachment", reason: "its arrival has ended".to_owned() }
}

#[cfg(test)]
mod tests;
