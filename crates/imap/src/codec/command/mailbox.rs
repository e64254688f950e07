//! Mailbox names, and the arguments of LIST, STATUS and the quota commands.

use mail::mailbox::canonical_name;

/// The name of a mailbox: UTF-8, with levels separated by `/`. `INBOX` is in upper case, however the client wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxName(String);

impl MailboxName {
    /// Creates a mailbox name from a decoded name. If the first level spells `INBOX` in any case, it is converted to
    /// upper case.
    #[must_use]
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(canonical_name(name.as_ref()))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if this is the INBOX.
    #[must_use]
    pub fn is_inbox(&self) -> bool {
        self.0 == "INBOX"
    }
}

/// LIST with the extensions of RFC 5258 and RFC 5819.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListCommand {
    /// The selection options. None is set in the basic form of the command.
    pub selection: ListSelection,
    /// The reference name.
    pub reference: MailboxName,
    /// The decoded patterns. Patterns that cannot be decoded are omitted, because they match nothing.
    pub patterns: Vec<String>,
    /// The return options.
    pub returns: ListReturns,
    /// `true` if the command used any extended syntax.
    pub extended: bool,
}

/// Selection options of LIST.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListSelection {
    /// SUBSCRIBED.
    pub subscribed: bool,
    /// REMOTE.
    pub remote: bool,
    /// RECURSIVEMATCH.
    pub recursive_match: bool,
    /// SPECIAL-USE.
    pub special_use: bool,
}

/// Return options of LIST: the data to send for each mailbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListReturns {
    /// SUBSCRIBED.
    pub subscribed: bool,
    /// CHILDREN.
    pub children: bool,
    /// SPECIAL-USE.
    pub special_use: bool,
    /// STATUS with its items.
    pub status: Option<Vec<StatusItem>>,
}

/// A special use of a mailbox (RFC 6154).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialUseAttribute {
    /// `\All`.
    All,
    /// `\Archive`.
    Archive,
    /// `\Drafts`.
    Drafts,
    /// `\Flagged`.
    Flagged,
    /// `\Important` (RFC 8457).
    Important,
    /// `\Junk`.
    Junk,
    /// `\Sent`.
    Sent,
    /// `\Trash`.
    Trash,
}

impl SpecialUseAttribute {
    const ALL: [Self; 8] =
        [Self::All, Self::Archive, Self::Drafts, Self::Flagged, Self::Important, Self::Junk, Self::Sent, Self::Trash];

    /// Returns the attribute with its backslash.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "\\All",
            Self::Archive => "\\Archive",
            Self::Drafts => "\\Drafts",
            Self::Flagged => "\\Flagged",
            Self::Important => "\\Important",
            Self::Junk => "\\Junk",
            Self::Sent => "\\Sent",
            Self::Trash => "\\Trash",
        }
    }

    /// Returns the special use with this attribute. Case is ignored.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|special_use| special_use.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// An item that STATUS can return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusItem {
    /// MESSAGES.
    Messages,
    /// RECENT.
    Recent,
    /// UIDNEXT.
    UidNext,
    /// UIDVALIDITY.
    UidValidity,
    /// UNSEEN.
    Unseen,
    /// DELETED.
    Deleted,
    /// DELETED-STORAGE (RFC 9208).
    DeletedStorage,
    /// SIZE.
    Size,
    /// HIGHESTMODSEQ.
    HighestModSeq,
    /// APPENDLIMIT.
    AppendLimit,
    /// MAILBOXID.
    MailboxId,
}

/// A limit that SETQUOTA requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLimit {
    /// The resource, in upper case.
    pub resource: String,
    /// The requested limit, in the resource's unit.
    pub limit: u64,
}
