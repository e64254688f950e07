//! Principal/changes (RFC 9670 §2.2): none, or `cannotCalculateChanges`, because the directory keeps no history,
//! and neither do the access control lists that open accounts.

use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::changes::{self, ChangesCall};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::owned_accounts::{OwnedAccounts, open_account};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = ChangesCall::parse(arguments)?;
    open_account(context, &call.account_id)?;
    let accounts = OwnedAccounts::load(context.services, context.caller)?;
    let state = accounts.principals_state(context.services, context.caller)?;
    match call.since == state {
        true => Ok(changes::none(&call, &state)),
        false => Err(MethodError::new("cannotCalculateChanges")),
    }
}
