//! The reasons for which a message or a recipient is refused.
//!
//! The text of a refusal is for the peer. Each refusal has a reply code and an enhanced status code (RFC 3463), which
//! SMTP sends and delivery reports contain. Other protocols map the variants to errors of their own.

/// The reason for which a sender, a recipient or a message is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The domain is local, but the address does not exist.
    #[error("User unknown")]
    UnknownRecipient,
    /// The recipient's account is disabled.
    #[error("Mailbox disabled")]
    RecipientDisabled,
    /// The recipient's address is not valid.
    #[error("{0}")]
    InvalidRecipient(directory::AddressError),
    /// The domain of the recipient's address is the literal of a special-purpose address.
    #[error("Mail to private or reserved addresses is not permitted")]
    Destination,
    /// The address exists and cannot receive mail. The text states why.
    #[error("{0}")]
    NotForMail(String),
    /// The recipient's mailbox has no space.
    #[error("Mailbox full")]
    MailboxFull,
    /// The list of recipients is empty or too long.
    #[error("{0}")]
    RecipientCount(&'static str),
    /// The sender has caused too many deliveries to members of groups.
    #[error("Too many messages to members of groups, try again later")]
    GroupRate,
    /// The user's account was disabled or removed since the login.
    #[error("Your account was disabled or removed")]
    AccountClosed,
    /// The envelope sender is not an address of the user.
    #[error("{0}")]
    Sender(String),
    /// An author in `From` is not an address of the user.
    #[error("{0} is not one of your addresses; From may contain only your own addresses")]
    Author(String),
    /// The message is larger than the server accepts.
    #[error("The message is too large")]
    TooLarge,
    /// The message has too many `Received` fields.
    #[error("Too many hops, this message loops")]
    Loop,
    /// The header of the message is not valid.
    #[error("{0}")]
    Malformed(&'static str),
    /// The sender of the message that a notification is about was notified before.
    #[error("The sender of the message was notified before")]
    AlreadyNotified,
    /// The message that a notification is about was deleted meanwhile.
    #[error("The message does not exist any more")]
    NotifiedMessageGone,
    /// The queue or the disk is full.
    #[error("Insufficient system storage, try again later")]
    InsufficientStorage,
    /// This server cannot answer at present.
    #[error("{0}, try again later")]
    Unavailable(&'static str),
}

impl Refusal {
    /// A temporary failure of this server.
    pub const LOCAL_ERROR: Self = Self::Unavailable("Local error");

    /// Returns the reply code and the enhanced status code: class, subject and detail (RFC 3463).
    #[must_use]
    pub fn codes(&self) -> (u16, (u8, u16, u16)) {
        match self {
            Self::UnknownRecipient => (550, (5, 1, 1)),
            Self::RecipientDisabled => (550, (5, 2, 1)),
            Self::InvalidRecipient(_) => (553, (5, 1, 3)),
            Self::Destination => (550, (5, 1, 2)),
            Self::NotForMail(_) => (550, (5, 2, 4)),
            Self::MailboxFull => (452, (4, 2, 2)),
            Self::RecipientCount(_) => (452, (4, 5, 3)),
            Self::GroupRate => (452, (4, 7, 1)),
            Self::AccountClosed | Self::Author(_) => (550, (5, 7, 1)),
            Self::Sender(_) => (553, (5, 7, 1)),
            Self::TooLarge => (552, (5, 3, 4)),
            Self::Loop => (554, (5, 4, 6)),
            Self::AlreadyNotified | Self::NotifiedMessageGone => (550, (5, 7, 0)),
            Self::Malformed(_) => (550, (5, 6, 0)),
            Self::InsufficientStorage => (452, (4, 3, 1)),
            Self::Unavailable(_) => (451, (4, 3, 0)),
        }
    }

    /// Returns the reply about a recipient for a delivery report.
    #[must_use]
    pub fn reply_about(&self, address: &str) -> String {
        let (code, (class, subject, detail)) = self.codes();
        format!("{code} {class}.{subject}.{detail} {self}: {address}")
    }
}

impl From<&crate::Error> for Refusal {
    fn from(error: &crate::Error) -> Self {
        match error {
            crate::Error::TooLarge { .. } => Self::TooLarge,
            crate::Error::OverQuota { .. } => Self::MailboxFull,
            crate::Error::AlreadyNotified => Self::AlreadyNotified,
            crate::Error::NotifiedMessageGone => Self::NotifiedMessageGone,
            crate::Error::Notes(notes::Error::Store(store::Error::Full(_))) => Self::InsufficientStorage,
            _ => Self::LOCAL_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_temporary_unless_the_message_is_at_fault() {
        let full = store::Error::Full("disk".to_owned());
        let check = |error: &crate::Error, code| assert_eq!(Refusal::from(error).codes().0, code, "{error}");
        check(&crate::Error::TooLarge { size_bytes: 2, max_bytes: 1 }, 552);
        check(&crate::Error::OverQuota { used_bytes: 2, limit_bytes: 1 }, 452);
        check(&full.into(), 452);
        check(&crate::Error::Damaged("note"), 451);
    }

    #[test]
    fn reply_names_the_codes_and_the_address() {
        assert_eq!(Refusal::UnknownRecipient.reply_about("x@acme.test"), "550 5.1.1 User unknown: x@acme.test");
        assert_eq!(
            Refusal::Unavailable("Cannot look up the recipient").to_string(),
            "Cannot look up the recipient, try again later"
        );
    }
}
