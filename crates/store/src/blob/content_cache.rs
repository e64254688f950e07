//! A cache of the content of attachments.
//!
//! Mail is often read soon after it has been delivered, by every device of its recipient, and large parts are often
//! read piece by piece. The cache holds chunks of both kinds, uncompressed, so that they are not decompressed each
//! time. Content of several chunks is not added when it is written, and chunks that are read as a whole are not added
//! either: a large attachment, or a client that downloads a mailbox, would replace everything else.
//!
//! A chunk of a blob never changes, so entries are never invalidated. Reads go through the head of the blob, so an
//! entry whose blob was removed, or never committed, is not found.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::id::BlobId;

/// The size of a chunk in the cache, as far as the cache must know it in advance.
const TYPICAL_BYTES: usize = 8 << 10;
/// Fraction of the memory for chunks that were found at least once. The rest keeps new content until its first read.
const HOT_FRACTION: f64 = 0.25;
/// Approximate memory of an entry without its content.
const OVERHEAD_BYTES: usize = 128;

/// A blob and the number of a chunk of it.
type ChunkKey = (BlobId, u32);

/// A cache of chunks.
pub(super) struct ContentCache {
    /// `None` if the cache has no memory.
    chunks: Option<Cache<ChunkKey, Arc<[u8]>, ChunkWeighter>>,
}

impl ContentCache {
    /// Creates a cache of at most `bytes_max` bytes. With zero it stays empty.
    pub(super) fn new(bytes_max: usize) -> Self {
        let create = || {
            let options = OptionsBuilder::new()
                .estimated_items_capacity(bytes_max.div_ceil(TYPICAL_BYTES))
                .weight_capacity(bytes_max as u64)
                .hot_allocation(HOT_FRACTION)
                .build()
                .expect("all required options are set");
            Cache::with_options(options, ChunkWeighter, DefaultHashBuilder::default(), DefaultLifecycle::default())
        };
        Self { chunks: (bytes_max > 0).then(create) }
    }

    /// Returns the content of a chunk of `length` bytes.
    pub(super) fn get(&self, id: &BlobId, number: u32, length: u32) -> Option<Arc<[u8]>> {
        let chunk = self.chunks.as_ref()?.get(&(*id, number))?;
        (chunk.len() == length as usize).then_some(chunk)
    }

    /// Adds the content of a chunk.
    pub(super) fn insert(&self, id: &BlobId, number: u32, content: &[u8]) {
        if let Some(chunks) = &self.chunks {
            chunks.insert((*id, number), content.into());
        }
    }
}

#[derive(Clone)]
struct ChunkWeighter;

impl Weighter<ChunkKey, Arc<[u8]>> for ChunkWeighter {
    fn weight(&self, _: &ChunkKey, content: &Arc<[u8]>) -> u64 {
        (OVERHEAD_BYTES + content.len()) as u64
    }
}
