//! Identity/set (RFC 8621 §6.3): every change is `forbidden`, because identities come from the directory.

use serde_json::{Map, Value, json};

use super::identity_get::state_of;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::email_write::add_outcomes;
use crate::error::{MethodError, MethodResult, SetError};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let if_in_state = arguments.text("ifInState")?;
    let create = arguments.object("create")?.unwrap_or_default();
    let update = arguments.object("update")?.unwrap_or_default();
    let destroy = arguments.texts("destroy")?.unwrap_or_default();
    arguments.finish()?;
    context.check_set_count(create.len() + update.len() + destroy.len())?;
    context.writable_account(&account_id)?;
    let identities = context.services.accounts.identities(context.caller, &account_id)?;
    let state = state_of(&identities);
    if if_in_state.is_some_and(|expected| expected != state) {
        return Err(MethodError::new("stateMismatch"));
    }
    let refuse = |id: &String, is_new: bool| {
        let is_known = is_new || identities.iter().any(|identity| identity.id == *id);
        match is_known {
            true => SetError::described("forbidden", "identities come from the directory"),
            false => SetError::new("notFound"),
        }
    };
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("oldState".to_owned(), json!(state));
    reply.insert("newState".to_owned(), json!(state));
    add_outcomes(&mut reply, ["created", "notCreated"], create.keys().map(|id| (id, Err(refuse(id, true)))));
    add_outcomes(&mut reply, ["updated", "notUpdated"], update.keys().map(|id| (id, Err(refuse(id, false)))));
    add_outcomes(&mut reply, ["destroyed", "notDestroyed"], destroy.iter().map(|id| (id, Err(refuse(id, false)))));
    Ok(reply)
}
