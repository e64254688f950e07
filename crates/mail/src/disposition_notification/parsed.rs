//! A notification that was received.
//!
//! The parser is lenient about everything but the form of the report and its field `Disposition`: a message is a
//! notification if it is a `multipart/report` whose second part is a disposition notification with a valid disposition.

use crate::disposition_notification::Disposition;
use crate::limits::{NOTIFICATION_FIELDS_MAX, NOTIFICATION_TEXT_BYTES_MAX};
use crate::mime::header::{self, HeaderField};
use crate::mime::{InMemoryMessage, Part, Structure, parse, slice, text};

/// The media types of the part for programs (RFC 8098 §3.1, RFC 6533 §4).
const MEDIA_TYPES: [&[u8]; 2] = [b"disposition-notification", b"global-disposition-notification"];

/// The content of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedNotification {
    /// The subject.
    pub subject: Option<String>,
    /// The text for people, with line feeds.
    pub text: Option<String>,
    /// `true` if the notification returns the message, or its header.
    pub has_original: bool,
    /// What happened to the message.
    pub disposition: Disposition,
    /// The name of the program that reports.
    pub reporting_ua: Option<String>,
    /// The name of the gateway that has made the notification.
    pub gateway: Option<String>,
    /// The address to which the message was sent, with its type.
    pub original_recipient: Option<String>,
    /// The address that got the message, with its type.
    pub final_recipient: Option<String>,
    /// The identifier of the message, as the notification writes it.
    pub original_message_id: Option<String>,
    /// Explanations of errors.
    pub errors: Vec<String>,
    /// Further fields, by their names.
    pub extension_fields: Vec<(String, String)>,
}

impl ParsedNotification {
    /// Parses a message. Returns `None` if it is not a notification.
    #[must_use]
    pub fn parse(raw: &[u8]) -> Option<Self> {
        let structure = parse(raw);
        let parts = Parts::find(&structure)?;
        let fields = decoded(structure.parts().get(parts.disposition)?, raw)?;
        let disposition = header::fields(fields.as_bytes()).find(|field| field.is("Disposition"))?;
        let mut parsed = Self {
            subject: header::first(slice(raw, &structure.root().header), "Subject").map(header::decode_value),
            text: parts.text.and_then(|index| text_of(&structure, index, raw)),
            has_original: parts.has_original,
            disposition: Disposition::parse(&header::decode_value(disposition.value))?,
            reporting_ua: None,
            gateway: None,
            original_recipient: None,
            final_recipient: None,
            original_message_id: None,
            errors: Vec::new(),
            extension_fields: Vec::new(),
        };
        for field in header::fields(fields.as_bytes()).filter(|field| !field.name.is_empty()) {
            parsed.add(&field);
        }
        Some(parsed)
    }

    /// Adds a field for programs. Of repeated fields the first one counts.
    fn add(&mut self, field: &HeaderField<'_>) {
        let value = header::decode_value(field.value);
        let known = [
            ("Reporting-UA", &mut self.reporting_ua),
            ("MDN-Gateway", &mut self.gateway),
            ("Original-Recipient", &mut self.original_recipient),
            ("Final-Recipient", &mut self.final_recipient),
            ("Original-Message-ID", &mut self.original_message_id),
        ];
        if let Some((_, place)) = known.into_iter().find(|(name, _)| field.is(name)) {
            place.get_or_insert(value);
        } else if field.is("Error") {
            if self.errors.len() < NOTIFICATION_FIELDS_MAX {
                self.errors.push(value);
            }
        } else if !field.is("Disposition") && self.extension_fields.len() < NOTIFICATION_FIELDS_MAX {
            let name = String::from_utf8_lossy(field.name).into_owned();
            if !self.extension_fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(&name)) {
                self.extension_fields.push((name, value));
            }
        }
    }
}

/// Returns `true` if a name is that of a field that notifications define themselves.
#[must_use]
pub fn is_defined_field(name: &str) -> bool {
    let defined = [
        "Reporting-UA",
        "MDN-Gateway",
        "Original-Recipient",
        "Final-Recipient",
        "Original-Message-ID",
        "Disposition",
        "Error",
    ];
    defined.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The parts of a notification by their indexes.
struct Parts {
    text: Option<usize>,
    disposition: usize,
    has_original: bool,
}

impl Parts {
    fn find(structure: &Structure) -> Option<Self> {
        let root = &structure.root().content;
        if !root.is_multipart() || !root.subtype.eq_ignore_ascii_case(b"report") {
            return None;
        }
        let children: Vec<usize> = structure.children(0).take(3).collect();
        let disposition = *children.get(1)?;
        let content = &structure.parts().get(disposition)?.content;
        let is_notification = content.media_type.eq_ignore_ascii_case(b"message")
            && MEDIA_TYPES.iter().any(|subtype| content.subtype.eq_ignore_ascii_case(subtype));
        is_notification.then(|| Self { text: children.first().copied(), disposition, has_original: children.len() > 2 })
    }
}

/// Returns the fields for programs. They may be in a transfer encoding, and in UTF-8 (RFC 6533).
fn decoded(part: &Part, raw: &[u8]) -> Option<String> {
    let body = slice(raw, &part.body);
    let body = body.get(..NOTIFICATION_TEXT_BYTES_MAX).unwrap_or(body);
    text::decode(part, body, NOTIFICATION_TEXT_BYTES_MAX)
}

/// Returns the text for people, which may be HTML or have alternatives.
fn text_of(structure: &Structure, index: usize, raw: &[u8]) -> Option<String> {
    let end = structure.parts().get(index)?.end;
    let index = (index..end.max(index + 1)).find(|index| structure.parts()[*index].is_text())?;
    let source = InMemoryMessage::new(raw, structure);
    let Ok(found) = text::of_part(&source, index, NOTIFICATION_TEXT_BYTES_MAX);
    let found = found?;
    let is_html = structure.parts()[index].is_media("text", "html");
    let found = if is_html { text::of_html(&found) } else { found };
    Some(found.replace("\r\n", "\n"))
}
