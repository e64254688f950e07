//! Blob/lookup (RFC 9404 §4.3): the objects that use blobs.

use mail::message_table::MessageRow;
use serde_json::{Map, Value, json};

use crate::account::AccountView;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::email::split_part_blob_id;
use crate::error::{MethodError, MethodResult};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let types = arguments.texts("typeNames")?;
    let types = types.ok_or_else(|| MethodError::invalid_arguments("typeNames is missing"))?;
    let ids = arguments.texts("ids")?;
    let ids = ids.ok_or_else(|| MethodError::invalid_arguments("ids is missing"))?;
    arguments.finish()?;
    if let Some(name) = types.iter().find(|name| !["Mailbox", "Thread", "Email"].contains(&name.as_str())) {
        return Err(MethodError::described("unknownDataType", format!("there is no type {name}")));
    }
    context.check_get_count(ids.len())?;
    let account = context.account(&account_id)?;
    let view = context.view(&account)?;
    let mut list = Vec::new();
    let mut not_found = Vec::new();
    for id in ids {
        let resolved = context.resolve_id(&id);
        let row = resolved.as_deref().and_then(|id| find(&view, id));
        let Some(row) = row else {
            not_found.push(id);
            continue;
        };
        let mut matched = Map::new();
        for name in &types {
            let ids = match name.as_str() {
                "Email" => vec![row.email_id.to_string()],
                "Thread" => vec![row.thread.to_string()],
                _ => {
                    let mailboxes = view.table.mailboxes();
                    let places = row.places.iter().filter_map(|place| mailboxes.by_view(*place));
                    places.map(|mailbox| mailbox.id.clone()).collect()
                }
            };
            matched.insert(name.clone(), json!(ids));
        }
        list.push(json!({ "id": id, "matchedIds": matched }));
    }
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("list".to_owned(), Value::Array(list));
    reply.insert("notFound".to_owned(), json!(not_found));
    Ok(reply)
}

/// Returns the message that uses a blob: itself or a part.
fn find<'v>(view: &'v AccountView<'_>, blob_id: &str) -> Option<&'v MessageRow> {
    let whole = split_part_blob_id(blob_id).map_or(blob_id, |(whole, _)| whole);
    let email_id = format!("M{}", whole.strip_prefix('B')?.replace('_', "-"));
    view.table.email(&email_id).filter(|row| row.blob_id() == whole)
}
