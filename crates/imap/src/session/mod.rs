//! One connection's state and what its commands do. Pure: no sockets, no tokio, no clock of its own.
//!
//! A [`Session`] takes commands one after the other, writes what the client is to be told, and says with an [`Effect`] what
//! the connection does next. Long answers come in slices: after each one the connection sends what was written, waits for
//! the client to take it, and calls [`Session::resume`] on whatever worker is free, so that neither memory nor a worker is held
//! by a slow client. No snapshot of the store lives longer than a slice.
//!
//! Before anything that was written is sent, [`Session::take_durable`] must be ready: nobody may learn of what a power
//! failure can take back.
//!
//! * [`site`] is what all sessions share, [`recent`] the book of recent messages.
//! * [`roster`] knows which message the client means by a number, [`selected`] what is selected and how sets of messages
//!   resolve, [`walk`] how they are visited in slices, [`updates`] how the client learns what other sessions did, [`watch`] what it
//!   hears of without asking.
//! * [`hierarchy`] is the tree of mailboxes as LIST shows it, [`sasl`] the mechanisms of AUTHENTICATE.

pub mod hierarchy;
pub mod recent;
pub mod reply;
pub mod roster;
pub mod sasl;
pub mod selected;
pub mod site;
pub mod updates;
pub mod walk;
pub mod watch;

use std::sync::Arc;

use event_listener::EventListener;
use mail::mailbox::MailFile;
use store::Ticket;
use wire::Peer;

use crate::cmd;
use crate::codec::ast::Command;
use crate::codec::{Allowed, Encoding, Mode, Refusal, Status, Verb, Writer};
use crate::error::{Error, Result};
use crate::limits;

pub use reply::{Job, Next, Reply};
pub use selected::Selected;
pub use site::{Options, Site};
pub use updates::Updates;

use sasl::Sasl;

/// What the connection does after a session has taken a command or a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Sends what was written and brings the next command.
    Ready,
    /// Sends what was written and calls [`Session::resume`].
    Unfinished,
    /// Sends what was written and brings the next line to [`Session::answer`].
    Line,
    /// Like `Line`, and calls [`Session::resume`] whenever [`Session::listen`] wakes.
    Idle,
    /// Sends what was written, forgets unread input, and begins TLS.
    StartTls,
    /// Sends what was written and begins to compress.
    Compress,
    /// Sends what was written and closes.
    Close,
}

/// What the client has switched on (RFC 5161), by ENABLE or by using it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Enabled {
    /// CONDSTORE: mod-sequences are told.
    pub condstore: bool,
    /// QRESYNC: VANISHED instead of EXPUNGE.
    pub qresync: bool,
    /// UTF8=ACCEPT.
    pub utf8: bool,
    /// IMAP4rev2.
    pub rev2: bool,
}

/// Who has logged in.
pub struct Account {
    /// The login in its proper spelling.
    pub login: String,
    /// The mail file.
    pub file: Arc<MailFile>,
}

/// The state of one connection.
pub struct Session {
    pub(crate) site: Arc<Site>,
    pub(crate) peer: Peer,
    pub(crate) account: Option<Account>,
    pub(crate) selected: Option<Box<Selected>>,
    pub(crate) enabled: Enabled,
    /// What NOTIFY asked for, if it was ever said.
    pub(crate) watch: Option<Box<watch::Watch>>,
    pub(crate) compressed: bool,
    /// What must be durable before the present output leaves.
    ticket: Ticket,
    /// The tag of the present command.
    pub(crate) tag: String,
    /// The verb of the present command.
    verb: &'static str,
    /// How many commands in a row could not be.
    errors: u32,
    /// How many logins failed.
    pub(crate) login_failures: u32,
    /// What is left to do of the present command.
    task: Option<Task>,
    /// A fault of ours that the connection has not logged yet.
    fault: Option<String>,
}

enum Task {
    /// A command that makes its answer in slices.
    Job(Box<dyn Job>),
    /// The answer is made; what other sessions did, and the tagged line, remain.
    Finish(Reply),
    Sasl(Sasl),
    Idle,
}

impl Session {
    /// Begins a connection.
    #[must_use]
    pub fn new(site: Arc<Site>, peer: Peer) -> Self {
        Self {
            site,
            peer,
            account: None,
            selected: None,
            enabled: Enabled::default(),
            watch: None,
            compressed: false,
            ticket: Ticket::NONE,
            tag: String::new(),
            verb: "",
            errors: 0,
            login_failures: 0,
            task: None,
            fault: None,
        }
    }

    /// Writes the greeting.
    pub fn greet(&self, out: &mut Writer) {
        out.untagged().text("OK [");
        cmd::capability::write(self, out);
        out.text("] Doublet is ready").crlf();
    }

    /// Executes a command.
    pub fn execute(&mut self, verb: &'static Verb, command: Command, out: &mut Writer) -> Effect {
        out.set_encoding(self.encoding());
        self.tag = command.tag;
        self.verb = verb.name;
        let started = self.permit(verb).and_then(|()| cmd::start(self, command.body, out));
        self.proceed(started, out)
    }

    /// Answers a command that could not be understood.
    pub fn refuse(&mut self, refusal: &Refusal, out: &mut Writer) -> Effect {
        let status = refusal.tag.as_ref().map_or(Status::Bad, |_| refusal.error.status());
        if let Some(selected) = self.selected.as_deref_mut().filter(|_| refusal.was_to_save && status == Status::No) {
            selected.saved = Vec::new();
        }
        let text = refusal.error.to_string();
        let effect = self.bear_with(status, out);
        match &refusal.tag {
            Some(tag) => out.tagged(tag, status, &text),
            None => out.untagged_status(status, &text),
        };
        effect
    }

    /// Goes on with a command that was not finished, tells an idle client what has changed, or one between commands what it watches.
    pub fn resume(&mut self, out: &mut Writer) -> Effect {
        match self.task.take() {
            None => self.push(out),
            Some(Task::Job(mut job)) => {
                let next = match job.step(self, out) {
                    Ok(None) => {
                        self.task = Some(Task::Job(job));
                        return Effect::Unfinished;
                    }
                    Ok(Some(reply)) => Ok(Next::Reply(reply)),
                    Err(error) => Err(error),
                };
                self.proceed(next, out)
            }
            Some(Task::Finish(reply)) => self.finish(reply, out),
            Some(Task::Sasl(sasl)) => {
                self.task = Some(Task::Sasl(sasl));
                Effect::Line
            }
            Some(Task::Idle) => self.idle(out),
        }
    }

    /// Takes the line that the client sent after a continuation request.
    pub fn answer(&mut self, line: &[u8], out: &mut Writer) -> Effect {
        let next = match self.task.take() {
            None => return Effect::Ready,
            Some(Task::Sasl(sasl)) => cmd::authenticate::go_on(self, sasl, line, out),
            Some(Task::Idle) if line.eq_ignore_ascii_case(b"DONE") => Ok(Next::Reply(Reply::completed())),
            Some(Task::Idle) => Err(Error::Bad("expected DONE")),
            Some(Task::Job(_) | Task::Finish(_)) => Err(Error::Bad("no line was asked for")),
        };
        self.proceed(next, out)
    }

    /// Gives what wakes when an idle client may have to be told something. Take it before calling [`Session::resume`].
    #[must_use]
    pub fn listen(&self) -> Option<EventListener> {
        if self.selected.is_none() && !self.is_watching() {
            return None;
        }
        Some(self.account.as_ref()?.file.listen())
    }

    /// Whether there is nothing to tell the client at present, so that telling it needs no disk.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let Some(account) = &self.account else { return true };
        let modseq = account.file.database().modseq();
        self.selected.as_ref().is_none_or(|selected| selected.has_told(modseq)) && self.has_told_watched(modseq)
    }

    /// Makes a session in the place of one that was lost, which can only say good-bye.
    #[must_use]
    pub fn successor(&self) -> Self {
        Self::new(Arc::clone(&self.site), self.peer)
    }

    /// Gives what must be ready before the output written so far is sent; nothing when it already is.
    #[must_use]
    pub fn take_durable(&mut self) -> Option<store::Durable> {
        let ticket = std::mem::replace(&mut self.ticket, Ticket::NONE);
        let account = self.account.as_ref().filter(|_| ticket != Ticket::NONE)?;
        Some(account.file.durable(ticket))
    }

    /// Gives the text of a fault of ours that happened since the last call, for the log.
    pub fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    /// Tells the session that the connection is encrypted now.
    pub fn encrypted(&mut self) {
        self.peer = self.peer.encrypted();
    }

    /// Gives how the client's bytes are to be read.
    #[must_use]
    pub fn mode(&self) -> Mode {
        Mode {
            authenticated: self.account.is_some(),
            utf8: self.enabled.utf8 || self.enabled.rev2,
            charset_refused: self.enabled.utf8,
            append_bytes_max: self.site.options.append_bytes_max,
        }
    }

    /// Gives the login, once there is one.
    #[must_use]
    pub fn login(&self) -> Option<&str> {
        self.account.as_ref().map(|account| account.login.as_str())
    }

    pub(crate) fn encoding(&self) -> Encoding {
        if self.mode().utf8 { Encoding::Utf8 } else { Encoding::Ascii }
    }

    /// Gives the mail file of who has logged in.
    pub(crate) fn file(&self) -> Result<Arc<MailFile>> {
        let account = self.account.as_ref().ok_or(Error::Bad("log in first"))?;
        Ok(Arc::clone(&account.file))
    }

    /// Gives the selected mailbox.
    pub(crate) fn selected(&mut self) -> Result<&mut Selected> {
        self.selected.as_deref_mut().ok_or(Error::Bad("select a mailbox first"))
    }

    /// Gives the selected mailbox if it may be changed.
    pub(crate) fn selected_writable(&mut self) -> Result<&mut Selected> {
        let selected = self.selected()?;
        if selected.is_writable() {
            Ok(selected)
        } else {
            Err(Error::No("[READ-ONLY] the mailbox was opened read-only"))
        }
    }

    /// Makes the output wait for a ticket.
    pub(crate) fn wait_for(&mut self, ticket: Ticket) {
        self.ticket = self.ticket.max(ticket);
    }

    fn permit(&self, verb: &Verb) -> Result<()> {
        match (verb.allowed, self.account.is_some(), self.selected.is_some()) {
            (Allowed::BeforeLogin, true, _) => Err(Error::Bad("you have logged in already")),
            (Allowed::AfterLogin | Allowed::Selected, false, _) => Err(Error::Bad("log in first")),
            (Allowed::Selected, true, false) => Err(Error::Bad("select a mailbox first")),
            _ => Ok(()),
        }
    }

    fn proceed(&mut self, next: Result<Next>, out: &mut Writer) -> Effect {
        let task = match next {
            Ok(Next::Reply(reply)) => return self.finish(reply, out),
            Err(error @ (Error::ContentsGone | Error::MailboxGone)) => return self.part(&error, out),
            Err(error) => {
                if error.is_ours() {
                    self.fault = Some(error.to_string());
                }
                return self.finish(Reply::error(&error), out);
            }
            Ok(Next::Job(job)) => Task::Job(job),
            Ok(Next::Sasl(sasl)) => Task::Sasl(sasl),
            Ok(Next::Idle) => Task::Idle,
        };
        self.task = Some(task);
        if is_full(out) { Effect::Unfinished } else { self.resume(out) }
    }

    /// Tells what other sessions did, as far as the reply allows, and ends the command.
    fn finish(&mut self, reply: Reply, out: &mut Writer) -> Effect {
        match self.tell(reply.updates, out) {
            Ok(updates::Told::All) => {
                self.tell_settled(out);
                let effect = self.bear_with(reply.status, out);
                out.text(&self.tag).space();
                reply.write(self.verb, out);
                if effect == Effect::Close { effect } else { reply.effect }
            }
            Ok(updates::Told::Part) => {
                self.task = Some(Task::Finish(reply));
                Effect::Unfinished
            }
            Err(error) => self.part(&error, out),
        }
    }

    /// Counts commands that could not be, in a row, and says good-bye when there were too many of them or of failed logins.
    fn bear_with(&mut self, status: Status, out: &mut Writer) -> Effect {
        match status {
            Status::Bad => self.errors = self.errors.saturating_add(1),
            Status::Ok if self.account.is_some() => self.errors = 0,
            _ => {}
        }
        let options = &self.site.options;
        let why = if self.errors >= options.errors_max {
            "too many commands that cannot be"
        } else if self.account.is_none() && self.login_failures >= options.login_failures_max {
            "too many failed logins"
        } else {
            return Effect::Ready;
        };
        out.untagged_status(Status::Bye, why);
        Effect::Close
    }

    fn idle(&mut self, out: &mut Writer) -> Effect {
        let told = if self.hears_of_selected() {
            self.tell(Updates::All, out)
        } else {
            self.tell_watched(out).map(|()| updates::Told::All)
        };
        self.task = Some(Task::Idle);
        match told {
            Ok(updates::Told::All) => Effect::Idle,
            Ok(updates::Told::Part) => Effect::Unfinished,
            Err(error) => self.part(&error, out),
        }
    }

    /// Says good-bye because the selected mailbox cannot be told of any more.
    pub(crate) fn part(&mut self, error: &Error, out: &mut Writer) -> Effect {
        if error.is_ours() {
            self.fault = Some(error.to_string());
        }
        self.task = None;
        if matches!(error, Error::ContentsGone) {
            return Effect::Close;
        }
        out.untagged_status(Status::Bye, error.told().1);
        Effect::Close
    }
}

/// Whether a slice has made enough for now.
pub(crate) fn is_full(out: &Writer) -> bool {
    out.len() >= limits::SLICE_BYTES
}
