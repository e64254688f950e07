//! Logins, the age and the idle time of sessions, and the end of sessions and connections.

use std::time::Duration;

use base::Name;
use proto::v1;
use rpc::session::SessionLimits;
use sasl::Mechanism;
use tonic::{Code, Status};
use wire::sim::{BusyWorker, full_pool};

use crate::world::{Client, PASSWORD, TestServer, canonical, plan, refusal, refused};

/// Returns the name of the session's owner.
async fn owner(client: &Client) -> Result<String, Status> {
    client.sessions().get_session(v1::GetSessionRequest {}).await.map(|session| session.into_inner().name)
}

fn no_session() -> (Code, String) {
    refused(Code::Unauthenticated, "session")
}

#[tokio::test]
async fn a_login_returns_a_token_and_its_limits() {
    let server = TestServer::with(|options| options.sessions.idle = Duration::from_secs(90));
    let client = server.connect().await;
    let reply = client.try_log_in("ann", PASSWORD).await.expect("the password is right");
    let session = reply.session.expect("a login describes its session");
    assert_eq!((session.name, session.mail_file), (canonical("ann"), "mail/ann.nsf".to_owned()));
    assert_eq!((session.idle_timeout_s, session.server), (90, false));
    assert_eq!(owner(&client.clone().with_token(&reply.token)).await.expect("a session"), canonical("ann"));
    assert_eq!(refusal(owner(&client).await), no_session(), "the connection itself has no session");
    assert_eq!(server.service().sessions().count(), 1);
}

#[tokio::test]
async fn refused_logins_have_a_code_and_a_reason() {
    let server = TestServer::new();
    let client = server.connect().await;
    let long = "x".repeat(5_000);
    for (login, password, code, reason) in [
        ("ann", "wrong", Code::Unauthenticated, "login"),
        ("nobody", PASSWORD, Code::Unauthenticated, "login"),
        ("eve", PASSWORD, Code::Unauthenticated, "login"),
        ("", PASSWORD, Code::Unauthenticated, "login"),
        ("ann", "", Code::Unauthenticated, "login"),
        ("ann\0", PASSWORD, Code::Unauthenticated, "login"),
        ("busy", PASSWORD, Code::ResourceExhausted, "throttled"),
    ] {
        assert_eq!(refusal(client.try_log_in(login, password).await), refused(code, reason), "{login:?}");
    }
    let (code, reason) = refusal(client.try_log_in(&long, PASSWORD).await);
    assert!(
        matches!(code, Code::InvalidArgument | Code::Unauthenticated | Code::ResourceExhausted),
        "{code:?} {reason}"
    );
    assert_eq!(server.service().sessions().count(), 0, "no session began");
}

#[tokio::test]
async fn certificate_with_the_name_of_the_server_itself_is_refused() {
    let server = TestServer::new();
    let other = server.connect_as(Some(Name::new("spoke/Acme"))).await;
    assert_eq!(owner(&other).await.expect("another server needs no token"), "CN=spoke/O=Acme");
    for own in ["hub/Acme", "CN=HUB/O=acme"] {
        let itself = server.connect_as(Some(Name::new(own))).await;
        let refused_call = owner(&itself).await.expect_err("any trusted root could sign it");
        assert!(refused_call.message().contains("the certificate has the name of the server itself"), "{refused_call}");
        assert_eq!(refusal(Err::<(), _>(refused_call)), refused(Code::Unauthenticated, "login"));
        let opened = itself.databases().open_database(v1::OpenDatabaseRequest { database: plan() }).await;
        assert_eq!(refusal(opened), refused(Code::Unauthenticated, "login"));
        let reply = itself.try_log_in("ann", PASSWORD).await.expect("a user may log in over the connection");
        assert_eq!(owner(&itself.with_token(&reply.token)).await.expect("a session"), canonical("ann"));
    }
}

#[tokio::test]
async fn sasl_exchange_begins_a_session() {
    let server = TestServer::new();
    let client = server.connect().await;
    let begin = |mechanism: &str, response: &[u8]| {
        let message = v1::AuthenticateRequest { mechanism: mechanism.to_owned(), response: response.to_vec() };
        let client = client.clone();
        async move {
            let outcome = client.sessions().authenticate(futures_util::stream::iter([message])).await;
            match outcome {
                Ok(replies) => replies.into_inner().message().await,
                Err(status) => Err(status),
            }
        }
    };
    let plain = |login: &str, password: &str| [b"\0", login.as_bytes(), b"\0", password.as_bytes()].concat();
    let reply = begin("plain", &plain("bob", PASSWORD)).await.expect("PLAIN is offered").expect("one reply");
    let token = reply.login.expect("one message is enough for PLAIN").token;
    assert_eq!(owner(&client.clone().with_token(&token)).await.expect("a session"), canonical("bob"));
    let wrong = begin("PLAIN", &plain("bob", "wrong")).await;
    assert_eq!(refusal(wrong), refused(Code::Unauthenticated, "login"));
    let other = begin("PLAIN", &[b"ann".as_slice(), &plain("bob", PASSWORD)].concat()).await;
    assert!(other.is_ok(), "the double accepts every authorization identity");
    assert_eq!(refusal(begin("PLAIN", b"bob").await), refused(Code::InvalidArgument, "malformed"));
    assert_eq!(refusal(begin("SCRAM-SHA-256", b"").await), refused(Code::Unimplemented, "unsupported"));
    assert_eq!(refusal(begin("NO-SUCH", b"").await), refused(Code::Unimplemented, "unsupported"));
    let long = vec![b'x'; 4_097];
    assert_eq!(refusal(begin("PLAIN", &long).await), refused(Code::InvalidArgument, "malformed"));
}

#[tokio::test]
async fn login_is_deferred_while_too_many_wait() {
    let (login_pool, busy) = full_pool().expect("a thread starts");
    let server = TestServer::with_login_pool(login_pool, |_| {});
    let client = server.connect().await;
    assert_eq!(refusal(client.try_log_in("ann", PASSWORD).await), refused(Code::Unavailable, "unavailable"));
    let response = [b"\0bob\0", PASSWORD.as_bytes()].concat();
    let message = v1::AuthenticateRequest { mechanism: "PLAIN".to_owned(), response };
    let outcome = match client.sessions().authenticate(futures_util::stream::iter([message])).await {
        Ok(replies) => replies.into_inner().message().await,
        Err(status) => Err(status),
    };
    assert_eq!(refusal(outcome), refused(Code::Unavailable, "unavailable"));
    assert_eq!(server.service().sessions().count(), 0);
    drop(busy);
    while server.login_pool.report().depth > 0 {
        tokio::task::yield_now().await;
    }
    let token = client.try_log_in("ann", PASSWORD).await.expect("the connection goes on").token;
    assert_eq!(owner(&client.with_token(&token)).await.expect("a session"), canonical("ann"));
}

#[tokio::test]
async fn calls_are_served_while_logins_wait() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let busy = BusyWorker::occupy(&server.login_pool).expect("the queue has space");
    let stranger = server.connect().await;
    let login = tokio::spawn(async move { stranger.try_log_in("bob", PASSWORD).await });
    while server.login_pool.report().depth < 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(owner(&ann).await.expect("a session"), canonical("ann"));
    drop(busy);
    login.await.expect("no panic").expect("the password is right");
}

#[tokio::test]
async fn idle_time_and_age_end_a_session() {
    let limits =
        SessionLimits { idle: Duration::from_secs(60), age: Duration::from_secs(150), ..SessionLimits::default() };
    let server = TestServer::with(|options| options.sessions = limits);
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    server.clock.advance(Duration::from_secs(50));
    assert!(owner(&ann).await.is_ok());
    server.clock.advance(Duration::from_secs(50));
    assert!(owner(&ann).await.is_ok(), "each call restarts the idle time");
    assert_eq!(refusal(owner(&bob).await), no_session(), "100 seconds of idle time");
    server.clock.advance(Duration::from_secs(51));
    assert_eq!(refusal(owner(&ann).await), no_session(), "151 seconds of age");
    let again = server.log_in("ann").await;
    assert!(owner(&again).await.is_ok());
}

#[tokio::test]
async fn sessions_are_limited_per_account_and_in_total() {
    let limits = SessionLimits { per_account: 2, total: 3, ..SessionLimits::default() };
    let server = TestServer::with(|options| options.sessions = limits);
    let first = server.log_in("ann").await;
    server.clock.advance(Duration::from_secs(1));
    let second = server.log_in("ann").await;
    server.clock.advance(Duration::from_secs(1));
    assert!(owner(&first).await.is_ok(), "now the second session is idle for the longest time");
    let third = server.log_in("ann").await;
    assert!(owner(&first).await.is_ok() && owner(&third).await.is_ok());
    assert_eq!(refusal(owner(&second).await), no_session());
    let _bob = server.log_in("bob").await;
    let full = server.connect().await.try_log_in("bob", PASSWORD).await;
    assert_eq!(refusal(full), refused(Code::ResourceExhausted, "full"));
}

#[tokio::test]
async fn a_logout_ends_one_session_of_a_connection() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let token = ann.try_log_in("ann", PASSWORD).await.expect("the password is right").token;
    let other = ann.clone().with_token(&token);
    ann.sessions().logout(v1::LogoutRequest {}).await.expect("a session");
    assert_eq!(refusal(owner(&ann).await), no_session());
    assert_eq!(owner(&other).await.expect("the other session goes on"), canonical("ann"));
    assert_eq!(refusal(ann.sessions().logout(v1::LogoutRequest {}).await), no_session());
}

#[tokio::test]
async fn a_changed_account_ends_its_sessions_and_streams() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let watch = v1::WatchChangesRequest { database: plan(), ..Default::default() };
    let mut changes = ann.changes().watch_changes(watch).await.expect("ann may read").into_inner();
    changes.message().await.expect("the stream goes on").expect("the state of the database");
    server.accounts.terminate_all();
    assert_eq!(refusal(changes.message().await), no_session());
    assert_eq!(refusal(owner(&ann).await), no_session());
}

#[tokio::test]
async fn disabled_person_loses_the_session() {
    let server = TestServer::new();
    let bob = server.log_in("bob").await;
    let change = directory::PersonChange { disabled: Some(true), ..directory::PersonChange::default() };
    server.directory.user_set("bob@acme.test", &change).expect("bob exists");
    let open = v1::OpenDatabaseRequest { database: plan() };
    assert_eq!(refusal(bob.databases().open_database(open).await), no_session());
}

#[tokio::test]
async fn draining_server_ends_streams() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let watch = v1::WatchChangesRequest { database: plan(), ..Default::default() };
    let mut changes = ann.changes().watch_changes(watch).await.expect("ann may read").into_inner();
    changes.message().await.expect("the stream goes on").expect("the state of the database");
    server.shutdown.drain();
    assert_eq!(refusal(changes.message().await), refused(Code::Unavailable, "unavailable"));
}

#[tokio::test]
async fn get_server_needs_no_session() {
    let server = TestServer::with(|options| {
        options.mechanisms = vec![Mechanism::ScramSha256, Mechanism::Plain];
        options.call_time_max = Duration::from_millis(1_500);
    });
    let reply = server.connect().await.sessions().get_server(v1::GetServerRequest {}).await;
    let reply = reply.expect("no session is required").into_inner();
    assert_eq!((reply.hostname.as_str(), reply.version.as_str()), ("hub.acme.test", "doublet 1"));
    assert_eq!(reply.mechanisms, ["SCRAM-SHA-256", "PLAIN"]);
    assert_eq!((reply.call_time_max_ms, reply.message_bytes_max), (1_500, rpc::limits::MESSAGE_BYTES_MAX as u64));
}

#[tokio::test]
async fn forged_and_malformed_tokens_are_refused() {
    let server = TestServer::new();
    let client = server.connect().await;
    let token = client.try_log_in("ann", PASSWORD).await.expect("the password is right").token;
    let mut forged = token.clone().into_bytes();
    forged[0] = if forged[0] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("ASCII");
    for wrong in [forged.as_str(), "", "x", &token[1..], &format!("{token}{token}")] {
        assert_eq!(refusal(owner(&client.clone().with_token(wrong)).await), no_session(), "{wrong:?}");
    }
    assert!(owner(&client.with_token(&token)).await.is_ok());
}
