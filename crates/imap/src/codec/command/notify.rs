//! Arguments of NOTIFY (RFC 5465): groups of mailboxes, and the events to report for each group.
//!
//! The decoder ensures that the events of a group are consistent with each other, that fetch attributes occur only in
//! the group of the selected mailbox, and that this group contains only message events.

use super::{FetchAttribute, MailboxName};

/// NOTIFY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifyCommand {
    /// No events are reported.
    None,
    /// The events of these groups are reported.
    Set {
        /// `true` if the client requests the current status of the mailboxes.
        status: bool,
        /// The groups. The first group that contains a mailbox applies to it.
        groups: Vec<EventGroup>,
    },
}

/// A group of mailboxes and the events to report for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventGroup {
    /// The mailboxes.
    pub filter: MailboxFilter,
    /// The events.
    pub events: Events,
}

/// The mailboxes of an event group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailboxFilter {
    /// The selected mailbox, with all events reported immediately.
    Selected,
    /// The selected mailbox, with expunges reported only when sequence numbers may change.
    SelectedDelayed,
    /// Mailboxes that mail is delivered to.
    Inboxes,
    /// All mailboxes of the user.
    Personal,
    /// Mailboxes that the user has subscribed to.
    Subscribed,
    /// These mailboxes and those below them.
    Subtree(Vec<MailboxName>),
    /// These mailboxes.
    Mailboxes(Vec<MailboxName>),
}

/// The events of a group. If none is set, the group is `NONE`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Events {
    /// MessageNew and MessageExpunge, which always occur together.
    pub messages: bool,
    /// The attributes to send for new messages.
    pub attributes: Vec<FetchAttribute>,
    /// FlagChange.
    pub flags: bool,
    /// MailboxName.
    pub names: bool,
    /// SubscriptionChange.
    pub subscriptions: bool,
}
