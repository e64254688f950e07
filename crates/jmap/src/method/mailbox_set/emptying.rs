//! Removes the messages of mailboxes that a call destroys, in batches and before the mailboxes themselves.
//!
//! A message that is in other mailboxes, too, stays there. Messages that are marked `\Deleted` do not exist in JMAP, so
//! they are removed also if the client does not ask for it.

use base::{Uid, ViewId};
use mail::mailbox_list::Mailbox;
use notes::Marks;
use serde_json::Value;

use super::MailboxSet;
use super::call::Call;
use crate::account::Account;
use crate::context::Context;
use crate::error::{MethodResult, SetError};
use crate::limits::DESTROY_BATCH_MAX;

/// Removes the messages. Returns the state before, if there was a mailbox to empty.
pub(super) fn run(
    context: &mut Context<'_>,
    account: &Account,
    call: &Call,
    set: &MailboxSet,
) -> MethodResult<Option<String>> {
    let state = check_state(context, account, call)?;
    if call.set.destroy.is_empty() {
        return Ok(None);
    }
    let doomed = find(context, account, call, set)?;
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

/// Returns the folders that the call will destroy: the changes are planned as they will be made.
fn find(context: &mut Context<'_>, account: &Account, call: &Call, set: &MailboxSet) -> MethodResult<Vec<ViewId>> {
    let mut view = context.view(account)?;
    let mut planned = MailboxSet::of_view(&mut view, call);
    planned.new_folders.clone_from(&set.new_folders);
    let has_emails =
        |folder: ViewId| Ok::<_, SetError>(!call.removes_emails && view.table.members(folder).next().is_some());
    planned.plan(context, call, &has_emails);
    let doomed = planned.destroyed.into_iter().filter_map(|(_, result)| result.ok());
    // A mailbox that this call creates may come to be below one of them.
    let list = view.table.mailboxes();
    let gets_child = |mailbox: &Mailbox| {
        let mut parents = call.set.create.values().map(|object| object.get("parentId").and_then(Value::as_str));
        parents.any(|parent| parent == Some(mailbox.id.as_str()))
    };
    let is_right = |folder: &ViewId| {
        list.by_view(*folder).is_some_and(|mailbox| mailbox.rights.may_rename && !gets_child(mailbox))
    };
    Ok(doomed.filter(is_right).collect())
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
