//! A session as a state machine: bytes in, replies and requests out. It has no socket, reads the time only through its
//! clock parameter, and never waits.
//!
//! [`Session::step`] processes input until it needs more, or until it needs a response from the rest of the server
//! ([`BackendRequest`]), for example whether a recipient exists, a password is correct, or a message is accepted. The
//! caller passes the response to [`Session::handle_response`] and continues. Replies are collected in the caller's
//! buffer, so that the replies to a pipelined group are sent together. `debug_events` reports them to the log.
//!
//! Invariants:
//!
//! - At most one request is pending. While a request is pending, no input is processed.
//! - A transaction has a permitted sender and only accepted recipients.
//! - Data sent in the clear before STARTTLS has no effect afterwards: no name, login, transaction or input is kept.
//! - No input makes the session exceed its limits or panic (fuzzed).
//! - What a message takes in memory is counted in the share of the login or, without one, of the peer's network.

use std::sync::Arc;
use std::time::Duration;

use base::memory::{MemoryBudget, MemoryOwner, MemoryPermit, MemoryShares, MeteredBuffer};
use base::{Clock, Random};
use mail::router::Recipient;
use mail::submission::trace::{ReceivedField, received_field};
use mail::submission::{Origin, ReceivedProtocol, ResolvedAddress, Submission};
use sasl::{ChannelBinding, Check, Exchange};
use wire::{JobOwner, Peer, TransferProgress};

use crate::cmd::{self, CommandContext};
use crate::codec::data::{DataProgress, DataReader, ReceivedData};
use crate::codec::line::{BareLineEndPolicy, Line, first_line, split_verb};
use crate::codec::{path, reply};
use crate::error::{EnhancedStatus, NegativeReply};
use crate::limits::{
    AUTH_LINE_BYTES_MAX, COMMAND_LINE_BYTES_MAX, EXPECTED_BYTES_DEFAULT, OVERSIZE_BYTES_MAX, RECIPIENT_GRACE,
    REPLIES_BYTES_MAX, TRANSACTION_GRACE,
};
use crate::listener_rules::{ListenerRole, ListenerRules, PipeliningPolicy, StartTlsPolicy};

mod debug_events;
mod transaction;

use transaction::CompleteMessage;
pub(crate) use transaction::{Chunk, MailTransaction};

/// The next action of the caller.
#[derive(Debug)]
pub enum ConnectionAction {
    /// Send the replies, then provide more input.
    Read,
    /// Send the replies, then call [`Session::step`] again with the same input.
    Flush,
    /// Execute the request and pass the response to [`Session::handle_response`].
    CallBackend(BackendRequest),
    /// Send the replies, discard all input, perform the TLS handshake, and call [`Session::reset_after_tls`].
    StartTls,
    /// Send the replies and close the connection.
    Close,
}

/// A request to the rest of the server.
pub enum BackendRequest {
    /// Asks whether there is capacity for a message of this size, and whether the user, if any, may send with the
    /// reverse path. A size of 0 means unknown.
    Sender { login: Option<String>, reverse_path: String, size_bytes: u64 },
    /// Asks for the directory's answer about a recipient.
    Recipient { address: String },
    /// Asks for the members of a list.
    Members { list: String },
    /// Asks for the outcome of a check of a login.
    Login(Check),
    /// Asks whether a message is accepted. Its first `trace_bytes` bytes are this server's trace field. `helo` is the
    /// client's name from HELO, EHLO or LHLO. `memory` must be held for as long as the message is.
    Message { submission: Box<Submission>, helo: String, trace_bytes: usize, memory: MemoryPermit },
}

impl std::fmt::Debug for BackendRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sender { .. } => "Sender",
            Self::Recipient { .. } => "Recipient",
            Self::Members { .. } => "Members",
            Self::Login(_) => "Login",
            Self::Message { .. } => "Message",
        })
    }
}

/// The response to a [`BackendRequest`]. The variants have the same names.
pub enum BackendResponse {
    /// The permission of the sender.
    Sender(Result<(), NegativeReply>),
    /// The directory's answer about the recipient.
    Recipient(Result<ResolvedAddress, NegativeReply>),
    /// The members of the list, or `None` if it does not exist.
    Members(Option<Vec<String>>),
    /// The next step of the login.
    Login(sasl::ExchangeStep),
    /// The queue ID of the message, which is now durable, and the indexes of recipients for which it was refused.
    Message(Result<AcceptedMessage, NegativeReply>),
}

/// An accepted and durable message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcceptedMessage {
    /// The queue ID reported to the peer.
    pub id: String,
    /// The indexes of recipients that were refused after the message data (LMTP only).
    pub refused: Vec<(usize, NegativeReply)>,
}

/// The continuation of a session after a command.
#[derive(Debug)]
pub(crate) enum NextAction {
    /// The session continues with the next input.
    Continue,
    /// The session needs more input.
    Read,
    /// The session needs the response to a request.
    CallBackend(BackendRequest),
    /// The session continues with TLS.
    StartTls,
    /// The session ends.
    Close,
}

/// The meaning of the next bytes of the input.
pub(crate) enum Phase {
    /// A command line.
    Command,
    /// The rest of a line that is too long.
    SkipLine,
    /// A line of an authentication exchange.
    Auth(Exchange),
    /// Message data after DATA.
    Data(DataReader),
    /// A chunk after BDAT.
    Chunk(Chunk),
    /// No input is expected, because a request is pending.
    AwaitingResponse(PendingRequest),
    /// No input is expected, because the session has ended.
    Closed,
}

/// The subject of the pending request, as far as the response does not contain it.
pub(crate) enum PendingRequest {
    Sender,
    Recipient(Box<Recipient>),
    Verify(String),
    Members,
    Login,
    Message { recipients: usize },
}

/// The counters of a session. Those of commands, errors, failed logins and messages are limited.
#[derive(Debug, Default)]
pub(crate) struct SessionCounters {
    pub commands: u64,
    pub errors: u32,
    pub auth_failures: u32,
    pub messages: u64,
    /// Transactions that have begun.
    pub transactions: u64,
    /// Texts and chunks that have begun.
    pub bodies: u64,
}

/// A session. See the documentation of the module.
pub struct Session {
    pub(crate) rules: Arc<ListenerRules>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) peer: Peer,
    /// The channel bindings of the TLS connection.
    pub(crate) channel_bindings: Vec<ChannelBinding>,
    pub(crate) cipher: Option<&'static str>,
    pub(crate) helo: Option<(String, ReceivedProtocol)>,
    pub(crate) login: Option<String>,
    pub(crate) transaction: Option<MailTransaction>,
    pub(crate) phase: Phase,
    pub(crate) counts: SessionCounters,
    /// The memory for messages, by their senders.
    memory: Arc<MemoryShares>,
    /// The verb of the current command for the log. Empty if there is no command or its verb is unknown.
    verb: &'static str,
    /// A random number drawn once per session. Together with the number of a message it forms an identifier.
    serial: u64,
    /// Number of messages that have an identifier.
    numbered: u64,
}

impl Session {
    /// Creates a session. If `tls` is set in `peer`, the connection has implicit TLS.
    #[must_use]
    pub fn new(
        rules: Arc<ListenerRules>,
        clock: Arc<dyn Clock>,
        random: &dyn Random,
        peer: Peer,
        memory: Arc<MemoryShares>,
    ) -> Self {
        Self {
            rules,
            clock,
            peer,
            channel_bindings: Vec::new(),
            cipher: None,
            helo: None,
            login: None,
            transaction: None,
            phase: Phase::Command,
            counts: SessionCounters::default(),
            memory,
            verb: "",
            serial: random.next_u64() >> 16,
            numbered: 0,
        }
    }
    /// Returns the owner of the session's jobs in the worker pool: the account or, before the login, the peer.
    #[must_use]
    pub fn job_owner(&self) -> JobOwner {
        self.login.as_deref().map_or_else(|| self.peer.job_owner(), JobOwner::account)
    }

    /// Returns the budget for the memory of messages: the share of the account or, before the login, of the peer.
    pub(crate) fn memory_budget(&self) -> MemoryBudget {
        let owner = self.login.as_deref().map_or_else(|| self.peer.memory_owner(), MemoryOwner::account);
        self.memory.share_of(&owner)
    }

    /// Writes the greeting.
    pub fn greet(&self, out: &mut Vec<u8>) {
        let protocol = if self.rules.role == ListenerRole::Lmtp { "LMTP" } else { "ESMTP" };
        let start = out.len();
        reply::write_lines(out, 220, &[&format!("{} {protocol} Doublet", self.rules.hostname)]);
        self.log_replies(out, start);
    }

    /// Processes input and writes replies. Returns the number of bytes processed and the next action.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, ConnectionAction) {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let start = out.len();
            let (taken, flow) = self.process_input(rest, out);
            self.log_replies(out, start);
            used += taken;
            let action = match flow {
                NextAction::Continue if out.len() > REPLIES_BYTES_MAX => ConnectionAction::Flush,
                NextAction::Continue => continue,
                NextAction::Read => ConnectionAction::Read,
                NextAction::CallBackend(request) => ConnectionAction::CallBackend(request),
                NextAction::StartTls => ConnectionAction::StartTls,
                NextAction::Close => {
                    self.phase = Phase::Closed;
                    ConnectionAction::Close
                }
            };
            return (used, action);
        }
    }

    /// Processes the response to the pending request and writes the reply.
    pub fn handle_response(&mut self, response: BackendResponse, out: &mut Vec<u8>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Command);
        let Phase::AwaitingResponse(awaited) = phase else {
            base::always!(false, "a response needs a pending request");
            self.phase = phase;
            return;
        };
        let start = out.len();
        let flow = match (awaited, response) {
            (PendingRequest::Sender, BackendResponse::Sender(verdict)) => {
                cmd::mail::on_sender_result(self, verdict, out)
            }
            (PendingRequest::Recipient(recipient), BackendResponse::Recipient(verdict)) => {
                cmd::rcpt::on_recipient_result(self, *recipient, verdict, out)
            }
            (PendingRequest::Verify(address), BackendResponse::Recipient(verdict)) => {
                cmd::vrfy::on_verify_result(self, &address, verdict, out)
            }
            (PendingRequest::Members, BackendResponse::Members(members)) => {
                cmd::expn::on_members_result(self, members, out)
            }
            (PendingRequest::Login, BackendResponse::Login(step)) => cmd::auth::proceed(self, step, out),
            (PendingRequest::Message { recipients }, BackendResponse::Message(verdict)) => {
                self.on_message_result(recipients, verdict, out)
            }
            _ => {
                base::always!(false, "a response must match its request");
                self.refuse_with(out, &NegativeReply::temporary())
            }
        };
        self.log_replies(out, start);
        if matches!(flow, NextAction::Close) {
            self.phase = Phase::Closed;
        }
    }

    /// Resets the session after a TLS handshake, with the cipher suite and the channel bindings of the connection.
    pub fn reset_after_tls(&mut self, cipher: Option<&'static str>, channel_bindings: Vec<ChannelBinding>) {
        self.peer = self.peer.encrypted();
        self.channel_bindings = channel_bindings;
        self.cipher = cipher;
        self.helo = None;
        self.login = None;
        self.transaction = None;
        self.phase = Phase::Command;
    }

    /// Ends the session of a peer that sent data before the greeting.
    pub fn refuse_early_talker(&mut self, out: &mut Vec<u8>) {
        self.end_without_command(out, 521, EnhancedStatus(5, 5, 1), "Protocol error: you must wait for the greeting");
    }

    /// Ends a session that was silent for too long or lasted too long.
    pub fn time_out(&mut self, out: &mut Vec<u8>) {
        self.end_without_command(out, 421, EnhancedStatus(4, 4, 2), "Timeout, closing connection");
    }

    /// Ends the session because message data arrives too slowly.
    pub fn end_slow_transfer(&mut self, out: &mut Vec<u8>) {
        self.end_without_command(out, 421, EnhancedStatus(4, 4, 2), "Data arrives too slowly, closing connection");
    }

    /// Ends the session because the server is shutting down.
    pub fn shut_down(&mut self, out: &mut Vec<u8>) {
        self.end_without_command(out, 421, EnhancedStatus(4, 3, 2), "Service shutting down, try again later");
    }

    /// Ends the session because the authenticated account has changed.
    pub fn dismiss(&mut self, out: &mut Vec<u8>) {
        let text = "Account disabled, removed or given another password, closing connection";
        self.end_without_command(out, 421, EnhancedStatus(4, 7, 0), text);
    }

    /// Returns the progress of the text or chunk that is being received.
    #[must_use]
    pub fn body_progress(&self) -> Option<TransferProgress> {
        let received_bytes = match &self.phase {
            Phase::Data(reader) => reader.content().received(),
            Phase::Chunk(chunk) => chunk.size.saturating_sub(chunk.remaining),
            _ => return None,
        };
        Some(TransferProgress { number: self.counts.bodies, received_bytes })
    }

    /// Returns the progress of the transaction if it holds memory for a message.
    #[must_use]
    pub fn transaction_progress(&self) -> Option<TransferProgress> {
        let transaction = self.transaction.as_ref()?;
        let received_bytes = match (&self.phase, &transaction.chunks) {
            (Phase::Data(reader), _) => reader.content().received(),
            (_, Some(chunks)) => chunks.received(),
            _ if transaction.holds_announced_size() => 0,
            _ => return None,
        };
        Some(TransferProgress { number: self.counts.transactions, received_bytes })
    }

    /// Returns the time for which the transaction may hold memory for a message without receiving it.
    #[must_use]
    pub fn transaction_grace(&self) -> Duration {
        let recipients = self.transaction.as_ref().map_or(0, |transaction| transaction.recipients.len());
        let of_recipients = RECIPIENT_GRACE.saturating_mul(u32::try_from(recipients).unwrap_or(u32::MAX));
        TRANSACTION_GRACE.saturating_add(of_recipients)
    }

    /// Enters the phase of a text or a chunk.
    pub(crate) fn begin_body(&mut self, phase: Phase) {
        self.counts.bodies = self.counts.bodies.saturating_add(1);
        self.phase = phase;
    }

    /// Returns `true` if the session waits for a command and no transaction is in progress.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Command) && self.transaction.is_none()
    }

    /// Ends the session with a reply that answers no command.
    fn end_without_command(&mut self, out: &mut Vec<u8>, code: u16, status: EnhancedStatus, text: &str) {
        self.verb = "";
        let start = out.len();
        self.end(out, code, status, text);
        self.log_replies(out, start);
    }

    fn end(&mut self, out: &mut Vec<u8>, code: u16, status: EnhancedStatus, text: &str) {
        reply::write(out, code, status, text);
        self.transaction = None;
        self.phase = Phase::Closed;
    }

    fn process_input(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, NextAction) {
        match &mut self.phase {
            Phase::Closed => (0, NextAction::Close),
            Phase::AwaitingResponse(_) => {
                base::always!(false, "no step while a request is pending");
                (0, NextAction::Close)
            }
            _ if input.is_empty() => (0, NextAction::Read),
            Phase::Command => self.process_command_line(input, out),
            Phase::SkipLine => self.skip_line(input),
            Phase::Auth(_) => self.process_auth_line(input, out),
            Phase::Data(reader) => {
                let (taken, progress) = reader.push(input);
                let too_much =
                    reader.content().received() > OVERSIZE_BYTES_MAX.saturating_add(self.message_bytes_max());
                match progress {
                    DataProgress::End => (taken, self.end_data(out)),
                    DataProgress::More if too_much => (taken, self.close_oversize(out)),
                    DataProgress::More => (taken, NextAction::Read),
                }
            }
            Phase::Chunk(_) => cmd::bdat::take_chunk(self, input, out),
        }
    }

    fn process_command_line(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, NextAction) {
        self.verb = "";
        let (line, taken) = match first_line(input, AUTH_LINE_BYTES_MAX, self.rules.line_endings) {
            Line::Complete(line, taken) => (line, taken),
            Line::Incomplete => return (0, NextAction::Read),
            Line::BareLineEnd(taken) => return (taken, self.refuse_line_end(out)),
            Line::TooLong(taken) => {
                if input.get(..taken).and_then(<[u8]>::last) != Some(&b'\n') {
                    self.phase = Phase::SkipLine;
                }
                return (taken, self.refuse(out, 500, EnhancedStatus(5, 5, 2), "Line too long"));
            }
        };
        self.counts.commands = self.counts.commands.saturating_add(1);
        if self.counts.commands > self.rules.commands_max {
            self.end(out, 421, EnhancedStatus(4, 7, 0), "Too many commands, closing connection");
            return (taken, NextAction::Close);
        }
        let rest = input.get(taken..).unwrap_or_default();
        (taken, self.run_command(line, rest, out))
    }

    fn run_command(&mut self, line: &[u8], rest: &[u8], out: &mut Vec<u8>) -> NextAction {
        let Ok(line) = std::str::from_utf8(line) else {
            return self.refuse(out, 500, EnhancedStatus(5, 5, 2), "Syntax error: not UTF-8");
        };
        if line.contains('\0') {
            return self.refuse(out, 500, EnhancedStatus(5, 5, 2), "Syntax error: NUL");
        }
        let (name, arguments) = split_verb(line);
        let Some(verb) = cmd::find(name, self.rules.role) else {
            return self.refuse(out, 500, EnhancedStatus(5, 5, 1), "Command not recognized");
        };
        self.verb = verb.name;
        if line.len() + 2 > COMMAND_LINE_BYTES_MAX && !verb.long_line {
            return self.refuse(out, 500, EnhancedStatus(5, 5, 2), "Line too long");
        }
        if self.rules.encryption == StartTlsPolicy::Required && !self.peer.is_private() && !verb.allowed_in_clear {
            return self.refuse(out, 530, EnhancedStatus(5, 7, 0), "Must issue a STARTTLS command first");
        }
        if verb.ends_group && !rest.is_empty() && self.rules.pipelining == PipeliningPolicy::Strict {
            self.end(out, 554, EnhancedStatus(5, 5, 0), "Protocol error: wait for the reply before sending more");
            return NextAction::Close;
        }
        (verb.run)(self, &mut CommandContext { arguments, out })
    }

    fn skip_line(&mut self, input: &[u8]) -> (usize, NextAction) {
        match memchr::memchr(b'\n', input) {
            Some(end) => {
                self.phase = Phase::Command;
                (end + 1, NextAction::Continue)
            }
            None => (input.len(), NextAction::Read),
        }
    }

    fn process_auth_line(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, NextAction) {
        match first_line(input, AUTH_LINE_BYTES_MAX, self.rules.line_endings) {
            Line::Incomplete => (0, NextAction::Read),
            Line::Complete(line, taken) => {
                let phase = std::mem::replace(&mut self.phase, Phase::Command);
                let Phase::Auth(exchange) = phase else { return (taken, NextAction::Close) };
                (taken, cmd::auth::take_line(self, exchange, line, out))
            }
            Line::BareLineEnd(taken) => (taken, self.refuse_line_end(out)),
            Line::TooLong(taken) => {
                let ended = input.get(..taken).and_then(<[u8]>::last) == Some(&b'\n');
                let next = if ended { Phase::Command } else { Phase::SkipLine };
                let phase = std::mem::replace(&mut self.phase, next);
                let Phase::Auth(exchange) = phase else { return (taken, NextAction::Close) };
                (taken, cmd::auth::refuse_line(self, exchange, out))
            }
        }
    }

    /// Writes a refusal and counts it as a client error. Too many errors end the session.
    pub(crate) fn refuse(&mut self, out: &mut Vec<u8>, code: u16, status: EnhancedStatus, text: &str) -> NextAction {
        reply::write(out, code, status, text);
        self.counts.errors = self.counts.errors.saturating_add(1);
        if self.counts.errors >= self.rules.errors_max {
            self.end(out, 421, EnhancedStatus(4, 7, 0), "Too many errors, closing connection");
            return NextAction::Close;
        }
        NextAction::Continue
    }

    /// Refuses as [`Session::refuse`] does, with a [`NegativeReply`].
    pub(crate) fn refuse_with(&mut self, out: &mut Vec<u8>, refusal: &NegativeReply) -> NextAction {
        self.refuse(out, refusal.code, refusal.status, &refusal.text)
    }

    fn refuse_line_end(&mut self, out: &mut Vec<u8>) -> NextAction {
        if self.rules.line_endings == BareLineEndPolicy::Reject {
            self.end(out, 521, EnhancedStatus(5, 5, 2), "Bare CR or LF in a command, closing connection");
            return NextAction::Close;
        }
        self.phase = Phase::Command;
        self.refuse(out, 500, EnhancedStatus(5, 5, 2), "Bare CR in a command")
    }

    pub(crate) fn close_oversize(&mut self, out: &mut Vec<u8>) -> NextAction {
        self.end(out, 552, EnhancedStatus(5, 3, 4), "Message exceeds the size limit, closing connection");
        NextAction::Close
    }

    pub(crate) fn message_bytes_max(&self) -> u64 {
        u64::try_from(self.rules.message_bytes_max).unwrap_or(u64::MAX)
    }

    /// Returns an identifier for the next message.
    pub(crate) fn next_id(&mut self) -> String {
        self.numbered += 1;
        format!("{:012x}-{}", self.serial, self.numbered)
    }

    /// Creates the content of a message with its trace field, to which the message data is appended. Fails if there is
    /// no memory to begin with.
    pub(crate) fn open_content(&mut self) -> Result<ReceivedData, NegativeReply> {
        let received_at = self.clock.now();
        let id = self.next_id();
        let limit = self.rules.message_bytes_max;
        let begun = self.transaction.as_mut().and_then(|transaction| transaction.buffer.take());
        let buffer = begun.unwrap_or_else(|| MeteredBuffer::new(&self.memory_budget()));
        let transaction = self.transaction.as_mut().ok_or_else(NegativeReply::temporary)?;
        let (helo, protocol) = match &self.helo {
            Some((helo, protocol)) => (helo.as_str(), *protocol),
            None => ("", ReceivedProtocol::Smtp),
        };
        let only = match transaction.recipients.as_slice() {
            [recipient] => Some(recipient.address.as_str()),
            _ => None,
        };
        let is_name = path::is_domain_or_literal(helo);
        let trace = received_field(&ReceivedField {
            helo: Some(helo).filter(|_| is_name),
            address: self.peer.ip(),
            tls: self.peer.tls,
            hostname: &self.rules.hostname,
            protocol,
            smtputf8: transaction.parameters.smtputf8,
            authenticated: self.login.is_some(),
            cipher: self.cipher,
            id: &id,
            recipient: only,
            received: received_at,
        });
        transaction.id = id;
        transaction.received = received_at;
        let announced = transaction.parameters.size.and_then(|size| usize::try_from(size).ok());
        let expected = announced.unwrap_or(EXPECTED_BYTES_DEFAULT);
        Ok(ReceivedData::new(trace.as_bytes(), limit, expected, buffer)?)
    }

    fn end_data(&mut self, out: &mut Vec<u8>) -> NextAction {
        let phase = std::mem::replace(&mut self.phase, Phase::Command);
        let Phase::Data(reader) = phase else { return NextAction::Close };
        self.submit(reader.into_content(), out)
    }

    /// Checks a completely received message, and asks whether it is accepted.
    pub(crate) fn submit(&mut self, content: ReceivedData, out: &mut Vec<u8>) -> NextAction {
        let Some(transaction) = self.transaction.take() else { return NextAction::Close };
        let recipients = transaction.recipients.len();
        let protocol = self.helo.as_ref().map_or(ReceivedProtocol::Smtp, |(_, protocol)| *protocol);
        let origin = Origin { protocol, peer: self.peer.address, login: self.login.clone() };
        let bytes = usize::try_from(content.received()).unwrap_or(usize::MAX);
        match wire::run_long(bytes, || transaction.complete(&self.rules, origin, content)) {
            Ok(CompleteMessage { submission, trace_bytes, memory }) => {
                self.phase = Phase::AwaitingResponse(PendingRequest::Message { recipients });
                let helo = self.helo.as_ref().map_or_else(String::new, |(helo, _)| helo.clone());
                NextAction::CallBackend(BackendRequest::Message { submission, helo, trace_bytes, memory })
            }
            Err(refusal) => self.refuse_message(recipients, &refusal, out),
        }
    }

    fn on_message_result(
        &mut self,
        recipients: usize,
        verdict: Result<AcceptedMessage, NegativeReply>,
        out: &mut Vec<u8>,
    ) -> NextAction {
        let taken = match verdict {
            Ok(taken) => taken,
            Err(refusal) => return self.refuse_message(recipients, &refusal, out),
        };
        self.counts.messages = self.counts.messages.saturating_add(1);
        let text = format!("Ok: queued as {}", taken.id);
        if self.rules.role != ListenerRole::Lmtp {
            reply::write(out, 250, EnhancedStatus(2, 0, 0), &text);
            return NextAction::Continue;
        }
        for index in 0..recipients {
            match taken.refused.iter().find(|(refused, _)| *refused == index) {
                Some((_, refusal)) => reply::write_refusal(out, refusal),
                None => reply::write(out, 250, EnhancedStatus(2, 0, 0), &text),
            }
        }
        NextAction::Continue
    }

    /// Refuses a message with one reply, or with one per recipient in LMTP.
    fn refuse_message(&mut self, recipients: usize, refusal: &NegativeReply, out: &mut Vec<u8>) -> NextAction {
        if self.rules.role == ListenerRole::Lmtp {
            (1..recipients).for_each(|_| reply::write_refusal(out, refusal));
        }
        self.refuse_with(out, refusal)
    }

    /// Returns `true` if this session may send to a recipient with this answer of the directory.
    pub(crate) fn may_send_to(&self, resolved: &ResolvedAddress) -> bool {
        resolved.is_local() || (self.login.is_some() && self.rules.role != ListenerRole::Lmtp)
    }
}
