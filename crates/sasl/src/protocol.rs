//! The protocols that log in, and the origin of a login.
//!
//! Every request to the directory names its protocol, so that a credential can be limited to some of them, such as an
//! application password for IMAP only.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A protocol over which users log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoginProtocol {
    /// IMAP (RFC 9051).
    Imap,
    /// POP3 (RFC 1939).
    Pop3,
    /// Message submission over SMTP (RFC 6409).
    Submission,
    /// The native protocol (gRPC).
    Native,
    /// HTTP other than the protocols below.
    Http,
    /// JMAP (RFC 8620).
    Jmap,
    /// LDAP (RFC 4511).
    Ldap,
    /// WebDAV and its extensions CalDAV and CardDAV (RFC 4918).
    Dav,
}

impl LoginProtocol {
    /// All protocols.
    pub const ALL: [Self; 8] =
        [Self::Imap, Self::Pop3, Self::Submission, Self::Native, Self::Http, Self::Jmap, Self::Ldap, Self::Dav];

    /// Returns the name in settings, scopes and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Imap => "imap",
            Self::Pop3 => "pop3",
            Self::Submission => "submission",
            Self::Native => "native",
            Self::Http => "http",
            Self::Jmap => "jmap",
            Self::Ldap => "ldap",
            Self::Dav => "dav",
        }
    }

    /// Returns the protocol with this name, or `None` if there is none.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name() == name)
    }

    /// Returns `true` if the reply to a successful login can carry a message of the mechanism (RFC 4422 §3.6).
    ///
    /// IMAP, POP3 and SMTP cannot. They send the message as another challenge, which the client answers with an empty
    /// response.
    #[must_use]
    pub const fn has_success_data(self) -> bool {
        match self {
            Self::Imap | Self::Pop3 | Self::Submission => false,
            Self::Native | Self::Http | Self::Jmap | Self::Ldap | Self::Dav => true,
        }
    }
}

impl fmt::Display for LoginProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The origin of a login: protocol, peer and connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginOrigin {
    /// The protocol that the login is for.
    pub protocol: LoginProtocol,
    /// The peer's network address, or `None` for a local socket or a connection in memory.
    pub address: Option<SocketAddr>,
    /// The number of the connection or session that the login belongs to, or zero if it has none.
    pub connection: u64,
}

impl LoginOrigin {
    /// Creates the origin of a login over a connection in this machine, without address and number.
    #[must_use]
    pub const fn local(protocol: LoginProtocol) -> Self {
        Self { protocol, address: None, connection: 0 }
    }

    /// Returns the IP address, or the loopback address for a peer without an address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.address.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
    }
}

impl fmt::Display for LoginOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{} from {address}", self.protocol),
            None => write!(f, "{} from this machine", self.protocol),
        }
    }
}
