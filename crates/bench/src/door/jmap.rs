//! JMAP (RFC 8620, RFC 8621): one connection for each user, and the password with each request.
//!
//! [`account`] reads the Session object, [`methods`] writes requests and reads their responses, and [`session`] sends
//! them and counts them. The verbs are in [`views`], [`reading`] and [`writing`], one function for each; [`filling`]
//! fills mail files before a run. Calls whose arguments follow from one another are one request with back-references.
//!
//! The door uses what the Session object offers, so it works with any server: the limits of objects and calls, and the
//! capabilities for sending and for principals. The addresses that it names are taken for their paths: every request
//! goes to the server that the run names.
//!
//! Limits: those of [`http`](super::http); at most [`account::MAILBOXES_MAX`] mailboxes; a user remembers at most 1,000
//! rows. Not offered: the calendar, responses, and local replicas. Errors have the types of JMAP as their codes.

mod account;
pub mod filling;
mod memory;
mod methods;
mod reading;
mod session;
#[cfg(test)]
mod tests;
mod views;
mod writing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::call::{CallCount, CallError, DONE, StepOutcome, StepResult, limited};
use super::http::origin::Origin;
use super::native::NativeSettings;
use super::{Door, Reply, StepError};
use crate::plan::steps::PlanAction;
use crate::population::people::UserNames;
use crate::workload::action::Action;
use crate::workload::verb::Verb;
use memory::UserMemory;
use session::JmapSession;

/// The verbs that this door does not perform, with the reason.
pub const LEFT_OUT: &[(Verb, &str)] = &[
    (Verb::Respond, "JMAP has messages, and no documents that respond to others"),
    (Verb::Appointment, "RFC 8621 has no calendar"),
    (Verb::Invite, "RFC 8621 has no calendar"),
    (Verb::Accept, "RFC 8621 has no calendar"),
    (Verb::Replicate, "JMAP has no replicas"),
    (Verb::Pull, "JMAP has no replicas"),
    (Verb::RebuildView, "JMAP has no views that are rebuilt"),
];

/// The codes of errors that mean that the server has no event source.
const NO_EVENT_SOURCE: [&str; 2] = ["unsupported", "http-404"];

/// Returns the verbs that the server of the run does not have: the first user reads its Session object, and opens its
/// event source. Each of both has a time limit.
///
/// # Errors
///
/// If the first user cannot log in, or if the event source cannot be opened although the server has one.
pub async fn missing_verbs(
    settings: &JmapSettings,
    time_limit: Duration,
) -> Result<Vec<(Verb, &'static str)>, StepError> {
    let mut count = CallCount::default();
    let session = limited(time_limit, JmapSession::log_in(settings, 1, &mut count)).await;
    let mut session = session.map_err(|error| error.into_step_error(count))?;
    let mut missing = Vec::new();
    if !session.account().has_submission {
        missing.extend([Verb::Send, Verb::Reply].map(|verb| (verb, "the server sends no messages over JMAP")));
    }
    if session.account().principals.is_none() {
        missing.push((Verb::Lookup, "the server has no principals over JMAP"));
    }
    match limited(time_limit, session.open_events(&mut count)).await {
        Ok(_) => {}
        Err(error) if NO_EVENT_SOURCE.contains(&&*error.code) => {
            missing.push((Verb::Wait, "the server has no event source"));
        }
        Err(error) => return Err(error.into_step_error(count)),
    }
    Ok(missing)
}

/// What the doors of all users share.
pub struct JmapSettings {
    /// The server.
    pub origin: Arc<Origin>,
    /// The addresses of the users.
    pub names: UserNames,
    /// The password of all users.
    pub password: String,
    /// The factor by which messages are made smaller.
    pub size_scale: f64,
    /// The native protocol of the server, by which mail files are created that do not exist.
    pub creator: Option<Arc<NativeSettings>>,
}

/// Shows no password.
impl fmt::Debug for JmapSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JmapSettings").field("origin", &self.origin).field("names", &self.names).finish()
    }
}

/// The door of a user.
#[derive(Debug)]
pub struct JmapDoor {
    settings: Arc<JmapSettings>,
    user: u64,
    /// `None` until the user has logged in.
    session: Option<JmapSession>,
    memory: UserMemory,
    /// The calls of the last login, step or logout.
    count: CallCount,
}

impl JmapDoor {
    /// Creates the door of a user, which is not connected.
    pub fn new(settings: &Arc<JmapSettings>, user: u64) -> Self {
        let settings = Arc::clone(settings);
        Self { settings, user, session: None, memory: UserMemory::default(), count: CallCount::default() }
    }
}

impl Door for JmapDoor {
    type Action = PlanAction;

    async fn log_in(&mut self) -> Result<Reply, StepError> {
        self.session = None;
        self.memory = UserMemory::default();
        self.count = CallCount::default();
        let login = JmapSession::log_in(&self.settings, self.user, &mut self.count).await;
        self.count.login_reply(login.map(|session| self.session = Some(session)))
    }

    async fn perform(&mut self, action: &PlanAction) -> Result<Reply, StepError> {
        self.count = CallCount::default();
        let Some(session) = &mut self.session else {
            return self.count.reply(Err(CallError::not_logged_in()));
        };
        let mut step =
            StepContext { settings: &self.settings, session, memory: &mut self.memory, action, count: &mut self.count };
        let result = step.perform().await;
        self.count.reply(result)
    }

    fn calls(&self) -> CallCount {
        self.count
    }

    /// Closes the connection: JMAP has no logout.
    async fn log_out(&mut self) {
        self.count = CallCount::default();
        self.disconnect();
    }

    fn disconnect(&mut self) {
        self.session = None;
        self.memory.events = None;
    }
}

/// A step while it is performed.
struct StepContext<'a> {
    settings: &'a JmapSettings,
    session: &'a mut JmapSession,
    memory: &'a mut UserMemory,
    action: &'a PlanAction,
    count: &'a mut CallCount,
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
            (Verb::CloseDatabase, _) => Ok(DONE),
            (Verb::Poll, _) => self.poll().await,
            (Verb::Wait, _) => self.wait().await,
            (Verb::ListUnread, _) => self.list_unread().await,
            (Verb::Read, Action::Read { of, .. }) => self.read(*of).await,
            (Verb::Lookup, Action::Lookup { names }) => self.lookup(*names).await,
            (Verb::Search, Action::Search { words }) => self.search(*words).await,
            (Verb::Update, Action::Document { of }) => self.update(*of).await,
            (Verb::Delete, Action::Document { of }) => self.delete(*of).await,
            (Verb::Move, Action::Move { of, to }) => self.move_message(*of, to).await,
            (Verb::Add, Action::Add { size }) => self.add(size).await,
            (Verb::Reply, Action::Answer { of, size, copy }) => self.reply(*of, size, *copy).await,
            (Verb::Send, Action::Send { recipients, size, copy, .. }) => self.send(*recipients, size, *copy).await,
            (verb, _) => Err(CallError::kept("not-offered", format!("the JMAP door has no {}", verb.word()))),
        }
    }

    /// Returns the address of the user.
    fn address(&self) -> String {
        self.settings.names.address(self.action.user())
    }
}
