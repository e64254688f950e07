//! Heads of messages in memory: structure and header, which lists and searches read again and again.
//!
//! A head is kept under the name of its note and of the state of its database's contents
//! ([`notes::Reading::contents_version`]), so that one of other items is never taken for it. All mail files share [`HEADS_BYTES_MAX`];
//! those that are asked for least go first.

use std::sync::Arc;

use base::{DbNumber, Modseq, NoteId};
use notes::{Reading, Value};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::error::{Error, Result};
use crate::limits::HEADS_BYTES_MAX;
use crate::message::{HEAD_ORDINAL, decode_head};
use crate::mime::Structure;

/// Structure and header of a message.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) structure: Structure,
    /// The item `$Head`; the header of the message begins at `header_start`.
    bytes: Vec<u8>,
    header_start: usize,
}

impl Head {
    /// Gives the header's bytes.
    pub(crate) fn header(&self) -> &[u8] {
        &self.bytes[self.header_start..]
    }
}

/// The heads of a server's messages.
#[derive(Debug)]
pub(crate) struct Heads {
    cache: Cache<Key, Arc<Head>, ByBytes>,
}

type Key = (DbNumber, NoteId, Modseq);

impl Default for Heads {
    fn default() -> Self {
        Self { cache: Cache::with_weighter(HEADS_BYTES_MAX / TYPICAL_BYTES, HEADS_BYTES_MAX as u64, ByBytes) }
    }
}

impl Heads {
    /// Gives the head of a message that the reader may see.
    pub(crate) fn get(&self, reading: &Reading<'_>, note: NoteId) -> Result<Arc<Head>> {
        let Some(version) = reading.contents_version() else { return load(reading, note).map(Arc::new) };
        let key = (reading.database().number(), note, version);
        if let Some(head) = self.cache.get(&key) {
            return Ok(head);
        }
        let head = Arc::new(load(reading, note)?);
        self.cache.insert(key, Arc::clone(&head));
        Ok(head)
    }
}

/// What a head takes, about, with the parts of its structure.
const TYPICAL_BYTES: usize = 2_048;

#[derive(Clone, Debug)]
struct ByBytes;

impl Weighter<Key, Arc<Head>> for ByBytes {
    fn weight(&self, _: &Key, head: &Arc<Head>) -> u64 {
        const OVERHEAD_BYTES: usize = 256;
        // The stored form of the structure, at the front, is a fraction of the one in memory.
        const STRUCTURE_FACTOR: usize = 4;
        (OVERHEAD_BYTES + head.bytes.capacity() + STRUCTURE_FACTOR * head.header_start) as u64
    }
}

/// Reads the head of a message.
pub(crate) fn load(reading: &Reading<'_>, note: NoteId) -> Result<Head> {
    let Some(Value::MimePart(bytes)) = reading.body_item(note, HEAD_ORDINAL)?.map(|item| item.value) else {
        return Err(Error::Damaged("message without its parts"));
    };
    let (structure, header_start) = decode_head(&bytes)?;
    Ok(Head { structure, bytes, header_start })
}
