//! Email/copy (RFC 8621 §4.7): copies messages to another account.
//!
//! `onSuccessDestroyOriginal` makes a call of Email/set with the originals, whose response follows.

use serde_json::{Map, Value, json};

use super::email_set::{self, Metadata, not_an_object};
use crate::account::Account;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::email_write::{EmailChangesWanted, NewEmail, Preparation, add_outcomes, write};
use crate::error::{InvalidProperties, MethodError, MethodResult, SetError};
use crate::keyword;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let from_id = arguments.required_id("fromAccountId")?;
    let account_id = arguments.account_id()?;
    let if_from_in_state = arguments.text("ifFromInState")?;
    let if_in_state = arguments.text("ifInState")?;
    let create = arguments.creations("create")?.ok_or_else(|| not_an_object("create"))?;
    let destroys_original = arguments.flag("onSuccessDestroyOriginal")?;
    let destroy_from_if_in_state = arguments.text("destroyFromIfInState")?;
    arguments.finish()?;
    context.check_set_count(create.len())?;
    if from_id == account_id {
        return Err(MethodError::invalid_arguments("both accounts are the same"));
    }
    let from = context.account(&from_id).map_err(|error| match error.kind {
        "accountNotFound" => MethodError::new("fromAccountNotFound"),
        _ => error,
    })?;
    let account = context.writable_account(&account_id)?;
    if let Some(state) = if_from_in_state
        && context.view(&from)?.email_state() != state
    {
        return Err(MethodError::new("stateMismatch"));
    }
    let mut preparation = Preparation::default();
    let mut originals = Vec::new();
    let mut wanted = Vec::with_capacity(create.len());
    for (creation_id, object) in create {
        let new = prepare(context, [&from, &account], &object, &mut preparation);
        originals.push(new.as_ref().ok().map(|(id, _)| id.clone()));
        wanted.push((creation_id, new.map(|(_, new)| new)));
    }
    let changes = EmailChangesWanted { if_in_state, create: wanted, ..EmailChangesWanted::default() };
    let made = write(context, &account, changes)?;
    let copied = made.created.iter().zip(originals).filter(|((_, result), _)| result.is_ok());
    let copied: Vec<String> = copied.filter_map(|(_, original)| original).collect();
    let mut reply = Map::new();
    reply.insert("fromAccountId".to_owned(), json!(from_id));
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("oldState".to_owned(), json!(made.old_state));
    reply.insert("newState".to_owned(), json!(made.new_state));
    let created = made.created.iter().map(|(id, result)| (id, result.clone()));
    add_outcomes(&mut reply, ["created", "notCreated"], created);
    if destroys_original && !copied.is_empty() {
        destroy_originals(context, &from_id, &copied, destroy_from_if_in_state);
    }
    Ok(reply)
}

fn prepare(
    context: &mut Context<'_>,
    [from, account]: [&Account; 2],
    object: &Value,
    preparation: &mut Preparation,
) -> Result<(String, NewEmail), SetError> {
    const KNOWN: [&str; 4] = ["id", "mailboxIds", "keywords", "receivedAt"];
    let members = object.as_object();
    let members = members.ok_or_else(|| SetError::described("invalidProperties", "an Email is an object"))?;
    let mut invalid = InvalidProperties::default();
    let unknown = members.keys().map(String::as_str).filter(|name| !KNOWN.contains(name));
    invalid.refuse(unknown, "the property is copied and cannot be set");
    let id = members.get("id").and_then(Value::as_str).and_then(|id| context.resolve_id(id));
    let id = id.ok_or_else(|| SetError::invalid_properties(&["id"], "the id of the message to copy is missing"))?;
    let fail = |_| SetError::new("serverFail");
    let view = context.view(from).map_err(fail)?;
    let row = view.table.email(&id).ok_or_else(|| SetError::new("notFound"))?;
    let raw = view.raw(row).map_err(fail)?.ok_or_else(|| SetError::new("notFound"))?;
    let mut members = members.clone();
    let names = keyword::names(row.marks, &row.keywords, view.snapshot.keywords());
    members.entry("keywords").or_insert_with(|| keyword::to_json(&names));
    members.entry("receivedAt").or_insert_with(|| json!(row.received.to_rfc3339()));
    drop(view);
    let metadata = Metadata::parse(&members, &mut invalid);
    invalid.finish()?;
    Ok((id, metadata.with_message(preparation.prepare(account, &raw)?)?))
}

fn destroy_originals(context: &mut Context<'_>, from_id: &str, ids: &[String], if_in_state: Option<String>) {
    let mut arguments = Map::new();
    arguments.insert("accountId".to_owned(), json!(from_id));
    arguments.insert("ifInState".to_owned(), json!(if_in_state));
    arguments.insert("destroy".to_owned(), json!(ids));
    match email_set::run(context, Arguments::new(arguments)) {
        Ok(reply) => context.respond_also("Email/set", reply),
        Err(error) => {
            let Value::Object(error) = error.to_json() else { return };
            context.respond_also("error", error);
        }
    }
}
