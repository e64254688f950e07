//! Blob/lookup (RFC 9404 §4.3): the objects that use blobs.

use mail::message_table::MessageRow;
use serde_json::{Map, Value, json};

use crate::account::AccountView;
use crate::arguments::Arguments;
use crate::blob::BlobReader;
use crate::context::Context;
use crate::email::split_part_blob_id;
use crate::error::{MethodError, MethodResult};
use crate::session::MAIL;

/// The types whose objects use blobs. All are of the capability of mail.
const TYPES: [&str; 3] = ["Mailbox", "Thread", "Email"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let types = arguments.texts("typeNames")?;
    let types = types.ok_or_else(|| MethodError::invalid_arguments("typeNames is missing"))?;
    let ids = arguments.texts("ids")?;
    let ids = ids.ok_or_else(|| MethodError::invalid_arguments("ids is missing"))?;
    arguments.finish()?;
    let is_known = |name: &String| context.uses(MAIL) && TYPES.contains(&name.as_str());
    if let Some(name) = types.iter().find(|name| !is_known(name)) {
        let description = format!("the request uses no capability with a type {name} that has blobs");
        return Err(MethodError::described("unknownDataType", description));
    }
    context.check_get_count(ids.len())?;
    let account = context.account(&account_id)?;
    let view = context.view(&account)?;
    let blobs = BlobReader::new(context.services, context.caller, &account);
    let mut list = Vec::new();
    let mut not_found = Vec::new();
    for id in ids {
        let resolved = context.resolve_id(&id);
        let row = resolved.as_deref().and_then(|id| find(&view, id));
        // An upload is a blob that no object uses.
        let is_upload = || resolved.as_deref().is_some_and(|id| blobs.is_upload(id));
        if row.is_none() && !is_upload() {
            not_found.push(id);
            continue;
        }
        let users_of = |name: &str| row.map(|row| users(&view, row, name)).unwrap_or_default();
        let matched: Map<String, Value> = types.iter().map(|name| (name.clone(), json!(users_of(name)))).collect();
        list.push(json!({ "id": id, "matchedIds": matched }));
    }
    let ticket = blobs.ticket();
    context.wait_for(ticket);
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("list".to_owned(), Value::Array(list));
    reply.insert("notFound".to_owned(), json!(not_found));
    Ok(reply)
}

/// Returns the identifiers of the objects of a type that use the blob of a message.
fn users(view: &AccountView<'_>, row: &MessageRow, type_name: &str) -> Vec<String> {
    match type_name {
        "Email" => vec![row.email_id.to_string()],
        "Thread" => vec![row.thread.to_string()],
        _ => {
            let mailboxes = view.table.mailboxes();
            let places = row.places.iter().filter_map(|place| mailboxes.by_view(*place));
            places.map(|mailbox| mailbox.id.clone()).collect()
        }
    }
}

/// Returns the message that uses a blob: itself or a part.
fn find<'v>(view: &'v AccountView<'_>, blob_id: &str) -> Option<&'v MessageRow> {
    let whole = split_part_blob_id(blob_id).map_or(blob_id, |(whole, _)| whole);
    let email_id = format!("M{}", whole.strip_prefix('B')?.replace('_', "-"));
    view.table.email(&email_id).filter(|row| row.blob_id() == whole)
}
