//! The administration port: health and statistics over HTTP.
//!
//! - `GET /health/live`: 200 as long as the program responds.
//! - `GET /health/ready`: 200 if the server accepts mail and connections; 503 with the reason if it drains, its store
//!   is poisoned, its disk is full, or a listener is dead or blocked.
//! - `GET /metrics`: statistics for Prometheus, in the OpenMetrics text format.
//!
//! There is no authentication, so the port is bound to loopback unless the configuration says otherwise. It cannot
//! change anything and shows no content of any database. Its connections do not count as connections of the server, so
//! that it answers when those are used up; it closes those beyond [`ADMIN_CONNECTIONS_MAX`].

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::Listener;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use wire::{ConnectionLimits, ConnectionPermit, Connections, Peer, Shutdown};

use crate::limits::ADMIN_CONNECTIONS_MAX;
use crate::listeners::{self, ListenerProbe};
use crate::metrics;

/// The source of the state of the server.
pub trait StatusSource: Send + Sync + 'static {
    /// Returns `Ok` if the server is ready apart from its listeners, or the reason why it is not. Called on a thread
    /// that may block.
    fn ready(&self) -> Result<(), String>;

    /// Returns the probes of the listeners, which must all accept connections.
    fn listeners(&self) -> &[ListenerProbe];
}

/// The data sources of the administration port.
#[derive(Clone)]
pub struct AdminSources {
    /// The state of the server.
    pub status: Arc<dyn StatusSource>,
    /// The statistics. Reading them may be slow, so it is done on a thread that may block.
    pub registry: Arc<Registry>,
}

/// Serves the port until the server closes.
pub async fn serve(listener: TcpListener, sources: AdminSources, shutdown: Shutdown) -> io::Result<()> {
    let limits = ConnectionLimits { total_max: ADMIN_CONNECTIONS_MAX, per_address_max: ADMIN_CONNECTIONS_MAX };
    let listener = LimitedListener { listener, connections: Connections::new(limits) };
    axum::serve(listener, router(sources)).with_graceful_shutdown(async move { shutdown.closing().await }).await
}

/// A listener that closes connections beyond its limits.
struct LimitedListener {
    listener: TcpListener,
    connections: Arc<Connections>,
}

impl Listener for LimitedListener {
    type Io = AdmittedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            if let Ok(permit) = self.connections.admit(&Peer::network(address)) {
                return (AdmittedStream { stream, _permit: permit }, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that is counted until it is dropped.
struct AdmittedStream {
    stream: TcpStream,
    _permit: ConnectionPermit,
}

impl AsyncRead for AdmittedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for AdmittedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn router(sources: AdminSources) -> Router {
    Router::new()
        .route("/health/live", get(async || "alive\n"))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(sources)
}

async fn ready(State(sources): State<AdminSources>) -> impl IntoResponse {
    let faults = listeners::find_faults(sources.status.listeners()).await;
    // The check queries the free disk space from the system, which may block.
    match tokio::task::spawn_blocking(move || sources.status.ready()).await {
        Ok(Ok(())) if faults.is_empty() => (StatusCode::OK, "ready\n".to_owned()),
        Ok(Ok(())) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", faults.join("; "))),
        Ok(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
    }
}

async fn metrics(State(sources): State<AdminSources>) -> impl IntoResponse {
    match tokio::task::spawn_blocking(move || metrics::encode(&sources.registry)).await {
        Ok(Ok(text)) => (StatusCode::OK, [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text),
        Ok(Err(_)) | Err(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], String::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::metrics::tests::registry_of;

    struct Fixed(Result<(), String>);

    impl StatusSource for Fixed {
        fn ready(&self) -> Result<(), String> {
            self.0.clone()
        }

        fn listeners(&self) -> &[ListenerProbe] {
            &[]
        }
    }

    async fn check(state: Result<(), String>, path: &str, status: &str, body: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let shutdown = Shutdown::new();
        let registry = registry_of(|out| out.gauge("up", "Up.", 1_u64));
        let sources = AdminSources { status: Arc::new(Fixed(state)), registry: Arc::new(registry) };
        let server = tokio::spawn(serve(listener, sources, shutdown.clone()));
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("it answers");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert!(answer.ends_with(body), "{answer}");
        shutdown.close();
        server.await.expect("no panic").expect("it ends in order");
        answer
    }

    #[tokio::test]
    async fn health_and_statistics_are_served() {
        check(Ok(()), "/health/live", "200", "\r\n\r\nalive\n").await;
        check(Ok(()), "/health/ready", "200", "\r\n\r\nready\n").await;
        check(Err("draining".to_owned()), "/health/live", "200", "alive\n").await;
        check(Err("draining".to_owned()), "/health/ready", "503", "not ready: draining\n").await;
        check(Ok(()), "/", "404", "\r\n\r\n").await;
        let text = "\r\n\r\n# HELP doublet_up Up.\n# TYPE doublet_up gauge\ndoublet_up 1\n# EOF\n";
        let answer = check(Ok(()), "/metrics", "200", text).await;
        let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert!(answer.contains(&format!("\r\ncontent-type: {media_type}\r\n")), "{answer}");
    }
}
