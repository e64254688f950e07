//! ShareNotification (RFC 9670 §3), which belongs to the capability of principals. Rights are changed by access control
//! lists, without notifications, so there never is one.

use serde_json::{Map, Value};

use super::get_call::GetCall;
use super::set_call::SetCall;
use crate::arguments::Arguments;
use crate::changes::{self, ChangesCall, ListChanges, ListChangesCall};
use crate::context::Context;
use crate::email_write::{add_destroyed, add_outcomes};
use crate::error::{MethodError, MethodResult, SetError};
use crate::owned_accounts::open_account;
use crate::query::{QueriedList, Window};

/// The state of the type and of all its lists.
const STATE: &str = "0";

const PROPERTIES: [&str; 8] =
    ["id", "created", "changedBy", "objectType", "objectAccountId", "objectId", "oldRights", "newRights"];

/// Runs `/get`.
pub(super) fn run_get(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = GetCall::parse(context, &mut arguments)?;
    arguments.finish()?;
    call.check_properties(&[&PROPERTIES[..], &["name"]].concat())?;
    open_account(context, &call.account_id)?;
    let wanted = call.wanted(context, Vec::new)?;
    call.answer(context, STATE, wanted, |_| Ok(None))
}

/// Runs `/changes`.
pub(super) fn run_changes(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = ChangesCall::parse(arguments)?;
    open_account(context, &call.account_id)?;
    match call.since == STATE {
        true => Ok(changes::none(&call, STATE)),
        false => Err(MethodError::new("cannotCalculateChanges")),
    }
}

/// Runs `/query`.
pub(super) fn run_query(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    arguments.take_all(&["filter", "sort"]);
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    open_account(context, &account_id)?;
    let list = QueriedList { account_id: &account_id, state: STATE, can_calculate_changes: true };
    window.answer(&list, 0, |_| None, |_| None)
}

/// Runs `/queryChanges`.
pub(super) fn run_query_changes(
    context: &mut Context<'_>,
    mut arguments: Arguments,
) -> MethodResult<Map<String, Value>> {
    arguments.take_all(&["filter", "sort"]);
    let call = ListChangesCall::parse(arguments)?;
    open_account(context, &call.account_id)?;
    if call.since != STATE {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    call.answer(ListChanges { removed: [].into(), added: Vec::new(), total: 0, new_state: STATE.to_owned() })
}

/// Runs `/set`, by which clients dismiss notifications.
pub(super) fn run_set(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = SetCall::parse(context, arguments)?;
    if open_account(context, &call.account_id)?.is_read_only {
        return Err(MethodError::new("accountReadOnly"));
    }
    call.check_state(STATE)?;
    let mut reply = call.reply(STATE, STATE);
    let forbidden = || SetError::described("forbidden", "only the server creates notifications");
    add_outcomes(&mut reply, ["created", "notCreated"], call.create.keys().map(|id| (id, Err(forbidden()))));
    let absent = || SetError::new("notFound");
    add_outcomes(&mut reply, ["updated", "notUpdated"], call.update.keys().map(|id| (id, Err(absent()))));
    add_destroyed(&mut reply, call.destroy.iter().map(|id| (id, Err(absent()))));
    Ok(reply)
}
