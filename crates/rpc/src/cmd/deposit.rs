//! Submission of messages to the router on behalf of the caller.

use mail::router::{Notify, Recipient, ReturnContent};
use mail::submission::{AcceptedSubmission, ForwardedMessage, Refusal, RefusedRequest, SubmissionRequest};
use proto::v1;
use sasl::LoginScope;
use tonic::Code;

use super::{CallContext, check_count};
use crate::error::{Error, Result};
use crate::service::CallOutcome;
use crate::session::SessionOwner;

/// An envelope of either kind.
pub(crate) enum AnyEnvelope {
    /// That of a person.
    Person(v1::deposit_mail_request::Envelope),
    /// That of another server, which forwards mail.
    Server(v1::ForwardedEnvelope),
}

impl AnyEnvelope {
    /// Returns the size of the message, or 0 if it is unknown.
    pub(crate) fn length_bytes(&self) -> u64 {
        match self {
            Self::Person(envelope) => envelope.length_bytes,
            Self::Server(envelope) => envelope.length_bytes,
        }
    }

    fn recipient_count(&self) -> usize {
        match self {
            Self::Person(envelope) => envelope.recipients.len(),
            Self::Server(envelope) => envelope.recipients.len(),
        }
    }
}

/// Checks the envelope before the message arrives.
pub(crate) fn check(envelope: &AnyEnvelope, recipients_max: usize, message_bytes_max: u64) -> Result<()> {
    if envelope.recipient_count() == 0 {
        return Err(Error::invalid("the message has no recipients"));
    }
    check_count(envelope.recipient_count(), "recipients of a message", recipients_max)?;
    if envelope.length_bytes() > message_bytes_max {
        return Err(Error::Limit { what: "bytes of a message", max: message_bytes_max });
    }
    Ok(())
}

/// Submits a message.
pub(crate) fn deposit(
    context: &CallContext,
    envelope: AnyEnvelope,
    message: Vec<u8>,
) -> Result<CallOutcome<AcceptedSubmission>> {
    let envelope = match envelope {
        AnyEnvelope::Person(envelope) => envelope,
        AnyEnvelope::Server(envelope) => return accept_forwarded(context, envelope, message),
    };
    let refused = || {
        Error::State(
            match context.caller.session().map(|session| &session.owner) {
                Ok(SessionOwner::LocalPerson(_)) => {
                    "mail cannot be sent from a local store; send it through the server"
                }
                _ => "servers forward mail with the envelope `forwarded`, or send it with SMTP",
            }
            .to_owned(),
        )
    };
    let person = context.person()?.ok_or_else(refused)?;
    if context.caller.session()?.scope != LoginScope::All {
        return Err(Error::State("an application password for reading cannot send mail".to_owned()));
    }
    let request = SubmissionRequest {
        login: person.name.canonical().to_owned(),
        peer: context.caller.peer.address,
        sender: envelope.sender,
        recipients: envelope.recipients,
        message,
        request_id: envelope.request_id,
    };
    Ok(CallOutcome::immediate(context.services.submissions.submit(request).map_err(submission_error)?))
}

/// Accepts a message that another server of the domain forwards. A server that only a foreign authority knows could
/// send in any name, so it must be registered.
fn accept_forwarded(
    context: &CallContext,
    envelope: v1::ForwardedEnvelope,
    message: Vec<u8>,
) -> Result<CallOutcome<AcceptedSubmission>> {
    let identity = context.identity()?;
    let directory = &context.services.directory;
    if !identity.server || directory.server(&identity.name)?.is_none() {
        let who = identity.name.abbreviated();
        return Err(notes::Error::ServerOnly { database: "the mail of other servers".to_owned(), who }.into());
    }
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let recipient = |recipient: v1::ForwardedRecipient| {
        let notify = recipient.notify.map(|bits| Notify {
            success: bits & 1 != 0,
            failure: bits & 2 != 0,
            delay: bits & 4 != 0,
        });
        (Recipient { address: recipient.address, notify, original: given(recipient.original) }, recipient.mail_file)
    };
    let forwarded = ForwardedMessage {
        server: identity.name.canonical().to_owned(),
        request_id: envelope.request_id,
        peer: context.caller.peer.address,
        reverse_path: envelope.reverse_path,
        recipients: envelope.recipients.into_iter().map(recipient).collect(),
        envelope_id: given(envelope.envelope_id),
        return_content: match envelope.return_content {
            1 => ReturnContent::Full,
            2 => ReturnContent::Headers,
            _ => ReturnContent::Unspecified,
        },
        smtputf8: envelope.smtputf8,
        message,
    };
    let accepted = context.services.submissions.accept_forwarded(forwarded);
    Ok(CallOutcome::immediate(accepted.map_err(|refusal| submission_error(refusal.into()))?))
}

/// Converts a refusal to an error of this crate.
pub(crate) fn submission_error(refused: RefusedRequest) -> Error {
    let RefusedRequest { recipient, refusal } = refused;
    let (reason, code) = match refusal {
        Refusal::Sender(_) | Refusal::Author(_) | Refusal::AccountClosed => ("sender", Code::PermissionDenied),
        Refusal::UnknownRecipient
        | Refusal::RecipientDisabled
        | Refusal::InvalidRecipient(_)
        | Refusal::Destination
        | Refusal::NotForMail(_) => ("recipient", Code::InvalidArgument),
        Refusal::TooLarge | Refusal::RecipientCount(_) => ("limit", Code::ResourceExhausted),
        Refusal::GroupRate => ("full", Code::ResourceExhausted),
        Refusal::MailboxFull => ("mailbox-full", Code::ResourceExhausted),
        Refusal::Malformed(_) | Refusal::Loop | Refusal::AlreadyNotified | Refusal::NotifiedMessageGone => {
            ("invalid", Code::InvalidArgument)
        }
        Refusal::InsufficientStorage | Refusal::Unavailable(_) => ("unavailable", Code::Unavailable),
    };
    let text = match recipient {
        Some(address) => format!("{address}: {refusal}"),
        None => refusal.to_string(),
    };
    Error::Mail { reason, code, text }
}
