//! The message that the properties of Email/set create describe (RFC 8621 §4.6).
//!
//! All rules of the RFC are checked before anything is written, and the error names every property that violates one.
//! Names are those of the Email's own properties; the description says where in them the fault is. No value can add a
//! field or a line to the message.
//!
//! A Message-ID and a Date are added if the client gives none. `textBody`, `htmlBody` and `attachments` become the
//! smallest structure that reads as the same three lists; attachments get the disposition `attachment` unless the
//! client names another one. Bcc is kept; it is removed when the message is submitted.
//!
//! The properties `mailboxIds`, `keywords` and `receivedAt` belong to the caller. What is written is a function of the
//! arguments, so the same call yields the same bytes.

mod content;
mod encode;
mod fields;
mod part;

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use bytes::Bytes;
use serde_json::{Map, Value};

use crate::email::limits::PROBLEMS_DESCRIBED_MAX;
use crate::email::property::{EmailProperty, HeaderProperty};
use content::MessageWriter;
use part::{PartDraft, PartReader};

/// The blobs that a message may refer to.
pub trait ComposeBlobs {
    /// Returns the content of a blob and its media type, if that is known. Returns `None` if there is no such blob.
    fn blob(&self, id: &str) -> Option<(Bytes, Option<String>)>;
}

/// The values that a message gets from the server.
#[derive(Debug, Clone, Copy)]
pub struct ComposeDefaults<'a> {
    /// The current time, for the field Date.
    pub now: Timestamp,
    /// The domain of new message ids.
    pub message_id_domain: &'a str,
    /// Random text for the message id and the boundaries: letters and digits.
    pub unique: &'a str,
    /// Maximum length of the message.
    pub size_bytes_max: u64,
}

/// The reason why a message cannot be composed. The client must act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComposeError {
    /// Properties violate a rule (`invalidProperties`).
    InvalidProperties {
        /// The names of the properties of Email.
        properties: Vec<String>,
        /// The rule that is violated, and where.
        description: String,
    },
    /// There are no blobs with these ids (`blobNotFound`).
    BlobNotFound(Vec<String>),
    /// The message would be too large (`tooLarge`).
    TooLarge,
}

/// Writes the message that the properties of Email/set create describe.
///
/// # Errors
///
/// Returns an error if the properties violate a rule, if a blob does not exist, or if the message would be too large.
pub fn compose(
    create: &Map<String, Value>,
    blobs: &dyn ComposeBlobs,
    defaults: &ComposeDefaults<'_>,
) -> Result<Vec<u8>, ComposeError> {
    let mut problems = Problems::default();
    let mut header = DraftHeader::default();
    read_fields(create, &mut header, &mut problems);
    let mut reader = PartReader::new(create, blobs, defaults.size_bytes_max);
    let root = read_body(create, &mut reader, &mut problems);
    if let Some(root) = &root {
        let is_root = |name: &&str| create.get(*name).is_some_and(|value| !value.is_null());
        let name = ["bodyStructure", "textBody", "htmlBody"].into_iter().find(is_root);
        header.add_part_fields(root, name.unwrap_or("attachments"), &mut problems);
    }
    let missing = reader.take_missing_blobs();
    // RFC 8620 §5.3: a more specific error is returned instead of `invalidProperties`.
    if !missing.is_empty() {
        return Err(ComposeError::BlobNotFound(missing));
    }
    if let Some(error) = problems.into_error() {
        return Err(error);
    }
    if reader.is_too_large() {
        return Err(ComposeError::TooLarge);
    }
    let root = root.unwrap_or_else(PartDraft::empty_text);
    let message = MessageWriter::new(&root, defaults.unique).write(&header.finish(defaults), root);
    if message.len() as u64 > defaults.size_bytes_max { Err(ComposeError::TooLarge) } else { Ok(message) }
}

/// The violations of rules that were found.
#[derive(Default)]
struct Problems {
    properties: BTreeSet<String>,
    descriptions: Vec<String>,
}

impl Problems {
    /// Records that a property of Email violates a rule. `place` is the place in it, or empty.
    fn add(&mut self, property: &str, place: &str, description: &str) {
        if !self.properties.contains(property) {
            self.properties.insert(property.to_owned());
        }
        if self.descriptions.len() < PROBLEMS_DESCRIBED_MAX {
            self.descriptions.push(format!("{property}{place}: {description}"));
        }
    }

    fn into_error(self) -> Option<ComposeError> {
        let properties: Vec<String> = self.properties.into_iter().collect();
        let description = self.descriptions.join("; ");
        (!properties.is_empty()).then_some(ComposeError::InvalidProperties { properties, description })
    }
}

/// The fields of the message's header, by their names in lower case.
#[derive(Default)]
struct DraftHeader {
    fields: BTreeMap<String, DraftField>,
}

struct DraftField {
    /// The property that describes the field.
    property: String,
    lines: Vec<String>,
    /// The position among the fields that have no fixed place.
    order: usize,
}

impl DraftHeader {
    /// Adds the fields that a property describes. Refuses a second property for the same field.
    fn add(&mut self, property: &HeaderProperty, lines: Vec<String>, problems: &mut Problems) {
        let order = self.fields.len();
        let field = DraftField { property: property.name.clone(), lines, order };
        if let Some(other) = self.fields.insert(property.field.to_ascii_lowercase(), field) {
            let description = format!("It describes the same header field as {}", other.property);
            problems.add(&other.property, "", &format!("It describes the same header field as {}", property.name));
            problems.add(&property.name, "", &description);
        }
    }

    /// Adds the fields of the root of the body, which are fields of the message. `body` is the property of the root.
    fn add_part_fields(&mut self, root: &PartDraft, body: &str, problems: &mut Problems) {
        for (property, lines) in &root.fields {
            let order = self.fields.len();
            let field = DraftField { property: property.name.clone(), lines: lines.clone(), order };
            if let Some(other) = self.fields.insert(property.field.to_ascii_lowercase(), field) {
                let description = format!("The header field of {} is also a property of the Email", property.name);
                problems.add(body, "", &description);
                problems.add(&other.property, "", &format!("The header field is also a property of {body}"));
            }
        }
    }

    /// Adds the fields that every message has. Returns all fields in their order.
    fn finish(mut self, defaults: &ComposeDefaults<'_>) -> String {
        let unique = defaults.unique;
        let domain = defaults.message_id_domain;
        self.add_default("Date", format!("Date: {}\r\n", defaults.now.to_rfc5322()));
        self.add_default("Message-ID", format!("Message-ID: <{unique}@{domain}>\r\n"));
        self.add_default("MIME-Version", "MIME-Version: 1.0\r\n".to_owned());
        let mut fields: Vec<(usize, DraftField)> =
            self.fields.into_iter().map(|(name, field)| (rank(&name), field)).collect();
        fields.sort_by_key(|(rank, field)| (*rank, field.order));
        fields.into_iter().flat_map(|(_, field)| field.lines).collect()
    }

    fn add_default(&mut self, name: &str, line: String) {
        let order = self.fields.len();
        let field = DraftField { property: String::new(), lines: vec![line], order };
        self.fields.entry(name.to_ascii_lowercase()).or_insert(field);
    }
}

/// Returns the place of a field in the header.
fn rank(name: &str) -> usize {
    const FIRST: [&str; 13] = [
        "return-path",
        "received",
        "date",
        "from",
        "sender",
        "reply-to",
        "to",
        "cc",
        "bcc",
        "message-id",
        "in-reply-to",
        "references",
        "subject",
    ];
    match name {
        "mime-version" => FIRST.len() + 1,
        name => FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len()),
    }
}

/// Reads the properties that are header fields. Refuses those that a client may not set.
fn read_fields(create: &Map<String, Value>, header: &mut DraftHeader, problems: &mut Problems) {
    for (name, value) in create {
        let Some(property) = EmailProperty::parse(name) else {
            problems.add(name, "", "There is no such property, or its form is not allowed for its field");
            continue;
        };
        match property {
            EmailProperty::Header(property) if is_content_field(&property.field) => {
                problems.add(name, "", "Content fields belong to a part of the body");
            }
            EmailProperty::Header(property) => match fields::field_lines(&property, value) {
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => header.add(&property, lines, problems),
                Err(description) => problems.add(name, "", &description),
            },
            EmailProperty::Headers => problems.add(name, "", "Header fields are set by their own properties"),
            EmailProperty::Id
            | EmailProperty::BlobId
            | EmailProperty::ThreadId
            | EmailProperty::Size
            | EmailProperty::HasAttachment
            | EmailProperty::Preview
                if !value.is_null() =>
            {
                problems.add(name, "", "The server sets this property");
            }
            _ => {}
        }
    }
}

fn is_content_field(field: &str) -> bool {
    field.get(..8).is_some_and(|prefix| prefix.eq_ignore_ascii_case("content-"))
}

/// Reads the body, either from `bodyStructure` or from the three lists.
fn read_body(create: &Map<String, Value>, reader: &mut PartReader<'_>, problems: &mut Problems) -> Option<PartDraft> {
    const LISTS: [&str; 3] = ["textBody", "htmlBody", "attachments"];
    let is_given = |name: &&str| create.get(*name).is_some_and(|value| !value.is_null());
    reader.read_values(problems);
    let Some(structure) = create.get("bodyStructure").filter(|value| !value.is_null()) else {
        return reader.read_lists(problems);
    };
    for list in LISTS.iter().filter(|list| is_given(list)) {
        problems.add(list, "", "There is a bodyStructure as well");
        problems.add("bodyStructure", "", &format!("There is {list} as well"));
    }
    reader.read_structure(structure, problems)
}
