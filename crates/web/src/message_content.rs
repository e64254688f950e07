//! What is shown of a message: its header fields, its text, its HTML and its attachments.
//!
//! The text is that of the parts with text that the sender did not mark as attachments. Of alternatives, the plain text
//! is preferred, or HTML for the page with HTML; HTML that has no alternative is shown as its text. Parts within
//! attached messages belong to their attachment. Damaged messages are shown as far as they can be read.

use std::collections::HashMap;

use base::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail::mime::date::HeaderDate;
use mail::mime::structure::TransferEncoding;
use mail::mime::{MimeSource, Part, PartKind, Structure, address, header, text, transfer_encoding};

use crate::limits::{HTML_PARTS_MAX, INLINE_IMAGE_BYTES_MAX, LISTED_ATTACHMENTS_MAX};
use crate::shown_text;

/// Image types that browsers show without executing anything.
pub const SAFE_IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The kind of text that is preferred among alternatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preference {
    /// Plain text.
    Plain,
    /// HTML.
    Html,
}

/// The text of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageText {
    /// The text, which is safe to look at.
    pub text: String,
    /// `true` if there is more.
    pub is_cut: bool,
}

/// An attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The index of the part.
    pub part: usize,
    /// The name, which is safe to look at.
    pub name: String,
    /// The media type as the sender named it.
    pub media_type: String,
    /// The approximate size for people.
    pub size: String,
    /// `true` if it is an image that can be shown.
    pub is_image: bool,
}

/// Returns a field of a header in readable form, or an empty text.
#[must_use]
pub fn field(header: &[u8], name: &str) -> String {
    header::first(header, name).map(header::decode_value).unwrap_or_default()
}

/// Returns the mailboxes of a field of a header as `Name <address>`.
#[must_use]
pub fn addresses(header: &[u8], name: &str) -> String {
    mailboxes(header, name).collect::<Vec<_>>().join(", ")
}

/// Returns the mailboxes of a field of a header, each as `Name <address>`.
pub fn mailboxes<'h>(header: &'h [u8], name: &'h str) -> impl Iterator<Item = String> + 'h {
    let fields = header::fields(header).filter(move |field| field.is(name));
    fields.flat_map(|field| address::mailboxes(field.value)).map(|mailbox| mailbox_text(&mailbox))
}

/// Returns a mailbox as it is shown and typed.
#[must_use]
pub fn mailbox_text(mailbox: &address::Mailbox) -> String {
    let address = mailbox.address();
    match mailbox.display_name().filter(|name| !name.is_empty() && *name != address) {
        Some(name) if name.chars().any(|c| "\",;:<>@()[]\\".contains(c)) => {
            format!("\"{}\" <{address}>", name.replace('\\', "\\\\").replace('"', "\\\""))
        }
        Some(name) => format!("{name} <{address}>"),
        None => address,
    }
}

/// Returns the names of the first mailbox of a field, for lists.
#[must_use]
pub fn short_name(header: &[u8], name: &str) -> String {
    let mut mailboxes = header::first(header, name).into_iter().flat_map(address::mailboxes);
    let Some(first) = mailboxes.next() else { return String::new() };
    let more = if mailboxes.next().is_some() { ", …" } else { "" };
    let shown = first.display_name().filter(|name| !name.trim().is_empty()).unwrap_or_else(|| first.address());
    format!("{}{more}", shown_text::shortened(&shown_text::on_one_line(shown.trim()), 40))
}

/// Returns the date that the sender wrote.
#[must_use]
pub fn date(header: &[u8]) -> Option<Timestamp> {
    header::first(header, "Date").and_then(HeaderDate::parse).map(|date| date.timestamp)
}

/// Returns the indexes of the parts that are shown as the text of the message.
#[must_use]
pub fn body_parts(structure: &Structure, preference: Preference) -> Vec<usize> {
    let parts = structure.parts();
    let mut found = Vec::new();
    let mut waiting = vec![0];
    while let Some(index) = waiting.pop() {
        let part = &parts[index];
        match part.kind {
            PartKind::Leaf if is_body(part) => found.push(index),
            PartKind::Leaf => {}
            PartKind::Multipart if part.content.subtype.eq_ignore_ascii_case(b"alternative") => {
                waiting.extend(alternative(structure, index, preference));
            }
            PartKind::Message if index != 0 => {}
            PartKind::Multipart | PartKind::Message => {
                let first = waiting.len();
                waiting.extend(structure.children(index));
                waiting[first..].reverse();
            }
        }
    }
    found
}

fn is_body(part: &Part) -> bool {
    let is_shown = part.is_media("text", "plain") || part.is_media("text", "html") || part.is_media("text", "enriched");
    is_shown && !part.is_attachment()
}

/// Returns the child of a multipart with alternatives that is shown.
fn alternative(structure: &Structure, index: usize, preference: Preference) -> Option<usize> {
    let parts = structure.parts();
    let has = |child: usize, subtype: &str| {
        let end = parts[child].end.max(child + 1).min(parts.len());
        parts[child..end].iter().any(|part| part.is_media("text", subtype) && !part.is_attachment())
    };
    let preferred = match preference {
        Preference::Plain => ["plain", "html"],
        Preference::Html => ["html", "plain"],
    };
    let children: Vec<usize> = structure.children(index).collect();
    let found = preferred.iter().find_map(|subtype| children.iter().find(|child| has(**child, subtype)));
    found.or(children.first()).copied()
}

/// Returns the text of a message, about `bytes_max` bytes of it.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn text_of<S: MimeSource + ?Sized>(source: &S, bytes_max: usize) -> Result<MessageText, S::Error> {
    let structure = source.structure();
    let mut out = MessageText::default();
    for index in body_parts(structure, Preference::Plain) {
        let left = bytes_max.saturating_sub(out.text.len());
        if left == 0 {
            out.is_cut = true;
            break;
        }
        let part = &structure.parts()[index];
        let is_html = part.is_media("text", "html");
        // Markup takes up to about nine tenths of HTML.
        let source_max = if is_html { left.saturating_mul(10) } else { left.saturating_add(1) };
        let found = text::of_part(source, index, source_max)?.unwrap_or_default();
        out.is_cut |= is_html && found.len() >= source_max;
        let found = if is_html { text::of_html(&found) } else { found };
        if !out.text.is_empty() {
            out.text.push_str("\n\n");
        }
        out.is_cut |= found.len() > left;
        out.text.push_str(&shown_text::of_body(&found[..found.floor_char_boundary(left)]));
    }
    Ok(out)
}

/// Returns the HTML of each part of a message that is shown, as the sender wrote it. There is none in most messages.
///
/// The parts stay separate: together, an attribute that one of them opens could enclose the text of the next one, which
/// may be of somebody else (a quoted or a decrypted message), in an address of the sender's choice.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn html_of<S: MimeSource + ?Sized>(source: &S, bytes_max: usize) -> Result<Vec<String>, S::Error> {
    let structure = source.structure();
    let mut left = bytes_max;
    let mut found = Vec::new();
    for index in body_parts(structure, Preference::Html) {
        if !structure.parts()[index].is_media("text", "html") || found.len() == HTML_PARTS_MAX {
            continue;
        }
        let mut html = text::of_part(source, index, left)?.unwrap_or_default();
        html.truncate(html.floor_char_boundary(left));
        left -= html.len();
        found.push(html);
    }
    Ok(found)
}

/// Returns `true` if a message has HTML.
#[must_use]
pub fn has_html(structure: &Structure) -> bool {
    body_parts(structure, Preference::Html).into_iter().any(|index| structure.parts()[index].is_media("text", "html"))
}

/// Returns the attachments of a message: everything that is not shown as its text.
#[must_use]
pub fn attachments(structure: &Structure) -> Vec<Attachment> {
    let mut shown = body_parts(structure, Preference::Plain);
    shown.extend(body_parts(structure, Preference::Html));
    let parts = structure.parts();
    let mut found = Vec::new();
    let mut index = 0;
    while index < parts.len() && found.len() < LISTED_ATTACHMENTS_MAX {
        let part = &parts[index];
        let is_attached_message = part.kind == PartKind::Message && index != 0;
        if is_attached_message || (part.kind == PartKind::Leaf && !shown.contains(&index) && part.size() > 0) {
            found.push(attachment(part, index));
        }
        index = if is_attached_message { part.end.max(index + 1) } else { index + 1 };
    }
    found
}

fn attachment(part: &Part, index: usize) -> Attachment {
    let media_type = media_type(part);
    let bytes = match part.content.encoding {
        TransferEncoding::Base64 => part.size() / 4 * 3,
        _ => part.size(),
    };
    Attachment {
        part: index,
        name: file_name(part),
        is_image: SAFE_IMAGES.contains(&media_type.as_str()),
        media_type,
        size: shown_text::size(bytes),
    }
}

/// Returns the media type of a part in lower case.
#[must_use]
pub fn media_type(part: &Part) -> String {
    let (kind, subtype) = part.media();
    let text = format!("{}/{}", String::from_utf8_lossy(kind), String::from_utf8_lossy(subtype));
    shown_text::on_one_line(&text).to_lowercase()
}

/// Returns the name of the file of a part. It has no folders.
#[must_use]
pub fn file_name(part: &Part) -> String {
    let named = part.content.file_name().map(|name| shown_text::on_one_line(&name));
    let last = named.as_deref().and_then(|name| name.rsplit(['/', '\\']).next()).unwrap_or_default().trim();
    match last.trim_start_matches('.') {
        "" if part.kind == PartKind::Message => "message.eml".to_owned(),
        "" => "attachment".to_owned(),
        name => shown_text::shortened(name, 120),
    }
}

/// Returns the images of a message that its HTML refers to by their `Content-ID`, as addresses with their bytes.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn inline_images<S: MimeSource + ?Sized>(source: &S) -> Result<HashMap<String, String>, S::Error> {
    let mut images = HashMap::new();
    let mut left = INLINE_IMAGE_BYTES_MAX;
    for part in source.structure().parts() {
        let media_type = media_type(part);
        let Some(id) = part.content.id.as_ref().filter(|_| SAFE_IMAGES.contains(&media_type.as_str())) else {
            continue;
        };
        let Ok(size) = usize::try_from(part.size()) else { continue };
        if size > left {
            continue;
        }
        let body = source.range(part.body.clone())?;
        let Some(bytes) = transfer_encoding::decode(&part.content.encoding, &body, size) else { continue };
        left -= size;
        let id = String::from_utf8_lossy(id).trim_matches(['<', '>', ' ']).to_owned();
        images.insert(id, format!("data:{media_type};base64,{}", STANDARD.encode(&bytes)));
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use mail::mime::{InMemoryMessage, parse};

    use super::*;

    const MIXED: &str = "From: =?utf-8?q?D=C3=B6ra?= <dora@b.test>\r\nTo: a@b.test, c@d.test\r\n\
        Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\
        Content-Type: multipart/alternative; boundary=y\r\n\r\n--y\r\nContent-Type: text/plain\r\n\r\nplain\r\n\
        --y\r\nContent-Type: text/html\r\n\r\n<p>rich\r\n--y--\r\n--x\r\n\
        Content-Type: text/html; name=\"../a.html\"\r\nContent-Disposition: attachment\r\n\r\n<script>\r\n--x\r\n\
        Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ninside\r\n--x--\r\n";

    #[test]
    fn texts_html_and_attachments_are_separated() {
        let structure = parse(MIXED.as_bytes());
        let message = InMemoryMessage::new(MIXED.as_bytes(), &structure);
        let Ok(text) = text_of(&message, 1_000);
        assert_eq!((text.text.as_str(), text.is_cut), ("plain", false));
        let Ok(text) = text_of(&message, 3);
        assert_eq!((text.text.as_str(), text.is_cut), ("pla", true));
        let Ok(html) = html_of(&message, 1_000);
        assert_eq!(html, ["<p>rich"]);
        let names: Vec<String> = attachments(&structure).into_iter().map(|attachment| attachment.name).collect();
        assert_eq!(names, ["a.html", "message.eml"]);
        assert_eq!(short_name(message.header(), "From"), "Döra");
        assert_eq!(short_name(message.header(), "To"), "a@b.test, …");
        assert_eq!(addresses(message.header(), "From"), "Döra <dora@b.test>");
    }

    #[test]
    fn html_without_an_alternative_is_shown_as_text() {
        let raw = b"Content-Type: text/html\r\n\r\n<p>one</p><script>two</script><p>three</p>";
        let structure = parse(raw);
        let Ok(text) = text_of(&InMemoryMessage::new(raw, &structure), 1_000);
        assert!(text.text.contains("one") && text.text.contains("three") && !text.text.contains('<'), "{text:?}");
        assert!(has_html(&structure));
    }
}
