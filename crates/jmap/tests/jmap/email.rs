//! Tests of the Email object: messages as JSON, JSON as messages, snippets.

mod body;
mod drafts;
mod headers;
mod properties;
mod snippets;

use std::collections::HashMap;
use std::convert::Infallible;

use base::Timestamp;
use bytes::Bytes;
use jmap::email::{
    BodyOptions, ComposeBlobs, ComposeDefaults, ComposeError, EmailMetadata, EmailProperty, LocatedPart, compose,
    email_object, located_part,
};
use mail::mime::{InMemoryMessage, parse};
use serde_json::{Map, Value, json};

/// Blobs by their ids, with media types.
#[derive(Default)]
struct Blobs(HashMap<&'static str, (Vec<u8>, Option<&'static str>)>);

impl ComposeBlobs for Blobs {
    fn blob(&self, id: &str) -> Option<(Bytes, Option<String>)> {
        let (bytes, media_type) = self.0.get(id)?;
        Some((Bytes::from(bytes.clone()), media_type.map(str::to_owned)))
    }
}

const DEFAULTS: ComposeDefaults<'_> = ComposeDefaults {
    now: Timestamp(1_700_000_000_000_000),
    message_id_domain: "server.example",
    unique: "u1",
    size_bytes_max: 10 << 20,
};

/// Returns what `read` returns for a message in memory.
fn reading<T>(raw: &[u8], read: impl FnOnce(&InMemoryMessage<'_>) -> Result<T, Infallible>) -> T {
    let structure = parse(raw);
    let Ok(read) = read(&InMemoryMessage::new(raw, &structure));
    read
}

/// The content of a part, as a download has it.
#[derive(Debug, PartialEq, Eq)]
struct PartContent {
    bytes: Vec<u8>,
    media_type: String,
    name: Option<String>,
}

/// Returns the content of the part with a number.
fn part_content(raw: &[u8], number: u32) -> Option<PartContent> {
    let LocatedPart { index, media_type, name } = located_part(&parse(raw), number)?;
    let bytes = reading(raw, |message| jmap::email::part_content(message, index));
    Some(PartContent { bytes, media_type, name })
}

/// Returns the text in which snippets are sought.
fn searchable_body_text(raw: &[u8]) -> String {
    reading(raw, |message| jmap::email::searchable_body_text(message))
}

/// Composes a message from properties.
fn try_compose(create: &Value, blobs: &Blobs) -> Result<Vec<u8>, ComposeError> {
    compose(create.as_object().expect("the properties are an object"), blobs, &DEFAULTS)
}

#[track_caller]
fn composed(create: &Value, blobs: &Blobs) -> Vec<u8> {
    try_compose(create, blobs).unwrap_or_else(|error| panic!("{error:?}: {create}"))
}

/// Returns the named properties of a message. `options` are arguments of Email/get.
#[track_caller]
fn get(raw: &[u8], properties: &[&str], options: &Value) -> Map<String, Value> {
    let parse = |name: &&str| EmailProperty::parse(name).unwrap_or_else(|| panic!("{name} is a property"));
    let properties: Vec<EmailProperty> = properties.iter().map(parse).collect();
    let options = BodyOptions::from_arguments(options.as_object().expect("the options are an object"));
    let metadata = EmailMetadata { blob_id: "G1".to_owned(), ..EmailMetadata::default() };
    let options = options.expect("the options are valid");
    reading(raw, |message| email_object(message, &metadata, &properties, &options))
}

/// Returns one property of a message.
#[track_caller]
fn property(raw: &[u8], name: &str) -> Value {
    get(raw, &[name], &json!({})).remove(name).expect("the property is in the object")
}
