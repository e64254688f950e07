//! Options of the blob store.

use std::time::Duration;

/// The codec with which new content is compressed. Content that is there stays readable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BlobCodec {
    /// Zstandard, of the chunks for which it pays.
    #[default]
    Zstd,
    /// LZ4, by the engine. It has no effect on encrypted content, which the engine cannot compress.
    Lz4,
    /// None.
    None,
}

/// Options for storing attachments.
#[derive(Clone)]
pub struct BlobOptions {
    /// Key that encrypts the content and hides its hash, if set. A store that was written with a key opens only with
    /// the same key.
    pub encryption_key: Option<[u8; 32]>,
    /// The codec of new content.
    pub codec: BlobCodec,
    /// zstd compression level: 1 is fast, 3 compresses better, negative levels are faster still.
    pub compression_level: i32,
    /// Time for which content without users is kept.
    pub grace: Duration,
    /// Memory for the cache of content that was written or partly read recently, in bytes. Zero: no cache.
    pub cache_bytes: usize,
}

impl Default for BlobOptions {
    fn default() -> Self {
        Self {
            encryption_key: None,
            codec: BlobCodec::default(),
            compression_level: 1,
            grace: Duration::from_hours(24),
            cache_bytes: 0,
        }
    }
}

impl std::fmt::Debug for BlobOptions {
    /// Formats the options without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobOptions")
            .field("encrypted", &self.encryption_key.is_some())
            .field("codec", &self.codec)
            .field("compression_level", &self.compression_level)
            .field("grace", &self.grace)
            .field("cache_bytes", &self.cache_bytes)
            .finish()
    }
}
