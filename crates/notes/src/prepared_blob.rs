//! Attachments that are prepared before the transaction that stores them.
//!
//! Hashing and compressing a large content takes up to a second. A transaction holds the lock of its database, so a
//! caller prepares the content before ([`Databases::blob_prepare`]), and the transaction only writes it
//! ([`Writer::blob_put_prepared`], [`Writer::blob_put_prepared_for`]). The preparation may pause.

use std::borrow::Cow;
use std::sync::Arc;

use base::{NoteId, Pacer};
use store::blob::{BlobId, BlobOwner, PreparedBlob};

use crate::error::{Error, Result};
use crate::limits::STEPS_PER_BLOB_CHUNK;
use crate::server_databases::Databases;
use crate::writer::Writer;

impl Databases {
    /// Prepares the content of an attachment. The content is not stored yet, and gives no right to read it.
    pub fn blob_prepare<'c>(&self, content: impl Into<Cow<'c, [u8]>>, pacer: &dyn Pacer) -> Result<PreparedBlob<'c>> {
        self.store().blobs().prepare::<Error>(content, &mut || Ok(pacer.spend(STEPS_PER_BLOB_CHUNK)?))
    }
}

impl Writer<'_, '_> {
    /// Adds a prepared content to the blob store for the next note that is created.
    pub fn blob_put_prepared(&mut self, prepared: &PreparedBlob<'_>) -> Result<BlobId> {
        self.blob_put_prepared_for(self.part.counters.next_note, prepared)
    }

    /// Adds a prepared content to the blob store for an existing note. The update of that note must list the blob.
    pub fn blob_put_prepared_for(&mut self, note: NoteId, prepared: &PreparedBlob<'_>) -> Result<BlobId> {
        let owner = BlobOwner { database: self.part.database.number, note };
        Ok(self.gate.put_prepared(self.batch, owner, prepared)?)
    }

    /// Adds content that notes from another replica bring. It is stored with the first of them that refers to it, or
    /// not at all. All of them may refer to it: who has the content knows it.
    pub fn blob_offer(&mut self, prepared: Arc<PreparedBlob<'static>>) {
        self.gate.permit(&[prepared.id()]);
        self.gate.offer(prepared);
    }
}
