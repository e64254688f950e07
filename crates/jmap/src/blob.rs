//! Blobs (RFC 8620 §6): messages, their parts, and uploads.
//!
//! The blob of a message is named after the Email, and that of a part after the message and its number
//! ([`crate::email::part_blob_id`]). A blob exists for a caller if the account is open to it and it can see the
//! message, or has uploaded the blob itself. Everything else is not found.
//!
//! Uploads arrive in pieces ([`receive_piece`], [`finish_upload`]), one job of a worker each. Uploads, messages and
//! most parts are read in ranges ([`StoredBlob`]).
//!
//! A download is never shown as a page of the server: [`safe_media_type`] names a type that browsers do not execute.

use std::cell::Cell;
use std::ops::Range;

use bytes::Bytes;
use http::content::slice_of;
use mail::mailbox::Message;
use mail::message_table::MessageRow;
use mail::mime::{InMemoryMessage, MimeSource, parse};
use serde_json::{Value, json};
use store::Ticket;

use crate::account::Account;
use crate::backend::{Caller, Services};
use crate::email::{ComposeBlobs, LocatedPart, located_part, part_content, split_part_blob_id};
use crate::error::{MethodError, MethodResult};
use crate::limits::TRANSFER_PIECE_BYTES;
use crate::stored_blob::StoredBlob;
use crate::uploads::{ArrivingUpload, FoundUpload, StoredUpload, UploadOwner, clean_media_type};

/// The content of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedBlob {
    /// The bytes.
    pub bytes: Bytes,
    /// The media type, as the sender or the uploader declared it.
    pub media_type: String,
    /// The name of the file.
    pub name: Option<String>,
}

/// A blob that a caller may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundBlob {
    /// A part that must be decoded, or a message whose ranges are not cheap, which is read as a whole.
    Whole(OpenedBlob),
    /// A message or a part of one, of which any range can be read.
    Stored {
        /// The bytes.
        blob: StoredBlob,
        /// The media type, as the sender declared it.
        media_type: String,
        /// The name of the file.
        name: Option<String>,
    },
    /// An upload, of which any range can be read.
    Upload(FoundUpload),
}

impl FoundBlob {
    /// Returns the number of bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::Whole(blob) => blob.bytes.len() as u64,
            Self::Stored { blob, .. } => blob.size(),
            Self::Upload(upload) => upload.size,
        }
    }

    /// Returns the media type, as the sender or the uploader declared it.
    #[must_use]
    pub fn media_type(&self) -> &str {
        match self {
            Self::Whole(OpenedBlob { media_type, .. }) | Self::Stored { media_type, .. } => media_type,
            Self::Upload(upload) => &upload.media_type,
        }
    }

    /// Returns the bytes of the blob that lie within a range. Returns `None` if the blob was removed since it was
    /// found.
    pub fn read(&self, services: &Services, caller: &Caller, range: Range<u64>) -> MethodResult<Option<Bytes>> {
        match self {
            Self::Whole(blob) => Ok(Some(slice_of(&blob.bytes, range))),
            Self::Stored { blob, .. } => blob.read(services, caller, range),
            Self::Upload(upload) => Ok(services.uploads.read(upload, range)?.map(Bytes::from)),
        }
    }
}

/// Reads blobs of an account with the rights of a caller.
pub struct BlobReader<'r> {
    services: &'r Services,
    caller: &'r Caller,
    account: &'r Account,
    ticket: Cell<Ticket>,
    /// `true` if a blob could not be read for a message that is composed.
    has_failed: Cell<bool>,
}

impl<'r> BlobReader<'r> {
    /// Creates a reader.
    #[must_use]
    pub fn new(services: &'r Services, caller: &'r Caller, account: &'r Account) -> Self {
        Self { services, caller, account, ticket: Cell::new(Ticket::NONE), has_failed: Cell::new(false) }
    }

    /// Returns `true` if a blob of a composed message could not be read, which is no fault of the client.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Returns the ticket that must be durable before what was read leaves the server.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket.get()
    }

    /// Reads a blob as a whole. Returns `None` if it does not exist for the caller.
    pub fn read(&self, blob_id: &str) -> MethodResult<Option<OpenedBlob>> {
        let Some(found) = self.find(blob_id)? else { return Ok(None) };
        self.read_found(found)
    }

    /// Reads a blob that was found as a whole. Returns `None` if it was removed since then.
    pub fn read_found(&self, found: FoundBlob) -> MethodResult<Option<OpenedBlob>> {
        let bytes = found.read(self.services, self.caller, 0..found.size())?;
        let with = |media_type, name| bytes.map(|bytes| OpenedBlob { bytes, media_type, name });
        Ok(match found {
            FoundBlob::Whole(blob) => Some(blob),
            FoundBlob::Stored { media_type, name, .. } => with(media_type, name),
            FoundBlob::Upload(upload) => with(upload.media_type, None),
        })
    }

    /// Finds a blob. Returns `None` if it does not exist for the caller.
    pub fn find(&self, blob_id: &str) -> MethodResult<Option<FoundBlob>> {
        if let Some((whole, part)) = split_part_blob_id(blob_id) {
            return self.part(whole, part);
        }
        if !blob_id.starts_with('B') {
            return Ok(self.uploaded(blob_id).map(FoundBlob::Upload));
        }
        let found = self.in_message(blob_id, |row, message| self.whole_message(row, message))?;
        Ok(found.flatten())
    }

    fn whole_message(&self, row: &MessageRow, message: &Message<'_>) -> mail::Result<FoundBlob> {
        let media_type = "message/rfc822".to_owned();
        if let Some(blob) = StoredBlob::of_message((self.account, row), message)? {
            return Ok(FoundBlob::Stored { blob, media_type, name: None });
        }
        Ok(FoundBlob::Whole(OpenedBlob { bytes: message.raw()?.into(), media_type, name: None }))
    }

    /// Returns `true` if a blob is an upload of the caller.
    #[must_use]
    pub fn is_upload(&self, blob_id: &str) -> bool {
        self.uploaded(blob_id).is_some()
    }

    /// Finds a part of a blob. If the blob is a message of the account, nothing else of it is read.
    fn part(&self, whole_id: &str, number: u32) -> MethodResult<Option<FoundBlob>> {
        let found = self.in_message(whole_id, |row, message| match located_part(message.structure(), number) {
            Some(part) => self.part_in((row, message), part).map(Some),
            None => Ok(None),
        })?;
        if let Some(found) = found {
            return Ok(found.flatten());
        }
        let Some(whole) = self.read(whole_id)? else { return Ok(None) };
        let structure = parse(&whole.bytes);
        let Some(part) = located_part(&structure, number) else { return Ok(None) };
        let Ok(bytes) = part_content(&InMemoryMessage::new(&whole.bytes, &structure), part.index);
        Ok(Some(whole_part(bytes, part)))
    }

    fn part_in(&self, (row, message): (&MessageRow, &Message<'_>), part: LocatedPart) -> mail::Result<FoundBlob> {
        if let Some(blob) = StoredBlob::of_part((self.account, row), message, part.index)? {
            return Ok(FoundBlob::Stored { blob, media_type: part.media_type, name: part.name });
        }
        Ok(whole_part(part_content(message, part.index)?, part))
    }

    /// Returns what `read` returns for the message with a blob id, or `Some(None)` if it is hidden or damaged. Returns
    /// `None` if the account has no such message.
    fn in_message<T>(
        &self,
        blob_id: &str,
        read: impl FnOnce(&MessageRow, &Message<'_>) -> mail::Result<T>,
    ) -> MethodResult<Option<Option<T>>> {
        let Some(rest) = blob_id.strip_prefix('B') else { return Ok(None) };
        let email_id = format!("M{}", rest.replace('_', "-"));
        let view = self.account.view()?;
        self.wait_for(view.snapshot.ticket());
        let Some(row) = view.table.email(&email_id).filter(|row| row.blob_id() == blob_id) else { return Ok(None) };
        view.read_message(row, |message| read(row, message)).map(Some)
    }

    fn uploaded(&self, blob_id: &str) -> Option<FoundUpload> {
        let upload = self.services.uploads.find(&owner(self.caller, self.account), blob_id)?;
        self.wait_for(upload.ticket);
        Some(upload)
    }

    fn wait_for(&self, ticket: Ticket) {
        self.ticket.set(self.ticket.get().max(ticket));
    }
}

fn whole_part(bytes: Vec<u8>, part: LocatedPart) -> FoundBlob {
    FoundBlob::Whole(OpenedBlob { bytes: bytes.into(), media_type: part.media_type, name: part.name })
}

impl ComposeBlobs for BlobReader<'_> {
    fn blob(&self, id: &str) -> Option<(Bytes, Option<String>)> {
        let blob = self.read(id).unwrap_or_else(|_| {
            self.has_failed.set(true);
            None
        });
        blob.map(|blob| (blob.bytes, Some(blob.media_type)))
    }
}

/// Opens a blob for a download. Returns the ticket that must be durable before it leaves the server.
pub fn open_blob(
    services: &Services,
    caller: &Caller,
    account: &str,
    blob_id: &str,
) -> MethodResult<(FoundBlob, Ticket)> {
    let account = Account::open(services, caller, account)?;
    let reader = BlobReader::new(services, caller, &account);
    let blob = reader.find(blob_id)?.ok_or_else(|| MethodError::new("blobNotFound"))?;
    Ok((blob, reader.ticket()))
}

/// The request of a client for an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadRequest {
    /// The account.
    pub account: String,
    /// The media type that the client declares.
    pub media_type: String,
}

/// Takes the next bytes of an upload. The upload begins with the first ones. Returns `accountReadOnly` if the caller
/// may not upload to the account.
pub fn receive_piece(
    services: &Services,
    (caller, request): (&Caller, &UploadRequest),
    arriving: &mut Option<ArrivingUpload>,
    piece: &[u8],
) -> MethodResult<()> {
    let arriving = match arriving {
        Some(arriving) => arriving,
        none => {
            open_for_upload(services, caller, &request.account)?;
            none.insert(services.uploads.begin())
        }
    };
    if arriving.length() + piece.len() as u64 > services.limits.upload_bytes_max {
        return Err(MethodError::described("requestTooLarge", "the upload is larger than maxSizeUpload"));
    }
    Ok(arriving.add(piece)?)
}

/// Does a part of the work that is left when an upload has arrived. Returns the object that tells the client about the
/// upload when all of it is done, with the ticket that must be durable before.
pub fn finish_upload(
    services: &Services,
    (caller, request): (&Caller, &UploadRequest),
    arriving: &mut Option<ArrivingUpload>,
) -> MethodResult<Option<(Value, Ticket)>> {
    if !arriving.get_or_insert_with(|| services.uploads.begin()).complete_step()? {
        return Ok(None);
    }
    let Some(arrived) = arriving.take() else { return Ok(None) };
    // The rights may have changed since the first piece.
    let account = open_for_upload(services, caller, &request.account)?;
    let stored = arrived.store(owner(caller, &account), &request.media_type)?;
    let object = uploaded_object(&account, &stored);
    Ok(Some((object, stored.ticket)))
}

fn open_for_upload(services: &Services, caller: &Caller, account: &str) -> MethodResult<Account> {
    let account = Account::open(services, caller, account)?;
    if account.is_read_only { Err(MethodError::new("accountReadOnly")) } else { Ok(account) }
}

/// Returns the object that tells a client about an upload.
fn uploaded_object(account: &Account, stored: &StoredUpload) -> Value {
    let StoredUpload { id, media_type, size, .. } = stored;
    json!({ "accountId": account.info.id, "blobId": id, "type": media_type, "size": size })
}

/// Stores a blob as an upload of an account. An upload shares its content with the other one.
pub(crate) fn copy_to(
    services: &Services,
    caller: &Caller,
    blob: FoundBlob,
    account: &Account,
) -> MethodResult<Option<StoredUpload>> {
    let owner = owner(caller, account);
    match blob {
        FoundBlob::Upload(upload) => Ok(services.uploads.copy(&upload, owner)?),
        other => {
            let mut arriving = services.uploads.begin();
            for piece in pieces(0..other.size()) {
                let Some(bytes) = other.read(services, caller, piece)? else { return Ok(None) };
                arriving.add(&bytes)?;
            }
            Ok(Some(arriving.store(owner, other.media_type())?))
        }
    }
}

/// Returns a range of bytes in pieces of at most [`TRANSFER_PIECE_BYTES`].
pub(crate) fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range.step_by(TRANSFER_PIECE_BYTES).map(move |start| start..end.min(start + TRANSFER_PIECE_BYTES as u64))
}

/// Returns the owner of the uploads of a caller to an account.
pub(crate) fn owner(caller: &Caller, account: &Account) -> UploadOwner {
    UploadOwner { login: caller.login.clone(), account: account.info.id.clone() }
}

/// Returns the media type of the answer to a download. Types that browsers execute or that have scripts become that of
/// any file, whatever the sender or the address of the download declares.
#[must_use]
pub fn safe_media_type(declared: &str) -> String {
    const SAFE: [&str; 10] = [
        "application/pdf",
        "audio/mpeg",
        "audio/ogg",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "message/rfc822",
        "text/plain",
        "video/mp4",
    ];
    let clean = clean_media_type(declared);
    if SAFE.contains(&clean.as_str()) { clean } else { "application/octet-stream".to_owned() }
}
