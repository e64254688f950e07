//! The message that stands for a document without one.
//!
//! Programs that know nothing of MIME put documents into the folders of a mail file: commands of the native protocol,
//! clients of CouchDB's protocol, local replicas. Mail clients see such a document as a message that is composed from
//! its items (`docs/message-storage.md`, "Documents without a message"). It is composed whenever it is read, so nothing
//! of it is stored.
//!
//! The message depends on nothing but the contents of one revision, so each reading returns the same bytes. A later
//! version of this program must compose them in the same way, because clients keep messages by UID. Therefore header
//! fields are written here and not by a library.
//!
//! Left out: items that have no place in a message, and the text of forms.

use std::borrow::Cow;

use base::NoteId;
use notes::edit_history::UPDATED_BY_ITEM;
use notes::{DatabaseSnapshot, Item, ItemValue, Note};

use crate::error::{Error, Result};
use crate::limits::{COMPOSED_ATTACHMENTS_MAX, COMPOSED_TEXT_BYTES_MAX, SUMMARY_ADDRESSES_MAX};
use crate::message::{MESSAGE_ID_ITEM, encode_head, truncate_summary_text};
use crate::mime::skeleton::{
    Base64Layout, Base64Padding, ContentEncoding, ContentId, LineEnding, Skeleton, StoredPart,
};
use crate::mime::structure::InsertedBody;
use crate::mime::{self, address};

/// The domain of identifiers and addresses that no server has (RFC 6761).
const DOMAIN: &str = "note.invalid";

/// Number of bytes of a text in one encoded word, so that a line has at most 76 characters.
const WORD_BYTES: usize = 39;

/// Maximum length of a line (RFC 5322 §2.1.1).
const LINE_BYTES_MAX: usize = 998;

/// The layout of base64 texts.
const BASE64: Base64Layout =
    Base64Layout { line_characters: 76, ending: LineEnding::CrLf, padding: Base64Padding::Present };

/// A composed message in the form in which messages are stored.
pub(crate) struct ComposedMessage {
    /// The item `$Head`.
    pub(crate) head: Vec<u8>,
    /// The item `$MIME`.
    pub(crate) skeleton: Vec<u8>,
}

/// Reads a document and returns its message.
pub(crate) fn read(reading: &DatabaseSnapshot<'_>, note: NoteId) -> Result<ComposedMessage> {
    let contents = reading.note(note)?.ok_or(Error::Damaged("document: it has no contents"))?;
    let mut files = Vec::new();
    for item in &contents.items {
        if files.len() == COMPOSED_ATTACHMENTS_MAX {
            break;
        }
        files.extend(StoredFile::read(reading, note, item)?);
    }
    Ok(compose(&contents, files))
}

fn compose(note: &Note, files: Vec<StoredFile<'_>>) -> ComposedMessage {
    let mut draft = MessageDraft::default();
    draft.write_fields(note);
    let boundary = format!("=_{}", note.header.unid);
    let text = BodyText::of(note);
    if files.is_empty() {
        draft.write_text(&text, &boundary);
    } else {
        draft.write(&format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\n--{boundary}\r\n"));
        draft.write_text(&text, &boundary);
        for file in files {
            draft.write(&format!("\r\n--{boundary}\r\n"));
            draft.write_file(file);
        }
        draft.write(&format!("\r\n--{boundary}--\r\n"));
    }
    draft.finish()
}

/// A message whose attachments are left out, and their places.
#[derive(Default)]
struct MessageDraft {
    raw: Vec<u8>,
    bodies: Vec<InsertedBody>,
    parts: Vec<StoredPart>,
}

impl MessageDraft {
    fn write(&mut self, text: &str) {
        self.raw.extend_from_slice(text.as_bytes());
    }

    fn write_field(&mut self, name: &str, value: &str) {
        self.write(&format!("{name}: {value}\r\n"));
    }

    fn write_fields(&mut self, note: &Note) {
        let header = &note.header;
        let sender = note.item("From").filter(|item| item.value.text().is_some());
        let authors = sender.or_else(|| note.item(UPDATED_BY_ITEM)).map_or(&[][..], |item| item.value.texts());
        // The later entries of the list of editors did not write the document.
        self.write_addresses("From", &authors[..authors.len().min(1)]);
        for (field, item) in [("To", "SendTo"), ("Cc", "CopyTo")] {
            self.write_addresses(field, note.item(item).map_or(&[][..], |item| item.value.texts()));
        }
        let subject = note.item("Subject").and_then(|item| item.value.text()).unwrap_or_default();
        self.write_field("Subject", &unstructured(&one_line(subject)));
        let date = note.item("PostedDate").and_then(|item| item.value.time()).unwrap_or(header.created);
        self.write_field("Date", &date.to_rfc5322());
        let id = note.item(MESSAGE_ID_ITEM).and_then(|item| item.value.text()).filter(|id| is_message_id(id));
        let id = id.map_or_else(|| format!("<{}@{DOMAIN}>", header.unid), str::to_owned);
        self.write_field("Message-ID", &id);
        if let Some(parent) = header.parent {
            self.write_field("In-Reply-To", &format!("<{parent}@{DOMAIN}>"));
        }
        self.write_field("MIME-Version", "1.0");
    }

    /// Writes a field of addresses, one on each line, unless there are none.
    fn write_addresses(&mut self, field: &str, texts: &[String]) {
        let mailboxes: Vec<String> =
            texts.iter().flat_map(|text| mailboxes(text)).take(SUMMARY_ADDRESSES_MAX).collect();
        if !mailboxes.is_empty() {
            self.write_field(field, &mailboxes.join(",\r\n "));
        }
    }

    /// Writes the header and the body of the part with the text.
    fn write_text(&mut self, text: &BodyText, boundary: &str) {
        self.write(&format!("Content-Type: text/{}; charset=utf-8\r\n", text.subtype));
        if is_plain(&text.text) && !text.text.contains(boundary) {
            self.write("\r\n");
            self.write(&text.text);
        } else {
            self.write("Content-Transfer-Encoding: base64\r\n\r\n");
            let length = BASE64.encoded_length(text.text.len() as u64).unwrap_or(0);
            BASE64.encode(text.text.as_bytes(), 0, 0..length, &mut self.raw);
            self.write("\r\n");
        }
    }

    /// Writes the header of an attachment, and notes the place of its content.
    fn write_file(&mut self, file: StoredFile<'_>) {
        self.write(&format!("Content-Type: {}\r\n", media_type(file.media_type)));
        self.write("Content-Transfer-Encoding: base64\r\nContent-Disposition: attachment");
        let name = one_line(file.name);
        if !name.is_empty() {
            self.write(&format!(";\r\n {}", file_name_parameter(&name)));
        }
        self.write("\r\n\r\n");
        // Contents of this length cannot be stored.
        let Some(length) = BASE64.encoded_length(file.length).filter(|length| *length > 0) else { return };
        let stride = u64::from(BASE64.line_characters) + 2;
        let lines = length.saturating_sub(1) / stride;
        self.bodies.push(InsertedBody { position: self.raw.len() as u64, length, lines });
        self.parts.push(StoredPart {
            content: file.content,
            content_length: file.length,
            length,
            rebuild: ContentEncoding::Base64(BASE64),
        });
    }

    fn finish(self) -> ComposedMessage {
        let structure = mime::parse(&self.raw);
        let header_end = usize::try_from(structure.root().header.end).unwrap_or(self.raw.len());
        let places = self.bodies.iter().map(|body| usize::try_from(body.position).unwrap_or(self.raw.len()));
        let mut texts = Vec::with_capacity(self.bodies.len() + 1);
        let mut start = header_end;
        for end in places.chain([self.raw.len()]) {
            texts.push(&self.raw[start..end]);
            start = end;
        }
        let skeleton = Skeleton::from_stored_parts(&texts, self.parts).encode();
        let structure = structure.with_bodies(&self.bodies);
        ComposedMessage { head: encode_head(&structure, &self.raw[..header_end]), skeleton }
    }
}

/// An attachment of a document.
struct StoredFile<'n> {
    name: &'n str,
    media_type: &'n str,
    length: u64,
    content: ContentId,
}

impl<'n> StoredFile<'n> {
    /// Reads the attachment of an item. Its length is that of the stored content: what the item states comes from
    /// clients and other servers, and may be anything. Returns `None` if the note has no such content.
    fn read(reading: &DatabaseSnapshot<'_>, note: NoteId, item: &'n Item) -> Result<Option<Self>> {
        let ItemValue::Object { file_name, media_type, blob, .. } = &item.value else { return Ok(None) };
        let length = match reading.blob_length(note, blob) {
            Err(notes::Error::NotFound { .. }) => return Ok(None),
            length => length?,
        };
        Ok(Some(Self { name: file_name, media_type, length, content: ContentId(blob.0) }))
    }
}

/// The text of a document, with CRLF at the ends of its lines.
struct BodyText {
    subtype: &'static str,
    text: String,
}

impl BodyText {
    /// Returns the text of the items `Body`. It is HTML if one of them is rich text.
    fn of(note: &Note) -> Self {
        let items: Vec<&ItemValue> =
            note.items.iter().filter(|item| item.is_named("Body")).map(|item| &item.value).collect();
        let is_html = items.iter().any(|value| matches!(value, ItemValue::RichText(_)));
        let mut text = String::new();
        for value in items {
            let pieces = match value {
                ItemValue::RichText(html) => std::slice::from_ref(html),
                other => other.texts(),
            };
            for piece in pieces {
                let is_source = matches!(value, ItemValue::RichText(_));
                let piece = if is_html && !is_source { Cow::Owned(escape_html(piece)) } else { Cow::Borrowed(piece) };
                let room = COMPOSED_TEXT_BYTES_MAX.saturating_sub(text.len());
                text.push_str(&piece[..piece.floor_char_boundary(room)]);
                if !text.ends_with('\n') {
                    text.push('\n');
                }
            }
        }
        let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
        Self { subtype: if is_html { "html" } else { "plain" }, text }
    }
}

fn escape_html(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<p>{}</p>", escaped.replace('\n', "<br>\n"))
}

/// Returns `true` if a text needs no transfer encoding.
fn is_plain(text: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'\t' | b'\r' | b'\n' | b' '..=b'~');
    text.bytes().all(is_allowed) && text.split("\r\n").all(|line| line.len() <= LINE_BYTES_MAX)
}

/// Returns a text without line ends and other control characters, and not longer than lists show it.
fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    truncate_summary_text(text.trim().to_owned())
}

/// Returns a value of a field with free text.
fn unstructured(text: &str) -> String {
    let is_plain = text.is_ascii() && !text.contains("=?") && text.len() < LINE_BYTES_MAX / 2;
    if is_plain { text.to_owned() } else { encoded_words(text) }
}

/// Returns a text as encoded words (RFC 2047), one on each line.
fn encoded_words(text: &str) -> String {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.floor_char_boundary(WORD_BYTES));
        let layout = Base64Layout { line_characters: 0, ..BASE64 };
        let mut encoded = Vec::new();
        let length = layout.encoded_length(word.len() as u64).unwrap_or(0);
        layout.encode(word.as_bytes(), 0, 0..length, &mut encoded);
        words.push(format!("=?utf-8?B?{}?=", String::from_utf8_lossy(&encoded)));
        rest = after;
    }
    words.join("\r\n ")
}

/// Returns the mailboxes that a text of an item names. A name that is no address is shown with one that nobody has,
/// because the syntax of mail requires an address.
fn mailboxes(text: &str) -> Vec<String> {
    let text = one_line(text);
    let found: Vec<address::Mailbox> = address::mailboxes(text.as_bytes()).collect();
    if found.is_empty() || !found.iter().all(is_address) {
        let named = (!text.is_empty()).then(|| format!("{} <unknown@{DOMAIN}>", phrase(&text)));
        return named.into_iter().collect();
    }
    let write = |mailbox: &address::Mailbox| match mailbox.display_name().filter(|name| !name.is_empty()) {
        Some(name) => format!("{} <{}>", phrase(&one_line(&name)), mailbox.address()),
        None => mailbox.address(),
    };
    found.iter().map(write).collect()
}

/// Returns `true` for an address of ASCII characters that need no quotes.
fn is_address(mailbox: &address::Mailbox) -> bool {
    let is_plain = |text: &[u8], others: &[u8]| {
        !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || others.contains(byte))
    };
    is_plain(&mailbox.local, b"!#$%&'*+-/=?^_`{|}~.") && is_plain(&mailbox.domain, b"-.[]:")
}

/// Returns a display name.
fn phrase(name: &str) -> String {
    if !name.is_ascii() || name.contains("=?") || name.len() > LINE_BYTES_MAX / 4 {
        return encoded_words(name);
    }
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns `true` for a message identifier in angle brackets.
fn is_message_id(text: &str) -> bool {
    let inner = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
    inner.is_some_and(|id| {
        id.len() < LINE_BYTES_MAX / 2
            && id.contains('@')
            && id.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>'))
    })
}

/// Returns the media type of an attachment. Types of parts with a structure of their own, which an attachment does not
/// show, and invalid ones become that of any file.
fn media_type(text: &str) -> &str {
    let is_token = |text: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !text.is_empty() && text.len() < LINE_BYTES_MAX / 4 && text.bytes().all(is_allowed)
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is_valid = essence.split_once('/').is_some_and(|(kind, subtype)| {
        let is_structured = kind.eq_ignore_ascii_case("multipart") || kind.eq_ignore_ascii_case("message");
        is_token(kind) && is_token(subtype) && !is_structured
    });
    if is_valid { essence } else { "application/octet-stream" }
}

/// Returns the parameter with the name of a file (RFC 2231).
fn file_name_parameter(name: &str) -> String {
    if name.is_ascii() && name.len() < LINE_BYTES_MAX / 4 {
        return format!("filename=\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
    }
    // Three characters for each byte must be on one line.
    let name = &name[..name.floor_char_boundary(LINE_BYTES_MAX / 4)];
    let mut encoded = String::with_capacity(3 * name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("filename*=UTF-8''{encoded}")
}
