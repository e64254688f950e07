//! Bound listeners, and requests to the administration port.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::sync::Mutex;
use config::{ConfigSources, load};
use instance::data_folder::DataFolder;
use server::listeners::{
    self, BoundListener, ConnectionAcceptor, ListenError, ListenerCounters, ListenerProbe, ListenerProtocol,
    ServeConnection,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use wire::{ConnectionLimits, ConnectionPermit, Connections, Peer, Shutdown, Stream};

const ALL_OFF: &str = "smtp submission submission_tls imap imap_tls pop3 pop3_tls native couchdb http https lmtp admin";

/// Binds the listeners of a configuration in which all others are off.
pub fn bind(folder: &Path, assignments: &[&str]) -> Result<Vec<BoundListener>, ListenError> {
    let off = ALL_OFF.split(' ').map(|name| format!("listen.{name}=off"));
    let overrides = off.chain(assignments.iter().map(|text| format!("listen.{text}"))).collect();
    let config = load(&ConfigSources { overrides, ..ConfigSources::default() }).expect("a valid configuration");
    listeners::bind_all(&config.listen, &DataFolder::new(folder))
}

/// A listener whose connections are kept open.
pub struct RunningListener {
    pub protocol: ListenerProtocol,
    pub address: String,
    pub probe: ListenerProbe,
    pub task: JoinHandle<()>,
    traffic: Arc<ListenerCounters>,
    /// The admitted connections, in the order of their arrival.
    pub admitted: Arc<Mutex<Vec<(Stream, Peer, ConnectionPermit)>>>,
}

impl RunningListener {
    /// Starts to accept connections.
    pub fn start(bound: BoundListener, connections: &Arc<Connections>, shutdown: &Shutdown) -> Self {
        let (probe, probes) = ListenerProbe::new(&bound);
        let protocol = bound.protocol;
        let address = bound.address.clone();
        let traffic = Arc::new(ListenerCounters::default());
        let admitted: Arc<Mutex<Vec<(Stream, Peer, ConnectionPermit)>>> = Arc::default();
        let kept = Arc::clone(&admitted);
        let serve: ServeConnection = Arc::new(move |stream, peer, permit| kept.lock().push((stream, peer, permit)));
        let connections = Arc::clone(connections);
        let shutdown = shutdown.clone();
        let acceptor =
            ConnectionAcceptor { bound, connections, traffic: Arc::clone(&traffic), serve, shutdown, probes };
        Self { protocol, address, probe, task: tokio::spawn(acceptor.run()), traffic, admitted }
    }

    /// Returns the numbers of accepted and of refused connections.
    pub fn counts(&self) -> (u64, u64) {
        (self.traffic.accepted.load(Ordering::Relaxed), self.traffic.refused.load(Ordering::Relaxed))
    }

    /// Waits until a number of connections was accepted or refused.
    pub async fn wait_for(&self, number: u64) {
        while self.counts().0 + self.counts().1 < number {
            tokio::task::yield_now().await;
        }
    }
}

/// Creates the counter of connections.
pub fn limited(total_max: usize) -> Arc<Connections> {
    Connections::new(ConnectionLimits { total_max, per_address_max: 1 })
}

/// Sends a request to an address, and returns the whole response.
pub async fn http(address: &str, method: &str, path: &str) -> String {
    let mut client = TcpStream::connect(address).await.expect("the port is open");
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("the server reads");
    let mut response = String::new();
    client.read_to_string(&mut response).await.expect("the server answers");
    response
}
