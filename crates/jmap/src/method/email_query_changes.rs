//! Email/queryChanges (RFC 8621 §4.5): how a list changed, exactly and for all filters and orders.
//!
//! Every message that changed is removed from the client's list and added again at its place if it is in the list now.
//! A new message is only added, and a list that can only change by messages that come and leave ignores other changes.
//! If the place of a message depends on others of its thread, that goes for all messages of the threads that changed.
//! So the list of a client becomes what Email/query returns now, whatever it was before.

use std::collections::{BTreeSet, HashSet};

use base::{Modseq, NoteId};
use serde_json::{Map, Value};

use crate::account::AccountView;
use crate::arguments::Arguments;
use crate::changes::{EmailChanges, ListChanges, ListChangesCall};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::query::{EmailQuery, QueryArguments};
use crate::state::State;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let definition = QueryArguments::parse(&mut arguments)?;
    let call = ListChangesCall::parse(arguments)?;
    let account = context.account(&call.account_id)?;
    let mut view = context.view(&account)?;
    let mut query = EmailQuery::parse(&definition, &view)?;
    let since = State::parse_whole(&call.since, &view.snapshot)?;
    let notes = query.run(&mut view, &*context.services.accounts)?;
    let changes = EmailChanges::find(&view, since, view.table.email_modseq().max(since))?;
    let affected = affected_notes(&view, &query, &changes, since)?;
    let mut removed: BTreeSet<String> = changes.gone;
    // A message that is new was not in the list.
    let rows = affected.iter().filter_map(|note| view.table.row(*note)).filter(|row| row.created <= since);
    removed.extend(rows.map(|row| row.email_id.to_string()));
    if query.depends_on_threads() {
        // These may have been in the list when their threads were.
        removed.extend(view.table.departures(since).map(|departure| departure.email_id.to_string()));
    }
    let last = call.up_to.as_ref().filter(|_| !query.is_mutable()).and_then(|id| {
        let note = view.table.email(id)?.note;
        notes.iter().position(|other| *other == note)
    });
    let mut places = query.places(&view, &notes, &affected);
    places.retain(|(index, _)| last.is_none_or(|last| *index <= last));
    let id_at = |(index, note)| Some((index, view.table.row(note)?.email_id.to_string()));
    let added = places.into_iter().filter_map(id_at).collect();
    call.answer(ListChanges { removed, added, total: notes.len(), new_state: view.email_state() })
}

/// Returns the messages whose places may have changed.
fn affected_notes(
    view: &AccountView<'_>,
    query: &EmailQuery,
    changes: &EmailChanges,
    since: Modseq,
) -> MethodResult<HashSet<NoteId>> {
    let is_new = |note: &NoteId| view.table.row(*note).is_some_and(|row| row.created > since);
    // A table that is younger than the state does not know which messages were marked as deleted before it.
    let tells_all = query.is_mutable() || since < view.table.departures_since();
    let changed = changes.changed.iter().copied();
    let mut affected: HashSet<NoteId> = changed.filter(|note| tells_all || is_new(note)).collect();
    if !query.depends_on_threads() {
        return Ok(affected);
    }
    if changes.has_unknown_threads {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    let mut threads: HashSet<&str> = changes.gone_threads.iter().map(String::as_str).collect();
    threads.extend(changes.changed.iter().filter_map(|note| view.table.row(*note)).map(|row| &*row.thread));
    for thread in threads {
        affected.extend(view.table.thread(thread).map(|row| row.note));
    }
    Ok(affected)
}
