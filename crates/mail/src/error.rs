//! Errors of the mail crate, sorted by the party that must act.

/// The result of an operation on mail.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why an operation on mail failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A stored record differs from the one that was written. The operator restores a backup or repairs the database
    /// (`doublet fixup`).
    #[error("damaged {0}")]
    Damaged(&'static str),
    /// An operation on databases or notes failed. That error states the party that must act.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// The named mailbox does not exist.
    #[error("mailbox {0} does not exist")]
    NoMailbox(String),
    /// The named mailbox exists already.
    #[error("mailbox {0} exists already")]
    MailboxExists(String),
    /// The mailbox cannot be used in this way.
    #[error("mailbox {name}: {reason}")]
    MailboxRefused { name: String, reason: &'static str },
    /// The operation would exceed the user's quota. The user deletes messages, or the operator raises the quota.
    #[error("over quota: {used_bytes} of {limit_bytes} bytes are used")]
    OverQuota { used_bytes: u64, limit_bytes: u64 },
    /// The message is larger than the server accepts.
    #[error("the message has {size_bytes} bytes, but at most {max_bytes} are accepted")]
    TooLarge { size_bytes: u64, max_bytes: u64 },
    /// The sender of the message was notified about it before.
    #[error("the sender of the message was notified before")]
    AlreadyNotified,
    /// The message that a notification is about was deleted before the notification was sent.
    #[error("the message does not exist any more")]
    NotifiedMessageGone,
    /// A service cannot answer now. The server has logged why, and the client tries again later.
    #[error("the {0} cannot be read now; try again later")]
    Unavailable(&'static str),
}

impl Error {
    /// Returns `true` if stored data is damaged. If the error is about one message, others can still be read.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Damaged(_)
                | Self::Notes(notes::Error::Damaged { .. } | notes::Error::Store(store::Error::Damaged { .. }))
        )
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Notes(error.into())
    }
}

impl From<crate::mime::DamagedRecord> for Error {
    fn from(crate::mime::DamagedRecord(record): crate::mime::DamagedRecord) -> Self {
        Self::Damaged(record)
    }
}
