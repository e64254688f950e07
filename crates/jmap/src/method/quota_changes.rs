//! Quota/changes (RFC 9425 §4.3). The state is the usage itself, so any other state means that the quota has changed.

use serde_json::{Map, Value, json};

use super::quota_get::{STORAGE, quota_of};
use crate::arguments::Arguments;
use crate::changes::{self, ChangesCall};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = ChangesCall::parse(arguments)?;
    let account = context.account(&call.account_id)?;
    let quota = quota_of(context, &account)?;
    let mut reply = changes::none(&call, &quota.state);
    let is_state = |text: &str| {
        text.split_once('-').is_some_and(|(used, limit)| {
            used.parse::<u64>().is_ok() && (limit == "none" || limit.parse::<u64>().is_ok())
        })
    };
    if !is_state(&call.since) {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    let had_quota = !call.since.ends_with("-none");
    if call.since != quota.state {
        let name = match (had_quota, quota.object.is_some()) {
            (false, true) => Some("created"),
            (true, true) => Some("updated"),
            (true, false) => Some("destroyed"),
            (false, false) => None,
        };
        reply.extend(name.map(|name| (name.to_owned(), json!([STORAGE]))));
    }
    let is_usage_only = had_quota && quota.object.is_some();
    let same_limit = call.since.split_once('-').map(|(_, limit)| limit) == quota.state.split_once('-').map(|(_, l)| l);
    let properties = if is_usage_only && same_limit { json!(["used"]) } else { Value::Null };
    reply.insert("updatedProperties".to_owned(), properties);
    Ok(reply)
}
