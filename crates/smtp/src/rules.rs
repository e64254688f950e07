//! What a listener offers and what it demands. One [`Rules`] is shared by all sessions of a listener.
//!
//! `server` makes it from the configuration; [`Rules::reception`], [`Rules::submission`] and [`Rules::lmtp`] give what
//! a sane configuration says.

use std::time::Duration;

use crate::codec::line::LineEndings;
use crate::limits;

/// What a listener is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Mail from other servers, port 25.
    Reception,
    /// Mail from our users' clients, ports 587 and 465 (RFC 6409).
    Submission,
    /// Mail from a server in front of us (RFC 2033).
    Lmtp,
}

/// Whether clients may or must log in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Authentication {
    /// AUTH is not offered.
    Off,
    /// AUTH is offered where passwords may pass (TLS, or the same machine).
    Offered,
    /// Nothing is taken without it.
    Required,
}

/// Whether connections may or must be encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// STARTTLS is not offered.
    Off,
    /// STARTTLS is offered.
    Offered,
    /// Nothing is taken without it, but on the same machine.
    Required,
}

/// What becomes of clients that send more than they may before they have read the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pipelining {
    /// Commands that must end a group (RFC 2920) end the session if they do not; so does talking before the greeting.
    Strict,
    /// It is tolerated; what was sent in clear behind STARTTLS is thrown away.
    Lenient,
}

/// What VRFY and EXPN tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disclosure {
    /// Nothing: VRFY says 252, EXPN is not there.
    Nothing,
    /// The truth, to those who have logged in.
    Users,
    /// The truth, to everybody.
    Everybody,
}

/// What a listener offers and demands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// What the listener is for.
    pub role: Role,
    /// The name by which the server calls itself: greeting, EHLO, `Received`, `Authentication-Results`.
    pub hostname: String,
    /// The domain of addresses without one (`Postmaster`).
    pub domain: String,
    /// Whether clients may or must log in.
    pub authentication: Authentication,
    /// Whether clients may log in through SCRAM-SHA-256.
    pub scram: bool,
    /// Whether connections may or must be encrypted.
    pub encryption: Encryption,
    /// What becomes of bare CR and bare LF.
    pub line_endings: LineEndings,
    /// What becomes of clients that do not wait.
    pub pipelining: Pipelining,
    /// What VRFY and EXPN tell.
    pub disclosure: Disclosure,
    /// Most bytes of a message.
    pub message_bytes_max: usize,
    /// Most recipients of a message.
    pub recipients_max: usize,
    /// Refused commands before the connection is cut.
    pub errors_max: u32,
    /// Failed logins before the connection is cut.
    pub auth_failures_max: u32,
    /// Commands of one session.
    pub commands_max: u64,
    /// Messages of one session.
    pub messages_max: u64,
    /// `Received` fields from which on a message is taken to run in circles.
    pub hops_max: usize,
    /// How long a stranger waits for the greeting; zero for none.
    pub greet_delay: Duration,
    /// How long a client may be silent.
    pub idle_time_max: Duration,
    /// How long a session may take.
    pub session_time_max: Duration,
}

impl Rules {
    /// Gives what is sane for port 25.
    #[must_use]
    pub fn reception(hostname: &str, domain: &str) -> Self {
        Self {
            role: Role::Reception,
            hostname: hostname.to_owned(),
            domain: domain.to_owned(),
            authentication: Authentication::Off,
            scram: true,
            encryption: Encryption::Offered,
            line_endings: LineEndings::Reject,
            pipelining: Pipelining::Strict,
            disclosure: Disclosure::Nothing,
            message_bytes_max: limits::MESSAGE_BYTES_MAX,
            recipients_max: limits::RECIPIENTS_MAX,
            errors_max: limits::ERRORS_MAX,
            auth_failures_max: limits::AUTH_FAILURES_MAX,
            commands_max: limits::COMMANDS_MAX,
            messages_max: limits::MESSAGES_MAX,
            hops_max: limits::HOPS_MAX,
            greet_delay: limits::GREET_DELAY,
            idle_time_max: limits::IDLE_TIME_MAX,
            session_time_max: limits::SESSION_TIME_MAX,
        }
    }

    /// Gives what is sane for ports 587 and 465.
    #[must_use]
    pub fn submission(hostname: &str, domain: &str) -> Self {
        Self {
            role: Role::Submission,
            authentication: Authentication::Required,
            line_endings: LineEndings::Normalize,
            disclosure: Disclosure::Users,
            greet_delay: Duration::ZERO,
            ..Self::reception(hostname, domain)
        }
    }

    /// Gives what is sane for an LMTP socket that only a trusted server reaches.
    #[must_use]
    pub fn lmtp(hostname: &str, domain: &str) -> Self {
        Self {
            role: Role::Lmtp,
            encryption: Encryption::Off,
            line_endings: LineEndings::Normalize,
            pipelining: Pipelining::Lenient,
            errors_max: u32::MAX,
            commands_max: u64::MAX,
            messages_max: u64::MAX,
            greet_delay: Duration::ZERO,
            session_time_max: Duration::MAX,
            ..Self::reception(hostname, domain)
        }
    }
}
