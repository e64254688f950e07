//! Attachments: content-addressed, deduplicated, compressed, reference-counted and optionally encrypted.
//!
//! The same content is stored once per store, regardless of the notes it came in. Its ID is its hash ([`BlobId`]). The
//! content is written in the same batch as the note that uses it, so that neither exists without the other. It is cut
//! into chunks of 256 KiB, each compressed if that saves space, so that a part of a large attachment can be read
//! without the rest.
//!
//! The users of a blob are a set of keys (blob, database, note), not a counter. Adding a user twice or repeating a
//! batch is harmless, and the set can be compared with the notes and rebuilt from them ([`Blobs::rebuild`]). A note has
//! one reference to a blob, however often it uses the blob, so the reference is released only with the note's last use.
//!
//! [`Blobs::collect`] removes content without users after a grace period. The *gate* is a read-write lock that
//! separates it from writers. A [`BlobWriter`] holds the read side from its check for existing content until the
//! commit. `collect` takes the write side for each small step. A thread must not open a second writer while it holds
//! one.
//!
//! Hashing and compressing a large content takes longer than a writer should hold the gate, or its caller a lock.
//! [`Blobs::prepare`] does this before, and [`BlobWriter::put_prepared`] adds the result.
//!
//! The formats are described in `docs/store-format.md`. Not included: the decision which content becomes a blob
//! (`notes` makes it), and the knowledge which notes exist.

mod arrivals;
pub mod arriving;
mod catalog;
mod chunk;
mod collect;
mod content_cache;
mod encryption;
mod head;
mod id;
mod options;
mod prepared;
pub mod unannounced;
mod unfinished;
mod writer;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base::DbNumber;
use base::sync::RwLock;
use quick_cache::sync::Cache;

pub use arrivals::ArrivedContent;
pub use catalog::{BlobReport, RebuildReport};
pub use chunk::{ChunkError, decode_chunk};
pub use collect::CollectionReport;
pub use encryption::BlobCipher;
pub use head::{BlobHead, decode_head};
pub use id::{BlobId, BlobOwner};
pub use options::{BlobCodec, BlobOptions};
pub use prepared::PreparedBlob;
pub use writer::BlobWriter;

use crate::batch::Batch;
use crate::engine::{Direction, Engine, KeyRange, Table, TableReader};
use crate::error::{Error, Result};
use crate::limits;
use arrivals::{Arrival, Arrivals};
use chunk::Codec;
use content_cache::ContentCache;

/// The attachments of a store.
pub struct Blobs {
    engine: Arc<dyn Engine>,
    cipher: Option<BlobCipher>,
    codec: Codec,
    grace: Duration,
    /// Lock that separates writers from the collector. Writers hold the read side until their batch is committed; the
    /// collector takes the write side.
    gate: RwLock<()>,
    /// Cache of content that is known to be in the engine. Changed only while the gate is held.
    known: Cache<BlobId, ()>,
    /// Cache of content that will probably be read soon: what was added and is one chunk, and chunks read in parts.
    content: ContentCache,
    arrivals: Arc<Arrivals>,
}

/// A part of a chunk of an attachment.
struct ChunkPart<'blob> {
    id: &'blob BlobId,
    head: &'blob BlobHead,
    number: u32,
    /// The bytes, counted from the start of the chunk.
    bytes: Range<u64>,
}

impl Blobs {
    /// Opens the attachments of an engine. Refuses a key other than the one they were written with.
    pub fn open(engine: Arc<dyn Engine>, options: &BlobOptions) -> Result<Self> {
        let cipher = options.encryption_key.as_ref().map(BlobCipher::new);
        encryption::check_key(engine.as_ref(), cipher.as_ref())?;
        Ok(Self {
            engine,
            cipher,
            codec: Codec::new((options.codec == BlobCodec::Zstd).then_some(options.compression_level)),
            grace: options.grace,
            gate: RwLock::new(()),
            known: Cache::new(limits::PRESENT_BLOBS_CACHED_MAX),
            content: ContentCache::new(options.cache_bytes),
            arrivals: Arc::default(),
        })
    }

    /// Returns the fingerprint of the key that encrypts attachments, or `None` if they are not encrypted.
    #[must_use]
    pub fn key_fingerprint(&self) -> Option<[u8; 32]> {
        self.cipher.as_ref().map(BlobCipher::fingerprint)
    }

    /// Creates a writer that adds and releases attachments in one batch. Keep the writer until the batch is committed
    /// or dropped.
    pub fn writer(&self) -> BlobWriter<'_> {
        BlobWriter::new(self, self.gate.read())
    }

    /// Lets the collector leave out a content while it arrives.
    fn begin_arrival(&self, id: BlobId) -> Arrival {
        // A step of the collector has ended, or sees the arrival.
        let _gate = self.gate.read();
        self.arrivals.begin(id)
    }

    /// Reads an attachment.
    pub fn read(&self, reader: &dyn TableReader, id: &BlobId) -> Result<Vec<u8>> {
        self.read_range(reader, id, 0..u64::MAX)
    }

    /// Reads the part of an attachment that lies within `range`. Reads only the chunks that it needs.
    pub fn read_range(&self, reader: &dyn TableReader, id: &BlobId, range: Range<u64>) -> Result<Vec<u8>> {
        let head = self.head(reader, id)?.ok_or_else(|| missing(id))?;
        let end = range.end.min(head.length);
        if range.start >= end {
            return Ok(Vec::new());
        }
        let first = head.chunk_of(range.start);
        let last = head.chunk_of(end - 1);
        assert!(first <= last, "chunk numbers ascend with the position");
        assert!(head.chunk_start(first) <= range.start, "the range begins in its first chunk");
        let mut content = Vec::new();
        for number in first..=last {
            let start = head.chunk_start(number);
            let chunk_end = start + u64::from(head.chunk_length(number));
            let bytes = range.start.max(start) - start..end.min(chunk_end) - start;
            self.append_chunk(reader, &ChunkPart { id, head: &head, number, bytes }, &mut content)?;
        }
        assert_eq!(content.len() as u64, end - range.start, "the chunks have the length given in the head");
        Ok(content)
    }

    /// Returns the length of an attachment, or `None` if no attachment has this ID.
    pub fn length(&self, reader: &dyn TableReader, id: &BlobId) -> Result<Option<u64>> {
        Ok(self.head(reader, id)?.map(|head| head.length))
    }

    /// Returns the length of an attachment that must exist. Returns [`Error::Damaged`] if it does not.
    pub fn stored_length(&self, reader: &dyn TableReader, id: &BlobId) -> Result<u64> {
        self.length(reader, id)?.ok_or_else(|| missing(id))
    }

    /// Returns `true` if a note is a user of an attachment.
    pub fn has_user(&self, reader: &dyn TableReader, id: &BlobId, owner: BlobOwner) -> Result<bool> {
        Ok(reader.get(Table::BlobRef, &head::user_key(id, owner))?.is_some())
    }

    /// Returns `true` if a note of a database is a user of an attachment.
    pub fn has_user_in(&self, reader: &dyn TableReader, id: &BlobId, database: DbNumber) -> Result<bool> {
        let range = KeyRange::prefix(&head::users_prefix(id, database));
        Ok(reader.scan(Table::BlobRef, &range, Direction::Forward)?.next()?.is_some())
    }

    /// Computes the ID of a content.
    #[must_use]
    pub fn compute_id(&self, content: &[u8]) -> BlobId {
        self.id_of_hash(blake3::hash(content).as_bytes())
    }

    /// Returns the ID that the content with a BLAKE3 hash has in this store.
    #[must_use]
    pub fn id_of_hash(&self, hash: &[u8; 32]) -> BlobId {
        self.cipher.as_ref().map_or(BlobId(*hash), |cipher| cipher.id_of_hash(hash))
    }

    /// Returns `true` if the ID of each content is its BLAKE3 hash.
    #[must_use]
    pub fn names_by_hash(&self) -> bool {
        self.cipher.is_none()
    }

    /// Returns the BLAKE3 hash of an attachment. Reads the content if its head does not have the hash.
    pub fn content_hash(&self, reader: &dyn TableReader, id: &BlobId) -> Result<[u8; 32]> {
        let Some(cipher) = &self.cipher else { return Ok(id.0) };
        let head = self.head(reader, id)?.ok_or_else(|| missing(id))?;
        match &head.sealed_hash {
            Some(sealed) => {
                cipher.open_hash(id, sealed).ok_or_else(|| damaged(id, 0, "the hash of the content does not decrypt"))
            }
            // Content from before encryption is named by its hash. That of earlier versions is not, and other servers
            // cannot name it.
            None => match self.hash_in_pieces(reader, id, head.length)? {
                hash if hash == id.0 => Ok(hash),
                _ => Err(damaged(id, 0, "an earlier version has encrypted it, without its hash; save it again")),
            },
        }
    }

    fn hash_in_pieces(&self, reader: &dyn TableReader, id: &BlobId, length: u64) -> Result<[u8; 32]> {
        let mut hasher = blake3::Hasher::new();
        let mut start = 0;
        while start < length {
            let end = length.min(start + u64::from(limits::BLOB_CHUNK_BYTES));
            hasher.update(&self.read_range(reader, id, start..end)?);
            start = end;
        }
        Ok(*hasher.finalize().as_bytes())
    }

    /// Reads an attachment from the engine and compares it with its ID. This finds even damage that was stored with a
    /// valid checksum.
    pub fn verify(&self, reader: &dyn TableReader, id: &BlobId) -> Result<()> {
        let head = self.head(reader, id)?.ok_or_else(|| missing(id))?;
        let mut content = Vec::new();
        for number in 0..head.chunks() {
            content.extend_from_slice(&self.stored_chunk(reader, id, &head, number)?);
        }
        // Content that was written before encryption was enabled keeps its unkeyed ID, and so does that of earlier
        // versions.
        let hash = *blake3::hash(&content).as_bytes();
        if let (Some(cipher), Some(sealed)) = (&self.cipher, &head.sealed_hash)
            && cipher.open_hash(id, sealed) != Some(hash)
        {
            return Err(damaged(id, 0, "its head has the hash of another content"));
        }
        let is_earlier = || self.cipher.as_ref().is_some_and(|cipher| cipher.earlier_id_of(&content) == *id);
        if self.id_of_hash(&hash) == *id || BlobId(hash) == *id || is_earlier() {
            Ok(())
        } else {
            Err(damaged(id, 0, "the content does not match this hash"))
        }
    }

    fn head(&self, reader: &dyn TableReader, id: &BlobId) -> Result<Option<BlobHead>> {
        let key = head::head_key(id);
        let Some(record) = reader.get(Table::BlobRef, &key)? else { return Ok(None) };
        let head = decode_head(&record);
        head.map(Some).map_err(|error| Error::Damaged {
            table: Table::BlobRef,
            key: key.to_vec(),
            reason: error.to_string(),
        })
    }

    /// Appends a part of a chunk.
    fn append_chunk(&self, reader: &dyn TableReader, part: &ChunkPart<'_>, content: &mut Vec<u8>) -> Result<()> {
        let ChunkPart { id, head, number, ref bytes } = *part;
        let length = head.chunk_length(number);
        assert!(bytes.start <= bytes.end && bytes.end <= u64::from(length), "the part lies within its chunk");
        let bytes = bytes.start as usize..bytes.end as usize;
        if let Some(chunk) = self.content.get(id, number, length) {
            content.extend_from_slice(&chunk[bytes]);
            return Ok(());
        }
        let chunk = self.stored_chunk(reader, id, head, number)?;
        if bytes.len() < chunk.len() {
            self.content.insert(id, number, &chunk);
        }
        if bytes.len() == chunk.len() && content.is_empty() {
            *content = chunk;
        } else {
            content.extend_from_slice(&chunk[bytes]);
        }
        Ok(())
    }

    fn stored_chunk(&self, reader: &dyn TableReader, id: &BlobId, head: &BlobHead, number: u32) -> Result<Vec<u8>> {
        let key = chunk::chunk_key(id, number);
        let stored = reader.get(Table::Blob, &key)?.ok_or_else(|| damaged(id, number, "the chunk is missing"))?;
        let length = head.chunk_length(number);
        let raw = self.codec.decode(id, number, length, self.cipher.as_ref(), &stored);
        raw.map_err(|error| damaged(id, number, &error.to_string()))
    }

    /// Returns `true` if the content is in the engine. The caller holds the gate, so that the content stays there.
    fn is_present(&self, id: &BlobId) -> Result<bool> {
        if self.known.get(id).is_some() {
            return Ok(true);
        }
        let present = self.engine.get(Table::BlobRef, &head::head_key(id))?.is_some();
        if present {
            self.known.insert(*id, ());
        }
        Ok(present)
    }

    /// Adds the chunks and the head of a content to a batch. Calls `each` before each chunk.
    fn add_content<E: From<Error>>(
        &self,
        batch: &mut Batch,
        hash: &[u8; 32],
        content: &[u8],
        each: &mut dyn FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let id = &self.id_of_hash(hash);
        let mut stored_length = 0_u64;
        for (number, raw) in content.chunks(limits::BLOB_CHUNK_BYTES as usize).enumerate() {
            each()?;
            let number = u32::try_from(number).expect("the length of the content was checked");
            let stored = self.codec.encode(id, number, self.cipher.as_ref(), raw)?;
            stored_length += stored.len() as u64;
            batch.put(Table::Blob, &chunk::chunk_key(id, number), &stored);
            if raw.len() == content.len() {
                self.content.insert(id, number, raw);
            }
        }
        Ok(self.add_head(batch, hash, (content.len() as u64, stored_length))?)
    }

    /// Adds the head of a content to a batch: from then on the content exists. The lengths are that of the content and
    /// that of its chunks as stored, in bytes.
    fn add_head(&self, batch: &mut Batch, hash: &[u8; 32], (length, stored_length): (u64, u64)) -> Result<()> {
        let id = &self.id_of_hash(hash);
        let sealed_hash = self.cipher.as_ref().map(|cipher| cipher.seal_hash(id, hash)).transpose()?;
        let head = BlobHead { length, stored_length, chunk_length: limits::BLOB_CHUNK_BYTES, sealed_hash };
        batch.put(Table::BlobRef, &head::head_key(id), &head::encode_head(&head));
        Ok(())
    }
}

/// Checks the length of a content. Returns [`Error::Failed`] if it exceeds [`limits::BLOB_BYTES_MAX`].
fn check_length(content: &[u8]) -> Result<()> {
    if content.len() as u64 <= limits::BLOB_BYTES_MAX {
        return Ok(());
    }
    let reason = format!("{} bytes exceed the maximum of {}", content.len(), limits::BLOB_BYTES_MAX);
    Err(Error::Failed { what: "store an attachment", reason })
}

fn missing(id: &BlobId) -> Error {
    let key = head::head_key(id).to_vec();
    Error::Damaged { table: Table::BlobRef, key, reason: format!("attachment {id} is missing") }
}

fn damaged(id: &BlobId, number: u32, reason: &str) -> Error {
    let key = chunk::chunk_key(id, number).to_vec();
    Error::Damaged { table: Table::Blob, key, reason: format!("attachment {id}, chunk {number}: {reason}") }
}

#[cfg(test)]
mod tests;
