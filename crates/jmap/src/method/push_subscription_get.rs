//! PushSubscription/get (RFC 8620 §7.2.1): the subscriptions of the credential of the request. Nobody gets their
//! addresses and keys.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::push_subscriptions::PushSubscription;

/// The properties that a client may read.
const PROPERTIES: [&str; 5] = ["id", "deviceClientId", "verificationCode", "expires", "types"];

/// The properties that only the server may read.
const SECRETS: [&str; 2] = ["url", "keys"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let ids = arguments.texts("ids")?;
    let properties = arguments.texts("properties")?;
    arguments.finish()?;
    context.check_get_count(ids.as_ref().map_or(0, Vec::len))?;
    for name in properties.iter().flatten() {
        if SECRETS.contains(&name.as_str()) {
            return Err(MethodError::described("forbidden", format!("{name} cannot be read")));
        }
        if !PROPERTIES.contains(&name.as_str()) {
            return Err(MethodError::invalid_arguments(format!("there is no property {name}")));
        }
    }
    let owner = context.push_owner()?;
    let own = context.services.push.of_owner(&owner);
    let wanted = match ids {
        None => own.iter().map(|one| one.id.clone()).collect(),
        Some(mut ids) => {
            let mut seen = HashSet::new();
            ids.retain(|id| seen.insert(id.clone()));
            ids
        }
    };
    let mut list = Vec::new();
    let mut not_found = Vec::new();
    for id in wanted {
        let found = context.resolve_id(&id).and_then(|resolved| own.iter().find(|one| one.id == resolved));
        match found {
            Some(one) => {
                let mut object = describe(one);
                object.retain(|name, _| name == "id" || properties.as_ref().is_none_or(|names| names.contains(name)));
                list.push(Value::Object(object));
            }
            None => not_found.push(id),
        }
    }
    Ok(Map::from_iter([("list".to_owned(), json!(list)), ("notFound".to_owned(), json!(not_found))]))
}

/// Returns the properties that a client may read.
pub(super) fn describe(one: &PushSubscription) -> Map<String, Value> {
    let code = one.is_verified.then_some(&one.code);
    let members = [
        ("id", json!(one.id)),
        ("deviceClientId", json!(one.wanted.device_client_id)),
        ("verificationCode", json!(code)),
        ("expires", json!(one.expires.to_rfc3339())),
        ("types", json!(one.wanted.types.names())),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
