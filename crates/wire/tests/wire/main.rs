//! Integration tests of the pool, the streams, TLS, channel bindings and the limits of connections.
//!
//! The tests do not sleep: jobs are held by channels, streams run in memory or over loopback with port 0, and time
//! limits pass on a paused clock.

mod channel_bindings;
mod connections;
mod coroutine;
mod handshakes;
mod pool;
mod streams;
