//! Tests of logins: passwords, SCRAM, tokens, and the end of sessions.

use base::sim::SeededRandom;
use client::{Client, Code, Error, v1};

use crate::server::{PASSWORD, ScramBehavior, TOKEN, TestServer};

/// Returns the name of the session, or the code of the refusal.
async fn session_name(client: &Client) -> Result<String, Code> {
    let reply = client.sessions().get_session(v1::GetSessionRequest {}).await;
    reply.map(|reply| reply.into_inner().name).map_err(|status| status.code())
}

async fn scram(behavior: ScramBehavior, password: &str) -> (Client, Result<v1::LoginReply, Error>) {
    let server = TestServer::with(behavior, None).await;
    let client = server.connect().await;
    let outcome = client.login_scram("ann", password, &SeededRandom::new(3)).await;
    (client, outcome)
}

#[tokio::test]
async fn calls_after_a_login_run_in_its_session_until_logout() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    assert_eq!(session_name(&client).await, Err(Code::Unauthenticated));
    client.login("ann", PASSWORD).await.expect("the password is right");
    assert_eq!(session_name(&client).await.as_deref(), Ok("CN=Ann/O=Acme"));
    assert_eq!(session_name(&client.clone()).await.as_deref(), Ok("CN=Ann/O=Acme"), "clones share the session");
    client.logout().await.expect("there is a session");
    assert_eq!(session_name(&client).await, Err(Code::Unauthenticated));
    let refused = client.logout().await.expect_err("the session has ended");
    assert_eq!(refused.to_string(), "log in first");
}

#[tokio::test]
async fn wrong_password_is_a_failed_call_with_reason() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let refused = client.login("ann", "guess").await.expect_err("the password is wrong");
    assert_eq!(refused.to_string(), "wrong login or password");
    let Error::Call(status) = refused else { panic!("{refused:?}") };
    assert_eq!((status.code(), client::reason(&status)), (Code::Unauthenticated, "login".to_owned()));
    assert_eq!(session_name(&client).await, Err(Code::Unauthenticated));
}

#[tokio::test]
async fn failed_login_keeps_the_existing_session() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    client.login("ann", PASSWORD).await.expect("the password is right");
    client.login("bob", "guess").await.expect_err("the password is wrong");
    assert_eq!(session_name(&client).await.as_deref(), Ok("CN=Ann/O=Acme"));
}

#[tokio::test]
async fn malformed_token_is_refused() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    let refused = client.login("malformed", PASSWORD).await.expect_err("a line break in the token");
    assert_eq!(refused.to_string(), "login protocol error: the session token is malformed");
    assert_eq!(session_name(&client).await, Err(Code::Unauthenticated));
}

#[tokio::test]
async fn the_caller_may_send_a_token_of_its_own() {
    let server = TestServer::start().await;
    let client = server.connect().await;
    client.resume("expired").expect("a header can hold it");
    assert_eq!(session_name(&client).await, Err(Code::Unauthenticated));
    let mut request = client::Request::new(v1::GetSessionRequest {});
    let value = format!("Bearer {TOKEN}").parse().expect("a header can hold it");
    request.metadata_mut().insert("authorization", value);
    assert!(client.sessions().get_session(request).await.is_ok());
    let sent: Vec<String> = server.take_calls().into_iter().map(|call| call.authorization).collect();
    assert_eq!(sent, ["Bearer expired".to_owned(), format!("Bearer {TOKEN}")]);
}

#[tokio::test]
async fn scram_logs_in_without_sending_the_password() {
    let (client, outcome) = scram(ScramBehavior::Honest, PASSWORD).await;
    assert_eq!(outcome.expect("the password is right").token, TOKEN);
    assert_eq!(session_name(&client).await.as_deref(), Ok("CN=Ann/O=Acme"));
}

#[tokio::test]
async fn scram_fails_if_the_server_violates_the_protocol() {
    let cases = [
        (ScramBehavior::WrongSignature, "the server's signature is wrong, so it does not know the password"),
        (ScramBehavior::ForeignNonce, "the server's nonce does not extend the client's nonce"),
        (ScramBehavior::Silent, "the server closed the stream without a reply"),
        (ScramBehavior::WithoutSession, "the server's reply contains no session"),
    ];
    for (behavior, expected) in cases {
        let (client, outcome) = scram(behavior, PASSWORD).await;
        let error = outcome.expect_err("the login fails").to_string();
        assert_eq!(error, format!("login protocol error: {expected}"), "{behavior:?}");
        assert_eq!(session_name(&client).await, Err(Code::Unauthenticated), "{behavior:?}");
    }
}

#[tokio::test]
async fn a_session_resumes_over_a_new_connection() {
    let server = TestServer::start().await;
    let first = server.connect().await;
    let token = first.login("ann", PASSWORD).await.expect("the password is right").token;
    drop(first);
    let second = server.connect().await;
    second.resume(&token).expect("a header can hold it");
    assert_eq!(session_name(&second).await.as_deref(), Ok("CN=Ann/O=Acme"));
}
