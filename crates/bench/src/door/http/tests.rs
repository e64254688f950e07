//! Tests of the client against a server that answers as it is told, also what no server should answer.

pub(in crate::door) mod fake_server;

use std::sync::Arc;

use hyper::header::ACCEPT;

use super::{HttpClient, HttpRequest};
use crate::door::Session;
use crate::door::call::CallCount;
use fake_server::{Answer, FakeServer, Seen, gzip};

fn client(server: &FakeServer) -> HttpClient {
    HttpClient::new(&server.origin, &[(ACCEPT, "text/html".parse().expect("a value"))])
}

/// Requests a page, and returns its content or the code of the error, with the calls and the reopened connections.
async fn get(client: &mut HttpClient, target: &str) -> (Result<String, (String, Session)>, u32, u32) {
    let mut count = CallCount::default();
    let reply = client.request(&mut count, HttpRequest::get(target)).await;
    let reply = reply
        .map(|reply| String::from_utf8(reply.content).expect("text"))
        .map_err(|error| (error.code.into_owned(), error.session));
    (reply, count.calls, count.reopened)
}

fn page(text: &str) -> Answer {
    Answer::page(200, text)
}

#[tokio::test]
async fn a_connection_is_kept_and_has_cookies() {
    let server = FakeServer::start(|seen: &Seen| match seen.target.as_str() {
        "/set" => page("set").with("Set-Cookie", "a=1; Path=/"),
        _ => page(&format!("{} on {}", seen.header("cookie"), seen.connection)),
    });
    let server = server.await;
    let mut client = client(&server);
    assert_eq!(get(&mut client, "/set").await, (Ok("set".to_owned()), 1, 0));
    assert_eq!(get(&mut client, "/a?b").await, (Ok("a=1 on 0".to_owned()), 1, 0));
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_opened_again() {
    let server = FakeServer::start(|seen: &Seen| match seen.target.as_str() {
        "/last" => page("last").with("Connection", "close"),
        _ => page(&format!("on {}", seen.connection)),
    });
    let server = server.await;
    let mut client = client(&server);
    assert_eq!(get(&mut client, "/last").await.0, Ok("last".to_owned()));
    assert_eq!(get(&mut client, "/").await, (Ok("on 1".to_owned()), 1, 1));
    client.disconnect();
    assert_eq!(get(&mut client, "/").await, (Ok("on 2".to_owned()), 1, 0), "the driver itself has closed it");
}

#[tokio::test]
async fn a_request_that_changes_nothing_is_repeated_once() {
    let server = FakeServer::start(|seen: &Seen| match seen.number {
        0 => page("first"),
        _ if seen.connection == 0 => Answer::Close,
        _ => page("again"),
    });
    let server = server.await;
    let mut client = client(&server);
    assert_eq!(get(&mut client, "/").await.0, Ok("first".to_owned()));
    assert_eq!(get(&mut client, "/").await, (Ok("again".to_owned()), 2, 1));
    let refused = FakeServer::start(|seen: &Seen| if seen.number == 0 { page("first") } else { Answer::Close }).await;
    let mut client = self::client(&refused);
    assert_eq!(get(&mut client, "/").await.0, Ok("first".to_owned()));
    let lost = Err(("connection".to_owned(), Session::Lost));
    let mut count = CallCount::default();
    let post = HttpRequest::post("/", "text/plain", b"x".to_vec());
    let sent = client.request(&mut count, post).await.expect_err("closed").into_step_error(count);
    assert_eq!((&*sent.code, sent.session, sent.calls), ("connection", Session::Lost, 1), "it may have been executed");
    assert_eq!(get(&mut client, "/").await, (lost, 1, 0));
}

#[tokio::test]
async fn redirections_are_followed_on_the_same_server() {
    let server = FakeServer::start(|seen: &Seen| match seen.target.as_str() {
        "/" => Answer::redirection(303, "/lite/"),
        "/lite/" => Answer::redirection(301, &format!("https://{}/lite/x?y", seen.header("host"))),
        "/loop" => Answer::redirection(302, "loop"),
        "/keep" => Answer::redirection(307, "/echo"),
        "/away" | "/away?key=secret" => Answer::redirection(302, "https://192.0.2.1/?key=secret"),
        "/plain" => Answer::redirection(302, "http://127.0.0.1/"),
        "/nothing" => page("nothing").with("Location", "/elsewhere"),
        _ => page(&format!("{} {}", seen.method, seen.target)),
    });
    let server = server.await;
    let mut client = client(&server);
    assert_eq!(get(&mut client, "/").await, (Ok("GET /lite/x?y".to_owned()), 3, 0));
    let refused = || Err(("redirection".to_owned(), Session::Kept));
    assert_eq!(get(&mut client, "/loop").await, (refused(), 11, 0));
    assert_eq!(get(&mut client, "/away").await, (refused(), 1, 0));
    assert_eq!(get(&mut client, "/plain").await.0, refused());
    assert_eq!(get(&mut client, "/nothing").await.0, Ok("nothing".to_owned()));
    let mut count = CallCount::default();
    let away = client.request(&mut count, HttpRequest::get("/away?key=secret")).await.expect_err("another server");
    assert!(!away.text.contains("secret"), "{}", away.text);
    for (target, expected) in [("/keep", "POST /echo"), ("/", "GET /lite/x?y")] {
        let post = HttpRequest::post(target, "text/plain", b"x".to_vec());
        let reply = client.request(&mut count, post).await.expect("a page");
        assert_eq!(String::from_utf8_lossy(&reply.content), expected);
    }
}

#[tokio::test]
async fn hostile_replies_are_errors() {
    let server = FakeServer::start(|seen: &Seen| match seen.target.as_str() {
        "/endless" => Answer::Endless,
        "/long" => page(&"x".repeat(9 << 20)),
        "/bomb" => Answer::raw(200, gzip(&vec![b'x'; 9 << 20])).with("Content-Encoding", "gzip"),
        "/damaged" => page("no gzip").with("Content-Encoding", "gzip"),
        "/brotli" => page("x").with("Content-Encoding", "br"),
        "/gzip" => Answer::raw(200, gzip(b"text")).with("Content-Encoding", "gzip"),
        "/garbage" => Answer::Bytes(b"garbage\r\n\r\n".to_vec()),
        "/cut" => Answer::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx".to_vec()),
        _ => page("ok"),
    });
    let server = server.await;
    let mut client = client(&server);
    for target in ["/endless", "/long", "/bomb", "/damaged", "/brotli"] {
        let (reply, _, _) = get(&mut client, target).await;
        assert_eq!(reply, Err(("malformed".to_owned(), Session::Kept)), "{target}");
        assert_eq!(get(&mut client, "/").await.0, Ok("ok".to_owned()), "after {target}");
    }
    for target in ["/garbage", "/cut"] {
        let (reply, _, _) = get(&mut client, target).await;
        assert_eq!(reply, Err(("connection".to_owned(), Session::Lost)), "{target}");
    }
    assert_eq!(get(&mut client, "/gzip").await.0, Ok("text".to_owned()));
}

#[tokio::test]
async fn a_server_with_another_certificate_is_refused() {
    let server = FakeServer::start(|_: &Seen| page("ok")).await;
    let other = FakeServer::start(|_: &Seen| page("ok")).await;
    let origin = server.origin.with_trust_of(&other.origin);
    let mut client = HttpClient::new(&Arc::new(origin), &[]);
    assert_eq!(get(&mut client, "/").await.0, Err(("connect".to_owned(), Session::Lost)));
}

#[tokio::test]
async fn http_2_is_spoken_if_the_server_wants_it() {
    let server = FakeServer::start_http2(|target| format!("two {target}")).await;
    let mut client = client(&server);
    let mut count = CallCount::default();
    let mut events = client.open_stream(&mut count, &HttpRequest::get("/events")).await.expect("a stream");
    assert_eq!(get(&mut client, "/a").await, (Ok("two /a".to_owned()), 1, 0));
    let post = HttpRequest::post("/b", "text/plain", vec![b'x'; 100_000]);
    assert_eq!(client.request(&mut count, post).await.expect("a page").content, b"two /b");
    assert_eq!((count.calls, events.is_ended()), (2, false));
}

#[tokio::test]
async fn a_reply_without_end_has_a_connection_of_its_own() {
    let server = FakeServer::start(|seen: &Seen| match seen.target.as_str() {
        "/events" => Answer::Endless,
        "/none" => Answer::page(204, ""),
        _ => page(&format!("on {}", seen.connection)),
    });
    let server = server.await;
    let mut client = client(&server);
    let mut count = CallCount::default();
    let mut events = client.open_stream(&mut count, &HttpRequest::get("/events")).await.expect("a stream");
    assert_eq!(get(&mut client, "/").await.0, Ok("on 0".to_owned()));
    assert_eq!((events.is_ended(), count.calls), (false, 1));
    let none = client.open_stream(&mut count, &HttpRequest::get("/none")).await.expect_err("none");
    assert_eq!(none.code, "http-204");
}
