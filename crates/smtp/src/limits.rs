//! The limits of this crate.
//!
//! Limits that the operator can set are fields of [`crate::listener_rules::ListenerRules`] or
//! [`crate::client::SmtpClientOptions`]; their defaults are defined here. All others are fixed, because they bound the
//! memory of a session regardless of the configuration.

use std::time::Duration;

/// Maximum length of a command line, including its CRLF. RFC 5321 requires 512, its extensions more.
pub const COMMAND_LINE_BYTES_MAX: usize = 2_048;

/// Maximum length of a line in an authentication exchange, including its CRLF (RFC 4954 §4).
pub const AUTH_LINE_BYTES_MAX: usize = 12_288;

/// Maximum length of the name in HELO, EHLO or LHLO.
pub const HELO_BYTES_MAX: usize = 255;

/// Maximum length of a local part. RFC 5321 requires 64; some bounce addresses are longer.
pub const LOCAL_PART_BYTES_MAX: usize = 256;

/// Maximum length of the domain of an address.
pub const DOMAIN_BYTES_MAX: usize = 255;

/// Maximum length of a decoded ENVID (RFC 3461 §4.4).
pub const ENVELOPE_ID_BYTES_MAX: usize = 100;

/// Maximum length of an ORCPT parameter (RFC 3461 §4.2).
pub const ORIGINAL_RECIPIENT_BYTES_MAX: usize = 500;

/// Maximum number of parameters of a MAIL or RCPT command.
pub const PARAMETERS_MAX: usize = 16;

/// Maximum number of domains of a message's authors. The DMARC policy of each is looked up.
pub const AUTHOR_DOMAINS_MAX: usize = 8;

/// Maximum number of distinct domains in the `From` fields of a message from outside. Each is looked up in the
/// directory.
pub const CLAIMED_DOMAINS_MAX: usize = 100;

/// Maximum size of a message in bytes. The rules may set a lower limit.
pub const MESSAGE_BYTES_MAX: usize = base::limits::MESSAGE_BYTES_MAX;

/// Number of bytes beyond the message size limit that are read and discarded before the connection is closed.
pub const OVERSIZE_BYTES_MAX: u64 = 64 << 20;

/// Maximum memory allocated for a message before its first byte arrives. The size announced by the client counts from
/// MAIL on, but is not trusted.
pub const MESSAGE_RESERVE_BYTES_MAX: usize = 256 << 10;

/// Size of a message that is expected if the client announces none.
pub const EXPECTED_BYTES_DEFAULT: usize = 16 << 10;

/// Memory that counts for the trace field of a message with an announced size.
pub const TRACE_BYTES_RESERVED: usize = 1 << 10;

/// Memory that counts for a recipient besides its addresses.
pub const RECIPIENT_BYTES_RESERVED: usize = 256;

/// Default maximum number of recipients of a message (RFC 5321 §4.5.3.1.8 requires at least 100).
pub const RECIPIENTS_MAX: usize = 1_000;

/// Default number of refused commands after which the connection is closed.
pub const ERRORS_MAX: u32 = 20;

/// Default number of failed logins after which the connection is closed.
pub const AUTH_FAILURES_MAX: u32 = 3;

/// Default maximum number of commands in a session.
pub const COMMANDS_MAX: u64 = 100_000;

/// Default maximum number of messages in a session.
pub const MESSAGES_MAX: u64 = 10_000;

/// Number of buffered bytes above which replies are sent, even if the client keeps pipelining.
pub const REPLIES_BYTES_MAX: usize = 64 << 10;

/// Maximum time for which a client may be silent between commands (RFC 5321 §4.5.3.2.7).
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(300);

/// Maximum duration of a session.
pub const SESSION_TIME_MAX: Duration = Duration::from_secs(3_600);

/// Time for which a transaction may hold memory for a message without receiving it. RFC 5321 §4.5.3.2.7 gives a client
/// five minutes for a single command.
pub const TRANSACTION_GRACE: Duration = Duration::from_secs(300);

/// Time by which each recipient of a transaction extends [`TRANSACTION_GRACE`].
pub const RECIPIENT_GRACE: Duration = Duration::from_secs(1);

/// Delay of the greeting for clients on other machines.
pub const GREET_DELAY: Duration = Duration::from_millis(500);

/// Maximum total duration of the checks of an incoming message (SPF, DKIM, DMARC, ARC).
pub const VERIFY_TIME_MAX: Duration = Duration::from_secs(20);

/// Default maximum number of incoming messages that are checked at the same time.
pub const CHECKS_MAX: usize = 2_500;

/// Maximum number of name servers that a resolver asks at the same time, each over a socket of its own.
pub const NAME_SERVERS_ASKED_MAX: usize = 2;

/// Maximum number of DKIM signatures verified per message. Further ones are ignored (RFC 6376 §8.4).
pub const SIGNATURES_MAX: usize = 8;

/// Maximum length of a line in a server's reply, in bytes. RFC 5321 requires 512.
pub const REPLY_LINE_BYTES_MAX: usize = 4_096;

/// Maximum number of lines in a server's reply.
pub const REPLY_LINES_MAX: usize = 128;

/// Number of bytes of a server's reply that are kept for reports.
pub const REPLY_TEXT_BYTES_MAX: usize = 1_024;

/// Maximum number of mail exchangers of a domain that are tried.
pub const EXCHANGERS_MAX: usize = 16;

/// Maximum number of addresses tried for one message, over all mail exchangers.
pub const ADDRESSES_MAX: usize = 20;

/// Maximum number of recipients in one transaction. A server may request fewer (RFC 9422).
pub const TRANSFER_RECIPIENTS_MAX: usize = 100;

/// Default number of messages after which a connection is closed.
pub const REUSE_MESSAGES_MAX: u32 = 100;

/// Default maximum number of idle connections.
pub const IDLE_CONNECTIONS_MAX: usize = 64;
