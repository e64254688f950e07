//! What can go wrong with mail, sorted by who must act.

/// The result of an operation on mail.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on mail failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A stored record is not what was written. The operator restores or repairs (`doublet fixup`).
    #[error("damaged {0}")]
    Damaged(&'static str),
    /// Databases or notes failed; see there who must act.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// The named mailbox does not exist.
    #[error("mailbox {0} does not exist")]
    NoMailbox(String),
    /// The named mailbox exists already.
    #[error("mailbox {0} exists already")]
    MailboxExists(String),
    /// The mailbox cannot be used that way.
    #[error("mailbox {name}: {why}")]
    MailboxRefused { name: String, why: &'static str },
    /// The user's quota would be passed. The user deletes, or the operator raises the quota.
    #[error("over quota: {used_bytes} of {limit_bytes} bytes are used")]
    OverQuota { used_bytes: u64, limit_bytes: u64 },
    /// The message is larger than the server takes.
    #[error("the message has {size_bytes} bytes, at most {max_bytes} are taken")]
    TooLarge { size_bytes: u64, max_bytes: u64 },
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Notes(error.into())
    }
}

impl From<crate::mime::Damaged> for Error {
    fn from(crate::mime::Damaged(what): crate::mime::Damaged) -> Self {
        Self::Damaged(what)
    }
}
