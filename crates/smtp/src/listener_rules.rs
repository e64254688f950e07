//! The rules of a listener: its offers and requirements. All sessions of a listener share one [`ListenerRules`].
//!
//! `server` creates it from the configuration. [`ListenerRules::reception`], [`ListenerRules::submission`] and
//! [`ListenerRules::lmtp`] return sensible defaults.

use std::time::Duration;

use base::networks::Networks;
use sasl::Mechanism;

use crate::codec::line::BareLineEndPolicy;
use crate::limits;

/// The purpose of a listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenerRole {
    /// Mail from other servers, port 25.
    Reception,
    /// Mail from clients of local users, ports 587 and 465 (RFC 6409).
    Submission,
    /// Mail from a front-end server (RFC 2033).
    Lmtp,
}

/// The policy for authentication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AuthCommandPolicy {
    /// AUTH is not offered.
    Off,
    /// AUTH is offered where passwords may be sent (TLS, or the same machine).
    Offered,
    /// No mail is accepted without authentication.
    Required,
}

/// The policy for encryption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartTlsPolicy {
    /// STARTTLS is not offered.
    Off,
    /// STARTTLS is offered.
    Offered,
    /// No mail is accepted without encryption, except from the same machine.
    Required,
}

/// The handling of clients that send more than permitted before they have read the reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeliningPolicy {
    /// The session ends if a command that must end a group (RFC 2920) does not, or if the client sends data before the
    /// greeting.
    Strict,
    /// Such clients are tolerated. Data sent in the clear after STARTTLS is discarded.
    Lenient,
}

/// The clients to which VRFY and EXPN disclose users and list members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DisclosurePolicy {
    /// No clients. VRFY replies with 252, and EXPN is not available.
    Nothing,
    /// Authenticated clients.
    Users,
    /// All clients.
    All,
}

/// The acceptance of messages from outside that claim to be from a local domain, in the reverse path or in `From`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalSenderPolicy {
    /// They are accepted if SPF or a DKIM signature of the domain passes.
    Verified,
    /// They are accepted.
    Any,
}

/// The offers and requirements of a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenerRules {
    /// The purpose of the listener.
    pub role: ListenerRole,
    /// The server's name in the greeting, EHLO, `Received` and `Authentication-Results`.
    pub hostname: String,
    /// The domain of addresses without a domain (`Postmaster`).
    pub domain: String,
    /// The policy for authentication.
    pub authentication: AuthCommandPolicy,
    /// The mechanisms of AUTH, as far as a connection can offer them.
    pub mechanisms: Vec<Mechanism>,
    /// The policy for encryption.
    pub encryption: StartTlsPolicy,
    /// The handling of bare CR and bare LF.
    pub line_endings: BareLineEndPolicy,
    /// The handling of clients that do not wait for replies.
    pub pipelining: PipeliningPolicy,
    /// The clients to which VRFY and EXPN disclose users and list members.
    pub disclosure: DisclosurePolicy,
    /// The acceptance of local senders and authors from clients on other machines that have not logged in.
    pub local_senders: LocalSenderPolicy,
    /// The clients that may use local senders and authors like clients on this machine.
    pub trusted_relays: Networks,
    /// The reverse paths of mailing lists, or their domains. Messages of these lists may have local authors if SPF of
    /// the reverse path passes.
    pub trusted_lists: Vec<String>,
    /// Maximum size of a message in bytes.
    pub message_bytes_max: usize,
    /// Maximum number of recipients of a message.
    pub recipients_max: usize,
    /// Number of refused commands after which the connection is closed.
    pub errors_max: u32,
    /// Number of failed logins after which the connection is closed.
    pub auth_failures_max: u32,
    /// Maximum number of commands in a session.
    pub commands_max: u64,
    /// Maximum number of messages in a session.
    pub messages_max: u64,
    /// Number of `Received` fields above which a message is considered to loop.
    pub hops_max: usize,
    /// Delay of the greeting for clients on other machines. Zero disables it.
    pub greet_delay: Duration,
    /// Maximum time for which a client may be silent.
    pub idle_time_max: Duration,
    /// Maximum duration of a session.
    pub session_time_max: Duration,
}

impl ListenerRules {
    /// Returns the default rules for port 25.
    #[must_use]
    pub fn reception(hostname: &str, domain: &str) -> Self {
        Self {
            role: ListenerRole::Reception,
            hostname: hostname.to_owned(),
            domain: domain.to_owned(),
            authentication: AuthCommandPolicy::Off,
            mechanisms: Mechanism::WITH_PASSWORD.to_vec(),
            encryption: StartTlsPolicy::Offered,
            line_endings: BareLineEndPolicy::Reject,
            pipelining: PipeliningPolicy::Strict,
            disclosure: DisclosurePolicy::Nothing,
            local_senders: LocalSenderPolicy::Verified,
            trusted_relays: Networks::default(),
            trusted_lists: Vec::new(),
            message_bytes_max: limits::MESSAGE_BYTES_MAX,
            recipients_max: limits::RECIPIENTS_MAX,
            errors_max: limits::ERRORS_MAX,
            auth_failures_max: limits::AUTH_FAILURES_MAX,
            commands_max: limits::COMMANDS_MAX,
            messages_max: limits::MESSAGES_MAX,
            hops_max: mail::limits::HOPS_MAX,
            greet_delay: limits::GREET_DELAY,
            idle_time_max: limits::IDLE_TIME_MAX,
            session_time_max: limits::SESSION_TIME_MAX,
        }
    }

    /// Returns the default rules for ports 587 and 465.
    #[must_use]
    pub fn submission(hostname: &str, domain: &str) -> Self {
        Self {
            role: ListenerRole::Submission,
            authentication: AuthCommandPolicy::Required,
            line_endings: BareLineEndPolicy::Normalize,
            disclosure: DisclosurePolicy::Users,
            greet_delay: Duration::ZERO,
            ..Self::reception(hostname, domain)
        }
    }

    /// Returns the default rules for an LMTP socket that only a trusted server can reach.
    #[must_use]
    pub fn lmtp(hostname: &str, domain: &str) -> Self {
        Self {
            role: ListenerRole::Lmtp,
            encryption: StartTlsPolicy::Off,
            line_endings: BareLineEndPolicy::Normalize,
            pipelining: PipeliningPolicy::Lenient,
            errors_max: u32::MAX,
            commands_max: u64::MAX,
            messages_max: u64::MAX,
            greet_delay: Duration::ZERO,
            session_time_max: Duration::MAX,
            ..Self::reception(hostname, domain)
        }
    }
}
