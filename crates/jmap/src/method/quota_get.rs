//! Quota/get (RFC 9425 §4.2): the quota of the mail file in bytes, if it has one.

use serde_json::{Map, Value};

use super::get_call::GetCall;
use crate::account::Account;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;
use crate::quota::{STORAGE, StorageQuota};
use crate::session::MAIL;

const PROPERTIES: [&str; 10] =
    ["id", "resourceType", "used", "hardLimit", "scope", "name", "types", "warnLimit", "softLimit", "description"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = GetCall::parse(context, &mut arguments)?;
    arguments.finish()?;
    call.check_properties(&PROPERTIES)?;
    let account = context.account(&call.account_id)?;
    let quota = quota_of(context, &account)?;
    let wanted = call.wanted(context, || quota.object.iter().map(|_| STORAGE.to_owned()).collect())?;
    call.answer(context, &quota.state, wanted, |id| Ok(quota.object.clone().filter(|_| id == STORAGE)))
}

/// The quota of an account.
pub(super) struct Quota {
    /// The object, if there is a quota that the client knows about.
    pub(super) object: Option<Value>,
    /// The state.
    pub(super) state: String,
}

/// Reads the quota of an account.
pub(super) fn quota_of(context: &mut Context<'_>, account: &Account) -> MethodResult<Quota> {
    let snapshot = account.file.snapshot()?;
    context.wait_for(snapshot.ticket());
    let quota = StorageQuota::read(&snapshot);
    let object = quota.to_json(&account.info.name).filter(|_| is_visible(context));
    Ok(Quota { object, state: quota.state() })
}

/// Returns `true` if the request uses the capability of a type to which the quota applies. Others do not get the
/// object (RFC 9425 §4).
pub(super) fn is_visible(context: &Context<'_>) -> bool {
    context.uses(MAIL)
}
