//! Uploads: bytes that a client has sent, until the message that uses them is written.
//!
//! An upload belongs to a login and an account, and is named after its content and its media type, so the same content
//! is kept once. It is a note of `uploads.nsf`, a database of the server alone, with the content as an attachment. So
//! it survives a restart, and a message that is composed from it shares the content.
//!
//! An upload is removed after its lifetime, or before that if its login or all logins have too much: the oldest ones go
//! first, as RFC 8620 §6 permits. The content of one that goes before its time is removed with it, unless something
//! else uses it, so that nobody fills the disk with uploads. The content of others is removed after the grace period of
//! all attachments.
//!
//! The descriptions of all uploads are in memory too, where each request looks for its own ([`index`]). A content
//! arrives in pieces ([`ArrivingUpload`]), and is read in ranges.
//!
//! `docs/jmap.md`, section "Uploads", describes the notes. Not included: who may upload and read ([`crate::blob`]).

mod arriving;
mod index;
mod leftovers;
mod note;

use std::ops::Range;
use std::sync::Arc;

use base::sync::Mutex;
use base::{Clock, Name, NoteId, Random};
use notes::{Access, Database, DatabaseKind, Databases, Identity, NewNote, OwnDatabase, for_each_own_document, level};
use store::Ticket;
use store::blob::{BlobId, PreparedBlob};

pub use arriving::ArrivingUpload;

use crate::limits::{MEDIA_TYPE_BYTES_MAX, UPLOADS_PER_TRANSACTION};
use index::{UploadIndex, UploadRecord};
use leftovers::{Leftover, Leftovers};

/// Path of the database with the uploads.
pub const UPLOADS_PATH: &str = "uploads.nsf";

const DATABASE: OwnDatabase = OwnDatabase { path: UPLOADS_PATH, kind: DatabaseKind::Uploads, content: "Uploads" };

/// The login that has sent an upload, and the account for which it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UploadOwner {
    /// The login.
    pub login: String,
    /// The account.
    pub account: String,
}

/// An upload that its owner may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundUpload {
    /// The media type.
    pub media_type: String,
    /// The number of bytes.
    pub size: u64,
    /// What must be durable before anybody learns of the upload.
    pub ticket: Ticket,
    note: NoteId,
    blob: BlobId,
    is_content_new: bool,
}

/// An upload that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredUpload {
    /// The identifier.
    pub id: String,
    /// The media type, as it is kept.
    pub media_type: String,
    /// The number of bytes.
    pub size: u64,
    /// What must be durable before the client gets the identifier.
    pub ticket: Ticket,
}

/// The uploads of a server.
pub struct Uploads {
    databases: Arc<Databases>,
    server: Name,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// The access to the database, which is created with the first upload.
    access: Mutex<Option<Arc<UploadAccess>>>,
    index: Mutex<UploadIndex>,
    /// The contents that could not be removed when their uploads ended.
    leftovers: Leftovers,
    /// Held by the thread that changes the database and the index, so that both change in the same order. It is taken
    /// before the index.
    writing: Mutex<()>,
}

/// The access of the server to the database of the uploads.
struct UploadAccess {
    depositor: Access<level::Depositor>,
    reader: Access<level::Reader>,
}

/// The content of a new upload.
enum NewContent<'c> {
    /// A content that is stored with the note.
    Prepared(&'c PreparedBlob<'c>),
    /// A content that is in the store, and stays there until the note is written.
    Stored(BlobId),
}

/// A new upload.
struct NewUpload<'c> {
    owner: UploadOwner,
    media_type: String,
    size: u64,
    content: NewContent<'c>,
    /// `true` if only uploads have brought the content.
    is_content_new: bool,
}

impl Uploads {
    /// Opens the uploads of a server. Their database is created with the first upload.
    pub fn open(
        databases: &Arc<Databases>,
        server: &Name,
        (clock, random): (Arc<dyn Clock>, Arc<dyn Random>),
    ) -> notes::Result<Arc<Self>> {
        let index = match DATABASE.find(databases)? {
            Some(database) => read_all(&database, server)?,
            None => UploadIndex::default(),
        };
        Ok(Arc::new(Self {
            databases: Arc::clone(databases),
            server: server.clone(),
            clock,
            random,
            access: Mutex::default(),
            index: Mutex::new(index),
            leftovers: Leftovers::default(),
            writing: Mutex::default(),
        }))
    }

    /// Returns an upload of an owner. Those of others and those that have expired do not exist.
    #[must_use]
    pub fn find(&self, owner: &UploadOwner, id: &str) -> Option<FoundUpload> {
        let now = self.clock.now();
        let index = self.index.lock();
        let record = index.find(owner, id).filter(|record| !record.is_expired(now))?;
        Some(FoundUpload {
            media_type: record.media_type.clone(),
            size: record.size,
            ticket: record.ticket,
            note: record.note,
            blob: record.blob,
            is_content_new: record.is_content_new,
        })
    }

    /// Reads a range of an upload. Returns `None` if the upload was removed since it was found.
    pub fn read(&self, found: &FoundUpload, range: Range<u64>) -> notes::Result<Option<Vec<u8>>> {
        let range = range.start.min(found.size)..range.end.min(found.size);
        if range.is_empty() {
            return Ok(Some(Vec::new()));
        }
        match self.access()?.reader.read()?.blob_range(found.note, &found.blob, range) {
            Err(notes::Error::NotFound { .. }) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Begins an upload, whose content arrives in pieces.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> ArrivingUpload {
        ArrivingUpload::new(Arc::clone(self))
    }

    /// Stores an upload of another account as one of `owner`. Both share the content. Returns `None` if the upload was
    /// removed since it was found.
    pub fn copy(&self, found: &FoundUpload, owner: UploadOwner) -> notes::Result<Option<StoredUpload>> {
        let new = NewUpload {
            owner,
            media_type: found.media_type.clone(),
            size: found.size,
            content: NewContent::Stored(found.blob),
            is_content_new: found.is_content_new,
        };
        let writing = self.writing.lock();
        // While nobody else writes, a note that exists keeps its content.
        if self.access()?.reader.read()?.header(found.note)?.is_none_or(|header| header.is_stub()) {
            return Ok(None);
        }
        let (stored, displaced) = self.write(new)?;
        drop(writing);
        self.give_back(&displaced);
        Ok(Some(stored))
    }

    /// Removes the uploads that have expired, and what is left of others. Returns how many have expired.
    pub fn remove_expired(&self) -> notes::Result<usize> {
        self.leftovers.retry(self.databases.store());
        let mut removed = 0;
        loop {
            let _writing = self.writing.lock();
            let expired = self.index.lock().expired(self.clock.now(), UPLOADS_PER_TRANSACTION);
            if expired.is_empty() {
                return Ok(removed);
            }
            let access = self.access()?;
            let accesses = [&access.depositor];
            let mut transaction = self.databases.transaction(&accesses)?;
            for record in &expired {
                transaction.writer(0).note_delete_permanently(record.note)?;
            }
            transaction.commit()?;
            self.index.lock().remove(&expired);
            removed += expired.len();
        }
    }

    fn store(&self, new: NewUpload<'_>) -> notes::Result<StoredUpload> {
        let writing = self.writing.lock();
        let (stored, displaced) = self.write(new)?;
        drop(writing);
        self.give_back(&displaced);
        Ok(stored)
    }

    /// Writes the note of an upload, and removes those that it replaces or displaces. Returns the latter. The caller
    /// holds the lock of writers.
    fn write(&self, new: NewUpload<'_>) -> notes::Result<(StoredUpload, Vec<UploadRecord>)> {
        let NewUpload { owner, media_type, size, content, is_content_new } = new;
        let blob = match &content {
            NewContent::Prepared(prepared) => prepared.id(),
            NewContent::Stored(id) => *id,
        };
        let id = upload_id(&media_type, &blob);
        let (replaced, displaced, is_content_new) = {
            let index = self.index.lock();
            let replaced = index.find(&owner, &id).cloned();
            (replaced, index.displaced(&owner, &id, size), is_content_new || index.has_new_content(&blob))
        };
        let at = self.clock.now();
        let mut record = UploadRecord {
            owner,
            id,
            media_type,
            size,
            at,
            blob,
            is_content_new,
            note: NoteId(0),
            ticket: Ticket::NONE,
        };
        let access = self.access()?;
        let accesses = [&access.depositor];
        let mut transaction = self.databases.transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        for old in replaced.iter().chain(&displaced) {
            writer.note_delete_permanently(old.note)?;
        }
        if let NewContent::Prepared(prepared) = content {
            writer.blob_put_prepared(prepared)?;
        }
        record.note = writer.note_create(NewNote { blobs: vec![blob], ..NewNote::document(note::items(&record)) })?;
        record.ticket = transaction.commit()?;
        let stored =
            StoredUpload { id: record.id.clone(), media_type: record.media_type.clone(), size, ticket: record.ticket };
        let mut index = self.index.lock();
        index.remove(&displaced);
        index.insert(record);
        Ok((stored, displaced))
    }

    /// Removes the contents of uploads that were displaced, if uploads have brought them and nothing else uses them,
    /// and what is left of earlier ones.
    fn give_back(&self, displaced: &[UploadRecord]) {
        let contents = displaced.iter().filter(|record| record.is_content_new);
        let store = self.databases.store();
        self.leftovers.retry(store);
        self.leftovers.remove(store, contents.map(|record| Leftover::Unused(record.blob)));
    }

    /// Returns the access to the database of the uploads, which is created if it does not exist.
    fn access(&self) -> notes::Result<Arc<UploadAccess>> {
        let mut known = self.access.lock();
        if let Some(access) = &*known {
            return Ok(Arc::clone(access));
        }
        let database = DATABASE.find_or_create(&self.databases, &self.server)?;
        let itself = Arc::new(Identity::local_server(self.server.clone()));
        let depositor = database.authorize(&itself)?;
        let access = Arc::new(UploadAccess { depositor, reader: database.authorize(&itself)? });
        *known = Some(Arc::clone(&access));
        Ok(access)
    }
}

/// Returns the identifier of an upload, which depends on its content and its media type.
fn upload_id(media_type: &str, content: &BlobId) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(media_type.as_bytes()).update(b"\0").update(&content.0);
    format!("U{}", &hasher.finalize().to_hex()[..40])
}

fn read_all(database: &Arc<Database>, server: &Name) -> notes::Result<UploadIndex> {
    let mut found = Vec::new();
    let damaged = for_each_own_document(database, server, &mut |note| found.extend(note::read(note)))?;
    if damaged > 0 {
        tracing::error!(target: "jmap", damaged, "damaged uploads are lost");
    }
    found.sort_by_key(|record| (record.at, record.note));
    let mut index = UploadIndex::default();
    found.into_iter().for_each(|record| index.insert(record));
    Ok(index)
}

/// Returns a media type without parameters, or that of any file if it is not valid.
#[must_use]
pub fn clean_media_type(text: &str) -> String {
    let is_token = |text: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !text.is_empty() && text.bytes().all(is_allowed)
    };
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_valid = essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    if is_valid && essence.len() <= MEDIA_TYPE_BYTES_MAX { essence } else { "application/octet-stream".to_owned() }
}

#[cfg(test)]
mod tests;
