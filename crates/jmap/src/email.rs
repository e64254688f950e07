//! A stand-in for the Email objects, which are written apart. It only lets the crate build.

use base::Timestamp;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// A property.
pub struct EmailProperty(String);
impl EmailProperty {
    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(Self(name.to_owned()))
    }
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0
    }
    /// Returns the defaults.
    pub fn defaults() -> Vec<Self> {
        ["id", "subject", "keywords", "mailboxIds"].map(|name| Self(name.to_owned())).into()
    }
    /// Returns the defaults of Email/parse.
    pub fn parse_defaults() -> Vec<Self> {
        Self::defaults()
    }
    /// Returns `true` if no bytes are needed.
    pub fn metadata(&self) -> bool {
        self.0 != "subject"
    }
}
/// Options.
pub struct BodyOptions;
impl BodyOptions {
    /// Reads arguments.
    pub fn from_arguments(_: &Map<String, Value>) -> Result<Self, String> {
        Ok(Self)
    }
}
/// Metadata.
pub struct EmailMetadata {
    pub id: Option<String>,
    pub blob_id: String,
    pub thread_id: Option<String>,
    pub mailbox_ids: Option<Vec<String>>,
    pub keywords: Option<Vec<String>>,
    pub size: u64,
    pub received_at: Option<Timestamp>,
}
/// Returns an object.
pub fn email_object(raw: &[u8], m: &EmailMetadata, p: &[EmailProperty], _: &BodyOptions) -> Map<String, Value> {
    let set = |ids: &Option<Vec<String>>| {
        ids.as_ref().map(|ids| ids.iter().map(|id| (id.clone(), json!(true))).collect::<Map<_, _>>())
    };
    let value = |name: &str| match name {
        "id" => json!(m.id),
        "blobId" => json!(m.blob_id),
        "threadId" => json!(m.thread_id),
        "mailboxIds" => json!(set(&m.mailbox_ids)),
        "keywords" => json!(set(&m.keywords)),
        "size" => json!(m.size),
        "receivedAt" => json!(m.received_at.map(Timestamp::to_rfc3339)),
        "subject" => json!(mail::mime::header::first(raw, "Subject").map(mail::mime::header::decode_value)),
        _ => Value::Null,
    };
    p.iter().map(|property| (property.0.clone(), value(&property.0))).collect()
}
/// Returns a blob id.
pub fn part_blob_id(id: &str, part: u32) -> String {
    format!("{id}-{part}")
}
/// Splits a blob id.
pub fn split_part_blob_id(id: &str) -> Option<(&str, u32)> {
    let (id, part) = id.rsplit_once('-')?;
    Some((id, part.parse().ok()?))
}
/// Content.
pub struct PartContent {
    pub bytes: Vec<u8>,
    pub media_type: String,
    pub name: Option<String>,
}
/// Returns a part.
pub fn part_content(_: &[u8], _: u32) -> Option<PartContent> {
    None
}
/// Returns `true`.
pub fn has_attachment(_: &[u8]) -> bool {
    false
}
/// Blobs.
pub trait ComposeBlobs {
    /// Returns a blob.
    fn blob(&self, id: &str) -> Option<(Bytes, Option<String>)>;
}
/// Defaults.
pub struct ComposeDefaults<'a> {
    pub now: Timestamp,
    pub message_id_domain: &'a str,
    pub unique: &'a str,
    pub size_bytes_max: u64,
}
/// Errors.
pub enum ComposeError {
    InvalidProperties { properties: Vec<String>, description: String },
    BlobNotFound(Vec<String>),
    TooLarge,
}
/// Composes.
pub fn compose(c: &Map<String, Value>, _: &dyn ComposeBlobs, d: &ComposeDefaults<'_>) -> Result<Vec<u8>, ComposeError> {
    let subject = c.get("subject").and_then(Value::as_str).unwrap_or_default();
    Ok(format!("Subject: {subject}\r\nMessage-ID: <{}@{}>\r\n\r\nbody\r\n", d.unique, d.message_id_domain).into_bytes())
}
/// Returns an excerpt.
pub fn snippet(_: &str, _: &[String], _: usize) -> Option<String> {
    None
}
/// Returns the text.
pub fn searchable_body_text(_: &[u8]) -> String {
    String::new()
}
