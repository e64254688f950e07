//! Tests of TLS handshakes: names, roots, client certificates, versions, HTTP/2, and peers that break off.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};
use wire::limits::{HANDSHAKE_TIME_MAX, RECEIVE_BYTES_MAX};
use wire::{ClientTls, Stream, Tls};

use crate::streams::{certificate, encrypt, tls};

static ALL_VERSIONS: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
static OLD_VERSION: &[&SupportedProtocolVersion] = &[&version::TLS12];

/// A client with settings that [`ClientTls`] does not offer.
struct OtherClient {
    /// PEM form of the only certificate that it trusts.
    root: String,
    /// Its own certificate and key, in PEM form.
    own: Option<(String, String)>,
    /// The protocols that it offers for the time after the handshake.
    protocols: &'static [&'static [u8]],
    versions: &'static [&'static SupportedProtocolVersion],
}

impl OtherClient {
    fn with_roots_pem(root: &str) -> Self {
        Self { root: root.to_owned(), own: None, protocols: &[b"h2"], versions: ALL_VERSIONS }
    }

    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.root.as_bytes()).expect("a certificate")).expect("a root");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(self.versions).expect("the provider has these versions");
        let builder = builder.with_root_certificates(roots);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).expect("a certificate")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("the pair is valid")
            }
        };
        config.alpn_protocols = self.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config
    }

    /// Performs a TLS handshake with an HTTP/2 server. Returns the server's end.
    async fn handshake_h2(&self, tls: &Tls) -> io::Result<Stream> {
        let (client, server) = Stream::duplex(1 << 16);
        let connector = TlsConnector::from(Arc::new(self.config()));
        let name = ServerName::try_from("mail.test").expect("a name");
        let (_client, server) = tokio::join!(connector.connect(name, client), server.accept_tls_h2(tls));
        server
    }
}

/// Performs a TLS handshake in memory. Returns `true` if both ends complete it.
async fn handshake_succeeds(tls: &Tls, trust: &ClientTls, server_name: &str) -> bool {
    let (client, server) = Stream::duplex(1 << 16);
    let (client, server) = tokio::join!(client.connect_tls(trust, server_name), server.accept_tls(tls));
    client.is_ok() && server.is_ok()
}

#[tokio::test]
async fn the_name_of_the_server_must_be_in_its_certificate() {
    let (chain, key) = certificate("mail.test");
    let tls = Tls::new(chain.as_bytes(), key.as_bytes()).expect("the pair is valid");
    let strict = ClientTls::with_roots_pem(chain.as_bytes()).expect("a certificate");
    let lax = ClientTls::opportunistic().expect("valid settings");
    for (name, expected) in [("mail.test", true), ("mail.test.", true), ("other.test", false), ("192.0.2.1", false)] {
        assert_eq!(handshake_succeeds(&tls, &strict, name).await, expected, "{name}");
        assert!(handshake_succeeds(&tls, &lax, name).await, "{name}");
    }
}

#[test]
fn names_that_no_certificate_can_contain_are_refused() {
    assert_eq!(ClientTls::server_name("mail.test.").ok(), ClientTls::server_name("mail.test").ok());
    for name in ["", ".", "a b", "mail..test", "-mail.test"] {
        let error = ClientTls::server_name(name).expect_err("not a name").to_string();
        assert_eq!(error, format!("{name:?} is not a valid server name"));
    }
}

#[tokio::test]
async fn invalid_roots_are_skipped_if_others_are_valid() {
    let (chain, key) = certificate("mail.test");
    let tls = Tls::new(chain.as_bytes(), key.as_bytes()).expect("the pair is valid");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let trust = ClientTls::with_roots_pem(format!("{broken}{chain}{broken}").as_bytes()).expect("one of them is valid");
    assert!(handshake_succeeds(&tls, &trust, "mail.test").await);
    let refused = |pem: &str| ClientTls::with_roots_pem(pem.as_bytes()).err().map(|error| error.to_string());
    let none = "no certificate in PEM form was found: none of the certificates can be used as a root";
    assert_eq!(refused(broken).as_deref(), Some(none));
    let none = "no certificate in PEM form was found: the file has no CERTIFICATE block";
    assert_eq!(refused(&key).as_deref(), Some(none));
}

#[tokio::test]
async fn client_certificate_is_verified_and_returned() {
    let (root, own_key) = certificate("branch.test");
    let (chain, key) = certificate("mail.test");
    let tls = Tls::with_client_roots(chain.as_bytes(), key.as_bytes(), Some(root.as_bytes()));
    let tls = tls.expect("the files are valid");
    let stranger = OtherClient::with_roots_pem(&chain).handshake_h2(&tls).await.expect("a certificate is optional");
    assert_eq!(stranger.peer_certificate(), None);
    let known = OtherClient { own: Some((root.clone(), own_key)), ..OtherClient::with_roots_pem(&chain) };
    let known = known.handshake_h2(&tls).await.expect("the root has signed it");
    let expected = CertificateDer::from_pem_slice(root.as_bytes()).expect("a certificate");
    assert_eq!(known.peer_certificate(), Some(expected.as_ref()));
    let other = OtherClient { own: Some(certificate("branch.test")), ..OtherClient::with_roots_pem(&chain) };
    assert!(other.handshake_h2(&tls).await.is_err(), "the same name, another key");
}

#[tokio::test]
async fn http_2_must_be_among_the_offered_protocols() {
    let (chain, key) = certificate("mail.test");
    let tls = Tls::new(chain.as_bytes(), key.as_bytes()).expect("the pair is valid");
    let offers: [(&[&[u8]], bool); 3] = [(&[b"h2"], true), (&[b"http/1.1", b"h2"], true), (&[b"http/1.1"], false)];
    for (protocols, expected) in offers {
        let client = OtherClient { protocols, ..OtherClient::with_roots_pem(&chain) };
        assert_eq!(client.handshake_h2(&tls).await.is_ok(), expected, "{protocols:?}");
    }
}

#[tokio::test]
async fn older_clients_use_tls_1_2() {
    let (chain, key) = certificate("mail.test");
    let tls = Tls::new(chain.as_bytes(), key.as_bytes()).expect("the pair is valid");
    let client = OtherClient { versions: OLD_VERSION, ..OtherClient::with_roots_pem(&chain) };
    let server = client.handshake_h2(&tls).await.expect("both know TLS 1.2");
    let facts = server.tls_info().expect("the handshake is over");
    assert_eq!(facts.version, "TLSv1.2");
    assert!(facts.cipher.starts_with("TLS_ECDHE_ECDSA_WITH_"), "{facts:?}");
    assert!(server.channel_bindings().is_empty(), "clients expect tls-unique with TLS 1.2");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_a_time_limit() {
    let (_client, server) = Stream::duplex(1 << 16);
    let begun = tokio::time::Instant::now();
    let error = server.accept_tls(&tls("mail.test")).await.expect_err("the client sends nothing");
    assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, HANDSHAKE_TIME_MAX));
    let (client, _server) = Stream::duplex(1 << 16);
    let trust = ClientTls::opportunistic().expect("valid settings");
    let error = client.connect_tls(&trust, "mail.test").await.expect_err("the server sends nothing");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn truncated_tls_stream_is_an_error() {
    let (client, server) = Stream::duplex(1 << 16);
    let (mut client, mut server) = encrypt(client, server).await;
    client.write_all(b"a1 APPEND").await.expect("within the limit");
    client.flush().await.expect("within the limit");
    drop(client);
    let mut received = Vec::new();
    assert_eq!(server.receive(&mut received).await.expect("the bytes before the end"), 9);
    let error = server.receive(&mut received).await.expect_err("the end was not announced");
    assert_eq!((error.kind(), received.as_slice()), (io::ErrorKind::UnexpectedEof, &b"a1 APPEND"[..]));
}

#[tokio::test]
async fn a_receive_appends_a_limited_number_of_bytes() {
    let (mut client, mut server) = Stream::duplex(1 << 20);
    client.write_all(&vec![b'x'; 3 * RECEIVE_BYTES_MAX + 1]).await.expect("within the limit");
    client.shutdown().await.expect("the server is there");
    let mut received = b"before ".to_vec();
    let mut lengths = Vec::new();
    while lengths.last() != Some(&0) {
        lengths.push(server.receive(&mut received).await.expect("bytes come"));
    }
    assert_eq!(lengths, [RECEIVE_BYTES_MAX, RECEIVE_BYTES_MAX, RECEIVE_BYTES_MAX, 1, 0]);
    assert!(received.starts_with(b"before x") && received.len() == 7 + 3 * RECEIVE_BYTES_MAX + 1);
}
