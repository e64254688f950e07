//! Tests of connections over WebSocket (RFC 8887) on the loopback network: handshake, requests, push, limits and ends.

use std::sync::Arc;

use base::Clock as _;
use base::memory::{MemoryShares, ShareSizes};
use futures_util::{SinkExt as _, StreamExt as _};
use jmap::limits::{WEBSOCKET_CLOSE_TIME_MAX, WEBSOCKET_PING_INTERVAL, WEBSOCKETS_PER_ACCOUNT_MAX};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use crate::server::{Client, PERMITTED_ORIGIN, Server, basic};
use crate::world::World;

const JMAP: (&str, &str) = ("sec-websocket-protocol", "jmap");

/// Returns an echo as a request.
fn echo(id: &str) -> String {
    let call = json!(["Core/echo", { "hello": true }, "c"]);
    json!({ "@type": "Request", "id": id, "using": ["urn:ietf:params:jmap:core"], "methodCalls": [call] }).to_string()
}

fn enable(types: &Value, push_state: Option<&str>) -> String {
    let mut enable = json!({ "@type": "WebSocketPushEnable", "dataTypes": types });
    if let Some(state) = push_state {
        enable["pushState"] = json!(state);
    }
    enable.to_string()
}

fn deliver(server: &Server) {
    server.world.deliver("alice", "INBOX", b"Subject: x\r\n\r\nbody\r\n");
}

/// Sends an echo, and checks that the server answers it next.
async fn check_echo(client: &mut Client, id: &str) {
    let answer = client.ask(&echo(id)).await;
    assert_eq!((&answer["@type"], &answer["requestId"]), (&json!("Response"), &json!(id)), "{answer}");
}

#[tokio::test]
async fn only_handshakes_with_a_login_and_the_subprotocol_are_accepted() {
    let server = Server::start(World::new()).await;
    let alice = basic("alice");
    let login = ("authorization", alice.as_str());
    let own_origin = format!("http://{}", server.address);
    let checks: [(&[(&'static str, &str)], u16); 12] = [
        (&[login, JMAP], 101),
        (&[login, ("sec-websocket-protocol", "chat, jmap")], 101),
        (&[login, JMAP, ("origin", &own_origin)], 101),
        (&[login, JMAP, ("origin", PERMITTED_ORIGIN)], 101),
        (&[JMAP], 401),
        (&[("authorization", "Basic YWxpY2U6eA=="), JMAP], 401),
        (&[login, ("sec-websocket-protocol", "chat")], 400),
        (&[login, ("sec-websocket-key", "short"), JMAP], 400),
        (&[login, JMAP, ("sec-websocket-version", "8")], 426),
        (&[login, JMAP, ("upgrade", "h2c")], 426),
        (&[login, JMAP, ("origin", "https://evil.test")], 403),
        (&[login, JMAP, ("sec-fetch-site", "cross-site")], 403),
    ];
    for (fields, status) in checks {
        let (found, version) = match server.open(server.handshake(fields)).await {
            Ok(_) => (101, None),
            Err(refused) => (refused.status().as_u16(), refused.headers().get("sec-websocket-version").cloned()),
        };
        assert_eq!(found, status, "{fields:?}");
        assert_eq!(version.is_some(), status == 426, "{fields:?}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_use_the_cookie_of_a_session() {
    let server = Server::start(World::new()).await;
    let cookie = server.begin_session("alice");
    let fields = [("cookie", cookie.as_str()), JMAP];
    let mut client = server.open(server.handshake(&fields)).await.expect("the session is valid");
    check_echo(&mut client, "R1").await;
    for origin in ["https://evil.test", "null", "https://app.demo.test.evil.test"] {
        let refused = server.open(server.handshake(&[fields[0], fields[1], ("origin", origin)])).await;
        assert_eq!(refused.err().expect("it is refused").status().as_u16(), 403, "{origin}");
    }
}

#[tokio::test]
async fn requests_and_errors_have_the_identifier_of_the_client() {
    let server = Server::start(World::new()).await;
    let mut client = server.connect("alice").await;
    let answer = client.ask(&echo("R1")).await;
    assert_eq!(answer["@type"], "Response");
    assert_eq!(answer["requestId"], "R1");
    assert_eq!(answer["methodResponses"], json!([["Core/echo", { "hello": true }, "c"]]));
    assert!(answer["sessionState"].is_string(), "{answer}");
    let without_id = json!({ "@type": "Request", "using": [], "methodCalls": [], "createdIds": {} });
    let answer = client.ask(&without_id.to_string()).await;
    assert_eq!((answer.get("requestId"), &answer["createdIds"]), (None, &json!({})));
    let answer = client.ask("The quick brown fox jumps over the lazy dog.").await;
    assert_eq!((&answer["@type"], &answer["requestId"]), (&json!("RequestError"), &Value::Null));
    assert_eq!((&answer["type"], &answer["status"]), (&json!("urn:ietf:params:jmap:error:notJSON"), &json!(400)));
    let unknown = json!({ "@type": "Request", "id": "R2", "using": ["urn:example:none"], "methodCalls": [] });
    let answer = client.ask(&unknown.to_string()).await;
    assert_eq!((&answer["@type"], &answer["requestId"]), (&json!("RequestError"), &json!("R2")));
    assert_eq!(answer["type"], "urn:ietf:params:jmap:error:unknownCapability");
    // The capability of WebSocket may be used, and has no methods.
    let used = json!({ "@type": "Request", "id": "R3", "using": [jmap::session::WEBSOCKET], "methodCalls": [] });
    assert_eq!(client.ask(&used.to_string()).await["methodResponses"], json!([]));
}

#[tokio::test]
async fn changes_are_sent_until_push_is_disabled() {
    let server = Server::start(World::new()).await;
    let mut client = server.connect("alice").await;
    client.send(&enable(&json!(["Email", "Mailbox"]), None)).await;
    check_echo(&mut client, "R1").await;
    deliver(&server);
    let change = client.next().await;
    assert_eq!(change["@type"], "StateChange");
    let changed = change["changed"]["Aalice"].as_object().expect("the account has changed");
    assert_eq!(changed.keys().collect::<Vec<_>>(), ["Email", "Mailbox"]);
    let state = change["pushState"].as_str().expect("a state").to_owned();
    // A request sees the state that was told.
    let get = json!(["Email/get", { "accountId": "Aalice", "ids": [] }, "c"]);
    let using = json!(["urn:ietf:params:jmap:mail"]);
    let request = json!({ "@type": "Request", "using": using, "methodCalls": [get] });
    let answer = client.ask(&request.to_string()).await;
    assert_eq!(answer["methodResponses"][0][1]["state"], changed["Email"], "{answer}");
    client.send(r#"{"@type":"WebSocketPushDisable"}"#).await;
    check_echo(&mut client, "R2").await;
    deliver(&server);
    check_echo(&mut client, "R3").await;
    // Another connection is told what the client has missed.
    let mut later = server.connect("alice").await;
    later.send(&enable(&Value::Null, Some(&state))).await;
    let missed = later.next().await;
    let types: Vec<&String> = missed["changed"]["Aalice"].as_object().expect("a change").keys().collect();
    assert_eq!(types, ["Email", "EmailDelivery", "Mailbox", "Thread"]);
    assert_ne!(missed["pushState"], json!(state));
    // Somebody else is not told.
    let mut bob = server.connect("bob").await;
    bob.send(&enable(&Value::Null, None)).await;
    check_echo(&mut bob, "R4").await;
    deliver(&server);
    assert!(later.next().await["changed"]["Aalice"].is_object());
    check_echo(&mut bob, "R5").await;
}

#[tokio::test]
async fn a_change_of_the_usage_is_a_change_of_the_quota() {
    let server = Server::start(World::new()).await;
    let mut client = server.connect("carol").await;
    client.send(&enable(&json!(["Quota"]), None)).await;
    check_echo(&mut client, "R1").await;
    server.world.deliver("carol", "INBOX", b"Subject: x\r\n\r\nbody\r\n");
    let change = client.next().await;
    let get = server.world.call("carol", "Quota/get", json!({ "accountId": "Acarol" }));
    assert_eq!(change["changed"], json!({ "Acarol": { "Quota": get["state"] } }));
}

#[tokio::test]
async fn frames_that_are_not_text_end_the_connection() {
    let server = Server::start(World::new()).await;
    let mut client = server.connect("alice").await;
    client.stream.send(Message::binary(b"{}".to_vec())).await.expect("it is open");
    assert_eq!(client.close_code().await, Some(1003));
    let mut polite = server.connect("alice").await;
    polite.stream.close(None).await.expect("it is open");
    assert!(!matches!(polite.stream.next().await, Some(Err(_))), "the server closes the connection, too");
}

#[tokio::test]
async fn sizes_and_numbers_of_connections_are_limited() {
    let mut world = World::new();
    Arc::get_mut(&mut world.services).expect("nobody else has them").limits.request_bytes_max = 1_000;
    let server = Server::start(world).await;
    let mut client = server.connect("alice").await;
    let answer = client.ask(&format!("\"{}\"", "x".repeat(2_000))).await;
    assert_eq!((&answer["@type"], &answer["limit"]), (&json!("RequestError"), &json!("maxSizeRequest")));
    assert_eq!(client.close_code().await, Some(1009));
    let mut clients = Vec::new();
    for _ in 0..WEBSOCKETS_PER_ACCOUNT_MAX {
        clients.push(server.connect("bob").await);
    }
    let bob = basic("bob");
    let refused = server.open(server.handshake(&[("authorization", &bob), JMAP])).await;
    assert_eq!(refused.err().expect("there are too many").status().as_u16(), 429);
    check_echo(&mut server.connect("alice").await, "R1").await;
    for client in &mut clients {
        check_echo(client, "R2").await;
    }
}

#[tokio::test]
async fn many_requests_at_once_are_all_answered() {
    let server = Server::start(World::new()).await;
    let mut client = server.connect("alice").await;
    for number in 0..50 {
        client.send(&echo(&number.to_string())).await;
    }
    let mut answered = std::collections::BTreeSet::new();
    for _ in 0..50 {
        answered.insert(client.next().await["requestId"].as_str().expect("an identifier").to_owned());
    }
    assert_eq!(answered.len(), 50);
}

/// Number of bytes of the text of the large message.
const LARGE_TEXT_BYTES: usize = 4 << 20;

/// Returns a short request whose answer has the text of the only message of alice.
fn get_text() -> String {
    let query = json!(["Email/query", { "accountId": "Aalice" }, "q"]);
    let ids = json!({ "resultOf": "q", "name": "Email/query", "path": "/ids" });
    let get = json!({
        "accountId": "Aalice", "#ids": ids, "properties": ["bodyValues"], "fetchTextBodyValues": true,
    });
    let using = ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"];
    json!({ "@type": "Request", "using": using, "methodCalls": [query, ["Email/get", get, "g"]] }).to_string()
}

#[tokio::test]
async fn answers_that_wait_for_a_client_take_memory_of_its_address() {
    let share = 4 * LARGE_TEXT_BYTES;
    let sizes = ShareSizes { account_bytes: share, network_bytes: share, networks_bytes: share, local_bytes: share };
    let memory = MemoryShares::new(2 * share, sizes);
    let server = Server::start_with_memory(World::new(), memory).await;
    let text = "x".repeat(LARGE_TEXT_BYTES);
    server.world.deliver("alice", "INBOX", format!("Subject: x\r\n\r\n{text}\r\n").as_bytes());
    let mut client = server.connect_with_small_buffer("alice").await;
    let served = server.served.lock().expect("no test panics with it").pop().expect("a connection");
    let occupied = server.occupy_workers();
    let requests = server.world.services.limits.concurrent_requests_max as usize;
    for _ in 0..requests {
        client.send(&get_text()).await;
    }
    // The server has read all of them, and executes none yet.
    while server.memory.total().held_bytes() < requests * get_text().len() {
        tokio::task::yield_now().await;
    }
    drop(occupied);
    server.finish_jobs("alice").await;
    // More than one answer was made before the client reads the first one, and not all of them are kept.
    let mut answers = 0;
    let code = loop {
        match client.stream.next().await.expect("the connection is open").expect("the connection is open") {
            Message::Text(text) => {
                assert!(text.len() > LARGE_TEXT_BYTES, "{} bytes", text.len());
                answers += 1;
            }
            Message::Close(frame) => break frame.map(|frame| u16::from(frame.code)),
            _ => {}
        }
        assert!(answers < requests, "the answers took no memory of the address");
    };
    assert_eq!(code, Some(1013));
    drop(client);
    served.await.expect("it does not panic").expect("the connection ends");
    assert_eq!(server.memory.total().held_bytes(), 0);
}

#[tokio::test]
async fn a_request_over_a_connection_is_a_use_of_the_session() {
    let server = Server::start(World::new()).await;
    let idle_time_max = http::SessionOptions::default().idle_time_max;
    let cookie = server.begin_session("alice");
    let fields = [("cookie", cookie.as_str()), JMAP];
    let mut client = server.open(server.handshake(&fields)).await.expect("the session is valid");
    for id in ["R1", "R2", "R3"] {
        server.world.clock.advance(idle_time_max / 2);
        check_echo(&mut client, id).await;
    }
    assert_eq!(server.sessions.list(Some("alice")).len(), 1);
    let used = server.reopen_sessions().list(Some("alice"))[0].used;
    assert_eq!(used, server.world.clock.now(), "the use is written");
    // A session that has ended is not revived.
    server.world.clock.advance(idle_time_max);
    client.send(&echo("R4")).await;
    assert_eq!(client.close_code().await, Some(1008));
    assert_eq!(server.sessions.list(Some("alice")), []);
}

#[tokio::test]
async fn a_connection_ends_with_its_login() {
    let server = Server::start(World::new()).await;
    let cookie = server.begin_session("alice");
    let fields = [("cookie", cookie.as_str()), JMAP];
    let mut client = server.open(server.handshake(&fields)).await.expect("the session is valid");
    check_echo(&mut client, "R1").await;
    // The end of another session changes nothing.
    server.begin_session("bob");
    server.sessions.end_all("bob", None).expect("a sound store");
    check_echo(&mut client, "R2").await;
    server.sessions.end_all("alice", None).expect("a sound store");
    assert_eq!(client.close_code().await, Some(1008));
    // A login that is watched ends its connection.
    let mut client = server.connect("alice").await;
    check_echo(&mut client, "R2").await;
    server.watched.terminate();
    assert_eq!(client.close_code().await, Some(1008));
}

#[tokio::test]
async fn a_connection_whose_client_does_not_read_ends_with_its_login() {
    let server = Server::start(World::new()).await;
    let text = "x".repeat(LARGE_TEXT_BYTES);
    server.world.deliver("alice", "INBOX", format!("Subject: x\r\n\r\n{text}\r\n").as_bytes());
    let mut client = server.connect_with_small_buffer("alice").await;
    let served = server.served.lock().expect("no test panics with it").pop().expect("a connection");
    let occupied = server.occupy_workers();
    let requests = server.world.services.limits.concurrent_requests_max as usize;
    for _ in 0..requests {
        client.send(&get_text()).await;
    }
    while server.memory.total().held_bytes() < requests * get_text().len() {
        tokio::task::yield_now().await;
    }
    drop(occupied);
    server.finish_jobs("alice").await;
    assert!(server.memory.total().held_bytes() > LARGE_TEXT_BYTES, "answers wait that the client does not read");
    tokio::time::pause();
    let begun = Instant::now();
    server.watched.terminate();
    served.await.expect("it does not panic").expect("the connection ends");
    assert!(begun.elapsed() <= WEBSOCKET_CLOSE_TIME_MAX * 2, "{:?}", begun.elapsed());
    drop(client);
}

#[tokio::test]
async fn a_connection_ends_with_its_account_and_with_the_server() {
    let server = Server::start(World::new()).await;
    // An account that was changed ends its connections.
    let mut client = server.connect("alice").await;
    check_echo(&mut client, "R3").await;
    server.terminations.lock().expect("no test panics with it").last().expect("a connection").terminate();
    assert_eq!(client.close_code().await, None);
    let mut client = server.connect("alice").await;
    check_echo(&mut client, "R4").await;
    server.shutdown.drain();
    assert_eq!(client.close_code().await, Some(1001));
}

#[tokio::test]
async fn a_client_that_answers_no_ping_has_gone() {
    let server = Server::start(World::new()).await;
    let mut client = server.connect("alice").await;
    check_echo(&mut client, "R1").await;
    let served = server.served.lock().expect("no test panics with it").pop().expect("a connection");
    tokio::time::pause();
    let begun = Instant::now();
    for _ in 0..3 {
        // A client that reads answers.
        let message = client.stream.next().await.expect("the connection is open").expect("the connection is open");
        assert!(matches!(message, Message::Ping(_)), "{message:?}");
    }
    assert!(begun.elapsed() > WEBSOCKET_PING_INTERVAL * 2 && !served.is_finished());
    // From now on it does not read.
    served.await.expect("it does not panic").expect("the connection ends");
    assert!(begun.elapsed() <= WEBSOCKET_PING_INTERVAL * 5 + WEBSOCKET_CLOSE_TIME_MAX, "{:?}", begun.elapsed());
}
