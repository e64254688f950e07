//! One connection's state machine: lines in, steps out. Pure.
//!
//! RFC 1939 knows three states: before login (*authorization*), with the maildrop open (*transaction*), and removing what was
//! marked (*update*), which is a [`Work`] here. A SASL exchange is a state of its own within the first. The session never blocks: what has
//! to be done is a [`Step::Work`] whose outcome comes back through [`Session::finish`].
//!
//! Invariants: messages are removed only by QUIT in the transaction state; passwords are taken only where [`Peer::is_private`] holds.

use std::collections::BTreeSet;

use data_encoding::BASE64;
use wire::Peer;

use crate::backend::{Exchange, LoginError};
use crate::cmd;
use crate::codec::{Awaited, Command, LineError, Outgoing};
use crate::limits::{ERRORS_MAX, LOGIN_FAILURES_MAX};
use crate::work::{Listed, Maildrop, Outcome, Work};

/// What to do next.
pub enum Step {
    /// Say this.
    Reply(String),
    /// Say this line and then the message.
    Message(String, Outgoing),
    /// Have this done and bring the outcome back.
    Work(Work),
    /// Say this, throw away what was received, and begin TLS.
    StartTls(String),
    /// Say this and close.
    Close(String),
}

/// What a session offers beside the commands that are always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers {
    /// STLS, as long as the connection is not encrypted.
    pub tls: bool,
    /// SCRAM-SHA-256.
    pub scram: bool,
}

/// One connection.
pub struct Session {
    pub(crate) peer: Peer,
    pub(crate) hostname: String,
    pub(crate) offers: Offers,
    pub(crate) state: State,
    pub(crate) exchange: Option<Pending>,
    failures: u32,
    errors: u32,
}

/// Where a session is.
pub(crate) enum State {
    /// Before login; with the name that USER gave.
    Authorization(Option<String>),
    /// After login.
    Transaction(Inbox),
}

/// The open maildrop and what is marked in it.
pub(crate) struct Inbox {
    pub(crate) maildrop: Maildrop,
    /// Numbers of messages to remove, counted from 0.
    pub(crate) deleted: BTreeSet<usize>,
}

/// What the next line of a SASL exchange is.
pub(crate) enum Pending {
    /// PLAIN: everything.
    Plain,
    /// LOGIN: the name.
    LoginName,
    /// LOGIN: the password of this name.
    LoginPassword(String),
    /// SCRAM: the next message.
    Scram(Box<dyn Exchange>),
    /// SCRAM: an empty line, after which this login is open.
    ScramEnd(String),
}

impl Session {
    /// Starts a session.
    #[must_use]
    pub fn new(peer: Peer, hostname: &str, offers: Offers) -> Self {
        let state = State::Authorization(None);
        Self { peer, hostname: hostname.to_owned(), offers, state, exchange: None, failures: 0, errors: 0 }
    }

    /// Gives the first line.
    #[must_use]
    pub fn greeting(&self) -> String {
        ok(&format!("{} Doublet POP3 ready", self.hostname))
    }

    /// Gives who is at the other end.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Tells what kind of line comes next.
    #[must_use]
    pub fn awaited(&self) -> Awaited {
        if self.exchange.is_some() { Awaited::Exchange } else { Awaited::Command }
    }

    /// Takes a line.
    pub fn line(&mut self, line: &str) -> Step {
        if let Some(pending) = self.exchange.take() {
            return cmd::auth::go_on(self, pending, line);
        }
        let command = Command::parse(line);
        match cmd::find(&command.verb, &self.state) {
            Ok(run) => run(self, &command),
            Err(why) => self.error(why),
        }
    }

    /// Takes a line that is no line.
    pub fn broken_line(&mut self, error: LineError) -> Step {
        match error {
            LineError::TooLong => Step::Close(err("the line is too long")),
            LineError::NotText => self.error("the line is no text"),
        }
    }

    /// Takes the outcome of work.
    pub fn finish(&mut self, outcome: Outcome) -> Step {
        match outcome {
            Outcome::Opened(maildrop) => self.opened(maildrop),
            Outcome::Refused(error) => self.refused(error),
            Outcome::Challenge(exchange, challenge) => {
                self.exchange = Some(Pending::Scram(exchange));
                Step::Reply(format!("+ {}\r\n", BASE64.encode(&challenge)))
            }
            Outcome::Proved(login, last) => {
                self.exchange = Some(Pending::ScramEnd(login));
                Step::Reply(format!("+ {}\r\n", BASE64.encode(&last)))
            }
            Outcome::Message(Some(raw), None) => {
                let outgoing = Outgoing::whole(raw);
                Step::Message(ok(&format!("{} octets", outgoing.octets())), outgoing)
            }
            Outcome::Message(Some(raw), Some(lines)) => Step::Message(ok("top follows"), Outgoing::top(raw, lines)),
            Outcome::Message(None, _) => Step::Reply(err("this message is gone")),
            Outcome::Removed => Step::Close(ok("bye")),
            Outcome::Failed(text) => {
                tracing::error!(target: "pop3", peer = %self.peer, error = text, "the mail file failed");
                Step::Close(err("[SYS/TEMP] internal error, try again later"))
            }
        }
    }

    /// Says good-bye because the server ends.
    #[must_use]
    pub fn farewell(&self) -> String {
        err("[SYS/TEMP] the server is going down, try again later")
    }

    /// Says good-bye because the account is not what it was. It stands where the next reply would, so a client that has
    /// just said something takes it for the answer, which it is: nothing that comes now is done.
    #[must_use]
    pub fn dismissed(&self) -> String {
        err("[AUTH] the account was disabled, removed or given another password")
    }

    /// Goes on after the TLS handshake.
    pub fn encrypted(&mut self) {
        self.peer = self.peer.encrypted();
        self.offers.tls = false;
        self.state = State::Authorization(None);
    }

    /// Counts a command that cannot be.
    pub(crate) fn error(&mut self, why: &str) -> Step {
        self.errors = self.errors.saturating_add(1);
        if self.errors >= ERRORS_MAX { Step::Close(err("too many errors")) } else { Step::Reply(err(why)) }
    }

    /// Gives the inbox; the table of verbs sees to it that there is one.
    pub(crate) fn inbox(&mut self) -> Option<&mut Inbox> {
        match &mut self.state {
            State::Transaction(inbox) => Some(inbox),
            State::Authorization(_) => None,
        }
    }

    fn opened(&mut self, maildrop: Maildrop) -> Step {
        let inbox = Inbox { maildrop, deleted: BTreeSet::new() };
        let text = ok(&format!("{} messages ({} octets)", inbox.count(), inbox.octets()));
        self.state = State::Transaction(inbox);
        Step::Reply(text)
    }

    fn refused(&mut self, error: LoginError) -> Step {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Authorization(None);
        if self.failures >= LOGIN_FAILURES_MAX {
            Step::Close(err(error.text()))
        } else {
            Step::Reply(err(error.text()))
        }
    }
}

impl Inbox {
    /// Counts the messages that are not marked.
    pub(crate) fn count(&self) -> usize {
        self.maildrop.messages.len().saturating_sub(self.deleted.len())
    }

    /// Adds up the octets of the messages that are not marked.
    pub(crate) fn octets(&self) -> u64 {
        self.listed().fold(0, |sum, (_, message)| sum.saturating_add(message.octets))
    }

    /// Gives the messages that are not marked, with their numbers as the client counts.
    pub(crate) fn listed(&self) -> impl Iterator<Item = (usize, &Listed)> {
        let all = self.maildrop.messages.iter().enumerate();
        all.filter(|(index, _)| !self.deleted.contains(index))
            .map(|(index, message)| (index.saturating_add(1), message))
    }

    /// Finds a message by the number that the client says.
    pub(crate) fn find(&self, number: u32) -> Option<(usize, Listed)> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        let message = self.maildrop.messages.get(index)?;
        (!self.deleted.contains(&index)).then_some((index, *message))
    }
}

/// Makes a positive reply.
pub(crate) fn ok(text: &str) -> String {
    format!("+OK {text}\r\n")
}

/// Makes a negative reply.
pub(crate) fn err(text: &str) -> String {
    format!("-ERR {text}\r\n")
}
