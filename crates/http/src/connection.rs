//! One connection: HTTP/1.1 or HTTP/2 over a stream, its limits, and its end.
//!
//! Requests of HTTP/1.1 are answered in their order, also those that a client sends before it has the answers to
//! earlier ones. Streams of HTTP/2 run concurrently, each in a task that the connection owns: when the connection ends,
//! so do they. A connection ends when the peer disconnects, when it sends no first request in time, when it does not
//! read the answers to its requests, when it is idle for too long without a running request, after its maximum number
//! of requests, and when the server closes. A server that drains finishes the running requests: it announces the end
//! with `Connection: close` or GOAWAY.
//!
//! A connection that a request has turned into another protocol goes on with that one, until it ends, the login of the
//! connection ends, or the server closes.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::Request;
use base::sync::Mutex;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::{Peer, ReadProgress, SessionTermination, Stream};

use crate::front::{Front, FrontOptions};
use crate::limits::{
    CONNECTION_CHECK_INTERVAL, CONNECTION_WINDOW_BYTES, FIRST_REQUEST_TIME_MAX, HEADER_BYTES_MAX, HEADER_FIELDS_MAX,
    PING_TIME_MAX, RESET_STREAMS_MAX, SEND_BUFFER_BYTES, STALL_TIME_MAX, STREAM_WINDOW_BYTES,
};
use crate::upgrade::Upgrade;

/// Serves one connection until it ends. A stream that is encrypted must have completed its handshake.
pub async fn serve(stream: Stream, peer: Peer, front: Arc<Front>, termination: SessionTermination) -> io::Result<()> {
    let shutdown = front.shutdown().clone();
    tracing::debug!(target: "http", connection = peer.connection, %peer, "connection opened");
    let outcome = tokio::select! {
        biased;
        () = shutdown.closing() => Ok(()),
        outcome = run(stream, peer, front, termination) => outcome,
    };
    let error = outcome.as_ref().err().map(tracing::field::display);
    tracing::debug!(target: "http", connection = peer.connection, %peer, error, "connection closed");
    outcome
}

async fn run(stream: Stream, peer: Peer, front: Arc<Front>, termination: SessionTermination) -> io::Result<()> {
    let shutdown = front.shutdown().clone();
    let tasks = Tasks::default();
    let builder = builder(front.options(), &tasks);
    let idle_time_max = front.options().idle_time_max;
    let state = Arc::new(ConnectionState::new(peer, front));
    let service = {
        let state = Arc::clone(&state);
        // Hyper moves the future of an answer several times, and it is large.
        hyper::service::service_fn(move |request| Box::pin(answer(Arc::clone(&state), request)))
    };
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let mut watch = IdleWatch::new(idle_time_max);
    let mut is_draining = false;
    loop {
        let is_ending = tokio::select! {
            outcome = connection.as_mut() => {
                outcome.map_err(io::Error::other)?;
                return run_upgrade(&state, &termination).await;
            }
            () = shutdown.draining(), if !is_draining => true,
            () = termination.terminated(), if !is_draining => true,
            () = state.exhausted.notified(), if !is_draining => true,
            () = tokio::time::sleep(CONNECTION_CHECK_INTERVAL) => watch.check(&state)? && !is_draining,
        };
        if is_ending {
            is_draining = true;
            connection.as_mut().graceful_shutdown();
        }
    }
}

/// Runs the protocol that follows HTTP, if there is one.
async fn run_upgrade(state: &ConnectionState, termination: &SessionTermination) -> io::Result<()> {
    let Some(upgrade) = state.upgrade.lock().take() else { return Ok(()) };
    tokio::select! {
        biased;
        () = termination.terminated() => Ok(()),
        outcome = upgrade.run() => outcome.map_err(io::Error::other),
    }
}

async fn answer(
    state: Arc<ConnectionState>,
    request: Request<Incoming>,
) -> Result<axum::http::Response<crate::response_body::ResponseBody>, Infallible> {
    let running = RunningRequest::begin(&state);
    Ok(Front::answer(&state, running, request).await)
}

fn builder(options: &FrontOptions, tasks: &Tasks) -> auto::Builder<Tasks> {
    let mut builder = auto::Builder::new(tasks.clone());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.header_time_max)
        .max_headers(HEADER_FIELDS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(options.persistent_connections);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.streams_per_connection)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(RESET_STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(STALL_TIME_MAX)
        .keep_alive_timeout(PING_TIME_MAX);
    builder
}

/// The state of a connection that its requests share.
pub(crate) struct ConnectionState {
    pub(crate) peer: Peer,
    pub(crate) front: Arc<Front>,
    /// Whether the peer reads the answers.
    pub(crate) reading: Arc<ReadProgress>,
    /// Number of running requests.
    running: AtomicUsize,
    /// Number of requests so far.
    requests: AtomicU64,
    /// Notified when the connection has had its maximum number of requests.
    exhausted: Notify,
    /// The protocol that follows when the last answer has been sent.
    upgrade: Mutex<Option<Upgrade>>,
}

impl ConnectionState {
    fn new(peer: Peer, front: Arc<Front>) -> Self {
        Self {
            peer,
            front,
            reading: Arc::default(),
            running: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            exhausted: Notify::new(),
            upgrade: Mutex::default(),
        }
    }

    /// Sets the protocol that follows when the present answer has been sent.
    pub(crate) fn upgrade_to(&self, upgrade: Upgrade) {
        *self.upgrade.lock() = Some(upgrade);
    }
}

/// A request that runs until it is dropped.
pub(crate) struct RunningRequest {
    state: Arc<ConnectionState>,
    /// `true` for the last request that the connection may have.
    pub(crate) is_last: bool,
}

impl RunningRequest {
    fn begin(state: &Arc<ConnectionState>) -> Self {
        state.running.fetch_add(1, Ordering::Relaxed);
        let before = state.requests.fetch_add(1, Ordering::Relaxed);
        let is_last = before + 1 >= state.front.options().requests_per_connection;
        if is_last {
            state.exhausted.notify_one();
        }
        Self { state: Arc::clone(state), is_last }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.state.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Finds connections that are idle or whose peer does not read.
struct IdleWatch {
    begun: Instant,
    idle_since: Instant,
    /// Number of requests at the last check.
    seen: u64,
    idle_time_max: Duration,
}

impl IdleWatch {
    fn new(idle_time_max: Duration) -> Self {
        Self { begun: Instant::now(), idle_since: Instant::now(), seen: 0, idle_time_max }
    }

    /// Returns `true` if the connection is to end because it is idle, and an error if it must end at once.
    fn check(&mut self, state: &ConnectionState) -> io::Result<bool> {
        let requests = state.requests.load(Ordering::Relaxed);
        if requests != self.seen || state.running.load(Ordering::Relaxed) > 0 {
            self.seen = requests;
            self.idle_since = Instant::now();
        }
        let is_silent = requests == 0 && self.begun.elapsed() > FIRST_REQUEST_TIME_MAX;
        if is_silent || state.reading.stalled_time() > STALL_TIME_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let idle_time = self.idle_since.elapsed();
        if idle_time > self.idle_time_max + STALL_TIME_MAX {
            // The peer has not reacted to the end of the connection.
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(idle_time > self.idle_time_max)
    }
}

/// The tasks of the streams of a connection; they end with the connection.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, stream: F) {
        let mut tasks = self.0.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            stream.await;
        });
    }
}
