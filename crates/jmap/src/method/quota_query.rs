//! Quota/query (RFC 9425 §4.4): the list of quotas, which has at most one.

use serde_json::{Map, Value, json};

use super::quota_get::{STORAGE, quota_of};
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::query::Window;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let filter = arguments.object("filter")?.unwrap_or_default();
    let sort = arguments.list("sort")?.unwrap_or_default();
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    for comparator in &sort {
        let property = comparator.get("property").and_then(Value::as_str);
        if !property.is_some_and(|name| ["name", "used"].contains(&name)) {
            return Err(MethodError::new("unsupportedSort"));
        }
    }
    let account = context.account(&account_id)?;
    let quota = quota_of(context, &account)?;
    let mut count = 0;
    if let Some(object) = &quota.object
        && matches(&filter, object)?
    {
        count = 1;
    }
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("queryState".to_owned(), json!(quota.state));
    reply.insert("canCalculateChanges".to_owned(), json!(false));
    let find = |id: &str| (count == 1 && id == STORAGE).then_some(0);
    reply.extend(window.answer(count, find, |_| Some(STORAGE.to_owned()))?);
    Ok(reply)
}

fn matches(filter: &Map<String, Value>, object: &Value) -> MethodResult<bool> {
    for (name, value) in filter {
        let wanted = value.as_str();
        let is_right = match name.as_str() {
            "name" => object["name"].as_str().is_some_and(|name| wanted.is_some_and(|text| name.contains(text))),
            "scope" => object["scope"].as_str() == wanted,
            "resourceType" => object["resourceType"].as_str() == wanted,
            "type" => wanted == Some("Mail"),
            _ => return Err(MethodError::described("unsupportedFilter", format!("there is no condition {name}"))),
        };
        if !is_right {
            return Ok(false);
        }
    }
    Ok(true)
}
