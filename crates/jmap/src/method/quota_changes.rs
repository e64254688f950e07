//! Quota/changes (RFC 9425 §4.3). The state is the usage itself, so any other state means that the quota has changed.

use serde_json::{Map, Value, json};

use super::quota_get::{is_visible, quota_of};
use crate::arguments::Arguments;
use crate::changes::{self, ChangesCall};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::quota::{STORAGE, limit_in_state};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = ChangesCall::parse(arguments)?;
    let account = context.account(&call.account_id)?;
    let quota = quota_of(context, &account)?;
    let mut reply = changes::none(&call, &quota.state);
    let limit_before = limit_in_state(&call.since).ok_or_else(|| MethodError::new("cannotCalculateChanges"))?;
    let had_quota = is_visible(context) && limit_before.is_some();
    if call.since != quota.state {
        let name = match (had_quota, quota.object.is_some()) {
            (false, true) => Some("created"),
            (true, true) => Some("updated"),
            (true, false) => Some("destroyed"),
            (false, false) => None,
        };
        reply.extend(name.map(|name| (name.to_owned(), json!([STORAGE]))));
    }
    let has_same_limit = had_quota && limit_in_state(&quota.state) == Some(limit_before);
    let properties = if has_same_limit { json!(["used"]) } else { Value::Null };
    reply.insert("updatedProperties".to_owned(), properties);
    Ok(reply)
}
