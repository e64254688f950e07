//! The reasons why a login fails, for all protocols.
//!
//! A protocol maps each variant to its own reply, for instance with the response codes of RFC 5530 (IMAP), RFC 3206
//! (POP3), RFC 4954 §6 (SMTP) or RFC 4511 (LDAP). The variants carry no details: what the client learns is decided by
//! the protocol, and what the operator learns is logged where the details are known.

/// Reason why a login failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LoginError {
    /// The login is unknown, or the password, proof or token is wrong. The client is not told which.
    #[error("the login or its credentials are wrong")]
    InvalidCredentials,
    /// The account is disabled. Returned only after the credentials were verified.
    #[error("the account is disabled")]
    AccountDisabled,
    /// The credentials are right, but the authenticated identity may not act as the requested authorization identity.
    #[error("the login may not act as the requested identity")]
    NotAuthorized,
    /// Too many logins have failed recently.
    #[error("too many failed logins, try again later")]
    Throttled,
    /// The client's line is not base64.
    #[error("the line is not base64")]
    NotBase64,
    /// The client's message violates the grammar of the mechanism.
    #[error("the message violates the rules of the mechanism")]
    Malformed,
    /// The client's message is longer than allowed.
    #[error("the message is too long")]
    TooLong,
    /// The channel binding is missing, of an unsupported type, or different from that of this connection. The peer may
    /// be an attacker between client and server (RFC 5802 §6).
    #[error("the channel binding does not match this connection")]
    ChannelBinding,
    /// The mechanism is unknown, or not offered on this connection.
    #[error("the mechanism is not offered")]
    MechanismNotOffered,
    /// The mechanism sends secrets in clear, and the connection is not encrypted.
    #[error("the mechanism requires an encrypted connection")]
    TlsRequired,
    /// The client cancelled the exchange.
    #[error("the exchange was cancelled")]
    Cancelled,
    /// The password is that of an account with a second factor, which only the login page can ask for. Other programs
    /// need an application password.
    #[error("the account has a second factor: use an application password")]
    ApplicationPasswordRequired,
    /// The credentials are right, but the mail file of the account is on another server.
    #[error("the mail file of this account is on another server")]
    MailFileElsewhere,
    /// Logins cannot be checked at present.
    #[error("logins cannot be checked now, try again later")]
    Unavailable,
}

impl LoginError {
    /// Returns `true` if the same login may succeed later.
    #[must_use]
    pub const fn is_temporary(self) -> bool {
        matches!(self, Self::Throttled | Self::Unavailable)
    }

    /// Returns `true` if the failure counts as a failed login of the client. Protocols close a connection with too
    /// many of them.
    ///
    /// Messages out of grammar count, because the directory does not see them and so cannot throttle the client. An
    /// exchange that could not begin, was cancelled or contained a line that is not base64 is an error in the use of
    /// the protocol, and [`LoginError::Unavailable`] is a failure of the server.
    #[must_use]
    pub const fn is_failed_attempt(self) -> bool {
        match self {
            Self::InvalidCredentials
            | Self::AccountDisabled
            | Self::NotAuthorized
            | Self::ApplicationPasswordRequired
            | Self::Throttled
            | Self::Malformed
            | Self::TooLong
            | Self::ChannelBinding => true,
            Self::NotBase64
            | Self::MechanismNotOffered
            | Self::TlsRequired
            | Self::Cancelled
            | Self::MailFileElsewhere
            | Self::Unavailable => false,
        }
    }
}
