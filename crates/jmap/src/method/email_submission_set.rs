//! `EmailSubmission/set` (RFC 8621 §7.5): sending, withdrawing, and what happens to the message when it was sent.
//!
//! A message is accepted, and the document about it is written, in one transaction. A request that is repeated because
//! its answer was lost sends nothing twice: the same creation id, message and envelope within
//! [`REPEATED_REQUEST_TIME_MAX`] get the object of the first request. A message that the request itself has created is
//! another one after the repetition. It counts as the same if it has the same Message-ID, so if the client has chosen
//! that: no two messages have one (RFC 5322 §3.6.4), and that of the server is new each time.

use base::{Modseq, NoteId, Unid};
use mail::message::message_id;
use mail::mime::MimeSource as _;
use mail::router::{RecordChange, SubmissionRecord};
use mail::submission::{RecordedSubmission, Refusal, RefusedRequest, SubmissionRequest};
use notes::AclLevel;
use serde_json::{Map, Value, json};

use super::set_call::SetCall;
use super::{email_set, refused_request};
use crate::account::Account;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::email_write::{add_destroyed, add_outcomes};
use crate::envelope::SentEnvelope;
use crate::error::{InvalidProperties, MethodError, MethodResult, SetError};
use crate::identities::IdentityList;
use crate::limits::REPEATED_REQUEST_TIME_MAX;
use crate::patch::Patch;
use crate::state;
use crate::submission::{self, Submission};

/// The properties of a new submission that clients set.
const SETTABLE: [&str; 3] = ["identityId", "emailId", "envelope"];

/// The arguments of a call.
struct Call {
    set: SetCall,
    on_success_update: Map<String, Value>,
    on_success_destroy: Vec<String>,
}

impl Call {
    fn parse(context: &Context<'_>, mut arguments: Arguments) -> MethodResult<Self> {
        let on_success_update = arguments.object("onSuccessUpdateEmail")?.unwrap_or_default();
        let on_success_destroy = arguments.texts("onSuccessDestroyEmail")?.unwrap_or_default();
        Ok(Self { set: SetCall::parse(context, arguments)?, on_success_update, on_success_destroy })
    }
}

/// What a call has done so far.
#[derive(Default)]
struct Outcome {
    created: Vec<(String, Result<Value, SetError>)>,
    updated: Vec<(String, Result<Value, SetError>)>,
    destroyed: Vec<(String, Result<(), SetError>)>,
    /// The messages of the submissions that succeeded, by what the arguments of success name.
    emails: Vec<(String, String)>,
}

/// Executes a call.
pub fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = Call::parse(context, arguments)?;
    let account = context.writable_account(&call.set.account_id)?;
    // `maySubmit` of the mailboxes says the same. What the server writes about a submission is not checked otherwise.
    if account.grant.level() < AclLevel::Editor {
        return Err(MethodError::described("forbidden", "only an Editor of the mail file may send from it"));
    }
    let old_state = current_state(context, &account)?;
    call.set.check_state(&old_state)?;
    let mut outcome = Outcome::default();
    for (creation_id, properties) in &call.set.create {
        match create(context, &account, creation_id, properties) {
            Ok(submission) => outcome.add_created(context, (creation_id, properties), &submission),
            Err(error) => outcome.created.push((creation_id.clone(), Err(error))),
        }
    }
    for (id, patch) in &call.set.update {
        let resolved = context.resolve_id(id).ok_or_else(|| SetError::new("notFound"));
        match resolved.and_then(|id: String| update(context, &account, &id, patch)) {
            Ok((submission, changes)) => {
                outcome.updated.push((submission.id(), Ok(changes)));
                outcome.emails.push((submission.id(), submission.email));
            }
            Err(error) => outcome.updated.push((id.clone(), Err(error))),
        }
    }
    for id in &call.set.destroy {
        let resolved = context.resolve_id(id).ok_or_else(|| SetError::new("notFound"));
        match resolved.and_then(|id: String| destroy(context, &account, &id)) {
            Ok(submission) => {
                outcome.destroyed.push((submission.id(), Ok(())));
                outcome.emails.push((submission.id(), submission.email));
            }
            Err(error) => outcome.destroyed.push((id.clone(), Err(error))),
        }
    }
    let new_state = current_state(context, &account)?;
    outcome.change_emails(context, &call);
    let mut reply = call.set.reply(&old_state, &new_state);
    add_outcomes(&mut reply, ["created", "notCreated"], outcome.created.iter().map(|(id, one)| (id, one.clone())));
    add_outcomes(&mut reply, ["updated", "notUpdated"], outcome.updated.iter().map(|(id, one)| (id, one.clone())));
    add_destroyed(&mut reply, outcome.destroyed.iter().map(|(id, one)| (id, one.clone())));
    Ok(reply)
}

fn current_state(context: &mut Context<'_>, account: &Account) -> MethodResult<String> {
    let snapshot = account.file.snapshot()?;
    context.wait_for(snapshot.ticket());
    let all = Submission::all(snapshot.reading())?;
    Ok(state::format(submission::last_change(&all), &snapshot))
}

impl Outcome {
    fn add_created(
        &mut self,
        context: &mut Context<'_>,
        (creation_id, properties): (&str, &Value),
        submission: &Submission,
    ) {
        let queued = context.services.outbox.queued_message(&submission.queue_id());
        let mut object = submission.to_json(queued.as_ref(), context.services.clock.now());
        object.retain(|name, _| !["identityId", "emailId"].contains(&name.as_str()));
        self.created.push((creation_id.to_owned(), Ok(Value::Object(object))));
        // A repeated request may have created the message again. It is changed like the first one.
        let email = named_id(context, properties, "emailId");
        context.created_ids.insert(creation_id.to_owned(), submission.id());
        self.emails.push((format!("#{creation_id}"), email.clone()));
        self.emails.push((submission.id(), email));
    }

    /// Changes and destroys the messages of submissions that succeeded, with one implicit call of `Email/set`.
    fn change_emails(&self, context: &mut Context<'_>, call: &Call) {
        let email_of =
            |key: &String| self.emails.iter().find(|(known, _)| known == key).map(|(_, email)| email.clone());
        let update: Map<String, Value> =
            call.on_success_update.iter().filter_map(|(key, patch)| Some((email_of(key)?, patch.clone()))).collect();
        let destroy: Vec<String> = call.on_success_destroy.iter().filter_map(email_of).collect();
        email_set::run_implicitly(context, &call.set.account_id, update, destroy);
    }
}

/// The properties of a new submission.
struct NewSubmission {
    identity: String,
    email: String,
    thread: String,
    raw: Vec<u8>,
    envelope: SentEnvelope,
}

fn create(
    context: &mut Context<'_>,
    account: &Account,
    creation_id: &str,
    properties: &Value,
) -> Result<Submission, SetError> {
    let now = context.services.clock.now();
    // An object that is not valid is none that an earlier request can have created.
    if !is_settable(properties) {
        parse_new(context, account, properties)?;
    }
    let [identity, email] = ["identityId", "emailId"].map(|name| named_id(context, properties, name));
    // The envelope as the client has sent it: the time of a release is relative.
    let given = &properties["envelope"];
    let message = compared_message(context, account, properties, email)?;
    let request = format!("{creation_id}\0{identity}\0{message}\0{given}");
    let request = blake3::hash(request.as_bytes()).to_hex()[..32].to_owned();
    let _running = context.services.running_requests.begin(&account.info.id, &request);
    let all = {
        let snapshot = account.file.snapshot()?;
        context.wait_for(snapshot.ticket());
        Submission::all(snapshot.reading())?
    };
    let is_repeated = |earlier: &&Submission| {
        let is_alive = !earlier.is_canceled && !earlier.is_destroyed;
        is_alive && earlier.request == request && now.since(earlier.send_at) < REPEATED_REQUEST_TIME_MAX
    };
    if let Some(earlier) = all.iter().find(is_repeated) {
        return Ok(earlier.clone());
    }
    // The message of an earlier request may be destroyed by now, so it is looked for only here.
    let new = parse_new(context, account, properties)?;
    let NewSubmission { identity, email, thread, raw, envelope } = new;
    let expired = submission::expired(&all, now);
    if !expired.is_empty() {
        // They stay for somebody who may delete nothing.
        if let Err(error) = account.file.documents_delete(&expired) {
            tracing::debug!(target: "jmap", %error, "expired submissions stay");
        }
    }
    let mut unid = [0; 16];
    context.services.random.fill(&mut unid);
    let submission = Submission {
        note: NoteId(0),
        unid: Unid(unid),
        modseq: Modseq(0),
        created: Modseq(0),
        identity,
        email,
        thread,
        envelope: envelope.to_json(),
        send_at: envelope.release_at.unwrap_or(now),
        request,
        is_canceled: false,
        is_destroyed: false,
    };
    send(context, account, (&submission, envelope), raw)?;
    Ok(submission)
}

fn send(
    context: &mut Context<'_>,
    account: &Account,
    (submission, envelope): (&Submission, SentEnvelope),
    raw: Vec<u8>,
) -> Result<(), SetError> {
    if envelope.recipients.is_empty() {
        return Err(SetError::described("noRecipients", "the message has no recipients"));
    }
    if !envelope.malformed.is_empty() {
        let error = invalid_recipients(context, &envelope.recipients, envelope.malformed);
        return Err(SetError { description: Some("an address is not valid".to_owned()), ..error });
    }
    let recipients = envelope.recipients.clone();
    let request = SubmissionRequest {
        login: context.caller.login.clone(),
        peer: None,
        sender: envelope.sender,
        recipients: envelope.recipients,
        message: raw,
        request_id: String::new(),
    };
    let record = SubmissionRecord {
        mail_file: account.file.database().path(),
        change: RecordChange::New(submission.new_note()),
    };
    let recorded = RecordedSubmission { id: submission.queue_id(), release_at: envelope.release_at, record };
    let accepted = context.services.outbox.submit(request, recorded);
    let ticket = accepted.map_err(|refused| {
        refused_request::error_of(context, &refused, |refused| error_of_refused(context, &recipients, refused))
    })?;
    context.wait_for(ticket);
    Ok(())
}

/// Returns the id in a property of a new submission, or nothing.
fn named_id(context: &Context<'_>, properties: &Value, name: &str) -> String {
    properties[name].as_str().and_then(|id| context.resolve_id(id)).unwrap_or_default()
}

/// Returns what stands for the message when repetitions of a request are looked for: its identifier, or its Message-ID
/// if the request names it by the creation id of a request that is repeated, too.
fn compared_message(
    context: &mut Context<'_>,
    account: &Account,
    properties: &Value,
    email: String,
) -> MethodResult<String> {
    if !properties["emailId"].as_str().is_some_and(|id| id.starts_with('#')) {
        return Ok(email);
    }
    let view = context.view(account)?;
    let Some(row) = view.table.email(&email) else { return Ok(email) };
    let message = view.snapshot.message(row.note)?;
    let message_id = message.and_then(|message| message_id(message.header(), "Message-ID"));
    Ok(message_id.unwrap_or(email))
}

/// Returns `true` if an object has only properties that clients set.
fn is_settable(object: &Value) -> bool {
    object.as_object().is_some_and(|members| members.keys().all(|name| SETTABLE.contains(&name.as_str())))
}

/// Reads the properties of a new submission, and the message.
fn parse_new(context: &mut Context<'_>, account: &Account, object: &Value) -> Result<NewSubmission, SetError> {
    let Value::Object(properties) = object else { return Err(SetError::new("invalidProperties")) };
    let mut invalid = InvalidProperties::default();
    invalid.refuse(properties.keys().map(String::as_str).filter(|name| !SETTABLE.contains(name)), "it cannot be set");
    let wanted = ["identityId", "emailId"].map(|name| named_id(context, object, name));
    let view = context.view(account)?;
    let identities = IdentityList::load(context.services, context.caller, account, &view.snapshot);
    let identity = identities?.effective().into_iter().find(|one| one.id == wanted[0]);
    if identity.is_none() {
        invalid.refuse(["identityId"], "there is no such identity");
    }
    let [_, email] = wanted;
    let row = view.table.email(&email);
    if row.is_none() {
        invalid.refuse(["emailId"], "there is no such message");
    }
    invalid.finish()?;
    let (Some(identity), Some(row)) = (identity, row) else { return Err(SetError::new("serverFail")) };
    let raw = view.raw(row)?.ok_or_else(|| SetError::new("invalidEmail"))?;
    let thread = row.thread.to_string();
    drop(view);
    let now = context.services.clock.now();
    let envelope = match properties.get("envelope") {
        None | Some(Value::Null) => SentEnvelope::of_message(&raw, &identity.email),
        Some(envelope) => SentEnvelope::parse(envelope, now)?,
    };
    Ok(NewSubmission { identity: identity.id, email, thread, raw, envelope })
}

/// Changes a submission: withdraws its message. This is the only change of a submission. Returns it, and the properties
/// that have changed besides those that the client has set, or `null`.
fn update(
    context: &mut Context<'_>,
    account: &Account,
    id: &str,
    patch: &Value,
) -> Result<(Submission, Value), SetError> {
    let submission = find(context, account, id)?;
    let Value::Object(patch) = patch else { return Err(SetError::new("invalidPatch")) };
    let queued = context.services.outbox.queued_message(&submission.queue_id());
    let before = submission.to_json(queued.as_ref(), context.services.clock.now());
    let mut after = before.clone();
    Patch::parse(patch)?.apply(&mut after)?;
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(*value)).map(|(name, _)| name.as_str());
    let changed: Vec<&str> = changed.collect();
    let mut invalid = InvalidProperties::default();
    let fixed = changed.iter().copied().filter(|name| *name != "undoStatus");
    invalid.refuse(fixed, "only undoStatus can be changed");
    if changed.contains(&"undoStatus") && after.get("undoStatus").and_then(Value::as_str) != Some("canceled") {
        invalid.refuse(["undoStatus"], "undoStatus can only become canceled");
    }
    invalid.finish()?;
    if changed.is_empty() {
        return Ok((submission, Value::Null));
    }
    let canceled = Submission { is_canceled: true, ..submission };
    let record = SubmissionRecord {
        mail_file: account.file.database().path(),
        change: RecordChange::Items(canceled.note, canceled.items()),
    };
    let withdrawn = context.services.outbox.withdraw(&canceled.queue_id(), record)?;
    let ticket = withdrawn.ok_or_else(|| SetError::described("cannotUnsend", "the message was already sent"))?;
    context.wait_for(ticket);
    let mut changes = canceled.to_json(None, context.services.clock.now());
    changes.retain(|name, value| after.get(name) != Some(value));
    let changes = if changes.is_empty() { Value::Null } else { Value::Object(changes) };
    Ok((canceled, changes))
}

/// Marks a submission as destroyed. Its message is sent all the same.
fn destroy(context: &mut Context<'_>, account: &Account, id: &str) -> Result<Submission, SetError> {
    let submission = Submission { is_destroyed: true, ..find(context, account, id)? };
    let ticket = account.file.document_update(submission.note, &submission.items())?;
    context.wait_for(ticket);
    Ok(submission)
}

fn find(context: &mut Context<'_>, account: &Account, id: &str) -> Result<Submission, SetError> {
    let snapshot = account.file.snapshot()?;
    context.wait_for(snapshot.ticket());
    let found = Submission::find(snapshot.reading(), id)?;
    found.ok_or_else(|| SetError::new("notFound"))
}

/// Returns the error for a message that was refused, if it has one of its own (RFC 8621 §7.5).
fn error_of_refused(context: &Context<'_>, recipients: &[String], refused: &RefusedRequest) -> Option<SetError> {
    if let Some(recipient) = &refused.recipient {
        return Some(invalid_recipients(context, recipients, vec![recipient.clone()]));
    }
    let kind = match refused.refusal {
        Refusal::Sender(_) => "forbiddenMailFrom",
        Refusal::Author(_) => "forbiddenFrom",
        Refusal::AccountClosed | Refusal::GroupRate => "forbiddenToSend",
        Refusal::RecipientCount(_) => {
            let max = context.services.outbox.recipients_max();
            return Some(SetError::new("tooManyRecipients").with("maxRecipients", json!(max)));
        }
        Refusal::Malformed(_) | Refusal::Loop => "invalidEmail",
        _ => return None,
    };
    Some(SetError::new(kind))
}

/// Returns the error that names all recipients that are not valid: those that are known, and those that the outbox
/// refuses as well.
fn invalid_recipients(context: &Context<'_>, recipients: &[String], mut known: Vec<String>) -> SetError {
    let outbox = &context.services.outbox;
    let resolved = &recipients[..recipients.len().min(outbox.recipients_max())];
    for refused in outbox.refused_recipients(resolved) {
        if !known.contains(&refused) {
            known.push(refused);
        }
    }
    SetError::new("invalidRecipients").with("invalidRecipients", json!(known))
}
