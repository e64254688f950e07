//! The state of one connection, and the effect of its commands. Pure: no sockets, no tokio, no clock of its own.
//!
//! A [`Session`] takes commands one after the other, writes the output for the client, and returns an
//! [`ConnectionAction`] that states the connection's next action. Long responses are produced in slices. After each
//! slice the connection sends the output, waits until the client has received it, and calls [`Session::resume`] on any
//! free worker. A slow client therefore occupies neither memory nor a worker. No snapshot of the store lives longer
//! than a slice.
//!
//! Before any output is sent, the future from [`Session::take_durability_wait`] must be ready, because a client must
//! not learn of a change that a power failure can undo.
//!
//! - [`session_context`] holds the data that all sessions share, [`recent`] tracks recent messages.
//! - [`sequence_numbers`] maps the client's sequence numbers to messages, [`selected`] is the selected mailbox and
//!   resolves message sets, [`cursor`] visits messages in slices, [`updates`] reports the changes that other sessions
//!   made, [`notify_watch`] reports events without a request (NOTIFY), [`event_groups`] selects them.
//! - [`hierarchy`] is the tree of mailboxes as LIST shows it, [`list_walk`] finds the names in it that match patterns
//!   ([`mailbox_pattern`]), [`list_response`] and [`fetch_response`] write responses that reports contain, too.
//! - `debug_events` reports commands and changes of state to the log.

pub mod cursor;
mod debug_events;
pub mod event_groups;
pub mod fetch_response;
pub mod hierarchy;
pub mod list_response;
pub mod list_walk;
pub mod mailbox_pattern;
pub mod notify_watch;
pub mod recent;
pub mod reply;
pub mod selected;
pub mod sequence_numbers;
pub mod session_context;
mod slice_timer;
pub mod updates;

use std::sync::Arc;

use base::UidSet;
use base::memory::MemoryBudget;
use event_listener::EventListener;
use mail::mailbox::MailFile;
use sasl::{ChannelBinding, Exchange, LoginProtocol};
use store::Ticket;
use wire::{JobLabel, JobOwner, Peer};

use crate::cmd::{authenticate, login};
use crate::codec::command::CommandBody;
use crate::codec::{
    CommandDecoder, PermittedState, RefusedCommand, ResponseStatus, ResponseWriter, SyntaxMode, TextEncoding, Verb,
};
use crate::error::{Error, Result};
use crate::limits;

pub use reply::{CommandOutcome, SlicedCommand, TaggedReply};
pub use selected::SelectedMailbox;
pub use session_context::{SessionContext, SessionOptions};
pub use slice_timer::SliceTimer;
pub use updates::PermittedUpdates;

use debug_events::CommandStart;

/// The connection's next action after a session has processed a command or a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionAction {
    /// Sends the output and passes the next command to the session.
    Ready,
    /// Sends the output and calls [`Session::resume`].
    Unfinished,
    /// Sends the output and passes the next line to [`Session::answer`].
    Line,
    /// Like `Line`, and also calls [`Session::resume`] whenever [`Session::listen`] wakes.
    Idle,
    /// Sends the output, discards unread input, and begins TLS.
    StartTls,
    /// Sends the output and begins compression.
    Compress,
    /// Sends the output and closes the connection.
    Close,
}

/// The extensions that the client has enabled (RFC 5161), by ENABLE or by using them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EnabledExtensions {
    /// CONDSTORE: mod-sequences are sent.
    pub condstore: bool,
    /// QRESYNC: VANISHED replaces EXPUNGE.
    pub qresync: bool,
    /// UTF8=ACCEPT.
    pub utf8: bool,
    /// IMAP4rev2.
    pub rev2: bool,
}

/// The user that has logged in.
pub struct Account {
    /// The login in its canonical spelling.
    pub login: Arc<str>,
    /// The mail file.
    pub file: Arc<MailFile>,
    /// `true` if JMAP takes the same password: an application password may be for IMAP alone.
    pub is_jmap_login: bool,
}

/// The state of one connection.
pub struct Session {
    pub(crate) context: Arc<SessionContext>,
    pub(crate) peer: Peer,
    /// The channel bindings of the TLS connection.
    channel_bindings: Vec<ChannelBinding>,
    pub(crate) account: Option<Account>,
    /// The login whose mail file is being opened.
    pub(crate) opening: Option<Arc<str>>,
    /// The budget for the memory of commands: the share of the account or, before the login, of the peer.
    pub(crate) memory: MemoryBudget,
    pub(crate) selected: Option<Box<SelectedMailbox>>,
    pub(crate) enabled: EnabledExtensions,
    /// The events that NOTIFY selected. `None` if the client has not used NOTIFY.
    pub(crate) watch: Option<Box<notify_watch::NotifyWatch>>,
    pub(crate) compressed: bool,
    /// Ticket that must be durable before the current output is sent.
    ticket: Ticket,
    /// The tag of the current command.
    pub(crate) tag: String,
    /// The verb of the current command.
    verb: &'static str,
    /// The beginning of the current command, for the log.
    command_start: Option<CommandStart>,
    /// Number of commands answered with BAD since the last success.
    errors: u32,
    /// Number of failed logins.
    pub(crate) login_failures: u32,
    /// Remaining work of the current command.
    pub(crate) task: Option<Task>,
    /// A fault of the server that the connection has not logged yet.
    fault: Option<String>,
}

/// The remaining work of a command.
pub(crate) enum Task {
    /// A command that produces its response in slices.
    Job(Box<dyn SlicedCommand>),
    /// The response is complete. The updates from other sessions and the tagged line remain.
    Finish(TaggedReply),
    Sasl(Exchange),
    Idle,
}

impl Session {
    /// Creates the session of a new connection.
    #[must_use]
    pub fn new(context: Arc<SessionContext>, peer: Peer) -> Self {
        let memory = context.memory.share_of(&peer.memory_owner());
        Self::with_memory(context, peer, memory)
    }

    fn with_memory(context: Arc<SessionContext>, peer: Peer, memory: MemoryBudget) -> Self {
        Self {
            context,
            peer,
            channel_bindings: Vec::new(),
            account: None,
            opening: None,
            memory,
            selected: None,
            enabled: EnabledExtensions::default(),
            watch: None,
            compressed: false,
            ticket: Ticket::NONE,
            tag: String::new(),
            verb: "",
            command_start: None,
            errors: 0,
            login_failures: 0,
            task: None,
            fault: None,
        }
    }

    /// Returns the label of a job in the worker pool: the account or, before the login, the peer, and the command. If
    /// `command` is `None`, the job continues the current one.
    pub(crate) fn job_label(&self, command: Option<&'static str>) -> JobLabel {
        let login = self.account.as_ref().map(|account| &account.login).or(self.opening.as_ref());
        let account = login.map(|login| JobOwner::Account(Arc::clone(login)));
        JobLabel::new(account.unwrap_or_else(|| self.peer.job_owner()), "imap", command.unwrap_or(self.verb))
    }

    /// Records the beginning of a command. Fails if the state of the session does not permit the command.
    pub(crate) fn begin_command(&mut self, verb: &'static Verb, tag: String, out: &mut ResponseWriter) -> Result<()> {
        out.set_encoding(self.encoding());
        self.tag = tag;
        self.verb = verb.name;
        self.command_start = Some(CommandStart::now(self));
        self.permit(verb)
    }

    /// Answers a command that the decoder refused.
    pub fn refuse(&mut self, refusal: &RefusedCommand, out: &mut ResponseWriter) -> ConnectionAction {
        let status = refusal.tag.as_ref().map_or(ResponseStatus::Bad, |_| refusal.error.status());
        if let Some(selected) =
            self.selected.as_deref_mut().filter(|_| refusal.requested_save && status == ResponseStatus::No)
        {
            selected.saved = UidSet::new();
        }
        self.log_refused(refusal);
        let text = refusal.error.to_string();
        let action = self.count_failure(status, out);
        match &refusal.tag {
            Some(tag) => out.tagged(tag, status, &text),
            None => out.untagged_status(status, &text),
        };
        action
    }

    /// Continues an unfinished command. Without one, reports changes to an idle client, or watched events to a client
    /// between commands.
    pub fn resume(&mut self, out: &mut ResponseWriter) -> ConnectionAction {
        match self.task.take() {
            None => self.push(out),
            Some(Task::Job(mut job)) => {
                let stepped = match self.catch_up() {
                    Ok(true) => job.step(self, out),
                    Ok(false) => Ok(None),
                    Err(error) => Err(error),
                };
                let next = match stepped {
                    Ok(None) => {
                        self.task = Some(Task::Job(job));
                        return ConnectionAction::Unfinished;
                    }
                    Ok(Some(reply)) => Ok(CommandOutcome::Reply(reply)),
                    Err(error) => Err(self.end_job(job.as_mut(), error, out)),
                };
                self.proceed(next, out)
            }
            Some(Task::Finish(reply)) => self.finish(reply, out),
            Some(Task::Sasl(exchange)) => {
                self.task = Some(Task::Sasl(exchange));
                ConnectionAction::Line
            }
            Some(Task::Idle) => self.idle(out),
        }
    }

    /// Returns a listener that wakes when there may be something to report to an idle client. It must be taken before
    /// [`Session::resume`] is called.
    #[must_use]
    pub fn listen(&self) -> Option<EventListener> {
        if self.selected.is_none() && !self.has_notify_groups() {
            return None;
        }
        Some(self.account.as_ref()?.file.listen())
    }

    /// Returns `true` if there is nothing to report to the client at present, so that a report needs no disk access.
    #[must_use]
    pub fn has_nothing_to_report(&self) -> bool {
        let Some(account) = &self.account else { return true };
        let modseq = account.file.database().modseq();
        self.selected.as_ref().is_none_or(|selected| selected.is_up_to_date(modseq)) && self.watched_is_reported(modseq)
    }

    /// Creates a session that replaces a lost one. It can only be used to end the connection.
    #[must_use]
    pub fn replacement(&self) -> Self {
        Self::with_memory(Arc::clone(&self.context), self.peer, self.memory.clone())
    }

    /// Returns a future that must be ready before the output written so far is sent, or `None` if the output can be
    /// sent at once.
    #[must_use]
    pub fn take_durability_wait(&mut self) -> Option<store::DurableFuture> {
        let ticket = std::mem::replace(&mut self.ticket, Ticket::NONE);
        let account = self.account.as_ref().filter(|_| ticket != Ticket::NONE)?;
        Some(account.file.durable(ticket))
    }

    /// Takes the text of a server fault that occurred since the last call, for the log.
    pub fn take_server_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    /// Returns `true` if the command may check a login, which may take the time of a password hash.
    #[must_use]
    pub fn checks_login(&self, verb: &Verb) -> bool {
        self.account.is_none() && verb.is_login()
    }

    /// Returns `true` if a command is a login whose password was verified recently, so that it takes no hash. May
    /// block.
    #[must_use]
    pub fn knows_login(&self, command: &CommandBody) -> bool {
        match command {
            CommandBody::Login { user, password } => login::is_known(self, user, password),
            CommandBody::Authenticate { mechanism, initial: Some(initial) } => {
                authenticate::is_known(self, mechanism, initial)
            }
            _ => false,
        }
    }

    /// Returns `true` if the next line belongs to a login, so that processing it may take the time of a password hash.
    #[must_use]
    pub fn is_authenticating(&self) -> bool {
        matches!(self.task, Some(Task::Sasl(_)))
    }

    /// Ends an exchange in progress because the server ends the connection. The exchange is withdrawn.
    pub fn withdraw_exchange(&mut self) {
        match self.task.take() {
            Some(Task::Sasl(exchange)) => exchange.withdraw(),
            task => self.task = task,
        }
    }

    /// Records that the connection is now encrypted, and its channel bindings.
    pub fn set_encrypted(&mut self, channel_bindings: Vec<ChannelBinding>) {
        self.peer = self.peer.encrypted();
        self.channel_bindings = channel_bindings;
    }

    /// Returns the mode in which the client's bytes are decoded.
    #[must_use]
    pub fn mode(&self) -> SyntaxMode {
        SyntaxMode {
            authenticated: self.account.is_some(),
            utf8: self.enabled.utf8 || self.enabled.rev2,
            charset_refused: self.enabled.utf8,
            append_bytes_max: self.context.options.append_bytes_max,
        }
    }

    /// Returns a decoder for the session's commands.
    #[must_use]
    pub fn decoder(&self) -> CommandDecoder {
        CommandDecoder::new(self.mode(), self.memory.clone())
    }

    /// Prepares the decoder for the next command, after a command that may have changed the state of the session.
    pub fn configure(&self, decoder: &mut CommandDecoder) {
        let mode = self.mode();
        if mode != decoder.mode() {
            decoder.set_mode(mode);
            decoder.set_memory(self.memory.clone());
        }
    }

    /// Returns the login, or `None` before login.
    #[must_use]
    pub fn login(&self) -> Option<&str> {
        self.account.as_ref().map(|account| &*account.login)
    }

    /// Returns the context of logins, with the mechanisms that the connection offers.
    pub(crate) fn login_context(&self) -> sasl::Context {
        self.peer.login_context(LoginProtocol::Imap, &self.context.options.mechanisms, &self.channel_bindings)
    }

    pub(crate) fn encoding(&self) -> TextEncoding {
        if self.mode().utf8 { TextEncoding::Utf8 } else { TextEncoding::Ascii }
    }

    /// Returns the mail file of the user that has logged in.
    pub(crate) fn file(&self) -> Result<Arc<MailFile>> {
        let account = self.account.as_ref().ok_or(Error::Bad("log in first"))?;
        Ok(Arc::clone(&account.file))
    }

    /// Returns the selected mailbox.
    pub(crate) fn selected(&mut self) -> Result<&mut SelectedMailbox> {
        self.selected.as_deref_mut().ok_or(Error::Bad("select a mailbox first"))
    }

    /// Returns the selected mailbox if it is writable.
    pub(crate) fn selected_writable(&mut self) -> Result<&mut SelectedMailbox> {
        let selected = self.selected()?;
        if selected.is_writable() {
            Ok(selected)
        } else {
            Err(Error::No("[READ-ONLY] the mailbox was opened read-only"))
        }
    }

    /// Delays the output until the ticket is durable.
    pub(crate) fn wait_for(&mut self, ticket: Ticket) {
        self.ticket = self.ticket.max(ticket);
    }

    fn permit(&self, verb: &Verb) -> Result<()> {
        match (verb.allowed, self.account.is_some(), self.selected.is_some()) {
            (PermittedState::BeforeLogin, true, _) => Err(Error::Bad("you are logged in already")),
            (PermittedState::AfterLogin | PermittedState::Selected, false, _) => Err(Error::Bad("log in first")),
            (PermittedState::Selected, true, false) => Err(Error::Bad("select a mailbox first")),
            _ => Ok(()),
        }
    }

    /// Continues a command after its first step: keeps the remaining work, or ends the command.
    pub(crate) fn proceed(&mut self, next: Result<CommandOutcome>, out: &mut ResponseWriter) -> ConnectionAction {
        let task = match next {
            Ok(CommandOutcome::Reply(reply)) => return self.finish(reply, out),
            Err(error @ (Error::ContentsGone | Error::MailboxGone)) => return self.end_with_error(&error, out),
            Err(error) => {
                self.record_fault(&error);
                return self.finish(TaggedReply::error(&error), out);
            }
            Ok(CommandOutcome::Job(job)) => Task::Job(job),
            Ok(CommandOutcome::NextJob(job)) => {
                self.task = Some(Task::Job(job));
                return ConnectionAction::Unfinished;
            }
            Ok(CommandOutcome::Sasl(exchange)) => Task::Sasl(exchange),
            Ok(CommandOutcome::Idle) => Task::Idle,
        };
        self.task = Some(task);
        if is_full(out) { ConnectionAction::Unfinished } else { self.resume(out) }
    }

    /// Reports the changes that other sessions made, as far as the reply allows, and ends the command.
    fn finish(&mut self, reply: TaggedReply, out: &mut ResponseWriter) -> ConnectionAction {
        match self.report(reply.updates, out) {
            Ok(updates::ReportProgress::All) => {
                self.report_highest_modseq(out);
                let action = self.count_failure(reply.status, out);
                out.text(&self.tag).space();
                reply.write(self.verb, out);
                let action = if action == ConnectionAction::Close { action } else { reply.action };
                self.log_completed(&reply, action);
                action
            }
            Ok(updates::ReportProgress::Partial) => {
                self.task = Some(Task::Finish(reply));
                ConnectionAction::Unfinished
            }
            Err(error) => self.end_with_error(&error, out),
        }
    }

    /// Counts commands answered with BAD; a success after login resets the count. Sends BYE if there are too many of
    /// them, or too many failed logins.
    fn count_failure(&mut self, status: ResponseStatus, out: &mut ResponseWriter) -> ConnectionAction {
        match status {
            ResponseStatus::Bad => self.errors = self.errors.saturating_add(1),
            ResponseStatus::Ok if self.account.is_some() => self.errors = 0,
            _ => {}
        }
        let options = &self.context.options;
        let reason = if self.errors >= options.errors_max {
            "too many errors"
        } else if self.account.is_none() && self.login_failures >= options.login_failures_max {
            "too many failed logins"
        } else {
            return ConnectionAction::Ready;
        };
        out.untagged_status(ResponseStatus::Bye, reason);
        ConnectionAction::Close
    }

    fn idle(&mut self, out: &mut ResponseWriter) -> ConnectionAction {
        let outcome =
            if self.reports_selected() { self.report(PermittedUpdates::All, out) } else { self.report_watched(out) };
        self.task = Some(Task::Idle);
        match outcome {
            Ok(updates::ReportProgress::All) => ConnectionAction::Idle,
            Ok(updates::ReportProgress::Partial) => ConnectionAction::Unfinished,
            Err(error) => self.end_with_error(&error, out),
        }
    }

    /// Ends the response of a job that has failed. Returns the error with which the command ends or, if a literal is
    /// unfinished, the error with which the connection ends.
    pub(crate) fn end_job(&mut self, job: &mut dyn SlicedCommand, error: Error, out: &mut ResponseWriter) -> Error {
        if job.end_early(self, out) {
            return error;
        }
        self.record_fault(&error);
        Error::ContentsGone
    }

    /// Records an error for the log if it is a fault of the server.
    pub(crate) fn record_fault(&mut self, error: &Error) {
        if error.is_server_fault() {
            self.fault = Some(error.to_string());
        }
    }

    /// Ends the connection because the selected mailbox can no longer be reported. Sends BYE unless a literal is
    /// unfinished.
    pub(crate) fn end_with_error(&mut self, error: &Error, out: &mut ResponseWriter) -> ConnectionAction {
        self.record_fault(error);
        self.log_ended(error);
        self.task = None;
        if matches!(error, Error::ContentsGone) {
            return ConnectionAction::Close;
        }
        out.untagged_status(ResponseStatus::Bye, error.reply().1);
        ConnectionAction::Close
    }
}

/// Returns `true` if a slice has produced enough output.
pub(crate) fn is_full(out: &ResponseWriter) -> bool {
    out.len() >= limits::SLICE_BYTES
}
