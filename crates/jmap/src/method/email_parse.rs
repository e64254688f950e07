//! Email/parse (RFC 8621 §4.9): blobs as messages, without storing them.

use mail::mime::{InMemoryMessage, parse};
use serde_json::{Map, Value};

use super::email_get::{BODY_ARGUMENTS, parse_properties};
use super::email_import::is_message;
use super::parse_call::parse_blobs;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::email::{BodyOptions, EmailMetadata, EmailProperty, email_object};
use crate::error::{MethodError, MethodResult};

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
    parse_blobs(context, &account, ids, |_, id, bytes| {
        if !is_message(bytes) {
            return Ok(None);
        }
        let metadata = EmailMetadata {
            id: None,
            blob_id: id.to_owned(),
            thread_id: None,
            mailbox_ids: None,
            keywords: None,
            size: bytes.len() as u64,
            received_at: None,
        };
        let structure = parse(bytes);
        let Ok(object) = email_object(&InMemoryMessage::new(bytes, &structure), &metadata, &properties, &options);
        Ok(Some(Value::Object(object)))
    })
}
