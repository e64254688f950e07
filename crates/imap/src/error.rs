//! Errors of commands, sorted by the party that must act, with the texts for the client.
//!
//! The client never sees the text of an inner error. Faults of the store or of a record are reported to it as
//! UNAVAILABLE or SERVERBUG, and the connection, which asks [`Error::is_server_fault`], logs them.

use crate::codec::ResponseStatus;

/// Result of a command.
pub type Result<T> = std::result::Result<T, Error>;

/// Reason why a command failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The client broke the protocol. The text names the fault.
    #[error("{0}")]
    Bad(&'static str),
    /// The client's request cannot be fulfilled. The text begins with a response code if one fits.
    #[error("{0}")]
    No(&'static str),
    /// The target mailbox of APPEND, COPY, MOVE or REPLACE does not exist. The client may create it.
    #[error("[TRYCREATE] there is no such mailbox")]
    TargetMailboxMissing,
    /// The selected mailbox was deleted by another session. The connection must end.
    #[error("the selected mailbox was deleted")]
    MailboxGone,
    /// A message was deleted, or can no longer be read, while it was being sent. The connection must end, because a
    /// literal cannot be ended early.
    #[error("the message can no longer be read while it is being sent")]
    ContentsGone,
    /// An error of the `mail` crate, whose variants state the party that must act.
    #[error(transparent)]
    Mail(#[from] mail::Error),
}

impl Error {
    /// Returns the status and the text for the client. The text includes the response code.
    #[must_use]
    pub fn reply(&self) -> (ResponseStatus, &'static str) {
        match self {
            Self::Bad(text) => (ResponseStatus::Bad, text),
            Self::No(text) => (ResponseStatus::No, text),
            Self::TargetMailboxMissing => (ResponseStatus::No, "[TRYCREATE] there is no such mailbox"),
            Self::MailboxGone => (ResponseStatus::No, "[NONEXISTENT] the mailbox was deleted"),
            Self::ContentsGone => (ResponseStatus::No, "[EXPUNGEISSUED] the message can no longer be read"),
            Self::Mail(error) => (ResponseStatus::No, mail_error_text(error)),
        }
    }

    /// Returns `true` if stored data is damaged. If the error is about one message, others can still be read.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Mail(error) if error.is_damage())
    }

    /// Returns `true` if the operator must be informed, because no action of a client should cause this error.
    #[must_use]
    pub fn is_server_fault(&self) -> bool {
        matches!(
            self,
            Self::Mail(
                mail::Error::Damaged(_)
                    | mail::Error::Notes(
                        notes::Error::Store(_) | notes::Error::Damaged { .. } | notes::Error::NewerOds { .. }
                    )
            )
        )
    }
}

fn mail_error_text(error: &mail::Error) -> &'static str {
    match error {
        mail::Error::NoMailbox(_) => "[NONEXISTENT] there is no such mailbox",
        mail::Error::MailboxExists(_) => "[ALREADYEXISTS] the mailbox exists already",
        mail::Error::MailboxRefused { .. } => "[CANNOT] the operation is not possible with this mailbox or name",
        mail::Error::OverQuota { .. } => "[OVERQUOTA] the quota would be exceeded",
        mail::Error::TooLarge { .. } => "[TOOBIG] the message is too large",
        mail::Error::Notes(error) => notes_error_text(error),
        _ => "[SERVERBUG] a stored record is damaged; the administrator has been informed",
    }
}

fn notes_error_text(error: &notes::Error) -> &'static str {
    match error {
        notes::Error::AccessDenied { .. } | notes::Error::NotAuthor { .. } => "[NOPERM] access denied",
        notes::Error::NotFound { .. } => "[NONEXISTENT] the object does not exist",
        notes::Error::Exists { .. } => "[ALREADYEXISTS] the object exists already",
        notes::Error::Conflict { .. } | notes::Error::OtherVersion { .. } => {
            "[INUSE] another session changed the object at the same time"
        }
        notes::Error::NotEmpty { .. } => "[CANNOT] the object is not empty",
        notes::Error::Invalid { .. } | notes::Error::Formula { .. } => "[CANNOT] the value is not valid",
        notes::Error::Limit { .. } => "[LIMIT] a limit would be exceeded",
        notes::Error::Store(_) => "[UNAVAILABLE] the store is temporarily unavailable",
        notes::Error::NewerOds { .. } => {
            "[UNAVAILABLE] the data was written by a newer server; the administrator has been informed"
        }
        _ => "[SERVERBUG] a stored record is damaged; the administrator has been informed",
    }
}
