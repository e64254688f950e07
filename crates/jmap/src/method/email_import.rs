//! Email/import (RFC 8621 §4.8): puts messages that were uploaded into mailboxes, byte for byte.

use mail::message::received_time;
use mail::mime::message_header::top_header;
use serde_json::{Map, Value, json};

use super::email_set::{Metadata, not_an_object};
use crate::account::Account;
use crate::arguments::Arguments;
use crate::blob::BlobReader;
use crate::context::Context;
use crate::email_write::{EmailChangesWanted, NewEmail, Preparation, add_outcomes, write};
use crate::error::{InvalidProperties, MethodResult, SetError};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let if_in_state = arguments.text("ifInState")?;
    let emails = arguments.creations("emails")?.ok_or_else(|| not_an_object("emails"))?;
    arguments.finish()?;
    context.check_set_count(emails.len())?;
    let account = context.writable_account(&account_id)?;
    let mut preparation = Preparation::default();
    let mut create = Vec::with_capacity(emails.len());
    for (creation_id, object) in emails {
        let new = prepare(context, &account, &object, &mut preparation);
        create.push((creation_id, new));
    }
    let made = write(context, &account, EmailChangesWanted { if_in_state, create, ..EmailChangesWanted::default() })?;
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("oldState".to_owned(), json!(made.old_state));
    reply.insert("newState".to_owned(), json!(made.new_state));
    let created = made.created.iter().map(|(id, result)| (id, result.clone()));
    add_outcomes(&mut reply, ["created", "notCreated"], created);
    Ok(reply)
}

fn prepare(
    context: &mut Context<'_>,
    account: &Account,
    object: &Value,
    preparation: &mut Preparation,
) -> Result<NewEmail, SetError> {
    const KNOWN: [&str; 4] = ["blobId", "mailboxIds", "keywords", "receivedAt"];
    let members = object.as_object();
    let members = members.ok_or_else(|| SetError::described("invalidProperties", "an EmailImport is an object"))?;
    let mut invalid = InvalidProperties::default();
    let unknown = members.keys().map(String::as_str).filter(|name| !KNOWN.contains(name));
    invalid.refuse(unknown, "there is no such property");
    let mut metadata = Metadata::parse(members, &mut invalid);
    let blobs = BlobReader::new(context.services, context.caller, account);
    let blob_id = members.get("blobId").and_then(Value::as_str).and_then(|id| context.resolve_id(id));
    let fail = |_| SetError::new("serverFail");
    let found = match &blob_id {
        Some(id) => blobs.find(id).map_err(fail)?,
        None => None,
    };
    let blob = match found {
        Some(found) => {
            preparation.check_room(account, found.size())?;
            blobs.read_found(found).map_err(fail)?
        }
        None => None,
    };
    context.wait_for(blobs.ticket());
    let Some(blob) = blob else {
        invalid.refuse(["blobId"], "there is no such blob");
        return invalid.finish().and(Err(SetError::new("serverFail")));
    };
    invalid.finish()?;
    if !is_message(&blob.bytes) {
        return Err(SetError::described("invalidEmail", "the blob is not a message"));
    }
    metadata.set_default_time(received_time(top_header(&blob.bytes)));
    metadata.with_message(preparation.prepare(account, &blob.bytes)?)
}

/// Returns `true` if bytes begin with a header: a line with the name of a field and a colon.
pub(super) fn is_message(bytes: &[u8]) -> bool {
    let Some(colon) = bytes.iter().position(|byte| matches!(byte, b':' | b'\n' | b'\r')) else { return false };
    let is_name = |byte: &u8| matches!(byte, 0x21..=0x7e);
    bytes.get(colon) == Some(&b':') && colon > 0 && bytes[..colon].iter().all(is_name)
}
