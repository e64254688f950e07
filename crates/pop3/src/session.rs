//! The state machine of one connection: lines in, actions out. Pure.
//!
//! RFC 1939 defines three states: before login (*authorization*), with the maildrop open (*transaction*), and the
//! removal of marked messages (*update*), which is a [`BackendRequest`] here. A SASL exchange is a separate state
//! within the first. The session never blocks. It returns requests as a [`ConnectionAction::CallBackend`], and the
//! response comes back through [`Session::handle_response`]. `debug_events` reports replies to the log.
//!
//! Invariants: messages are removed only by QUIT in the transaction state; passwords are accepted only if
//! [`Peer::is_private`] holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::memory::{Exhausted, MemoryOwner, MemoryPermit, MemoryShares};
use sasl::{ChannelBinding, Exchange, LoginError, LoginProtocol, Mechanism, encode_line};
use wire::{JobOwner, Peer};

use crate::backend_request::{BackendRequest, BackendResponse, Maildrop, MaildropMessage, MessagePiece};
use crate::cmd;
use crate::codec::{Command, LineError, LineKind};
use crate::limits::{ERRORS_MAX, LOGIN_FAILURES_MAX};

mod debug_events;

/// The next action of the connection.
pub enum ConnectionAction {
    /// Sends this reply.
    Reply(String),
    /// Sends this piece of a message, and then executes the request for the next one.
    Message(MessagePiece),
    /// Executes this request and returns the response to the session.
    CallBackend(BackendRequest),
    /// Sends this reply, discards the received data, and begins TLS.
    StartTls(String),
    /// Sends this reply and closes the connection.
    Close(String),
    /// Closes the connection within a message, so that the client does not take the piece that it received for the
    /// whole message.
    Abort,
}

/// Optional features that a session offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// STLS, as long as the connection is not encrypted.
    pub tls: bool,
    /// The mechanisms of AUTH, as far as the connection can offer them.
    pub mechanisms: Vec<Mechanism>,
}

/// The session of one connection.
pub struct Session {
    pub(crate) peer: Peer,
    /// The channel bindings of the TLS connection.
    channel_bindings: Vec<ChannelBinding>,
    pub(crate) hostname: String,
    pub(crate) offers: Features,
    pub(crate) state: State,
    /// The memory for messages, by account.
    memory: Arc<MemoryShares>,
    /// The SASL exchange that waits for the client's next line.
    exchange: Option<Exchange>,
    /// `true` if a part of a message has been sent.
    is_within_message: bool,
    /// The verb of the current command for the log. Empty if there is no command or its verb is unknown.
    verb: &'static str,
    failures: u32,
    errors: u32,
}

/// The state of a session.
pub(crate) enum State {
    /// Before login, with the name from USER.
    Authorization(Option<String>),
    /// After login.
    Transaction(OpenMaildrop),
}

/// The open maildrop and the messages that are marked in it.
pub(crate) struct OpenMaildrop {
    pub(crate) maildrop: Maildrop,
    /// Indexes of the messages to remove, counted from 0.
    pub(crate) deleted: BTreeSet<usize>,
}

impl Session {
    /// Creates a session.
    #[must_use]
    pub fn new(peer: Peer, hostname: &str, offers: Features, memory: Arc<MemoryShares>) -> Self {
        Self {
            peer,
            channel_bindings: Vec::new(),
            hostname: hostname.to_owned(),
            offers,
            state: State::Authorization(None),
            memory,
            exchange: None,
            is_within_message: false,
            verb: "",
            failures: 0,
            errors: 0,
        }
    }

    /// Returns the greeting.
    #[must_use]
    pub fn greeting(&self) -> String {
        ok(&format!("{} Doublet POP3 ready", self.hostname))
    }

    /// Returns the peer of the connection.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the kind of line that the session expects next.
    #[must_use]
    pub fn expected_line_kind(&self) -> LineKind {
        if self.exchange.is_some() { LineKind::Exchange } else { LineKind::Command }
    }

    /// Processes a line.
    pub fn process_line(&mut self, line: &str) -> ConnectionAction {
        if let Some(exchange) = self.exchange.take() {
            return cmd::auth::continue_exchange(self, exchange, line);
        }
        let command = Command::parse(line);
        self.verb = cmd::known_name(&command.verb);
        match cmd::find(&command.verb, &self.state) {
            Ok(run) => run(self, &command),
            Err(reason) => self.error(reason),
        }
    }

    /// Processes a line that the codec refused. Within an exchange it ends the exchange.
    ///
    /// A line that is too long also ends the connection, because the codec does not look for its end.
    pub fn process_line_error(&mut self, error: LineError) -> ConnectionAction {
        if self.exchange.is_none() {
            self.verb = "";
        }
        match (error, self.exchange.take()) {
            (LineError::TooLong, Some(exchange)) => match self.proceed(exchange.fail(LoginError::TooLong)) {
                ConnectionAction::Reply(text) => ConnectionAction::Close(text),
                action => action,
            },
            (LineError::TooLong, None) => ConnectionAction::Close(err("the line is too long")),
            (LineError::NotText, Some(exchange)) => self.proceed(exchange.fail(LoginError::NotBase64)),
            (LineError::NotText, None) => self.error("the line contains invalid characters"),
        }
    }

    /// Returns the owner of the session's jobs in the worker pool: the account or, before the login, the peer.
    #[must_use]
    pub fn job_owner(&self) -> JobOwner {
        match &self.state {
            State::Transaction(open) => JobOwner::Account(Arc::clone(&open.maildrop.login)),
            State::Authorization(_) => self.peer.job_owner(),
        }
    }

    /// Processes the response to a request.
    pub fn handle_response(&mut self, response: BackendResponse) -> ConnectionAction {
        match response {
            BackendResponse::Opened(maildrop) => self.enter_transaction(maildrop),
            BackendResponse::Refused(error) => self.refuse_login(error),
            BackendResponse::Exchange(step) => self.proceed(step),
            BackendResponse::Message(piece) => {
                self.is_within_message = piece.rest.is_some();
                ConnectionAction::Message(piece)
            }
            BackendResponse::Vanished if self.is_within_message => ConnectionAction::Abort,
            BackendResponse::Vanished => ConnectionAction::Reply(err("this message no longer exists")),
            BackendResponse::Partial(rest) => ConnectionAction::CallBackend(rest),
            BackendResponse::Removed => ConnectionAction::Close(ok("bye")),
            BackendResponse::Failed(text) => {
                tracing::error!(target: "pop3", peer = %self.peer, error = text, "the mail file failed");
                if self.is_within_message {
                    return ConnectionAction::Abort;
                }
                ConnectionAction::Close(err("[SYS/TEMP] internal error, try again later"))
            }
        }
    }

    /// Returns the reply that announces the server's shutdown, and withdraws an exchange in progress.
    #[must_use]
    pub fn shutdown_reply(&mut self) -> String {
        if let Some(exchange) = self.exchange.take() {
            exchange.withdraw();
        }
        err("[SYS/TEMP] the server is shutting down, try again later")
    }

    /// Returns the reply for an account that has been disabled, removed or given another password, or whose groups have
    /// changed. It takes the place of the next reply. A client that has just sent a command takes it for the answer,
    /// which is correct, because no further command is executed.
    #[must_use]
    pub fn dismissal_reply(&self) -> String {
        err("[AUTH] the account or its groups were changed, log in again")
    }

    /// Resets the session after the TLS handshake, with the channel bindings of the connection.
    pub fn reset_after_tls(&mut self, channel_bindings: Vec<ChannelBinding>) {
        self.peer = self.peer.encrypted();
        self.channel_bindings = channel_bindings;
        self.offers.tls = false;
        self.state = State::Authorization(None);
    }

    /// Returns the context of logins, with the mechanisms that the connection offers.
    pub(crate) fn login_context(&self) -> sasl::Context {
        self.peer.login_context(LoginProtocol::Pop3, &self.offers.mechanisms, &self.channel_bindings)
    }

    /// Performs a step of a SASL exchange.
    pub(crate) fn proceed(&mut self, step: sasl::ExchangeStep) -> ConnectionAction {
        match step {
            sasl::ExchangeStep::Challenge { challenge, exchange } => {
                self.exchange = Some(exchange);
                ConnectionAction::Reply(format!("+ {}\r\n", encode_line(&challenge)))
            }
            sasl::ExchangeStep::Check(check) => ConnectionAction::CallBackend(BackendRequest::Check(check)),
            sasl::ExchangeStep::Done { login, .. } => ConnectionAction::CallBackend(BackendRequest::Open(login)),
            sasl::ExchangeStep::Failed(error) => self.refuse_login(error),
        }
    }

    /// Counts a failed login, and returns the error reply. After too many of them, the reply closes the connection.
    pub(crate) fn refuse_login(&mut self, error: LoginError) -> ConnectionAction {
        let text = cmd::auth::error_text(error);
        self.state = State::Authorization(None);
        self.peer.warn_of_channel_binding(LoginProtocol::Pop3, error);
        if !error.is_failed_attempt() {
            return self.error(text);
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures >= LOGIN_FAILURES_MAX {
            ConnectionAction::Close(err(text))
        } else {
            ConnectionAction::Reply(err(text))
        }
    }

    /// Counts a command that is refused, and returns the error reply. After too many of them, the reply closes the
    /// connection.
    pub(crate) fn error(&mut self, reason: &str) -> ConnectionAction {
        self.errors = self.errors.saturating_add(1);
        if self.errors >= ERRORS_MAX {
            ConnectionAction::Close(err("too many errors"))
        } else {
            ConnectionAction::Reply(err(reason))
        }
    }

    /// Takes memory for a message of this size from the share of an account. A message that is larger than the share
    /// takes all of it.
    pub(crate) fn acquire_memory(&self, login: Arc<str>, octets: u64) -> Result<MemoryPermit, Exhausted> {
        let share = self.memory.share_of(&MemoryOwner::Account(login));
        share.acquire(usize::try_from(octets).unwrap_or(usize::MAX).min(share.bytes_max()))
    }

    /// Returns the inbox. The table of verbs ensures that it is open for the commands that need it.
    pub(crate) fn inbox(&mut self) -> Option<&mut OpenMaildrop> {
        match &mut self.state {
            State::Transaction(inbox) => Some(inbox),
            State::Authorization(_) => None,
        }
    }

    fn enter_transaction(&mut self, maildrop: Maildrop) -> ConnectionAction {
        let inbox = OpenMaildrop { maildrop, deleted: BTreeSet::new() };
        let text = ok(&format!("{} messages ({} octets)", inbox.count(), inbox.octets()));
        self.state = State::Transaction(inbox);
        ConnectionAction::Reply(text)
    }
}

impl OpenMaildrop {
    /// Returns the number of messages that are not marked.
    pub(crate) fn count(&self) -> usize {
        self.maildrop.messages.len().saturating_sub(self.deleted.len())
    }

    /// Returns the total octets of the messages that are not marked.
    pub(crate) fn octets(&self) -> u64 {
        self.unmarked_messages().fold(0, |sum, (_, message)| sum.saturating_add(message.octets))
    }

    /// Returns the messages that are not marked, with their message numbers.
    pub(crate) fn unmarked_messages(&self) -> impl Iterator<Item = (usize, &MaildropMessage)> {
        let all = self.maildrop.messages.iter().enumerate();
        all.filter(|(index, _)| !self.deleted.contains(index))
            .map(|(index, message)| (index.saturating_add(1), message))
    }

    /// Returns the index and the message for a message number, or `None` if there is no such message or it is marked.
    pub(crate) fn find(&self, number: u32) -> Option<(usize, MaildropMessage)> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let message = self.maildrop.messages.get(index)?;
        (!self.deleted.contains(&index)).then_some((index, *message))
    }
}

/// Creates a positive reply.
pub(crate) fn ok(text: &str) -> String {
    format!("+OK {text}\r\n")
}

/// Creates a negative reply.
pub(crate) fn err(text: &str) -> String {
    format!("-ERR {text}\r\n")
}
