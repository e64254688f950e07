//! The parts of a composed message from EmailBodyPart objects.
//!
//! A [`PartReader`] checks each object and makes a [`PartDraft`] of it: the fields of the part without the transfer
//! encoding, and the content. Fields that a client gives as `header:Content-Type` and the like replace the properties
//! from which they would be made; both together are refused.

use std::collections::HashMap;

use bytes::Bytes;
use mail::mime::parse;
use mail::mime::structure::{Content, InternedText};
use serde_json::{Map, Value};

use super::content::is_8bit_message;
use super::encode::{FieldWriter, is_token_character, without_controls, write_parameter, write_parameter_text};
use super::fields::{field_lines, one_line};
use super::{ComposeBlobs, Problems, is_content_field};
use crate::email::limits::{
    COMPOSED_DEPTH_MAX, COMPOSED_FIELDS_MAX, COMPOSED_PARTS_MAX, FILE_NAME_BYTES_MAX, UNFOLDABLE_BYTES_MAX,
};
use crate::email::property::{BodyProperty, HeaderInstances, HeaderProperty};

/// A part that can be written.
pub(super) struct PartDraft {
    /// The Content-Type field without the boundary and without its line end.
    pub(super) content_type: String,
    /// The media type in lower case.
    pub(super) media_type: String,
    /// The other `Content-` fields.
    pub(super) content_fields: Vec<String>,
    /// The fields that the client named. At the root they are fields of the message.
    pub(super) fields: Vec<(HeaderProperty, Vec<String>)>,
    /// The content.
    pub(super) content: ContentDraft,
    /// `true` if the content, or that of a part in it, is written in 8bit.
    pub(super) is_8bit: bool,
}

/// The content of a part.
pub(super) enum ContentDraft {
    /// A text of `bodyValues`.
    Text(String),
    /// The content of a blob.
    Blob(Bytes),
    /// Further parts.
    Parts(Vec<PartDraft>),
}

impl PartDraft {
    /// Creates an empty text.
    pub(super) fn empty_text() -> Self {
        Self::with_content(TypeDraft::new("text/plain"), ContentDraft::Text(String::new()))
    }

    /// Creates a multipart.
    fn multipart(subtype: &str, parts: Vec<Self>) -> Self {
        let mut media_type = TypeDraft::new(&format!("multipart/{subtype}"));
        if subtype == "related"
            && let Some(first) = parts.first()
        {
            media_type.parameters.push(("type".to_owned(), first.media_type.clone()));
        }
        Self::with_content(media_type, ContentDraft::Parts(parts))
    }

    fn with_content(mut media_type: TypeDraft, content: ContentDraft) -> Self {
        if matches!(content, ContentDraft::Text(_)) && media_type.name.starts_with("text/") {
            media_type.parameters.retain(|(name, _)| !name.eq_ignore_ascii_case("charset"));
            media_type.parameters.insert(0, ("charset".to_owned(), "utf-8".to_owned()));
        }
        let is_8bit = match &content {
            ContentDraft::Text(_) => false,
            ContentDraft::Blob(bytes) => is_8bit_message(&media_type.name, bytes),
            ContentDraft::Parts(parts) => parts.iter().any(|part| part.is_8bit),
        };
        Self {
            content_type: media_type.field(),
            media_type: media_type.name,
            content_fields: Vec::new(),
            fields: Vec::new(),
            content,
            is_8bit,
        }
    }
}

/// A Content-Type.
struct TypeDraft {
    /// The media type in lower case.
    name: String,
    parameters: Vec<(String, String)>,
    /// Parameters that are already encoded as RFC 2231 says.
    encoded: Vec<String>,
}

impl TypeDraft {
    fn new(name: &str) -> Self {
        Self { name: name.to_ascii_lowercase(), parameters: Vec::new(), encoded: Vec::new() }
    }

    /// Reads the value of a Content-Type field. Its boundary is dropped, because each message gets new ones.
    fn parse(value: &str) -> Option<Self> {
        let structure = parse(format!("Content-Type: {value}\r\n\r\n").as_bytes());
        let content: &Content = &structure.root().content;
        let text = |text: &InternedText| without_controls(&String::from_utf8_lossy(text));
        let mut draft = Self::new(&format!("{}/{}", text(&content.media_type), text(&content.subtype)));
        if !content.typed || !is_media_type(&draft.name) {
            return None;
        }
        for parameter in &content.parameters {
            let name = text(&parameter.name);
            let value = text(&parameter.value);
            let is_token = name.chars().all(is_token_character);
            if !is_token || value.len() > UNFOLDABLE_BYTES_MAX || name.to_ascii_lowercase().starts_with("boundary") {
                continue;
            }
            if name.ends_with('*') && value.chars().all(is_token_character) {
                draft.encoded.push(format!("{name}={value}"));
            } else {
                draft.parameters.push((name.trim_end_matches('*').to_owned(), value));
            }
        }
        Some(draft)
    }

    fn field(&self) -> String {
        let mut field = FieldWriter::new("Content-Type");
        field.word(&self.name);
        self.parameters.iter().for_each(|(name, value)| write_parameter(&mut field, name, value));
        self.encoded.iter().for_each(|parameter| write_parameter_text(&mut field, parameter));
        field.finish().trim_end().to_owned()
    }
}

fn is_media_type(text: &str) -> bool {
    let is_token = |text: &str| !text.is_empty() && text.chars().all(is_token_character);
    text.len() <= FILE_NAME_BYTES_MAX
        && text.split_once('/').is_some_and(|(name, subtype)| is_token(name) && is_token(subtype))
}

/// A place in the properties of an Email, for error descriptions.
#[derive(Clone)]
struct Place {
    property: &'static str,
    path: String,
}

impl Place {
    fn new(property: &'static str) -> Self {
        Self { property, path: String::new() }
    }

    fn inside(&self, name: &str) -> Self {
        Self { property: self.property, path: format!("{}/{name}", self.path) }
    }

    fn refuse(&self, problems: &mut Problems, description: &str) {
        problems.add(self.property, &self.path, description);
    }
}

/// A reader of the parts of one message.
pub(super) struct PartReader<'a> {
    create: &'a Map<String, Value>,
    blobs: &'a dyn ComposeBlobs,
    /// The texts of `bodyValues`. `None` for a value that is not valid.
    values: HashMap<&'a str, Option<&'a str>>,
    missing_blobs: Vec<String>,
    parts: usize,
    /// The size of all contents that were read, and its maximum.
    size: u64,
    size_max: u64,
}

impl<'a> PartReader<'a> {
    pub(super) fn new(create: &'a Map<String, Value>, blobs: &'a dyn ComposeBlobs, size_max: u64) -> Self {
        Self { create, blobs, values: HashMap::new(), missing_blobs: Vec::new(), parts: 0, size: 0, size_max }
    }

    /// Returns the ids of the blobs that do not exist.
    pub(super) fn take_missing_blobs(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missing_blobs)
    }

    /// Returns `true` if the contents alone exceed the maximum size.
    pub(super) fn is_too_large(&self) -> bool {
        self.size > self.size_max
    }

    /// Reads `bodyValues`.
    pub(super) fn read_values(&mut self, problems: &mut Problems) {
        let place = Place::new("bodyValues");
        let values = match self.create.get("bodyValues") {
            None | Some(Value::Null) => return,
            Some(Value::Object(values)) => values,
            Some(_) => return place.refuse(problems, "It must be an object"),
        };
        for (id, value) in values {
            match value_text(value) {
                Ok(text) => drop(self.values.insert(id, Some(text))),
                Err(description) => {
                    self.values.insert(id, None);
                    place.inside(id).refuse(problems, description);
                }
            }
        }
    }

    /// Reads `bodyStructure`.
    pub(super) fn read_structure(&mut self, structure: &Value, problems: &mut Problems) -> Option<PartDraft> {
        self.part(structure, &Place::new("bodyStructure"), 0, problems)
    }

    /// Reads `textBody`, `htmlBody` and `attachments`.
    pub(super) fn read_lists(&mut self, problems: &mut Problems) -> Option<PartDraft> {
        let text = self.body("textBody", "text/plain", problems);
        let html = self.body("htmlBody", "text/html", problems);
        let mut attached = Vec::new();
        let mut embedded = Vec::new();
        for (position, part) in self.list("attachments", problems).iter().enumerate() {
            let place = Place::new("attachments").inside(&position.to_string());
            let is_embedded = html.is_some() && is_embedded(part);
            let disposition = if is_embedded { "inline" } else { "attachment" };
            let part = with_disposition(part, disposition);
            let Some(part) = self.part(&part, &place, 0, problems) else { continue };
            if is_embedded { embedded.push(part) } else { attached.push(part) }
        }
        let html = html.map(|html| {
            if embedded.is_empty() {
                return html;
            }
            PartDraft::multipart("related", std::iter::once(html).chain(embedded).collect())
        });
        let body = match (text, html) {
            (Some(text), Some(html)) => Some(PartDraft::multipart("alternative", vec![text, html])),
            (text, html) => text.or(html),
        };
        if attached.is_empty() {
            return body;
        }
        Some(PartDraft::multipart("mixed", body.into_iter().chain(attached).collect()))
    }

    /// Returns the objects of one of the lists.
    fn list(&self, name: &'static str, problems: &mut Problems) -> &'a [Value] {
        match self.create.get(name) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(parts)) => parts,
            Some(_) => {
                problems.add(name, "", "It must be an array");
                &[]
            }
        }
    }

    /// Reads `textBody` or `htmlBody`, which has exactly one part of a certain type.
    fn body(&mut self, name: &'static str, media_type: &str, problems: &mut Problems) -> Option<PartDraft> {
        let is_given = matches!(self.create.get(name), Some(Value::Array(_)));
        let parts = self.list(name, problems);
        let [part] = parts else {
            if is_given {
                problems.add(name, "", "It must have exactly one part");
            }
            return None;
        };
        let place = Place::new(name).inside("0");
        let part = self.part(part, &place, 0, problems)?;
        if part.media_type != media_type {
            place.inside("type").refuse(problems, &format!("It must be {media_type}"));
        }
        Some(part)
    }

    /// Reads a part with the parts in it, up to a depth.
    fn part(&mut self, value: &Value, place: &Place, depth: usize, problems: &mut Problems) -> Option<PartDraft> {
        self.parts += 1;
        if depth > COMPOSED_DEPTH_MAX || self.parts > COMPOSED_PARTS_MAX {
            place.refuse(problems, "There are too many parts");
            return None;
        }
        let Some(object) = value.as_object() else {
            place.refuse(problems, "It must be an object");
            return None;
        };
        let mut part = PartProperties::read(object, place, problems);
        let content = self.content(&mut part, place, depth, problems)?;
        part.finish(content, place, problems)
    }

    /// Reads the content of a part.
    fn content(
        &mut self,
        part: &mut PartProperties<'_>,
        place: &Place,
        depth: usize,
        problems: &mut Problems,
    ) -> Option<ContentDraft> {
        let part_id = part.text("partId", place, problems);
        let blob_id = part.text("blobId", place, problems);
        match (part_id, blob_id, part.get("subParts")) {
            (None, None, Some(Value::Array(parts))) if !parts.is_empty() => {
                let mut drafts = Vec::new();
                for (position, value) in parts.iter().enumerate() {
                    let place = place.inside("subParts").inside(&position.to_string());
                    drafts.extend(self.part(value, &place, depth + 1, problems));
                }
                part.set_default_type("multipart/mixed");
                Some(ContentDraft::Parts(drafts))
            }
            (Some(id), None, None) => self.text(id, part, place, problems),
            (None, Some(id), None) => self.blob(id, part),
            _ => {
                place.refuse(problems, "It must have exactly one of partId, blobId and subParts, which is not empty");
                None
            }
        }
    }

    fn text(
        &mut self,
        id: &str,
        part: &mut PartProperties<'_>,
        place: &Place,
        problems: &mut Problems,
    ) -> Option<ContentDraft> {
        for name in ["charset", "size"] {
            if part.get(name).is_some() {
                place.inside(name).refuse(problems, "It must be omitted if there is a partId");
            }
        }
        part.set_default_type("text/plain");
        let Some(text) = self.values.get(id) else {
            place.inside("partId").refuse(problems, "There is no such text in bodyValues");
            return None;
        };
        let text = text.unwrap_or_default();
        self.size = self.size.saturating_add(text.len() as u64);
        // A text beyond the maximum is not copied, because several parts may use the same one.
        Some(ContentDraft::Text(if self.is_too_large() { String::new() } else { text.to_owned() }))
    }

    fn blob(&mut self, id: &str, part: &mut PartProperties<'_>) -> Option<ContentDraft> {
        // Several parts may name the same blob. It is not read for a message that cannot be stored.
        if self.is_too_large() {
            part.set_default_type("application/octet-stream");
            return Some(ContentDraft::Blob(Bytes::new()));
        }
        let Some((bytes, media_type)) = self.blobs.blob(id) else {
            if !self.missing_blobs.iter().any(|missing| missing == id) {
                self.missing_blobs.push(id.to_owned());
            }
            // The remaining properties are checked as if the blob were empty.
            part.set_default_type("application/octet-stream");
            return Some(ContentDraft::Blob(Bytes::new()));
        };
        let media_type = media_type.as_deref().and_then(TypeDraft::parse).filter(|draft| !draft.is_multipart());
        part.set_default_type(media_type.as_ref().map_or("application/octet-stream", |draft| &draft.name));
        self.size = self.size.saturating_add(bytes.len() as u64);
        Some(ContentDraft::Blob(if self.is_too_large() { Bytes::new() } else { bytes }))
    }
}

impl TypeDraft {
    fn is_multipart(&self) -> bool {
        self.name.starts_with("multipart/")
    }
}

/// Returns the text of an EmailBodyValue.
fn value_text(value: &Value) -> Result<&str, &'static str> {
    let object = value.as_object().ok_or("It must be an object")?;
    for (name, value) in object {
        match (&name[..], value) {
            ("value", _) | ("isEncodingProblem" | "isTruncated", Value::Bool(false) | Value::Null) => {}
            ("isEncodingProblem" | "isTruncated", _) => return Err("isEncodingProblem and isTruncated must be false"),
            _ => return Err("It has an unknown property"),
        }
    }
    object.get("value").and_then(Value::as_str).ok_or("It must have a value that is a string")
}

/// Returns `true` if an attachment is displayed within the HTML.
fn is_embedded(part: &Value) -> bool {
    let disposition = part.get("disposition").and_then(Value::as_str);
    let has_cid = part.get("cid").is_some_and(Value::is_string);
    disposition.is_some_and(|disposition| disposition.eq_ignore_ascii_case("inline"))
        || (has_cid && disposition.is_none() && !has_header(part, "Content-Disposition"))
}

/// Returns the properties of an attachment with a disposition. Without one it could be displayed as a part of the body.
fn with_disposition(part: &Value, disposition: &str) -> Value {
    let mut part = part.clone();
    let is_missing = part.get("disposition").is_none_or(Value::is_null) && !has_header(&part, "Content-Disposition");
    if let Some(object) = part.as_object_mut().filter(|_| is_missing) {
        object.insert("disposition".to_owned(), Value::from(disposition));
    }
    part
}

/// Returns `true` if a part has a header property for a field.
fn has_header(part: &Value, field: &str) -> bool {
    let mut names = part.as_object().into_iter().flat_map(Map::keys);
    names.any(|name| HeaderProperty::parse(name).is_some_and(|header| header.field.eq_ignore_ascii_case(field)))
}

/// The properties of one part.
struct PartProperties<'a> {
    object: &'a Map<String, Value>,
    media_type: Option<TypeDraft>,
    /// The fields that the client named, except for Content-Type.
    fields: Vec<(HeaderProperty, Vec<String>)>,
    /// `true` if the type comes from a header property.
    has_type_field: bool,
}

impl<'a> PartProperties<'a> {
    /// Reads the type and the header properties, and refuses unknown properties.
    fn read(object: &'a Map<String, Value>, place: &Place, problems: &mut Problems) -> Self {
        let mut part = Self { object, media_type: None, fields: Vec::new(), has_type_field: false };
        for (name, value) in object {
            match BodyProperty::parse(name) {
                None => place.inside(name).refuse(problems, "There is no such property"),
                Some(BodyProperty::Headers) => {
                    place.inside(name).refuse(problems, "Header fields are set by their own properties");
                }
                Some(BodyProperty::Header(header)) => part.read_field(header, value, place, problems),
                Some(_) => {}
            }
        }
        if let Some(name) = part.text("type", place, problems) {
            if !is_media_type(name) {
                place.inside("type").refuse(problems, "It must be a media type");
            } else if part.has_type_field {
                place.inside("type").refuse(problems, "There is a header:Content-Type as well");
            } else {
                part.media_type = Some(TypeDraft::new(name));
            }
        }
        part
    }

    fn read_field(&mut self, header: HeaderProperty, value: &Value, place: &Place, problems: &mut Problems) {
        let place = place.inside(&header.name);
        let lines = match field_lines(&header, value) {
            Ok(lines) => lines,
            Err(description) => return place.refuse(problems, &description),
        };
        let is_known = |(other, _): &(HeaderProperty, _)| other.field.eq_ignore_ascii_case(&header.field);
        let is_type = header.field.eq_ignore_ascii_case("Content-Type");
        if self.fields.len() >= COMPOSED_FIELDS_MAX {
            place.refuse(problems, "There are too many header fields");
        } else if header.field.eq_ignore_ascii_case("Content-Transfer-Encoding") {
            place.refuse(problems, "The server chooses the transfer encoding");
        } else if self.fields.iter().any(is_known) || (is_type && self.has_type_field) {
            place.refuse(problems, "Another property describes the same header field");
        } else if is_content_field(&header.field) && header.instances == HeaderInstances::All && lines.len() > 1 {
            place.refuse(problems, "A part has this field only once");
        } else if is_type {
            let parsed = lines.first().and_then(|line| line.split_once(':')).map(|(_, value)| TypeDraft::parse(value));
            match parsed {
                Some(Some(media_type)) => self.media_type = Some(media_type),
                Some(None) => place.refuse(problems, "It must be a media type with parameters"),
                None => return,
            }
            self.has_type_field = true;
        } else if !lines.is_empty() {
            self.fields.push((header, lines));
        }
    }

    /// Returns a property that is not null.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// Returns a property that is a text on one line.
    fn text(&self, name: &str, place: &Place, problems: &mut Problems) -> Option<&'a str> {
        match one_line(self.get(name)?) {
            Ok(text) => Some(text),
            Err(description) => {
                place.inside(name).refuse(problems, &description);
                None
            }
        }
    }

    fn set_default_type(&mut self, media_type: &str) {
        self.media_type.get_or_insert_with(|| TypeDraft::new(media_type));
    }

    fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|(header, _)| header.field.eq_ignore_ascii_case(name))
    }

    /// Returns a property from which a field is made. Refuses it if there is a header property for the field.
    fn field_text(&self, names: [&str; 2], place: &Place, problems: &mut Problems) -> Option<&'a str> {
        let [name, field] = names;
        let text = self.text(name, place, problems)?;
        if self.has_field(field) {
            place.inside(name).refuse(problems, &format!("There is a header:{field} as well"));
        }
        Some(text)
    }

    /// Makes the part.
    fn finish(mut self, content: ContentDraft, place: &Place, problems: &mut Problems) -> Option<PartDraft> {
        let mut media_type = self.media_type.take()?;
        if media_type.is_multipart() != matches!(content, ContentDraft::Parts(_)) {
            place.inside("type").refuse(problems, "The type is multipart if there are subParts, and only then");
        }
        if let Some(charset) = self.text("charset", place, problems) {
            if self.has_type_field || charset.is_empty() || !charset.chars().all(is_token_character) {
                place.inside("charset").refuse(problems, "It must be a character set, without header:Content-Type");
            }
            media_type.parameters.push(("charset".to_owned(), charset.to_owned()));
        }
        let disposition = self.disposition(&mut media_type, place, problems);
        let mut content_fields: Vec<String> = disposition.into_iter().collect();
        content_fields.extend(self.content_id(place, problems));
        content_fields.extend(self.language(place, problems));
        content_fields.extend(self.location(place, problems));
        let mut draft = PartDraft::with_content(media_type, content);
        draft.content_fields = content_fields;
        draft.fields = self.fields;
        Some(draft)
    }

    /// Makes Content-Disposition. The name of the part is in it, or in the type if there is no disposition.
    fn disposition(&self, media_type: &mut TypeDraft, place: &Place, problems: &mut Problems) -> Option<String> {
        let kind = self.field_text(["disposition", "Content-Disposition"], place, problems);
        let name = self.field_text(["name", "Content-Disposition"], place, problems).map(without_controls);
        let name = name.filter(|name| !name.is_empty());
        if name.as_ref().is_some_and(|name| name.len() > FILE_NAME_BYTES_MAX) {
            place.inside("name").refuse(problems, "It is too long");
        }
        if kind.is_some_and(|kind| kind.is_empty() || kind.len() > 100 || !kind.chars().all(is_token_character)) {
            place.inside("disposition").refuse(problems, "It must be a word like attachment or inline");
        }
        let Some(kind) = kind else {
            if self.has_type_field && name.is_some() {
                place.inside("name").refuse(problems, "There is a header:Content-Type and no disposition");
            }
            media_type.parameters.extend(name.map(|name| ("name".to_owned(), name)));
            return None;
        };
        let mut field = FieldWriter::new("Content-Disposition");
        field.word(kind);
        name.iter().for_each(|name| write_parameter(&mut field, "filename", name));
        Some(field.finish())
    }

    fn content_id(&self, place: &Place, problems: &mut Problems) -> Option<String> {
        let cid = self.field_text(["cid", "Content-ID"], place, problems)?;
        let is_valid = cid.chars().all(|character| character.is_ascii_graphic() && !"<>".contains(character));
        if !is_valid || cid.is_empty() || cid.len() > UNFOLDABLE_BYTES_MAX {
            place.inside("cid").refuse(problems, "It must be a content id without angle brackets");
        }
        Some(format!("Content-ID: <{cid}>\r\n"))
    }

    fn language(&self, place: &Place, problems: &mut Problems) -> Option<String> {
        let value = self.get("language")?;
        let place = place.inside("language");
        let is_tag = |value: &Value| {
            let tag = value.as_str().unwrap_or_default();
            (1..=100).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let tags = value.as_array().filter(|tags| tags.iter().all(is_tag));
        let Some(tags) = tags.filter(|_| !self.has_field("Content-Language")) else {
            place.refuse(problems, "It must be an array of language tags, without header:Content-Language");
            return None;
        };
        let mut field = FieldWriter::new("Content-Language");
        for (position, tag) in tags.iter().filter_map(Value::as_str).enumerate() {
            if position > 0 {
                field.append(",");
            }
            field.word(tag);
        }
        (!tags.is_empty()).then(|| field.finish())
    }

    fn location(&self, place: &Place, problems: &mut Problems) -> Option<String> {
        let location = self.field_text(["location", "Content-Location"], place, problems)?;
        let is_valid = location.chars().all(|character| character.is_ascii_graphic());
        if !is_valid || location.is_empty() || location.len() > UNFOLDABLE_BYTES_MAX {
            place.inside("location").refuse(problems, "It must be a URI");
        }
        Some(format!("Content-Location: {location}\r\n"))
    }
}
