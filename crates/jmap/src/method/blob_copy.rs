//! Blob/copy (RFC 8620 §6.3): makes blobs of one account available in another.

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::blob::{BlobReader, copy_to};
use crate::context::Context;
use crate::error::{MethodError, MethodResult, SetError};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let from_id = arguments.required_id("fromAccountId")?;
    let account_id = arguments.account_id()?;
    let ids = arguments.texts("blobIds")?;
    let ids = ids.ok_or_else(|| MethodError::invalid_arguments("blobIds is missing"))?;
    arguments.finish()?;
    context.check_set_count(ids.len())?;
    let from = context.account(&from_id).map_err(|error| match error.kind {
        "accountNotFound" => MethodError::new("fromAccountNotFound"),
        _ => error,
    })?;
    let account = context.writable_account(&account_id)?;
    let blobs = BlobReader::new(context.services, context.caller, &from);
    let mut copied = Map::new();
    let mut failed = Map::new();
    for id in ids {
        let resolved = context.resolve_id(&id);
        let found = resolved.map(|id| blobs.find(&id)).transpose()?.flatten();
        let stored = found.map(|blob| copy_to(context.services, context.caller, blob, &account));
        match stored.transpose()?.flatten() {
            Some(stored) => {
                context.wait_for(stored.ticket);
                copied.insert(id, json!(stored.id));
            }
            None => {
                failed.insert(id, SetError::new("notFound").to_json());
            }
        }
    }
    let ticket = blobs.ticket();
    context.wait_for(ticket);
    let mut reply = Map::new();
    reply.insert("fromAccountId".to_owned(), json!(from_id));
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("copied".to_owned(), if copied.is_empty() { Value::Null } else { Value::Object(copied) });
    reply.insert("notCopied".to_owned(), if failed.is_empty() { Value::Null } else { Value::Object(failed) });
    Ok(reply)
}
