//! Principal/set (RFC 9670 §2.3): every change is `forbidden`, because administrators keep the directory.

use serde_json::{Map, Value};

use super::set_call::SetCall;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::email_write::{add_destroyed, add_outcomes};
use crate::error::{MethodError, MethodResult, SetError};
use crate::owned_accounts::{OwnedAccounts, open_account};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = SetCall::parse(context, arguments)?;
    let account = open_account(context, &call.account_id)?;
    if account.is_read_only {
        return Err(MethodError::new("accountReadOnly"));
    }
    let accounts = OwnedAccounts::load(context.services, context.caller)?;
    let state = accounts.principals_state(context.services, context.caller)?;
    call.check_state(&state)?;
    let refuse = |id: &String| -> MethodResult<(String, SetError)> {
        let found = context.services.principals.find(id)?;
        Ok((id.clone(), found.map_or_else(|| SetError::new("notFound"), |_| forbidden())))
    };
    let updated = call.update.keys().map(refuse).collect::<MethodResult<Vec<_>>>()?;
    let destroyed = call.destroy.iter().map(refuse).collect::<MethodResult<Vec<_>>>()?;
    let mut reply = call.reply(&state, &state);
    add_outcomes(&mut reply, ["created", "notCreated"], call.create.keys().map(|id| (id, Err(forbidden()))));
    let updated = updated.iter().map(|(id, error)| (id, Err(error.clone())));
    add_outcomes(&mut reply, ["updated", "notUpdated"], updated);
    add_destroyed(&mut reply, destroyed.iter().map(|(id, error)| (id, Err(error.clone()))));
    Ok(reply)
}

fn forbidden() -> SetError {
    SetError::described("forbidden", "administrators change the directory")
}
