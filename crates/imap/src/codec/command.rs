//! Commands as values.
//!
//! The decoder produces these values and the session consumes them. All strings are owned and decoded: mailbox names
//! and search texts are UTF-8, so modified UTF-7 and the CHARSET argument no longer occur. Keyword and attribute names
//! keep the client's spelling, and numbers are parsed. Every value from the decoder obeys [`crate::limits`].
//!
//! `UID FETCH` and the other UID commands are the same command as the plain form and differ only in [`Numbering`].

mod fetch;
mod flag;
mod mailbox;
mod notify;
mod search;
mod set;

pub use base::civil::Date;
pub use fetch::{FetchAttribute, PartPath, Partial, SectionSpec, SectionText};
pub use flag::{RequestedFlags, StoreAction, SystemFlags};
pub use mailbox::{ListCommand, ListReturns, ListSelection, MailboxName, QuotaLimit, SpecialUseAttribute, StatusItem};
pub use notify::{EventGroup, Events, MailboxFilter, NotifyCommand};
pub use search::{
    AddressField, SearchCommand, SearchKey, SearchReturns, SortCommand, SortCriterion, SortKey, ThreadAlgorithm,
    ThreadCommand,
};
pub use set::{Bound, MessageSet, SequenceRange, SequenceSet};

/// One complete command from the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The client's tag of this command. The final reply to the command begins with it.
    pub tag: String,
    /// The verb and its arguments.
    pub body: CommandBody,
}

/// Numbering of messages in a command and its responses: by sequence number or by UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// By position within the mailbox as the client knows it.
    Sequence,
    /// By unique identifier (the `UID` form of the command).
    Uid,
}

/// A command without its tag, one variant for each verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandBody {
    /// CAPABILITY.
    Capability,
    /// NOOP.
    Noop,
    /// LOGOUT.
    Logout,
    /// ID with the client's parameters.
    Id(Vec<(String, Option<String>)>),
    /// STARTTLS.
    StartTls,
    /// AUTHENTICATE.
    Authenticate {
        /// The SASL mechanism, in upper case.
        mechanism: String,
        /// The initial response as received, in base64.
        initial: Option<Vec<u8>>,
    },
    /// LOGIN.
    Login {
        /// The login name.
        user: String,
        /// The password, as received.
        password: Vec<u8>,
    },
    /// ENABLE with the names in upper case.
    Enable(Vec<String>),
    /// SELECT and EXAMINE.
    Select(SelectCommand),
    /// CREATE.
    Create {
        /// The new mailbox.
        mailbox: MailboxName,
        /// The USE parameter.
        special_use: Vec<SpecialUseAttribute>,
    },
    /// DELETE.
    Delete(MailboxName),
    /// RENAME.
    Rename {
        /// The current name.
        from: MailboxName,
        /// The new name.
        to: MailboxName,
    },
    /// SUBSCRIBE.
    Subscribe(MailboxName),
    /// UNSUBSCRIBE.
    Unsubscribe(MailboxName),
    /// LIST.
    List(ListCommand),
    /// LSUB.
    Lsub {
        /// The reference name.
        reference: MailboxName,
        /// The pattern. `None` if it cannot be decoded and so matches nothing.
        pattern: Option<String>,
    },
    /// NAMESPACE.
    Namespace,
    /// GETJMAPACCESS.
    GetJmapAccess,
    /// STATUS.
    Status {
        /// The mailbox.
        mailbox: MailboxName,
        /// The requested items, in the client's order.
        items: Vec<StatusItem>,
    },
    /// APPEND of one or several messages.
    Append {
        /// The target mailbox.
        mailbox: MailboxName,
        /// The messages.
        messages: Vec<AppendMessage>,
    },
    /// IDLE.
    Idle,
    /// NOTIFY.
    Notify(NotifyCommand),
    /// CHECK.
    Check,
    /// CLOSE.
    Close,
    /// UNSELECT.
    Unselect,
    /// EXPUNGE, or UID EXPUNGE with a set.
    Expunge(Option<MessageSet>),
    /// SEARCH.
    Search(SearchCommand),
    /// SORT.
    Sort(SortCommand),
    /// THREAD.
    Thread(ThreadCommand),
    /// FETCH.
    Fetch(FetchCommand),
    /// STORE.
    Store(StoreCommand),
    /// COPY.
    Copy(TransferCommand),
    /// MOVE.
    Move(TransferCommand),
    /// REPLACE.
    Replace(ReplaceCommand),
    /// COMPRESS with the algorithm in upper case.
    Compress(String),
    /// GETQUOTA.
    GetQuota(String),
    /// GETQUOTAROOT.
    GetQuotaRoot(MailboxName),
    /// SETQUOTA.
    SetQuota {
        /// The quota root.
        root: String,
        /// The requested limits.
        limits: Vec<QuotaLimit>,
    },
}

/// SELECT or EXAMINE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectCommand {
    /// The mailbox.
    pub mailbox: MailboxName,
    /// The access that the command requests.
    pub mode: SelectMode,
    /// `true` if `(CONDSTORE)` was given.
    pub condstore: bool,
    /// The QRESYNC parameter.
    pub qresync: Option<Qresync>,
}

/// The access to a selected mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectMode {
    /// SELECT.
    ReadWrite,
    /// EXAMINE.
    ReadOnly,
}

/// The state of the mailbox that a client last saw (RFC 7162 §3.2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qresync {
    /// The UIDVALIDITY known to the client.
    pub uid_validity: u32,
    /// The mod-sequence known to the client.
    pub modseq: u64,
    /// The UIDs known to the client. `None` means all.
    pub known_uids: Option<SequenceSet>,
    /// Sequence numbers and the UIDs that they had, in the same order.
    pub sequence_match: Option<(SequenceSet, SequenceSet)>,
}

/// One message of an APPEND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendMessage {
    /// The flags to set.
    pub flags: RequestedFlags,
    /// The internal date, in seconds since the epoch. `None` means the current time.
    pub received_seconds: Option<i64>,
    /// The message.
    pub raw: Vec<u8>,
}

/// FETCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchCommand {
    /// Numbering of messages.
    pub numbering: Numbering,
    /// The messages.
    pub set: MessageSet,
    /// The requested attributes.
    pub attributes: Vec<FetchAttribute>,
    /// If set, only messages changed after this mod-sequence are meant.
    pub changed_since: Option<u64>,
    /// `true` if UIDs that vanished since then are requested too (QRESYNC).
    pub vanished: bool,
}

/// STORE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCommand {
    /// Numbering of messages.
    pub numbering: Numbering,
    /// The messages.
    pub set: MessageSet,
    /// The way in which the flags are changed.
    pub action: StoreAction,
    /// `true` if the new flags need not be sent back (`.SILENT`).
    pub silent: bool,
    /// The flags.
    pub flags: RequestedFlags,
    /// If set, only messages not changed after this mod-sequence are changed.
    pub unchanged_since: Option<u64>,
}

/// COPY or MOVE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferCommand {
    /// Numbering of messages.
    pub numbering: Numbering,
    /// The messages.
    pub set: MessageSet,
    /// The target mailbox.
    pub mailbox: MailboxName,
}

/// REPLACE (RFC 8508).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplaceCommand {
    /// Numbering of the message.
    pub numbering: Numbering,
    /// The message to remove.
    pub target: Bound,
    /// The target mailbox of the new message.
    pub mailbox: MailboxName,
    /// The new message.
    pub message: AppendMessage,
}
