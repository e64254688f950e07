//! `doublet db copy`: copies of a database under other paths.
//!
//! All destinations are checked before the first copy begins. A destination that is the mail file of a person gets this
//! person as its owner; `docs/database-copies.md` says what follows from that. The copies are made one after the other,
//! each of a snapshot of its own, and each is complete or does not exist. Owner, options and access control list of a
//! copy are those of the moment at which it begins, because hundreds of copies take a while.

use std::collections::HashSet;
use std::time::Duration;

use directory::Person;
use instance::Instance;
use notes::{Access, Acl, AclEntry, AclKind, AclLevel, CopyProgress, DatabaseCopy, DatabaseKind, NewCopy, level};
use serde_json::{Value, json};

use super::answer::record;
use super::databases::check_title;
use super::open::open;
use super::request::CopyRequest;
use super::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, format_count, report_step};
use base::Name;

/// Executes a request for copies.
pub(super) fn execute(instance: &Instance, request: &CopyRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    request.title.as_deref().map_or(Ok(()), check_title)?;
    let source = open(instance, &request.source)?;
    let plans = plan(instance, request, &source)?;
    let started = instance.clock.monotonic();
    let mut rows = Vec::with_capacity(plans.len());
    let mut documents = 0;
    let mut copies: u64 = 0;
    for (number, plan) in (1..).zip(&plans) {
        if !plan.is_missing {
            rows.push(plan.row("skipped", CopyProgress::default(), Duration::ZERO));
            continue;
        }
        let step = match plans.len() {
            1 => format!("copying to {}", plan.path),
            count => format!("copying to {} ({number} of {count})", plan.path),
        };
        let began = instance.clock.monotonic();
        let copied = copy(instance, request, &source, plan, &mut |progress: CopyProgress| {
            let CopyProgress { notes, total, is_complete, .. } = progress;
            // All notes are counted before their other records are copied, and the last step is reported once.
            let done = if is_complete { total } else { notes.min(total.saturating_sub(1)) };
            report_step(report, Progress { step: step.clone(), done, total: Some(total), unit: Unit::Notes })
        });
        let copied = copied.map_err(|failure| with_copies(failure, copies))?;
        documents += copied.documents;
        copies += 1;
        rows.push(plan.row("copied", copied, instance.clock.monotonic().saturating_sub(began)));
    }
    let elapsed = instance.clock.monotonic().saturating_sub(started).as_secs_f64();
    let made = format_count(copies, "copy", "copies");
    let of_documents = format_count(documents, "document", "documents");
    Ok(Answer::list(rows).with_message(format!("{made} with {of_documents} made in {elapsed:.1} s.")))
}

/// Adds the copies that are complete to a failure.
fn with_copies(failure: AdminError, copies: u64) -> AdminError {
    if copies == 0 {
        return failure;
    }
    let made = format_count(copies, "copy is", "copies are");
    failure.with_partial_result(format!("{made} complete; the same command with --resume skips them"))
}

/// What is to be done for one destination.
struct Plan {
    path: String,
    /// The owner of the copy.
    owner: Name,
    /// There is no copy yet.
    is_missing: bool,
}

impl Plan {
    fn row(&self, state: &str, copied: CopyProgress, elapsed: Duration) -> Value {
        record(vec![
            ("path", json!(self.path)),
            ("state", json!(state)),
            ("owner", json!(self.owner.to_string())),
            ("notes", json!(copied.notes)),
            ("documents", json!(copied.documents)),
            ("attachments", json!(copied.attachments)),
            ("bytes", json!(copied.bytes)),
            ("milliseconds", json!(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))),
        ])
    }
}

fn plan(instance: &Instance, request: &CopyRequest, source: &Access<level::Manager>) -> Result<Vec<Plan>, AdminError> {
    let mut seen = HashSet::new();
    let mut plans = Vec::with_capacity(request.destinations.len());
    for path in &request.destinations {
        if !seen.insert(path.to_lowercase()) {
            return Err(AdminError::Refused(format!("{path} is named twice")));
        }
        let origin = if request.resume { instance.databases.copy_origin(path)? } else { None };
        let is_there = origin.is_some_and(|origin| origin.source == source.database().number());
        let new = new_copy(instance, request, source, path)?;
        if !is_there {
            instance.databases.check_copy(source, &new).map_err(|error| destination_error(error, request))?;
        }
        plans.push(Plan { path: path.clone(), owner: new.owner, is_missing: !is_there });
    }
    Ok(plans)
}

fn destination_error(error: notes::Error, request: &CopyRequest) -> AdminError {
    let hint = match &error {
        notes::Error::NotEmpty { .. } if request.resume => "; it is no copy of the source",
        notes::Error::NotEmpty { .. } => "; --resume skips the copies that were made before",
        _ => return error.into(),
    };
    AdminError::Refused(format!("{error}{hint}"))
}

/// Returns the properties of a copy with a path: those of the empty database that has the path, or of a new one.
fn new_copy(
    instance: &Instance,
    request: &CopyRequest,
    source: &Access<level::Manager>,
    path: &str,
) -> Result<NewCopy, AdminError> {
    let from = source.database().record();
    let new = NewCopy { is_replica: request.replica, ..NewCopy::new(path, &from) };
    let holder = instance.directory.mail_file_holder(path)?;
    if let Some(person) = &holder {
        let reason = match from.kind {
            DatabaseKind::Mail if request.replica && from.owner != person.name => "a replica cannot change its owner",
            DatabaseKind::Mail => "",
            _ => "only a copy of a mail file can take its place",
        };
        if !reason.is_empty() {
            return Err(AdminError::Refused(format!("{path} is the mail file of {}: {reason}", person.label())));
        }
    }
    if request.replica {
        return Ok(new);
    }
    let mut new = if instance.databases.database_exists(path)? {
        let existing = open(instance, path)?;
        let record = existing.database().record();
        let reader: Access<level::Reader> = existing.downgrade();
        let acl = reader.read()?.acl().as_ref().clone();
        NewCopy { acl: Some(acl), ..NewCopy { path: path.to_owned(), ..NewCopy::new(path, &record) } }
    } else if let Some(person) = holder {
        for_person(source, new, &person)?
    } else {
        new
    };
    if let Some(title) = &request.title {
        new.title.clone_from(title);
    }
    Ok(new)
}

/// Changes a copy into the mail file of a person.
fn for_person(source: &Access<level::Manager>, new: NewCopy, person: &Person) -> Result<NewCopy, AdminError> {
    let reader: Access<level::Reader> = source.downgrade();
    let mut acl = reader.read()?.acl().as_ref().clone();
    replace_owner(&mut acl, &new.owner, &person.name);
    let mut options = new.options;
    options.quota_bytes = person.quota_bytes;
    Ok(NewCopy { title: person.display_name(), owner: person.name.clone(), acl: Some(acl), options, ..new })
}

/// Replaces the name of an owner in an access control list. The new owner has the rights of the old one only.
fn replace_owner(acl: &mut Acl, old: &Name, new: &Name) {
    if old == new {
        return;
    }
    acl.entries.retain(|entry| entry.name != *new);
    match acl.entries.iter_mut().find(|entry| !old.is_empty() && entry.name == *old) {
        Some(entry) => entry.name = new.clone(),
        None => {
            let entry = AclEntry::new(new.canonical(), AclLevel::Manager);
            acl.entries.push(AclEntry { kind: AclKind::Person, ..entry });
        }
    }
}

/// Makes a copy, and reports its progress.
fn copy(
    instance: &Instance,
    request: &CopyRequest,
    source: &Access<level::Manager>,
    plan: &Plan,
    report: &mut dyn FnMut(CopyProgress) -> Result<(), AdminError>,
) -> Result<CopyProgress, AdminError> {
    let holder = |path: &str| instance.directory.mail_file_holder(path);
    let given_away = || AdminError::Refused(format!("{} was given to another person meanwhile", plan.path));
    let before = holder(&plan.path)?.map(|person| person.name.clone());
    let new = new_copy(instance, request, source, &plan.path)?;
    if new.owner != plan.owner {
        return Err(given_away());
    }
    let mut running = DatabaseCopy::begin(&instance.databases, source, &new)?;
    let mut progress = CopyProgress::default();
    while !progress.is_complete {
        progress = running.step()?;
        report(progress)?;
    }
    let database = running.finish()?;
    // A person added meanwhile may have been given the path before the database existed.
    if holder(&new.path)?.map(|person| person.name.clone()) != before {
        drop(database);
        instance.databases.database_delete(&open(instance, &new.path)?)?;
        return Err(given_away());
    }
    Ok(progress)
}

#[cfg(test)]
mod tests;
