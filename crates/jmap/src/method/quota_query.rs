//! Quota/query (RFC 9425 §4.4): the list of quotas, which has at most one.

use serde_json::{Map, Value};

use super::quota_get::{STORAGE, quota_of};
use crate::arguments::Arguments;
use crate::comparator::Comparator;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::query::{QueriedList, Window};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let filter = arguments.object("filter")?.unwrap_or_default();
    // There is at most one quota, so that any order is the same.
    Comparator::parse_all(&mut arguments, &["name", "used"])?;
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    let account = context.account(&account_id)?;
    let quota = quota_of(context, &account)?;
    let mut count = 0;
    if let Some(object) = &quota.object
        && matches(&filter, object)?
    {
        count = 1;
    }
    let find = |id: &str| (count == 1 && id == STORAGE).then_some(0);
    let list = QueriedList { account_id: &account_id, state: &quota.state, can_calculate_changes: false };
    window.answer(&list, count, find, |_| Some(STORAGE.to_owned()))
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
