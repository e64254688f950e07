//! Thread/get (RFC 8621 §3.1): the messages of threads, the oldest first.

use serde_json::{Map, Value, json};

use super::get_call::GetCall;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = GetCall::parse(context, &mut arguments)?;
    arguments.finish()?;
    call.check_properties(&["id", "emailIds"])?;
    let account = context.account(&call.account_id)?;
    let view = context.view(&account)?;
    let wanted = call.wanted(context, || view.table.thread_ids().map(str::to_owned).collect())?;
    call.answer(context, &view.thread_state(), wanted, |id| {
        let emails: Vec<&str> = view.table.thread(id).map(|row| &*row.email_id).collect();
        Ok((!emails.is_empty()).then(|| json!({ "id": id, "emailIds": emails })))
    })
}
