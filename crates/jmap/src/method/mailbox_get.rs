//! Mailbox/get (RFC 8621 §2.1): mailboxes with their counts and the rights of the caller.

use std::collections::HashMap;

use base::ViewId;
use mail::mailbox_list::{Mailbox, Rights};
use mail::message_table::Counts;
use serde_json::{Map, Value, json};

use super::get_call::GetCall;
use crate::arguments::Arguments;
use crate::backend::Scope;
use crate::context::Context;
use crate::error::MethodResult;

/// The properties of a mailbox.
const PROPERTIES: [&str; 11] = [
    "id",
    "name",
    "parentId",
    "role",
    "sortOrder",
    "totalEmails",
    "unreadEmails",
    "totalThreads",
    "unreadThreads",
    "myRights",
    "isSubscribed",
];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = GetCall::parse(context, &mut arguments)?;
    arguments.finish()?;
    call.check_properties(&PROPERTIES)?;
    let account = context.account(&call.account_id)?;
    let is_reading = context.caller.scope == Scope::Reading;
    let mut view = context.view(&account)?;
    let counts = view.table.counts();
    let list = std::sync::Arc::clone(view.table.mailboxes());
    let wanted = call.wanted(context, || list.all().map(|mailbox| mailbox.id.clone()).collect())?;
    call.answer(context, &view.mailbox_state(), wanted, |id| {
        Ok(list.by_id(id).map(|mailbox| object(mailbox, &counts, is_reading)))
    })
}

/// Returns a mailbox as clients see it.
pub(super) fn object(mailbox: &Mailbox, counts: &HashMap<ViewId, Counts>, is_reading: bool) -> Value {
    let counts = counts.get(&mailbox.view).copied().unwrap_or_default();
    let mut rights = if is_reading { Rights::default() } else { mailbox.rights };
    rights.may_add &= mailbox.is_selectable;
    json!({
        "id": mailbox.id,
        "name": mailbox.name,
        "parentId": mailbox.parent,
        "role": mailbox.role,
        "sortOrder": mailbox.sort_order,
        "totalEmails": counts.emails,
        "unreadEmails": counts.unread_emails,
        "totalThreads": counts.threads,
        "unreadThreads": counts.unread_threads,
        "myRights": rights_to_json(rights),
        "isSubscribed": mailbox.is_subscribed,
    })
}

/// Returns the property `myRights`.
fn rights_to_json(rights: Rights) -> Value {
    json!({
        "mayReadItems": true,
        "mayAddItems": rights.may_add,
        "mayRemoveItems": rights.may_remove,
        "maySetSeen": rights.may_mark,
        "maySetKeywords": rights.may_mark,
        "mayCreateChild": rights.may_create_child,
        "mayRename": rights.may_rename,
        "mayDelete": rights.may_rename,
        "maySubmit": rights.may_submit,
    })
}
