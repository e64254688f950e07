//! `EmailSubmission/get` (RFC 8621 §7.1).

use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;
use crate::method::get_call::GetCall;
use crate::state;
use crate::submission::{self, Submission};

/// The properties of EmailSubmission.
const PROPERTIES: [&str; 10] = [
    "id",
    "identityId",
    "emailId",
    "threadId",
    "envelope",
    "sendAt",
    "undoStatus",
    "deliveryStatus",
    "dsnBlobIds",
    "mdnBlobIds",
];

/// Executes a call.
pub fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = GetCall::parse(context, &mut arguments)?;
    arguments.finish()?;
    call.check_properties(&PROPERTIES)?;
    let account = context.account(&call.account_id)?;
    let snapshot = account.file.snapshot()?;
    context.wait_for(snapshot.ticket());
    let all = Submission::all(snapshot.reading())?;
    let living = || all.iter().filter(|one| !one.is_destroyed);
    let wanted = call.wanted(context, || living().map(Submission::id).collect())?;
    let now = context.services.clock.now();
    let submissions = &context.services.outbox;
    call.answer(context, &state::format(submission::last_change(&all), &snapshot), wanted, |id| {
        let found = living().find(|one| one.id() == id);
        Ok(found.map(|one| Value::Object(one.to_json(submissions.queued_message(&one.queue_id()).as_ref(), now))))
    })
}
