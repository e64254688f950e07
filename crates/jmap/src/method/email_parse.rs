//! Email/parse (RFC 8621 §4.9): blobs as messages, without storing them.

use serde_json::{Map, Value, json};

use super::email_get::{BODY_ARGUMENTS, parse_properties};
use super::email_import::is_message;
use crate::arguments::Arguments;
use crate::blob::BlobReader;
use crate::context::Context;
use crate::email::{BodyOptions, EmailMetadata, EmailProperty, email_object};
use crate::error::{MethodError, MethodResult};
use crate::limits::REPLY_BYTES_MAX;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let ids = arguments.texts("blobIds")?;
    let ids = ids.ok_or_else(|| MethodError::invalid_arguments("blobIds is missing"))?;
    let names = arguments.texts("properties")?;
    let options = BodyOptions::from_arguments(&arguments.take_all(&BODY_ARGUMENTS));
    let options = options.map_err(MethodError::invalid_arguments)?;
    arguments.finish()?;
    context.check_get_count(ids.len())?;
    let mut properties = parse_properties(names.as_deref(), EmailProperty::parse_defaults)?;
    if !names.as_ref().is_none_or(|names| names.iter().any(|name| name == "id")) {
        properties.retain(|property| property.name() != "id");
    }
    let account = context.account(&account_id)?;
    let blobs = BlobReader::new(context.services, context.caller, &account);
    let mut parsed = Map::new();
    let mut not_parsable = Vec::new();
    let mut not_found = Vec::new();
    let mut bytes = 0_usize;
    for id in ids {
        let resolved = context.resolve_id(&id);
        let blob = resolved.map(|id| blobs.read(&id)).transpose()?.flatten();
        let Some(blob) = blob else {
            not_found.push(id);
            continue;
        };
        if !is_message(&blob.bytes) {
            not_parsable.push(id);
            continue;
        }
        let metadata = EmailMetadata {
            id: None,
            blob_id: id.clone(),
            thread_id: None,
            mailbox_ids: None,
            keywords: None,
            size: blob.bytes.len() as u64,
            received_at: None,
        };
        let object = Value::Object(email_object(&blob.bytes, &metadata, &properties, &options));
        bytes = bytes.saturating_add(object.to_string().len());
        if bytes > REPLY_BYTES_MAX {
            return Err(MethodError::described("requestTooLarge", "the messages are too large for one reply"));
        }
        parsed.insert(id, object);
    }
    let ticket = blobs.ticket();
    context.wait_for(ticket);
    let or_null = |ids: Vec<String>| if ids.is_empty() { Value::Null } else { json!(ids) };
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("parsed".to_owned(), if parsed.is_empty() { Value::Null } else { Value::Object(parsed) });
    reply.insert("notParsable".to_owned(), or_null(not_parsable));
    reply.insert("notFound".to_owned(), or_null(not_found));
    Ok(reply)
}
