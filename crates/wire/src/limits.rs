//! Named limits of the socket layer.
//!
//! Configurable limits are in `server`. The limits here are fixed, because they bound the memory of one connection or
//! one pool whatever the configuration says.

use std::time::Duration;

/// Maximum number of bytes that one [`crate::Stream::receive`] appends. They lie on the worker's stack while they are
/// copied.
pub const RECEIVE_BYTES_MAX: usize = 16 << 10;

/// Maximum number of compressed bytes that a deflating stream reads from its peer at once.
pub const DEFLATE_INPUT_BYTES_MAX: usize = 4 << 10;

/// Number of compressed bytes waiting for the socket from which a deflating stream accepts no more writes.
pub const DEFLATE_OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Maximum duration of a TLS handshake.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum number of worker threads in a pool.
pub const POOL_WORKERS_MAX: usize = 1_024;

/// Maximum number of jobs in the queue of a pool, of one owner and of all owners.
pub const POOL_QUEUE_MAX: usize = 1 << 20;

/// Number of bytes that a task may read, copy or hash on a network thread. More would delay the other connections of
/// the thread.
pub const SHORT_WORK_BYTES_MAX: usize = 256 << 10;

/// Time that a job may keep a worker, unless the options of the pool set another one. Longer work is divided into
/// several jobs.
pub const JOB_TIME_MAX: Duration = Duration::from_millis(50);

/// Minimum time between two warnings of a pool about jobs that ran for too long. All are counted.
pub const SLOW_JOB_WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum size of a certificate or key file in bytes. It also bounds the number of certificates in a chain.
pub const PEM_BYTES_MAX: usize = 1 << 20;

/// Minimum rate, in bytes a second, at which a peer sends a body after [`BODY_GRACE`].
pub const TRANSFER_RATE_MIN: u64 = 1 << 10;

/// Time from the beginning of a body after which its peer must keep up with [`TRANSFER_RATE_MIN`].
pub const BODY_GRACE: Duration = Duration::from_secs(30);
