//! The choice between the doors: the one that a workload wants, its settings, and the door of each user.

use std::sync::Arc;
use std::time::Duration;

use super::call::CallCount;
use super::imap::{self, ImapDoor, ImapSettings};
use super::jmap::{self, JmapDoor, JmapSettings};
use super::journal::Journal;
use super::lite::{self, LiteDoor, LiteSettings};
use super::native::{self, NativeDoor, NativeSettings};
use super::pop3::{self, Pop3Door, Pop3Settings};
use super::{Door, Offered, Reply, StepError};
use crate::plan::steps::PlanAction;
use crate::population::memos::StoredMemo;
use crate::workload;
use crate::workload::verb::Verb;

/// What a door performs, and what it does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorOffer {
    /// The verbs that it performs.
    pub offered: Offered,
    /// The verbs that it does not perform, with the reason.
    pub left_out: &'static [(Verb, &'static str)],
}

impl DoorOffer {
    /// Returns what the door of a workload performs, or `None` if this version does not have the door.
    pub fn of(door: workload::Door) -> Option<Self> {
        let left_out = match door {
            workload::Door::Native => native::LEFT_OUT,
            workload::Door::Imap => imap::LEFT_OUT,
            workload::Door::Pop3 => pop3::LEFT_OUT,
            workload::Door::Jmap => jmap::LEFT_OUT,
            workload::Door::Lite => lite::LEFT_OUT,
            workload::Door::Full => return None,
        };
        Some(Self { offered: Offered::all_but(left_out), left_out })
    }

    /// Returns why a verb is left out.
    pub fn reason(&self, verb: Verb) -> &'static str {
        let reason = self.left_out.iter().find(|(left_out, _)| *left_out == verb);
        reason.map_or("the door has no such verb", |(_, reason)| reason)
    }
}

/// A verb that a target does not have, with the reason.
pub type MissingVerb = (Verb, &'static str);

/// What the doors of all users of a run share.
#[derive(Debug, Clone)]
pub enum DoorSettings {
    /// The native protocol.
    Native(Arc<NativeSettings>),
    /// IMAP with SMTP.
    Imap(Arc<ImapSettings>),
    /// POP3 with SMTP.
    Pop3(Arc<Pop3Settings>),
    /// JMAP.
    Jmap(Arc<JmapSettings>),
    /// The lite web mail.
    Lite(Arc<LiteSettings>),
}

impl DoorSettings {
    /// Creates the door of a user, which is not connected.
    pub fn door(&self, user: u64) -> UserDoor {
        match self {
            Self::Native(settings) => UserDoor::Native(NativeDoor::new(settings, user)),
            Self::Imap(settings) => UserDoor::Imap(ImapDoor::new(settings, user)),
            Self::Pop3(settings) => UserDoor::Pop3(Pop3Door::new(settings, user)),
            Self::Jmap(settings) => UserDoor::Jmap(JmapDoor::new(settings, user)),
            Self::Lite(settings) => UserDoor::Lite(LiteDoor::new(settings, user)),
        }
    }

    /// Returns the settings of the native protocol, over which databases besides mail files are created and filled, or
    /// `None` if this is another door.
    pub fn native(&self) -> Option<&Arc<NativeSettings>> {
        match self {
            Self::Native(settings) => Some(settings),
            Self::Imap(_) | Self::Pop3(_) | Self::Jmap(_) | Self::Lite(_) => None,
        }
    }

    /// Writes all changes of the users to a journal. Returns `false` if the door keeps none, or if there are doors of
    /// users.
    pub fn keep_journal(&mut self, journal: &Arc<Journal>) -> bool {
        let settings = match self {
            Self::Native(settings) => Arc::get_mut(settings),
            Self::Imap(_) | Self::Pop3(_) | Self::Jmap(_) | Self::Lite(_) => None,
        };
        settings.is_some_and(|settings| settings.journal.replace(Arc::clone(journal)).is_none())
    }

    /// Returns the verbs of the door that the target does not have, as the first user sees it. Each call has a time
    /// limit.
    ///
    /// # Errors
    ///
    /// If the first user cannot log in, or if the target does not tell what it has.
    pub async fn missing_verbs(&self, time_limit: Duration) -> Result<Vec<MissingVerb>, StepError> {
        match self {
            Self::Jmap(settings) => jmap::missing_verbs(settings, time_limit).await,
            Self::Native(_) | Self::Imap(_) | Self::Pop3(_) | Self::Lite(_) => Ok(Vec::new()),
        }
    }

    /// Adds messages to the inbox of a user, in order, and creates the mail file if there is none. Each call has a time
    /// limit: that of the connection over the native protocol, otherwise this one.
    ///
    /// # Errors
    ///
    /// The first call that failed.
    pub async fn fill_mail_file(
        &self,
        user: u64,
        memos: impl Iterator<Item = StoredMemo> + Send,
        time_limit: Duration,
    ) -> Result<(), StepError> {
        match self {
            Self::Native(settings) => native::filling::fill_mail_file(settings, user, memos).await,
            Self::Imap(settings) => imap::filling::fill_mail_file(settings, user, memos, time_limit).await,
            Self::Pop3(settings) => pop3::filling::fill_mail_file(settings, user, memos, time_limit).await,
            Self::Jmap(settings) => jmap::filling::fill_mail_file(settings, user, memos, time_limit).await,
            Self::Lite(settings) => lite::fill_mail_file(settings, user, memos, time_limit).await,
        }
    }
}

/// The door of a user.
#[derive(Debug)]
pub enum UserDoor {
    /// The native protocol.
    Native(NativeDoor),
    /// IMAP with SMTP.
    Imap(ImapDoor),
    /// POP3 with SMTP.
    Pop3(Pop3Door),
    /// JMAP.
    Jmap(JmapDoor),
    /// The lite web mail.
    Lite(LiteDoor),
}

impl Door for UserDoor {
    type Action = PlanAction;

    async fn log_in(&mut self) -> Result<Reply, StepError> {
        match self {
            Self::Native(door) => door.log_in().await,
            Self::Imap(door) => door.log_in().await,
            Self::Pop3(door) => door.log_in().await,
            Self::Jmap(door) => door.log_in().await,
            Self::Lite(door) => door.log_in().await,
        }
    }

    async fn perform(&mut self, action: &PlanAction) -> Result<Reply, StepError> {
        match self {
            Self::Native(door) => door.perform(action).await,
            Self::Imap(door) => door.perform(action).await,
            Self::Pop3(door) => door.perform(action).await,
            Self::Jmap(door) => door.perform(action).await,
            Self::Lite(door) => door.perform(action).await,
        }
    }

    fn calls(&self) -> CallCount {
        match self {
            Self::Native(door) => door.calls(),
            Self::Imap(door) => door.calls(),
            Self::Pop3(door) => door.calls(),
            Self::Jmap(door) => door.calls(),
            Self::Lite(door) => door.calls(),
        }
    }

    async fn log_out(&mut self) {
        match self {
            Self::Native(door) => door.log_out().await,
            Self::Imap(door) => door.log_out().await,
            Self::Pop3(door) => door.log_out().await,
            Self::Jmap(door) => door.log_out().await,
            Self::Lite(door) => door.log_out().await,
        }
    }

    fn disconnect(&mut self) {
        match self {
            Self::Native(door) => door.disconnect(),
            Self::Imap(door) => door.disconnect(),
            Self::Pop3(door) => door.disconnect(),
            Self::Jmap(door) => door.disconnect(),
            Self::Lite(door) => door.disconnect(),
        }
    }
}
