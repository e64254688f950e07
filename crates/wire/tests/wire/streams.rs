//! Tests of the streams: upgrades to TLS and DEFLATE over every transport, reload of the certificate, and rejection of
//! invalid bytes.

use std::io;

use base::Random;
use base::sim::SeededRandom;
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use wire::{ClientTls, Stream, Tls, TlsError};

/// Creates a self-signed certificate and its key in PEM form.
pub fn certificate(name: &str) -> (String, String) {
    let certified = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a name makes a certificate");
    (certified.cert.pem(), certified.signing_key.serialize_pem())
}

/// Creates the settings of a server with a new certificate.
pub fn tls(name: &str) -> Tls {
    let (chain, key) = certificate(name);
    Tls::new(chain.as_bytes(), key.as_bytes()).expect("the pair is valid")
}

/// Performs a TLS handshake between two ends. Returns the encrypted ends.
pub async fn encrypt(client: Stream, server: Stream) -> (Stream, Stream) {
    let tls = tls("mail.test");
    let trust = ClientTls::opportunistic().expect("valid settings");
    let (client, server) = tokio::join!(client.connect_tls(&trust, "mail.test"), server.accept_tls(&tls));
    (client.expect("the client completes the handshake"), server.expect("the server completes the handshake"))
}

/// Sends each text from one end, waits for it at the other, and answers with it in capitals.
async fn check_exchange(client: &mut Stream, server: &mut Stream) {
    let even = "x".repeat(300_000);
    let varied = uneven_text(120_000);
    for text in ["a1 NOOP\r\n", "", "a2 SELECT INBOX\r\n", &even, &varied, "a3 LOGOUT\r\n"] {
        let ask = async {
            client.write_all(text.as_bytes()).await.expect("the server reads");
            client.flush().await.expect("the server reads");
            let mut received = vec![0; text.len()];
            client.read_exact(&mut received).await.expect("the answer comes");
            assert!(received == text.to_uppercase().as_bytes());
        };
        let answer = async {
            let mut received = Vec::new();
            while received.len() < text.len() {
                assert_ne!(server.receive(&mut received).await.expect("bytes come"), 0);
            }
            assert!(received == text.as_bytes());
            server.write_all(received.to_ascii_uppercase().as_slice()).await.expect("the client reads");
            server.flush().await.expect("the client reads");
        };
        tokio::join!(ask, answer);
    }
}

/// Returns a text that hardly compresses.
fn uneven_text(length: usize) -> String {
    let random = SeededRandom::new(7);
    (0..length).map(|_| char::from(b'a' + (random.below(26) as u8))).collect()
}

/// Exchanges texts without encryption, with TLS, and with compression.
async fn check_upgrades(client: Stream, server: Stream) {
    let mut client = client;
    let mut server = server;
    assert!(!client.is_tls() && client.tls_info().is_none());
    check_exchange(&mut client, &mut server).await;
    let (mut client, mut server) = encrypt(client, server).await;
    assert!(client.is_tls() && server.is_tls());
    assert_eq!(server.tls_info().map(|facts| facts.version), Some("TLSv1.3"));
    assert_eq!(server.tls_info(), client.tls_info());
    check_exchange(&mut client, &mut server).await;
    client.start_deflate();
    server.start_deflate();
    check_exchange(&mut client, &mut server).await;
    server.release_idle_memory();
    client.release_idle_memory();
    check_exchange(&mut client, &mut server).await;
    server.shutdown().await.expect("the client is there");
    assert_eq!(client.receive(&mut Vec::new()).await.expect("an orderly end"), 0);
}

#[tokio::test]
async fn memory_streams_can_be_upgraded() {
    let (client, server) = Stream::duplex(1 << 20);
    check_upgrades(client, server).await;
}

#[tokio::test]
async fn tcp_streams_can_be_upgraded() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound");
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    let server = server.expect("the client comes").0;
    assert!(!server.nodelay().expect("the socket is open"));
    check_upgrades(Stream::tcp(client.expect("the listener is there")), Stream::from(server)).await;
}

#[tokio::test]
async fn local_sockets_can_be_upgraded() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("the path is free");
    let (client, server) = tokio::join!(UnixStream::connect(&path), listener.accept());
    let server = Stream::unix(server.expect("the client comes").0);
    check_upgrades(Stream::from(client.expect("the listener is there")), server).await;
}

#[tokio::test]
async fn tls_is_not_started_twice_or_above_deflate() {
    let (client, server) = Stream::duplex(1 << 16);
    let (_client, server) = encrypt(client, server).await;
    let refused = server.accept_tls(&tls("mail.test")).await.expect_err("there is TLS already");
    assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    let (mut one, _other) = Stream::duplex(1 << 16);
    one.start_deflate();
    let refused = one.accept_tls(&tls("mail.test")).await.expect_err("there is compression already");
    assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
}

#[tokio::test]
async fn replaced_certificate_is_used_by_the_next_handshake() {
    let (first_chain, first_key) = certificate("mail.test");
    let (second_chain, second_key) = certificate("mail.test");
    let tls = Tls::new(first_chain.as_bytes(), first_key.as_bytes()).expect("the pair is valid");
    let trust_second = ClientTls::with_roots_pem(second_chain.as_bytes()).expect("a certificate");
    let attempt = async || {
        let (client, server) = Stream::duplex(1 << 16);
        let ends = tokio::join!(client.connect_tls(&trust_second, "mail.test"), server.accept_tls(&tls));
        ends.0.is_ok() && ends.1.is_ok()
    };
    assert!(!attempt().await, "the first certificate is not trusted");
    let mismatch = tls.replace(second_chain.as_bytes(), first_key.as_bytes(), None);
    assert!(matches!(mismatch, Err(TlsError::Refused(_))), "{mismatch:?}");
    tls.replace(second_chain.as_bytes(), second_key.as_bytes(), None).expect("the pair is valid");
    assert!(attempt().await, "the second certificate is served");
}

#[test]
fn invalid_certificate_files_are_refused() {
    let (chain, key) = certificate("mail.test");
    let check = |chain: &[u8], key: &[u8], expected: &str| {
        let error = Tls::new(chain, key).expect_err("a file is broken").to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(b"", key.as_bytes(), "no certificate");
    check(chain.as_bytes(), b"", "no private key");
    check(chain.as_bytes(), chain.as_bytes(), "no private key");
    check(&vec![b' '; wire::limits::PEM_BYTES_MAX + 1], key.as_bytes(), "longer than");
}

#[tokio::test]
async fn invalid_deflate_data_is_an_error() {
    let (mut client, mut server) = Stream::duplex(1 << 16);
    server.start_deflate();
    client.write_all(&[0xFF; 64]).await.expect("within the limit");
    let error = server.receive(&mut Vec::new()).await.expect_err("a reserved block type");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn plaintext_instead_of_a_handshake_is_an_error() {
    let (mut client, server) = Stream::duplex(1 << 16);
    client.write_all(b"EHLO client.test\r\n").await.expect("within the limit");
    drop(client);
    assert!(server.accept_tls(&tls("mail.test")).await.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Checks that bytes written in any pieces, with flushes and pauses in between, arrive unchanged.
    #[test]
    fn deflate_preserves_data_in_any_pieces(
        pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..20_000), any::<bool>()), 0..12),
        capacity in 1usize..5_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (mut client, mut server) = Stream::duplex(capacity);
            client.start_deflate();
            server.start_deflate();
            let expected: Vec<u8> = pieces.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            let send = async {
                for (bytes, pause) in &pieces {
                    client.write_all(bytes).await.expect("the server reads");
                    if *pause {
                        client.flush().await.expect("the server reads");
                        client.release_idle_memory();
                    }
                }
                client.shutdown().await.expect("the server reads");
            };
            let mut received = Vec::new();
            let receive = async { while server.receive(&mut received).await.expect("valid bytes") > 0 {} };
            tokio::join!(send, receive);
            assert!(received == expected);
        });
    }
}

/// Checks that a client gets the reply and the end, and that no descriptor of the server remains: what the client sends
/// afterwards cannot be delivered.
async fn check_refused(client: &mut (impl AsyncRead + AsyncWrite + Unpin), expected: &str) {
    let mut reply = String::new();
    client.read_to_string(&mut reply).await.expect("an orderly end");
    assert_eq!(reply, expected);
    while client.write_all(b"x").await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn refused_stream_is_closed_at_once() {
    let reply = "421 4.7.0 Too many connections\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let mut client = TcpStream::connect(listener.local_addr().expect("it is bound")).await.expect("it listens");
    let (server, _) = listener.accept().await.expect("a client connected");
    Stream::tcp(server).refuse(reply.as_bytes());
    check_refused(&mut client, reply).await;
    let (mut client, server) = UnixStream::pair().expect("a pair");
    Stream::unix(server).refuse(reply.as_bytes());
    check_refused(&mut client, reply).await;
    let (mut client, server) = Stream::duplex(64);
    server.refuse(reply.as_bytes());
    check_refused(&mut client, "").await;
}
