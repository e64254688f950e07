//! POP3 with submission, LMTP and SMTP: what a mail program does that fetches its mail.
//!
//! [`connection`] sends commands and reads replies, [`memory`] has the messages that a user knows. The verbs are in
//! [`maildrop`]; what is sent is in [`mail_sending`](super::mail_sending), and [`filling`] fills mail files before a
//! run.
//!
//! A session of POP3 shows the messages that were there at its login, and removes what was deleted at its QUIT. So a
//! user who looks for new mail ends the session, and begins another one: that is no lost session, and its commands are
//! calls of the step. A connection that the server has closed while it was idle is opened again by the next step. A
//! connection that breaks during a command is an error: the user logs in again.
//!
//! Errors have the response code of the reply (`err-in-use`, `err-sys-temp`, RFC 2449 and RFC 3206) or `err`, those of
//! [`smtp`](super::smtp) its code (`smtp-550`), or a word: `connect`, `connection`, `malformed`, `no-login`.

mod connection;
pub mod filling;
mod maildrop;
mod memory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use super::call::{CallCount, CallError, DONE, StepOutcome, StepResult};
use super::line_connection::Place;
use super::mail_sending::{Letter, MailSettings};
use super::{Door, Reply, StepError};
use crate::plan::steps::PlanAction;
use crate::workload::action::{Action, Document, Size};
use crate::workload::verb::Verb;
use connection::Pop3Connection;
use memory::UserMemory;

/// The verbs that this door does not perform, with the reason.
pub const LEFT_OUT: &[(Verb, &str)] = &[
    (Verb::ReadAttachment, "POP3 sends a message with its attachments"),
    (Verb::Lookup, "the driver has no LDAP yet"),
    (Verb::Search, "POP3 has no search"),
    (Verb::Wait, "POP3 does not report new mail"),
    (Verb::ListUnread, "POP3 has no marks"),
    (Verb::Update, "POP3 has no marks"),
    (Verb::Move, "POP3 has no folders"),
    (Verb::Add, "POP3 stores no messages"),
    (Verb::Respond, "POP3 has no responses to documents"),
    (Verb::Appointment, "POP3 has no calendar"),
    (Verb::Invite, "POP3 has no calendar"),
    (Verb::Accept, "POP3 has no calendar"),
    (Verb::Replicate, "POP3 has no replication"),
    (Verb::Pull, "POP3 has no replication"),
    (Verb::RebuildView, "POP3 has no views"),
];

/// What the doors of all users share.
pub struct Pop3Settings {
    /// Where the POP3 server is.
    pub pop3: Place,
    /// Who the users are, and the services that take their messages.
    pub mail: MailSettings,
}

/// Shows no password.
impl fmt::Debug for Pop3Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pop3Settings").field("pop3", &self.pop3).field("names", &self.mail.names).finish()
    }
}

impl Pop3Settings {
    async fn log_in(&self, user: u64, count: &mut CallCount) -> Result<Pop3Connection, CallError> {
        let login = self.mail.names.address(user);
        Pop3Connection::log_in(&self.pop3, [&login, &self.mail.password], count).await
    }
}

/// The door of a user.
#[derive(Debug)]
pub struct Pop3Door {
    settings: Arc<Pop3Settings>,
    user: u64,
    is_logged_in: bool,
    /// The session of POP3; `None` after its QUIT, until the next step needs one.
    connection: Option<Pop3Connection>,
    memory: UserMemory,
    /// The calls of the last login, step or logout.
    count: CallCount,
}

impl Pop3Door {
    /// Creates the door of a user, which is not connected.
    pub fn new(settings: &Arc<Pop3Settings>, user: u64) -> Self {
        Self {
            settings: Arc::clone(settings),
            user,
            is_logged_in: false,
            connection: None,
            memory: UserMemory::default(),
            count: CallCount::default(),
        }
    }
}

impl Door for Pop3Door {
    type Action = PlanAction;

    async fn log_in(&mut self) -> Result<Reply, StepError> {
        self.disconnect();
        self.memory = UserMemory::default();
        self.count = CallCount::default();
        let login = self.settings.log_in(self.user, &mut self.count).await;
        self.is_logged_in = login.is_ok();
        self.count.login_reply(login.map(|connection| self.connection = Some(connection)))
    }

    async fn perform(&mut self, action: &PlanAction) -> Result<Reply, StepError> {
        self.count = CallCount::default();
        if !self.is_logged_in {
            return self.count.reply(Err(CallError::not_logged_in()));
        }
        let mut step = StepContext {
            settings: &self.settings,
            connection: &mut self.connection,
            memory: &mut self.memory,
            action,
            count: &mut self.count,
        };
        let result = step.perform().await;
        self.count.reply(result)
    }

    fn calls(&self) -> CallCount {
        self.count
    }

    async fn log_out(&mut self) {
        self.count = CallCount::default();
        if let Some(connection) = self.connection.take() {
            // Nothing can be done about messages that were not removed.
            let _ = connection.quit(&mut self.count).await;
        }
        self.disconnect();
    }

    fn disconnect(&mut self) {
        self.is_logged_in = false;
        self.connection = None;
    }
}

/// A step while it is performed.
struct StepContext<'a> {
    settings: &'a Pop3Settings,
    connection: &'a mut Option<Pop3Connection>,
    memory: &'a mut UserMemory,
    action: &'a PlanAction,
    count: &'a mut CallCount,
}

impl StepContext<'_> {
    async fn perform(&mut self) -> StepResult {
        let action = self.action;
        match (action.verb(), action.keys()) {
            (Verb::OpenDatabase | Verb::Poll, _) => self.look_for_mail().await,
            (Verb::OpenView, _) => self.open_view().await,
            (Verb::ScrollView, Action::Scroll { rows, at }) => self.scroll_view(*rows, *at).await,
            (Verb::CloseView, _) => Ok(DONE),
            (Verb::CloseDatabase, _) => self.end_session().await.map(|()| DONE),
            (Verb::Read, Action::Read { of, .. }) => self.read(*of).await,
            (Verb::Delete, Action::Document { of }) => self.delete(*of).await,
            (Verb::Reply, Action::Answer { of, size, .. }) => self.reply(*of, size).await,
            (Verb::Send, Action::Send { recipients, from, size, .. }) => {
                self.send(Letter { recipients: *recipients, from: *from, size }).await
            }
            (verb, _) => Err(CallError::kept("not-offered", format!("the POP3 door has no {}", verb.word()))),
        }
    }

    /// Answers a message. The copy stays with the program of the user.
    async fn reply(&mut self, of: Document, size: &Size) -> StepResult {
        let Some(id) = self.document(of).await? else { return Ok(StepOutcome::Skipped) };
        let answered = self.memory.last.as_ref().filter(|last| last.id == id).map(|last| &last.head);
        self.settings.mail.reply(self.count, self.action, answered, size).await?;
        Ok(DONE)
    }

    async fn send(&mut self, letter: Letter<'_>) -> StepResult {
        self.settings.mail.send(self.count, self.action, letter).await?;
        Ok(DONE)
    }
}
