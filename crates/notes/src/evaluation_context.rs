//! The context in which a formula is evaluated: time, user, server, database and view.

use base::{ReplicaId, Timestamp};
use formula::Host;
use formula::host::HostText;

use crate::catalog::DatabaseRecord;

/// The context of an evaluation: data other than the document that a formula can query.
#[derive(Clone, Debug, Default)]
pub struct EvaluationContext {
    /// The time, which is the same for the whole evaluation.
    pub now: Timestamp,
    /// Canonical name of the user for whom the formula is evaluated.
    pub user: String,
    /// All names of the user: own names, groups and roles.
    pub user_names: Vec<String>,
    /// The roles of the user.
    pub roles: Vec<String>,
    /// Canonical name of the server.
    pub server: String,
    /// Path of the database.
    pub path: String,
    /// Title of the database.
    pub title: String,
    /// Replica id of the database.
    pub replica_id: Option<ReplicaId>,
    /// Title of the view that is built or read.
    pub view: String,
    /// The rights of the user in the database.
    pub access: Option<formula::host::UserAccess>,
}

impl EvaluationContext {
    /// Creates the context for an evaluation by the server itself, without a user.
    #[must_use]
    pub fn from_record(record: &DatabaseRecord, now: Timestamp) -> Self {
        Self {
            now,
            path: record.path.clone(),
            title: record.title.clone(),
            replica_id: Some(record.replica_id),
            ..Self::default()
        }
    }
}

impl Host for EvaluationContext {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn text(&self, kind: HostText) -> Option<&str> {
        let text = match kind {
            HostText::UserName => &self.user,
            HostText::ServerName => &self.server,
            HostText::DatabasePath => &self.path,
            HostText::DatabaseTitle => &self.title,
            HostText::ViewTitle => &self.view,
            _ => return None,
        };
        (!text.is_empty()).then_some(text)
    }

    fn user_names(&self) -> Option<Vec<&str>> {
        Some(self.user_names.iter().map(String::as_str).collect())
    }

    fn user_roles(&self) -> Option<Vec<&str>> {
        Some(self.roles.iter().map(String::as_str).collect())
    }

    fn user_access(&self, database: &str) -> Option<formula::host::UserAccess> {
        self.access.clone().filter(|_| database.is_empty())
    }

    fn replica_id(&self) -> Option<ReplicaId> {
        self.replica_id
    }
}
