//! The Email object of a message (RFC 8621 §4.1), and its parts as downloads.
//!
//! The object has exactly the properties that the client names. Metadata comes from the caller, everything else from
//! the message: header fields and attachments from its head, which is in memory, and the rest from those parts that a
//! property needs.
//!
//! The blob id of a part is that of the message with the number of the part, so a download finds the part again without
//! a record of it. If a message has no blob id of its own but that of a part of another message, the numbers follow one
//! another.

use base::Timestamp;
use mail::mime::header::HeaderField;
use mail::mime::structure::InternedText;
use mail::mime::{MimeSource, Structure};
use serde_json::{Map, Value, json};

use crate::email::body_parts::BodyParts;
use crate::email::body_value::body_value;
use crate::email::header_form;
use crate::email::part_reader::{PartReader, fields_of};
use crate::email::part_tree::PartTree;
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

/// A leaf part that was found by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedPart {
    /// The index in the structure.
    pub index: usize,
    /// The media type, without parameters.
    pub media_type: String,
    /// The file name.
    pub name: Option<String>,
}

/// Returns the object with exactly these properties. Reads no more of the message than they need.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn email_object<S: MimeSource + ?Sized>(
    source: &S,
    metadata: &EmailMetadata,
    properties: &[EmailProperty],
    options: &BodyOptions,
) -> Result<Map<String, Value>, S::Error> {
    let writer = ObjectWriter::new(source, metadata, options);
    properties.iter().map(|property| Ok((property.name().to_owned(), writer.value(property)?))).collect()
}

/// Returns the object with properties that are all metadata.
#[must_use]
pub fn metadata_object(metadata: &EmailMetadata, properties: &[EmailProperty]) -> Map<String, Value> {
    properties.iter().map(|property| (property.name().to_owned(), metadata_value(metadata, property))).collect()
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

/// Returns the leaf part with a number, or `None` if the message has none.
#[must_use]
pub fn located_part(structure: &Structure, number: u32) -> Option<LocatedPart> {
    let tree = PartTree(structure);
    let index = tree.leaf_with_number(number)?;
    Some(LocatedPart { index, media_type: tree.media_type(index), name: tree.part(index).content.file_name() })
}

/// Returns the decoded content of a leaf part.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn part_content<S: MimeSource + ?Sized>(source: &S, index: usize) -> Result<Vec<u8>, S::Error> {
    Ok(PartReader(source).content(index)?.into_owned())
}

/// Returns `true` if a client should offer a part of the message for download (`hasAttachment`).
#[must_use]
pub fn has_attachment(structure: &Structure) -> bool {
    let tree = PartTree(structure);
    BodyParts::of(tree).has_attachment(tree)
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
struct ObjectWriter<'a, S: ?Sized> {
    reader: PartReader<'a, S>,
    tree: PartTree<'a>,
    /// The fields of the message's header.
    fields: Vec<HeaderField<'a>>,
    parts: BodyParts,
    metadata: &'a EmailMetadata,
    options: &'a BodyOptions,
}

impl<'a, S: MimeSource + ?Sized> ObjectWriter<'a, S> {
    fn new(source: &'a S, metadata: &'a EmailMetadata, options: &'a BodyOptions) -> Self {
        let tree = PartTree(source.structure());
        let fields = fields_of(source.header());
        Self { reader: PartReader(source), tree, fields, parts: BodyParts::of(tree), metadata, options }
    }

    fn value(&self, property: &EmailProperty) -> Result<Value, S::Error> {
        let list =
            |parts: &[usize]| -> Result<Value, S::Error> { parts.iter().map(|index| self.body_part(*index)).collect() };
        Ok(match property {
            EmailProperty::Headers => header_form::all_fields(&self.fields),
            EmailProperty::Header(header) => header_form::property_value(header, &self.fields),
            EmailProperty::BodyStructure => self.body_tree(0)?,
            EmailProperty::BodyValues => self.body_values()?,
            EmailProperty::TextBody => list(&self.parts.text)?,
            EmailProperty::HtmlBody => list(&self.parts.html)?,
            EmailProperty::Attachments => list(&self.parts.attachments)?,
            EmailProperty::HasAttachment => Value::Bool(self.parts.has_attachment(self.tree)),
            EmailProperty::Preview => Value::String(self.reader.0.preview()?),
            metadata => metadata_value(self.metadata, metadata),
        })
    }

    /// Returns a part with the parts that it consists of, which the structure shows even if `subParts` is not among the
    /// body properties. The depth is bounded by the structure.
    fn body_tree(&self, index: usize) -> Result<Value, S::Error> {
        let mut object = self.body_part_object(index)?;
        if self.tree.is_multipart(index) {
            let sub_parts = self.tree.sub_parts(index);
            let sub_parts = sub_parts.into_iter().map(|index| self.body_tree(index)).collect::<Result<Value, _>>()?;
            object.insert("subParts".to_owned(), sub_parts);
        }
        Ok(Value::Object(object))
    }

    fn body_part(&self, index: usize) -> Result<Value, S::Error> {
        self.body_part_object(index).map(Value::Object)
    }

    fn body_part_object(&self, index: usize) -> Result<Map<String, Value>, S::Error> {
        let properties = self.options.body_properties.iter();
        properties.map(|property| Ok((property.name().to_owned(), self.body_property(index, property)?))).collect()
    }

    fn body_property(&self, index: usize, property: &BodyProperty) -> Result<Value, S::Error> {
        let tree = self.tree;
        let content = &tree.part(index).content;
        let is_leaf = !tree.is_multipart(index);
        let number = tree.number(index);
        let text = |text: &InternedText| String::from_utf8_lossy(text).into_owned();
        Ok(match property {
            BodyProperty::PartId => json!(is_leaf.then(|| number.to_string())),
            BodyProperty::BlobId => json!(is_leaf.then(|| part_blob_id(&self.metadata.blob_id, number))),
            BodyProperty::Size => json!(if is_leaf { self.reader.content_length(index)? } else { 0 }),
            BodyProperty::Headers => header_form::all_fields(&fields_of(&self.reader.header(index)?)),
            BodyProperty::Name => json!(content.file_name()),
            BodyProperty::Type => json!(tree.media_type(index)),
            BodyProperty::Charset => json!(tree.charset(index)),
            BodyProperty::Disposition => json!(tree.disposition(index)),
            BodyProperty::Cid => json!(content.id.as_ref().and_then(|id| content_id(id))),
            BodyProperty::Language if content.languages.is_empty() => Value::Null,
            BodyProperty::Language => content.languages.iter().map(text).collect(),
            BodyProperty::Location => json!(content.location.as_ref().map(text)),
            BodyProperty::SubParts => Value::Null,
            BodyProperty::Header(header) => {
                header_form::property_value(header, &fields_of(&self.reader.header(index)?))
            }
        })
    }

    fn body_values(&self) -> Result<Value, S::Error> {
        let options = self.options;
        let mut parts = Vec::new();
        if options.fetch_all_body_values {
            parts = self.tree.leaves();
        }
        if options.fetch_text_body_values {
            parts.extend_from_slice(&self.parts.text);
        }
        if options.fetch_html_body_values {
            parts.extend_from_slice(&self.parts.html);
        }
        parts.sort_unstable();
        parts.dedup();
        parts.retain(|index| self.tree.media_type(*index).starts_with("text/"));
        let value = |index: usize| {
            let value = body_value(&self.reader, index, options.body_value_bytes_max)?;
            Ok((self.tree.number(index).to_string(), value))
        };
        parts.into_iter().map(value).collect::<Result<Map<_, _>, _>>().map(Value::Object)
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
