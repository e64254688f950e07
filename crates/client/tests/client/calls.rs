//! Tests of calls: headers, time limits, compression, sizes and errors.

use std::time::Duration;

use client::{Client, Code, ConnectOptions, Error, Request, Status, details, formula_place, reason, v1};

use crate::server::{Call, PASSWORD, TOKEN, TestServer, VERSION_BYTES};

const SERVER_PATH: &str = "/doublet.v1.Sessions/GetServer";

/// Calls `GetServer` once over a new connection, and returns the headers of the call.
async fn call_of(server: &TestServer, options: &ConnectOptions, request: Request<v1::GetServerRequest>) -> Call {
    let client = Client::connect(options).await.expect("the server listens");
    let reply = client.sessions().get_server(request).await.expect("the server answers").into_inner();
    assert_eq!(reply.version.len(), VERSION_BYTES);
    let mut calls = server.take_calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.remove(0)
}

fn get_server() -> Request<v1::GetServerRequest> {
    Request::new(v1::GetServerRequest {})
}

#[tokio::test]
async fn call_has_user_agent_and_default_timeout() {
    let server = TestServer::start().await;
    let call = call_of(&server, &server.options(), get_server()).await;
    let expected = Call {
        path: SERVER_PATH.to_owned(),
        authorization: String::new(),
        timeout: "60000m".to_owned(),
        agent: format!("doublet-client/{}", env!("CARGO_PKG_VERSION")),
        encoding: String::new(),
    };
    assert_eq!(call, expected);
}

#[tokio::test]
async fn caller_timeout_replaces_the_default() {
    let server = TestServer::start().await;
    let mut request = get_server();
    request.set_timeout(Duration::from_secs(5));
    assert_eq!(call_of(&server, &server.options(), request).await.timeout, "5000000u");
    let short = ConnectOptions { call_time_max: Some(Duration::from_millis(1_500)), ..server.options() };
    assert_eq!(call_of(&server, &short, get_server()).await.timeout, "1500m");
    let long = ConnectOptions { call_time_max: Some(Duration::from_secs(1_000_000)), ..server.options() };
    assert_eq!(call_of(&server, &long, get_server()).await.timeout, "99999999m", "the format has eight digits");
    let unlimited = ConnectOptions { call_time_max: None, ..server.options() };
    assert_eq!(call_of(&server, &unlimited, get_server()).await.timeout, "");
}

#[tokio::test]
async fn change_stream_has_no_timeout() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let refused = client.changes().watch_changes(v1::WatchChangesRequest::default()).await;
    assert_eq!(refused.expect_err("only sessions are served").code(), Code::Unimplemented);
    let refused = client.changes().poll_new_mail(v1::PollNewMailRequest::default()).await;
    assert_eq!(refused.expect_err("only sessions are served").message(), "only sessions are served");
    let calls: Vec<_> = server.take_calls().into_iter().map(|call| (call.path, call.timeout)).collect();
    let expected = [("/doublet.v1.Changes/WatchChanges", ""), ("/doublet.v1.Changes/PollNewMail", "60000m")];
    assert_eq!(calls, expected.map(|(path, timeout)| (path.to_owned(), timeout.to_owned())));
}

#[tokio::test]
async fn compressed_messages_are_announced_and_read() {
    let server = TestServer::start().await;
    let options = ConnectOptions { compression: true, ..server.options() };
    assert_eq!(call_of(&server, &options, get_server()).await.encoding, "gzip");
    let client = Client::connect(&options).await.expect("the server listens");
    let reply = client.sessions().get_server(get_server()).await.expect("the server answers");
    assert_eq!(reply.metadata().get("grpc-encoding").map(|value| value.as_bytes()), Some(&b"gzip"[..]));
    let plain = server.connect().await.sessions().get_server(get_server()).await.expect("the server answers");
    assert_eq!(plain.metadata().get("grpc-encoding"), None);
}

#[tokio::test]
async fn messages_beyond_the_maximum_are_refused_in_both_directions() {
    let server = TestServer::start().await;
    let options = ConnectOptions { message_bytes_max: 1_000, ..server.options() };
    let client = Client::connect(&options).await.expect("the server listens");
    let large = client.sessions().get_server(get_server()).await.expect_err("the reply is too large");
    assert_eq!(large.code(), Code::OutOfRange, "{large:?}");
    let request = v1::LoginRequest { login: "x".repeat(1_001), password: PASSWORD.to_owned() };
    assert!(client.sessions().login(request).await.is_err(), "the request is too large");
    let reply = client.login("ann", PASSWORD).await.expect("a small message");
    assert_eq!(reply.token, TOKEN, "the connection serves further calls");
}

#[tokio::test]
async fn calls_over_one_connection_run_concurrently() {
    let mut server = TestServer::start().await;
    let client = server.connect().await;
    let _first = server.next_connection().await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move { client.sessions().get_server(get_server()).await.is_ok() });
    }
    assert!(calls.join_all().await.into_iter().all(|answered| answered));
    assert_eq!(server.take_calls().len(), 20);
}

#[test]
fn reason_and_formula_place_come_from_the_details() {
    let place = v1::error_detail::FormulaPlace { line: 2, column: 7, ..v1::error_detail::FormulaPlace::default() };
    let formula = v1::error_detail::Detail::Formula(place.clone());
    let detail = v1::ErrorDetail { reason: "formula".to_owned(), detail: Some(formula) };
    let status = details::status(Code::InvalidArgument, "unknown function", &detail);
    assert_eq!((reason(&status), formula_place(&status)), ("formula".to_owned(), Some(place)));
    let detail = v1::ErrorDetail { reason: "login".to_owned(), detail: None };
    let status = details::status(Code::Unauthenticated, "wrong", &detail);
    assert_eq!((reason(&status), formula_place(&status)), ("login".to_owned(), None));
    let bare = Status::internal("broken");
    assert_eq!((reason(&bare), formula_place(&bare)), (String::new(), None));
}

#[test]
fn failed_call_has_the_message_of_the_server() {
    let error = Error::from(Status::not_found("there is no such database"));
    assert_eq!(error.to_string(), "there is no such database");
    let Error::Call(status) = error else { panic!("a status is a failed call") };
    assert_eq!(status.code(), Code::NotFound);
}
