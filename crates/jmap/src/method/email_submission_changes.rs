//! `EmailSubmission/changes` (RFC 8621 §7.2).

use base::Modseq;
use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::changes::{self, ChangeSet, ChangesCall};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::submission::{self, Submission};

/// Executes a call.
pub fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = ChangesCall::parse(arguments)?;
    let account = context.account(&call.account_id)?;
    let view = context.view(&account)?;
    let all = Submission::all(view.snapshot.reading())?;
    changes::answer(&call, &view, submission::last_change(&all), |_, since, until| find(&all, since, until))
}

/// Finds the changes between two states. A client with submissions that are all gone knows some that were removed for
/// good, so its changes cannot be found.
pub(super) fn find(all: &[Submission], since: Modseq, until: Modseq) -> MethodResult<ChangeSet> {
    let oldest = all.iter().map(|one| one.created).min().unwrap_or_default();
    if since > Modseq(0) && since < oldest {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    let mut set = ChangeSet::default();
    for one in all.iter().filter(|one| one.modseq > since && one.created <= until) {
        match (one.created <= since, one.is_destroyed) {
            (true, true) => set.destroyed.insert(one.id()),
            (true, false) => set.updated.insert(one.id()),
            (false, false) => set.created.insert(one.id()),
            (false, true) => false,
        };
    }
    Ok(set)
}
