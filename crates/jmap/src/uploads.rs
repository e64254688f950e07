//! Uploads: bytes that a client has sent and that no message refers to yet.
//!
//! An upload belongs to a login and an account, and is named after its content, so the same content is kept once. It is
//! removed after its lifetime, or before that if its owner or all owners have too much: the oldest ones go first, as
//! RFC 8620 §6 permits. [`MemoryUploads`] keeps them in memory: a restart loses them, and clients send them again.

use std::collections::{BTreeMap, HashMap};

use base::Timestamp;
use base::sync::Mutex;
use bytes::Bytes;

use crate::limits::{
    MEDIA_TYPE_BYTES_MAX, UPLOAD_LIFETIME, UPLOADS_ACCOUNT_BYTES_MAX, UPLOADS_BYTES_MAX, UPLOADS_PER_ACCOUNT_MAX,
};

/// The login that has sent an upload, and the account for which it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UploadOwner {
    /// The login.
    pub login: String,
    /// The account.
    pub account: String,
}

/// An upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The bytes.
    pub bytes: Bytes,
    /// The media type.
    pub media_type: String,
}

impl Upload {
    /// Creates an upload with a media type that a client declares.
    #[must_use]
    pub fn new(bytes: Bytes, media_type: &str) -> Self {
        Self { bytes, media_type: clean_media_type(media_type) }
    }

    /// Returns the identifier, which depends on the content and the media type.
    #[must_use]
    pub fn id(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.media_type.as_bytes()).update(b"\0").update(&self.bytes);
        format!("U{}", &hasher.finalize().to_hex()[..40])
    }
}

/// Storage for uploads.
pub trait Uploads: Send + Sync {
    /// Stores an upload, and returns its identifier.
    fn put(&self, owner: &UploadOwner, upload: Upload, now: Timestamp) -> String;

    /// Returns an upload of an owner.
    fn get(&self, owner: &UploadOwner, id: &str, now: Timestamp) -> Option<Upload>;
}

/// Uploads in memory.
#[derive(Debug, Default)]
pub struct MemoryUploads {
    state: Mutex<UploadState>,
}

#[derive(Debug, Default)]
struct UploadState {
    /// Uploads with the number of their arrival.
    uploads: HashMap<(UploadOwner, String), (u64, Upload)>,
    /// Keys and times by the number of arrival.
    order: BTreeMap<u64, (UploadOwner, String, Timestamp)>,
    bytes: u64,
    last: u64,
}

impl Uploads for MemoryUploads {
    fn put(&self, owner: &UploadOwner, upload: Upload, now: Timestamp) -> String {
        let id = upload.id();
        let mut state = self.state.lock();
        state.expire(now);
        let key = (owner.clone(), id.clone());
        state.remove(&key);
        state.last += 1;
        let number = state.last;
        state.bytes += upload.bytes.len() as u64;
        state.order.insert(number, (owner.clone(), id.clone(), now));
        state.uploads.insert(key, (number, upload));
        state.shrink(owner);
        id
    }

    fn get(&self, owner: &UploadOwner, id: &str, now: Timestamp) -> Option<Upload> {
        let mut state = self.state.lock();
        state.expire(now);
        let found = state.uploads.get(&(owner.clone(), id.to_owned()));
        found.map(|(_, upload)| upload.clone())
    }
}

impl UploadState {
    fn remove(&mut self, key: &(UploadOwner, String)) {
        if let Some((number, upload)) = self.uploads.remove(key) {
            self.order.remove(&number);
            self.bytes -= upload.bytes.len() as u64;
        }
    }

    fn expire(&mut self, now: Timestamp) {
        while let Some((owner, id, at)) = self.order.values().next()
            && now.since(*at) >= UPLOAD_LIFETIME
        {
            let key = (owner.clone(), id.clone());
            self.remove(&key);
        }
    }

    /// Removes the oldest uploads while there are too many. The last one stays.
    fn shrink(&mut self, owner: &UploadOwner) {
        let keys = |state: &Self, is_right: &dyn Fn(&UploadOwner) -> bool| {
            let right = state.order.values().filter(|(owner, ..)| is_right(owner));
            right.map(|(owner, id, _)| (owner.clone(), id.clone())).collect::<Vec<_>>()
        };
        // All accounts of a login count together: with those of other people, it could displace the uploads of all.
        let own = keys(self, &|other| other.login == owner.login);
        let size = |state: &Self, key: &(UploadOwner, String)| {
            state.uploads.get(key).map_or(0, |(_, upload)| upload.bytes.len() as u64)
        };
        let mut bytes: u64 = own.iter().map(|key| size(self, key)).sum();
        for (index, key) in own.iter().enumerate().take(own.len().saturating_sub(1)) {
            if bytes <= UPLOADS_ACCOUNT_BYTES_MAX && own.len() - index <= UPLOADS_PER_ACCOUNT_MAX {
                break;
            }
            bytes -= size(self, key);
            self.remove(key);
        }
        if self.bytes > UPLOADS_BYTES_MAX {
            let all = keys(self, &|_| true);
            for key in all.iter().take(all.len().saturating_sub(1)) {
                if self.bytes <= UPLOADS_BYTES_MAX {
                    break;
                }
                self.remove(key);
            }
        }
    }
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
