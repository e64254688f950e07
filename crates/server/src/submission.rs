//! Submission of mail over the native protocol, with the rules of SMTP submission.
//!
//! The same code as in SMTP submission performs the checks and repairs: the permitted sender addresses in the envelope
//! and in `From`, the validity of the recipients, line ends, hops, `Date`, `Message-ID` and `Bcc`. The message gets a
//! trace field that records how it arrived.

use std::sync::Arc;

use base::{Clock, Random};
use directory::Directory;
use rpc::backend::{Accepted, Submission, SubmissionError, SubmissionService};
use smtp::Refusal;
use smtp::backend::{Acceptor, Credentials, RecipientReply, Recipients};
use smtp::envelope::{Body, Envelope, Protocol, Recipient, RecipientLocation, Sender};
use smtp::limits::HOPS_MAX;
use smtp::submission::{CompletionContext, complete_message};
use smtp::trace::{address_literal, format_date};

use crate::core::Core;
use crate::logins::Logins;
use crate::smtp_backend::SmtpBackend;

/// Number of random bytes in a message identifier.
const ID_BYTES: usize = 9;

/// Accepts messages from users.
pub struct NativeSubmission {
    directory: Arc<Directory>,
    logins: Arc<Logins>,
    reception: Arc<SmtpBackend>,
    hostname: String,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    message_bytes_max: u64,
    recipients_max: usize,
}

impl NativeSubmission {
    /// Creates the service.
    #[must_use]
    pub fn new(core: &Core, logins: &Arc<Logins>, reception: &Arc<SmtpBackend>) -> Arc<Self> {
        let limits = &core.config.limits;
        Arc::new(Self {
            directory: Arc::clone(&core.directory),
            logins: Arc::clone(logins),
            reception: Arc::clone(reception),
            hostname: core.hostname.clone(),
            clock: Arc::clone(&core.clock),
            random: Arc::clone(&core.random),
            message_bytes_max: limits.message_size.0,
            recipients_max: usize::try_from(limits.recipients).unwrap_or(usize::MAX),
        })
    }

    /// Returns the envelope sender: the given address, or the caller's first address if none is given.
    fn sender(&self, deposit: &Submission) -> Result<String, SubmissionError> {
        let own = || {
            let person = self.directory.person(&deposit.login).map_err(|_| unavailable())?;
            let address = person.and_then(|person| person.address().map(ToString::to_string));
            address.ok_or_else(|| SubmissionError::Sender("you have no address to send from".to_owned()))
        };
        let address = if deposit.sender.is_empty() { own()? } else { deposit.sender.clone() };
        if self.logins.may_send_as(&deposit.login, &address) {
            return Ok(address);
        }
        Err(SubmissionError::Sender(format!("{address} is not one of your addresses")))
    }

    fn recipients(&self, sender: &Sender, addresses: &[String]) -> Result<Vec<Recipient>, SubmissionError> {
        let mut recipients: Vec<Recipient> = Vec::with_capacity(addresses.len());
        for address in addresses {
            let address = address.trim();
            if recipients.iter().any(|known| known.address == address) {
                continue;
            }
            let place = match self.reception.check(sender, address) {
                RecipientReply::Local => RecipientLocation::Local,
                RecipientReply::Remote => RecipientLocation::Remote,
                RecipientReply::OverQuota => {
                    return Err(SubmissionError::MailboxFull(format!("the mailbox of {address} is full")));
                }
                RecipientReply::Unavailable => return Err(unavailable()),
                other => return Err(SubmissionError::Recipient(recipient_error(address, other))),
            };
            recipients.push(Recipient { address: address.to_owned(), location: place, notify: None, original: None });
        }
        Ok(recipients)
    }

    /// Returns the message with a trace field, normalised line ends and the missing header fields.
    fn repaired_message(&self, deposit: &Submission, sender: &str, id: &str) -> Result<Vec<u8>, SubmissionError> {
        let text = smtp::codec::data::normalize_line_ends(&deposit.message);
        if smtp::header::hop_count(&text) > HOPS_MAX {
            return Err(SubmissionError::Invalid("too many hops, this message loops".to_owned()));
        }
        let now = self.clock.now();
        let from = address_literal(deposit.peer.ip());
        let trace = format!(
            "Received: from {from}\r\n\tby {} with DOUBLET id {id};\r\n\t{}\r\n",
            self.hostname,
            format_date(now)
        );
        let message = [trace.as_bytes(), &text].concat();
        let mending = CompletionContext { hostname: &self.hostname, id, reverse_path: sender, now };
        complete_message(message, trace.len(), &mending).map_err(|refusal| submission_error(&refusal))
    }

    fn id(&self) -> String {
        let mut bytes = [0; ID_BYTES];
        self.random.fill(&mut bytes);
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl SubmissionService for NativeSubmission {
    fn deposit(&self, deposit: Submission) -> Result<Accepted, SubmissionError> {
        if deposit.message.len() as u64 > self.message_bytes_max {
            return Err(SubmissionError::TooLarge("the message is too large".to_owned()));
        }
        self.reception.check_capacity(deposit.message.len() as u64).map_err(|refusal| submission_error(&refusal))?;
        let id = self.id();
        let reverse_path = self.sender(&deposit)?;
        let message = self.repaired_message(&deposit, &reverse_path, &id)?;
        let sender = Sender { peer: deposit.peer, login: Some(deposit.login.clone()), reverse_path };
        let recipients = self.recipients(&sender, &deposit.recipients)?;
        let is_ascii = message.is_ascii();
        let smtputf8 = recipients.iter().any(|recipient| !recipient.address.is_ascii());
        let envelope = Envelope {
            id: id.clone(),
            sender,
            recipients,
            envelope_id: None,
            ret: None,
            body: if is_ascii { Body::SevenBit } else { Body::EightBitMime },
            smtputf8,
            helo: address_literal(deposit.peer.ip()),
            protocol: Protocol::Esmtp,
            received: self.clock.now(),
        };
        let accepted = self.reception.accept(envelope, message).map_err(|refusal| submission_error(&refusal))?;
        let durable = async move { accepted.durable.await.map_err(|refusal| submission_error(&refusal)) };
        Ok(Accepted { id, durable: Box::pin(durable) })
    }

    fn message_bytes_max(&self) -> u64 {
        self.message_bytes_max
    }

    fn recipients_max(&self) -> usize {
        self.recipients_max
    }
}

fn recipient_error(address: &str, reply: RecipientReply) -> String {
    let text = reply.refusal().map_or_else(|| "not a valid recipient".into(), |refusal| refusal.text);
    format!("{address}: {text}")
}

/// Converts an SMTP refusal to an error of the native protocol.
fn submission_error(refusal: &Refusal) -> SubmissionError {
    let text = refusal.text.to_string();
    match (refusal.code, refusal.status.1) {
        (552, _) => SubmissionError::TooLarge(text),
        (452, 2) => SubmissionError::MailboxFull(text),
        (400..=499, _) => SubmissionError::Unavailable(text),
        (_, 7) => SubmissionError::Sender(text),
        _ => SubmissionError::Invalid(text),
    }
}

fn unavailable() -> SubmissionError {
    SubmissionError::Unavailable("the directory is not available, try again later".to_owned())
}
