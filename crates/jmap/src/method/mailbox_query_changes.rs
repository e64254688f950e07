//! Mailbox/queryChanges (RFC 8621 §2.4): exact for all filters and orders.
//!
//! Every mailbox that changed is removed from the client's list, and added again at its place if it is in the list now.
//! In trees this goes for the mailboxes below it, too. So the list of a client becomes what Mailbox/query returns now.

use std::collections::{BTreeSet, HashSet};

use mail::mailbox_list::{Mailbox, MailboxList};
use serde_json::{Map, Value};

use super::mailbox_query::{MailboxQuery, state_of};
use crate::arguments::Arguments;
use crate::changes::{ListChanges, ListChangesCall, was_mailbox_deleted};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::state::State;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let query = MailboxQuery::parse(&mut arguments)?;
    let call = ListChangesCall::parse(arguments)?;
    let account = context.account(&call.account_id)?;
    let view = context.view(&account)?;
    let since = State::parse_whole(&call.since, &view.snapshot)?;
    let list = view.table.mailboxes();
    if since < list.since() && was_mailbox_deleted(&view, since)? {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    let changed: HashSet<&str> =
        list.all().filter(|mailbox| list.changed(mailbox.view) > since).map(|mailbox| mailbox.id.as_str()).collect();
    let is_affected = |mailbox: &Mailbox| match query.is_tree() {
        true => ancestors(list, mailbox).any(|id| changed.contains(id)),
        false => changed.contains(mailbox.id.as_str()),
    };
    let mut removed: BTreeSet<String> = list.gone_after(since).map(str::to_owned).collect();
    removed.extend(list.all().filter(|mailbox| is_affected(mailbox)).map(|mailbox| mailbox.id.clone()));
    let found = query.list(list);
    let places = found.iter().enumerate().filter(|(_, mailbox)| is_affected(mailbox));
    let added = places.map(|(index, mailbox)| (index, mailbox.id.clone())).collect();
    call.answer(ListChanges { removed, added, total: found.len(), new_state: state_of(&view) })
}

/// Returns the identifiers of a mailbox and of those above it.
fn ancestors<'l>(list: &'l MailboxList, mailbox: &'l Mailbox) -> impl Iterator<Item = &'l str> {
    let parent = |mailbox: &&'l Mailbox| list.by_id(mailbox.parent.as_deref()?);
    std::iter::successors(Some(mailbox), parent).map(|mailbox| mailbox.id.as_str())
}
