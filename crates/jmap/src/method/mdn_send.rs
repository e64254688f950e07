//! MDN/send (RFC 9007 §2.1): sends message disposition notifications.
//!
//! A notification leaves the server only by this call, that is, with the consent of the person. The message that it is
//! about gets `$mdnsent` in the transaction that accepts the notification, so nobody is notified twice, and what
//! `onSuccessUpdateEmail` says follows in an implicit call of Email/set. A client must say there that `$mdnsent` is
//! set, as the RFC demands.
//!
//! The errors of RFC 9007 differ from those of other methods: an account or an identity that does not exist is
//! `invalidArguments`, and a message without a valid request for a notification is `notFound`.

use mail::disposition_notification::{
    NotificationReport, NotificationRequest, SendingMode, is_same_address, typed_address,
};
use mail::identities::{EffectiveIdentity, own_address};
use mail::mime::MimeSource as _;
use mail::submission::{NotifiedMessage, Refusal, RefusedRequest, SubmissionRequest};
use notes::AclLevel;
use serde_json::{Map, Value, json};

use super::{email_set, refused_request};
use crate::account::Account;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::disposition::NewDisposition;
use crate::email_write::add_outcomes;
use crate::error::{MethodError, MethodResult, SetError};
use crate::identities::IdentityList;
use crate::keyword;
use crate::patch::Patch;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let identity_id = arguments.required_text("identityId")?;
    let send = arguments.object("send")?.ok_or_else(|| email_set::not_an_object("send"))?;
    let on_success = arguments.object("onSuccessUpdateEmail")?.unwrap_or_default();
    arguments.finish()?;
    context.check_set_count(send.len())?;
    let account = open_account(context, &account_id)?;
    if account.is_read_only {
        return Err(MethodError::new("accountReadOnly"));
    }
    let sender = Sender::load(context, &account, &identity_id)?;
    let mut outcomes = Vec::with_capacity(send.len());
    let mut update = Map::new();
    for (creation_id, object) in &send {
        let patch = on_success.get(&format!("#{creation_id}"));
        let sent = check_patch(patch).and_then(|()| sender.send(context, &account, object));
        if let (Ok(sent), Some(patch)) = (&sent, patch) {
            update.insert(sent.email.clone(), patch.clone());
        }
        outcomes.push((creation_id, sent.map(|sent| Value::Object(sent.properties))));
    }
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    add_outcomes(&mut reply, ["sent", "notSent"], outcomes.into_iter());
    email_set::run_implicitly(context, &account_id, update, Vec::new());
    Ok(reply)
}

/// Opens an account. Returns `invalidArguments` if it does not exist.
pub(super) fn open_account(context: &Context<'_>, id: &str) -> MethodResult<Account> {
    context.account(id).map_err(|error| match error.kind {
        "accountNotFound" => MethodError::invalid_arguments("there is no such account"),
        _ => error,
    })
}

/// Checks that the message gets `$mdnsent` when the notification was sent.
fn check_patch(patch: Option<&Value>) -> Result<(), SetError> {
    let sets_keyword = |tokens: &[String], value: &Value| match tokens {
        [keywords] if keywords == "keywords" => value.get(keyword::MDN_SENT) == Some(&Value::Bool(true)),
        [keywords, name] if keywords == "keywords" => name == keyword::MDN_SENT && *value == Value::Bool(true),
        _ => false,
    };
    let patch = patch.and_then(Value::as_object).map(Patch::parse).transpose()?;
    match patch.filter(|patch| patch.entries().iter().any(|(tokens, value)| sets_keyword(tokens, value))) {
        Some(_) => Ok(()),
        None => Err(SetError::described("invalidProperties", "onSuccessUpdateEmail does not set keywords/$mdnsent")),
    }
}

/// The identity that sends notifications, and all addresses of the person.
struct Sender {
    identity: EffectiveIdentity,
    list: IdentityList,
}

/// A notification that was sent.
struct SentNotification {
    /// The message that it is about.
    email: String,
    /// The properties that the client has not set.
    properties: Map<String, Value>,
}

/// A message that asks for a notification.
struct NotifiableEmail {
    message: NotifiedMessage,
    request: NotificationRequest,
    /// The whole message, if the notification returns it.
    raw: Option<Vec<u8>>,
}

impl Sender {
    fn load(context: &mut Context<'_>, account: &Account, identity_id: &str) -> MethodResult<Self> {
        let unknown = || MethodError::invalid_arguments("there is no such identity");
        let id = context.resolve_id(identity_id).ok_or_else(unknown)?;
        let snapshot = account.file.snapshot()?;
        context.wait_for(snapshot.ticket());
        let list = IdentityList::load(context.services, context.caller, account, &snapshot)?;
        let identity = list.effective().into_iter().find(|identity| identity.id == id).ok_or_else(unknown)?;
        Ok(Self { identity, list })
    }

    fn send(&self, context: &mut Context<'_>, account: &Account, object: &Value) -> Result<SentNotification, SetError> {
        let new = NewDisposition::parse(object)?;
        if account.grant.level() < AclLevel::Editor {
            return Err(SetError::described("forbidden", "only an Editor of the mail file may send from it"));
        }
        let email = context.resolve_id(&new.email).ok_or_else(|| SetError::new("notFound"))?;
        let notifiable = NotifiableEmail::find(context, account, &email, new.includes_original == Some(true))?;
        // Without the person's consent to this one, the request must come from the sender of the message (RFC 8098
        // §2.1).
        if new.disposition.sending_mode == SendingMode::Automatic && !notifiable.request.matches_return_path() {
            let reason = "the notification goes to another address than Return-Path, so the person must agree to it";
            return Err(SetError::described("forbidden", reason));
        }
        let final_recipient = self.final_recipient(&new)?;
        let (message, properties) = self.write(context, &new, &notifiable, &final_recipient);
        let request = SubmissionRequest {
            login: context.caller.login.clone(),
            peer: None,
            sender: self.identity.email.clone(),
            recipients: notifiable.request.recipients,
            message,
            request_id: String::new(),
        };
        let sent = context.services.outbox.submit_notification(request, notifiable.message);
        let ticket = sent.map_err(|refused| refused_request::error_of(context, &refused, error_of_refused))?;
        context.wait_for(ticket);
        Ok(SentNotification { email, properties })
    }

    /// Returns the address that got the message: the client's choice among the addresses of the person, or that of the
    /// identity.
    fn final_recipient(&self, new: &NewDisposition) -> Result<String, SetError> {
        let Some(wanted) = &new.final_recipient else { return Ok(self.identity.email.clone()) };
        let is_own = is_same_address(wanted, &self.identity.email);
        let own = is_own.then(|| wanted.clone()).or_else(|| own_address(&self.list.directory, wanted));
        own.ok_or_else(|| SetError::described("forbiddenFrom", "finalRecipient is not an address of the person"))
    }

    /// Writes a notification. Returns it with the properties that the client has not set.
    fn write(
        &self,
        context: &Context<'_>,
        new: &NewDisposition,
        notifiable: &NotifiableEmail,
        recipient: &str,
    ) -> (Vec<u8>, Map<String, Value>) {
        let request = &notifiable.request;
        let kind = new.disposition.kind;
        let subject = new.subject.clone().unwrap_or_else(|| request.default_subject(kind));
        let text = new.text.clone().unwrap_or_else(|| request.default_text(kind, recipient));
        let final_recipient = typed_address(recipient);
        let mut random = [0; 16];
        context.services.random.fill(&mut random);
        let message_id = format!("{}@{}", base::hex::lower(&random), context.services.message_id_domain);
        let report = NotificationReport {
            from_name: &self.identity.settings.name,
            from_address: &self.identity.email,
            to: &request.recipients,
            subject: &subject,
            text: &text,
            disposition: new.disposition,
            reporting_ua: new.reporting_ua.as_deref(),
            final_recipient: &final_recipient,
            original_recipient: request.original_recipient.as_deref(),
            original_message_id: request.message_id.as_deref(),
            extension_fields: &new.extension_fields,
            original: notifiable.raw.as_deref(),
            message_id: &message_id,
            now: context.services.clock.now(),
        };
        let set_by_server = [
            ("subject", new.subject.is_none().then(|| json!(subject))),
            ("textBody", new.text.is_none().then(|| json!(text))),
            ("includeOriginalMessage", new.includes_original.is_none().then(|| json!(false))),
            ("finalRecipient", new.final_recipient.is_none().then(|| json!(final_recipient))),
            ("originalRecipient", request.original_recipient.as_ref().map(|address| json!(address))),
            ("originalMessageId", request.message_id.as_ref().map(|id| json!(id))),
        ];
        let properties = set_by_server.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        (report.render(), properties.collect())
    }
}

impl NotifiableEmail {
    /// Finds a message that asks for a notification which was not sent yet.
    fn find(context: &mut Context<'_>, account: &Account, id: &str, needs_raw: bool) -> Result<Self, SetError> {
        let view = context.view(account)?;
        let row = view.table.email(id).ok_or_else(absent)?;
        let names = keyword::names(row.marks, &row.keywords, view.snapshot.keywords());
        if names.iter().any(|name| name == keyword::MDN_SENT) {
            return Err(already_sent());
        }
        let message = view.snapshot.message(row.note)?.ok_or_else(absent)?;
        let unasked = || SetError::described("notFound", "the Email has no valid Disposition-Notification-To");
        let request = NotificationRequest::of_header(message.header()).ok_or_else(unasked)?;
        let raw = if needs_raw { view.raw(row)? } else { None };
        let message = NotifiedMessage { mail_file: account.file.database().path(), note: row.note };
        Ok(Self { message, request, raw })
    }
}

fn absent() -> SetError {
    SetError::described("notFound", "there is no such Email")
}

fn already_sent() -> SetError {
    SetError::described("mdnAlreadySent", "the keyword $mdnsent is set already")
}

/// Returns the error for a notification that was refused, if it has one of its own (RFC 9007 §2.1).
fn error_of_refused(RefusedRequest { recipient, refusal }: &RefusedRequest) -> Option<SetError> {
    let is_permanent = refusal.codes().0 >= 500;
    let kind = match refusal {
        Refusal::AlreadyNotified => return Some(already_sent()),
        Refusal::NotifiedMessageGone => return Some(absent()),
        _ if recipient.is_some() && is_permanent => "notFound",
        Refusal::Sender(_) | Refusal::Author(_) => "forbiddenFrom",
        Refusal::AccountClosed => "forbidden",
        Refusal::GroupRate => "rateLimit",
        Refusal::InsufficientStorage => "overQuota",
        _ => return None,
    };
    Some(SetError::new(kind))
}
