//! `EmailSubmission/query` (RFC 8621 §7.3) and `/queryChanges` (§7.4), which cannot be calculated.

use serde_json::{Map, Value, json};

use crate::arguments::{Arguments, as_texts, parse_utc_date};
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::limits::FILTER_DEPTH_MAX;
use crate::query::Window;
use crate::state;
use crate::submission::{self, Submission};

/// A submission, and what the queue says about it.
struct Candidate<'s> {
    submission: &'s Submission,
    undo_status: &'static str,
}

/// Executes a call of `/query`.
pub fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let filter = arguments.value("filter");
    let comparators = arguments.list("sort")?;
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    let account = context.account(&account_id)?;
    let snapshot = account.file.snapshot()?;
    context.wait_for(snapshot.ticket());
    let all = Submission::all(snapshot.reading())?;
    let now = context.services.clock.now();
    let mut found = Vec::new();
    for submission in all.iter().filter(|one| !one.is_destroyed) {
        let queued = context.services.outbox.queued_message(&submission.queue_id());
        let candidate = Candidate { submission, undo_status: submission.undo_status(queued.as_ref(), now) };
        if filter.as_ref().map_or(Ok(true), |filter| matches(filter, &candidate, 0))? {
            found.push(submission);
        }
    }
    sort(&mut found, comparators.as_deref())?;
    let position = |id: &str| found.iter().position(|one| one.id() == id);
    let mut reply = window.answer(found.len(), position, |index| found.get(index).map(|one| one.id()))?;
    reply.insert("accountId".to_owned(), json!(account_id));
    let query_state = state::format(submission::last_change(&all), &snapshot);
    reply.insert("queryState".to_owned(), json!(query_state));
    reply.insert("canCalculateChanges".to_owned(), json!(false));
    Ok(reply)
}

/// Executes a call of `/queryChanges`.
pub fn run_changes(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    arguments.required_text("sinceQueryState")?;
    context.account(&account_id)?;
    Err(MethodError::new("cannotCalculateChanges"))
}

fn matches(filter: &Value, candidate: &Candidate<'_>, depth: usize) -> MethodResult<bool> {
    let Value::Object(filter) = filter else { return Err(unsupported("a filter is not an object")) };
    if depth > FILTER_DEPTH_MAX {
        return Err(unsupported("the filter is too deep"));
    }
    if let Some(operator) = filter.get("operator") {
        let conditions = filter.get("conditions").and_then(Value::as_array);
        let conditions = conditions.ok_or_else(|| MethodError::invalid_arguments("conditions is not a list"))?;
        let results: Vec<bool> =
            conditions.iter().map(|one| matches(one, candidate, depth + 1)).collect::<MethodResult<_>>()?;
        return match operator.as_str() {
            Some("AND") => Ok(results.iter().all(|is_met| *is_met)),
            Some("OR") => Ok(results.iter().any(|is_met| *is_met)),
            Some("NOT") => Ok(!results.iter().any(|is_met| *is_met)),
            _ => Err(MethodError::invalid_arguments("there is no such operator")),
        };
    }
    for (name, value) in filter.iter().filter(|(_, value)| !value.is_null()) {
        if !is_met(name, value, candidate)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_met(name: &str, value: &Value, Candidate { submission, undo_status }: &Candidate<'_>) -> MethodResult<bool> {
    let wrong = || MethodError::invalid_arguments(format!("{name} has another type"));
    let among = |text: &str| as_texts(value).map(|texts| texts.iter().any(|one| one == text)).ok_or_else(wrong);
    let time = || value.as_str().and_then(parse_utc_date).ok_or_else(wrong);
    match name {
        "identityIds" => among(&submission.identity),
        "emailIds" => among(&submission.email),
        "threadIds" => among(&submission.thread),
        "undoStatus" => value.as_str().map(|status| status == *undo_status).ok_or_else(wrong),
        "before" => Ok(submission.send_at < time()?),
        "after" => Ok(submission.send_at >= time()?),
        _ => Err(unsupported("there is no such condition")),
    }
}

fn sort(found: &mut [&Submission], comparators: Option<&[Value]>) -> MethodResult<()> {
    let mut keys: Vec<(&str, bool)> = Vec::new();
    for comparator in comparators.unwrap_or_default() {
        let property = comparator["property"].as_str();
        let property = property.ok_or_else(|| MethodError::invalid_arguments("a comparator has no property"))?;
        if !["emailId", "threadId", "sendAt", "sentAt"].contains(&property) {
            return Err(MethodError::new("unsupportedSort"));
        }
        keys.push((property, comparator["isAscending"].as_bool().unwrap_or(true)));
    }
    let compare = |a: &Submission, b: &Submission, property: &str| match property {
        "emailId" => a.email.cmp(&b.email),
        "threadId" => a.thread.cmp(&b.thread),
        _ => a.send_at.cmp(&b.send_at),
    };
    found.sort_by(|a, b| {
        let mut order = std::cmp::Ordering::Equal;
        for (property, is_ascending) in &keys {
            let by = compare(a, b, property);
            order = order.then(if *is_ascending { by } else { by.reverse() });
        }
        order.then_with(|| (a.send_at, a.unid).cmp(&(b.send_at, b.unid)))
    });
    Ok(())
}

fn unsupported(description: &str) -> MethodError {
    MethodError::described("unsupportedFilter", description)
}
