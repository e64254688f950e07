//! Blobs (RFC 8620 §6): messages, their parts, and uploads.
//!
//! The blob of a message is named after the Email, and that of a part after the message and its number
//! ([`crate::email::part_blob_id`]). A blob exists for a caller if the account is open to it and it can see the
//! message, or has uploaded the blob itself. Everything else is not found.
//!
//! A download is never shown as a page of the server: [`safe_media_type`] names a type that browsers do not execute.

use std::cell::Cell;

use bytes::Bytes;
use serde_json::{Value, json};
use store::Ticket;

use crate::account::Account;
use crate::backend::{Caller, Services};
use crate::email::{ComposeBlobs, part_content, split_part_blob_id};
use crate::error::{MethodError, MethodResult, RequestProblem};
use crate::uploads::{Upload, UploadOwner, clean_media_type};

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

/// Reads blobs of an account with the rights of a caller.
pub struct BlobReader<'r> {
    services: &'r Services,
    caller: &'r Caller,
    account: &'r Account,
    ticket: Cell<Ticket>,
}

impl<'r> BlobReader<'r> {
    /// Creates a reader.
    #[must_use]
    pub fn new(services: &'r Services, caller: &'r Caller, account: &'r Account) -> Self {
        Self { services, caller, account, ticket: Cell::new(Ticket::NONE) }
    }

    /// Returns the ticket that must be durable before what was read leaves the server.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket.get()
    }

    /// Reads a blob. Returns `None` if it does not exist for the caller.
    pub fn read(&self, blob_id: &str) -> MethodResult<Option<OpenedBlob>> {
        if let Some((whole, part)) = split_part_blob_id(blob_id) {
            let Some(whole) = self.read_whole(whole)? else { return Ok(None) };
            let content = part_content(&whole.bytes, part);
            return Ok(content.map(|content| OpenedBlob {
                bytes: content.bytes.into(),
                media_type: content.media_type,
                name: content.name,
            }));
        }
        self.read_whole(blob_id)
    }

    fn read_whole(&self, blob_id: &str) -> MethodResult<Option<OpenedBlob>> {
        let Some(rest) = blob_id.strip_prefix('B') else { return Ok(self.uploaded(blob_id)) };
        let email_id = format!("M{}", rest.replace('_', "-"));
        let view = self.account.view()?;
        self.ticket.set(self.ticket.get().max(view.snapshot.ticket()));
        let Some(row) = view.table.email(&email_id).filter(|row| row.blob_id() == blob_id) else { return Ok(None) };
        let raw = view.raw(row)?;
        let media_type = "message/rfc822".to_owned();
        Ok(raw.map(|raw| OpenedBlob { bytes: raw.into(), media_type, name: None }))
    }

    fn uploaded(&self, blob_id: &str) -> Option<OpenedBlob> {
        let owner = owner(self.caller, self.account);
        let upload = self.services.uploads.get(&owner, blob_id, self.services.clock.now())?;
        Some(OpenedBlob { bytes: upload.bytes, media_type: upload.media_type, name: None })
    }
}

impl ComposeBlobs for BlobReader<'_> {
    fn blob(&self, id: &str) -> Option<(Bytes, Option<String>)> {
        let blob = self.read(id).ok().flatten()?;
        Some((blob.bytes, Some(blob.media_type)))
    }
}

/// Opens a blob for a download. Returns the ticket that must be durable before it leaves the server.
pub fn open_blob(
    services: &Services,
    caller: &Caller,
    account: &str,
    blob_id: &str,
) -> MethodResult<(OpenedBlob, Ticket)> {
    let account = Account::open(services, caller, account)?;
    let reader = BlobReader::new(services, caller, &account);
    let blob = reader.read(blob_id)?.ok_or_else(|| MethodError::new("blobNotFound"))?;
    Ok((blob, reader.ticket()))
}

/// Stores an upload, and returns the object that tells the client about it.
pub fn upload(
    services: &Services,
    caller: &Caller,
    account: &str,
    bytes: Bytes,
    media_type: &str,
) -> MethodResult<Result<Value, RequestProblem>> {
    let account = Account::open(services, caller, account)?;
    if account.is_read_only {
        return Err(MethodError::new("accountReadOnly"));
    }
    if bytes.len() as u64 > services.limits.upload_bytes_max {
        return Ok(Err(RequestProblem::Limit("maxSizeUpload")));
    }
    Ok(Ok(store_upload(services, caller, &account, Upload::new(bytes, media_type))))
}

/// Stores an upload of an open account.
pub(crate) fn store_upload(services: &Services, caller: &Caller, account: &Account, upload: Upload) -> Value {
    let size = upload.bytes.len();
    let media_type = upload.media_type.clone();
    let blob_id = services.uploads.put(&owner(caller, account), upload, services.clock.now());
    json!({ "accountId": account.info.id, "blobId": blob_id, "type": media_type, "size": size })
}

fn owner(caller: &Caller, account: &Account) -> UploadOwner {
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

/// Returns the value of `Content-Disposition` for a download: an attachment with a name that no header can break.
#[must_use]
pub fn content_disposition(name: &str) -> String {
    let name: String = name.chars().filter(|character| !character.is_control()).take(200).collect();
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._- ".contains(c) { c } else { '_' }).collect();
    let plain = if plain.trim().is_empty() { "download".to_owned() } else { plain };
    let encoded = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}
