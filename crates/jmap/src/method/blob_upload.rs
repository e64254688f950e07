//! Blob/upload (RFC 9404 §4.1): puts blobs together from texts, base64 and pieces of other blobs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::email_set::not_an_object;
use crate::account::Account;
use crate::arguments::{Arguments, as_unsigned};
use crate::blob::{BlobReader, owner, pieces};
use crate::context::Context;
use crate::email_write::add_outcomes;
use crate::error::{MethodResult, SetError};
use crate::limits::{BLOB_SOURCES_MAX, STORED_BYTES_MAX};
use crate::uploads::{ArrivingUpload, StoredUpload};

/// The properties of a data source that have its bytes.
const SOURCES: [&str; 3] = ["data:asText", "data:asBase64", "blobId"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let create = arguments.creations("create")?.ok_or_else(|| not_an_object("create"))?;
    arguments.finish()?;
    context.check_set_count(create.len())?;
    let account = context.writable_account(&account_id)?;
    let mut outcomes = Vec::new();
    let mut bytes_left = STORED_BYTES_MAX;
    for (creation_id, object) in create {
        let made = assemble(context, &account, &object, &mut bytes_left).map(|stored| {
            let StoredUpload { id, media_type, size, .. } = stored;
            json!({ "id": id, "type": media_type, "size": size })
        });
        if let Ok(stored) = &made
            && let Some(id) = stored["id"].as_str()
        {
            context.created_ids.insert(creation_id.clone(), id.to_owned());
        }
        outcomes.push((creation_id, made));
    }
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    add_outcomes(&mut reply, ["created", "notCreated"], outcomes.iter().map(|(id, made)| (id, made.clone())));
    Ok(reply)
}

/// Makes one blob. `bytes_left` is what the blobs of the call may still have together.
fn assemble(
    context: &mut Context<'_>,
    account: &Account,
    object: &Value,
    bytes_left: &mut u64,
) -> Result<StoredUpload, SetError> {
    let invalid = |reason: &str| SetError::invalid_properties(&["data"], reason);
    let sources = object.get("data").and_then(Value::as_array).ok_or_else(|| invalid("data is not a list"))?;
    if sources.len() > BLOB_SOURCES_MAX {
        return Err(SetError::described("tooLarge", "there are too many data sources"));
    }
    let media_type = match object.get("type") {
        None | Some(Value::Null) => "application/octet-stream",
        Some(Value::String(media_type)) => media_type,
        Some(_) => return Err(SetError::invalid_properties(&["type"], "type is not a string")),
    };
    let mut arriving = context.services.uploads.begin();
    for source in sources {
        append(context, account, source, (&mut arriving, bytes_left))?;
    }
    let stored = arriving.store(owner(context.caller, account), media_type)?;
    context.wait_for(stored.ticket);
    Ok(stored)
}

fn append(
    context: &mut Context<'_>,
    account: &Account,
    source: &Value,
    (arriving, bytes_left): (&mut ArrivingUpload, &mut u64),
) -> Result<(), SetError> {
    let invalid = |reason: &str| SetError::invalid_properties(&["data"], reason);
    let is_given = |name: &&str| source.get(name).is_some_and(|value| !value.is_null());
    if SOURCES.iter().filter(|name| is_given(name)).count() > 1 {
        return Err(invalid("a source has only one of data:asText, data:asBase64 and blobId"));
    }
    if let Some(text) = source.get("data:asText").and_then(Value::as_str) {
        return add(context, (arriving, bytes_left), text.as_bytes());
    }
    if let Some(text) = source.get("data:asBase64").and_then(Value::as_str) {
        let bytes = STANDARD.decode(text).map_err(|_| invalid("the base64 is not valid"))?;
        return add(context, (arriving, bytes_left), &bytes);
    }
    let id = source.get("blobId").and_then(Value::as_str).ok_or_else(|| invalid("a source is not valid"))?;
    let not_found = || SetError::new("blobNotFound").with("notFound", json!([id]));
    let blob_id = context.resolve_id(id).ok_or_else(not_found)?;
    let blobs = BlobReader::new(context.services, context.caller, account);
    let blob = blobs.find(&blob_id).map_err(|_| SetError::new("serverFail"))?.ok_or_else(not_found)?;
    let ticket = blobs.ticket();
    context.wait_for(ticket);
    let number = |name: &str| match source.get(name).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => as_unsigned(value).map(Some).ok_or_else(|| invalid("an offset or a length is not valid")),
    };
    let offset = number("offset")?.unwrap_or(0);
    let rest = blob.size().checked_sub(offset).ok_or_else(|| invalid("the offset is behind the end"))?;
    let length = number("length")?.unwrap_or(rest);
    if length > rest {
        return Err(invalid("the piece ends behind the end"));
    }
    for piece in pieces(offset..offset + length) {
        let bytes = blob.read(context.services, context.caller, piece).map_err(|_| SetError::new("serverFail"))?;
        add(context, (arriving, bytes_left), &bytes.ok_or_else(not_found)?)?;
    }
    Ok(())
}

fn add(
    context: &Context<'_>,
    (arriving, bytes_left): (&mut ArrivingUpload, &mut u64),
    piece: &[u8],
) -> Result<(), SetError> {
    let too_large = || SetError::described("tooLarge", "the blobs of this call are too large together");
    *bytes_left = bytes_left.checked_sub(piece.len() as u64).ok_or_else(too_large)?;
    if arriving.length() + piece.len() as u64 > context.services.limits.upload_bytes_max {
        return Err(SetError::described("tooLarge", "the blob is larger than maxSizeBlobSet"));
    }
    Ok(arriving.add(piece)?)
}
