//! Submission: every message that a client or another server hands over takes this path, whatever the protocol.
//!
//! | step | function |
//! |---|---|
//! | sender: the user owns the reverse path | [`SubmissionService::check_sender`] |
//! | capacity of queue and disk | [`SubmissionService::check_capacity`] |
//! | each recipient is resolved, once | [`SubmissionService::resolve`], [`SubmissionService::resolve_cached`] |
//! | trace field | [`trace::received_field`] |
//! | size of the header, loops, line ends, missing fields | [`completion`] |
//! | forged authentication results | [`without_forged`] |
//! | author, signature, deposit | [`SubmissionService::accept`] |
//!
//! A protocol with a dialogue (SMTP) calls the steps one by one. A protocol whose request contains everything (the
//! native protocol) calls [`SubmissionService::submit`], which performs all of them. [`SubmissionService::accept`] ends
//! both ways. `docs/mail-flow.md` shows the sequence.
//!
//! Guarantees:
//!
//! - Nothing of a refused message is kept.
//! - A user sends only with own addresses, in the reverse path and in `From`, unless the policy permits any. The right
//!   to send is checked again when the message has arrived, because a session may outlive its account.
//! - An answer of the directory is used only while the directory is unchanged ([`resolution`]).
//!
//! This module does not log and has no counters: [`SubmissionHooks`] receives every outcome.

pub mod completion;
mod group_limit;
pub mod refusal;
mod request_log;
pub mod resolution;
pub mod trace;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use base::line_ends::normalize_line_ends;
use base::networks::Networks;
use base::special_addresses::is_permitted;
use base::{NoteId, Timestamp, address_literal, hex};
use directory::{Directory, Person};
use store::Ticket;

use crate::error::Error;
use crate::limits::{GROUP_TARGETS_PER_MESSAGE_MAX, HOPS_MAX, LISTED_MEMBERS_MAX};
use crate::mailbox::MailStore;
use crate::mime::address;
use crate::mime::authentication_results::without_forged;
use crate::mime::message_header::top_fields;
use crate::router::{
    AcceptOutcome, ArrivingMessage, DeliveryTarget, Envelope, QueueEntry, Recipient, RecordChange, ReturnContent,
    Router, SentCopy, SubmissionRecord,
};
use crate::submission::completion::{CompletionContext, check_header_size, check_hops, complete_message};
use crate::submission::group_limit::GroupLimit;
use crate::submission::request_log::{LoggedRequest, RequestLog, RequestResult};
use crate::submission::trace::{ReceivedField, received_field};

pub use refusal::Refusal;
pub use resolution::{DirectoryResolver, ResolvedAddress, ResolvedAddresses};
pub use trace::ReceivedProtocol;

/// Number of random bytes in the identifier of a message that has none from its protocol.
const ID_BYTES: usize = 9;

/// Maximum number of characters of an address from a message that a refusal repeats.
const SHOWN_ADDRESS_CHARACTERS_MAX: usize = 100;

/// The addresses with which users may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SenderPolicy {
    /// Only their own addresses.
    Own,
    /// Any address.
    Any,
}

/// Operator settings of submission.
#[derive(Clone, Debug)]
pub struct SubmissionOptions {
    /// The server's name, for the trace field and `Message-ID`.
    pub hostname: String,
    /// The addresses with which users may send.
    pub senders: SenderPolicy,
    /// Maximum size of a message in bytes.
    pub message_bytes_max: u64,
    /// Maximum number of recipients of a message.
    pub recipients_max: usize,
    /// The special-purpose addresses to which mail may be sent.
    pub special_networks: Networks,
}

/// The services around submission. The server signs, logs and counts; the tests record.
pub trait SubmissionHooks: Send + Sync {
    /// Signs a user's message that leaves this server. Returns it unchanged if it cannot be signed.
    fn sign(&self, message: Vec<u8>) -> Vec<u8>;

    /// Records an accepted message of `size_bytes` bytes.
    fn record_accepted(&self, origin: &Origin, envelope: &Envelope, size_bytes: usize, outcome: AcceptOutcome);

    /// Records that a complete message was refused.
    fn record_refused(&self, origin: &Origin, refusal: &Refusal);

    /// Reports a failure to the operator. The peer is told only that the operation failed.
    fn report_failure(&self, operation: &'static str, error: &(dyn std::error::Error + 'static));
}

/// The origin of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The protocol.
    pub protocol: ReceivedProtocol,
    /// The network address of the client, or `None` for a client on this machine without one.
    pub peer: Option<SocketAddr>,
    /// The canonical name of the authenticated user.
    pub login: Option<String>,
}

impl Origin {
    /// Returns the client's IP address, or the loopback address for a client without an address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.ip())
    }
}

/// A message with its trace field, ready to be accepted.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The origin of the message.
    pub origin: Origin,
    /// The envelope, with at least one recipient.
    pub envelope: Envelope,
    /// The directory's answers about the recipients of the envelope. A missing answer is looked up.
    pub resolved: ResolvedAddresses,
    /// The message.
    pub message: Vec<u8>,
}

/// A user's request to send a message, from a protocol without a dialogue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmissionRequest {
    /// The canonical name of the authenticated user.
    pub login: String,
    /// The network address of the client, or `None` for a client on this machine without one.
    pub peer: Option<SocketAddr>,
    /// The reverse path; empty for the user's first address.
    pub sender: String,
    /// The recipients' addresses.
    pub recipients: Vec<String>,
    /// The message as received.
    pub message: Vec<u8>,
    /// The client's identifier of the request, which must be unique for the user. If it is not empty, a repetition of
    /// the same request gets the result of the first one and is not carried out again.
    pub request_id: String,
}

/// A message that another server of the domain forwards, because this one has the mailboxes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardedMessage {
    /// The canonical name of the server.
    pub server: String,
    /// The server's identifier of the message. If it is not empty, a repetition is carried out only for recipients for
    /// whom the message was not accepted before.
    pub request_id: String,
    /// The network address of the server.
    pub peer: Option<SocketAddr>,
    /// The reverse path; empty for reports.
    pub reverse_path: String,
    /// The recipients, each with the path of the mail file.
    pub recipients: Vec<(Recipient, String)>,
    /// The identifier of the envelope for reports (RFC 3461).
    pub envelope_id: Option<String>,
    /// The part of the message that reports of failures return.
    pub return_content: ReturnContent,
    /// `true` if the sender has used SMTPUTF8.
    pub smtputf8: bool,
    /// The message, with the trace fields of the other server.
    pub message: Vec<u8>,
}

/// A submission about which the sender's mail file keeps a document.
#[derive(Clone, Debug)]
pub struct RecordedSubmission {
    /// The identifier of the message in the queue, unique on this server.
    pub id: String,
    /// The time before which nobody gets the message, and until which its sender may withdraw it (RFC 4865).
    pub release_at: Option<Timestamp>,
    /// The document, which is written in the same transaction.
    pub record: SubmissionRecord,
}

/// The copy of a submitted message that its sender keeps.
#[derive(Clone, Debug)]
pub struct SubmittedCopy {
    /// The path of the sender's mail file.
    pub mail_file: String,
    /// The copy. If the message is held, its UNID is the identifier of the message in the queue.
    pub copy: SentCopy,
    /// The time before which nobody gets the message, and until which its sender may withdraw it.
    pub release_at: Option<Timestamp>,
}

/// The message that a notification is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotifiedMessage {
    /// The path of the mail file with the message.
    pub mail_file: String,
    /// The note of the message.
    pub note: NoteId,
}

/// The kind of an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EnvelopeKind {
    /// That of any message: reports go to its sender.
    Message,
    /// That of a notification, to which nothing is sent in response.
    Notification,
}

/// A refused request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedRequest {
    /// The recipient that is the reason, if it is one.
    pub recipient: Option<String>,
    /// The reason.
    pub refusal: Refusal,
}

impl From<Refusal> for RefusedRequest {
    fn from(refusal: Refusal) -> Self {
        Self { recipient: None, refusal }
    }
}

/// An accepted message.
pub struct AcceptedSubmission {
    /// The server's identifier of the message.
    pub id: String,
    /// The ticket of the transaction.
    pub ticket: Ticket,
    /// Completes when the message is durable. The client gets its reply after that.
    pub durable: Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>,
}

/// Accepts messages from clients and from other servers.
pub struct SubmissionService {
    directory: Arc<Directory>,
    mail: Arc<MailStore>,
    router: Arc<Router>,
    hooks: Arc<dyn SubmissionHooks>,
    options: SubmissionOptions,
    /// The results of users' requests with an identifier.
    requests: RequestLog,
    /// The results of those of other servers, which users cannot push out.
    forwarded: RequestLog,
    group_limit: GroupLimit,
}

impl SubmissionService {
    /// Creates the service.
    #[must_use]
    pub fn new(
        directory: Arc<Directory>,
        mail: Arc<MailStore>,
        router: Arc<Router>,
        hooks: Arc<dyn SubmissionHooks>,
        options: SubmissionOptions,
    ) -> Arc<Self> {
        let [requests, forwarded] = [(); 2].map(|()| RequestLog::default());
        let group_limit = GroupLimit::default();
        Arc::new(Self { directory, mail, router, hooks, options, requests, forwarded, group_limit })
    }

    /// Returns the operator settings.
    #[must_use]
    pub fn options(&self) -> &SubmissionOptions {
        &self.options
    }

    /// Performs all steps for a user's request, unless the same request was accepted before.
    pub fn submit(&self, request: SubmissionRequest) -> Result<AcceptedSubmission, RefusedRequest> {
        self.submit_once(request, None)
    }

    /// Performs all steps for a user's request, and puts a copy into the mail file of the sender in the same
    /// transaction, unless the same request was accepted before. A message that is held can be withdrawn with its copy
    /// ([`RecordChange::Withdrawn`]).
    pub fn submit_with_copy(
        &self,
        request: SubmissionRequest,
        copy: SubmittedCopy,
    ) -> Result<AcceptedSubmission, RefusedRequest> {
        let SubmittedCopy { mail_file, copy, release_at } = copy;
        let id = copy.held.as_ref().map_or_else(|| self.new_id(), |held| held.unid.to_string());
        let record = SubmissionRecord { mail_file, change: RecordChange::SentCopy(copy) };
        self.submit_once(request, Some(RecordedSubmission { id, release_at, record }))
    }

    fn submit_once(
        &self,
        request: SubmissionRequest,
        recorded: Option<RecordedSubmission>,
    ) -> Result<AcceptedSubmission, RefusedRequest> {
        if request.request_id.is_empty() {
            return Ok(self.accepted_submission(self.carry_out(request, recorded)?));
        }
        let running = match self.requests.begin((&request).into())? {
            LoggedRequest::New(running) => running,
            LoggedRequest::Accepted(result) => return Ok(self.accepted_submission(result)),
        };
        let result = self.carry_out(request, recorded)?;
        running.record_result(result.clone());
        Ok(self.accepted_submission(result))
    }

    /// Performs all steps for a user's request, and writes a document about it in the same transaction. Returns the
    /// ticket that must be durable before the client receives a reply.
    pub fn submit_recorded(
        &self,
        request: SubmissionRequest,
        recorded: RecordedSubmission,
    ) -> Result<Ticket, RefusedRequest> {
        Ok(self.carry_out(request, Some(recorded))?.ticket)
    }

    /// Performs all steps for a user's notification about a message (RFC 8098), and marks that message in the same
    /// transaction. The sender of the request must be an address of the user, but the reverse path is `<>`, and no
    /// delivery reports are sent. Returns the ticket that must be durable before the client receives a reply.
    pub fn submit_notification(
        &self,
        request: SubmissionRequest,
        about: NotifiedMessage,
    ) -> Result<Ticket, RefusedRequest> {
        let NotifiedMessage { mail_file, note } = about;
        let record = SubmissionRecord { mail_file, change: RecordChange::Notified(note) };
        let recorded = RecordedSubmission { id: self.new_id(), release_at: None, record };
        Ok(self.carry_out_as(request, Some(recorded), EnvelopeKind::Notification)?.ticket)
    }

    /// Removes a message that is held for its sender from the queue ([`Router::withdraw`]).
    pub fn withdraw(&self, id: &str, record: SubmissionRecord) -> crate::Result<Option<Ticket>> {
        self.router.withdraw(id, record)
    }

    /// Returns the queued message with an identifier.
    #[must_use]
    pub fn queued_message(&self, id: &str) -> Option<QueueEntry> {
        self.router.message_with_id(id)
    }

    /// Accepts a message that another server of the domain forwards, for the recipients for whom the same request was
    /// not accepted before. Each recipient is the person who has the mail file, so groups are not expanded again. A
    /// mail file that nobody has any more is reported to the sender. The address of the recipient is not looked up: it
    /// may be that of a group, or lead to another domain.
    pub fn accept_forwarded(&self, mut forwarded: ForwardedMessage) -> Result<AcceptedSubmission, Refusal> {
        if forwarded.request_id.is_empty() {
            return Ok(self.accepted_submission(self.carry_out_forwarded(forwarded)?));
        }
        let requests = self.forwarded.begin_forwarded(&mut forwarded)?;
        if let Some(result) = requests.known_result() {
            return Ok(self.accepted_submission(result));
        }
        let result = self.carry_out_forwarded(forwarded)?;
        Ok(self.accepted_submission(requests.record_result(result)))
    }

    fn carry_out(
        &self,
        request: SubmissionRequest,
        recorded: Option<RecordedSubmission>,
    ) -> Result<RequestResult, RefusedRequest> {
        self.carry_out_as(request, recorded, EnvelopeKind::Message)
    }

    fn carry_out_as(
        &self,
        request: SubmissionRequest,
        recorded: Option<RecordedSubmission>,
        kind: EnvelopeKind,
    ) -> Result<RequestResult, RefusedRequest> {
        let size_bytes = request.message.len() as u64;
        if size_bytes > self.options.message_bytes_max {
            return Err(Refusal::TooLarge.into());
        }
        self.check_capacity(size_bytes)?;
        let origin =
            Origin { protocol: ReceivedProtocol::Native, peer: request.peer, login: Some(request.login.clone()) };
        let reverse_path = self.sender_of(&request)?;
        let (recipients, resolved) = self.recipients_of(&request.recipients)?;
        let id = recorded.as_ref().map_or_else(|| self.new_id(), |recorded| recorded.id.clone());
        let mut envelope = Envelope { id, reverse_path, recipients, ..Envelope::default() };
        envelope.smtputf8 = envelope.recipients.iter().any(|recipient| !recipient.address.is_ascii());
        let message = self.prepare(&origin, &envelope, &request.message)?;
        envelope.eight_bit = !message.is_ascii();
        if kind == EnvelopeKind::Notification {
            envelope.become_notification();
        }
        Ok(self.accept_submission(Submission { origin, envelope, resolved, message }, recorded)?)
    }

    fn carry_out_forwarded(&self, forwarded: ForwardedMessage) -> Result<RequestResult, Refusal> {
        let ForwardedMessage { peer, reverse_path, envelope_id, return_content, smtputf8, message, .. } = forwarded;
        let size_bytes = message.len() as u64;
        if size_bytes > self.options.message_bytes_max {
            return Err(Refusal::TooLarge);
        }
        if forwarded.recipients.is_empty() {
            return Err(Refusal::RecipientCount("The message has no recipients"));
        }
        self.check_capacity(size_bytes)?;
        check_header_size(&message)?;
        check_hops(&message, HOPS_MAX)?;
        let mut resolved = ResolvedAddresses::default();
        let recipients = forwarded.recipients.into_iter().map(|(recipient, mail_file)| {
            let holder = self.directory.mail_file_holder(&mail_file);
            let holder = holder.map_err(|error| self.directory_failure(&error, "Cannot look up the recipient now"))?;
            let Some(address) = holder.and_then(|person| person.address().map(ToString::to_string)) else {
                resolved.push(ResolvedAddress::undeliverable(&recipient.address));
                return Ok(recipient);
            };
            resolved.push_unknown();
            let original = recipient.original.or_else(|| Some(format!("rfc822;{}", recipient.address)));
            Ok(Recipient { address, original, ..recipient })
        });
        let recipients = recipients.collect::<Result<_, Refusal>>()?;
        let origin = Origin { protocol: ReceivedProtocol::Native, peer, login: None };
        let id = self.new_id();
        let envelope =
            Envelope { id, reverse_path, recipients, envelope_id, return_content, smtputf8, ..Envelope::default() };
        let trace = self.trace_of(&origin, &envelope);
        let message = without_forged([trace.as_bytes(), &message].concat(), &self.options.hostname);
        let envelope = Envelope { eight_bit: !message.is_ascii(), ..envelope };
        self.accept_submission(Submission { origin, envelope, resolved, message }, None)
    }

    /// Checks whether there is capacity for a message of this size: queue, disk, log. A size of 0 means unknown. Does
    /// not block.
    pub fn check_capacity(&self, size_bytes: u64) -> Result<(), Refusal> {
        let store = self.mail.databases().store();
        let fits = store.committer().poison_reason().is_none() && store.engine().check_space(size_bytes).is_ok();
        if fits && self.router.has_capacity() { Ok(()) } else { Err(Refusal::InsufficientStorage) }
    }

    /// Checks whether a user may send with this reverse path. Every user may send with the empty one.
    pub fn check_sender(&self, login: &str, reverse_path: &str) -> Result<(), Refusal> {
        if reverse_path.is_empty() {
            return Ok(());
        }
        let person = self.account(login).map_err(|refusal| match refusal {
            Refusal::AccountClosed => Refusal::Sender(refusal.to_string()),
            other => other,
        })?;
        if person.mail_file.is_empty() {
            return Err(Refusal::Sender("You have no mailbox on this server".to_owned()));
        }
        if self.owns(&person, reverse_path)? {
            return Ok(());
        }
        Err(Refusal::Sender(format!("{} is not one of your addresses", printable(reverse_path))))
    }

    /// Resolves the address of a recipient. The answer belongs into the [`Submission`].
    pub fn resolve(&self, address: &str) -> Result<ResolvedAddress, Refusal> {
        let resolved = self.look_up(address)?;
        match resolved.targets().as_ref() {
            [DeliveryTarget::Local(mailbox)] if mailbox.quota_bytes.is_some() && self.is_full(&mailbox.mail_file) => {
                Err(Refusal::MailboxFull)
            }
            _ => Ok(resolved),
        }
    }

    /// Resolves as [`SubmissionService::resolve`] does, but returns `None` if the answer requires a read from the
    /// store: for groups, for mailboxes with a quota, and for addresses that the lookup cache lacks.
    #[must_use]
    pub fn resolve_cached(&self, address: &str) -> Option<Result<ResolvedAddress, Refusal>> {
        let generation = self.directory.generation();
        let answer = resolution::to_resolved_address(
            &self.directory,
            self.directory.resolve_cached(address)?,
            address,
            generation,
        );
        let answer = answer.and_then(|resolved| self.check_destination(resolved));
        let has_quota =
            |target: &DeliveryTarget| matches!(target, DeliveryTarget::Local(mailbox) if mailbox.quota_bytes.is_some());
        match answer {
            Ok(resolved) if resolved.targets().iter().any(has_quota) => None,
            answer => Some(answer),
        }
    }

    /// Returns `true` if mail for this domain is delivered here.
    pub fn is_local_domain(&self, domain: &str) -> Result<bool, Refusal> {
        let is_local = self.directory.domain_is_local(domain);
        is_local.map_err(|error| self.directory_failure(&error, "Cannot look up the sender now"))
    }

    /// Returns the members of a mailing list, the first [`LISTED_MEMBERS_MAX`] of them, or `None` if there is no such
    /// list. Groups that take no mail are not disclosed.
    #[must_use]
    pub fn list_members(&self, list: &str) -> Option<Vec<String>> {
        let group = self.directory.group(list).ok()??;
        group.kind.takes_mail().then(|| group.members.iter().take(LISTED_MEMBERS_MAX).cloned().collect())
    }

    /// Accepts a message in one transaction, or refuses it. Nothing of a refused message is kept.
    pub fn accept(&self, submission: Submission) -> Result<AcceptedSubmission, Refusal> {
        Ok(self.accepted_submission(self.accept_submission(submission, None)?))
    }

    fn accept_submission(
        &self,
        mut submission: Submission,
        recorded: Option<RecordedSubmission>,
    ) -> Result<RequestResult, Refusal> {
        let message = std::mem::take(&mut submission.message);
        let deposited = self.deposit(&submission, message, recorded);
        let Submission { origin, envelope, .. } = submission;
        let (size_bytes, outcome) = deposited.inspect_err(|refusal| self.hooks.record_refused(&origin, refusal))?;
        self.hooks.record_accepted(&origin, &envelope, size_bytes, outcome);
        Ok(RequestResult { id: envelope.id, ticket: outcome.ticket })
    }

    fn accepted_submission(&self, result: RequestResult) -> AcceptedSubmission {
        let durable = self.mail.databases().store().durable(result.ticket);
        let hooks = Arc::clone(&self.hooks);
        let durable = async move { durable.await.map_err(|error| report_failure(hooks.as_ref(), error.into())) };
        AcceptedSubmission { id: result.id, ticket: result.ticket, durable: Box::pin(durable) }
    }

    /// Checks the author, signs, and passes the message to the router. Returns the size of the deposited message.
    fn deposit(
        &self,
        submission: &Submission,
        message: Vec<u8>,
        recorded: Option<RecordedSubmission>,
    ) -> Result<(usize, AcceptOutcome), Refusal> {
        let Submission { origin, envelope, resolved, .. } = submission;
        if let Some(login) = &origin.login {
            self.check_author(login, &message)?;
        }
        let targets = self.targets(envelope, resolved)?;
        self.check_group_rate(origin, &targets)?;
        let is_ours = origin.login.is_some() && origin.protocol != ReceivedProtocol::Lmtp;
        let leaves =
            || targets.iter().flat_map(|targets| targets.iter()).any(|t| matches!(t, DeliveryTarget::Remote(_)));
        let message = if is_ours && leaves() { self.hooks.sign(message) } else { message };
        let (release_at, record) = recorded.map_or((None, None), |of| (of.release_at, Some(of.record)));
        let arriving = ArrivingMessage { envelope, targets: &targets, raw: &message, release_at, record };
        let outcome = self.router.accept_resolved(arriving);
        Ok((message.len(), outcome.map_err(|error| report_failure(self.hooks.as_ref(), error))?))
    }

    /// Refuses the message of a user who may no longer log in, and a message with a `From` address that is not the
    /// user's own. The first check is needed because a session ends some time after its account is disabled, and
    /// because the reverse path may be empty.
    fn check_author(&self, login: &str, message: &[u8]) -> Result<(), Refusal> {
        let person = self.account(login)?;
        if self.options.senders == SenderPolicy::Any {
            return Ok(());
        }
        for (_, field) in top_fields(message).filter(|(_, field)| field.is("From")) {
            for author in address::mailboxes(field.value).map(|author| author.address()) {
                if !self.owns(&person, &author)? {
                    return Err(Refusal::Author(printable(&author)));
                }
            }
        }
        Ok(())
    }

    /// Refuses the message of a sender who has caused too many deliveries to members of groups.
    fn check_group_rate(&self, origin: &Origin, targets: &[Arc<[DeliveryTarget]>]) -> Result<(), Refusal> {
        let members: usize = targets.iter().map(|targets| targets.len()).filter(|count| *count > 1).sum();
        let now = self.mail.databases().clock().monotonic();
        if self.group_limit.admit(origin, members, now) { Ok(()) } else { Err(Refusal::GroupRate) }
    }

    /// Returns the targets of all recipients. Answers from another generation of the directory are looked up again.
    fn targets(
        &self,
        envelope: &Envelope,
        resolved: &ResolvedAddresses,
    ) -> Result<Vec<Arc<[DeliveryTarget]>>, Refusal> {
        let generation = self.directory.generation();
        let targets = envelope.recipients.iter().enumerate().map(|(index, recipient)| {
            if let Some(answer) = resolved.get(index).filter(|answer| answer.is_from_generation(generation)) {
                return Ok(Arc::clone(answer.targets()));
            }
            match self.look_up(&recipient.address) {
                Ok(answer) => Ok(Arc::clone(answer.targets())),
                Err(Refusal::Unavailable(reason)) => Err(Refusal::Unavailable(reason)),
                Err(refusal) => Ok([DeliveryTarget::Undeliverable(refusal.reply_about(&recipient.address))].into()),
            }
        });
        targets.collect()
    }

    /// Returns the user's person if the user may log in.
    fn account(&self, login: &str) -> Result<Arc<Person>, Refusal> {
        let person = self.directory.active_person(login);
        let person = person.map_err(|error| self.directory_failure(&error, "Cannot look up the sender now"))?;
        person.ok_or(Refusal::AccountClosed)
    }

    /// Returns `true` if the policy permits a user to send with an address.
    fn owns(&self, person: &Person, address: &str) -> Result<bool, Refusal> {
        if self.options.senders == SenderPolicy::Any {
            return Ok(true);
        }
        let owned = self.directory.owns_address(person, address);
        owned.map_err(|error| self.directory_failure(&error, "Cannot look up the sender now"))
    }

    fn look_up(&self, address: &str) -> Result<ResolvedAddress, Refusal> {
        let generation = self.directory.generation();
        let resolution = self.directory.resolve(address);
        let failed = |error| self.directory_failure(&error, "Cannot look up the recipient now");
        let resolved =
            resolution::to_resolved_address(&self.directory, resolution.map_err(failed)?, address, generation)?;
        if resolved.group_targets() > GROUP_TARGETS_PER_MESSAGE_MAX {
            return Err(Refusal::NotForMail("The group has too many members".to_owned()));
        }
        self.check_destination(resolved)
    }

    /// Refuses an address whose domain is the literal of a special-purpose address, such as `[127.0.0.1]`. The names of
    /// other domains are resolved later, and the transfer checks their addresses.
    fn check_destination(&self, resolved: ResolvedAddress) -> Result<ResolvedAddress, Refusal> {
        let is_refused = |target: &DeliveryTarget| {
            let DeliveryTarget::Remote(address) = target else { return false };
            let literal = address.rsplit_once('@').and_then(|(_, domain)| address_literal::parse(domain));
            literal.is_some_and(|address| !is_permitted(address, &self.options.special_networks))
        };
        let is_refused = !resolved.is_local() && resolved.targets().iter().any(is_refused);
        if is_refused { Err(Refusal::Destination) } else { Ok(resolved) }
    }

    fn is_full(&self, mail_file: &str) -> bool {
        let quota = self.mail.open_as_server(mail_file).and_then(|file| file.quota());
        quota.is_ok_and(|quota| quota.limit_bytes.is_some_and(|limit| quota.used_bytes >= limit))
    }

    /// Returns the reverse path of a request, which the user may use.
    fn sender_of(&self, request: &SubmissionRequest) -> Result<String, Refusal> {
        let mut sender = request.sender.clone();
        if sender.is_empty() {
            let person = self.account(&request.login)?;
            let address = person.address().map(ToString::to_string);
            sender = address.ok_or_else(|| Refusal::Sender("You have no address to send from".to_owned()))?;
        }
        self.check_sender(&request.login, &sender)?;
        Ok(sender)
    }

    /// Returns the recipients of a request, each once, with the directory's answers.
    fn recipients_of(&self, addresses: &[String]) -> Result<(Vec<Recipient>, ResolvedAddresses), RefusedRequest> {
        if addresses.is_empty() {
            return Err(Refusal::RecipientCount("The message has no recipients").into());
        }
        if addresses.len() > self.options.recipients_max {
            return Err(Refusal::RecipientCount("Too many recipients").into());
        }
        let mut recipients: Vec<Recipient> = Vec::with_capacity(addresses.len());
        let mut resolved = ResolvedAddresses::default();
        for address in addresses.iter().map(|address| address.trim()) {
            if recipients.iter().any(|known| known.address == address) {
                continue;
            }
            let refused = |refusal| RefusedRequest { recipient: Some(address.to_owned()), refusal };
            let answer = self.resolve(address).map_err(refused)?;
            if !resolved.has_capacity_for(&answer) {
                return Err(refused(Refusal::RecipientCount("Too many members of groups")));
            }
            resolved.push(answer);
            recipients.push(Recipient::new(address));
        }
        Ok((recipients, resolved))
    }

    /// Returns the message of a request with a trace field, normalized line ends and the missing fields, and without
    /// forged authentication results.
    fn prepare(&self, origin: &Origin, envelope: &Envelope, message: &[u8]) -> Result<Vec<u8>, Refusal> {
        let text = normalize_line_ends(message);
        check_header_size(&text)?;
        check_hops(&text, HOPS_MAX)?;
        let now = self.mail.databases().clock().now();
        let trace = self.trace_of(origin, envelope);
        let context = CompletionContext {
            hostname: &self.options.hostname,
            id: &envelope.id,
            reverse_path: &envelope.reverse_path,
            now,
        };
        let message = complete_message([trace.as_bytes(), &text].concat(), trace.len(), &context)?;
        Ok(without_forged(message, &self.options.hostname))
    }

    /// Returns the trace field of a message that arrived over the native protocol.
    fn trace_of(&self, origin: &Origin, envelope: &Envelope) -> String {
        received_field(&ReceivedField {
            helo: None,
            address: origin.ip(),
            hostname: &self.options.hostname,
            protocol: origin.protocol,
            smtputf8: envelope.smtputf8,
            tls: true,
            authenticated: true,
            cipher: None,
            id: &envelope.id,
            recipient: None,
            received: self.mail.databases().clock().now(),
        })
    }

    fn new_id(&self) -> String {
        let mut bytes = [0; ID_BYTES];
        self.mail.databases().random().fill(&mut bytes);
        hex::lower(&bytes)
    }

    fn directory_failure(&self, error: &directory::Error, reply: &'static str) -> Refusal {
        self.hooks.report_failure("look up an address", error);
        Refusal::Unavailable(reply)
    }
}

/// Reports an error to the operator, who need not know of a second notification, or of one about a message that was
/// deleted meanwhile. Returns the refusal for the peer.
fn report_failure(hooks: &dyn SubmissionHooks, error: Error) -> Refusal {
    if !matches!(error, Error::AlreadyNotified | Error::NotifiedMessageGone) {
        hooks.report_failure("accept a message", &error);
    }
    Refusal::from(&error)
}

/// Returns the printable ASCII characters of an address from a message, for use in a reply.
fn printable(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_graphic()).take(SHOWN_ADDRESS_CHARACTERS_MAX).collect()
}
