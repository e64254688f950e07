//! The administration port: health and statistics over HTTP.
//!
//! - `GET /health/live`: 200 as long as the program responds.
//! - `GET /health/ready`: 200 if the server accepts mail and connections; 503 with the reason if it drains, its store
//!   is poisoned, its disk is full, or a listener is dead or blocked.
//! - `GET /metrics`: statistics for Prometheus.
//!
//! There is no authentication, so the port is bound to loopback unless the configuration says otherwise. It cannot
//! change anything and shows no content of any database.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use wire::Shutdown;

use crate::listen::{self, ListenerProbe};

/// The data source of the administration port.
pub trait StatusSource: Send + Sync + 'static {
    /// Returns `Ok` if the server is ready apart from its listeners, or the reason why it is not. Called on a thread
    /// that may block.
    fn ready(&self) -> Result<(), String>;

    /// Returns the probes of the listeners, which must all accept connections.
    fn listeners(&self) -> &[ListenerProbe];

    /// Returns the statistics. May be slow; called on a thread that may block.
    fn metrics(&self) -> String;
}

/// Serves the port until the server closes.
pub async fn serve(listener: TcpListener, facts: Arc<dyn StatusSource>, shutdown: Shutdown) -> std::io::Result<()> {
    axum::serve(listener, router(facts)).with_graceful_shutdown(async move { shutdown.closing().await }).await
}

fn router(facts: Arc<dyn StatusSource>) -> Router {
    Router::new()
        .route("/health/live", get(async || "alive\n"))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(facts)
}

async fn ready(State(facts): State<Arc<dyn StatusSource>>) -> impl IntoResponse {
    let faults = listen::faults(facts.listeners()).await;
    // The check queries the free disk space from the system, which may block.
    match tokio::task::spawn_blocking(move || facts.ready()).await {
        Ok(Ok(())) if faults.is_empty() => (StatusCode::OK, "ready\n".to_owned()),
        Ok(Ok(())) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", faults.join("; "))),
        Ok(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
    }
}

async fn metrics(State(facts): State<Arc<dyn StatusSource>>) -> impl IntoResponse {
    match tokio::task::spawn_blocking(move || facts.metrics()).await {
        Ok(text) => (StatusCode::OK, [(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], String::new()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    struct Fixed(Result<(), String>);

    impl StatusSource for Fixed {
        fn ready(&self) -> Result<(), String> {
            self.0.clone()
        }

        fn listeners(&self) -> &[ListenerProbe] {
            &[]
        }

        fn metrics(&self) -> String {
            "doublet_up 1\n".to_owned()
        }
    }

    async fn check(state: Result<(), String>, path: &str, status: &str, body: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let shutdown = Shutdown::new();
        let server = tokio::spawn(serve(listener, Arc::new(Fixed(state)), shutdown.clone()));
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("it answers");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        assert!(answer.ends_with(body), "{answer}");
        shutdown.close();
        server.await.expect("no panic").expect("it ends in order");
    }

    #[tokio::test]
    async fn health_and_statistics_are_told() {
        check(Ok(()), "/health/live", "200", "\r\n\r\nalive\n").await;
        check(Ok(()), "/health/ready", "200", "\r\n\r\nready\n").await;
        check(Err("draining".to_owned()), "/health/live", "200", "alive\n").await;
        check(Err("draining".to_owned()), "/health/ready", "503", "not ready: draining\n").await;
        check(Ok(()), "/metrics", "200", "\r\n\r\ndoublet_up 1\n").await;
        check(Ok(()), "/", "404", "\r\n\r\n").await;
    }
}
