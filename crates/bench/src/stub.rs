//! A server of the harness that answers the native protocol at once, or after known times.
//!
//! It has real sockets, TLS and HTTP/2, so that a run against it measures the driver alone: with response times of
//! zero, what the driver needs for a transaction and how late it is; with known ones, whether the report gives them
//! back. It stores nothing: each call has one reply ([`replies`]), whatever it asks for, and every login is accepted.
//! `Authenticate` is refused as unknown, so that clients log in with the password itself.
//!
//! It shares no code with the server. What it receives is dropped unread, with the flow control of HTTP/2.

mod connection;
mod replies;
mod response_time;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::sync::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use replies::Replies;
pub use response_time::ResponseTime;

/// The name in the certificate.
const HOST: &str = "localhost";

/// Maximum number of addresses of clients that are remembered.
const PEERS_MAX: usize = 1_000;

/// What a stub server does.
#[derive(Debug, Clone)]
pub struct StubOptions {
    /// The address on which it listens; port 0 stands for one that the system chooses.
    pub listen: String,
    /// How long it waits before it answers a call.
    pub response_time: ResponseTime,
    /// The seed of times that are drawn.
    pub seed: u64,
}

/// Why a stub server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StubError {
    /// It cannot listen.
    #[error("{address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// There is no certificate.
    #[error("the certificate cannot be made: {0}")]
    Certificate(String),
}

/// What all connections of a stub server share.
#[derive(Debug)]
struct Shared {
    replies: Replies,
    response_time: ResponseTime,
    seed: u64,
    calls: AtomicU64,
    connections: AtomicU64,
    /// The addresses from which connections came, at most [`PEERS_MAX`].
    peers: Mutex<BTreeSet<IpAddr>>,
}

impl Shared {
    /// Counts a connection from an address.
    fn begin_connection(&self, peer: IpAddr) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let mut peers = self.peers.lock();
        if peers.len() < PEERS_MAX {
            peers.insert(peer);
        }
    }

    /// Counts a call. Returns how long its answer takes.
    fn begin_call(&self) -> Duration {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.response_time.draw(self.seed, number)
    }
}

/// A stub server that runs.
#[derive(Debug)]
pub struct StubServer {
    address: SocketAddr,
    certificate: String,
    shared: Arc<Shared>,
    /// Accepts connections and owns their tasks. It ends with this field.
    _tasks: JoinSet<()>,
}

impl StubServer {
    /// Starts a server with a certificate of its own.
    ///
    /// # Errors
    ///
    /// If it cannot listen, or if no certificate can be made.
    pub async fn start(options: &StubOptions) -> Result<Self, StubError> {
        let failed = |source| StubError::Listen { address: options.listen.clone(), source };
        let listener = TcpListener::bind(&options.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (acceptor, certificate) = acceptor(b"h2")?;
        let shared = Arc::new(Shared {
            replies: Replies::new(),
            response_time: options.response_time,
            seed: options.seed,
            calls: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            peers: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(connection::accept_all(listener, acceptor, Arc::clone(&shared)));
        Ok(Self { address, certificate, shared, _tasks: tasks })
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the certificate (PEM).
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the number of connections that were accepted.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns the addresses from which connections came.
    pub fn peers(&self) -> BTreeSet<IpAddr> {
        self.shared.peers.lock().clone()
    }

    /// Returns the number of calls that were answered or are being answered.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }
}

/// Makes a certificate. Returns what accepts TLS with it for a protocol (ALPN), and its PEM form.
pub(crate) fn acceptor(protocol: &[u8]) -> Result<(TlsAcceptor, String), StubError> {
    let failed = |error: &dyn std::fmt::Display| StubError::Certificate(error.to_string());
    let certified = rcgen::generate_simple_self_signed(vec![HOST.to_owned()]).map_err(|error| failed(&error))?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| failed(&error))?;
    let chain = vec![certified.cert.der().clone()];
    let mut config =
        builder.with_no_client_auth().with_single_cert(chain, key.into()).map_err(|error| failed(&error))?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), certified.cert.pem()))
}
