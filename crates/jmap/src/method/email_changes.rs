//! Email/changes (RFC 8621 §4.3): messages that came, changed or left.

use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::changes::{self, ChangesCall};
use crate::context::Context;
use crate::error::MethodResult;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = ChangesCall::parse(arguments)?;
    let account = context.account(&call.account_id)?;
    let view = context.view(&account)?;
    changes::answer(&call, &view, view.table.email_modseq(), changes::emails)
}
