//! An upload that arrives in pieces.
//!
//! A small content is kept in memory and stored with its note. A larger one is stored while it arrives, so that it
//! takes the memory of one chunk of the blob store. An upload that is dropped before it is stored leaves nothing
//! behind, if the disk has space for the removal; otherwise it is removed as soon as there is space
//! ([`super::leftovers`]).

use std::sync::Arc;

use base::Unpaced;
use store::blob::ArrivedContent;
use store::blob::unannounced::UnannouncedContent;

use super::leftovers::Leftover;
use super::{NewContent, NewUpload, StoredUpload, UploadOwner, Uploads, clean_media_type};
use crate::limits::UPLOAD_IN_MEMORY_BYTES_MAX;

/// An upload that arrives in pieces. Its methods may block, and so may its drop.
pub struct ArrivingUpload {
    uploads: Arc<Uploads>,
    state: Arriving,
    length: u64,
}

enum Arriving {
    /// The whole content so far.
    InMemory(Vec<u8>),
    /// A content whose chunks are in the store. After a failure, it takes no more steps.
    InStore(Box<UnannouncedContent>),
    /// A content that is in its place.
    Complete(ArrivedContent),
    /// The upload has ended.
    Ended,
}

impl ArrivingUpload {
    pub(super) fn new(uploads: Arc<Uploads>) -> Self {
        Self { uploads, state: Arriving::InMemory(Vec::new()), length: 0 }
    }

    /// Returns the number of bytes that have arrived.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds the next bytes. Fails after [`ArrivingUpload::complete_step`].
    pub fn add(&mut self, piece: &[u8]) -> notes::Result<()> {
        if let Arriving::InMemory(content) = &mut self.state
            && content.len() + piece.len() > UPLOAD_IN_MEMORY_BYTES_MAX
        {
            let mut token = [0; 32];
            self.uploads.random.fill(&mut token);
            let databases = &self.uploads.databases;
            let content = std::mem::take(content);
            let arriving = UnannouncedContent::begin(databases.store(), &token, self.uploads.clock.now());
            self.state = Arriving::InStore(Box::new(arriving));
            self.add_stored(&content)?;
        }
        self.length += piece.len() as u64;
        match &mut self.state {
            Arriving::InMemory(content) => {
                content.extend_from_slice(piece);
                Ok(())
            }
            _ => self.add_stored(piece),
        }
    }

    fn add_stored(&mut self, piece: &[u8]) -> notes::Result<()> {
        match &mut self.state {
            Arriving::InStore(content) => Ok(content.add(piece)?),
            _ => Err(ended()),
        }
    }

    /// Puts a part of the content in its place. Returns `true` when all of it is, so that the upload can be stored.
    pub fn complete_step(&mut self) -> notes::Result<bool> {
        let content = match &mut self.state {
            Arriving::InStore(content) => content,
            Arriving::InMemory(_) | Arriving::Complete(_) => return Ok(true),
            Arriving::Ended => return Err(ended()),
        };
        let Some(arrived) = content.complete_step()? else { return Ok(false) };
        self.state = Arriving::Complete(arrived);
        Ok(true)
    }

    /// Stores the upload of an owner, with the media type that the client declares.
    pub fn store(mut self, owner: UploadOwner, media_type: &str) -> notes::Result<StoredUpload> {
        while !self.complete_step()? {}
        let uploads = Arc::clone(&self.uploads);
        let size = self.length;
        let media_type = clean_media_type(media_type);
        match &mut self.state {
            Arriving::InMemory(bytes) => {
                let bytes = std::mem::take(bytes);
                let databases = &uploads.databases;
                let prepared = databases.blob_prepare(bytes, &Unpaced)?;
                let store = databases.store();
                let is_content_new = store.blobs().length(store.as_ref(), &prepared.id())?.is_none();
                let content = NewContent::Prepared(&prepared);
                uploads.store(NewUpload { owner, media_type, size, content, is_content_new })
            }
            Arriving::Complete(arrived) => {
                let content = NewContent::Stored(arrived.id());
                let is_content_new = arrived.is_new();
                let stored = uploads.store(NewUpload { owner, media_type, size, content, is_content_new })?;
                self.state = Arriving::Ended;
                Ok(stored)
            }
            Arriving::InStore(_) | Arriving::Ended => Err(ended()),
        }
    }

    /// Ends the upload without removing what has arrived, which takes no time. It is removed after the next upload.
    pub fn leave(mut self) {
        if let Some(leftover) = self.take_leftover() {
            self.uploads.leftovers.remove_later(leftover);
        }
    }

    /// Ends the upload. Returns what is to be removed.
    fn take_leftover(&mut self) -> Option<Leftover> {
        match std::mem::replace(&mut self.state, Arriving::Ended) {
            Arriving::InStore(content) => Some(Leftover::Arriving(content)),
            Arriving::Complete(arrived) if arrived.is_new() => Some(Leftover::Unused(arrived.id())),
            Arriving::Complete(_) | Arriving::InMemory(_) | Arriving::Ended => None,
        }
    }
}

impl Drop for ArrivingUpload {
    fn drop(&mut self) {
        let leftover = self.take_leftover();
        self.uploads.leftovers.remove(self.uploads.databases.store(), leftover);
    }
}

fn ended() -> notes::Error {
    notes::Error::invalid("upload", "a part of it could not be stored")
}
