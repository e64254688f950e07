//! What can be wrong with a command's syntax, and what the client is told about it.
//!
//! Every variant is the client's to mend. A refusal always ends the command, so that the client and the server agree
//! again at the next line.

use super::writer::Status;

/// A command that could not be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The line does not begin with a tag.
    #[error("a command begins with a tag and a space")]
    NoTag,
    /// There is no such command.
    #[error("unknown command")]
    UnknownCommand,
    /// Something else should stand here.
    #[error("expected {0}")]
    Expected(&'static str),
    /// More of something than the server takes.
    #[error("[LIMIT] too many or too long: {0}")]
    Limit(&'static str),
    /// The line has no end within the limit.
    #[error("the line is too long")]
    LineTooLong,
    /// A literal is larger than allowed for this command.
    #[error("[TOOBIG] the literal is too large")]
    LiteralTooBig,
    /// The charset of a search is not known.
    #[error("[BADCHARSET (US-ASCII UTF-8)] unknown charset")]
    BadCharset,
    /// The special use is none that is known.
    #[error("[USEATTR] unknown special use")]
    UnknownSpecialUse,
    /// Some event of NOTIFY is not known.
    #[error(
        "[BADEVENT (MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange)] there is no such event here"
    )]
    BadEvent,
    /// The mailbox name cannot be decoded or is too long.
    #[error("[CANNOT] not a mailbox name")]
    MailboxName,
}

impl SyntaxError {
    /// Gives the status that tells the client whether to change its syntax (BAD) or its wishes (NO).
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::NoTag | Self::UnknownCommand | Self::Expected(_) | Self::LineTooLong => Status::Bad,
            Self::Limit(_)
            | Self::LiteralTooBig
            | Self::BadCharset
            | Self::BadEvent
            | Self::MailboxName
            | Self::UnknownSpecialUse => Status::No,
        }
    }
}
