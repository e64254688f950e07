//! Fixed limits of the running server: listeners, sessions, shutdown.
//!
//! Limits that the operator may set are in the configuration. The limits here are fixed, because they bound memory
//! whatever the configuration says.

use std::time::Duration;

/// Length of the system's queue of connections that are not accepted yet.
pub const BACKLOG: u32 = 1_024;

/// Pause after an error of `accept`.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum time in which a listener must answer a probe. The task of a listener only accepts connections, so it answers
/// at once unless it is blocked.
pub const PROBE_TIME_MAX: Duration = Duration::from_secs(2);

/// Number of probes of one listener that wait for an answer.
pub const PROBES_MAX: usize = 16;

/// Maximum time for the remaining work after the server has closed all connections.
pub const SHUTDOWN_WORK_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum interval between two checks of the queue. A notification of newly queued mail triggers a check at once.
pub const QUEUE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of logins of one address that wait for a thread. More than `limits.connections_per_address`, so that
/// by default only the calls of the native protocol and peers on this machine reach it.
pub const LOGIN_QUEUE_MAX: usize = 128;

/// Maximum number of logins of all addresses that wait for a thread.
pub const LOGIN_QUEUE_TOTAL_MAX: usize = 1_024;

/// Time that a login may take without being logged. The most expensive password hash that is accepted takes longer.
pub const LOGIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Maximum time in which a session has to end after its account was changed so that it may not continue.
pub const SESSION_END_TIME_MAX: Duration = Duration::from_secs(5);

/// Minimum interval between two checks whether the logged-in sessions may continue.
pub const SESSION_CHECK_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Maximum number of connections to the administration port.
pub const ADMIN_CONNECTIONS_MAX: usize = 16;

/// File descriptors that the storage engine needs besides the files of tables that it keeps open: two each for up to
/// eight flushes and compactions at the same time, the log, its predecessors, the list of files, the records about the
/// log, the directories, a backup, and the files of tables that scans hold while the cache of open files is full.
pub const ENGINE_DESCRIPTORS: u64 = 64;

/// File descriptors of the process itself: standard input and output, the runtime, the lock of the data folder,
/// connections to name servers over TCP, a connection that is refused, and small files that are read or written.
pub const PROCESS_DESCRIPTORS: u64 = 20;

/// Minimum share of file descriptors for background work.
pub const BACKGROUND_DESCRIPTORS_MIN: u64 = 24;

/// File descriptors of one administration command: its connection, and a file that it reads or writes.
pub const CONTROL_CALL_DESCRIPTORS: u64 = 2;

/// File descriptors of one child process that reads PDFs: both ends of two pipes, and those for its start.
pub const PDF_CHILD_DESCRIPTORS: u64 = 6;

/// File descriptors of the full-text index apart from the segments that are being written.
pub const FULL_TEXT_DESCRIPTORS: u64 = 4;

/// File descriptors of one segment of the full-text index that is being written: a file for each of its parts.
pub const FULL_TEXT_SEGMENT_DESCRIPTORS: u64 = 8;

/// Number of threads with which the full-text index merges segments, besides `full_text.threads`.
pub const FULL_TEXT_MERGES_MAX: u64 = 4;

/// File descriptors for builds of views. A build has a temporary file for each order of the view, and three more.
pub const VIEW_BUILD_DESCRIPTORS: u64 = 20;

/// File descriptors of one outgoing connection: the lookups of IPv4 and IPv6 addresses with two name servers each, or
/// the connection and one that is idle.
pub const TRANSFER_DESCRIPTORS: u64 = 5;

/// Minimum number of connections with which the server starts, unless `limits.connections` is lower.
pub const CONNECTIONS_MIN: u64 = 16;

/// Number of connections for which one message at a time is checked (SPF, DKIM and DMARC).
pub const CONNECTIONS_PER_CHECK: u64 = 8;

/// Minimum number of messages that are checked at the same time.
pub const SENDER_CHECKS_MIN: u64 = 4;

/// Time between two removals of logins in browsers that have ended.
pub const SESSION_CLEANING_INTERVAL: Duration = Duration::from_secs(3_600);

/// Time between two removals of uploads that have expired.
pub const UPLOAD_CLEANING_INTERVAL: Duration = Duration::from_secs(3_600);

/// Maximum number of people, and of groups, that a look-up of addresses reads.
pub const ADDRESS_SCAN_MAX: u64 = 20_000;

/// Number of people or groups that a look-up of addresses reads at a time.
pub const ADDRESS_SCAN_PAGE: usize = 500;

/// Maximum number of access control lists that a look-up of shared mail files reads.
pub const CHANGED_LISTS_MAX: usize = 2_000;

/// Maximum number of mail files whose lists are evaluated for a person.
pub const SHARED_CANDIDATES_MAX: usize = 500;

/// Maximum number of mail files of other people that are accounts of a person.
pub const SHARED_ACCOUNTS_MAX: usize = 50;
