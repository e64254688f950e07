//! ShareNotification (RFC 9670 §3), which belongs to the capability of principals. Rights are changed by access control
//! lists, without notifications, so there never is one.

use serde_json::{Map, Value};

use super::get_call::GetCall;
use super::set_call::SetCall;
use crate::arguments::{Arguments, parse_utc_date};
use crate::changes::{self, ChangesCall, ListChanges, ListChangesCall};
use crate::comparator::Comparator;
use crate::context::Context;
use crate::email_write::{add_destroyed, add_outcomes};
use crate::error::{MethodError, MethodResult, SetError};
use crate::filter_tree::FilterTree;
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
    check_list(&mut arguments)?;
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
    check_list(&mut arguments)?;
    let call = ListChangesCall::parse(arguments)?;
    open_account(context, &call.account_id)?;
    if call.since != STATE {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    call.answer(ListChanges { removed: [].into(), added: Vec::new(), total: 0, new_state: STATE.to_owned() })
}

/// Checks the filter and the order of a list (RFC 9670 §3.4).
fn check_list(arguments: &mut Arguments) -> MethodResult<()> {
    FilterTree::parse(arguments.value("filter").as_ref(), &check_condition)?;
    Comparator::parse_all(arguments, &["created"])?;
    Ok(())
}

fn check_condition(name: &str, value: &Value) -> MethodResult<Option<()>> {
    let text = value.as_str();
    let is_valid = match name {
        "after" | "before" => value.is_null() || text.and_then(parse_utc_date).is_some(),
        "objectType" | "objectAccountId" => text.is_some(),
        _ => return Err(MethodError::described("unsupportedFilter", format!("there is no condition {name}"))),
    };
    match is_valid {
        true => Ok(None),
        false => Err(MethodError::invalid_arguments(format!("{name} has the wrong type"))),
    }
}

/// Runs `/set`, by which clients dismiss notifications.
pub(super) fn run_set(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = SetCall::parse(context, arguments)?;
    if open_account(context, &call.account_id)?.is_read_only {
        return Err(MethodError::new("accountReadOnly"));
    }
    call.check_state(STATE)?;
    let mut reply = call.reply(STATE, STATE);
    let forbidden = || SetError::described("forbidden", "only the server creates notifications, and none is changed");
    add_outcomes(&mut reply, ["created", "notCreated"], call.create.keys().map(|id| (id, Err(forbidden()))));
    add_outcomes(&mut reply, ["updated", "notUpdated"], call.update.keys().map(|id| (id, Err(forbidden()))));
    add_destroyed(&mut reply, call.destroy.iter().map(|id| (id, Err(SetError::new("notFound")))));
    Ok(reply)
}
