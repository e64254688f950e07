//! Principal/set (RFC 9670 §2.3): every change is `forbidden`, because administrators keep the directory.

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::email_write::add_outcomes;
use crate::error::{MethodError, MethodResult, SetError};
use crate::owned_accounts::{OwnedAccounts, open_account};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let if_in_state = arguments.text("ifInState")?;
    let create = arguments.object("create")?.unwrap_or_default();
    let update = arguments.object("update")?.unwrap_or_default();
    let destroy = arguments.texts("destroy")?.unwrap_or_default();
    arguments.finish()?;
    context.check_set_count(create.len() + update.len() + destroy.len())?;
    let account = open_account(context, &account_id)?;
    if account.is_read_only {
        return Err(MethodError::new("accountReadOnly"));
    }
    let accounts = OwnedAccounts::load(context.services, context.caller)?;
    let state = accounts.principals_state(context.services, context.caller)?;
    if if_in_state.is_some_and(|expected| expected != state) {
        return Err(MethodError::new("stateMismatch"));
    }
    let refuse = |id: &String| -> MethodResult<(String, SetError)> {
        let found = context.services.principals.find(id)?;
        Ok((id.clone(), found.map_or_else(|| SetError::new("notFound"), |_| forbidden())))
    };
    let updated = update.keys().map(refuse).collect::<MethodResult<Vec<_>>>()?;
    let destroyed = destroy.iter().map(refuse).collect::<MethodResult<Vec<_>>>()?;
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("oldState".to_owned(), json!(state));
    reply.insert("newState".to_owned(), json!(state));
    add_outcomes(&mut reply, ["created", "notCreated"], create.keys().map(|id| (id, Err(forbidden()))));
    let updated = updated.iter().map(|(id, error)| (id, Err(error.clone())));
    add_outcomes(&mut reply, ["updated", "notUpdated"], updated);
    let destroyed = destroyed.iter().map(|(id, error)| (id, Err(error.clone())));
    add_outcomes(&mut reply, ["destroyed", "notDestroyed"], destroyed);
    Ok(reply)
}

fn forbidden() -> SetError {
    SetError::described("forbidden", "administrators change the directory")
}
