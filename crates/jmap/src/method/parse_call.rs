//! What the methods share that read blobs as another type: Email/parse (RFC 8621 §4.9) and MDN/parse (RFC 9007 §2.2).

use serde_json::{Map, Value, json};

use crate::account::Account;
use crate::blob::BlobReader;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::limits::REPLY_BYTES_MAX;

/// Returns the reply with the blobs `ids`, sorted into `parsed`, `notParsable` and `notFound`.
///
/// `parse` gets an id and the bytes of its blob, and returns `None` if they are not of the type.
///
/// # Errors
///
/// `requestTooLarge` with the description `too_large` if the objects have more than [`REPLY_BYTES_MAX`]; those of
/// `parse` and of reading a blob.
pub(super) fn parse_blobs(
    context: &mut Context<'_>,
    account: &Account,
    ids: Vec<String>,
    too_large: &str,
    mut parse: impl FnMut(&mut Context<'_>, &str, &[u8]) -> MethodResult<Option<Value>>,
) -> MethodResult<Map<String, Value>> {
    let blobs = BlobReader::new(context.services, context.caller, account);
    let mut parsed = Map::new();
    let mut not_parsable = Vec::new();
    let mut not_found = Vec::new();
    let mut bytes = 0_usize;
    for id in ids {
        let resolved = context.resolve_id(&id);
        let Some(blob) = resolved.map(|id| blobs.read(&id)).transpose()?.flatten() else {
            not_found.push(id);
            continue;
        };
        let Some(object) = parse(context, &id, &blob.bytes)? else {
            not_parsable.push(id);
            continue;
        };
        bytes = bytes.saturating_add(object.to_string().len());
        if bytes > REPLY_BYTES_MAX {
            return Err(MethodError::described("requestTooLarge", too_large));
        }
        parsed.insert(id, object);
    }
    let ticket = blobs.ticket();
    context.wait_for(ticket);
    let or_null = |ids: Vec<String>| if ids.is_empty() { Value::Null } else { json!(ids) };
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account.info.id));
    reply.insert("parsed".to_owned(), if parsed.is_empty() { Value::Null } else { Value::Object(parsed) });
    reply.insert("notParsable".to_owned(), or_null(not_parsable));
    reply.insert("notFound".to_owned(), or_null(not_found));
    Ok(reply)
}
