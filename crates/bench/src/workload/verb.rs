//! Verbs: the actions of a user, with their weights in transactions and the keys of their steps.
//!
//! docs/notesbench.md ("Verbs and transactions") derives the weights.

use serde::Serialize;

/// Version of the weights. A changed weight is a new version.
pub const TRANSACTIONS_VERSION: u32 = 1;

/// Transactions of a message that is saved when it is sent, as `add`.
pub const COPY_TRANSACTIONS: u64 = 2;

/// An action of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    LogIn,
    OpenDatabase,
    OpenView,
    ScrollView,
    Poll,
    ListUnread,
    Read,
    ReadAttachment,
    Update,
    Add,
    Respond,
    Move,
    Delete,
    Search,
    Lookup,
    Send,
    Reply,
    Appointment,
    Invite,
    Accept,
    Replicate,
    Pull,
    RebuildView,
    Wait,
    CloseView,
    CloseDatabase,
}

/// The verbs that a step may have. `log_in` follows from `session`.
pub const STEP_VERBS: &[(&str, Verb)] = &[
    ("open_database", Verb::OpenDatabase),
    ("open_view", Verb::OpenView),
    ("scroll_view", Verb::ScrollView),
    ("poll", Verb::Poll),
    ("list_unread", Verb::ListUnread),
    ("read", Verb::Read),
    ("read_attachment", Verb::ReadAttachment),
    ("update", Verb::Update),
    ("add", Verb::Add),
    ("respond", Verb::Respond),
    ("move", Verb::Move),
    ("delete", Verb::Delete),
    ("search", Verb::Search),
    ("lookup", Verb::Lookup),
    ("send", Verb::Send),
    ("reply", Verb::Reply),
    ("appointment", Verb::Appointment),
    ("invite", Verb::Invite),
    ("accept", Verb::Accept),
    ("replicate", Verb::Replicate),
    ("pull", Verb::Pull),
    ("rebuild_view", Verb::RebuildView),
    ("wait", Verb::Wait),
    ("close_view", Verb::CloseView),
    ("close_database", Verb::CloseDatabase),
];

impl Verb {
    /// Returns all verbs in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::LogIn].into_iter().chain(STEP_VERBS.iter().map(|(_, verb)| *verb))
    }

    /// Returns the word of a workload file.
    pub fn word(self) -> &'static str {
        STEP_VERBS.iter().find(|(_, verb)| *verb == self).map_or("log_in", |(word, _)| word)
    }

    /// Returns the transactions of one action, without those that follow from its keys.
    pub fn transactions(self) -> u64 {
        match self {
            Self::Wait | Self::CloseView => 0,
            Self::OpenDatabase | Self::Add | Self::Respond => 2,
            Self::Search | Self::Replicate => 3,
            Self::Accept => 7,
            _ => 1,
        }
    }

    /// Returns the keys of a step besides those that every step has.
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Self::OpenView | Self::RebuildView => &["view"],
            Self::ScrollView => &["rows", "at"],
            Self::Read => &["of", "attachments"],
            Self::ReadAttachment | Self::Update | Self::Delete => &["of"],
            Self::Move => &["of", "to"],
            Self::Add => &["bytes", "profile"],
            Self::Respond => &["bytes", "profile", "of"],
            Self::Lookup => &["names"],
            Self::Send => &["recipients", "to", "profile", "bytes", "copy", "from"],
            Self::Reply => &["of", "profile", "bytes", "copy"],
            Self::Invite => &["recipients"],
            Self::Search => &["words"],
            Self::Pull => &["method"],
            _ => &[],
        }
    }
}
