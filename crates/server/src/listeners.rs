//! Listeners: binding, accepting, and the list of addresses in `listeners.json`.
//!
//! All listeners are bound before any of them serves, so that a port in use is an error at startup and not later.
//! Accepting ends when the server drains. A connection beyond the limits gets an error in the words of its protocol and
//! is closed before the next one is accepted, so refused connections keep neither a task nor a descriptor. Errors of
//! `accept`, such as running out of file descriptors, are logged and retried after a pause; they are never fatal.
//! [`find_faults`] probes the tasks of the listeners and reports those that do not accept connections.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use config::keys::ListenKeys;
use config::setting::{BindAddress, ListenAddresses};
use instance::data_folder::{DataError, DataFolder, write_private};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wire::{ConnectionPermit, Connections, Peer, Shutdown, Stream};

use crate::limits::{ACCEPT_PAUSE, BACKLOG, PROBE_TIME_MAX, PROBES_MAX};

/// The mode of the control socket: only its owner and root have access.
pub const CONTROL_SOCKET_MODE: u32 = 0o600;

/// The mode of the LMTP socket. Access is controlled by its folder, because mail servers run under their own users.
pub const LMTP_SOCKET_MODE: u32 = 0o666;

/// The protocol of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenerProtocol {
    /// SMTP from other servers.
    Smtp,
    /// SMTP from users.
    Submission,
    /// SMTP from users, TLS from the first byte.
    SubmissionTls,
    /// IMAP.
    Imap,
    /// IMAP, TLS from the first byte.
    ImapTls,
    /// POP3.
    Pop3,
    /// POP3, TLS from the first byte.
    Pop3Tls,
    /// The native protocol: gRPC, TLS from the first byte.
    Native,
    /// CouchDB's replication protocol: HTTP, TLS from the first byte.
    Couchdb,
    /// Web mail and JMAP.
    Http,
    /// Web mail and JMAP, TLS from the first byte.
    Https,
    /// LMTP over a local socket.
    Lmtp,
    /// Health and statistics.
    Admin,
}

impl ListenerProtocol {
    /// Returns the protocol's key in `[listen]`, which is also its name in `listeners.json` and in the statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Smtp => "smtp",
            Self::Submission => "submission",
            Self::SubmissionTls => "submission_tls",
            Self::Imap => "imap",
            Self::ImapTls => "imap_tls",
            Self::Pop3 => "pop3",
            Self::Pop3Tls => "pop3_tls",
            Self::Native => "native",
            Self::Couchdb => "couchdb",
            Self::Http => "http",
            Self::Https => "https",
            Self::Lmtp => "lmtp",
            Self::Admin => "admin",
        }
    }

    /// Returns the reply to a connection that is refused because of a limit. Empty for listeners with implicit TLS,
    /// where a handshake would have to come first, and for the administration port.
    fn refusal(self) -> &'static str {
        match self {
            Self::Smtp | Self::Submission | Self::Lmtp => "421 4.7.0 Too many connections, try again later\r\n",
            Self::Imap => "* BYE [UNAVAILABLE] Too many connections, try again later\r\n",
            Self::Pop3 => "-ERR [SYS/TEMP] Too many connections, try again later\r\n",
            Self::Http => "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            Self::SubmissionTls
            | Self::ImapTls
            | Self::Pop3Tls
            | Self::Native
            | Self::Couchdb
            | Self::Https
            | Self::Admin => "",
        }
    }
}

/// The error returned if the server cannot listen. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// An address cannot be bound.
    #[error("cannot listen at {address} for {name}: {source}{hint}")]
    Bind {
        /// The name of the listener.
        name: &'static str,
        /// The address or path.
        address: String,
        /// The error of the operating system.
        source: io::Error,
        /// A hint how to solve the problem.
        hint: &'static str,
    },
    /// The list of addresses cannot be written.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// A bound socket.
#[derive(Debug)]
pub enum Socket {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A local socket. Its file is removed when the listener is dropped.
    Unix(UnixListener, SocketFile),
}

/// Removes the file of a local socket when dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A listener that is bound but does not accept yet.
#[derive(Debug)]
pub struct BoundListener {
    /// The protocol.
    pub protocol: ListenerProtocol,
    /// The actual address or path.
    pub address: String,
    /// The socket.
    pub socket: Socket,
}

/// Binds all listeners of the configuration.
pub fn bind_all(keys: &ListenKeys, data: &DataFolder) -> Result<Vec<BoundListener>, ListenError> {
    let mut bound = Vec::new();
    for (protocol, listen) in network_listeners(keys) {
        for bind in &listen.0 {
            bound.push(bind_network(protocol, *bind)?);
        }
    }
    if let Some(path) = &keys.lmtp.0 {
        bound.push(bind_local(ListenerProtocol::Lmtp, &data.resolve(path), LMTP_SOCKET_MODE)?);
    }
    Ok(bound)
}

/// Returns the settings of all listeners on network addresses.
pub(crate) fn network_listeners(keys: &ListenKeys) -> [(ListenerProtocol, &ListenAddresses); 12] {
    [
        (ListenerProtocol::Smtp, &keys.smtp),
        (ListenerProtocol::Submission, &keys.submission),
        (ListenerProtocol::SubmissionTls, &keys.submission_tls),
        (ListenerProtocol::Imap, &keys.imap),
        (ListenerProtocol::ImapTls, &keys.imap_tls),
        (ListenerProtocol::Pop3, &keys.pop3),
        (ListenerProtocol::Pop3Tls, &keys.pop3_tls),
        (ListenerProtocol::Native, &keys.native),
        (ListenerProtocol::Couchdb, &keys.couchdb),
        (ListenerProtocol::Http, &keys.http),
        (ListenerProtocol::Https, &keys.https),
        (ListenerProtocol::Admin, &keys.admin),
    ]
}

/// Writes the addresses to a file, for programs that need to find the server.
pub fn write_addresses(bound: &[BoundListener], file: &Path) -> Result<(), DataError> {
    let mut addresses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for listener in bound {
        addresses.entry(listener.protocol.name()).or_default().push(&listener.address);
    }
    let text = serde_json::json!(addresses);
    write_private(file, format!("{text:#}\n").as_bytes())
}

/// Binds a local socket. Replaces a socket file that no server listens at.
pub fn bind_local(protocol: ListenerProtocol, path: &Path, mode: u32) -> Result<BoundListener, ListenError> {
    use std::os::unix::fs::PermissionsExt;
    let refuse = |source| ListenError::Bind {
        name: protocol.name(),
        address: path.display().to_string(),
        source,
        hint: "; check that the path is shorter than 108 bytes and that its folder exists",
    };
    // In the data folder, which is locked, no other server can listen at the socket. Elsewhere a live server accepts
    // the connection.
    if std::os::unix::net::UnixStream::connect(path).is_err() {
        let _ = std::fs::remove_file(path);
    }
    let listener = UnixListener::bind(path).map_err(refuse)?;
    let file = SocketFile(path.to_owned());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(refuse)?;
    Ok(BoundListener { protocol, address: path.display().to_string(), socket: Socket::Unix(listener, file) })
}

fn bind_network(protocol: ListenerProtocol, bind: BindAddress) -> Result<BoundListener, ListenError> {
    let mut refused = None;
    for address in bind.socket_addresses() {
        match bind_tcp(address) {
            Ok(listener) => {
                let address = listener.local_addr().unwrap_or(address).to_string();
                return Ok(BoundListener { protocol, address, socket: Socket::Tcp(listener) });
            }
            Err(error) => refused = Some((address, error)),
        }
    }
    let (address, source) = refused.expect("a bind has at least one candidate");
    let hint = match source.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program uses the port: stop it, choose another port in [listen], or turn the listener off"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need the capability CAP_NET_BIND_SERVICE (packaging/doublet.service grants it); grant it, or choose another port"
        }
        _ => "",
    };
    Err(ListenError::Bind { name: protocol.name(), address: address.to_string(), source, hint })
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Counters of one listener.
#[derive(Debug, Default)]
pub struct ListenerCounters {
    /// Accepted connections.
    pub accepted: AtomicU64,
    /// Connections that were refused because of a limit.
    pub refused: AtomicU64,
}

/// A function that starts to serve one connection. It is called once for each connection and must not block.
pub type ServeConnection = Arc<dyn Fn(Stream, Peer, ConnectionPermit) + Send + Sync>;

/// The question to the task of a listener whether it accepts connections. The answer is its last error, if any.
pub type Probe = oneshot::Sender<Option<String>>;

/// The end of a listener's probes at which the state of the listener is requested.
#[derive(Debug, Clone)]
pub struct ListenerProbe {
    /// Name and address of the listener, for the operator.
    name: String,
    /// The file of a local socket.
    file: Option<PathBuf>,
    probes: mpsc::Sender<Probe>,
}

impl ListenerProbe {
    /// Creates the two ends of the probes of a listener.
    #[must_use]
    pub fn new(bound: &BoundListener) -> (Self, mpsc::Receiver<Probe>) {
        let (probes, receiver) = mpsc::channel(PROBES_MAX);
        let file = match &bound.socket {
            Socket::Tcp(_) => None,
            Socket::Unix(_, file) => Some(file.0.clone()),
        };
        let name = format!("{} at {}", bound.protocol.name(), bound.address);
        (Self { name, file, probes }, receiver)
    }

    fn describe_fault(&self, fault: &str) -> String {
        format!("the listener {} {fault}", self.name)
    }

    /// Sends a probe, or returns the fault that prevents it.
    fn send_probe(&self) -> Result<oneshot::Receiver<Option<String>>, String> {
        if self.file.as_ref().is_some_and(|file| !file.exists()) {
            return Err(self.describe_fault("cannot be reached because its socket was removed; restart the server"));
        }
        let (answer, answered) = oneshot::channel();
        match self.probes.try_send(answer) {
            Ok(()) => Ok(answered),
            Err(mpsc::error::TrySendError::Full(_)) => Err(self.describe_fault(BLOCKED)),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(self.describe_fault(ENDED)),
        }
    }

    async fn await_answer(
        &self,
        sent: Result<oneshot::Receiver<Option<String>>, String>,
        until: Instant,
    ) -> Option<String> {
        let answered = match sent {
            Ok(answered) => answered,
            Err(fault) => return Some(fault),
        };
        match tokio::time::timeout_at(until, answered).await {
            Ok(Ok(None)) => None,
            Ok(Ok(Some(error))) => Some(self.describe_fault(&format!("cannot accept connections: {error}"))),
            Ok(Err(_)) => Some(self.describe_fault(ENDED)),
            Err(_) => Some(self.describe_fault(BLOCKED)),
        }
    }
}

/// Description of a listener whose task does not answer.
const BLOCKED: &str = "is blocked; see the log, and restart the server if the problem persists";

/// Description of a listener whose task has ended although the server runs.
const ENDED: &str = "has ended because of a bug; see the log, and restart the server";

/// Returns a description of each listener that does not accept connections. Takes at most [`PROBE_TIME_MAX`].
pub async fn find_faults(listeners: &[ListenerProbe]) -> Vec<String> {
    let until = Instant::now() + PROBE_TIME_MAX;
    let sent: Vec<_> = listeners.iter().map(ListenerProbe::send_probe).collect();
    let mut faults = Vec::new();
    for (listener, sent) in listeners.iter().zip(sent) {
        faults.extend(listener.await_answer(sent, until).await);
    }
    faults
}

/// An error of `accept`, until a later attempt does not fail.
#[derive(Debug)]
struct AcceptFailure {
    error: String,
    retry_at: Instant,
}

/// A task that accepts connections of one listener.
pub struct ConnectionAcceptor {
    /// The listener.
    pub bound: BoundListener,
    /// The counter of all connections of the server, which enforces the limits.
    pub connections: Arc<Connections>,
    /// The counters of this listener.
    pub traffic: Arc<ListenerCounters>,
    /// The function that serves a connection.
    pub serve: ServeConnection,
    /// The signal that ends accepting.
    pub shutdown: Shutdown,
    /// The probes of this listener.
    pub probes: mpsc::Receiver<Probe>,
}

impl ConnectionAcceptor {
    /// Accepts connections and answers probes until the server drains.
    pub async fn run(mut self) {
        let mut failure = None;
        loop {
            let accepted = tokio::select! {
                accepted = self.bound.socket.accept_after(&mut failure) => accepted,
                Some(probe) = self.probes.recv() => {
                    // The sender of a probe may have given up.
                    let _ = probe.send(failure.as_ref().map(|failure: &AcceptFailure| failure.error.clone()));
                    continue;
                }
                () = self.shutdown.draining() => return,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) => {
                    tracing::warn!(target: "wire", listener = self.bound.protocol.name(), %error, "cannot accept");
                    failure = Some(AcceptFailure { error: error.to_string(), retry_at: Instant::now() + ACCEPT_PAUSE });
                }
            }
        }
    }

    fn admit(&self, stream: Stream, peer: Peer) {
        match self.connections.admit(&peer) {
            Ok(permit) => {
                self.traffic.accepted.fetch_add(1, Ordering::Relaxed);
                (self.serve)(stream, peer, permit);
            }
            Err(error) => {
                self.traffic.refused.fetch_add(1, Ordering::Relaxed);
                let listener = self.bound.protocol.name();
                tracing::debug!(target: "wire", listener, %peer, why = %error, "refused a connection");
                stream.refuse(self.bound.protocol.refusal().as_bytes());
            }
        }
    }
}

impl Socket {
    /// Accepts a connection, after the pause of an earlier failure. Clears the failure if the attempt does not fail.
    async fn accept_after(&self, failure: &mut Option<AcceptFailure>) -> io::Result<(Stream, Peer)> {
        if let Some(failed) = failure {
            tokio::time::sleep_until(failed.retry_at).await;
        }
        let mut accepting = pin!(self.accept());
        match poll_fn(|context| Poll::Ready(accepting.as_mut().poll(context))).await {
            Poll::Ready(Err(error)) => Err(error),
            Poll::Ready(Ok(accepted)) => {
                *failure = None;
                Ok(accepted)
            }
            Poll::Pending => {
                *failure = None;
                accepting.await
            }
        }
    }

    async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address): (TcpStream, _) = listener.accept().await?;
                Ok((Stream::tcp(stream), Peer::network(address)))
            }
            Self::Unix(listener, _) => {
                let (stream, _): (UnixStream, _) = listener.accept().await?;
                Ok((Stream::unix(stream), Peer::local()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base::sync::Mutex;

    use tokio::io::AsyncReadExt;
    use wire::ConnectionLimits;

    use super::*;
    use config::{ConfigSources, load};

    const ALL_OFF: &str = "smtp submission submission_tls imap imap_tls pop3 pop3_tls native http https lmtp admin";

    fn bind(folder: &Path, assignments: &[&str]) -> Result<Vec<BoundListener>, ListenError> {
        let off = ALL_OFF.split(' ').map(|name| format!("listen.{name}=off"));
        let overrides = off.chain(assignments.iter().map(|text| format!("listen.{text}"))).collect();
        let config = load(&ConfigSources { overrides, ..ConfigSources::default() }).expect("a valid configuration");
        bind_all(&config.listen, &DataFolder::new(folder))
    }

    #[tokio::test]
    async fn bound_addresses_are_written_to_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let bound = bind(folder.path(), &["imap=127.0.0.1:0", "smtp=127.0.0.1:0,127.0.0.1:0", "lmtp=lmtp.sock"])
            .expect("the addresses are free");
        let file = folder.path().join("listeners.json");
        write_addresses(&bound, &file).expect("the folder is writable");
        let text = std::fs::read_to_string(&file).expect("it was written");
        let written: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(written["smtp"].as_array().map(Vec::len), Some(2));
        let imap = written["imap"][0].as_str().expect("an address");
        assert!(imap.starts_with("127.0.0.1:") && !imap.ends_with(":0"), "{imap}");
        assert!(written["pop3"].is_null());
        assert!(folder.path().join("lmtp.sock").exists());
        drop(bound);
        assert!(!folder.path().join("lmtp.sock").exists());
    }

    #[tokio::test]
    async fn port_in_use_is_explained() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = bind(folder.path(), &["imap=127.0.0.1:0"]).expect("a free port");
        let again = format!("imap={}", first[0].address);
        let error = bind(folder.path(), &[&again]).expect_err("the port is taken").to_string();
        assert!(error.contains("for imap") && error.contains("another program"), "{error}");
    }

    #[tokio::test]
    async fn only_a_stale_socket_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("the path is free"));
        assert!(path.exists());
        let live = bind_local(ListenerProtocol::Lmtp, &path, LMTP_SOCKET_MODE).expect("no process listens there");
        assert!(bind_local(ListenerProtocol::Lmtp, &path, LMTP_SOCKET_MODE).is_err());
        drop(live);
    }

    #[tokio::test]
    async fn connections_are_admitted_refused_and_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let bound = bind(folder.path(), &["imap=127.0.0.1:0"]).expect("a free port").remove(0);
        let address = bound.address.clone();
        let shutdown = Shutdown::new();
        let traffic = Arc::new(ListenerCounters::default());
        let kept = Arc::new(Mutex::new(Vec::new()));
        let serve: ServeConnection = Arc::new({
            let kept = Arc::clone(&kept);
            move |stream, peer, permit| {
                assert!(peer.loopback);
                kept.lock().push((stream, permit));
            }
        });
        let connections = Connections::new(ConnectionLimits { total_max: 1, per_address_max: 1 });
        let (_, probes) = ListenerProbe::new(&bound);
        let acceptor = ConnectionAcceptor {
            bound,
            connections,
            traffic: Arc::clone(&traffic),
            serve,
            shutdown: shutdown.clone(),
            probes,
        };
        let task = tokio::spawn(acceptor.run());
        let _first = TcpStream::connect(&address).await.expect("it listens");
        let mut second = TcpStream::connect(&address).await.expect("it listens");
        let mut reply = String::new();
        second.read_to_string(&mut reply).await.expect("it gets a reply");
        assert_eq!(reply, "* BYE [UNAVAILABLE] Too many connections, try again later\r\n");
        assert_eq!((kept.lock().len(), traffic.refused.load(Ordering::Relaxed)), (1, 1));
        shutdown.drain();
        task.await.expect("it ends");
        assert!(TcpStream::connect(&address).await.is_err());
    }

    /// Creates the task of a listener that admits no connections, and its probe.
    fn acceptor_with_probe(folder: &Path, assignment: &str) -> (ConnectionAcceptor, ListenerProbe) {
        let bound = bind(folder, &[assignment]).expect("a free address").remove(0);
        let (probe, probes) = ListenerProbe::new(&bound);
        let connections = Connections::new(ConnectionLimits { total_max: 0, per_address_max: 0 });
        let serve: ServeConnection = Arc::new(|_, _, _| {});
        let shutdown = Shutdown::new();
        (ConnectionAcceptor { bound, connections, traffic: Arc::default(), serve, shutdown, probes }, probe)
    }

    async fn check_fault(probe: &ListenerProbe, expected: &str) {
        let found = find_faults(std::slice::from_ref(probe)).await;
        assert!(found.len() == 1 && found[0].starts_with("the listener ") && found[0].contains(expected), "{found:?}");
    }

    // The clock of these tests is stopped: it advances to the next timeout when no task can run.
    #[tokio::test(start_paused = true)]
    async fn probe_reports_blocked_listener() {
        let folder = tempfile::tempdir().expect("a folder");
        let (acceptor, probe) = acceptor_with_probe(folder.path(), "imap=127.0.0.1:0");
        check_fault(&probe, "is blocked").await;
        let task = tokio::spawn(acceptor.run());
        assert_eq!(find_faults(std::slice::from_ref(&probe)).await, Vec::<String>::new());
        task.abort();
        assert!(task.await.is_err());
        check_fault(&probe, "has ended").await;
    }

    #[tokio::test(start_paused = true)]
    async fn probe_reports_removed_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let (acceptor, probe) = acceptor_with_probe(folder.path(), "lmtp=lmtp.sock");
        let task = tokio::spawn(acceptor.run());
        assert_eq!(find_faults(std::slice::from_ref(&probe)).await, Vec::<String>::new());
        std::fs::remove_file(folder.path().join("lmtp.sock")).expect("it was bound");
        check_fault(&probe, "its socket was removed").await;
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn probe_reports_accept_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        let (acceptor, probe) = acceptor_with_probe(folder.path(), "imap=127.0.0.1:0");
        let Socket::Tcp(listener) = &acceptor.bound.socket else { panic!("a TCP listener") };
        // After a shutdown of the listening socket, every accept fails.
        let socket = std::os::fd::AsFd::as_fd(listener).try_clone_to_owned().expect("a descriptor is free");
        std::net::TcpStream::from(socket).shutdown(std::net::Shutdown::Both).expect("it is open");
        let mut failure = None;
        let error = acceptor.bound.socket.accept_after(&mut failure).await.expect_err("it fails");
        let task = tokio::spawn(acceptor.run());
        while find_faults(std::slice::from_ref(&probe)).await.is_empty() {
            tokio::task::yield_now().await;
        }
        check_fault(&probe, &format!("cannot accept connections: {error}")).await;
        task.abort();

        let (working, _) = acceptor_with_probe(folder.path(), "imap=127.0.0.1:0");
        failure = Some(AcceptFailure { error: error.to_string(), retry_at: Instant::now() + ACCEPT_PAUSE });
        let waiting = tokio::time::timeout(ACCEPT_PAUSE * 2, working.bound.socket.accept_after(&mut failure)).await;
        assert!(waiting.is_err() && failure.is_none(), "no connection, and the error is cleared");
    }
}
