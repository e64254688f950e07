//! In-memory cache of message heads: structure and header, which lists and searches read again and again.
//!
//! The key of a head contains its note and the version of its database's contents
//! ([`DatabaseSnapshot::contents_version`]). So the cache never returns a head that was built from other items. All
//! mail files share a capacity of [`HEAD_CACHE_BYTES_MAX`]. The least requested heads are evicted first.
//!
//! A head also keeps the texts that protocols derive from the message ([`HeadText`]). The capacity counts the maximum
//! length of these texts in advance.
//!
//! The sizes of composed messages are cached apart ([`SizedVersion`]), because a list of sizes reads all of them, and a
//! change of one note does not change the others.

use std::sync::{Arc, OnceLock};

use base::{DbNumber, Modseq, NoteId, Timestamp};
use notes::{DatabaseSnapshot, ItemValue, NoteHeader};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::error::Result;
use crate::limits::{COMPOSED_SIZES_MAX, HEAD_CACHE_BYTES_MAX};
use crate::mailbox::composed_message;
use crate::message::{HEAD_ORDINAL, decode_head};
use crate::mime::Structure;

/// A text that depends on nothing but the message, and that clients request again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadText {
    /// ENVELOPE (RFC 9051 §7.5.2).
    Envelope,
    /// BODYSTRUCTURE (RFC 9051 §7.5.2).
    BodyStructure,
    /// The beginning of the displayed text (RFC 8970).
    Preview,
}

/// The structure and the header of a message.
#[derive(Debug)]
pub(crate) struct MessageHead {
    pub(crate) structure: Structure,
    /// The item `$Head`. The header of the message begins at `header_start`.
    bytes: Vec<u8>,
    header_start: usize,
    /// `true` if the note has no message, so that this one is composed from its items.
    pub(crate) is_composed: bool,
    /// The texts that were cached, by [`HeadText`].
    texts: [OnceLock<Box<[u8]>>; 3],
}

impl MessageHead {
    /// Returns the bytes of the header.
    pub(crate) fn header(&self) -> &[u8] {
        &self.bytes[self.header_start..]
    }

    /// Returns a text that was cached.
    pub(crate) fn text(&self, text: HeadText) -> Option<&[u8]> {
        self.texts[text as usize].get().map(|bytes| &bytes[..])
    }

    /// Caches a text, unless the texts would be longer than [`MessageHead::texts_bytes_max`].
    pub(crate) fn cache_text(&self, text: HeadText, bytes: &[u8]) {
        let cached: usize = self.texts.iter().filter_map(OnceLock::get).map(|bytes| bytes.len()).sum();
        if cached + bytes.len() <= self.texts_bytes_max() {
            // If another session has cached the same text meanwhile, that one stays.
            let _ = self.texts[text as usize].set(bytes.into());
        }
    }

    /// Returns the maximum length of all texts that are cached: the length of the head. The texts of a short head can
    /// be longer than it, because they repeat its addresses, name the type and encoding of each part, and have the
    /// beginning of the text.
    fn texts_bytes_max(&self) -> usize {
        self.bytes.capacity().max(TEXTS_BYTES_MIN)
    }
}

/// A cache of message heads for all mail files of a server.
#[derive(Debug)]
pub(crate) struct HeadCache {
    cache: Cache<Key, Arc<MessageHead>, HeadWeighter>,
    sizes: Cache<SizedVersion, u64>,
}

/// A version of a note whose message is composed. Received versions of one revision can differ, but not in their time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SizedVersion {
    database: DbNumber,
    note: NoteId,
    revision: [u8; 20],
    time: Timestamp,
    is_truncated: bool,
}

impl SizedVersion {
    pub(crate) fn of(reading: &DatabaseSnapshot<'_>, header: &NoteHeader) -> Self {
        Self {
            database: reading.database().number(),
            note: header.note,
            revision: header.revision().to_bytes(),
            time: header.sequence_time,
            is_truncated: header.is_truncated(),
        }
    }
}

type Key = (DbNumber, NoteId, Modseq);

impl Default for HeadCache {
    fn default() -> Self {
        Self {
            cache: Cache::with_weighter(
                HEAD_CACHE_BYTES_MAX / TYPICAL_BYTES,
                HEAD_CACHE_BYTES_MAX as u64,
                HeadWeighter,
            ),
            sizes: Cache::new(COMPOSED_SIZES_MAX),
        }
    }
}

impl HeadCache {
    /// Returns the head of a message that the reader may see.
    pub(crate) fn get(&self, reading: &DatabaseSnapshot<'_>, note: NoteId) -> Result<Arc<MessageHead>> {
        let Some(version) = reading.contents_version() else { return load(reading, note).map(Arc::new) };
        let key = (reading.database().number(), note, version);
        if let Some(head) = self.cache.get(&key) {
            return Ok(head);
        }
        let head = Arc::new(load(reading, note)?);
        self.cache.insert(key, Arc::clone(&head));
        Ok(head)
    }

    /// Returns the cached size of a composed message.
    pub(crate) fn size(&self, version: &SizedVersion) -> Option<u64> {
        self.sizes.get(version)
    }

    /// Caches the size of a composed message.
    pub(crate) fn cache_size(&self, version: SizedVersion, size: u64) {
        self.sizes.insert(version, size);
    }
}

/// Maximum length of the texts of a short head: 1,024 bytes for those of IMAP, and the usual preview.
const TEXTS_BYTES_MIN: usize = 1_280;

/// Approximate size of a head in memory, including the parts of its structure.
const TYPICAL_BYTES: usize = 2_048;

#[derive(Clone, Debug)]
struct HeadWeighter;

impl Weighter<Key, Arc<MessageHead>> for HeadWeighter {
    fn weight(&self, _: &Key, head: &Arc<MessageHead>) -> u64 {
        const OVERHEAD_BYTES: usize = 256;
        // The stored form of the structure, at the front, is a fraction of the one in memory.
        const STRUCTURE_FACTOR: usize = 4;
        let bytes = head.bytes.capacity() + head.texts_bytes_max();
        (OVERHEAD_BYTES + bytes + STRUCTURE_FACTOR * head.header_start) as u64
    }
}

/// Reads the head of a message, or composes it if the note has no message.
pub(crate) fn load(reading: &DatabaseSnapshot<'_>, note: NoteId) -> Result<MessageHead> {
    let stored = reading.body_item(note, HEAD_ORDINAL)?.map(|item| item.value);
    let is_composed = !matches!(stored, Some(ItemValue::MimePart(_)));
    let bytes = match stored {
        Some(ItemValue::MimePart(bytes)) => bytes,
        _ => composed_message::read(reading, note)?.head,
    };
    let (structure, header_start) = decode_head(&bytes)?;
    Ok(MessageHead { structure, bytes, header_start, is_composed, texts: Default::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_texts_are_limited_to_the_head_size() {
        let raw = b"Subject: x\r\n\r\n";
        let structure = crate::mime::parse(raw);
        let head = |length| MessageHead {
            structure: structure.clone(),
            bytes: vec![0; length],
            header_start: 20,
            is_composed: false,
            texts: Default::default(),
        };
        for (length, bytes_max) in [(100, TEXTS_BYTES_MIN), (3_000, 3_000)] {
            let head = head(length);
            head.cache_text(HeadText::BodyStructure, &vec![b'b'; bytes_max + 1]);
            assert_eq!(head.text(HeadText::BodyStructure), None);
            head.cache_text(HeadText::Envelope, &[b'e'; 60]);
            head.cache_text(HeadText::BodyStructure, &vec![b'b'; bytes_max - 59]);
            assert_eq!(head.text(HeadText::BodyStructure), None);
            assert_eq!(head.text(HeadText::Envelope), Some(&[b'e'; 60][..]));
            head.cache_text(HeadText::BodyStructure, &vec![b'b'; bytes_max - 60]);
            assert_eq!(head.text(HeadText::BodyStructure).map(<[u8]>::len), Some(bytes_max - 60));
        }
    }
}
