//! PushSubscription/set (RFC 8620 §7.2.2). A new subscription gets one message with a code, and no other until its
//! client has returned the code.

use base::Timestamp;
use serde_json::{Map, Value, json};

use super::push_subscription_get::describe;
use super::set_call::SetObjects;
use crate::arguments::{Arguments, parse_utc_date};
use crate::context::Context;
use crate::email_write::{add_destroyed, add_outcomes};
use crate::error::{MethodResult, SetError};
use crate::limits::DEVICE_CLIENT_ID_BYTES_MAX;
use crate::patch::Patch;
use crate::push_subscriptions::{NewPushSubscription, PushOwner, PushSubscription, PushSubscriptionChange};
use crate::type_selection::TypeSelection;
use crate::web_push::ClientKeys;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let SetObjects { create, update, destroy } = SetObjects::parse(context, arguments)?;
    let owner = context.push_owner()?;
    let mut reply = Map::new();
    let mut created = Vec::new();
    for (name, value) in &create {
        created.push((name, create_one(context, &owner, name, value)));
    }
    add_outcomes(&mut reply, ["created", "notCreated"], created.into_iter());
    let updated: Vec<_> = update.iter().map(|(id, patch)| (id, update_one(context, &owner, id, patch))).collect();
    add_outcomes(&mut reply, ["updated", "notUpdated"], updated.into_iter());
    let destroyed: Vec<_> = destroy.iter().map(|id| (id, destroy_one(context, &owner, id))).collect();
    add_destroyed(&mut reply, destroyed.into_iter());
    Ok(reply)
}

fn create_one(context: &mut Context<'_>, owner: &PushOwner, name: &str, value: &Value) -> Result<Value, SetError> {
    let Value::Object(members) = value else { return Err(invalid("id", "the subscription is not an object")) };
    let wanted = parse_new(members)?;
    let (made, ticket) = context.services.push.create(owner.clone(), wanted)?;
    context.wait_for(ticket);
    context.created_ids.insert(name.to_owned(), made.id.clone());
    let mut object = Map::from_iter([("id".to_owned(), json!(made.id))]);
    // The client is told of defaults (RFC 8620 §5.3).
    let defaults = ["keys", "types"].into_iter().filter(|name| !members.contains_key(*name));
    object.extend(defaults.map(|name| (name.to_owned(), Value::Null)));
    object.insert("expires".to_owned(), json!(made.expires.to_rfc3339()));
    Ok(Value::Object(object))
}

fn update_one(context: &mut Context<'_>, owner: &PushOwner, id: &str, patch: &Value) -> Result<Value, SetError> {
    let id = context.resolve_id(id).ok_or(SetError::new("notFound"))?;
    let Value::Object(members) = patch else { return Err(SetError::new("invalidPatch")) };
    let own = context.services.push.of_owner(owner);
    let present = own.iter().find(|one| one.id == id).ok_or(SetError::new("notFound"))?;
    let change = parse_change(&describe(present), members)?;
    if change == PushSubscriptionChange::default() {
        return Ok(Value::Null);
    }
    let wanted_end = change.expires;
    let (changed, ticket) = context.services.push.update(owner, &id, change)?;
    context.wait_for(ticket);
    Ok(changed_end(wanted_end, &changed))
}

/// Returns what an update tells: the end of the subscription, if it is not the one that the client wanted.
fn changed_end(wanted: Option<Option<Timestamp>>, changed: &PushSubscription) -> Value {
    match wanted {
        Some(end) if end != Some(changed.expires) => json!({ "expires": changed.expires.to_rfc3339() }),
        _ => Value::Null,
    }
}

fn destroy_one(context: &mut Context<'_>, owner: &PushOwner, id: &str) -> Result<(), SetError> {
    let id = context.resolve_id(id).ok_or(SetError::new("notFound"))?;
    let ticket = context.services.push.destroy(owner, &id)?;
    context.wait_for(ticket);
    Ok(())
}

/// Reads a new subscription.
fn parse_new(members: &Map<String, Value>) -> Result<NewPushSubscription, SetError> {
    let known = ["deviceClientId", "url", "keys", "verificationCode", "expires", "types"];
    if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(invalid(name, "the client cannot set this property"));
    }
    if members.get("verificationCode").is_some_and(|code| !code.is_null()) {
        return Err(invalid("verificationCode", "it must be null until the code has been sent"));
    }
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let device = text("deviceClientId").filter(|text| (1..=DEVICE_CLIENT_ID_BYTES_MAX).contains(&text.len()));
    let device = device.ok_or_else(|| invalid("deviceClientId", "it is not a text of 1 to 255 bytes"))?;
    let url = text("url").ok_or_else(|| invalid("url", "it is not a text"))?;
    Ok(NewPushSubscription {
        device_client_id: device.to_owned(),
        url: url.to_owned(),
        keys: parse_keys(members.get("keys").unwrap_or(&Value::Null))?,
        expires: parse_end(members.get("expires").unwrap_or(&Value::Null))?,
        types: parse_types(members.get("types").unwrap_or(&Value::Null))?,
    })
}

/// Reads a change of an object. Address, keys and the client's own identifier never change. A property may be set to
/// the value that it has (RFC 8620 §5.3).
fn parse_change(before: &Map<String, Value>, patch: &Map<String, Value>) -> Result<PushSubscriptionChange, SetError> {
    let mut after = before.clone();
    Patch::parse(patch)?.apply(&mut after)?;
    let mut change = PushSubscriptionChange::default();
    for (name, value) in after.iter().filter(|(name, value)| before.get(*name) != Some(*value)) {
        match name.as_str() {
            "verificationCode" => {
                let code = value.as_str().ok_or_else(|| invalid(name, "it is not a text"))?;
                change.code = Some(code.to_owned());
            }
            "expires" => change.expires = Some(parse_end(value)?),
            "types" => change.types = Some(parse_types(value)?),
            _ => return Err(invalid(name, "this property does not exist or cannot be changed")),
        }
    }
    Ok(change)
}

fn parse_keys(value: &Value) -> Result<Option<ClientKeys>, SetError> {
    if value.is_null() {
        return Ok(None);
    }
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let keys = ClientKeys::parse(text("p256dh"), text("auth"));
    keys.map(Some).map_err(|error| invalid("keys", &error.to_string()))
}

fn parse_end(value: &Value) -> Result<Option<Timestamp>, SetError> {
    if value.is_null() {
        return Ok(None);
    }
    let end = value.as_str().and_then(parse_utc_date);
    end.map(Some).ok_or_else(|| invalid("expires", "it is not a UTCDate"))
}

fn parse_types(value: &Value) -> Result<TypeSelection, SetError> {
    TypeSelection::from_json(value).ok_or_else(|| invalid("types", "it is neither null nor a short list of names"))
}

fn invalid(property: &str, description: &str) -> SetError {
    SetError::invalid_properties(&[property], description)
}
