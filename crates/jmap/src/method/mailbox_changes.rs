//! Mailbox/changes (RFC 8621 §2.2): mailboxes that came, changed or left, and whether only counts have changed.

use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::changes::{self, ChangesCall};
use crate::context::Context;
use crate::error::MethodResult;

/// The properties that change with messages.
const COUNTS: [&str; 4] = ["totalEmails", "unreadEmails", "totalThreads", "unreadThreads"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = ChangesCall::parse(arguments)?;
    let account = context.account(&call.account_id)?;
    let view = context.view(&account)?;
    let mut is_counts_only = true;
    let mut reply = changes::answer(&call, &view, view.table.mailbox_modseq(), |view, since, until| {
        let (set, only) = changes::mailboxes(view, since, until)?;
        is_counts_only = only && !set.updated.is_empty();
        Ok(set)
    })?;
    let has_updated = reply.get("updated").and_then(Value::as_array).is_some_and(|ids| !ids.is_empty());
    let properties = if is_counts_only && has_updated { json!(COUNTS) } else { Value::Null };
    reply.insert("updatedProperties".to_owned(), properties);
    Ok(reply)
}
