//! What the methods share that read blobs as another type: Email/parse (RFC 8621 §4.9) and MDN/parse (RFC 9007 §2.2).

use serde_json::{Map, Value, json};

use crate::account::Account;
use crate::blob::BlobReader;
use crate::context::Context;
use crate::error::MethodResult;

/// Returns the reply with the blobs `ids`, sorted into `parsed`, `notParsable` and `notFound`.
///
/// `parse` gets an id and the bytes of its blob, and returns `None` if they are not of the type.
///
/// # Errors
///
/// `requestTooLarge` if the reply becomes too large; those of `parse` and of reading a blob.
pub(super) fn parse_blobs(
    context: &mut Context<'_>,
    account: &Account,
    ids: Vec<String>,
    mut parse: impl FnMut(&mut Context<'_>, &str, &[u8]) -> MethodResult<Option<Value>>,
) -> MethodResult<Map<String, Value>> {
    let blobs = BlobReader::new(context.services, context.caller, account);
    let mut parsed = Map::new();
    let mut not_parsable = Vec::new();
    let mut not_found = Vec::new();
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
        context.count_reply(&object)?;
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
