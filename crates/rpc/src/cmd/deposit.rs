//! Submission of messages to the router on behalf of the caller.

use mail::submission::{AcceptedSubmission, Refusal, RefusedRequest, SubmissionRequest};
use proto::v1;
use tonic::Code;

use super::{CallContext, check_count};
use crate::error::{Error, Result};
use crate::service::CallOutcome;

/// Checks the envelope before the message arrives.
pub(crate) fn check(
    envelope: &v1::deposit_mail_request::Envelope,
    recipients_max: usize,
    message_bytes_max: u64,
) -> Result<()> {
    if envelope.recipients.is_empty() {
        return Err(Error::invalid("the message has no recipients"));
    }
    check_count(envelope.recipients.len(), "recipients of a message", recipients_max)?;
    if envelope.length_bytes > message_bytes_max {
        return Err(Error::Limit { what: "bytes of a message", max: message_bytes_max });
    }
    Ok(())
}

/// Submits a message.
pub(crate) fn deposit(
    context: &CallContext,
    envelope: v1::deposit_mail_request::Envelope,
    message: Vec<u8>,
) -> Result<CallOutcome<AcceptedSubmission>> {
    let person = context.person()?.ok_or_else(|| Error::State("servers must send mail through SMTP".to_owned()))?;
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
        Refusal::Malformed(_) | Refusal::Loop => ("invalid", Code::InvalidArgument),
        Refusal::InsufficientStorage | Refusal::Unavailable(_) => ("unavailable", Code::Unavailable),
    };
    let text = match recipient {
        Some(address) => format!("{address}: {refusal}"),
        None => refusal.to_string(),
    };
    Error::Mail { reason, code, text }
}
