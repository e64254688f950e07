//! Arguments of SEARCH, SORT and THREAD.
//!
//! Equivalent keys share one variant: `UNSEEN` is `Not(System(Seen))`, `NEW` is `And([Recent, Not(System(Seen))])`,
//! `OLD` is `Not(Recent)`, `UNKEYWORD x` is `Not(Keyword(x))`. Before matching, the session replaces
//! [`SearchKey::Sequence`] and `$` by [`SearchKey::Uid`] with plain numbers, so a matcher sees only those.

use base::civil::Date;

use super::set::MessageSet;

/// SEARCH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchCommand {
    /// Numbering of messages in the response.
    pub numbering: super::Numbering,
    /// The RETURN options. `None` means the IMAP4rev1 response.
    pub returns: Option<SearchReturns>,
    /// The condition that messages must match.
    pub key: SearchKey,
}

/// SORT (RFC 5256).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortCommand {
    /// Numbering of messages in the response.
    pub numbering: super::Numbering,
    /// The RETURN options (ESORT, RFC 5267).
    pub returns: Option<SearchReturns>,
    /// The sort criteria, at least one.
    pub criteria: Vec<SortCriterion>,
    /// The condition that messages must match.
    pub key: SearchKey,
}

/// THREAD (RFC 5256).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadCommand {
    /// Numbering of messages in the response.
    pub numbering: super::Numbering,
    /// The threading algorithm.
    pub algorithm: ThreadAlgorithm,
    /// The condition that messages must match.
    pub key: SearchKey,
}

/// The options of `RETURN (...)`. An empty list means ALL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchReturns {
    /// MIN.
    pub min: bool,
    /// MAX.
    pub max: bool,
    /// ALL.
    pub all: bool,
    /// COUNT.
    pub count: bool,
    /// SAVE.
    pub save: bool,
}

/// A condition on messages (RFC 9051 §6.4.4 and extensions).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchKey {
    /// Every message.
    All,
    /// All of these conditions hold.
    And(Vec<SearchKey>),
    /// At least one of these two conditions holds.
    Or(Box<SearchKey>, Box<SearchKey>),
    /// This condition does not hold.
    Not(Box<SearchKey>),
    /// The flag is set.
    System(super::SystemFlags),
    /// The keyword is set.
    Keyword(String),
    /// The message is recent in this session.
    Recent,
    /// The internal date is before this day, in the server's time zone (UTC) and ignoring the time of day.
    Before(Date),
    /// The internal date is on this day.
    On(Date),
    /// The internal date is on or after this day.
    Since(Date),
    /// The Date header is before this day, ignoring its time zone.
    SentBefore(Date),
    /// The Date header is on this day.
    SentOn(Date),
    /// The Date header is on or after this day.
    SentSince(Date),
    /// The save date is before this day (RFC 8514).
    SavedBefore(Date),
    /// The save date is on this day.
    SavedOn(Date),
    /// The save date is on or after this day.
    SavedSince(Date),
    /// The mailbox keeps save dates.
    SaveDateSupported,
    /// The internal date is at least this many seconds ago (RFC 5032).
    Older(u32),
    /// The internal date is at most this many seconds ago.
    Younger(u32),
    /// The text occurs in this address field.
    Address(AddressField, String),
    /// The text occurs in the subject.
    Subject(String),
    /// The text occurs in this header field. An empty text only requires that the field exists.
    Header {
        /// The name of the field.
        name: String,
        /// The text.
        value: String,
    },
    /// The text occurs in the body.
    Body(String),
    /// The text occurs in the header or the body.
    Text(String),
    /// The size in octets is larger.
    Larger(u64),
    /// The size in octets is smaller.
    Smaller(u64),
    /// The sequence number is in the set. The session replaces this key by [`SearchKey::Uid`].
    Sequence(MessageSet),
    /// The UID is in the set.
    Uid(MessageSet),
    /// The mod-sequence is at least this value (RFC 7162).
    ModSeq(u64),
    /// The EMAILID equals this value (RFC 8474).
    EmailId(String),
    /// The THREADID equals this value (RFC 8474).
    ThreadId(String),
}

/// An address field that has its own search key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressField {
    /// BCC.
    Bcc,
    /// CC.
    Cc,
    /// FROM.
    From,
    /// TO.
    To,
}

/// One criterion of SORT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortCriterion {
    /// The sort key.
    pub key: SortKey,
    /// `true` for descending order (REVERSE).
    pub reverse: bool,
}

/// A sort key of SORT (RFC 5256, RFC 5957).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortKey {
    /// ARRIVAL: the internal date.
    Arrival,
    /// CC: the mailbox of the first address.
    Cc,
    /// DATE: the Date header, or else the internal date.
    Date,
    /// DISPLAYFROM: the display name of the first From address.
    DisplayFrom,
    /// DISPLAYTO: the display name of the first To address.
    DisplayTo,
    /// FROM: the mailbox of the first address.
    From,
    /// SIZE.
    Size,
    /// SUBJECT: the base subject.
    Subject,
    /// TO: the mailbox of the first address.
    To,
}

/// A threading algorithm of THREAD (RFC 5256).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadAlgorithm {
    /// ORDEREDSUBJECT.
    OrderedSubject,
    /// REFERENCES.
    References,
}
