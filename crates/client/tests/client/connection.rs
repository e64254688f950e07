//! Tests of connections: their begin, and their end on either side.

use client::{Client, Code, ConnectOptions, Error, v1};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::server::TestServer;

#[tokio::test]
async fn refused_connection_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound").to_string();
    drop(listener);
    let server = TestServer::start().await;
    let options = ConnectOptions { address: address.clone(), ..server.options() };
    let error = Client::connect(&options).await.expect_err("the port is closed");
    assert!(error.to_string().starts_with(&format!("cannot connect to {address}: ")), "{error}");
    let Error::Connect { source, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn plaintext_server_is_a_tls_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound").to_string();
    let greeting = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("the client comes");
        // The client may close the connection before it has read everything.
        let _ = socket.write_all(b"220 mail.test ESMTP\r\n").await;
    });
    let server = TestServer::start().await;
    let options = ConnectOptions { address: address.clone(), ..server.options() };
    let error = Client::connect(&options).await.expect_err("this is not TLS");
    let expected = format!("cannot establish a trusted TLS connection to {address}: ");
    assert!(matches!(error, Error::Tls { .. }) && error.to_string().starts_with(&expected), "{error}");
    greeting.await.expect("no panic");
}

#[tokio::test]
async fn calls_fail_once_the_server_has_closed_the_connection() {
    let mut server = TestServer::start().await;
    let client = server.connect().await;
    let connection = server.next_connection().await;
    client.sessions().get_server(v1::GetServerRequest {}).await.expect("the server answers");
    assert!(!client.is_closed());
    connection.abort();
    assert!(connection.await.expect_err("it was aborted").is_cancelled());
    while !client.is_closed() {
        tokio::task::yield_now().await;
    }
    let error = client.sessions().get_server(v1::GetServerRequest {}).await.expect_err("the connection is closed");
    assert!(matches!(error.code(), Code::Unknown | Code::Unavailable), "{error:?}");
    let second = server.connect().await;
    assert!(second.sessions().get_server(v1::GetServerRequest {}).await.is_ok(), "the server accepts connections");
}

#[tokio::test]
async fn the_connection_ends_with_the_last_clone() {
    let mut server = TestServer::start().await;
    let client = server.connect().await;
    let connection = server.next_connection().await;
    let clone = client.clone();
    let sessions = client.sessions();
    drop(client);
    clone.sessions().get_server(v1::GetServerRequest {}).await.expect("a clone keeps the connection");
    drop(clone);
    assert!(!connection.is_finished(), "a stub keeps the connection");
    drop(sessions);
    connection.await.expect("the server sees the end");
}
