//! Items: the named, typed values of a note.
//!
//! Names are compared without regard to case and keep the case in which they were written. A name may occur several
//! times (rich text in pieces, one `$FILE` per attachment). *Summary* items are stored together in one small record
//! that views, lists and envelopes read. The others are stored in the body, each on its own.
//!
//! Format of an item (`docs/note-format.md`): name (text), flags (u16), type (u8), value.

use base::codec::{Decoder, Encoder, InvalidRecord, bytes_len, varint_len};
use base::limits::{ITEM_NAME_BYTES_MAX, ITEMS_PER_NOTE_MAX, SUMMARY_BYTES_MAX};
use base::{Timestamp, Unid};
use store::blob::BlobId;

use crate::error::{Error, Result};
use crate::limits::{ACCESS_NAMES_PER_NOTE_MAX, BODY_ITEM_BYTES_MAX, BODY_ITEMS_MAX, LIST_VALUES_MAX};

/// The number of the type of references to other notes.
const NOTE_REFERENCES_TYPE: u8 = 10;

/// Properties of an item in addition to its value. The flags are those of Domino.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ItemFlags(pub u16);

bitflags::bitflags! {
    impl ItemFlags: u16 {
        /// No flag.
        const NONE = 0;
        /// The item is part of the digital signature.
        const SIGNED = 0x0001;
        /// The item is stored in the summary record. Views and formulas see only such items.
        const SUMMARY = 0x0004;
        /// An Authors item: its names may change the document although their level is only Author.
        const AUTHORS = 0x0020;
        /// The value is a list of names.
        const NAMES = 0x0040;
        /// Changing the item requires Editor access.
        const PROTECTED = 0x0200;
        /// A Readers item: only its names may read the document.
        const READERS = 0x0400;
    }
}

/// The value of an item.
#[derive(Clone, PartialEq, Debug)]
pub enum ItemValue {
    /// One text.
    Text(String),
    /// Several texts.
    TextList(Vec<String>),
    /// One number.
    Number(f64),
    /// Several numbers.
    NumberList(Vec<f64>),
    /// One point in time.
    Time(Timestamp),
    /// Several points in time.
    TimeList(Vec<Timestamp>),
    /// Rich text, as HTML.
    RichText(String),
    /// A piece of a MIME message, byte for byte.
    MimePart(Vec<u8>),
    /// An attachment: its file name, media type, length in bytes and content in the blob store.
    Object { file_name: String, media_type: String, length: u64, blob: BlobId },
    /// References to other notes.
    NoteReferences(Vec<Unid>),
    /// A JSON value that no other type represents without loss: a Boolean, null, an object, a mixed list, or a number
    /// that is no double. The text is as it was written, without spaces between the parts.
    Json(String),
}

impl ItemValue {
    /// Returns the texts of a text or a text list, or an empty slice for other types.
    #[must_use]
    pub fn texts(&self) -> &[String] {
        match self {
            Self::Text(text) => std::slice::from_ref(text),
            Self::TextList(texts) => texts,
            _ => &[],
        }
    }

    /// Returns the first text of a text or a text list.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.texts().first().map(String::as_str)
    }

    /// Returns the first number of a number or a number list.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::NumberList(numbers) => numbers.first().copied(),
            _ => None,
        }
    }

    /// Returns the first time of a time or a time list.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        match self {
            Self::Time(time) => Some(*time),
            Self::TimeList(times) => times.first().copied(),
            _ => None,
        }
    }

    /// Returns the number of values: the length of a list, otherwise 1.
    fn count(&self) -> usize {
        match self {
            Self::TextList(texts) => texts.len(),
            Self::NumberList(numbers) => numbers.len(),
            Self::TimeList(times) => times.len(),
            Self::NoteReferences(unids) => unids.len(),
            Self::Text(_)
            | Self::Number(_)
            | Self::Time(_)
            | Self::RichText(_)
            | Self::MimePart(_)
            | Self::Object { .. }
            | Self::Json(_) => 1,
        }
    }

    fn type_number(&self) -> u8 {
        match self {
            Self::Text(_) => 1,
            Self::TextList(_) => 2,
            Self::Number(_) => 3,
            Self::NumberList(_) => 4,
            Self::Time(_) => 5,
            Self::TimeList(_) => 6,
            Self::RichText(_) => 7,
            Self::MimePart(_) => 8,
            Self::Object { .. } => 9,
            Self::NoteReferences(_) => NOTE_REFERENCES_TYPE,
            Self::Json(_) => 11,
        }
    }

    fn encode(&self, out: &mut Encoder) {
        out.u8(self.type_number());
        match self {
            Self::Text(text) | Self::RichText(text) | Self::Json(text) => {
                out.text(text);
            }
            Self::TextList(texts) => encode_list(out, texts, |out, text| out.text(text)),
            Self::Number(number) => {
                out.u64(number.to_bits());
            }
            Self::NumberList(numbers) => encode_list(out, numbers, |out, number| out.u64(number.to_bits())),
            Self::Time(time) => {
                out.i64(time.0);
            }
            Self::TimeList(times) => encode_list(out, times, |out, time| out.i64(time.0)),
            Self::MimePart(bytes) => {
                out.bytes(bytes);
            }
            Self::Object { file_name, media_type, length, blob } => {
                out.text(file_name).text(media_type).varint(*length).raw(&blob.0);
            }
            Self::NoteReferences(unids) => encode_list(out, unids, |out, unid| out.raw(&unid.0)),
        }
    }

    /// Returns the number of bytes that [`ItemValue::encode`] appends.
    fn encoded_len(&self) -> usize {
        let list = |count: usize, bytes: usize| varint_len(count as u64) + bytes;
        let value = match self {
            Self::Text(text) | Self::RichText(text) | Self::Json(text) => bytes_len(text.len()),
            Self::TextList(texts) => list(texts.len(), texts.iter().map(|text| bytes_len(text.len())).sum()),
            Self::Number(_) | Self::Time(_) => 8,
            Self::NumberList(numbers) => list(numbers.len(), 8 * numbers.len()),
            Self::TimeList(times) => list(times.len(), 8 * times.len()),
            Self::MimePart(bytes) => bytes_len(bytes.len()),
            Self::Object { file_name, media_type, length, blob } => {
                bytes_len(file_name.len()) + bytes_len(media_type.len()) + varint_len(*length) + blob.0.len()
            }
            Self::NoteReferences(unids) => list(unids.len(), 16 * unids.len()),
        };
        1 + value
    }

    /// Returns a borrowed form of the value.
    #[must_use]
    pub fn as_borrowed(&self) -> ItemValueRef<'_> {
        match self {
            Self::Text(text) => ItemValueRef::Text(text),
            Self::TextList(texts) => ItemValueRef::TextList(texts.iter().map(String::as_str).collect()),
            Self::Number(number) => ItemValueRef::Number(*number),
            Self::NumberList(numbers) => ItemValueRef::NumberList(numbers.clone()),
            Self::Time(time) => ItemValueRef::Time(*time),
            Self::TimeList(times) => ItemValueRef::TimeList(times.clone()),
            Self::RichText(text) => ItemValueRef::RichText(text),
            Self::MimePart(bytes) => ItemValueRef::MimePart(bytes),
            Self::Object { file_name, media_type, length, blob } => {
                ItemValueRef::Object { file_name, media_type, length: *length, blob: *blob }
            }
            Self::NoteReferences(unids) => ItemValueRef::NoteReferences(unids.clone()),
            Self::Json(text) => ItemValueRef::Json(text),
        }
    }
}

/// A value borrowed from its record. Texts are not copied, because views read millions of them.
#[derive(Clone, PartialEq, Debug)]
pub enum ItemValueRef<'a> {
    /// One text.
    Text(&'a str),
    /// Several texts.
    TextList(Vec<&'a str>),
    /// One number.
    Number(f64),
    /// Several numbers.
    NumberList(Vec<f64>),
    /// One point in time.
    Time(Timestamp),
    /// Several points in time.
    TimeList(Vec<Timestamp>),
    /// Rich text, as HTML.
    RichText(&'a str),
    /// A piece of a MIME message.
    MimePart(&'a [u8]),
    /// An attachment.
    Object { file_name: &'a str, media_type: &'a str, length: u64, blob: BlobId },
    /// References to other notes.
    NoteReferences(Vec<Unid>),
    /// A JSON value.
    Json(&'a str),
}

impl<'a> ItemValueRef<'a> {
    fn decode(input: &mut Decoder<'a>) -> std::result::Result<Self, InvalidRecord> {
        Ok(match input.u8()? {
            1 => Self::Text(input.text()?),
            2 => Self::TextList(decode_list(input, Decoder::text)?),
            3 => Self::Number(f64::from_bits(input.u64()?)),
            4 => Self::NumberList(decode_list(input, |input| Ok(f64::from_bits(input.u64()?)))?),
            5 => Self::Time(Timestamp(input.i64()?)),
            6 => Self::TimeList(decode_list(input, |input| Ok(Timestamp(input.i64()?)))?),
            7 => Self::RichText(input.text()?),
            8 => Self::MimePart(input.bytes()?),
            9 => Self::Object {
                file_name: input.text()?,
                media_type: input.text()?,
                length: input.varint()?,
                blob: BlobId(input.array()?),
            },
            NOTE_REFERENCES_TYPE => Self::NoteReferences(decode_list(input, |input| Ok(Unid(input.array()?)))?),
            11 => Self::Json(input.text()?),
            _ => return Err(InvalidRecord),
        })
    }

    /// Converts into an owned value.
    #[must_use]
    pub fn into_owned(self) -> ItemValue {
        match self {
            Self::Text(text) => ItemValue::Text(text.to_owned()),
            Self::TextList(texts) => ItemValue::TextList(texts.into_iter().map(str::to_owned).collect()),
            Self::Number(number) => ItemValue::Number(number),
            Self::NumberList(numbers) => ItemValue::NumberList(numbers),
            Self::Time(time) => ItemValue::Time(time),
            Self::TimeList(times) => ItemValue::TimeList(times),
            Self::RichText(text) => ItemValue::RichText(text.to_owned()),
            Self::MimePart(bytes) => ItemValue::MimePart(bytes.to_vec()),
            Self::Object { file_name, media_type, length, blob } => {
                ItemValue::Object { file_name: file_name.to_owned(), media_type: media_type.to_owned(), length, blob }
            }
            Self::NoteReferences(unids) => ItemValue::NoteReferences(unids),
            Self::Json(text) => ItemValue::Json(text.to_owned()),
        }
    }
}

pub(crate) fn encode_list<T>(
    out: &mut Encoder,
    values: &[T],
    each: impl for<'a> Fn(&'a mut Encoder, &T) -> &'a mut Encoder,
) {
    out.varint(values.len() as u64);
    for value in values {
        each(out, value);
    }
}

pub(crate) fn decode_list<'a, T>(
    input: &mut Decoder<'a>,
    mut each: impl FnMut(&mut Decoder<'a>) -> std::result::Result<T, InvalidRecord>,
) -> std::result::Result<Vec<T>, InvalidRecord> {
    let count = input.count()?;
    (0..count).map(|_| each(input)).collect()
}

/// A named value.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// The name as it was written.
    pub name: String,
    /// The flags.
    pub flags: ItemFlags,
    /// The value.
    pub value: ItemValue,
}

impl Item {
    /// Creates an item that belongs to the summary.
    #[must_use]
    pub fn summary(name: impl Into<String>, value: ItemValue) -> Self {
        Self { name: name.into(), flags: ItemFlags::SUMMARY, value }
    }

    /// Creates an item that belongs to the body.
    #[must_use]
    pub fn body(name: impl Into<String>, value: ItemValue) -> Self {
        Self { name: name.into(), flags: ItemFlags::NONE, value }
    }

    /// Creates a summary item with one text.
    #[must_use]
    pub fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::summary(name, ItemValue::Text(text.into()))
    }

    /// Creates a Readers item.
    #[must_use]
    pub fn readers(name: impl Into<String>, names: Vec<String>) -> Self {
        let flags = ItemFlags::SUMMARY.union(ItemFlags::NAMES).union(ItemFlags::READERS);
        Self { name: name.into(), flags, value: ItemValue::TextList(names) }
    }

    /// Creates an Authors item.
    #[must_use]
    pub fn authors(name: impl Into<String>, names: Vec<String>) -> Self {
        let flags = ItemFlags::SUMMARY.union(ItemFlags::NAMES).union(ItemFlags::AUTHORS);
        Self { name: name.into(), flags, value: ItemValue::TextList(names) }
    }

    /// Returns `true` if the item has this name.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Returns `true` if the item is stored in the summary record. Readers and Authors items always are, because access
    /// to a note is decided from that record alone.
    #[must_use]
    pub fn is_summary(&self) -> bool {
        [ItemFlags::SUMMARY, ItemFlags::READERS, ItemFlags::AUTHORS].iter().any(|flag| self.flags.contains(*flag))
    }

    /// Returns the size of the stored form in bytes, without creating it.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        bytes_len(self.name.len()) + 2 + self.value.encoded_len()
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Encoder) {
        out.text(&self.name).u16(self.flags.0);
        self.value.encode(out);
    }

    /// Parses the stored form.
    pub fn decode(input: &mut Decoder<'_>) -> std::result::Result<Self, InvalidRecord> {
        let ItemRef { name, flags, value } = ItemRef::decode(input)?;
        Ok(Self { name: name.to_owned(), flags, value: value.into_owned() })
    }

    /// Returns `true` if the item whose stored form begins with these bytes consists of references to other notes.
    pub(crate) fn begins_with_references(bytes: &[u8]) -> bool {
        let mut input = Decoder::new(bytes);
        let value_type = input.text().and_then(|_| input.u16()).and_then(|_| input.u8());
        value_type == Ok(NOTE_REFERENCES_TYPE)
    }

    /// Checks the limits of names and lists.
    pub fn check(&self) -> Result<()> {
        if self.name.is_empty() || self.name.len() > ITEM_NAME_BYTES_MAX {
            return Err(Error::invalid(format!("item name {:?}", self.name), "empty or too long"));
        }
        if self.value.count() > LIST_VALUES_MAX {
            return Err(Error::Limit { what: "values of an item", max: LIST_VALUES_MAX });
        }
        Ok(())
    }
}

/// An item borrowed from its record.
#[derive(Clone, PartialEq, Debug)]
pub struct ItemRef<'a> {
    /// The name as it was written.
    pub name: &'a str,
    /// The flags.
    pub flags: ItemFlags,
    /// The value.
    pub value: ItemValueRef<'a>,
}

impl<'a> ItemRef<'a> {
    fn decode(input: &mut Decoder<'a>) -> std::result::Result<Self, InvalidRecord> {
        Ok(Self { name: input.text()?, flags: ItemFlags(input.u16()?), value: ItemValueRef::decode(input)? })
    }
}

/// A part of the content of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentPart {
    /// The bytes of the part. A text may be cut within a character.
    pub bytes: Vec<u8>,
    /// Length of the whole content in bytes.
    pub length: u64,
    /// `true` for a piece of a message, `false` for a text or a rich text.
    pub is_mime_part: bool,
}

/// The place of the content of a text, a rich text or a piece of a message in the stored form of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ContentPlace {
    /// Number of bytes before the content.
    pub(crate) start: usize,
    /// Number of bytes of the content.
    pub(crate) length: usize,
    /// `true` for a piece of a message.
    pub(crate) is_mime_part: bool,
}

impl ContentPlace {
    /// Finds the content, given the beginning of the stored form. Returns `None` for items of other types.
    pub(crate) fn find(beginning: &[u8]) -> std::result::Result<Option<Self>, InvalidRecord> {
        let mut input = Decoder::new(beginning);
        input.text()?;
        input.u16()?;
        let is_mime_part = match input.u8()? {
            1 | 7 => false,
            8 => true,
            _ => return Ok(None),
        };
        let length = usize::try_from(input.varint()?).map_err(|_| InvalidRecord)?;
        Ok(Some(Self { start: beginning.len() - input.rest().len(), length, is_mime_part }))
    }
}

impl ItemRef<'_> {
    /// Copies the item.
    #[must_use]
    pub fn to_item(&self) -> Item {
        Item { name: self.name.to_owned(), flags: self.flags, value: self.value.clone().into_owned() }
    }
}

impl Item {
    /// Returns a borrowed form of the item.
    #[must_use]
    pub fn as_borrowed(&self) -> ItemRef<'_> {
        ItemRef { name: &self.name, flags: self.flags, value: self.value.as_borrowed() }
    }
}

/// Checks the limits of a note's items: their number and size, their names, and the lengths of lists.
///
/// These limits hold for every note, whatever creates it. Other data that a note refers to counts in addition. Fails
/// with [`Error::Limit`] or [`Error::Invalid`].
pub fn check_items(items: &[Item]) -> Result<()> {
    if items.len() > ITEMS_PER_NOTE_MAX {
        return Err(Error::Limit { what: "items of a note", max: ITEMS_PER_NOTE_MAX });
    }
    items.iter().try_for_each(Item::check)?;
    let decides = |item: &&Item| item.flags.intersects(ItemFlags::READERS.union(ItemFlags::AUTHORS));
    let names: usize = items.iter().filter(decides).map(|item| item.value.texts().len()).sum();
    if names > ACCESS_NAMES_PER_NOTE_MAX {
        let what = "names in the Readers and Authors items of a note; use groups";
        return Err(Error::Limit { what, max: ACCESS_NAMES_PER_NOTE_MAX });
    }
    let body = || items.iter().filter(|item| !item.is_summary());
    let count = body().count();
    if count > BODY_ITEMS_MAX {
        return Err(Error::Limit { what: "body items of a note", max: BODY_ITEMS_MAX });
    }
    if body().any(|item| item.encoded_len() > BODY_ITEM_BYTES_MAX) {
        return Err(Error::Limit { what: "bytes of an item", max: BODY_ITEM_BYTES_MAX });
    }
    if summary_len(items) > SUMMARY_BYTES_MAX {
        return Err(Error::Limit { what: "bytes of the summary items of a note", max: SUMMARY_BYTES_MAX });
    }
    Ok(())
}

/// Returns the size in bytes of the summary record for these items, if the note uses no blobs.
#[must_use]
pub fn summary_len(items: &[Item]) -> usize {
    let (summary, body): (Vec<&Item>, Vec<&Item>) = items.iter().partition(|item| item.is_summary());
    let of_summary: usize = summary.iter().map(|item| item.encoded_len()).sum();
    let entry = |item: &&Item| 2 + bytes_len(item.name.len()) + varint_len(item.encoded_len() as u64);
    let of_body: usize = body.iter().map(entry).sum();
    let counts = varint_len(summary.len() as u64) + varint_len(body.len() as u64) + varint_len(0);
    1 + counts + of_summary + of_body
}

/// Returns the first item with this name.
#[must_use]
pub fn find_item<'a>(items: &'a [Item], name: &str) -> Option<&'a Item> {
    items.iter().find(|item| item.is_named(name))
}

/// Returns the blobs of all attachments among the items.
#[must_use]
pub fn blobs_of(items: &[Item]) -> Vec<BlobId> {
    let blobs = items.iter().filter_map(|item| match &item.value {
        ItemValue::Object { blob, .. } => Some(*blob),
        _ => None,
    });
    blobs.collect()
}

/// Removes the blobs in `before` that no item refers to any more. Blobs that other parts of the note use stay.
pub fn drop_unused_blobs(blobs: &mut Vec<BlobId>, before: &[BlobId], items: &[Item]) {
    let now = blobs_of(items);
    blobs.retain(|blob| !before.contains(blob) || now.contains(blob));
}

/// Appends the number of items and the items.
pub fn encode_items<'a>(out: &mut Encoder, items: impl ExactSizeIterator<Item = &'a Item>) {
    out.varint(items.len() as u64);
    items.for_each(|item| item.encode(out));
}

/// Parses items that [`encode_items`] wrote.
pub fn decode_items(input: &mut Decoder<'_>) -> std::result::Result<Vec<Item>, InvalidRecord> {
    (0..item_count(input)?).map(|_| Item::decode(input)).collect()
}

/// Parses items that [`encode_items`] wrote, without copying them.
pub fn decode_item_refs<'a>(input: &mut Decoder<'a>) -> std::result::Result<Vec<ItemRef<'a>>, InvalidRecord> {
    let count = item_count(input)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(ItemRef::decode(input)?);
    }
    Ok(items)
}

fn item_count(input: &mut Decoder<'_>) -> std::result::Result<usize, InvalidRecord> {
    let count = input.count()?;
    if count > ITEMS_PER_NOTE_MAX { Err(InvalidRecord) } else { Ok(count) }
}

/// Returns the text items in a text such as `a=1 b=2`.
#[cfg(test)]
pub(crate) fn test_items(text: &str) -> Vec<Item> {
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| Item::text(name, value));
    text.split_whitespace().filter_map(pair).collect()
}
