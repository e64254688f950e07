//! Named limits of the SMTP room.
//!
//! What the operator may set is a field of [`crate::rules::Rules`] or [`crate::client::Options`] whose default stands
//! here; the rest is fixed, because it bounds the memory of one session whatever the configuration says.

use std::time::Duration;

/// Longest command line with its CRLF. RFC 5321 asks for 512, its extensions for more.
pub const COMMAND_LINE_BYTES_MAX: usize = 2_048;

/// Longest line with its CRLF of an authentication exchange (RFC 4954 §4).
pub const AUTH_LINE_BYTES_MAX: usize = 12_288;

/// Longest name that a client gives with HELO, EHLO or LHLO.
pub const HELO_BYTES_MAX: usize = 255;

/// Longest local part that is taken. RFC 5321 asks for 64; bounce addresses in the wild are longer.
pub const LOCAL_PART_BYTES_MAX: usize = 256;

/// Longest domain of an address.
pub const DOMAIN_BYTES_MAX: usize = 255;

/// Longest decoded ENVID (RFC 3461 §4.4).
pub const ENVELOPE_ID_BYTES_MAX: usize = 100;

/// Longest ORCPT parameter (RFC 3461 §4.2).
pub const ORIGINAL_RECIPIENT_BYTES_MAX: usize = 500;

/// Most parameters of one MAIL or RCPT command.
pub const PARAMETERS_MAX: usize = 16;

/// Most domains of a message's authors; each of them is asked for its policy.
pub const AUTHOR_DOMAINS_MAX: usize = 8;

/// Most bytes of a message, unless the rules say less.
pub const MESSAGE_BYTES_MAX: usize = base::limits::MESSAGE_BYTES_MAX;

/// Bytes of a message that is too large which are read and thrown away before the connection is cut.
pub const OVERSIZE_BYTES_MAX: u64 = 64 << 20;

/// Memory that a message gets before its first byte has come, at most; what the client announces is not believed.
pub const MESSAGE_RESERVE_BYTES_MAX: usize = 256 << 10;

/// Recipients of one message, unless the rules say otherwise (RFC 5321 §4.5.3.1.8 asks for 100 at least).
pub const RECIPIENTS_MAX: usize = 1_000;

/// Refused commands before the connection is cut, unless the rules say otherwise.
pub const ERRORS_MAX: u32 = 20;

/// Failed logins before the connection is cut, unless the rules say otherwise.
pub const AUTH_FAILURES_MAX: u32 = 3;

/// Commands of one session, unless the rules say otherwise.
pub const COMMANDS_MAX: u64 = 100_000;

/// Messages of one session, unless the rules say otherwise.
pub const MESSAGES_MAX: u64 = 10_000;

/// `Received` fields from which on a message is taken to run in circles.
pub const HOPS_MAX: usize = 50;

/// Bytes of a header section that are looked through for hops, dates and senders.
pub const HEADER_BYTES_MAX: usize = 1 << 20;

/// Replies that gather before they are sent, when a client pipelines without end.
pub const REPLIES_BYTES_MAX: usize = 64 << 10;

/// How long a client may be silent between commands (RFC 5321 §4.5.3.2.7).
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(300);

/// How long a whole session may take.
pub const SESSION_TIME_MAX: Duration = Duration::from_secs(3_600);

/// How long a stranger must wait for the greeting.
pub const GREET_DELAY: Duration = Duration::from_millis(500);

/// How long the checks of an incoming message (SPF, DKIM, DMARC, ARC) may take together.
pub const VERIFY_TIME_MAX: Duration = Duration::from_secs(20);

/// DKIM signatures of one message that are checked; further ones are ignored (RFC 6376 §8.4).
pub const SIGNATURES_MAX: usize = 8;

/// Longest line of a server's reply, in bytes. RFC 5321 asks for 512.
pub const REPLY_LINE_BYTES_MAX: usize = 4_096;

/// Most lines of a server's reply.
pub const REPLY_LINES_MAX: usize = 128;

/// Bytes of a server's reply that are kept for the report.
pub const REPLY_TEXT_BYTES_MAX: usize = 1_024;

/// Mail exchangers of a domain that are tried.
pub const EXCHANGERS_MAX: usize = 16;

/// Addresses that are tried for one transfer, of all exchangers together.
pub const ADDRESSES_MAX: usize = 20;

/// Recipients that are sent in one transaction, unless the server asks for fewer (RFC 9422).
pub const TRANSFER_RECIPIENTS_MAX: usize = 100;

/// Messages over one connection before it is closed.
pub const REUSE_MESSAGES_MAX: u32 = 100;

/// Idle connections that are kept, all together.
pub const IDLE_CONNECTIONS_MAX: usize = 64;
