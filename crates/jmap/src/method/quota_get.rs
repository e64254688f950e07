//! Quota/get (RFC 9425 §4.2): the quota of the mail file in bytes, if it has one.

use serde_json::{Map, Value, json};

use super::get_call::GetCall;
use crate::account::Account;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;

/// The identifier of the quota in bytes.
pub(super) const STORAGE: &str = "storage";

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
    /// The object, if there is a quota.
    pub(super) object: Option<Value>,
    /// The state.
    pub(super) state: String,
}

/// Reads the quota of an account.
pub(super) fn quota_of(context: &mut Context<'_>, account: &Account) -> MethodResult<Quota> {
    // The view makes the reply wait for what is told here.
    drop(context.view(account)?);
    let quota = account.file.quota()?;
    let limit = quota.limit_bytes.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let object = quota.limit_bytes.map(|limit| {
        json!({
            "id": STORAGE,
            "resourceType": "octets",
            "used": quota.used_bytes,
            "hardLimit": limit,
            "scope": "account",
            "name": account.info.name,
            "types": ["Mail"],
            "warnLimit": null,
            "softLimit": null,
            "description": null,
        })
    });
    Ok(Quota { object, state: format!("{}-{limit}", quota.used_bytes) })
}
