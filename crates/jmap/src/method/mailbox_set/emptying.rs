//! Removes the messages of mailboxes that a call destroys, in batches and before the mailboxes themselves.
//!
//! A message that is in other mailboxes, too, stays there. Messages that are marked `\Deleted` do not exist in JMAP, so
//! they are removed also if the client does not ask for it.

use std::collections::BTreeSet;

use base::{Uid, ViewId};
use notes::Marks;
use serde_json::Value;

use super::call::Call;
use super::tree::MailboxTree;
use crate::account::Account;
use crate::context::Context;
use crate::error::MethodResult;
use crate::limits::DESTROY_BATCH_MAX;

/// Removes the messages. Returns the state before, if there was a mailbox to empty.
pub(super) fn run(context: &mut Context<'_>, account: &Account, call: &Call) -> MethodResult<Option<String>> {
    if call.set.destroy.is_empty() {
        return check_state(context, account, call).map(|_| None);
    }
    let state = check_state(context, account, call)?;
    let doomed = find(context, account, call)?;
    for view in &doomed {
        while remove_batch(context, account, *view, call.removes_emails)? {}
    }
    Ok((!doomed.is_empty()).then_some(state))
}

fn check_state(context: &mut Context<'_>, account: &Account, call: &Call) -> MethodResult<String> {
    let state = context.view(account)?.mailbox_state();
    call.set.check_state(&state)?;
    Ok(state)
}

/// Returns the folders that the call will destroy, as far as this is known before.
fn find(context: &mut Context<'_>, account: &Account, call: &Call) -> MethodResult<Vec<ViewId>> {
    let view = context.view(account)?;
    let mut tree = MailboxTree::new(view.table.mailboxes());
    let ids: BTreeSet<String> = call.set.destroy.iter().filter_map(|id| context.resolve_id(id)).collect();
    let mut folders: Vec<ViewId> = ids.iter().filter_map(|id| tree.by_id(id)).collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(tree.title(*folder).map_or(0, |title| title.matches('/').count())));
    // A mailbox that this call creates or moves may come to be below one of them.
    let gets_children = |folder: &ViewId| {
        let id = view.table.mailboxes().by_view(*folder).map(|mailbox| mailbox.id.as_str());
        let mut others = call.set.create.values().chain(call.set.update.values());
        others.any(|object| object.get("parentId").and_then(Value::as_str) == id)
    };
    let mut doomed = Vec::new();
    for folder in folders {
        let has_emails = view.table.members(folder).next().is_some();
        let is_permitted = call.removes_emails || !has_emails;
        let is_right = view.table.mailboxes().by_view(folder).is_some_and(|mailbox| mailbox.rights.may_rename);
        if is_permitted && is_right && tree.check_may_destroy(folder).is_ok() && !gets_children(&folder) {
            tree.remove(folder);
            doomed.push(folder);
        }
    }
    Ok(doomed)
}

/// Removes some messages of a mailbox. Returns `true` if there were any.
fn remove_batch(
    context: &mut Context<'_>,
    account: &Account,
    folder: ViewId,
    removes_emails: bool,
) -> MethodResult<bool> {
    let accesses = [account.file.depositor()];
    let mut transaction = account.file.mail().databases().transaction(&accesses)?;
    let mut writer = transaction.writer(0);
    let mut notes = Vec::new();
    writer.folder_read(folder)?.for_each_entry(Uid(0), &mut |entry| {
        if removes_emails || entry.marks.contains(Marks::DELETED) {
            notes.push(entry.note);
        }
        Ok(notes.len() < DESTROY_BATCH_MAX)
    })?;
    for note in &notes {
        writer.note_delete_from(*note, folder)?;
    }
    let ticket = transaction.commit()?;
    context.wait_for(ticket);
    Ok(!notes.is_empty())
}
