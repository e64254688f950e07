//! Identity/changes (RFC 8621 §6.2): no changes, or `cannotCalculateChanges`, because the directory keeps no history.

use serde_json::{Map, Value, json};

use super::identity_get::state_of;
use crate::arguments::Arguments;
use crate::changes::ChangesCall;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = ChangesCall::parse(arguments)?;
    context.account(&call.account_id)?;
    let state = state_of(&context.services.accounts.identities(context.caller, &call.account_id)?);
    if call.since != state {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    Ok(no_changes(&call, &state))
}

/// Returns the answer without changes.
pub(super) fn no_changes(call: &ChangesCall, state: &str) -> Map<String, Value> {
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(call.account_id));
    reply.insert("oldState".to_owned(), json!(call.since));
    reply.insert("newState".to_owned(), json!(state));
    reply.insert("hasMoreChanges".to_owned(), json!(false));
    for name in ["created", "updated", "destroyed"] {
        reply.insert(name.to_owned(), json!([]));
    }
    reply
}
