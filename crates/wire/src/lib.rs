//! What all protocols share at the socket: streams, the pool of workers, limits on connections, TLS and shutdown.
//!
//! The core of Doublet is plain blocking code; its edges are asynchronous. This room is the seam. A protocol reads a
//! command from a [`Stream`], hands the work to the [`Pool`] and awaits the outcome, waits for durability, and writes
//! the reply. It learns from [`Shutdown`] and [`Dismissal`] when to say good-bye and from [`Connections`] whether it may
//! begin at all.
//!
//! Promises:
//! - an idle connection holds no buffer of ours: [`Stream::receive`] borrows memory only while bytes are there;
//! - the pool's queue is bounded and a panic in a job is an error for its caller, never the end of a worker;
//! - a connection that was admitted is counted until its [`Admission`] is dropped, however the task ends.
//!
//! Left out: what any one protocol says (its own room), where addresses and certificates come from (`server`).

pub mod connections;
mod deflate;
pub mod dismissal;
pub mod limits;
pub mod peer;
pub mod pool;
pub mod shutdown;
pub mod stream;
pub mod tls;

pub use connections::{Admission, ConnectionLimits, Connections, Refused};
pub use dismissal::Dismissal;
pub use peer::Peer;
pub use pool::{Pool, PoolError, PoolOptions, PoolReport};
pub use shutdown::{Phase, Shutdown};
pub use stream::Stream;
pub use tls::{ClientTls, Tls, TlsError, TlsFacts};
