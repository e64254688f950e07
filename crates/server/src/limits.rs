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
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
