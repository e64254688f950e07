//! Thread/changes (RFC 8621 §3.2): threads that came, got or lost messages, or left.

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
    changes::answer(&call, &view, view.table.thread_modseq(), changes::threads)
}
