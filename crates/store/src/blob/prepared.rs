//! Content that is hashed, compressed and encrypted before it is added to a batch.
//!
//! Preparing needs neither the gate nor a lock, and can pause between two chunks. A prepared content is not in the
//! store yet, so nothing is left if it is dropped.

use super::{BlobId, Blobs, check_length, head};
use crate::batch::Batch;
use crate::engine::Table;
use crate::error::Error;
use crate::limits;

/// A content that [`super::BlobWriter::put_prepared`] adds to a batch.
pub struct PreparedBlob<'c> {
    pub(super) id: BlobId,
    pub(super) content: &'c [u8],
    /// The chunks and the head, or `None` if the store had the content.
    pub(super) stored: Option<Batch>,
}

impl PreparedBlob<'_> {
    /// Returns the ID of the content.
    #[must_use]
    pub fn id(&self) -> BlobId {
        self.id
    }
}

impl Blobs {
    /// Prepares a content. Calls `each` before each chunk of 256 KiB is hashed, and before it is compressed; it may
    /// pause, and its error ends the preparation.
    ///
    /// Returns [`Error::Failed`] if the content is longer than [`limits::BLOB_BYTES_MAX`].
    pub fn prepare<'c, E: From<Error>>(
        &self,
        content: &'c [u8],
        each: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<PreparedBlob<'c>, E> {
        check_length(content)?;
        let mut hasher = self.hasher();
        for piece in content.chunks(limits::BLOB_CHUNK_BYTES as usize) {
            each()?;
            hasher.update(piece);
        }
        let id = BlobId(*hasher.finalize().as_bytes());
        // The answer may change until the content is put, so it only saves work.
        if self.engine.get(Table::BlobRef, &head::head_key(&id))?.is_some() {
            return Ok(PreparedBlob { id, content, stored: None });
        }
        let mut stored = Batch::new();
        self.add_content(&mut stored, &id, content, each)?;
        Ok(PreparedBlob { id, content, stored: Some(stored) })
    }
}
