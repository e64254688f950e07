//! Identity/changes (RFC 8621 §6.2): exact for what the person has changed, and `cannotCalculateChanges` after a change
//! of the directory, which keeps no history.

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::changes::{self, ChangesCall};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::identities::{self, IdentityList, format_state, profile_state};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = ChangesCall::parse(arguments)?;
    let account = context.account(&call.account_id)?;
    let view = context.view(&account)?;
    let list = IdentityList::load(context.services, context.caller, &account, &view.snapshot)?;
    let state = list.state(&view.snapshot);
    if call.since == state {
        return Ok(changes::none(&call, &state));
    }
    let since = profile_state(&call.since, &list.directory);
    let since = since.ok_or_else(|| MethodError::new("cannotCalculateChanges"))?;
    let of_profile = ChangesCall { since: since.to_owned(), ..call.clone() };
    let mut reply = changes::answer(&of_profile, &view, list.modseq, |view, since, until| {
        identities::changes(&list.stored, &view.snapshot, since, until)
    })?;
    let new_state = reply.get("newState").and_then(Value::as_str).unwrap_or_default();
    let new_state = format_state(new_state, &list.directory);
    reply.insert("oldState".to_owned(), json!(call.since));
    reply.insert("newState".to_owned(), json!(new_state));
    Ok(reply)
}
