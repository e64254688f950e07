//! Tests of trust: pinned certificates, roots and names, client certificates, and files that are none.

use client::{Client, ConnectOptions, Error, Trust, v1};

use crate::server::{Authority, Certificate, ScramBehavior, TestServer};

/// Connects and calls the server once. In TLS 1.3 a server refuses the certificate of a client after the handshake.
async fn attempt(options: &ConnectOptions) -> Result<(), Error> {
    let client = Client::connect(options).await?;
    client.sessions().get_server(v1::GetServerRequest {}).await?;
    Ok(())
}

fn refusal(outcome: Result<Trust, Error>) -> String {
    outcome.expect_err("the file cannot be used").to_string()
}

#[tokio::test]
async fn a_pinned_certificate_is_trusted_under_every_name() {
    let server = TestServer::start().await;
    for server_name in [None, Some("hub.test"), Some("other.test")] {
        let options = ConnectOptions { server_name: server_name.map(str::to_owned), ..server.options() };
        assert!(attempt(&options).await.is_ok(), "{server_name:?}");
    }
}

#[tokio::test]
async fn another_certificate_than_the_pinned_one_is_refused() {
    let server = TestServer::start().await;
    let other = Certificate::new("hub.test");
    let trust = Trust::pinned(other.chain.as_bytes()).expect("a certificate");
    let refused = attempt(&ConnectOptions { trust, ..server.options() }).await;
    assert!(matches!(&refused, Err(Error::Tls { address, .. }) if *address == server.address), "{refused:?}");
}

#[tokio::test]
async fn a_renewed_certificate_of_the_authority_in_the_copy_is_trusted_for_the_same_name() {
    let authority = Authority::new();
    let server = TestServer::presenting(authority.sign(&["hub.test", "localhost"])).await;
    let check = async |copy: String, expected: bool| {
        let trust = Trust::pinned(copy.as_bytes()).expect("a certificate");
        let outcome = attempt(&ConnectOptions { trust, ..server.options() }).await;
        assert_eq!(outcome.is_ok(), expected, "{outcome:?}");
    };
    let before = authority.sign(&["hub.test", "localhost"]).chain;
    check(format!("{before}{}", authority.chain), true).await;
    check(before.clone(), false).await;
    check(format!("{before}{}", Authority::new().chain), false).await;
    let of_another = authority.sign(&["spoke.test", "localhost"]).chain;
    check(format!("{of_another}{}", authority.chain), false).await;
    let without_name = authority.sign(&["localhost"]).chain;
    check(format!("{without_name}{}", authority.chain), false).await;
    // A further certificate that is not one of an authority signs nothing.
    check(format!("{before}{}", Certificate::new("hub.test").chain), false).await;
}

#[tokio::test]
async fn root_is_trusted_only_for_the_name_in_the_certificate() {
    let server = TestServer::start().await;
    let trust = || Trust::roots(server.certificate.chain.as_bytes()).expect("a certificate");
    let options = ConnectOptions::new(&server.address, trust());
    let named = |name: &str| ConnectOptions { server_name: Some(name.to_owned()), ..options.clone() };
    assert!(attempt(&named("hub.test")).await.is_ok());
    for options in [options.clone(), named("other.test")] {
        let refused = attempt(&options).await;
        assert!(matches!(refused, Err(Error::Tls { .. })), "{:?}: {refused:?}", options.server_name);
    }
    let refused = attempt(&named("not a name")).await.expect_err("a name has no blanks").to_string();
    assert!(refused.starts_with("cannot establish a trusted TLS connection to 127.0.0.1:"), "{refused}");
}

#[tokio::test]
async fn required_client_certificate_admits_its_holder_only() {
    let own = Certificate::new("branch.test");
    let server = TestServer::with(ScramBehavior::Honest, Some(&own)).await;
    let mutual = |own: &Certificate| {
        let roots = server.certificate.chain.as_bytes();
        let trust = Trust::mutual(roots, own.chain.as_bytes(), own.key.as_bytes()).expect("the pair is valid");
        ConnectOptions { server_name: Some("hub.test".to_owned()), trust, ..server.options() }
    };
    assert!(attempt(&mutual(&own)).await.is_ok());
    assert!(attempt(&mutual(&Certificate::new("branch.test"))).await.is_err(), "another key");
    assert!(attempt(&server.options()).await.is_err(), "no certificate");
}

#[test]
fn invalid_certificate_files_are_refused() {
    let certificate = Certificate::new("hub.test");
    let other = Certificate::new("hub.test");
    let chain = certificate.chain.as_bytes();
    let key = certificate.key.as_bytes();
    let prefix = "the trusted certificates cannot be used: ";
    assert_eq!(refusal(Trust::pinned(b"")), format!("{prefix}no CERTIFICATE block found"));
    assert_eq!(refusal(Trust::pinned(key)), format!("{prefix}no CERTIFICATE block found"));
    assert_eq!(refusal(Trust::roots(b"text")), format!("{prefix}none of the certificates can be used as a root"));
    let broken = b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n";
    assert!(refusal(Trust::roots(broken)).starts_with(prefix));
    assert!(refusal(Trust::mutual(chain, chain, chain)).starts_with(prefix), "no key");
    assert!(refusal(Trust::mutual(chain, chain, other.key.as_bytes())).starts_with(prefix), "the key of another one");
    assert!(Trust::mutual(chain, chain, key).is_ok());
}
