//! An upload that arrives in pieces.
//!
//! A small content is kept in memory and stored with its note. A larger one is stored while it arrives, so that it
//! takes the memory of one chunk of the blob store. An upload that is dropped before it is stored leaves nothing
//! behind.

use std::sync::Arc;

use base::Unpaced;
use store::blob::ArrivedContent;
use store::blob::unannounced::{CompletingContent, CompletionStep, UnannouncedContent};

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
    /// A content whose chunks are in the store.
    InStore(UnannouncedContent),
    /// A content that is put in its place.
    Completing(CompletingContent),
    Complete(ArrivedContent),
    /// A step has failed, or the upload has ended.
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
            self.state = Arriving::InStore(arriving);
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
        let completing = match std::mem::replace(&mut self.state, Arriving::Ended) {
            Arriving::InStore(content) => content.complete()?,
            Arriving::Completing(completing) => completing,
            Arriving::Ended => return Err(ended()),
            complete => {
                self.state = complete;
                return Ok(true);
            }
        };
        self.state = match completing.step()? {
            CompletionStep::Unfinished(rest) => Arriving::Completing(rest),
            CompletionStep::Finished(arrived) => Arriving::Complete(arrived),
        };
        Ok(matches!(self.state, Arriving::Complete(_)))
    }

    /// Stores the upload of an owner, with the media type that the client declares.
    pub fn store(mut self, owner: UploadOwner, media_type: &str) -> notes::Result<StoredUpload> {
        while !self.complete_step()? {}
        let uploads = Arc::clone(&self.uploads);
        let size = self.length;
        let media_type = clean_media_type(media_type);
        match std::mem::replace(&mut self.state, Arriving::Ended) {
            Arriving::InMemory(bytes) => {
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
                uploads.store(NewUpload { owner, media_type, size, content, is_content_new })
            }
            _ => Err(ended()),
        }
    }

    /// Ends the upload without removing what has arrived, which takes no time. The collector of the store removes it
    /// after the grace period.
    pub fn leave(mut self) {
        self.state = Arriving::Ended;
    }
}

impl Drop for ArrivingUpload {
    fn drop(&mut self) {
        let removed = match std::mem::replace(&mut self.state, Arriving::Ended) {
            Arriving::InStore(content) => content.abandon(),
            Arriving::Completing(completing) => completing.abandon(),
            Arriving::Complete(arrived) => {
                let contents = if arrived.is_new() { vec![arrived.id()] } else { Vec::new() };
                drop(arrived);
                let store = self.uploads.databases.store();
                store.blobs().remove_unused(store, &contents).map(drop)
            }
            Arriving::InMemory(_) | Arriving::Ended => Ok(()),
        };
        if let Err(error) = removed {
            tracing::error!(target: "jmap", %error, "the content of an upload that broke off was not removed");
        }
    }
}

fn ended() -> notes::Error {
    notes::Error::invalid("upload", "a part of it could not be stored")
}
