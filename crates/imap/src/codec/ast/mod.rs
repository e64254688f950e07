//! Commands as values.
//!
//! What the decoder gives and the session takes. All texts are owned and decoded: mailbox names and search texts
//! are UTF-8 (modified UTF-7 and the CHARSET argument are gone), keyword and attribute names keep the client's
//! spelling, numbers are numbers. What has passed the decoder obeys [`crate::limits`].
//!
//! `UID FETCH` and its siblings are the same command as `FETCH`, told apart by [`Numbering`].

mod fetch;
mod flag;
mod mailbox;
mod notify;
mod search;
mod set;

pub use fetch::{FetchAttribute, PartPath, Partial, Section, SectionText};
pub use flag::{FlagList, StoreAction, SystemFlag, SystemFlags};
pub use mailbox::{
    ListCommand, ListReturns, ListSelection, MailboxName, QuotaLimit, SpecialUse, StatusItem, StatusItems,
};
pub use notify::{EventGroup, Events, MailboxFilter, NotifyCommand};
pub use search::{
    AddressField, Date, SearchCommand, SearchKey, SearchReturns, SortCommand, SortCriterion, SortKey, ThreadAlgorithm,
    ThreadCommand,
};
pub use set::{Bound, MessageSet, SequenceRange, SequenceSet};

/// One complete command of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What the client calls this command; every reply to it begins with these bytes.
    pub tag: String,
    /// What is to be done.
    pub body: CommandBody,
}

/// Whether a command's messages are given, and answered, by sequence number or by UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// By position within the mailbox as the client knows it.
    Sequence,
    /// By unique identifier (the `UID` form of the command).
    Uid,
}

/// What a command asks for, one variant for each verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandBody {
    /// CAPABILITY
    Capability,
    /// NOOP
    Noop,
    /// LOGOUT
    Logout,
    /// ID with the client's parameters
    Id(Vec<(String, Option<String>)>),
    /// STARTTLS
    StartTls,
    /// AUTHENTICATE; the initial response is already decoded from base64
    Authenticate {
        /// The SASL mechanism, in upper case.
        mechanism: String,
        /// The initial response; an empty one was sent as `=`.
        initial: Option<Vec<u8>>,
    },
    /// LOGIN
    Login {
        /// The login name.
        user: String,
        /// The password, as it came.
        password: Vec<u8>,
    },
    /// ENABLE with the names in upper case
    Enable(Vec<String>),
    /// SELECT and EXAMINE
    Select(SelectCommand),
    /// CREATE
    Create {
        /// The new mailbox.
        mailbox: MailboxName,
        /// The USE parameter.
        special_use: Vec<SpecialUse>,
    },
    /// DELETE
    Delete(MailboxName),
    /// RENAME
    Rename {
        /// The present name.
        from: MailboxName,
        /// The future name.
        to: MailboxName,
    },
    /// SUBSCRIBE
    Subscribe(MailboxName),
    /// UNSUBSCRIBE
    Unsubscribe(MailboxName),
    /// LIST
    List(ListCommand),
    /// LSUB
    Lsub {
        /// The reference name.
        reference: MailboxName,
        /// The pattern; none if it cannot be decoded and so matches nothing.
        pattern: Option<String>,
    },
    /// NAMESPACE
    Namespace,
    /// STATUS
    Status {
        /// Which mailbox.
        mailbox: MailboxName,
        /// What is asked of it.
        items: StatusItems,
    },
    /// APPEND of one or several messages
    Append {
        /// Where to.
        mailbox: MailboxName,
        /// What.
        messages: Vec<AppendMessage>,
    },
    /// IDLE
    Idle,
    /// NOTIFY
    Notify(NotifyCommand),
    /// CHECK
    Check,
    /// CLOSE
    Close,
    /// UNSELECT
    Unselect,
    /// EXPUNGE, or UID EXPUNGE with a set
    Expunge(Option<MessageSet>),
    /// SEARCH
    Search(SearchCommand),
    /// SORT
    Sort(SortCommand),
    /// THREAD
    Thread(ThreadCommand),
    /// FETCH
    Fetch(FetchCommand),
    /// STORE
    Store(StoreCommand),
    /// COPY
    Copy(TransferCommand),
    /// MOVE
    Move(TransferCommand),
    /// REPLACE
    Replace(ReplaceCommand),
    /// COMPRESS with the algorithm in upper case
    Compress(String),
    /// GETQUOTA
    GetQuota(String),
    /// GETQUOTAROOT
    GetQuotaRoot(MailboxName),
    /// SETQUOTA
    SetQuota {
        /// The quota root.
        root: String,
        /// The wanted limits.
        limits: Vec<QuotaLimit>,
    },
}

/// SELECT or EXAMINE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectCommand {
    /// Which mailbox.
    pub mailbox: MailboxName,
    /// SELECT or EXAMINE.
    pub mode: SelectMode,
    /// Whether `(CONDSTORE)` was given.
    pub condstore: bool,
    /// The QRESYNC parameter.
    pub qresync: Option<Qresync>,
}

/// What may be done to the selected mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectMode {
    /// SELECT
    ReadWrite,
    /// EXAMINE
    ReadOnly,
}

/// What a client knew when it last saw the mailbox (RFC 7162 §3.2.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qresync {
    /// The UIDVALIDITY that it knew.
    pub uid_validity: u32,
    /// The mod-sequence that it knew.
    pub modseq: u64,
    /// The UIDs that it knew; all when absent.
    pub known_uids: Option<SequenceSet>,
    /// Sequence numbers and the UIDs that they had, in the same order.
    pub sequence_match: Option<(SequenceSet, SequenceSet)>,
}

/// One message of an APPEND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendMessage {
    /// The flags to set.
    pub flags: FlagList,
    /// The internal date, in seconds since the epoch; now when absent.
    pub received_seconds: Option<i64>,
    /// The message.
    pub raw: Vec<u8>,
}

/// FETCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchCommand {
    /// How messages are numbered.
    pub numbering: Numbering,
    /// Which messages.
    pub set: MessageSet,
    /// What of them.
    pub attributes: Vec<FetchAttribute>,
    /// Only messages changed after this mod-sequence.
    pub changed_since: Option<u64>,
    /// Whether UIDs that vanished since then are wanted too (QRESYNC).
    pub vanished: bool,
}

/// STORE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreCommand {
    /// How messages are numbered.
    pub numbering: Numbering,
    /// Which messages.
    pub set: MessageSet,
    /// What to do with the flags.
    pub action: StoreAction,
    /// Whether the new flags need not be answered (`.SILENT`).
    pub silent: bool,
    /// Which flags.
    pub flags: FlagList,
    /// Only messages not changed after this mod-sequence.
    pub unchanged_since: Option<u64>,
}

/// COPY or MOVE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferCommand {
    /// How messages are numbered.
    pub numbering: Numbering,
    /// Which messages.
    pub set: MessageSet,
    /// Where to.
    pub mailbox: MailboxName,
}

/// REPLACE (RFC 8508).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplaceCommand {
    /// How the message is numbered.
    pub numbering: Numbering,
    /// The message that goes.
    pub target: Bound,
    /// Where the new one comes to.
    pub mailbox: MailboxName,
    /// The new one.
    pub message: AppendMessage,
}
