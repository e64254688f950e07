//! Tests of channel bindings: equal at both ends, different between connections, and computed as the RFCs require.

use sasl::ChannelBinding;
use sha2::{Digest, Sha256};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use wire::{ClientTls, Stream, Tls};

use crate::streams::{certificate, tls};

/// Performs a TLS handshake in memory. Returns both ends.
async fn handshake(tls: &Tls) -> (Stream, Stream) {
    let (client, server) = Stream::duplex(1 << 16);
    let trust = ClientTls::opportunistic().expect("valid settings");
    let (client, server) = tokio::join!(client.connect_tls(&trust, "mail.test"), server.accept_tls(tls));
    (client.expect("the client completes the handshake"), server.expect("the server completes the handshake"))
}

/// Returns the binding to a certificate in PEM form that is signed with SHA-256.
fn end_point(pem: &str) -> ChannelBinding {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
    ChannelBinding::TlsServerEndPoint(Sha256::digest(&certificate).to_vec())
}

#[tokio::test]
async fn bindings_are_equal_at_both_ends_and_differ_between_connections() {
    let tls = tls("mail.test");
    let (client, server) = handshake(&tls).await;
    let bindings = server.channel_bindings();
    assert!(matches!(bindings[..], [ChannelBinding::TlsExporter(_), ChannelBinding::TlsServerEndPoint(_)]));
    assert_eq!(client.channel_bindings(), bindings);
    let (other_client, other_server) = handshake(&tls).await;
    let others = other_server.channel_bindings();
    assert_eq!(other_client.channel_bindings(), others);
    assert_ne!(others[0], bindings[0], "the keying material belongs to one connection");
    assert_eq!(others[1], bindings[1], "the certificate is the same");
}

#[tokio::test]
async fn exporter_has_the_label_of_rfc_9266() {
    let (client, server) = Stream::duplex(1 << 16);
    let tls = tls("mail.test");
    let connector = TlsConnector::from(ClientTls::opportunistic().expect("valid settings").config());
    let name = ClientTls::server_name("mail.test").expect("a name");
    let (client, server) = tokio::join!(connector.connect(name, client), server.accept_tls(&tls));
    let client = client.expect("the client completes the handshake");
    let exported = client.get_ref().1.export_keying_material([0_u8; 32], b"EXPORTER-Channel-Binding", Some(b""));
    let expected = ChannelBinding::TlsExporter(exported.expect("the handshake is over"));
    assert_eq!(server.expect("the server completes the handshake").channel_bindings()[0], expected);
}

#[tokio::test]
async fn end_point_is_the_certificate_of_the_handshake() {
    let (first, first_key) = certificate("mail.test");
    let (second, second_key) = certificate("mail.test");
    let tls = Tls::new(first.as_bytes(), first_key.as_bytes()).expect("the pair is valid");
    let (_first_client, before) = handshake(&tls).await;
    tls.replace(second.as_bytes(), second_key.as_bytes(), None).expect("the pair is valid");
    let (_second_client, after) = handshake(&tls).await;
    assert_eq!(before.channel_bindings()[1], end_point(&first));
    assert_eq!(after.channel_bindings()[1], end_point(&second));
}

#[tokio::test]
async fn stream_without_tls_has_no_bindings() {
    let (client, server) = Stream::duplex(1 << 10);
    assert!(client.channel_bindings().is_empty() && server.channel_bindings().is_empty());
}
