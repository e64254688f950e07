//! Listeners: binding, accepting, and the list of addresses in `listeners.json`.
//!
//! All listeners are bound before any of them serves, so that a port in use is an error at startup and not later.
//! Accepting ends when the server drains. A connection beyond the limits gets an error in the words of its protocol and
//! is closed. Errors of `accept`, such as running out of file descriptors, are logged and retried after a pause; they
//! are never fatal.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use wire::{Admission, Connections, Peer, Shutdown, Stream};

use crate::config::keys::ListenKeys;
use crate::config::setting::{Bind, ListenAddresses};
use crate::data::{DataError, DataFolder, write_private};
use crate::limits::{ACCEPT_PAUSE, BACKLOG};

/// The mode of the control socket: only its owner and root have access.
pub const CONTROL_SOCKET_MODE: u32 = 0o600;

/// The mode of the LMTP socket. Access is controlled by its folder, because mail servers run under their own users.
pub const LMTP_SOCKET_MODE: u32 = 0o666;

/// The protocol of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
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
    /// LMTP over a local socket.
    Lmtp,
    /// Health and statistics.
    Admin,
}

impl Protocol {
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
            Self::Lmtp => "lmtp",
            Self::Admin => "admin",
        }
    }

    /// Returns `true` if TLS starts with the first byte.
    #[must_use]
    pub fn implicit_tls(self) -> bool {
        matches!(self, Self::SubmissionTls | Self::ImapTls | Self::Pop3Tls | Self::Native)
    }

    /// Returns the reply to a connection that is refused because of a limit. Empty for listeners with implicit TLS,
    /// where a handshake would have to come first, and for the administration port.
    fn refusal(self) -> &'static str {
        match self {
            Self::Smtp | Self::Submission | Self::Lmtp => "421 4.7.0 Too many connections, try again later\r\n",
            Self::Imap => "* BYE [UNAVAILABLE] Too many connections, try again later\r\n",
            Self::Pop3 => "-ERR [SYS/TEMP] Too many connections, try again later\r\n",
            Self::SubmissionTls | Self::ImapTls | Self::Pop3Tls | Self::Native | Self::Admin => "",
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
    pub protocol: Protocol,
    /// The actual address or path.
    pub address: String,
    /// The socket.
    pub socket: Socket,
}

/// Binds all listeners of the configuration.
pub fn bind_all(keys: &ListenKeys, data: &DataFolder) -> Result<Vec<BoundListener>, ListenError> {
    let network: [(Protocol, &ListenAddresses); 9] = [
        (Protocol::Smtp, &keys.smtp),
        (Protocol::Submission, &keys.submission),
        (Protocol::SubmissionTls, &keys.submission_tls),
        (Protocol::Imap, &keys.imap),
        (Protocol::ImapTls, &keys.imap_tls),
        (Protocol::Pop3, &keys.pop3),
        (Protocol::Pop3Tls, &keys.pop3_tls),
        (Protocol::Native, &keys.native),
        (Protocol::Admin, &keys.admin),
    ];
    let mut bound = Vec::new();
    for (protocol, listen) in network {
        for bind in &listen.0 {
            bound.push(bind_network(protocol, *bind)?);
        }
    }
    if let Some(path) = &keys.lmtp.0 {
        bound.push(bind_local(Protocol::Lmtp, &data.resolve(path), LMTP_SOCKET_MODE)?);
    }
    Ok(bound)
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
pub fn bind_local(protocol: Protocol, path: &Path, mode: u32) -> Result<BoundListener, ListenError> {
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

fn bind_network(protocol: Protocol, bind: Bind) -> Result<BoundListener, ListenError> {
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
pub struct ListenerCounts {
    /// Accepted connections.
    pub accepted: AtomicU64,
    /// Connections that were refused because of a limit.
    pub refused: AtomicU64,
}

/// A function that starts to serve one connection. It is called once for each connection and must not block.
pub type ServeConnection = Arc<dyn Fn(Stream, Peer, Admission) + Send + Sync>;

/// A task that accepts connections of one listener.
pub struct Acceptor {
    /// The listener.
    pub bound: BoundListener,
    /// The counter of all connections of the server, which enforces the limits.
    pub connections: Arc<Connections>,
    /// The counters of this listener.
    pub traffic: Arc<ListenerCounts>,
    /// The function that serves a connection.
    pub serve: ServeConnection,
    /// The signal that ends accepting.
    pub shutdown: Shutdown,
}

impl Acceptor {
    /// Accepts connections until the server drains.
    pub async fn run(self) {
        loop {
            let accepted = tokio::select! {
                accepted = self.bound.socket.accept() => accepted,
                () = self.shutdown.draining() => return,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) => {
                    tracing::warn!(target: "wire", listener = self.bound.protocol.name(), %error, "cannot accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn admit(&self, stream: Stream, peer: Peer) {
        match self.connections.admit(&peer) {
            Ok(admission) => {
                self.traffic.accepted.fetch_add(1, Ordering::Relaxed);
                (self.serve)(stream, peer, admission);
            }
            Err(why) => {
                self.traffic.refused.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(target: "wire", listener = self.bound.protocol.name(), %peer, %why, "refused a connection");
                tokio::spawn(refuse(stream, self.bound.protocol.refusal()));
            }
        }
    }
}

impl Socket {
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

/// Sends the reply and closes the connection. Gives up after five seconds if the peer does not read.
async fn refuse(mut stream: Stream, words: &'static str) {
    let _ = tokio::time::timeout(Duration::from_secs(5), async {
        let _ = stream.write_all(words.as_bytes()).await;
        let _ = stream.shutdown().await;
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::io::AsyncReadExt;
    use wire::ConnectionLimits;

    use super::*;
    use crate::config::{ConfigSources, load};

    const ALL_OFF: &str = "smtp submission submission_tls imap imap_tls pop3 pop3_tls native lmtp admin";

    fn bind(folder: &Path, assignments: &[&str]) -> Result<Vec<BoundListener>, ListenError> {
        let off = ALL_OFF.split(' ').map(|name| format!("listen.{name}=off"));
        let overrides = off.chain(assignments.iter().map(|text| format!("listen.{text}"))).collect();
        let config = load(&ConfigSources { overrides, ..ConfigSources::default() }).expect("a valid configuration");
        bind_all(&config.listen, &DataFolder::new(folder))
    }

    #[tokio::test]
    async fn the_real_addresses_are_written_down() {
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
    async fn a_port_in_use_is_an_error_that_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = bind(folder.path(), &["imap=127.0.0.1:0"]).expect("a free port");
        let again = format!("imap={}", first[0].address);
        let error = bind(folder.path(), &[&again]).expect_err("the port is taken").to_string();
        assert!(error.contains("for imap") && error.contains("another program"), "{error}");
    }

    #[tokio::test]
    async fn a_dead_socket_file_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("the path is free"));
        assert!(path.exists());
        let live = bind_local(Protocol::Lmtp, &path, LMTP_SOCKET_MODE).expect("nobody is behind it");
        assert!(bind_local(Protocol::Lmtp, &path, LMTP_SOCKET_MODE).is_err());
        drop(live);
    }

    #[tokio::test]
    async fn connections_are_admitted_refused_and_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let bound = bind(folder.path(), &["imap=127.0.0.1:0"]).expect("a free port").remove(0);
        let address = bound.address.clone();
        let shutdown = Shutdown::new();
        let traffic = Arc::new(ListenerCounts::default());
        let kept = Arc::new(Mutex::new(Vec::new()));
        let serve: ServeConnection = Arc::new({
            let kept = Arc::clone(&kept);
            move |stream, peer, admission| {
                assert!(peer.loopback);
                kept.lock().expect("one thread").push((stream, admission));
            }
        });
        let connections = Connections::new(ConnectionLimits { total_max: 1, per_address_max: 1 });
        let acceptor =
            Acceptor { bound, connections, traffic: Arc::clone(&traffic), serve, shutdown: shutdown.clone() };
        let task = tokio::spawn(acceptor.run());
        let _first = TcpStream::connect(&address).await.expect("it listens");
        let mut second = TcpStream::connect(&address).await.expect("it listens");
        let mut heard = String::new();
        second.read_to_string(&mut heard).await.expect("it is told");
        assert_eq!(heard, "* BYE [UNAVAILABLE] Too many connections, try again later\r\n");
        assert_eq!((kept.lock().expect("one thread").len(), traffic.refused.load(Ordering::Relaxed)), (1, 1));
        shutdown.drain();
        task.await.expect("it ends");
        assert!(TcpStream::connect(&address).await.is_err());
    }
}
