//! One connection: HTTP/2 over an encrypted stream, its limits, and its end.
//!
//! Calls run concurrently, each in a task that the connection owns: when the connection ends, so do they. A connection
//! ends when the peer disconnects, when there is no login in time, when the peer does not read the replies it has
//! requested, when it is idle for too long without a running call, and when the server closes. A server that drains
//! sends GOAWAY and finishes the running calls.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base::memory::MemoryOwner;
use base::sync::Mutex;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::codegen::http::{Request, Response};
use wire::{Peer, SessionTermination, Stream};

use crate::admission::{self, ConnectionState, PeerServer};
use crate::backend::ServerCertificate;
use crate::limits::{
    CALL_WINDOW_BYTES, CALLS_PER_CONNECTION_MAX, CONNECTION_CHECK_INTERVAL, CONNECTION_WINDOW_BYTES, HEADER_BYTES_MAX,
    LOGIN_TIME_MAX, PING_TIME_MAX, RESET_CALLS_MAX, SEND_BUFFER_BYTES, STALL_TIME_MAX,
};
use crate::response_body::ResponseBody;
use crate::service::Service;
use crate::session::Session;

/// Serves one connection until it ends. `server` is the server certificate of the peer, if it presented one.
pub async fn serve(
    stream: Stream,
    peer: Peer,
    server: Option<ServerCertificate>,
    service: Arc<Service>,
    termination: SessionTermination,
) -> io::Result<()> {
    let server = peer_server(server, &service, peer, termination);
    serve_with(stream, peer, server, service).await
}

/// Serves a connection in memory of the person who works on a local store, without a login.
pub async fn serve_local(stream: Stream, service: Arc<Service>) -> io::Result<()> {
    let peer = Peer::local();
    let server = match &service.services.local_person {
        Some(person) => {
            let budget = service.services.memory.share_of(&MemoryOwner::account(person.name.canonical()));
            PeerServer::Other(Session::of_local_person(&person.name, SessionTermination::default(), budget))
        }
        None => PeerServer::None,
    };
    serve_with(stream, peer, server, service).await
}

async fn serve_with(stream: Stream, peer: Peer, server: PeerServer, service: Arc<Service>) -> io::Result<()> {
    let shutdown = service.shutdown.clone();
    tracing::debug!(target: "rpc", connection = peer.connection, %peer, "connection opened");
    let outcome = tokio::select! {
        biased;
        () = shutdown.closing() => Ok(()),
        outcome = run(stream, peer, server, service) => outcome,
    };
    tracing::debug!(
        target: "rpc",
        connection = peer.connection,
        %peer,
        error = outcome.as_ref().err().map(tracing::field::display),
        "connection closed"
    );
    outcome
}

async fn run(stream: Stream, peer: Peer, server: PeerServer, service: Arc<Service>) -> io::Result<()> {
    let shutdown = service.shutdown.clone();
    let silence_max = service.sessions.limits().idle;
    let is_known = matches!(server, PeerServer::Other(_));
    let budget = service.services.memory.share_of(&peer.memory_owner());
    let state = Arc::new(ConnectionState { service, peer, server, budget, reading: Arc::default() });
    let activity = Arc::new(Activity {
        running: AtomicUsize::new(0),
        logged_in: AtomicBool::new(is_known),
        calls: AtomicUsize::new(0),
    });
    let tasks = Tasks::default();
    let call_service = {
        let state = Arc::clone(&state);
        let activity = Arc::clone(&activity);
        hyper::service::service_fn(move |request| serve_call(Arc::clone(&state), Arc::clone(&activity), request))
    };
    let mut connection = pin!(http2_builder(&tasks).serve_connection(TokioIo::new(stream), call_service));
    let begun = Instant::now();
    let mut idle_since = begun;
    let mut seen = 0;
    let mut is_draining = false;
    loop {
        tokio::select! {
            outcome = connection.as_mut() => return outcome.map_err(io::Error::other),
            () = shutdown.draining(), if !is_draining => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
            () = tokio::time::sleep(CONNECTION_CHECK_INTERVAL) => {
                let calls = activity.calls.load(Ordering::Relaxed);
                if calls != seen || activity.running.load(Ordering::Relaxed) > 0 {
                    seen = calls;
                    idle_since = Instant::now();
                }
                let lacks_login = !activity.logged_in.load(Ordering::Relaxed) && begun.elapsed() > LOGIN_TIME_MAX;
                if lacks_login || state.reading.stalled_time() > STALL_TIME_MAX {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                if idle_since.elapsed() > silence_max && !is_draining {
                    is_draining = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// Begins the session of a server with the name in its certificate. No peer can be this server itself, whose work needs
/// no connection.
fn peer_server(
    server: Option<ServerCertificate>,
    service: &Service,
    peer: Peer,
    termination: SessionTermination,
) -> PeerServer {
    let Some(server) = server else { return PeerServer::None };
    if server.name == service.services.directory.options().server {
        tracing::warn!(
            target: "rpc",
            %peer,
            "a peer has a certificate with the name of this server, which a root in tls.peers has signed; its calls are refused"
        );
        return PeerServer::OwnName;
    }
    let budget = service.services.memory.share_of(&MemoryOwner::server(server.name.canonical()));
    PeerServer::Other(Session::of_server(server, termination, budget))
}

/// The activity of a connection.
struct Activity {
    /// Number of running calls.
    running: AtomicUsize,
    /// `true` after a call with a session was made.
    logged_in: AtomicBool,
    /// Number of calls so far.
    calls: AtomicUsize,
}

/// Decrements the number of running calls when dropped.
struct RunningCall(Arc<Activity>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve_call(
    state: Arc<ConnectionState>,
    activity: Arc<Activity>,
    request: Request<hyper::body::Incoming>,
) -> Result<Response<ResponseBody>, Infallible> {
    activity.running.fetch_add(1, Ordering::Relaxed);
    activity.calls.fetch_add(1, Ordering::Relaxed);
    let running = RunningCall(Arc::clone(&activity));
    let response = admission::serve_call(&state, request, Box::new(running)).await;
    if response.extensions().get::<admission::Authenticated>().is_some() {
        activity.logged_in.store(true, Ordering::Relaxed);
    }
    Ok(response)
}

fn http2_builder(tasks: &Tasks) -> http2::Builder<Tasks> {
    let mut builder = http2::Builder::new(tasks.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(CALLS_PER_CONNECTION_MAX)
        .max_pending_accept_reset_streams(RESET_CALLS_MAX)
        .max_local_error_reset_streams(RESET_CALLS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_stream_window_size(CALL_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(STALL_TIME_MAX)
        .keep_alive_timeout(PING_TIME_MAX);
    builder
}

/// The tasks of a connection's calls; they end with the connection.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        let mut tasks = self.0.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(call);
    }
}
