//! `EmailSubmission/query` (RFC 8621 §7.3).
//!
//! Whether a submission matches, and its place in the order, never changes, unless the filter has `undoStatus`: that
//! becomes `final` with time, without any change. So changes of all other lists can be calculated.

use std::cmp::Ordering;

use base::Timestamp;
use serde_json::{Map, Value};

use crate::arguments::{Arguments, as_texts, parse_utc_date};
use crate::comparator::Comparator;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::filter_tree::FilterTree;
use crate::query::{QueriedList, Window};
use crate::state;
use crate::submission::{self, Submission};

/// Executes a call.
pub fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let query = SubmissionQuery::parse(&mut arguments)?;
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    let account = context.account(&account_id)?;
    let snapshot = account.file.snapshot()?;
    context.wait_for(snapshot.ticket());
    let all = Submission::all(snapshot.reading())?;
    let found = query.list(context, &all);
    let position = |id: &str| found.iter().position(|one| one.id() == id);
    let state = state::format(submission::last_change(&all), &snapshot);
    let list = QueriedList { account_id: &account_id, state: &state, can_calculate_changes: query.is_immutable() };
    window.answer(&list, found.len(), position, |index| found.get(index).map(|one| one.id()))
}

/// A list of submissions.
pub(super) struct SubmissionQuery {
    filter: FilterTree<Test>,
    sort: Vec<Comparator>,
}

impl SubmissionQuery {
    /// Takes the arguments `filter` and `sort`.
    pub(super) fn parse(arguments: &mut Arguments) -> MethodResult<Self> {
        let filter = FilterTree::parse(arguments.value("filter").as_ref(), &Test::parse)?;
        let sort = Comparator::parse_all(arguments, &["emailId", "threadId", "sendAt", "sentAt"])?;
        Ok(Self { filter, sort })
    }

    /// Returns `true` if a submission that stays neither comes to the list, nor leaves it, nor moves in it.
    pub(super) fn is_immutable(&self) -> bool {
        !self.filter.any_test(&|test| matches!(test, Test::UndoStatus(_)))
    }

    /// Returns the submissions in their order.
    pub(super) fn list<'s>(&self, context: &Context<'_>, all: &'s [Submission]) -> Vec<&'s Submission> {
        let now = context.services.clock.now();
        let is_wanted = |submission: &&Submission| {
            let undo_status = || {
                let queued = context.services.outbox.queued_message(&submission.queue_id());
                submission.undo_status(queued.as_ref(), now)
            };
            let met = self.filter.evaluate(&mut |test| Ok::<_, MethodError>(test.is_met(submission, &undo_status)));
            !submission.is_destroyed && met.unwrap_or(false)
        };
        let mut found: Vec<&Submission> = all.iter().filter(is_wanted).collect();
        found.sort_by(|a, b| {
            let order = Comparator::compare(&self.sort, |property| compare(property, a, b));
            order.then_with(|| (a.send_at, a.unid).cmp(&(b.send_at, b.unid)))
        });
        found
    }
}

fn compare(property: &str, a: &Submission, b: &Submission) -> Ordering {
    match property {
        "emailId" => a.email.cmp(&b.email),
        "threadId" => a.thread.cmp(&b.thread),
        _ => a.send_at.cmp(&b.send_at),
    }
}

/// One property of a condition.
pub(super) enum Test {
    /// `identityIds`.
    Identities(Vec<String>),
    /// `emailIds`.
    Emails(Vec<String>),
    /// `threadIds`.
    Threads(Vec<String>),
    /// `undoStatus`.
    UndoStatus(String),
    /// `before`.
    Before(Timestamp),
    /// `after`.
    After(Timestamp),
}

impl Test {
    fn parse(name: &str, value: &Value) -> MethodResult<Option<Self>> {
        let wrong = || MethodError::invalid_arguments(format!("{name} has another type"));
        let texts = || as_texts(value).ok_or_else(wrong);
        let time = || value.as_str().and_then(parse_utc_date).ok_or_else(wrong);
        Ok(Some(match name {
            _ if value.is_null() => return Ok(None),
            "identityIds" => Self::Identities(texts()?),
            "emailIds" => Self::Emails(texts()?),
            "threadIds" => Self::Threads(texts()?),
            "undoStatus" => Self::UndoStatus(value.as_str().ok_or_else(wrong)?.to_owned()),
            "before" => Self::Before(time()?),
            "after" => Self::After(time()?),
            _ => return Err(MethodError::described("unsupportedFilter", format!("there is no condition {name}"))),
        }))
    }

    fn is_met(&self, submission: &Submission, undo_status: &dyn Fn() -> &'static str) -> bool {
        match self {
            Self::Identities(ids) => ids.contains(&submission.identity),
            Self::Emails(ids) => ids.contains(&submission.email),
            Self::Threads(ids) => ids.contains(&submission.thread),
            Self::UndoStatus(wanted) => wanted == undo_status(),
            Self::Before(time) => submission.send_at < *time,
            Self::After(time) => submission.send_at >= *time,
        }
    }
}
