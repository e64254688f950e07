//! A message as the items of a note.
//!
//! | item | where | contents |
//! |---|---|---|
//! | `Form` | summary | `Memo` |
//! | `Subject`, `From`, `SendTo`, `CopyTo` | summary | decoded texts, truncated to the length that lists show |
//! | `PostedDate` | summary | the Date field |
//! | `$MessageID` | summary | the Message-ID field |
//! | `$ThreadID`, `$ThreadKeys` | summary | the thread of the message, and the keys by which others find it ([`crate::threads`]); only in mail files |
//! | `$FileForm`, `$FileSeparator` | summary | the unusual properties of the file that the message was imported from ([`crate::import_export::file_quirks`]) |
//! | `$Head` | body 0 | structure and header, in the form needed to render a message |
//! | `$MIME` | body 1 | the skeleton of everything after the header |
//!
//! The message itself consists of `$Head`, `$MIME` and the contents in the blob store, and is restored from them byte
//! for byte. The summary items are derived from it for views and lists. They are never used to restore it.

use std::borrow::Cow;

use base::codec::{Decoder, Encoder};
use base::{Timestamp, Unpaced};
use notes::note::MESSAGE_ITEM;
use notes::{Databases, Item, ItemValue, NewNote, Writer};
use store::blob::PreparedBlob;

use crate::error::{Error, Result};
use crate::limits::{SUMMARY_ADDRESSES_MAX, SUMMARY_TEXT_BYTES_MAX};
use crate::mime::skeleton::{self, ContentId, PartSeparation, Segment, Skeleton};
use crate::mime::{self, Structure, address, encoded_word, header};
use crate::threads::MessageThreadKeys;

/// Ordinal of the body item with structure and header.
pub const HEAD_ORDINAL: u16 = 0;

/// Ordinal of the body item with the skeleton.
pub const SKELETON_ORDINAL: u16 = 1;

/// The summary item with the Message-ID field.
pub(crate) const MESSAGE_ID_ITEM: &str = "$MessageID";

/// The body items that every message has, by ordinal.
pub const BODY_ITEMS: [&str; 2] = [MESSAGE_ITEM, "$MIME"];

/// A parsed message that can be put into any number of mailboxes. It keeps no reference to the bytes of the message.
///
/// The work that depends on the size of the message is done when it is created, which may be before a transaction
/// begins.
pub struct PreparedMessage {
    structure: Structure,
    items: Vec<Item>,
    threads: MessageThreadKeys,
    head: Vec<u8>,
    skeleton: Vec<u8>,
    contents: Vec<PreparedBlob<'static>>,
    length: u64,
    crlf_growth: u64,
}

impl PreparedMessage {
    /// Parses a message, and prepares bodies of parts that are stored separately for the blob store. Hashes and
    /// compresses them, so no lock should be held.
    pub fn new(databases: &Databases, raw: &[u8], separation: PartSeparation) -> Result<Self> {
        Self::parse(raw, separation, |content| Ok(databases.blob_prepare(content, &Unpaced)?.into_owned()))
    }

    /// Parses a message within a transaction, which may have added the same contents already: they are compressed when
    /// they are added.
    pub fn in_transaction(databases: &Databases, raw: &[u8], separation: PartSeparation) -> Result<Self> {
        let blobs = databases.store().blobs();
        Self::parse(raw, separation, |content| Ok(blobs.identify(content)?.into_owned()))
    }

    fn parse<'m>(
        raw: &'m [u8],
        separation: PartSeparation,
        mut prepare: impl FnMut(Cow<'m, [u8]>) -> Result<PreparedBlob<'static>>,
    ) -> Result<Self> {
        let structure = mime::parse(raw);
        let mut segments = skeleton::split(raw, &structure, separation);
        let header_length = usize::try_from(structure.root().header.end).unwrap_or(raw.len()).min(raw.len());
        let header_bytes = &raw[..header_length];
        if let Some(Segment::Inline(first)) = segments.first_mut() {
            assert!(first.len() >= header_length, "no part begins before the header ends");
            *first = &first[header_length..];
        }
        let mut contents = Vec::new();
        let skeleton = Skeleton::from_segments::<Error>(segments, |content| {
            let content = prepare(content)?;
            let id = ContentId(content.id().0);
            contents.push(content);
            Ok(id)
        })?;
        Ok(Self {
            head: encode_head(&structure, header_bytes),
            items: summary_items(header_bytes),
            threads: MessageThreadKeys::of_header(header_bytes),
            skeleton: skeleton.encode(),
            structure,
            contents,
            length: raw.len() as u64,
            crlf_growth: crlf_growth(raw),
        })
    }

    /// Returns the structure.
    #[must_use]
    pub fn structure(&self) -> &Structure {
        &self.structure
    }

    /// Returns the length of the message in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Creates the note for one database, and finds its thread. The caller adds folders, flags and times and writes the
    /// note at once.
    pub fn note(&self, writer: &mut Writer<'_, '_>) -> Result<NewNote> {
        let mut items = self.items.clone();
        items.extend(self.threads.items(writer)?);
        let [head, rest] = BODY_ITEMS;
        items.push(Item::body(head, ItemValue::MimePart(self.head.clone())));
        items.push(Item::body(rest, ItemValue::MimePart(self.skeleton.clone())));
        let mut note = NewNote::document(items);
        note.size = Some(self.length);
        note.crlf_growth = self.crlf_growth;
        for content in &self.contents {
            note.blobs.push(writer.blob_put_prepared(content)?);
        }
        Ok(note)
    }
}

/// Returns the number of bytes that a message gains if every line, including the last one, ends with CRLF. A message
/// received through DATA gains none.
#[must_use]
pub fn crlf_growth(raw: &[u8]) -> u64 {
    let without_cr = |place: &usize| place.checked_sub(1).is_none_or(|before| raw.get(before) != Some(&b'\r'));
    let bare = memchr::memchr_iter(b'\n', raw).filter(without_cr).count();
    let open = if raw.is_empty() || raw.ends_with(b"\n") { 0 } else { 2 };
    bare.saturating_add(open) as u64
}

/// Returns the item `$Head`.
pub(crate) fn encode_head(structure: &Structure, header: &[u8]) -> Vec<u8> {
    let mut out = Encoder::with_capacity(header.len() + 128);
    out.u8(1).bytes(&structure.encode()).raw(header);
    out.finish()
}

/// Decodes the item `$Head`. Returns the structure and the offset of the header.
pub fn decode_head(bytes: &[u8]) -> Result<(Structure, usize)> {
    let damaged = |_| Error::Damaged("$Head item of a message");
    let mut input = Decoder::new(bytes);
    if input.u8().map_err(damaged)? != 1 {
        return Err(Error::Damaged("$Head item of a message"));
    }
    let structure = Structure::decode(input.bytes().map_err(damaged)?)?;
    Ok((structure, bytes.len() - input.rest().len()))
}

/// Returns the items of the summary that are derived from the header of a message.
pub(crate) fn summary_items(header: &[u8]) -> Vec<Item> {
    let mut items = vec![Item::text("Form", "Memo")];
    let text = |name: &str| {
        header::first(header, name).map(|value| truncate_summary_text(encoded_word::decode(&header::unfold(value))))
    };
    let list = |name: &str| -> Vec<String> {
        let Some(value) = header::first(header, name) else { return Vec::new() };
        address::mailboxes(value)
            .take(SUMMARY_ADDRESSES_MAX)
            .map(|mailbox| truncate_summary_text(display_text(&mailbox)))
            .collect()
    };
    items.push(Item::text("Subject", text("Subject").unwrap_or_default()));
    for (item, field) in [("From", "From"), ("SendTo", "To"), ("CopyTo", "Cc")] {
        let names = list(field);
        if !names.is_empty() {
            items.push(Item::summary(item, ItemValue::TextList(names)));
        }
    }
    if let Some(date) = header::first(header, "Date").and_then(mime::date::HeaderDate::parse) {
        items.push(Item::summary("PostedDate", ItemValue::Time(date.timestamp)));
    }
    if let Some(id) = message_id(header, "Message-ID") {
        items.push(Item::text(MESSAGE_ID_ITEM, truncate_summary_text(id)));
    }
    items
}

fn display_text(mailbox: &address::Mailbox) -> String {
    match mailbox.display_name().filter(|name| !name.is_empty()) {
        Some(name) => format!("{name} <{}>", mailbox.address()),
        None => mailbox.address(),
    }
}

/// Returns the name in a text that [`display_text`] has made, or the address if it has no name.
pub(crate) fn name_of_display_text(text: &str) -> &str {
    let name = text.strip_suffix('>').and_then(|text| text.rfind(" <").map(|end| &text[..end]));
    name.unwrap_or(text)
}

/// Truncates a text to the length that lists show.
pub(crate) fn truncate_summary_text(mut text: String) -> String {
    if text.len() > SUMMARY_TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(SUMMARY_TEXT_BYTES_MAX));
    }
    text
}

/// Returns the first message identifier of a field, with its angle brackets.
#[must_use]
pub fn message_id(header: &[u8], field: &str) -> Option<String> {
    let value = header::unfold(header::first(header, field)?);
    let start = value.iter().position(|byte| *byte == b'<')?;
    let end = start + value[start..].iter().position(|byte| *byte == b'>')?;
    Some(String::from_utf8_lossy(&value[start..=end]).into_owned())
}

/// Returns the time of the topmost Received field.
#[must_use]
pub fn received_time(header: &[u8]) -> Option<Timestamp> {
    let value = header::unfold(header::first(header, "Received")?);
    let date = value.rsplit(|byte| *byte == b';').next()?;
    mime::date::HeaderDate::parse(date).map(|date| date.timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_display_texts_are_found() {
        for (text, name) in [
            ("Zoe <zoe@x.test>", "Zoe"),
            ("We <3 mail <a@x.test>", "We <3 mail"),
            ("a@x.test", "a@x.test"),
            ("a name that was truncated <a@x", "a name that was truncated <a@x"),
            ("", ""),
        ] {
            assert_eq!(name_of_display_text(text), name);
        }
    }
}
