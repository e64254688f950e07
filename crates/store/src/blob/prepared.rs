//! Content that is hashed, compressed and encrypted before it is added to a batch.
//!
//! Preparing needs neither the gate nor a lock, and can pause between two chunks. A prepared content is not in the
//! store yet, so nothing is left if it is dropped.

use std::borrow::Cow;

use super::{BlobId, Blobs, check_length, head};
use crate::batch::Batch;
use crate::engine::Table;
use crate::error::Error;
use crate::limits;

/// A content that [`super::BlobWriter::put_prepared`] adds to a batch.
pub struct PreparedBlob<'c> {
    pub(super) id: BlobId,
    /// The BLAKE3 hash of the content.
    pub(super) hash: [u8; 32],
    pub(super) form: PreparedForm<'c>,
}

/// The form of a prepared content.
pub(super) enum PreparedForm<'c> {
    /// The chunks and the head.
    Stored(Batch),
    /// The content itself. It is compressed when it is put, unless the store has it then.
    Content(Cow<'c, [u8]>),
}

impl PreparedBlob<'_> {
    /// Returns the ID of the content.
    #[must_use]
    pub fn id(&self) -> BlobId {
        self.id
    }

    /// Returns the same prepared content, which borrows nothing. Copies the content only if the store had it.
    #[must_use]
    pub fn into_owned(self) -> PreparedBlob<'static> {
        let form = match self.form {
            PreparedForm::Stored(stored) => PreparedForm::Stored(stored),
            PreparedForm::Content(content) => PreparedForm::Content(Cow::Owned(content.into_owned())),
        };
        PreparedBlob { id: self.id, hash: self.hash, form }
    }
}

impl Blobs {
    /// Prepares a content. Calls `each` before each chunk of 256 KiB is hashed, and before it is compressed; it may
    /// pause, and its error ends the preparation.
    ///
    /// Returns [`Error::Failed`] if the content is longer than [`limits::BLOB_BYTES_MAX`].
    pub fn prepare<'c, E: From<Error>>(
        &self,
        content: impl Into<Cow<'c, [u8]>>,
        each: &mut dyn FnMut() -> Result<(), E>,
    ) -> Result<PreparedBlob<'c>, E> {
        let content = content.into();
        check_length(&content)?;
        let mut hasher = blake3::Hasher::new();
        for piece in content.chunks(limits::BLOB_CHUNK_BYTES as usize) {
            each()?;
            hasher.update(piece);
        }
        let hash = *hasher.finalize().as_bytes();
        let id = self.id_of_hash(&hash);
        // The answer may change until the content is put, so it only saves work.
        if self.engine.get(Table::BlobRef, &head::head_key(&id))?.is_some() {
            return Ok(PreparedBlob { id, hash, form: PreparedForm::Content(content) });
        }
        let mut stored = Batch::new();
        self.add_content(&mut stored, &hash, &content, each)?;
        Ok(PreparedBlob { id, hash, form: PreparedForm::Stored(stored) })
    }

    /// Computes the ID of a content that is to be put. It is compressed when it is put, unless the store has it or the
    /// batch has added it then.
    ///
    /// Returns [`Error::Failed`] if the content is longer than [`limits::BLOB_BYTES_MAX`].
    pub fn identify<'c>(&self, content: impl Into<Cow<'c, [u8]>>) -> Result<PreparedBlob<'c>, Error> {
        let content = content.into();
        check_length(&content)?;
        let hash = *blake3::hash(&content).as_bytes();
        Ok(PreparedBlob { id: self.id_of_hash(&hash), hash, form: PreparedForm::Content(content) })
    }
}
