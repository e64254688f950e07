//! The SASL mechanisms of the server and their properties.

use std::fmt;

/// A SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// SCRAM-SHA-256-PLUS: SCRAM with channel binding (RFC 5802, RFC 7677).
    ScramSha256Plus,
    /// SCRAM-SHA-256: a challenge and a proof instead of the password (RFC 5802, RFC 7677).
    ScramSha256,
    /// EXTERNAL: the certificate of the TLS connection (RFC 4422, appendix A).
    External,
    /// OAUTHBEARER: an OAuth 2.0 bearer token (RFC 7628).
    OAuthBearer,
    /// XOAUTH2: an OAuth 2.0 bearer token in the older form of Gmail and Outlook.
    XOAuth2,
    /// PLAIN: login and password in one message (RFC 4616).
    Plain,
    /// LOGIN: login and password in two messages (draft-murchison-sasl-login).
    Login,
}

impl Mechanism {
    /// All mechanisms, the best first.
    pub const ALL: [Self; 7] = [
        Self::ScramSha256Plus,
        Self::ScramSha256,
        Self::External,
        Self::OAuthBearer,
        Self::XOAuth2,
        Self::Plain,
        Self::Login,
    ];

    /// The mechanisms that authenticate with a password, the best first.
    pub const WITH_PASSWORD: [Self; 4] = [Self::ScramSha256Plus, Self::ScramSha256, Self::Plain, Self::Login];

    /// Returns the registered name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ScramSha256Plus => "SCRAM-SHA-256-PLUS",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::External => "EXTERNAL",
            Self::OAuthBearer => "OAUTHBEARER",
            Self::XOAuth2 => "XOAUTH2",
            Self::Plain => "PLAIN",
            Self::Login => "LOGIN",
        }
    }

    /// Returns the mechanism with this name, or `None` if it is unknown. Case is ignored: names are registered in upper
    /// case (RFC 4422 §3.1), and the protocols compare them without case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name().eq_ignore_ascii_case(name))
    }

    /// Returns `true` if the client sends a password or token as it is, so that the connection must be encrypted.
    #[must_use]
    pub const fn is_cleartext(self) -> bool {
        matches!(self, Self::Plain | Self::Login | Self::OAuthBearer | Self::XOAuth2)
    }

    /// Returns `true` for SCRAM, with or without channel binding.
    #[must_use]
    pub const fn is_scram(self) -> bool {
        matches!(self, Self::ScramSha256Plus | Self::ScramSha256)
    }

    /// Returns `true` if the server sends the first message. The other mechanisms begin with a message of the client,
    /// which an empty challenge asks for if it was not sent with the command.
    #[must_use]
    pub const fn server_speaks_first(self) -> bool {
        matches!(self, Self::Login)
    }

    /// Returns `true` if the mechanism binds the login to the TLS connection.
    #[must_use]
    pub const fn has_channel_binding(self) -> bool {
        matches!(self, Self::ScramSha256Plus)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
