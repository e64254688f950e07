//! The lite web mail, as a browser without scripts uses it: pages, links and forms over HTTPS.
//!
//! [`html`] reads tags, [`page`] links and forms, [`form`] writes what a browser sends, and [`list`] finds the messages
//! of a list. All of them are pure. [`session`] loads pages, and finds the way by what they say: texts and relations of
//! links, names of fields, values of buttons. The verbs are in [`reading`] and [`writing`].
//!
//! Cookies, redirections and limits are those of [`http`](super::http). The style sheet is loaded once for each user. A
//! list that was shown is the screen of the user, whichever step has led to it.
//!
//! Not offered: lists of unread messages, responses, the calendar, and replicas, which the web mail does not have.

mod form;
mod html;
mod list;
mod memory;
mod page;
mod reading;
mod session;
#[cfg(test)]
mod tests;
mod writing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::call::{CallCount, CallError, DONE, StepOutcome, StepResult};
use super::http::origin::Origin;
use super::jmap::JmapSettings;
use super::jmap::filling::fill_mail_file as fill_over_jmap;
use super::{Door, Reply, StepError};
use crate::plan::steps::PlanAction;
use crate::population::memos::StoredMemo;
use crate::population::people::UserNames;
use crate::workload::action::Action;
use crate::workload::verb::Verb;
use memory::UserMemory;
use session::LiteSession;

/// The verbs that this door does not perform, with the reason.
pub const LEFT_OUT: &[(Verb, &str)] = &[
    (Verb::ListUnread, "the lite web mail has no list of unread messages"),
    (Verb::Respond, "the lite web mail has messages, and no documents that respond to others"),
    (Verb::Appointment, "the lite web mail has no calendar"),
    (Verb::Invite, "the lite web mail has no calendar"),
    (Verb::Accept, "the lite web mail has no calendar"),
    (Verb::Replicate, "the lite web mail has no replicas"),
    (Verb::Pull, "the lite web mail has no replicas"),
    (Verb::RebuildView, "the lite web mail has no views that are rebuilt"),
];

/// What the doors of all users share.
pub struct LiteSettings {
    /// The server.
    pub origin: Arc<Origin>,
    /// The addresses of the users.
    pub names: UserNames,
    /// The password of all users.
    pub password: String,
    /// The factor by which messages are made smaller.
    pub size_scale: f64,
    /// JMAP of the same server, by which mail files are filled.
    pub filler: Option<JmapSettings>,
}

/// Shows no password.
impl fmt::Debug for LiteSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiteSettings").field("origin", &self.origin).field("names", &self.names).finish()
    }
}

/// Fills a mail file over JMAP: the pages of the web mail import no messages. Each call has a time limit.
///
/// # Errors
///
/// The first call that failed, or if the server has no address for JMAP and there is something to fill.
pub async fn fill_mail_file(
    settings: &LiteSettings,
    user: u64,
    memos: impl Iterator<Item = StoredMemo> + Send,
    time_limit: Duration,
) -> Result<(), StepError> {
    if let Some(filler) = &settings.filler {
        return fill_over_jmap(filler, user, memos, time_limit).await;
    }
    if memos.count() == 0 {
        return Ok(());
    }
    let text = "the lite web mail imports no messages: mail files are filled over JMAP, so the target needs an address \
        for jmap, or --documents 0";
    Err(CallError::kept("not-offered", text).into())
}

/// The door of a user.
#[derive(Debug)]
pub struct LiteDoor {
    settings: Arc<LiteSettings>,
    user: u64,
    /// `None` until the user has logged in.
    session: Option<LiteSession>,
    memory: UserMemory,
    /// The calls of the last login, step or logout.
    count: CallCount,
}

impl LiteDoor {
    /// Creates the door of a user, which is not connected.
    pub fn new(settings: &Arc<LiteSettings>, user: u64) -> Self {
        let settings = Arc::clone(settings);
        Self { settings, user, session: None, memory: UserMemory::default(), count: CallCount::default() }
    }
}

impl Door for LiteDoor {
    type Action = PlanAction;

    async fn log_in(&mut self) -> Result<Reply, StepError> {
        let style_sheets = self.session.take().map(LiteSession::into_style_sheets).unwrap_or_default();
        self.memory = UserMemory::default();
        self.count = CallCount::default();
        let login = LiteSession::log_in(&self.settings, self.user, style_sheets, &mut self.count).await;
        self.count.login_reply(login.map(|session| self.session = Some(session)))
    }

    async fn perform(&mut self, action: &PlanAction) -> Result<Reply, StepError> {
        self.count = CallCount::default();
        let Some(session) = self.session.as_mut().filter(|session| session.is_logged_in()) else {
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

    async fn log_out(&mut self) {
        self.count = CallCount::default();
        if let Some(mut session) = self.session.take() {
            session.log_out(&mut self.count).await;
        }
    }

    fn disconnect(&mut self) {
        if let Some(session) = &mut self.session {
            session.end();
        }
    }
}

/// A step while it is performed.
struct StepContext<'a> {
    settings: &'a LiteSettings,
    session: &'a mut LiteSession,
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
            (Verb::ScrollView, Action::Scroll { at, .. }) => self.scroll_view(*at).await,
            (Verb::CloseView, _) => Ok(self.close_view()),
            (Verb::CloseDatabase | Verb::Wait, _) => Ok(DONE),
            (Verb::Poll, _) => self.poll().await,
            (Verb::Read, Action::Read { of, .. }) => self.read(*of).await,
            (Verb::Lookup, Action::Lookup { names }) => self.lookup(*names).await,
            (Verb::Search, Action::Search { words }) => self.search(*words).await,
            (Verb::Update, Action::Document { of }) => self.update(*of).await,
            (Verb::Delete, Action::Document { of }) => self.delete(*of).await,
            (Verb::Move, Action::Move { of, to }) => self.move_message(*of, to).await,
            (Verb::Add, Action::Add { size }) => self.add(size).await,
            (Verb::Reply, Action::Answer { of, size, .. }) => self.reply(*of, size).await,
            (Verb::Send, Action::Send { recipients, size, .. }) => self.send(*recipients, size).await,
            (verb, _) => Err(CallError::kept("not-offered", format!("the lite door has no {}", verb.word()))),
        }
    }
}
