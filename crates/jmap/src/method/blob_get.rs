//! Blob/get (RFC 9404 §4.2): the bytes of blobs, or ranges of them, as text or base64, and their digests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::blob::{BlobReader, FoundBlob};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

const PROPERTIES: [&str; 6] = ["data", "data:asText", "data:asBase64", "digest:sha", "digest:sha-256", "size"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let ids = arguments.texts("ids")?;
    let ids = ids.ok_or_else(|| MethodError::invalid_arguments("ids is missing"))?;
    let properties = arguments.texts("properties")?.unwrap_or_else(|| vec!["data".to_owned(), "size".to_owned()]);
    let offset = arguments.unsigned("offset")?.unwrap_or(0);
    let length = arguments.unsigned("length")?;
    arguments.finish()?;
    if let Some(name) = properties.iter().find(|name| !PROPERTIES.contains(&name.as_str()) && *name != "id") {
        return Err(MethodError::invalid_arguments(format!("there is no property {name}")));
    }
    context.check_get_count(ids.len())?;
    let account = context.account(&account_id)?;
    let blobs = BlobReader::new(context.services, context.caller, &account);
    let mut list = Vec::new();
    let mut not_found = Vec::new();
    for id in ids {
        let resolved = context.resolve_id(&id);
        let found = resolved.map(|id| blobs.find(&id)).transpose()?.flatten();
        let described = found.map(|blob| describe(context, &blob, &properties, (offset, length)));
        let Some(mut object) = described.transpose()?.flatten() else {
            not_found.push(id);
            continue;
        };
        object["id"] = json!(id);
        context.count_reply(&object)?;
        list.push(object);
    }
    let ticket = blobs.ticket();
    context.wait_for(ticket);
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("list".to_owned(), Value::Array(list));
    reply.insert("notFound".to_owned(), json!(not_found));
    Ok(reply)
}

/// Returns the properties of a blob, or `None` if it was removed since it was found. Reads the range only.
fn describe(
    context: &Context<'_>,
    blob: &FoundBlob,
    properties: &[String],
    (offset, length): (u64, Option<u64>),
) -> MethodResult<Option<Value>> {
    let size = blob.size();
    let start = offset.min(size);
    let end = length.map_or(size, |length| start.saturating_add(length).min(size));
    let is_truncated = offset > size || length.is_some_and(|length| offset.saturating_add(length) > size);
    let is_read = properties.iter().any(|name| name != "size" && name != "id");
    let range = if is_read { blob.read(context.services, context.caller, start..end)? } else { Some(Bytes::new()) };
    let Some(range) = range else { return Ok(None) };
    let range: &[u8] = &range;
    let text = std::str::from_utf8(range).ok();
    let mut object = json!({});
    for name in properties {
        match (name.as_str(), text) {
            ("size", _) => object["size"] = json!(size),
            ("data" | "data:asText", Some(text)) => object["data:asText"] = json!(text),
            ("data:asText", None) => object["data:asText"] = Value::Null,
            ("data" | "data:asBase64", _) => object["data:asBase64"] = json!(STANDARD.encode(range)),
            ("digest:sha", _) => object["digest:sha"] = json!(digest(&SHA1_FOR_LEGACY_USE_ONLY, range)),
            ("digest:sha-256", _) => object["digest:sha-256"] = json!(digest(&SHA256, range)),
            _ => {}
        }
    }
    if text.is_none() && properties.iter().any(|name| name == "data" || name == "data:asText") {
        object["isEncodingProblem"] = json!(true);
    }
    if is_truncated {
        object["isTruncated"] = json!(true);
    }
    Ok(Some(object))
}

/// Returns a digest of the range, in base64.
fn digest(algorithm: &'static Algorithm, range: &[u8]) -> String {
    STANDARD.encode(ring::digest::digest(algorithm, range))
}
