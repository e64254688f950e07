//! Integration tests of the pool and of the streams.
//!
//! The tests do not sleep: jobs are held by channels, and streams run in memory or over loopback with port 0.

mod pool;
mod streams;
