//! The way of a request through the server: from the connection to the routes of a protocol, and back.
//!
//! Before the routes, the address is checked: requests without encryption are answered only on this machine. Behind
//! them, the answer is compressed, and gets the header fields that protect browsers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use axum::response::IntoResponse;
use axum::{Router, middleware};
use base::Clock;
use base::memory::MemoryShares;
use hyper::body::Incoming;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::Predicate;
use tower_service::Service as _;
use wire::{Peer, Shutdown};

use crate::connection::{ConnectionState, RunningRequest};
use crate::header_fields;
use crate::limits::COMPRESSED_ANSWER_BYTES_MIN;
use crate::problem::Problem;
use crate::request_context::RequestContext;
use crate::response_body::{FusedBody, RequestRecord, ResponseBody};
use crate::statistics::Statistics;
use crate::upgrade::Upgrade;

/// Settings of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontOptions {
    /// A connection carries several requests. Off only for comparisons.
    pub persistent_connections: bool,
    /// Maximum number of requests of a connection.
    pub requests_per_connection: u64,
    /// Maximum number of concurrent streams of a connection over HTTP/2.
    pub streams_per_connection: u32,
    /// Time after which a connection without a request ends.
    pub idle_time_max: Duration,
    /// Maximum time in which a client sends the header of a request.
    pub header_time_max: Duration,
    /// The peers whose answers are compressed.
    pub compression: Compression,
    /// How requests without encryption are answered.
    pub plain_text: PlainText,
}

impl Default for FrontOptions {
    fn default() -> Self {
        Self {
            persistent_connections: true,
            requests_per_connection: 10_000,
            streams_per_connection: 100,
            idle_time_max: Duration::from_secs(180),
            header_time_max: Duration::from_secs(30),
            compression: Compression::All,
            plain_text: PlainText::Refused,
        }
    }
}

/// The peers whose answers are compressed, if they accept it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    Off,
    /// Peers on other machines. On this one, compression takes more time than it saves.
    Remote,
    /// All peers.
    All,
}

impl Compression {
    fn includes(self, peer: &Peer) -> bool {
        match self {
            Self::Off => false,
            Self::Remote => !peer.loopback,
            Self::All => true,
        }
    }
}

/// How requests without encryption are answered. On this machine they are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainText {
    /// With an error.
    Refused,
    /// With a redirection to `https`. Requests on this machine are redirected too, unless they name this machine as
    /// their host: a page of another name that leads here (DNS rebinding) is not served.
    Redirected {
        /// The port at which the server listens for `https`.
        https_port: u16,
    },
}

/// An answer with this extension is not compressed, because it has a secret beside text that others can choose
/// (BREACH).
#[derive(Debug, Clone, Copy)]
pub struct Uncompressed;

/// The state that all connections of a listener share.
pub struct Front {
    options: FrontOptions,
    router: Router,
    memory: Arc<MemoryShares>,
    clock: Arc<dyn Clock>,
    shutdown: Shutdown,
    statistics: Arc<Statistics>,
}

impl Front {
    /// Creates the front of a protocol with these routes.
    #[must_use]
    pub fn new(
        options: FrontOptions,
        router: Router,
        memory: Arc<MemoryShares>,
        clock: Arc<dyn Clock>,
        shutdown: Shutdown,
    ) -> Arc<Self> {
        let router = match options.compression {
            Compression::Off => router,
            Compression::Remote | Compression::All => {
                router.layer(middleware::map_response(fuse)).layer(CompressionLayer::new().compress_when(Compressible))
            }
        };
        Arc::new(Self { options, router, memory, clock, shutdown, statistics: Arc::default() })
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &FrontOptions {
        &self.options
    }

    /// Returns the counters of requests.
    #[must_use]
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Answers a request of a connection.
    pub(crate) async fn answer(
        state: &ConnectionState,
        running: RunningRequest,
        request: Request<Incoming>,
    ) -> Response<ResponseBody> {
        let front = &state.front;
        let context = RequestContext::new(state.peer);
        let (mut head, body) = request.into_parts();
        let mut record = RequestRecord {
            front: Arc::clone(front),
            context: context.clone(),
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            route: None,
            status: StatusCode::OK,
            begun: front.now(),
            bytes: 0,
            is_complete: true,
        };
        name_host(&head.uri, &mut head.headers);
        if !front.options.compression.includes(&state.peer) {
            head.headers.remove(header::ACCEPT_ENCODING);
        }
        head.extensions.insert(context);
        let is_head = head.method == Method::HEAD;
        let is_http_1 = head.version < Version::HTTP_2;
        let mut response = match front.detour(&state.peer, &head.uri, &head.headers) {
            Some(response) => response,
            None => front.route(Request::from_parts(head, Body::new(body))).await,
        };
        record.route = response.extensions_mut().remove::<MatchedPath>();
        record.status = response.status();
        let is_upgrade = record.status == StatusCode::SWITCHING_PROTOCOLS;
        if let Some(upgrade) = response.extensions_mut().remove::<Upgrade>().filter(|_| is_upgrade) {
            state.upgrade_to(upgrade);
        }
        weaken_tag(response.headers_mut());
        header_fields::protect(&state.peer, response.headers_mut());
        if running.is_last && is_http_1 && !is_upgrade {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if is_head {
            *response.body_mut() = Body::empty();
        }
        let budget = front.memory.share_of(&state.peer.memory_owner());
        response.map(|body| ResponseBody::new(body, budget, Arc::clone(&state.reading), (record, running)))
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        // A router is always ready.
        match self.router.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Returns the answer to a request that must not be served here, because it is not encrypted.
    fn detour(&self, peer: &Peer, uri: &Uri, headers: &HeaderMap) -> Option<Response<Body>> {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        match self.options.plain_text {
            _ if peer.tls => None,
            PlainText::Refused if peer.is_private() => None,
            PlainText::Refused => {
                let detail = "this server is used over https only";
                Some(Problem::new(StatusCode::FORBIDDEN, detail).into_response())
            }
            PlainText::Redirected { .. } if peer.is_private() && is_this_machine(host) => None,
            PlainText::Redirected { https_port } => Some(redirection(host, https_port, uri)),
        }
    }
}

/// Adds the field `Host` to requests over HTTP/2, which have the host in their address.
fn name_host(uri: &Uri, headers: &mut HeaderMap) {
    let host = uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    if let Some(host) = host {
        headers.insert(header::HOST, host);
    }
}

/// Returns `true` if a host, with or without a port, is a name of this machine that leads nowhere else.
fn is_this_machine(host: &str) -> bool {
    // The field has no user (RFC 9110, section 7.2), but a URI may.
    let Some(authority) = host.parse::<Authority>().ok().filter(|_| !host.contains('@')) else { return false };
    let name = authority.host().trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn redirection(host: &str, https_port: u16, uri: &Uri) -> Response<Body> {
    let unknown = || Problem::new(StatusCode::BAD_REQUEST, "the request names no host").into_response();
    let Ok(authority) = host.parse::<Authority>() else { return unknown() };
    let name = authority.host();
    let authority = if https_port == 443 { name.to_owned() } else { format!("{name}:{https_port}") };
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let target = Uri::builder().scheme(Scheme::HTTPS).authority(authority).path_and_query(path).build();
    let Some(target) = target.ok().and_then(|target| HeaderValue::from_str(&target.to_string()).ok()) else {
        return unknown();
    };
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, target)]).into_response()
}

async fn fuse(response: Response<Body>) -> Response<Body> {
    response.map(|body| Body::new(FusedBody::new(body)))
}

/// Selects the answers that are compressed.
#[derive(Debug, Clone, Copy)]
struct Compressible;

impl Predicate for Compressible {
    fn should_compress<B: http_body::Body>(&self, response: &Response<B>) -> bool {
        let headers = response.headers();
        let status = response.status();
        is_text(headers)
            && status != StatusCode::NOT_MODIFIED
            && status != StatusCode::PARTIAL_CONTENT
            && response.extensions().get::<Uncompressed>().is_none()
            && !headers.contains_key(header::CONTENT_ENCODING)
            && response.body().size_hint().exact().is_none_or(|length| length >= COMPRESSED_ANSWER_BYTES_MIN)
    }
}

/// Returns `true` if an answer consists of text. A stream of events is none, because each event is sent at once.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind {
        "text/event-stream" => false,
        "application/json" | "application/problem+json" | "application/javascript" | "image/svg+xml" => true,
        kind => kind.starts_with("text/"),
    }
}

/// Makes the tag of a compressed answer a weak one, because the bytes are not those that it names.
fn weaken_tag(headers: &mut HeaderMap) {
    if !headers.contains_key(header::CONTENT_ENCODING) {
        return;
    }
    let Some(tag) = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()) else { return };
    if tag.starts_with("W/") {
        return;
    }
    if let Ok(weak) = HeaderValue::from_str(&format!("W/{tag}")) {
        headers.insert(header::ETAG, weak);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_recognized() {
        for host in ["localhost", "LocalHost:8000", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", "localhost.evil.test", "evil.test:8000", "192.0.2.1", "user@localhost:x", "[::2]"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn redirections_keep_the_path_and_the_query() {
        let check = |host: &str, port: u16, expected: Option<&str>| {
            let uri: Uri = "/lite/?a=b%20c".parse().expect("a URI");
            let response = redirection(host, port, &uri);
            let target = response.headers().get(header::LOCATION).map(|value| value.to_str().expect("ASCII"));
            assert_eq!(target, expected, "{host}");
        };
        check("mail.acme.test", 443, Some("https://mail.acme.test/lite/?a=b%20c"));
        check("mail.acme.test:80", 8443, Some("https://mail.acme.test:8443/lite/?a=b%20c"));
        check("[2001:db8::1]:80", 443, Some("https://[2001:db8::1]/lite/?a=b%20c"));
        check("", 443, None);
        check("a b", 443, None);
    }

    #[test]
    fn tags_of_compressed_answers_are_weak() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ETAG, HeaderValue::from_static("\"1-a\""));
        weaken_tag(&mut headers);
        assert_eq!(headers[header::ETAG], "\"1-a\"");
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        weaken_tag(&mut headers);
        weaken_tag(&mut headers);
        assert_eq!(headers[header::ETAG], "W/\"1-a\"");
    }
}
