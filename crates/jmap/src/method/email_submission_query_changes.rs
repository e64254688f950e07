//! `EmailSubmission/queryChanges` (RFC 8621 §7.4): exact for lists that depend only on properties that never change.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::email_submission_changes::find;
use super::email_submission_query::SubmissionQuery;
use crate::arguments::Arguments;
use crate::changes::{ListChanges, ListChangesCall};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::state::{self, State};
use crate::submission::{self, Submission};

/// Executes a call.
pub fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let query = SubmissionQuery::parse(&mut arguments)?;
    let call = ListChangesCall::parse(arguments)?;
    let account = context.account(&call.account_id)?;
    if !query.is_immutable() {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    let snapshot = account.file.snapshot()?;
    context.wait_for(snapshot.ticket());
    let since = State::parse_whole(&call.since, &snapshot)?;
    let all = Submission::all(snapshot.reading())?;
    let current = submission::last_change(&all).max(since);
    let changes = find(&all, since, current)?;
    let found = query.list(context, &all);
    let last = call.up_to.as_ref().and_then(|id| found.iter().position(|one| one.id() == *id));
    let is_added = |(index, one): &(usize, &&Submission)| one.created > since && last.is_none_or(|last| *index <= last);
    let added = found.iter().enumerate().filter(is_added).map(|(index, one)| (index, one.id())).collect();
    let removed: BTreeSet<String> = changes.destroyed;
    let changes = ListChanges { removed, added, total: found.len(), new_state: state::format(current, &snapshot) };
    call.answer(changes)
}
