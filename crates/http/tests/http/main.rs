//! Connections in memory: how requests are answered over HTTP/1.1 and HTTP/2, and how connections end.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Request, StatusCode, Version, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Router};
use base::memory::MemoryShares;
use base::sim::SimClock;
use http::front::{Compression, PlainText};
use http::limits::{CONNECTION_CHECK_INTERVAL, FIRST_REQUEST_TIME_MAX, HEADER_FIELDS_MAX, STALL_TIME_MAX};
use http::statistics::with_route_names;
use http::upgrade::Upgrade;
use http::{Front, FrontOptions, RequestContext, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;
use wire::{Peer, SessionTermination, Shutdown, Stream};

/// A server with some routes.
struct World {
    front: Arc<Front>,
    shutdown: Shutdown,
    peer: Peer,
}

/// Number of bytes of the large answer.
const LARGE: usize = 4 << 20;

fn routes() -> Router {
    let router = Router::new()
        .route("/text/{name}", get(|path: axum::extract::Path<String>| async move { path.0 }))
        .route("/long", get(async || "words and words ".repeat(1_000)))
        .route("/secret", get(async || (Extension(http::front::Uncompressed), "token ".repeat(1_000)).into_response()))
        .route("/large", get(async || vec![b'x'; LARGE]))
        .route("/echo", post(|body: axum::body::Bytes| async move { body }))
        .route("/never", get(std::future::pending::<()>))
        .route("/echoes", get(begin_echoes))
        .route("/peer", get(|Extension(context): Extension<RequestContext>| async move { context.peer.to_string() }));
    with_route_names(router)
}

/// Turns the connection of a request into one on which everything comes back.
async fn begin_echoes(mut request: Request<axum::body::Body>) -> axum::response::Response {
    let upgrade = Upgrade::new(&mut request, |stream| async move {
        let (mut reading, mut writing) = tokio::io::split(stream);
        // It ends with an error of the peer.
        let _ = tokio::io::copy(&mut reading, &mut writing).await;
    });
    let Some(upgrade) = upgrade else { return StatusCode::UPGRADE_REQUIRED.into_response() };
    let fields = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "echoes")];
    (StatusCode::SWITCHING_PROTOCOLS, fields, Extension(upgrade)).into_response()
}

impl World {
    fn new(options: FrontOptions) -> Self {
        let shutdown = Shutdown::new();
        let clock = Arc::new(SimClock::new());
        let front = Front::new(options, routes(), MemoryShares::unlimited(), clock, shutdown.clone());
        Self { front, shutdown, peer: Peer::local() }
    }

    /// Opens a connection.
    fn connect(&self) -> (Stream, JoinHandle<std::io::Result<()>>) {
        self.connect_until(SessionTermination::default())
    }

    /// Opens a connection that ends with a signal.
    fn connect_until(&self, termination: SessionTermination) -> (Stream, JoinHandle<std::io::Result<()>>) {
        let (client, stream) = Stream::duplex(1 << 16);
        let serving = serve(stream, self.peer, Arc::clone(&self.front), termination);
        (client, tokio::spawn(serving))
    }

    /// Sends bytes on a connection and returns everything that the server sends until it closes the connection.
    async fn converse(&self, sent: &str) -> String {
        let (mut client, serving) = self.connect();
        let mut received = Vec::new();
        let (mut reading, mut writing) = tokio::io::split(&mut client);
        let send = async {
            // The server may answer, and end the connection, before it has read everything.
            let _ = writing.write_all(sent.as_bytes()).await;
        };
        let receive = async { reading.read_to_end(&mut received).await };
        let ((), read) = tokio::join!(send, receive);
        read.expect("the connection ends");
        // The connection may end with an error of the client.
        let _ = serving.await.expect("the task ends");
        String::from_utf8_lossy(&received).into_owned()
    }

    /// Sends a request on a connection of its own.
    async fn get(&self, path: &str, fields: &str) -> String {
        self.converse(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{fields}\r\n")).await
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    let mut fields = head.split("\r\n").filter_map(|line| line.split_once(": "));
    fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let world = World::new(FrontOptions::default());
    let requests: String =
        (0..10).map(|number| format!("GET /text/{number} HTTP/1.1\r\nhost: localhost\r\n\r\n")).collect();
    let answers =
        world.converse(&format!("{requests}GET /text/end HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
    let bodies: Vec<&str> =
        answers.split("\r\n\r\n").skip(1).filter_map(|part| part.split("HTTP/1.1").next()).collect();
    assert_eq!(bodies, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "end"]);
}

#[tokio::test]
async fn connections_are_persistent_unless_the_option_is_off() {
    let two = "GET /text/a HTTP/1.1\r\nhost: x\r\n\r\nGET /text/b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let count = |answers: String| answers.matches("HTTP/1.1 200").count();
    assert_eq!(count(World::new(FrontOptions::default()).converse(two).await), 2);
    let off = FrontOptions { persistent_connections: false, ..FrontOptions::default() };
    assert_eq!(count(World::new(off).converse(two).await), 1);
}

#[tokio::test]
async fn a_connection_ends_after_its_maximum_number_of_requests() {
    let options = FrontOptions { requests_per_connection: 3, ..FrontOptions::default() };
    let requests = "GET /text/a HTTP/1.1\r\nhost: x\r\n\r\n".repeat(5);
    let answers = World::new(options).converse(&requests).await;
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
}

#[tokio::test(start_paused = true)]
async fn silent_and_idle_connections_end() {
    let world = World::new(FrontOptions { idle_time_max: Duration::from_secs(60), ..FrontOptions::default() });
    let (_client, serving) = world.connect();
    let begun = tokio::time::Instant::now();
    assert!(serving.await.expect("the task ends").is_err(), "it never speaks");
    assert!(begun.elapsed() <= FIRST_REQUEST_TIME_MAX + CONNECTION_CHECK_INTERVAL * 2, "{:?}", begun.elapsed());
    let begun = tokio::time::Instant::now();
    world.converse("GET /text/a HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let idle = begun.elapsed();
    // The time for the header of the next request is shorter than that for idleness.
    assert!(idle >= Duration::from_secs(30) && idle <= Duration::from_secs(75), "{idle:?}");
}

#[tokio::test(start_paused = true)]
async fn slow_headers_and_slow_readers_lose_their_connection() {
    let world = World::new(FrontOptions::default());
    let answer = world.converse("GET /text/a HTTP/1.1\r\nhost: ").await;
    assert!(answer.is_empty() || status(&answer) == "408", "{answer}");
    let (mut client, serving) = world.connect();
    client.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("the server reads");
    let begun = tokio::time::Instant::now();
    assert!(serving.await.expect("the task ends").is_err(), "nobody reads the answer");
    assert!(begun.elapsed() >= STALL_TIME_MAX && begun.elapsed() < STALL_TIME_MAX * 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn header_floods_and_smuggled_requests_are_refused() {
    let world = World::new(FrontOptions::default());
    let many: String = (0..=HEADER_FIELDS_MAX).map(|number| format!("x-{number}: y\r\n")).collect();
    assert_eq!(status(&world.get("/text/a", &many).await), "431");
    let long = format!("x: {}\r\n", "y".repeat(100 << 10));
    assert_eq!(status(&world.get("/text/a", &long).await), "431");
    let check = |fields: &'static str, body: &'static str| {
        let world = &world;
        async move {
            let request = format!("POST /echo HTTP/1.1\r\nhost: x\r\n{fields}\r\n{body}");
            let second = "GET /text/b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            let answers = world.converse(&format!("{request}{second}")).await;
            let statuses: Vec<&str> =
                answers.split("HTTP/1.1 ").skip(1).map(|answer| answer.split(' ').next().unwrap_or_default()).collect();
            (statuses.join(" "), answers)
        }
    };
    for fields in ["content-length: 3\r\ncontent-length: 4\r\n", "content-length: 3x\r\n", "content-length: -1\r\n"] {
        let (statuses, answers) = check(fields, "abc").await;
        assert_eq!(statuses, "400", "{fields}: {answers}");
    }
    // Of both lengths, that of the chunks counts, and the connection ends (RFC 9112, section 6.1).
    let (statuses, _) = check("content-length: 3\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n").await;
    assert!(statuses == "200" || statuses == "400", "{statuses}");
    let (statuses, _) = check("transfer-encoding: identity\r\n", "abc").await;
    assert_eq!(statuses, "400");
    // The name of a field ends without white space (section 5.1).
    let (statuses, _) = check("content-length : 3\r\n", "abc").await;
    assert_eq!(statuses, "400");
}

#[tokio::test]
async fn answers_are_compressed_unless_they_have_secrets() {
    let world = World::new(FrontOptions::default());
    let coding = |answer: String| field(&answer, "content-encoding").map(str::to_owned);
    for (accepted, expected) in
        [("gzip", Some("gzip")), ("br", Some("br")), ("zstd", Some("zstd")), ("gzip;q=0", None), ("identity", None)]
    {
        let answer = world.get("/long", &format!("accept-encoding: {accepted}\r\n")).await;
        assert_eq!(coding(answer).as_deref(), expected, "{accepted}");
    }
    assert_eq!(coding(world.get("/text/short", "accept-encoding: gzip\r\n").await), None);
    assert_eq!(coding(world.get("/secret", "accept-encoding: gzip\r\n").await), None);
    assert_eq!(coding(world.get("/large", "accept-encoding: gzip\r\n").await), None, "it is no text");
    let remote = World::new(FrontOptions { compression: Compression::Remote, ..FrontOptions::default() });
    assert_eq!(coding(remote.get("/long", "accept-encoding: gzip\r\n").await), None, "the peer is on this machine");
    let off = World::new(FrontOptions { compression: Compression::Off, ..FrontOptions::default() });
    assert_eq!(coding(off.get("/long", "accept-encoding: gzip\r\n").await), None);
}

#[tokio::test]
async fn only_this_machine_is_served_without_encryption() {
    let redirected = FrontOptions { plain_text: PlainText::Redirected { https_port: 8443 }, ..FrontOptions::default() };
    let mut world = World::new(redirected);
    assert_eq!(status(&world.get("/text/a", "").await), "200");
    let foreign_host = "GET /text/a?b HTTP/1.1\r\nhost: evil.test:80\r\nconnection: close\r\n\r\n";
    let answer = world.converse(foreign_host).await;
    assert_eq!((status(&answer), field(&answer, "location")), ("308", Some("https://evil.test:8443/text/a?b")));
    world.peer = Peer::network("192.0.2.7:5000".parse().expect("an address"));
    let answer = world.get("/text/a", "").await;
    assert_eq!((status(&answer), field(&answer, "location")), ("308", Some("https://localhost:8443/text/a")));
    world.peer = world.peer.encrypted();
    assert_eq!(status(&world.get("/peer", "").await), "200");
    let mut refused = World::new(FrontOptions::default());
    assert_eq!(status(&refused.get("/text/a", "").await), "200");
    refused.peer = Peer::network("192.0.2.7:5000".parse().expect("an address"));
    assert_eq!(status(&refused.get("/text/a", "").await), "403");
}

#[tokio::test]
async fn every_answer_has_the_fields_that_protect_browsers() {
    let world = World::new(FrontOptions::default());
    for path in ["/text/a", "/nothing"] {
        let answer = world.get(path, "").await;
        assert_eq!(field(&answer, "x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(field(&answer, "referrer-policy"), Some("no-referrer"), "{path}");
        assert!(field(&answer, "content-security-policy").is_some_and(|policy| policy.contains("frame-ancestors")));
    }
    let head = world.converse("HEAD /text/abc HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert_eq!((status(&head), field(&head, "content-length")), ("200", Some("3")));
    assert!(head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test]
async fn requests_are_counted_by_route() {
    let world = World::new(FrontOptions::default());
    world.get("/text/a", "").await;
    world.get("/text/b", "").await;
    world.get("/nothing", "").await;
    let routes = world.front.statistics().routes();
    let counts: Vec<_> =
        routes.iter().map(|(name, counters)| (name.as_str(), counters.answered, counters.refused)).collect();
    assert_eq!(counts, [("/text/{name}", 2, 0), ("other", 0, 1)]);
    assert_eq!(routes[0].1.bytes, 2);
}

#[tokio::test]
async fn http_2_has_streams_a_host_and_an_orderly_end() {
    let world = World::new(FrontOptions::default());
    let (client, serving) = world.connect();
    let (sender, connection) = h2::client::handshake(client).await.expect("the server accepts");
    let driver = tokio::spawn(connection);
    let mut sender = sender.ready().await.expect("the server accepts");
    let send = |sender: &mut h2::client::SendRequest<bytes::Bytes>, path: &str| {
        let request = Request::get(format!("https://localhost{path}")).version(Version::HTTP_2).body(());
        sender.send_request(request.expect("a request"), true).expect("it is sent").0
    };
    let waiting = send(&mut sender, "/never");
    let answered = send(&mut sender, "/text/a").await.expect("another stream is answered meanwhile");
    assert_eq!(answered.status(), StatusCode::OK);
    let fields: &HeaderMap = answered.headers();
    assert_eq!(fields[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    drop(answered);
    let last = send(&mut sender, "/text/b");
    world.shutdown.drain();
    assert_eq!(last.await.expect("what was taken is answered").status(), StatusCode::OK);
    drop(waiting);
    drop(sender);
    serving.await.expect("the task ends").expect("the connection ends in order");
    let _ = driver.await.expect("the task ends");
}

/// Opens a connection that has become one of echoes, and checks that it is.
async fn connect_echoes(world: &World, end: &SessionTermination) -> (Stream, JoinHandle<std::io::Result<()>>) {
    let (mut client, serving) = world.connect_until(end.clone());
    // The first bytes of the new protocol may arrive with the request.
    let request = b"GET /echoes HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echoes\r\n\r\nHello";
    client.write_all(request).await.expect("the server reads");
    let mut received = Vec::new();
    while !received.ends_with(b"Hello") {
        assert_ne!(client.read_buf(&mut received).await.expect("the server answers"), 0, "the connection is open");
    }
    assert_eq!(status(&String::from_utf8_lossy(&received)), "101");
    (client, serving)
}

#[tokio::test]
async fn a_connection_with_another_protocol_ends_with_its_peer_its_login_and_the_server() {
    let world = World::new(FrontOptions::default());
    let end = SessionTermination::default();
    let (client, serving) = connect_echoes(&world, &end).await;
    drop(client);
    serving.await.expect("the task ends").expect("the connection ends in order");
    let (mut client, serving) = connect_echoes(&world, &end).await;
    end.terminate();
    serving.await.expect("the task ends").expect("the connection ends in order");
    assert_eq!(client.read(&mut [0]).await.expect("the connection ends"), 0);
    let (_client, serving) = connect_echoes(&world, &SessionTermination::default()).await;
    world.shutdown.drain();
    world.shutdown.close();
    serving.await.expect("the task ends").expect("the connection ends in order");
    let refused = World::new(FrontOptions::default());
    assert_eq!(status(&refused.converse("GET /echoes HTTP/1.0\r\nhost: x\r\n\r\n").await), "426");
}
