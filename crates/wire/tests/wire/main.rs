//! Behaviour of the pool and of the streams, from outside.
//!
//! Nothing here sleeps: jobs are held by channels, and streams run in memory or over loopback with port 0.

mod pool;
mod streams;
