//! Named limits of the POP3 room. What the operator may set is a field of [`crate::Service`].

use std::time::Duration;

/// Longest command with its CRLF. RFC 2449 §4 asks for 255; logins with long addresses need more.
pub const COMMAND_LINE_BYTES_MAX: usize = 1_024;

/// Longest line of a SASL exchange with its CRLF (RFC 5034 §4).
pub const AUTH_LINE_BYTES_MAX: usize = 12_288;

/// Failed logins before the connection is cut.
pub const LOGIN_FAILURES_MAX: u32 = 3;

/// Unknown or misplaced commands before the connection is cut.
pub const ERRORS_MAX: u32 = 20;

/// Most messages that a session lists; a maildrop shows the oldest of a larger inbox.
pub const MESSAGES_MAX: usize = 1_000_000;

/// Bytes of replies that gather before they are sent, when a client pipelines.
pub const REPLIES_BYTES_MAX: usize = 64 << 10;

/// How long a client may be silent, unless the operator says otherwise (RFC 1939 §3 asks for 10 minutes at least).
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(600);
