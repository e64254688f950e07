//! IMAP, with submission, LMTP and SMTP: what a mail client without a protocol of its own does.
//!
//! [`response`] reads the responses, and [`connection`] sends commands. [`session`] logs in, and holds the connection
//! of a user; [`idling`] keeps it while the user waits for new mail. [`memory`] has the messages that a user knows. The
//! verbs are in [`views`], [`reading`], [`changes`] and [`sending`]; [`filling`] fills mail files before a run.
//! [`plain_client`] sends commands as they are written, for works without a workload file.
//!
//! The door works with every server that has IMAP4rev1, and uses what it offers beyond that: `AUTHENTICATE PLAIN`,
//! `SASL-IR`, `LITERAL+`, `UIDPLUS`, `MOVE`, `UNSELECT`, `IDLE`, `MULTIAPPEND`, `NAMESPACE`. Messages are sent over a
//! connection of their own to the submission service, as mail clients do; those with a drawn sender go over LMTP, or
//! over port 25, through connections that all users share.
//!
//! A connection that the server has closed while it was idle is opened again by the next step. A connection that breaks
//! during a command is an error: the user logs in again. Errors have the code of the response (`no-overquota`, `bad`,
//! `bye`), that of the SMTP reply (`smtp-550`), or a word: `connect`, `connection`, `malformed`, `no-login`.

mod changes;
mod connection;
pub mod filling;
mod folders;
mod idling;
mod memory;
mod message_parts;
pub mod plain_client;
mod reading;
mod response;
mod sending;
mod session;
#[cfg(test)]
mod tests;
mod views;

use std::fmt;
use std::sync::Arc;

use super::call::{CallCount, CallError, DONE, StepOutcome, StepResult};
use super::line_connection::Place;
use super::mail_sending::{Letter, MailSettings};
use super::{Door, Reply, StepError};
use crate::plan::steps::PlanAction;
use crate::workload::action::Action;
use crate::workload::verb::Verb;
use connection::ImapConnection;
use memory::UserMemory;
use session::ImapSession;

/// The verbs that this door does not perform, with the reason.
pub const LEFT_OUT: &[(Verb, &str)] = &[
    (Verb::Lookup, "the driver has no LDAP yet"),
    (Verb::Respond, "IMAP has no responses to documents"),
    (Verb::Appointment, "IMAP has no calendar"),
    (Verb::Invite, "IMAP has no calendar"),
    (Verb::Accept, "IMAP has no calendar"),
    (Verb::Replicate, "IMAP has no replication"),
    (Verb::Pull, "IMAP has no replication"),
    (Verb::RebuildView, "IMAP has no views"),
];

/// What the doors of all users share.
pub struct ImapSettings {
    /// Where the IMAP server is.
    pub imap: Place,
    /// Who the users are, and the services that take their messages.
    pub mail: MailSettings,
}

/// Shows no password.
impl fmt::Debug for ImapSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImapSettings").field("imap", &self.imap).field("names", &self.mail.names).finish()
    }
}

/// The door of a user.
#[derive(Debug)]
pub struct ImapDoor {
    settings: Arc<ImapSettings>,
    user: u64,
    /// `None` until the user has logged in.
    session: Option<ImapSession>,
    memory: UserMemory,
    /// The calls of the last login, step or logout.
    count: CallCount,
}

impl ImapDoor {
    /// Creates the door of a user, which is not connected.
    pub fn new(settings: &Arc<ImapSettings>, user: u64) -> Self {
        let settings = Arc::clone(settings);
        Self { settings, user, session: None, memory: UserMemory::default(), count: CallCount::default() }
    }
}

impl Door for ImapDoor {
    type Action = PlanAction;

    async fn log_in(&mut self) -> Result<Reply, StepError> {
        self.session = None;
        self.memory = UserMemory::default();
        self.count = CallCount::default();
        let login = ImapSession::log_in(&self.settings, self.user, &mut self.count).await;
        self.count.login_reply(login.map(|session| self.session = Some(session)))
    }

    async fn perform(&mut self, action: &PlanAction) -> Result<Reply, StepError> {
        self.count = CallCount::default();
        let Some(session) = &mut self.session else {
            return self.count.reply(Err(CallError::not_logged_in()));
        };
        let connection = match session.resume(&self.settings, self.user, &mut self.count).await {
            Ok(connection) => connection,
            Err(error) => return self.count.reply(Err(error)),
        };
        let mut step = StepContext {
            settings: &self.settings,
            connection,
            memory: &mut self.memory,
            action,
            count: &mut self.count,
            is_waiting: false,
        };
        let mut result = step.perform().await;
        if step.is_waiting && result.is_ok() {
            self.count.calls += 1;
            result = session.begin_waiting().await.map(|()| DONE);
        }
        self.count.reply(result)
    }

    fn calls(&self) -> CallCount {
        self.count
    }

    async fn log_out(&mut self) {
        self.count = CallCount::default();
        if let Some(session) = self.session.take() {
            session.log_out(&mut self.count).await;
        }
    }

    fn disconnect(&mut self) {
        self.session = None;
    }
}

/// A step while it is performed.
struct StepContext<'a> {
    settings: &'a ImapSettings,
    connection: &'a mut ImapConnection,
    memory: &'a mut UserMemory,
    action: &'a PlanAction,
    count: &'a mut CallCount,
    /// The user waits for new mail when the step has ended.
    is_waiting: bool,
}

impl StepContext<'_> {
    async fn perform(&mut self) -> StepResult {
        let action = self.action;
        match (action.verb(), action.keys()) {
            (Verb::ReadAttachment, keys) => self.read_attachment(keys).await,
            (Verb::OpenDatabase, _) => self.open_database().await,
            (Verb::OpenView, Action::View { view }) => self.open_view(view.as_deref()).await,
            (Verb::ScrollView, Action::Scroll { rows, at }) => self.scroll_view(*rows, *at).await,
            (Verb::CloseView, _) => Ok(self.close_view()),
            (Verb::CloseDatabase, _) => self.close_database().await,
            (Verb::Wait, _) => self.wait().await,
            (Verb::Poll, _) => self.poll().await,
            (Verb::ListUnread, _) => self.list_unread().await,
            (Verb::Read, Action::Read { of, attachments }) => self.read(*of, *attachments).await,
            (Verb::Search, Action::Search { words }) => self.search(*words).await,
            (Verb::Update, Action::Document { of }) => self.update(*of).await,
            (Verb::Delete, Action::Document { of }) => self.delete(*of).await,
            (Verb::Move, Action::Move { of, to }) => self.move_message(*of, to).await,
            (Verb::Add, Action::Add { size }) => self.add(size).await,
            (Verb::Reply, Action::Answer { of, size, copy }) => self.reply(*of, size, *copy).await,
            (Verb::Send, Action::Send { recipients, from, size, copy }) => {
                self.send(Letter { recipients: *recipients, from: *from, size }, *copy).await
            }
            (verb, _) => Err(CallError::kept("not-offered", format!("the IMAP door has no {}", verb.word()))),
        }
    }

    /// Returns the address of the user.
    fn address(&self) -> String {
        self.settings.mail.address_of(self.action)
    }
}
