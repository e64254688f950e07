//! The format of a chunk: version, flags, checksum and payload. The flags tell whether the payload is compressed and
//! encrypted.
//!
//! The checksum covers the stored bytes and their position (blob and chunk number), so that neither a changed byte nor
//! a misplaced chunk reaches the decompressor. [`decode_chunk`] accepts arbitrary bytes: it does not panic and does not
//! allocate more than the raw length that the caller expects.

use std::borrow::Cow;

use base::codec::{Decoder, InvalidRecord};
use base::sync::Mutex;
use zstd_safe::{CCtx, DCtx};

use super::encryption::BlobCipher;
use super::id::BlobId;
use crate::batch::Batch;
use crate::engine::Table;
use crate::error::Result;
use crate::limits;

const VERSION: u8 = 1;
const COMPRESSED: u8 = 1;
const ENCRYPTED: u8 = 2;
/// Size of the header: version, flags and checksum.
const HEADER_BYTES: usize = 10;
/// Divisor of the minimum saving: a chunk is stored uncompressed unless compression saves at least 1/16 of its size.
const SAVED_FRACTION_DIVISOR: usize = 16;
/// Maximum number of compressors, and of decompressors, kept for reuse.
const POOLED_CONTEXTS_MAX: usize = 16;

/// The reason why a chunk cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChunkError {
    /// The chunk is shorter than its header.
    #[error("it is too short")]
    Short,
    /// The version or a flag of the chunk is unknown to this program.
    #[error("its version or its flags are unknown")]
    Unknown,
    /// The stored bytes do not match the checksum.
    #[error("the checksum does not match")]
    Checksum,
    /// The chunk is encrypted and no key is configured.
    #[error("it is encrypted and no key is configured")]
    NoKey,
    /// The chunk cannot be decrypted with the key.
    #[error("it cannot be decrypted with the configured key")]
    WrongKey,
    /// The compressed bytes are invalid.
    #[error("it cannot be decompressed")]
    Compression,
    /// The raw length differs from the length in the head of the attachment.
    #[error("it has the wrong length")]
    Length,
}

impl From<InvalidRecord> for ChunkError {
    fn from(_: InvalidRecord) -> Self {
        Self::Short
    }
}

/// Decodes a chunk. `stored` is the value of chunk `number` of blob `id`, which should have `length` raw bytes.
pub fn decode_chunk(
    id: &BlobId,
    number: u32,
    length: u32,
    cipher: Option<&BlobCipher>,
    stored: &[u8],
) -> std::result::Result<Vec<u8>, ChunkError> {
    Codec::new(None).decode(id, number, length, cipher, stored)
}

/// Returns the key of a chunk in the blob table.
pub(super) fn chunk_key(id: &BlobId, number: u32) -> [u8; 36] {
    let mut key = [0; 36];
    key[..32].copy_from_slice(&id.0);
    key[32..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Adds the removal of all chunks of a content to a batch.
pub(super) fn remove_chunks(batch: &mut Batch, id: &BlobId) {
    batch.delete_range(Table::Blob, &chunk_key(id, 0), &chunk_key(id, u32::MAX));
}

/// Encodes and decodes chunks. Reuses the working memory of the compressor between calls.
pub(super) struct Codec {
    /// The level of Zstandard, or `None` to compress nothing.
    level: Option<i32>,
    compressors: Mutex<Vec<CCtx<'static>>>,
    decompressors: Mutex<Vec<DCtx<'static>>>,
}

impl Codec {
    pub(super) fn new(level: Option<i32>) -> Self {
        Self { level, compressors: Mutex::default(), decompressors: Mutex::default() }
    }

    /// Returns the stored form of a chunk.
    pub(super) fn encode(&self, id: &BlobId, number: u32, cipher: Option<&BlobCipher>, raw: &[u8]) -> Result<Vec<u8>> {
        let mut stored = vec![0; HEADER_BYTES];
        let mut flags = 0;
        if self.compress(raw, &mut stored) {
            flags |= COMPRESSED;
        } else {
            stored.extend_from_slice(raw);
        }
        finish(id, number, flags, cipher, stored)
    }

    /// Decodes the stored form of a chunk.
    pub(super) fn decode(
        &self,
        id: &BlobId,
        number: u32,
        length: u32,
        cipher: Option<&BlobCipher>,
        stored: &[u8],
    ) -> std::result::Result<Vec<u8>, ChunkError> {
        let (flags, packed) = open(id, number, cipher, stored)?;
        let length = length.min(limits::BLOB_CHUNK_BYTES_MAX) as usize;
        let raw = if flags & COMPRESSED == 0 { packed.into_owned() } else { self.decompress(&packed, length)? };
        if raw.len() == length { Ok(raw) } else { Err(ChunkError::Length) }
    }

    /// Appends the compressed form after the header. Returns `true` if compression saved enough.
    fn compress(&self, raw: &[u8], stored: &mut Vec<u8>) -> bool {
        let Some(level) = self.level else { return false };
        let Some(mut context) = take(&self.compressors).or_else(CCtx::try_create) else { return false };
        // The buffer is as large as the biggest result that saves enough. For a larger result the library returns an
        // error.
        stored.resize(HEADER_BYTES + raw.len() - raw.len() / SAVED_FRACTION_DIVISOR, 0);
        let outcome = context.compress(&mut stored[HEADER_BYTES..], raw, level);
        give_back(&self.compressors, context);
        stored.truncate(HEADER_BYTES + outcome.unwrap_or(0));
        outcome.is_ok()
    }

    fn decompress(&self, packed: &[u8], length: usize) -> std::result::Result<Vec<u8>, ChunkError> {
        let mut context = take(&self.decompressors).or_else(DCtx::try_create).ok_or(ChunkError::Compression)?;
        let mut raw = vec![0; length];
        let outcome = context.decompress(&mut raw[..], packed);
        give_back(&self.decompressors, context);
        raw.truncate(outcome.map_err(|_| ChunkError::Compression)?);
        Ok(raw)
    }
}

/// Returns the stored form that opened bytes of a chunk have under another ID.
pub(super) fn store_opened(
    id: &BlobId,
    number: u32,
    (flags, packed): (u8, &[u8]),
    cipher: Option<&BlobCipher>,
) -> Result<Vec<u8>> {
    finish(id, number, flags & COMPRESSED, cipher, [&[0; HEADER_BYTES][..], packed].concat())
}

/// Encrypts the bytes behind the header of a chunk, and writes the header.
fn finish(
    id: &BlobId,
    number: u32,
    mut flags: u8,
    cipher: Option<&BlobCipher>,
    mut stored: Vec<u8>,
) -> Result<Vec<u8>> {
    if let Some(cipher) = cipher {
        flags |= ENCRYPTED;
        let sealed = cipher.encrypt(id, number, &stored[HEADER_BYTES..])?;
        stored.truncate(HEADER_BYTES);
        stored.extend_from_slice(&sealed);
    }
    seal(id, number, flags, &mut stored);
    Ok(stored)
}

/// Checks and decrypts the stored form of a chunk. Returns its flags, and the raw or compressed bytes.
pub(super) fn open<'s>(
    id: &BlobId,
    number: u32,
    cipher: Option<&BlobCipher>,
    stored: &'s [u8],
) -> std::result::Result<(u8, Cow<'s, [u8]>), ChunkError> {
    let mut decoder = Decoder::new(stored);
    let version = decoder.u8()?;
    let flags = decoder.u8()?;
    let expected: [u8; 8] = decoder.array()?;
    let payload = decoder.rest();
    if version != VERSION || flags & !(COMPRESSED | ENCRYPTED) != 0 {
        return Err(ChunkError::Unknown);
    }
    if checksum(id, number, flags, payload) != expected {
        return Err(ChunkError::Checksum);
    }
    if flags & ENCRYPTED == 0 {
        return Ok((flags, Cow::Borrowed(payload)));
    }
    let opened = cipher.ok_or(ChunkError::NoKey)?.decrypt(id, number, payload).ok_or(ChunkError::WrongKey)?;
    Ok((flags, Cow::Owned(opened)))
}

/// Writes the header of a stored chunk.
pub(super) fn seal(id: &BlobId, number: u32, flags: u8, stored: &mut [u8]) {
    let (header, payload) = stored.split_at_mut(HEADER_BYTES);
    header[0] = VERSION;
    header[1] = flags;
    header[2..].copy_from_slice(&checksum(id, number, flags, payload));
}

fn take<T>(pool: &Mutex<Vec<T>>) -> Option<T> {
    pool.lock().pop()
}

fn give_back<T>(pool: &Mutex<Vec<T>>, context: T) {
    let mut pool = pool.lock();
    if pool.len() < POOLED_CONTEXTS_MAX {
        pool.push(context);
    }
}

fn checksum(id: &BlobId, number: u32, flags: u8, payload: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&id.0).update(&number.to_be_bytes()).update(&[VERSION, flags]).update(payload);
    let mut checksum = [0; 8];
    checksum.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    checksum
}
