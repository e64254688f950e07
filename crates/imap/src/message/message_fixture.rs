//! A message in memory, for the tests and fuzzers of this module.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::convert::Infallible;
use std::ops::Range;

use base::Timestamp;
use mail::mailbox::HeadText;
use mail::mime::{InMemoryMessage, MimeSource, Structure, parse};

use super::entry::{EntryData, MessageSource};
use crate::codec::command::SystemFlags;

/// The data that a folder would keep of a message.
#[derive(Debug, Clone, Default)]
pub struct EntryFixture {
    pub uid: u32,
    pub flags: SystemFlags,
    pub keywords: Vec<&'static str>,
    pub recent: bool,
    pub mod_sequence: u64,
    pub size: u64,
    pub received: Timestamp,
    pub saved: Option<Timestamp>,
    pub excluded: Vec<usize>,
}

impl EntryData for EntryFixture {
    fn uid(&self) -> u32 {
        self.uid
    }

    fn flags(&self) -> SystemFlags {
        self.flags
    }

    fn has_keyword(&self, keyword: &str) -> bool {
        self.keywords.iter().any(|own| own.eq_ignore_ascii_case(keyword))
    }

    fn is_recent(&self) -> bool {
        self.recent
    }

    fn is_changed_since(&self, mod_sequence: u64) -> bool {
        self.mod_sequence >= mod_sequence
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn received(&self) -> Timestamp {
        self.received
    }

    fn saved(&self) -> Option<Timestamp> {
        self.saved
    }

    fn is_known_not_to_contain(&self, number: usize) -> bool {
        self.excluded.contains(&number)
    }
}

/// A message whose bytes are in memory. It counts how often they are read.
pub struct MessageFixture<'a> {
    raw: &'a [u8],
    structure: Structure,
    pub entry: EntryFixture,
    pub reads: Cell<usize>,
    head_texts: [OnceCell<Vec<u8>>; 2],
}

impl<'a> MessageFixture<'a> {
    /// Parses a message.
    pub fn parse(raw: &'a [u8]) -> Self {
        let entry = EntryFixture { uid: 1, size: raw.len() as u64, ..EntryFixture::default() };
        Self { raw, structure: parse(raw), entry, reads: Cell::new(0), head_texts: Default::default() }
    }
}

impl MimeSource for MessageFixture<'_> {
    type Error = Infallible;

    fn header(&self) -> &[u8] {
        &self.raw[..self.structure.root().header.end as usize]
    }

    fn structure(&self) -> &Structure {
        &self.structure
    }

    fn range(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, Infallible> {
        self.reads.set(self.reads.get() + 1);
        InMemoryMessage::new(self.raw, &self.structure).range(range).map(|bytes| Cow::Owned(bytes.into_owned()))
    }
}

impl MessageSource for MessageFixture<'_> {
    fn email_id(&self) -> Result<String, Infallible> {
        Ok(format!("M{}", self.entry.uid))
    }

    fn thread_id(&self) -> Result<Option<String>, Infallible> {
        Ok((self.entry.uid > 1).then(|| "T1".to_owned()))
    }

    fn head_text(&self, text: HeadText) -> Option<&[u8]> {
        self.head_texts[text as usize].get().map(Vec::as_slice)
    }

    fn cache_head_text(&self, text: HeadText, bytes: &[u8]) {
        assert_eq!(self.head_texts[text as usize].set(bytes.to_vec()), Ok(()), "a kept text is written once");
    }
}
