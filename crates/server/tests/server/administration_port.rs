//! Tests of the administration port: readiness with real listeners, methods, and its end.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use server::admin_http::{AdminSources, StatusSource, serve};
use server::limits::ADMIN_CONNECTIONS_MAX;
use server::listeners::ListenerProbe;
use server::metrics::{MetricWriter, registry};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wire::Shutdown;

use crate::fixture::{RunningListener, bind, http, limited};

/// A server with listeners, and a reason why it is not ready.
struct Status {
    listeners: Vec<ListenerProbe>,
    fault: Option<&'static str>,
}

impl StatusSource for Status {
    fn ready(&self) -> Result<(), String> {
        self.fault.map_or(Ok(()), |fault| Err(fault.to_owned()))
    }

    fn listeners(&self) -> &[ListenerProbe] {
        &self.listeners
    }
}

/// A collector with one metric. It panics if it has a fault.
#[derive(Debug)]
struct Connections {
    fault: Option<&'static str>,
}

impl Collector for Connections {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        assert!(self.fault.is_none(), "on purpose");
        MetricWriter::new(encoder).gauge("connections", "Connections now.", 0_u64)
    }
}

/// Starts the port. Returns its address and its task.
async fn start(status: Status, shutdown: &Shutdown) -> (String, JoinHandle<std::io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound").to_string();
    let registry = Arc::new(registry(Connections { fault: status.fault }));
    let sources = AdminSources { status: Arc::new(status), registry };
    (address, tokio::spawn(serve(listener, sources, shutdown.clone())))
}

#[tokio::test]
async fn a_server_without_one_of_its_listeners_is_not_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let bound = bind(folder.path(), &["imap=127.0.0.1:0", "lmtp=lmtp.sock"]).expect("free addresses");
    let shutdown = Shutdown::new();
    let connections = limited(1);
    let listeners: Vec<_> =
        bound.into_iter().map(|bound| RunningListener::start(bound, &connections, &shutdown)).collect();
    let probes = listeners.iter().map(|listener| listener.probe.clone()).collect();
    let (address, port) = start(Status { listeners: probes, fault: None }, &shutdown).await;
    let ready = http(&address, "GET", "/health/ready").await;
    assert!(ready.starts_with("HTTP/1.1 200 ") && ready.ends_with("\r\n\r\nready\n"), "{ready}");
    std::fs::remove_file(folder.path().join("lmtp.sock")).expect("it was bound");
    let removed = http(&address, "GET", "/health/ready").await;
    let lmtp = format!("the listener lmtp at {}", listeners[1].address);
    let expected = format!("not ready: {lmtp} cannot be reached because its socket was removed; restart the server\n");
    assert!(removed.starts_with("HTTP/1.1 503 ") && removed.ends_with(&expected), "{removed}");
    listeners[0].task.abort();
    while !listeners[0].task.is_finished() {
        tokio::task::yield_now().await;
    }
    let both = http(&address, "GET", "/health/ready").await;
    assert!(both.contains("not ready: the listener imap at ") && both.contains(&format!("; {lmtp}")), "{both}");
    assert!(http(&address, "GET", "/health/live").await.ends_with("\r\n\r\nalive\n"), "it is still live");
    shutdown.close();
    port.await.expect("no panic").expect("an orderly end");
    assert!(TcpStream::connect(&address).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn failed_metrics_reply_reveals_no_details() {
    let shutdown = Shutdown::new();
    let (address, _port) = start(Status { listeners: Vec::new(), fault: None }, &shutdown).await;
    let metrics = http(&address, "GET", "/metrics").await;
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(metrics.to_lowercase().contains(&format!("\r\ncontent-type: {media_type}\r\n")), "{metrics}");
    assert!(metrics.ends_with(" gauge\ndoublet_connections 0\n# EOF\n"), "{metrics}");
    let (address, _port) = start(Status { listeners: Vec::new(), fault: Some("a fault") }, &shutdown).await;
    let failed = http(&address, "GET", "/metrics").await;
    assert!(failed.starts_with("HTTP/1.1 500 ") && !failed.contains("on purpose"), "{failed}");
}

#[tokio::test]
async fn port_has_a_limit_of_its_own() {
    let shutdown = Shutdown::new();
    let (address, _port) = start(Status { listeners: Vec::new(), fault: None }, &shutdown).await;
    let mut silent = Vec::new();
    for _ in 0..ADMIN_CONNECTIONS_MAX {
        silent.push(TcpStream::connect(&address).await.expect("it listens"));
    }
    let mut refused = TcpStream::connect(&address).await.expect("it listens");
    assert_eq!(refused.read(&mut [0; 8]).await.expect("an orderly end"), 0, "it is closed without a reply");
    silent.pop();
    // The port notices the end of a connection at some point.
    loop {
        let mut client = TcpStream::connect(&address).await.expect("it listens");
        let request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut response = String::new();
        // A connection that is refused may be reset while it is used.
        if client.write_all(request).await.is_ok() && client.read_to_string(&mut response).await.is_ok_and(|n| n > 0) {
            assert!(response.ends_with("alive\n"), "{response}");
            break;
        }
    }
}

#[tokio::test]
async fn port_accepts_only_get_and_head() {
    let shutdown = Shutdown::new();
    let (address, _port) = start(Status { listeners: Vec::new(), fault: None }, &shutdown).await;
    for path in ["/health/live", "/health/ready", "/metrics"] {
        for method in ["POST", "PUT", "DELETE"] {
            let response = http(&address, method, path).await;
            assert!(response.starts_with("HTTP/1.1 405 "), "{method} {path}: {response}");
        }
        let head = http(&address, "HEAD", path).await;
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{path}: {head}");
    }
    for path in ["/health", "/health/ready/", "/metrics/../etc", "/mail/ann.nsf"] {
        assert!(http(&address, "GET", path).await.starts_with("HTTP/1.1 404 "), "{path}");
    }
}
