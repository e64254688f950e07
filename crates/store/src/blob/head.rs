//! Keys and records of the reference table: the head of a blob, and its users.
//!
//! A key consists of blob ID (32 bytes), database (u32) and note (u32), big-endian. Database 0 and note 0 do not denote
//! a note; their key holds the *head*. Its presence means that the content exists, and it contains the length of the
//! content and the size on disk. The head sorts before the users in the same small table, so a report over all blobs
//! reads no content.

use std::fmt;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, NoteId};

use super::encryption::SEALED_HASH_BYTES;
use super::id::{BlobId, BlobOwner};
use crate::limits;

/// Version written into new heads of contents that are not encrypted.
const VERSION: u8 = 1;

/// Version of a head with the encrypted hash of its content.
const VERSION_WITH_HASH: u8 = 2;

/// The head of a blob: the properties known without reading its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobHead {
    /// Length of the content in bytes.
    pub length: u64,
    /// Total size of the chunks as stored, in bytes.
    pub stored_length: u64,
    /// Raw length of each chunk except the last, in bytes. Never zero.
    pub chunk_length: u32,
    /// The BLAKE3 hash of the content, encrypted. `None` if the content is not encrypted, or was written by an earlier
    /// version.
    pub sealed_hash: Option<[u8; SEALED_HASH_BYTES]>,
}

impl BlobHead {
    /// Returns the number of chunks.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        u32::try_from(self.length.div_ceil(u64::from(self.chunk_length))).unwrap_or(u32::MAX)
    }

    /// Returns the number of the chunk that contains the byte at `offset`.
    #[must_use]
    pub fn chunk_of(&self, offset: u64) -> u32 {
        u32::try_from(offset / u64::from(self.chunk_length)).unwrap_or(u32::MAX)
    }

    /// Returns the offset of a chunk's first byte.
    #[must_use]
    pub fn chunk_start(&self, number: u32) -> u64 {
        u64::from(number) * u64::from(self.chunk_length)
    }

    /// Returns the raw length of a chunk in bytes.
    #[must_use]
    pub fn chunk_length(&self, number: u32) -> u32 {
        let rest = self.length.saturating_sub(self.chunk_start(number));
        u32::try_from(rest).unwrap_or(u32::MAX).min(self.chunk_length)
    }
}

/// The reason why a head cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadError {
    /// The record is too short or too long.
    Length,
    /// The version is unknown to this program.
    Version(u8),
    /// A length in the head exceeds its limit.
    Limit,
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("the head of the attachment has the wrong length"),
            Self::Version(version) => write!(f, "the head of the attachment has the unknown version {version}"),
            Self::Limit => f.write_str("the head of the attachment contains impossible lengths"),
        }
    }
}

impl std::error::Error for HeadError {}

impl From<InvalidRecord> for HeadError {
    fn from(_: InvalidRecord) -> Self {
        Self::Length
    }
}

/// Parses a head. Accepts arbitrary bytes and does not panic.
pub fn decode_head(record: &[u8]) -> Result<BlobHead, HeadError> {
    let mut decoder = Decoder::new(record);
    let version = decoder.u8()?;
    if !(1..=VERSION_WITH_HASH).contains(&version) {
        return Err(HeadError::Version(version));
    }
    let length = decoder.u64()?;
    let stored_length = decoder.u64()?;
    let chunk_length = decoder.u32()?;
    let sealed_hash = if version == VERSION_WITH_HASH { Some(decoder.array()?) } else { None };
    let head = BlobHead { length, stored_length, chunk_length, sealed_hash };
    if !decoder.is_empty() {
        return Err(HeadError::Length);
    }
    let fits = head.length <= limits::BLOB_BYTES_MAX && (1..=limits::BLOB_CHUNK_BYTES_MAX).contains(&head.chunk_length);
    if fits { Ok(head) } else { Err(HeadError::Limit) }
}

/// Returns the encoded head.
pub(super) fn encode_head(head: &BlobHead) -> Vec<u8> {
    assert!(
        head.length <= limits::BLOB_BYTES_MAX && head.chunk_length > 0,
        "the lengths are within the limits of `decode_head`"
    );
    let mut encoder = Encoder::with_capacity(21 + SEALED_HASH_BYTES);
    let version = if head.sealed_hash.is_some() { VERSION_WITH_HASH } else { VERSION };
    encoder.u8(version).u64(head.length).u64(head.stored_length).u32(head.chunk_length);
    if let Some(sealed) = &head.sealed_hash {
        encoder.raw(sealed);
    }
    encoder.finish()
}

/// A parsed key of the reference table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RefKey {
    Head(BlobId),
    User(BlobId, BlobOwner),
}

/// Returns the key of a blob's head.
pub(super) fn head_key(id: &BlobId) -> [u8; 40] {
    owner_key(id, 0, 0)
}

/// Returns the key of a user of a blob.
pub(super) fn user_key(id: &BlobId, owner: BlobOwner) -> [u8; 40] {
    assert!(owner.note != NoteId(0), "zero is not a note ID");
    owner_key(id, owner.database.0, owner.note.0)
}

/// Returns the beginning of the keys of a blob's users in one database.
pub(super) fn users_prefix(id: &BlobId, database: DbNumber) -> [u8; 36] {
    let mut prefix = [0; 36];
    prefix.copy_from_slice(&owner_key(id, database.0, 0)[..36]);
    prefix
}

/// Parses a key. Returns `None` if it is not a key of the reference table.
pub(super) fn decode_key(key: &[u8]) -> Option<RefKey> {
    let mut decoder = Decoder::new(key);
    let id = BlobId(decoder.array().ok()?);
    let owner = BlobOwner { database: DbNumber(decoder.u32().ok()?), note: NoteId(decoder.u32().ok()?) };
    match owner.note {
        _ if !decoder.is_empty() => None,
        NoteId(0) if owner.database == DbNumber(0) => Some(RefKey::Head(id)),
        NoteId(0) => None,
        _ => Some(RefKey::User(id, owner)),
    }
}

fn owner_key(id: &BlobId, database: u32, note: u32) -> [u8; 40] {
    let mut key = [0; 40];
    key[..32].copy_from_slice(&id.0);
    key[32..36].copy_from_slice(&database.to_be_bytes());
    key[36..].copy_from_slice(&note.to_be_bytes());
    key
}
