//! Syntax errors in commands, and their texts for the client.
//!
//! The client can correct every one of them. A refusal always ends the command, so that client and server are
//! synchronized again at the next line.

use super::writer::ResponseStatus;

/// Reason why a command was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The line does not begin with a tag.
    #[error("a command must begin with a tag and a space")]
    NoTag,
    /// The command does not exist.
    #[error("unknown command")]
    UnknownCommand,
    /// Another element is expected at this position.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The command exceeds a limit of the server.
    #[error("[LIMIT] too many or too long: {0}")]
    Limit(&'static str),
    /// The line does not end within the limit.
    #[error("the line is too long")]
    LineTooLong,
    /// A literal is larger than this command allows.
    #[error("[TOOBIG] the literal is too large")]
    LiteralTooBig,
    /// The server has no memory left for the command.
    #[error("[LIMIT] no memory is left for this command, try again later")]
    NoMemory,
    /// The charset of a search is unknown.
    #[error("[BADCHARSET (US-ASCII UTF-8)] unknown charset")]
    BadCharset,
    /// The special use is unknown.
    #[error("[USEATTR] unknown special use")]
    UnknownSpecialUse,
    /// An event of NOTIFY is unknown.
    #[error("[BADEVENT (MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange)] unsupported event")]
    BadEvent,
    /// The mailbox name cannot be decoded or is too long.
    #[error("[CANNOT] invalid mailbox name")]
    MailboxName,
}

impl SyntaxError {
    /// Returns the status of the reply: BAD if the client must change its syntax, NO if it must change its request.
    #[must_use]
    pub fn status(self) -> ResponseStatus {
        match self {
            Self::NoTag | Self::UnknownCommand | Self::Expected(_) | Self::LineTooLong => ResponseStatus::Bad,
            Self::Limit(_)
            | Self::LiteralTooBig
            | Self::NoMemory
            | Self::BadCharset
            | Self::BadEvent
            | Self::MailboxName
            | Self::UnknownSpecialUse => ResponseStatus::No,
        }
    }
}
