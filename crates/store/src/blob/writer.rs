//! Adding and releasing attachments as part of a batch.
//!
//! A writer belongs to one batch. It remembers the content that it has added to the batch, so that a message for twenty
//! mailboxes is compressed once. It holds the gate, so that content which it found in the store still exists when the
//! batch is committed.
//!
//! It also remembers which content the author of the batch has shown to have: what was put, and what a note refers to
//! that the author may read. `notes` lets others than the server refer to this content only, because the ID of a
//! content is its hash, and a hash may be known to those who do not know the content.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::Timestamp;
use base::sync::RwLockReadGuard;

use super::head::user_key;
use super::prepared::PreparedForm;
use super::{BlobId, BlobOwner, Blobs, PreparedBlob, collect, missing};
use crate::batch::Batch;
use crate::engine::Table;
use crate::error::{Error, Result};

/// A writer that adds and releases attachments in one batch. Keep it until `Store::commit` has returned.
pub struct BlobWriter<'blobs> {
    blobs: &'blobs Blobs,
    /// Read side of the gate, which excludes the collector.
    _gate: RwLockReadGuard<'blobs, ()>,
    /// IDs of the content that this batch adds.
    added: RefCell<HashSet<BlobId>>,
    /// References that this batch adds.
    used: RefCell<HashSet<(BlobId, BlobOwner)>>,
    /// IDs of the content that was put, and of the content to which a readable note refers.
    permitted: RefCell<HashSet<BlobId>>,
    /// Content that is added as soon as it gets its first user.
    offered: RefCell<HashMap<BlobId, Arc<PreparedBlob<'static>>>>,
}

impl<'blobs> BlobWriter<'blobs> {
    pub(super) fn new(blobs: &'blobs Blobs, gate: RwLockReadGuard<'blobs, ()>) -> Self {
        Self {
            blobs,
            _gate: gate,
            added: RefCell::default(),
            used: RefCell::default(),
            permitted: RefCell::default(),
            offered: RefCell::default(),
        }
    }

    /// Adds a user of a content. Adds the content itself if it does not exist yet.
    ///
    /// Returns [`Error::Failed`] if the content is longer than [`crate::limits::BLOB_BYTES_MAX`].
    pub fn put(&self, batch: &mut Batch, owner: BlobOwner, content: &[u8]) -> Result<BlobId> {
        self.put_prepared(batch, owner, &self.blobs.identify(content)?)
    }

    /// Adds a user of a prepared content. Adds the content itself if it does not exist yet.
    pub fn put_prepared(&self, batch: &mut Batch, owner: BlobOwner, prepared: &PreparedBlob<'_>) -> Result<BlobId> {
        let id = prepared.id;
        if !self.is_present(&id)? {
            match &prepared.form {
                PreparedForm::Stored(stored) => batch.append(stored),
                PreparedForm::Content(content) => {
                    self.blobs.add_content::<Error>(batch, &prepared.hash, content, &mut || Ok(()))?;
                }
            }
            self.added.borrow_mut().insert(id);
        }
        self.permitted.borrow_mut().insert(id);
        self.refer(batch, owner, &id);
        Ok(id)
    }

    /// Adds another user of existing or offered content, for example when a note is copied. Returns an error if there
    /// is no such content.
    pub fn add_user(&self, batch: &mut Batch, owner: BlobOwner, id: &BlobId) -> Result<()> {
        if !self.is_present(id)? {
            let offered = self.offered.borrow_mut().remove(id).ok_or_else(|| missing(id))?;
            return self.put_prepared(batch, owner, &offered).map(drop);
        }
        self.refer(batch, owner, id);
        Ok(())
    }

    /// Accepts content for the notes of this batch. It is added with its first user, or not at all.
    pub fn offer(&self, prepared: Arc<PreparedBlob<'static>>) {
        self.offered.borrow_mut().insert(prepared.id(), prepared);
    }

    /// Allows references to the content of a note that the author of the batch may read.
    pub fn permit(&self, ids: &[BlobId]) {
        self.permitted.borrow_mut().extend(ids);
    }

    /// Returns `true` if the content was put, or references to it were permitted.
    #[must_use]
    pub fn is_permitted(&self, id: &BlobId) -> bool {
        self.permitted.borrow().contains(id)
    }

    /// Removes a user. The collector removes content without users after the grace period.
    ///
    /// A reference that this writer has added stays: a note that drops one use of a content and adds another keeps its
    /// reference.
    pub fn release(&self, batch: &mut Batch, owner: BlobOwner, id: &BlobId, now: Timestamp) {
        if self.used.borrow().contains(&(*id, owner)) {
            return;
        }
        batch.delete(Table::BlobRef, &user_key(id, owner));
        batch.put(Table::BlobFree, &collect::free_key(now, id), &[]);
    }

    fn refer(&self, batch: &mut Batch, owner: BlobOwner, id: &BlobId) {
        // A content is added first, and then referred to by the item that holds its ID: one reference is enough.
        if self.used.borrow_mut().insert((*id, owner)) {
            batch.put(Table::BlobRef, &user_key(id, owner), &[]);
        }
    }

    fn is_present(&self, id: &BlobId) -> Result<bool> {
        if self.added.borrow().contains(id) {
            return Ok(true);
        }
        self.blobs.is_present(id)
    }
}
