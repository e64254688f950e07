//! Texts of a message for the full-text index.
//!
//! The subject and the addresses are summary items, which the index reads without this module. This module reads the
//! texts of the parts. Text parts that are displayed with the message go to the body. The names of attachments are
//! indexed, and so is the text of attachments that contain text. No more of a part is decoded than is indexed.

use notes::note::MESSAGE_ITEM;
use search::extract::{self, FileKind, IsolatedReader};
use search::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, TEXT_BYTES_MAX};
use search::{ContentReader, NotePart, NoteText, OpenNote, html};

use crate::error::{Error, Result};
use crate::mailbox::Message;
use crate::mime::structure::Part;
use crate::mime::{MimeSource, PartKind, text, transfer_encoding};
use crate::search_texts::{ADDRESS_FIELDS, BodyTexts, INDEXED_FIELDS, find_in_addresses, find_in_body, find_in_field};

/// Name of the item under which the names of attachments are found.
const FILE_ITEM: &str = search::text::FILE_ITEM;

/// A reader of messages for the full-text index.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageTextReader {
    /// `true` if the index also receives the texts that let an IMAP search rule messages out.
    pub serves_imap: bool,
}

impl ContentReader for MessageTextReader {
    fn read(&self, note: &OpenNote<'_>, text: &mut NoteText) -> search::Result<bool> {
        if note.summary.body.first().is_none_or(|body| body.name != MESSAGE_ITEM) {
            return Ok(false);
        }
        self.read_message(note, text).map(|()| true).map_err(|error| match error {
            Error::Notes(error) => search::Error::Notes(error),
            other => search::Error::Contents(other.to_string()),
        })
    }
}

impl MessageTextReader {
    fn read_message(&self, note: &OpenNote<'_>, out: &mut NoteText) -> Result<()> {
        let message = Message::open_uncached(note.reading, note.header.note)?;
        read(&message, note.isolated_reader, out)?;
        if self.serves_imap { read_imap_texts(&message, out) } else { Ok(()) }
    }
}

fn read(message: &Message<'_>, elsewhere: Option<&dyn IsolatedReader>, out: &mut NoteText) -> Result<()> {
    let mut attachments = 0;
    for (index, part) in message.structure().parts().iter().enumerate() {
        if part.kind != PartKind::Leaf || part.size() == 0 {
            continue;
        }
        if out.is_full() {
            break;
        }
        if let Some(name) = part.content.file_name() {
            out.add_item(FILE_ITEM, &name);
        }
        if is_shown(part) {
            let found = text::of_part(message, index, TEXT_BYTES_MAX)?.unwrap_or_default();
            let is_html = part.is_media("text", "html");
            out.add_body(if is_html { html::to_text(&found) } else { found }.as_str());
        } else if attachments < ATTACHMENTS_MAX {
            attachments += usize::from(read_attachment(message, part, elsewhere, out)?);
        }
    }
    Ok(())
}

/// Passes on the texts that an IMAP search examines.
fn read_imap_texts(message: &Message<'_>, out: &mut NoteText) -> Result<()> {
    for name in INDEXED_FIELDS {
        let find = if ADDRESS_FIELDS.contains(&name) { find_in_addresses } else { find_in_field };
        find(message.header(), name, &mut |text| !out.add_substring_text(NotePart::Header, text));
    }
    find_in_body(message, BodyTexts::All, &mut |text| !out.add_substring_text(NotePart::Body, text))?;
    out.mark_complete();
    Ok(())
}

/// Returns `true` if the part is text that is displayed with the message.
fn is_shown(part: &Part) -> bool {
    part.is_text() && !part.is_attachment()
}

/// Reads the text of an attachment. Returns `true` if it is of a kind that is read.
fn read_attachment(
    message: &Message<'_>,
    part: &Part,
    elsewhere: Option<&dyn IsolatedReader>,
    out: &mut NoteText,
) -> Result<bool> {
    let (media_type, subtype) = part.media();
    let media = format!("{}/{}", String::from_utf8_lossy(media_type), String::from_utf8_lossy(subtype));
    let name = part.content.file_name().unwrap_or_default();
    let Some(kind) = FileKind::from_media_type(&media, &name).filter(|kind| out.try_count_file(*kind)) else {
        return Ok(false);
    };
    // Encoded data is at most three times as long as the decoded data.
    if part.size() > 3 * ATTACHMENT_BYTES_MAX as u64 {
        return Ok(false);
    }
    let body = message.range(part.body.clone())?;
    let found = match kind {
        FileKind::Plain => text::decode(part, &body, ATTACHMENT_BYTES_MAX),
        FileKind::Html => text::decode(part, &body, ATTACHMENT_BYTES_MAX).map(|found| html::to_text(&found)),
        FileKind::Office | FileKind::Pdf => {
            transfer_encoding::decode(&part.content.encoding, &body, ATTACHMENT_BYTES_MAX)
                .and_then(|bytes| extract::text(kind, &bytes, elsewhere))
        }
    };
    if let Some(found) = found {
        out.add_attachment(&found);
    }
    Ok(true)
}
