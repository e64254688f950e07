//! The socket layer shared by all protocols: streams, the worker pool, connection limits, TLS and shutdown.
//!
//! The core of Doublet is plain blocking code, and its edges are asynchronous. This crate connects the two. A protocol
//! reads a command from a [`Stream`], passes the work to the [`WorkerPool`] and awaits the result, waits for
//! durability, and writes the reply. [`Shutdown`] and [`SessionTermination`] tell it when to send its closing reply,
//! and [`Connections`] decides whether it may start at all.
//!
//! Promises:
//! - An idle connection holds no buffer of this crate: [`Stream::receive`] borrows memory only while bytes are
//!   available.
//! - The queue of the pool is bounded and fair to the owners of jobs. A panic in a job is an error for its caller and
//!   never ends a worker.
//! - A [`Coroutine`] divides long work into several jobs. Its thread runs only while a worker waits for it.
//! - An admitted connection is counted until its [`ConnectionPermit`] is dropped, however the task ends.
//!
//! Not included: the protocols themselves (each has its own crate), and the configuration of addresses and certificates
//! (`server`).

mod channel_binding;
pub mod connections;
pub mod coroutine;
mod deflate;
mod fair_queue;
pub mod job;
pub mod limits;
pub mod long_work;
pub mod pace;
pub mod peer;
pub mod pool;
pub mod read_progress;
pub mod shutdown;
pub mod sim;
pub mod stream;
pub mod termination;
pub mod tls;

pub use connections::{ConnectionLimits, ConnectionPermit, Connections, LimitReached};
pub use coroutine::{Coroutine, PartLimits, Progress, SinglePart};
pub use job::{JobClass, JobLabel, JobOwner, JobVerb};
pub use long_work::run_long;
pub use pace::{Pace, TransferProgress};
pub use peer::Peer;
pub use pool::{PoolError, PoolOptions, PoolStatistics, RunError, VerbStatistics, WorkerPool};
pub use read_progress::{ReadProgress, ResponseChunk};
pub use shutdown::{Shutdown, ShutdownPhase};
pub use stream::Stream;
pub use termination::SessionTermination;
pub use tls::{ClientTls, Tls, TlsError, TlsInfo};
