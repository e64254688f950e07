//! Submission of messages to the router on behalf of the caller.

use proto::v1;
use tonic::Code;

use super::{CallContext, check_count};
use crate::backend::{Accepted, Submission, SubmissionError};
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
    desk: &CallContext,
    envelope: v1::deposit_mail_request::Envelope,
    message: Vec<u8>,
) -> Result<CallOutcome<Accepted>> {
    let person = desk.person()?.ok_or_else(|| Error::State("servers must send mail through SMTP".to_owned()))?;
    let deposit = Submission {
        login: person.name.canonical().to_owned(),
        peer: desk.caller.peer,
        sender: envelope.sender,
        recipients: envelope.recipients,
        message,
    };
    Ok(CallOutcome::immediate(desk.ground.depositor.deposit(deposit).map_err(submission_error)?))
}

/// Converts a refusal to an error of this crate.
pub(crate) fn submission_error(error: SubmissionError) -> Error {
    let (reason, code, text) = match error {
        SubmissionError::Sender(text) => ("sender", Code::PermissionDenied, text),
        SubmissionError::Recipient(text) => ("recipient", Code::InvalidArgument, text),
        SubmissionError::TooLarge(text) => ("limit", Code::ResourceExhausted, text),
        SubmissionError::MailboxFull(text) => ("mailbox-full", Code::ResourceExhausted, text),
        SubmissionError::Invalid(text) => ("invalid", Code::InvalidArgument, text),
        SubmissionError::Unavailable(text) => ("unavailable", Code::Unavailable, text),
    };
    Error::Mail { reason, code, text }
}
