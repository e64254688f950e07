//! The native protocol: gRPC over TLS, with one session for each user and one connection for one or several.
//!
//! [`connections`] opens the connections; [`session`] holds one and counts the calls. [`memory`] has the rows and
//! documents that a user knows. The verbs are in [`reading`], [`views`] and [`writing`], one function for each;
//! [`documents`] has the calls that they share with [`filling`] and [`database_filling`], which fill mail files and
//! other databases before a run.
//!
//! [`exchange`] pulls databases. [`local_replica`] performs the verbs of users who have a local replica, and
//! [`replicating`] brings what they have changed.
//!
//! A connection that the server has closed while it was idle is opened again, with the same session, by the next step.
//! A connection that breaks during a call, and a session that the server has ended, are errors: the user logs in again.
//!
//! Limits: a reply has at most 8 MiB, as in all clients ([`client::ConnectOptions`]); the contents of attachments are
//! counted and dropped; a user remembers at most [`ROWS_MAX`](super::rows::ROWS_MAX) rows.
//!
//! Not offered: `invite` and `accept`, because the server has no calendar mail yet; `send` in the name of another user,
//! which the protocol refuses.

pub mod connections;
pub mod database_filling;
mod documents;
mod exchange;
pub mod filling;
pub mod inspection;
mod items;
mod local_replica;
mod memory;
mod message_parts;
mod reading;
mod replica_notes;
mod replicating;
mod session;
mod settings;
mod skeleton;
mod views;
mod writing;

use std::sync::Arc;

use client::v1;

use super::call::{DONE, StepOutcome, StepResult};
use super::{Door, Reply, StepError};
use crate::plan::databases::Workplace;
use crate::plan::steps::PlanAction;
use crate::workload::action::Action;
use crate::workload::class::Replica;
use crate::workload::verb::Verb;
use local_replica::LocalReplica;
use memory::UserMemory;
use session::{CallCount, CallError, Session};
pub use settings::NativeSettings;

/// The verbs that this door does not perform, with the reason.
pub const LEFT_OUT: &[(Verb, &str)] =
    &[(Verb::Invite, "the server has no calendar mail yet"), (Verb::Accept, "the server has no calendar mail yet")];

/// The code of what does not exist.
const NOT_FOUND: &str = "not-found";

/// The door of a user.
#[derive(Debug)]
pub struct NativeDoor {
    settings: Arc<NativeSettings>,
    user: u64,
    workplace: Workplace,
    /// `None` until the user has logged in.
    session: Option<Session>,
    memory: UserMemory,
    /// The replica of a user who has a local one. It is there from the first login, and a lost session does not end it.
    replica: Option<LocalReplica>,
    /// The calls of the last login, step or logout.
    count: CallCount,
}

impl NativeDoor {
    /// Creates the door of a user, which is not connected.
    pub fn new(settings: &Arc<NativeSettings>, user: u64) -> Self {
        let workplace = settings.plan.workplace(user).unwrap_or_default();
        Self {
            settings: Arc::clone(settings),
            user,
            workplace,
            session: None,
            memory: UserMemory::default(),
            replica: None,
            count: CallCount::default(),
        }
    }
}

impl NativeDoor {
    /// Logs in, and reads the list of the local replica if it has not been read.
    async fn begin_session(&mut self) -> Result<Session, CallError> {
        let mut session = Session::log_in(&self.settings, self.user, &mut self.count).await?;
        if let Some(database) = &self.workplace.database {
            session.work_in(database.path.clone());
        }
        if self.workplace.replica == Replica::Local && self.replica.is_none() {
            let is_mail_file = self.workplace.is_mail_file();
            self.replica = Some(LocalReplica::complete(&session, &mut self.count, is_mail_file).await?);
        }
        Ok(session)
    }
}

impl Door for NativeDoor {
    type Action = PlanAction;

    async fn log_in(&mut self) -> Result<Reply, StepError> {
        self.session = None;
        self.memory = UserMemory::default();
        self.count = CallCount::default();
        let login = self.begin_session().await;
        self.count.login_reply(login.map(|session| self.session = Some(session)))
    }

    async fn perform(&mut self, action: &PlanAction) -> Result<Reply, StepError> {
        self.count = CallCount::default();
        let Some(session) = &mut self.session else {
            return self.count.reply(Err(CallError::not_logged_in()));
        };
        if let Err(error) = session.reopen(&self.settings, &mut self.count).await {
            return self.count.reply(Err(error));
        }
        let mut step = StepContext {
            settings: &self.settings,
            workplace: &self.workplace,
            session,
            memory: &mut self.memory,
            replica: &mut self.replica,
            action,
            count: &mut self.count,
        };
        let result = match step.perform().await {
            Err(error) if error.code == NOT_FOUND && self.workplace.is_shared_document(action.verb()) => {
                Ok(StepOutcome::Skipped)
            }
            result => result,
        };
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
    settings: &'a NativeSettings,
    workplace: &'a Workplace,
    session: &'a mut Session,
    memory: &'a mut UserMemory,
    replica: &'a mut Option<LocalReplica>,
    action: &'a PlanAction,
    count: &'a mut CallCount,
}

impl StepContext<'_> {
    async fn perform(&mut self) -> StepResult {
        if let Some(outcome) = self.perform_locally() {
            return Ok(outcome);
        }
        let action = self.action;
        match (action.verb(), action.keys()) {
            (Verb::ReadAttachment, keys) => self.read_attachment(keys).await,
            (Verb::OpenDatabase, _) => self.open_database().await,
            (Verb::OpenView, Action::View { view }) => self.open_view(view.as_deref()).await,
            (Verb::ScrollView, Action::Scroll { rows, at }) => self.scroll_view(*rows, *at).await,
            (Verb::CloseView, _) => Ok(self.close_view()),
            (Verb::Wait | Verb::CloseDatabase, _) => Ok(DONE),
            (Verb::Poll, _) => self.poll().await,
            (Verb::ListUnread, _) => self.list_unread().await,
            (Verb::Read, Action::Read { of, .. }) => self.read(*of).await,
            (Verb::Lookup, Action::Lookup { names }) => self.lookup(*names).await,
            (Verb::Search, Action::Search { words }) => self.search(*words).await,
            (Verb::Update, Action::Document { of }) => self.update(*of).await,
            (Verb::Delete, Action::Document { of }) => self.delete(*of).await,
            (Verb::Move, Action::Move { of, to }) => self.move_document(*of, to).await,
            (Verb::Add, _) => self.add().await,
            (Verb::Respond, Action::Answer { of, .. }) => self.respond(*of).await,
            (Verb::Replicate, _) => self.replicate().await,
            (Verb::Pull, Action::Pull { method }) => self.pull(*method).await,
            (Verb::Reply, Action::Answer { of, size, copy }) => self.reply(*of, size, *copy).await,
            (Verb::Send, Action::Send { recipients, size, copy, .. }) => self.send(*recipients, size, *copy).await,
            (Verb::Appointment, _) => self.appointment().await,
            (Verb::RebuildView, Action::View { view }) => self.rebuild_view(view.as_deref()).await,
            (verb, _) => Err(CallError::kept("not-offered", format!("the native door has no {}", verb.word()))),
        }
    }

    /// Returns the database in which the user works.
    fn database(&self) -> Option<v1::DatabaseKey> {
        Some(self.session.database())
    }

    /// Returns the address of the user.
    fn address(&self) -> String {
        self.settings.names.address(self.action.user())
    }
}
