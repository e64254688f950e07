//! A stored message.
//!
//! The header and the structure are read when the message is opened. The rest is read when a range of it is requested,
//! and only those contents that the range overlaps. A note without a message is read as one that is composed from its
//! items (`composed_message`).

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use base::{NoteId, Unid};
use notes::thread_index::thread_id_of;
use notes::{DatabaseSnapshot, ItemValue, NoteHeader};
use store::blob::BlobId;

use crate::error::{Error, Result};
use crate::import_export::FileQuirks;
use crate::mailbox::composed_message;
use crate::mailbox::head_cache::{self, HeadCache, HeadText, MessageHead};
use crate::message::SKELETON_ORDINAL;
use crate::mime::message_source::slice;
use crate::mime::skeleton::Skeleton;
use crate::mime::structure::TransferEncoding;
use crate::mime::{MimeSource, Part, Structure, text};
use crate::threads::computed_thread_id;

/// Maximum length of a skeleton that is decoded again for each range.
const CHEAP_SKELETON_BYTES_MAX: usize = 64 << 10;

/// Maximum length of a content that is encoded as a whole for each range of its part.
const CHEAP_PART_BYTES_MAX: u64 = 64 << 10;

/// The content of a part that is stored decoded, apart from its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeparateContent {
    id: BlobId,
    length: u64,
}

impl SeparateContent {
    /// Returns the number of bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }
}

/// A message of a mail file, in a snapshot of the mail file.
pub struct Message<'v> {
    reading: &'v DatabaseSnapshot<'v>,
    note: NoteId,
    head: Arc<MessageHead>,
    /// The item `$MIME`. It is read when it is first needed.
    skeleton: OnceCell<Vec<u8>>,
    /// The decoded contents of parts, by the index of the part.
    separate: OnceCell<Vec<Option<SeparateContent>>>,
    /// The whole message, if [`Message::prepare_for_parts`] has read it.
    whole: OnceCell<Vec<u8>>,
}

impl<'v> Message<'v> {
    /// Opens a message that the reader may see.
    pub(crate) fn open(reading: &'v DatabaseSnapshot<'v>, note: NoteId, heads: &HeadCache) -> Result<Self> {
        Ok(Self::new(reading, note, heads.get(reading, note)?))
    }

    /// Opens a message that is read only once. Its head is not added to the cache.
    pub(crate) fn open_uncached(reading: &'v DatabaseSnapshot<'v>, note: NoteId) -> Result<Self> {
        Ok(Self::new(reading, note, Arc::new(head_cache::load(reading, note)?)))
    }

    fn new(reading: &'v DatabaseSnapshot<'v>, note: NoteId, head: Arc<MessageHead>) -> Self {
        Self { reading, note, head, skeleton: OnceCell::new(), separate: OnceCell::new(), whole: OnceCell::new() }
    }

    /// Returns the universal identifier of the note.
    pub fn unid(&self) -> Result<Unid> {
        Ok(self.note_header()?.unid)
    }

    fn note_header(&self) -> Result<NoteHeader> {
        self.reading.header(self.note)?.ok_or(Error::Damaged("message: its note is missing"))
    }

    /// Returns the identifier of the message (RFC 8474: EMAILID). A message never changes its contents, so that of a
    /// document without one names the version of the document, too.
    pub fn email_id(&self) -> Result<String> {
        let header = self.note_header()?;
        let unid = header.unid;
        if !self.head.is_composed {
            return Ok(format!("M{unid}"));
        }
        Ok(format!("M{unid}-{}-{:x}", header.revision(), header.sequence_time.0))
    }

    /// Returns the identifier of the message's thread (RFC 8474: THREADID; RFC 8621: `threadId`). It never changes.
    pub fn thread_id(&self) -> Result<String> {
        let summary = self.reading.summary(self.note)?;
        let items = summary.as_ref().map_or(&[][..], |summary| &summary.items);
        match thread_id_of(items) {
            Some(id) => Ok(id.to_owned()),
            None => Ok(computed_thread_id(self.note_header()?.unid)),
        }
    }

    /// Returns the unusual properties of the file that the message was imported from.
    pub fn file_form(&self) -> Result<FileQuirks> {
        let summary = self.reading.summary(self.note)?;
        Ok(FileQuirks::from_items(summary.as_ref().map_or(&[][..], |summary| &summary.items)))
    }

    /// Returns the whole message.
    pub fn raw(&self) -> Result<Vec<u8>> {
        Ok(self.range(0..self.head.structure.length())?.into_owned())
    }

    /// Returns a text that [`Message::cache_head_text`] has cached with the head, or `None` if none is cached.
    #[must_use]
    pub fn head_text(&self, text: HeadText) -> Option<&[u8]> {
        self.head.text(text)
    }

    /// Caches a text for later readers of the same message. A text that is longer than the head is not cached.
    pub fn cache_head_text(&self, text: HeadText, bytes: &[u8]) {
        self.head.cache_text(text, bytes);
    }

    /// Returns `true` if any range of the message can be read at a cost that depends on the range. Otherwise each
    /// read costs as much as a large part of the message.
    pub fn has_cheap_ranges(&self) -> Result<bool> {
        let skeleton = self.skeleton()?;
        if skeleton.len() > CHEAP_SKELETON_BYTES_MAX {
            return Ok(false);
        }
        let skeleton = Skeleton::decode(skeleton)?;
        Ok(!skeleton.parts().any(|part| part.is_encoded_whole() && part.content_length > CHEAP_PART_BYTES_MAX))
    }

    /// Prepares the message for reads of many of its parts: reads it as a whole if its ranges are not cheap.
    pub fn prepare_for_parts(&self) -> Result<()> {
        if self.whole.get().is_none() && !self.has_cheap_ranges()? {
            let whole = self.raw()?;
            self.whole.get_or_init(|| whole);
        }
        Ok(())
    }

    /// Returns the content of the leaf part with an index, if it is in base64 and stored decoded.
    pub fn separate_content(&self, index: usize) -> Result<Option<SeparateContent>> {
        let contents = match self.separate.get() {
            Some(contents) => contents,
            None => {
                let contents = self.load_separate_contents()?;
                self.separate.get_or_init(|| contents)
            }
        };
        Ok(contents.get(index).copied().flatten())
    }

    fn load_separate_contents(&self) -> Result<Vec<Option<SeparateContent>>> {
        let skeleton = Skeleton::decode(self.skeleton()?)?;
        let content = |part: &Part| {
            let body = self.below_header(&part.body).filter(|_| part.content.encoding == TransferEncoding::Base64)?;
            let stored = skeleton.decoded_body(&body)?;
            Some(SeparateContent { id: BlobId(stored.content.0), length: stored.content_length })
        };
        Ok(self.head.structure.parts().iter().map(content).collect())
    }

    /// Returns a range of the content of a part.
    pub fn separate_content_range(&self, content: &SeparateContent, range: Range<u64>) -> Result<Vec<u8>> {
        Ok(self.reading.blob_range(self.note, &content.id, range)?)
    }

    /// Returns a range of the message as one of what follows its header, or `None` if it begins in the header.
    fn below_header(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let header_length = self.head.header().len() as u64;
        Some(range.start.checked_sub(header_length)?..range.end.checked_sub(header_length)?)
    }

    fn skeleton(&self) -> Result<&[u8]> {
        if let Some(bytes) = self.skeleton.get() {
            return Ok(bytes);
        }
        let bytes = match self.head.is_composed {
            true => composed_message::read(self.reading, self.note)?.skeleton,
            false => load_skeleton(self.reading, self.note)?,
        };
        Ok(self.skeleton.get_or_init(|| bytes))
    }
}

impl MimeSource for Message<'_> {
    type Error = Error;

    fn header(&self) -> &[u8] {
        self.head.header()
    }

    fn structure(&self) -> &Structure {
        &self.head.structure
    }

    fn range(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        if let Some(whole) = self.whole.get() {
            return Ok(Cow::Borrowed(slice(whole, &range)));
        }
        let header = MimeSource::header(self);
        let header_length = header.len() as u64;
        if range.end <= header_length {
            return Ok(Cow::Borrowed(slice(header, &range)));
        }
        let skeleton = Skeleton::decode(self.skeleton()?)?;
        let below = range.start.saturating_sub(header_length)..range.end.saturating_sub(header_length);
        let read = |id: &crate::mime::skeleton::ContentId, range| {
            Ok::<_, Error>(self.reading.blob_range(self.note, &BlobId(id.0), range)?)
        };
        let rest = skeleton.range(below, read)?;
        if range.start >= header_length {
            return Ok(Cow::Owned(rest));
        }
        let mut whole = slice(header, &(range.start..header_length)).to_vec();
        whole.extend_from_slice(&rest);
        Ok(Cow::Owned(whole))
    }

    fn content_length(&self, index: usize) -> Result<Option<u64>> {
        Ok(self.separate_content(index)?.map(|content| content.length))
    }

    fn preview(&self) -> Result<String> {
        if let Some(cached) = self.head.text(HeadText::Preview) {
            return Ok(String::from_utf8_lossy(cached).into_owned());
        }
        let preview = text::preview(self)?;
        self.head.cache_text(HeadText::Preview, preview.as_bytes());
        Ok(preview)
    }
}

fn load_skeleton(reading: &DatabaseSnapshot<'_>, note: NoteId) -> Result<Vec<u8>> {
    match reading.body_item(note, SKELETON_ORDINAL)?.map(|item| item.value) {
        Some(ItemValue::MimePart(bytes)) => Ok(bytes),
        _ => Err(Error::Damaged("message: its MIME skeleton is missing")),
    }
}
