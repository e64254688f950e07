//! Named limits of the socket layer.
//!
//! What the configuration may change stands in `server`; what stands here is fixed, because it bounds memory of one
//! connection or one pool whatever the configuration says.

use std::time::Duration;

/// Most bytes that one [`crate::Stream::receive`] appends. They lie on the worker's stack while they are copied.
pub const RECEIVE_BYTES_MAX: usize = 16 << 10;

/// Compressed bytes that a deflating stream takes from its peer at once.
pub const DEFLATE_INPUT_BYTES_MAX: usize = 4 << 10;

/// Compressed bytes that may wait for the socket before a deflating stream takes no more to write.
pub const DEFLATE_OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Longest time that a TLS handshake may take.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(30);

/// Most worker threads of a pool.
pub const POOL_WORKERS_MAX: usize = 1_024;

/// Most jobs that may wait in a pool's queue.
pub const POOL_QUEUE_MAX: usize = 1 << 20;

/// Most certificates in one chain, and most bytes of a certificate or key file.
pub const PEM_BYTES_MAX: usize = 1 << 20;
