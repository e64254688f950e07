//! What NOTIFY asks for (RFC 5465): groups of mailboxes and the events that matter in them.
//!
//! The decoder sees to it that the events of a group go together, that fetch attributes stand only with the selected mailbox, and
//! that this has events of messages only.

use super::{FetchAttribute, MailboxName};

/// NOTIFY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifyCommand {
    /// The client wants to hear of nothing.
    None,
    /// The client wants to hear of these.
    Set {
        /// Whether it wants to be told how the mailboxes are now.
        status: bool,
        /// The first group that a mailbox is in counts.
        groups: Vec<EventGroup>,
    },
}

/// Mailboxes, and what matters in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventGroup {
    /// Which mailboxes.
    pub filter: MailboxFilter,
    /// Which events.
    pub events: Events,
}

/// Which mailboxes a group is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailboxFilter {
    /// The selected one; all is told at once.
    Selected,
    /// The selected one; expunges are told when numbers may move.
    SelectedDelayed,
    /// Those that mail is delivered to.
    Inboxes,
    /// All of the user's.
    Personal,
    /// Those that the user has subscribed to.
    Subscribed,
    /// These and those below.
    Subtree(Vec<MailboxName>),
    /// These.
    Mailboxes(Vec<MailboxName>),
}

/// The events of a group; none of them is `NONE`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Events {
    /// MessageNew and MessageExpunge, which go together.
    pub messages: bool,
    /// What is to be told of new messages.
    pub attributes: Vec<FetchAttribute>,
    /// FlagChange
    pub flags: bool,
    /// MailboxName
    pub names: bool,
    /// SubscriptionChange
    pub subscriptions: bool,
}
