//! Principal/get (RFC 9670 §2.1): people and groups of the directory.

use serde_json::{Map, Value};

use super::get_call::GetCall;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;
use crate::owned_accounts::{OwnedAccounts, open_account};

/// The properties of Principal.
const PROPERTIES: [&str; 8] = ["id", "type", "name", "description", "email", "timeZone", "capabilities", "accounts"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = GetCall::parse(context, &mut arguments)?;
    arguments.finish()?;
    call.check_properties(&PROPERTIES)?;
    open_account(context, &call.account_id)?;
    let services = context.services;
    let caller = context.caller;
    let accounts = OwnedAccounts::load(services, caller)?;
    let state = accounts.principals_state(services, caller)?;
    let mut all = Vec::new();
    if call.ids.is_none() {
        services.principals.for_each(&[], &mut |info| all.push(info.id.clone()))?;
    }
    let wanted = call.wanted(context, || all)?;
    call.answer(context, &state, wanted, |id| {
        let found = services.principals.find(id)?;
        Ok(found.map(|info| info.to_json(accounts.of(services, caller, &info.id))))
    })
}
