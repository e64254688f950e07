//! Named limits of the `pop3` crate. Settings of the operator are fields of [`crate::ListenerServices`].

use std::time::Duration;

/// Maximum length of a command with its CRLF. RFC 2449 §4 requires 255; logins with long addresses need more.
pub const COMMAND_LINE_BYTES_MAX: usize = 1_024;

/// Maximum length of a line in a SASL exchange with its CRLF (RFC 5034 §4).
pub const AUTH_LINE_BYTES_MAX: usize = 12_288;

/// Number of failed logins after which the connection is closed.
pub const LOGIN_FAILURES_MAX: u32 = 3;

/// Number of unknown or misplaced commands after which the connection is closed.
pub const ERRORS_MAX: u32 = 20;

/// Maximum number of messages in a maildrop. Of a larger inbox it contains the oldest messages.
pub const MESSAGES_MAX: usize = 1_000_000;

/// Number of messages that one job of a worker adds to the list of a maildrop.
pub const LISTED_PER_JOB: usize = 20_000;

/// Size in bytes of the items of documents from which one job of a worker composes messages, to measure them for the
/// list of a maildrop.
pub const COMPOSED_BYTES_PER_JOB: u64 = 4 << 20;

/// Number of bytes that a document counts in addition to its items, because composing any message takes time.
pub const COMPOSED_OVERHEAD_BYTES: u64 = 4 << 10;

/// Number of bytes of a message that one job of a worker reads.
pub const MESSAGE_PIECE_BYTES: u64 = 256 << 10;

/// Number of bytes that a message takes from the memory of its account while it is sent, or its size if it is smaller:
/// a piece as it was read, and as it is sent.
pub const MESSAGE_MEMORY_BYTES: u64 = 2 * MESSAGE_PIECE_BYTES;

/// Number of messages that one transaction of QUIT removes.
pub const REMOVED_PER_TRANSACTION: usize = 250;

/// Number of reply bytes that are collected before they are sent, if a client pipelines.
pub const REPLIES_BYTES_MAX: usize = 64 << 10;

/// Maximum silence of a client, unless the operator sets another value (RFC 1939 §3 requires at least 10 minutes).
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(600);
