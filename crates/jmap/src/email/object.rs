//! The Email object of a message (RFC 8621 §4.1), and its parts as downloads.
//!
//! The object has exactly the properties that the client names. Metadata comes from the caller, everything else from
//! the bytes of the message, which are parsed once. If only metadata is requested, the bytes are not examined, and if
//! only header fields are requested, the body is not examined.
//!
//! The blob id of a part is that of the message with the number of the part, so a download finds the part again without
//! a record of it. If a message has no blob id of its own but that of a part of another message, the numbers follow one
//! another.

use base::Timestamp;
use mail::mime::header::HeaderField;
use mail::mime::message_header::top_header;
use mail::mime::structure::InternedText;
use mail::mime::{InMemoryMessage, text};
use serde_json::{Map, Value, json};

use crate::email::body_parts::BodyParts;
use crate::email::body_value::body_value;
use crate::email::header_form;
use crate::email::parsed::ParsedEmail;
use crate::email::property::{BodyOptions, BodyProperty, EmailProperty};

/// The properties of Email that do not come from the message. A missing one is null, as Email/parse wants it.
#[derive(Debug, Clone, Default)]
pub struct EmailMetadata {
    /// The id of the Email.
    pub id: Option<String>,
    /// The blob id of the message.
    pub blob_id: String,
    /// The id of the Thread.
    pub thread_id: Option<String>,
    /// The ids of the mailboxes.
    pub mailbox_ids: Option<Vec<String>>,
    /// The keywords.
    pub keywords: Option<Vec<String>>,
    /// The length of the message.
    pub size: u64,
    /// The time at which the message was received.
    pub received_at: Option<Timestamp>,
}

/// The content of a part, for a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartContent {
    /// The decoded content.
    pub bytes: Vec<u8>,
    /// The media type, without parameters.
    pub media_type: String,
    /// The file name.
    pub name: Option<String>,
}

/// Returns the object with exactly these properties.
#[must_use]
pub fn email_object(
    raw: &[u8],
    metadata: &EmailMetadata,
    properties: &[EmailProperty],
    options: &BodyOptions,
) -> Map<String, Value> {
    let is_metadata = properties.iter().all(EmailProperty::is_metadata);
    let is_header = |property: &EmailProperty| matches!(property, EmailProperty::Header(_) | EmailProperty::Headers);
    let examined = match properties.iter().all(|property| property.is_metadata() || is_header(property)) {
        true => top_header(raw),
        false => raw,
    };
    let writer = (!is_metadata).then(|| ObjectWriter::new(examined, metadata, options));
    let value = |property: &EmailProperty| match &writer {
        Some(writer) if !property.is_metadata() => writer.value(property),
        _ => metadata_value(metadata, property),
    };
    properties.iter().map(|property| (property.name().to_owned(), value(property))).collect()
}

/// Returns the blob id of a part of a message.
#[must_use]
pub fn part_blob_id(message_blob_id: &str, part: u32) -> String {
    format!("{message_blob_id}-{part}")
}

/// Returns the blob id of the message and the number of the part, from the blob id of a part.
///
/// A blob id of a message may have the same form, so a caller looks for a message with the whole id first.
#[must_use]
pub fn split_part_blob_id(blob_id: &str) -> Option<(&str, u32)> {
    let (message, number) = blob_id.rsplit_once('-')?;
    let part = number.parse().ok().filter(|part: &u32| part.to_string() == number)?;
    (!message.is_empty() && part > 0).then_some((message, part))
}

/// Returns the content of a part. Returns `None` if the message has no leaf part with this number.
#[must_use]
pub fn part_content(raw: &[u8], part: u32) -> Option<PartContent> {
    let email = ParsedEmail::new(raw);
    let index = email.leaf_with_number(part)?;
    Some(PartContent {
        bytes: email.content(index).into_owned(),
        media_type: email.media_type(index),
        name: email.part(index).content.file_name(),
    })
}

/// Returns `true` if a client should offer a part of the message for download (`hasAttachment`).
#[must_use]
pub fn has_attachment(raw: &[u8]) -> bool {
    let email = ParsedEmail::new(raw);
    BodyParts::of(&email).has_attachment(&email)
}

/// Returns the beginning of the displayed text on one line, with at most 256 characters.
#[must_use]
pub fn preview(raw: &[u8]) -> String {
    preview_of(&ParsedEmail::new(raw))
}

fn preview_of(email: &ParsedEmail<'_>) -> String {
    let Ok(preview) = text::preview(&InMemoryMessage::new(email.raw(), email.structure()));
    preview
}

fn metadata_value(metadata: &EmailMetadata, property: &EmailProperty) -> Value {
    let set = |names: &Option<Vec<String>>| match names {
        Some(names) => names.iter().map(|name| (name.clone(), Value::Bool(true))).collect::<Map<_, _>>().into(),
        None => Value::Null,
    };
    match property {
        EmailProperty::Id => json!(metadata.id),
        EmailProperty::BlobId => json!(metadata.blob_id),
        EmailProperty::ThreadId => json!(metadata.thread_id),
        EmailProperty::MailboxIds => set(&metadata.mailbox_ids),
        EmailProperty::Keywords => set(&metadata.keywords),
        EmailProperty::Size => json!(metadata.size),
        EmailProperty::ReceivedAt => json!(metadata.received_at.map(Timestamp::to_rfc3339)),
        _ => Value::Null,
    }
}

/// A writer of the properties of one message.
struct ObjectWriter<'a> {
    email: ParsedEmail<'a>,
    /// The fields of the message's header.
    fields: Vec<HeaderField<'a>>,
    parts: BodyParts,
    metadata: &'a EmailMetadata,
    options: &'a BodyOptions,
}

impl<'a> ObjectWriter<'a> {
    fn new(raw: &'a [u8], metadata: &'a EmailMetadata, options: &'a BodyOptions) -> Self {
        let email = ParsedEmail::new(raw);
        let fields = email.fields(0);
        let parts = BodyParts::of(&email);
        Self { email, fields, parts, metadata, options }
    }

    fn value(&self, property: &EmailProperty) -> Value {
        let list = |parts: &[usize]| parts.iter().map(|index| self.body_part(*index)).collect();
        match property {
            EmailProperty::Headers => header_form::all_fields(&self.fields),
            EmailProperty::Header(header) => header_form::property_value(header, &self.fields),
            EmailProperty::BodyStructure => self.body_tree(0),
            EmailProperty::BodyValues => self.body_values(),
            EmailProperty::TextBody => list(&self.parts.text),
            EmailProperty::HtmlBody => list(&self.parts.html),
            EmailProperty::Attachments => list(&self.parts.attachments),
            EmailProperty::HasAttachment => Value::Bool(self.parts.has_attachment(&self.email)),
            EmailProperty::Preview => Value::String(preview_of(&self.email)),
            metadata => metadata_value(self.metadata, metadata),
        }
    }

    /// Returns a part with the parts that it consists of, which the structure shows even if `subParts` is not among the
    /// body properties. The depth is bounded by the structure.
    fn body_tree(&self, index: usize) -> Value {
        let mut object = self.body_part_object(index);
        if self.email.is_multipart(index) {
            let sub_parts = self.email.sub_parts(index);
            let sub_parts: Value = sub_parts.into_iter().map(|index| self.body_tree(index)).collect();
            object.insert("subParts".to_owned(), sub_parts);
        }
        Value::Object(object)
    }

    fn body_part(&self, index: usize) -> Value {
        Value::Object(self.body_part_object(index))
    }

    fn body_part_object(&self, index: usize) -> Map<String, Value> {
        let properties = self.options.body_properties.iter();
        properties.map(|property| (property.name().to_owned(), self.body_property(index, property))).collect()
    }

    fn body_property(&self, index: usize, property: &BodyProperty) -> Value {
        let email = &self.email;
        let content = &email.part(index).content;
        let is_leaf = !email.is_multipart(index);
        let number = email.number(index);
        let text = |text: &InternedText| String::from_utf8_lossy(text).into_owned();
        match property {
            BodyProperty::PartId => json!(is_leaf.then(|| number.to_string())),
            BodyProperty::BlobId => json!(is_leaf.then(|| part_blob_id(&self.metadata.blob_id, number))),
            BodyProperty::Size => json!(if is_leaf { email.content_length(index) } else { 0 }),
            BodyProperty::Headers => header_form::all_fields(&email.fields(index)),
            BodyProperty::Name => json!(content.file_name()),
            BodyProperty::Type => json!(email.media_type(index)),
            BodyProperty::Charset => json!(email.charset(index)),
            BodyProperty::Disposition => json!(email.disposition(index)),
            BodyProperty::Cid => json!(content.id.as_ref().and_then(|id| content_id(id))),
            BodyProperty::Language if content.languages.is_empty() => Value::Null,
            BodyProperty::Language => content.languages.iter().map(text).collect(),
            BodyProperty::Location => json!(content.location.as_ref().map(text)),
            BodyProperty::SubParts => Value::Null,
            BodyProperty::Header(header) => header_form::property_value(header, &email.fields(index)),
        }
    }

    fn body_values(&self) -> Value {
        let options = self.options;
        let mut parts = Vec::new();
        if options.fetch_all_body_values {
            parts = self.email.leaves();
        }
        if options.fetch_text_body_values {
            parts.extend_from_slice(&self.parts.text);
        }
        if options.fetch_html_body_values {
            parts.extend_from_slice(&self.parts.html);
        }
        parts.sort_unstable();
        parts.dedup();
        parts.retain(|index| self.email.media_type(*index).starts_with("text/"));
        let value = |index: usize| {
            let value = body_value(&self.email, index, options.body_value_bytes_max);
            (self.email.number(index).to_string(), value)
        };
        Value::Object(parts.into_iter().map(value).collect())
    }
}

/// Returns a Content-ID without its angle brackets.
fn content_id(id: &[u8]) -> Option<String> {
    let text = header_form::value(crate::email::HeaderForm::MessageIds, id);
    match text.get(0).and_then(Value::as_str) {
        Some(id) => Some(id.to_owned()),
        None => Some(String::from_utf8_lossy(id.trim_ascii()).into_owned()).filter(|id| !id.is_empty()),
    }
}
