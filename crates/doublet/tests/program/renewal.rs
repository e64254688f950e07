//! Tests of the certificates of a domain: their renewal over the network, without a copied file.

use std::sync::Arc;

use base::{Clock as _, Name};
use client::{Client, Trust, v1};
use config::ConfigSources;
use instance::Instance;
use instance::certifier::SigningRequest;
use instance::system::SystemClock;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::json;

use crate::native_mutual_tls::CertificateAuthority;
use crate::replication::joined_servers;
use crate::{Server, TestFolder};

/// Returns the file with the certificate and the key of a server.
fn issued(folder: &TestFolder) -> String {
    std::fs::read_to_string(folder.data().join("tls/server.pem")).expect("the server has joined")
}

/// Returns the copy of the certificate of a server that its clients are given.
fn copy_for_clients(folder: &TestFolder) -> String {
    std::fs::read_to_string(folder.data().join("tls/certificate.pem")).expect("it is there for clients")
}

/// Returns `true` if a client that has a copy of a certificate can connect to a server.
fn is_trusted(copy: &str, server: &Server) -> bool {
    let address = server.listeners.get("native").expect("it listens");
    let options = client::ConnectOptions::new(address, Trust::pinned(copy.as_bytes()).expect("a certificate"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let Ok(client) = Client::connect(&options).await else { return false };
        client.sessions().get_server(v1::GetServerRequest {}).await.expect("it answers");
        true
    })
}

/// Checks that the listeners of a running server present the certificate in its data folder.
fn check_presented(folder: &TestFolder, server: &Server) {
    let copy = copy_for_clients(folder);
    let end = "-----END CERTIFICATE-----\n";
    let only_the_first = &copy[..copy.find(end).expect("a certificate") + end.len()];
    assert!(is_trusted(only_the_first, server), "the certificate is not the one in the folder");
}

#[test]
fn a_joined_server_gets_a_new_certificate_from_the_first_one() {
    let ((hub, running), (spoke, joined)) = joined_servers();
    let before = issued(&spoke);
    let copy = copy_for_clients(&spoke);
    check_presented(&spoke, &joined);
    spoke.check(&["server", "renew"], "This server has a new certificate, valid until 2");
    let after = issued(&spoke);
    let key = |text: &str| text[text.find("BEGIN PRIVATE").expect("it has a key")..].to_owned();
    assert!(before != after && key(&before) != key(&after), "certificate and key are new");
    // New connections get it without a restart, and the other server accepts it.
    check_presented(&spoke, &joined);
    // Clients that have a copy of the old one trust the new one, and only that of this server.
    assert!(copy != copy_for_clients(&spoke) && is_trusted(&copy, &joined));
    assert!(!is_trusted(&copy, &running) && !is_trusted(&copy_for_clients(&hub), &joined));
    spoke.check(&["replicate", "hub.acme.test", "names.nsf", "--pull"], "names.nsf");
    let shown = spoke.json(&["server", "show"]);
    let listed = hub.json(&["server", "list"]);
    let at_hub = listed.as_array().into_iter().flatten().find(|row| row["server"] == "spoke.acme.test/Acme");
    let at_hub = at_hub.expect("it is registered");
    assert!(shown["certificate_until"].is_string() && shown["renewed_from"].is_string(), "{shown}");
    assert_eq!(at_hub["certificate_until"], shown["certificate_until"], "the first server has recorded it");
    // The first server signs its own, and nobody else can.
    let own = issued(&hub);
    hub.check(&["server", "renew"], "This server has a new certificate");
    assert_ne!(issued(&hub), own);
    check_presented(&hub, &running);
    spoke.check_fails(&["server", "renew", "--from", "third.acme.test"], "third.acme.test: ");
    let hub_address = running.listeners.get("native").expect("it listens");
    spoke.check(&["server", "renew", "--from", hub_address], "This server has a new certificate");
    let after = issued(&spoke);
    spoke.check_fails(&["server", "remove", "hub.acme.test"], "has the key of the certifier");
    hub.check(&["server", "remove", "spoke.acme.test"], "was removed");
    spoke.check_fails(&["server", "renew"], "hub.acme.test/Acme: ");
    assert_eq!(issued(&spoke), after, "a refused renewal changes nothing");
    joined.stop();
    running.stop();
    spoke.check_fails(&["server", "renew"], "start it (`doublet serve`)");
}

#[test]
fn a_certificate_near_its_end_is_renewed_without_a_command() {
    let ((hub, running), (spoke, joined)) = joined_servers();
    joined.stop();
    // The pair of files of an earlier version, with a certificate that ends within the next weeks.
    let (chain, key) = certificate_of(&hub, "spoke.acme.test", -40..40);
    let running = forget_ends(&hub, running);
    let folder = spoke.data().join("tls");
    std::fs::remove_file(folder.join("server.pem")).expect("it exists");
    std::fs::write(folder.join("certificate.pem"), chain).expect("writes a test file");
    std::fs::write(folder.join("key.pem"), key).expect("writes a test file");
    let mut joined = spoke.serve();
    let line = joined.wait_for_log_since_start("renewed the certificate of this server");
    assert!(line.contains("valid_until=\"2"), "{line}");
    assert!(issued(&spoke).contains("Name: hub.acme.test\n"), "the server that has signed it is asked first next time");
    assert!(!folder.join("key.pem").exists(), "the key of the old certificate is gone");
    check_presented(&spoke, &joined);
    let shown = spoke.json(&["server", "show"]);
    assert_eq!(shown["this_server"], json!(true), "{shown}");
    joined.stop();
    // The next start has nothing to renew.
    let after = issued(&spoke);
    spoke.serve().stop();
    assert_eq!(issued(&spoke), after);
    running.stop();
}

#[test]
fn only_the_newest_certificate_of_the_certifier_itself_is_renewed() {
    let ((hub, mut running), (spoke, joined)) = joined_servers();
    running.wait_for_log_since_start("recorded a certificate");
    let before = issued(&spoke);
    let requested = SigningRequest::create("spoke.acme.test", "Acme").expect("a key").request;
    let renew = |server: &Server, roots: &str, (chain, key): (&str, &str)| {
        let trust = Trust::mutual(roots.as_bytes(), chain.as_bytes(), key.as_bytes()).expect("a pair");
        let address = server.listeners.get("native").expect("it listens");
        let options = client::ConnectOptions {
            server_name: Some("hub.acme.test".to_owned()),
            ..client::ConnectOptions::new(address, trust)
        };
        let request = v1::RenewCertificateRequest { signing_request: requested.clone(), installed: false };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = Client::connect(&options).await.expect("it accepts the authority");
            let renewed = client.servers().renew_certificate(request).await;
            renewed.map(|reply| reply.into_inner().certificate).map_err(|status| status.message().to_owned())
        })
    };
    let roots = std::fs::read_to_string(hub.data().join("tls/certifier.pem")).expect("it has registered");
    // An answer may be lost, so the same certificate is renewed until the server has installed another one.
    for _ in 0..2 {
        let renewed = renew(&running, &roots, (&before, &before)).expect("it is the newest one");
        assert!(renewed.contains("BEGIN CERTIFICATE"), "{renewed}");
    }
    // One that ends before the one in the directory was replaced.
    let (chain, key) = certificate_of(&hub, "spoke.acme.test", -40..40);
    let refused = renew(&running, &roots, (&chain, &key)).expect_err("it was replaced");
    assert!(refused.contains("was replaced by one that is valid until 2"), "{refused}");
    // Neither does it replicate.
    let present = spoke.data().join("tls/server.pem");
    std::fs::write(&present, format!("{key}{chain}")).expect("writes a test file");
    spoke.check_fails(&["replicate", "hub.acme.test", "names.nsf", "--pull"], "was replaced by one that is valid");
    std::fs::write(&present, &before).expect("writes a test file");
    let running = forget_ends(&hub, running);
    let renew_older = || renew(&running, &roots, (&chain, &key));
    renew_older().expect("no newer one is known");
    spoke.check(&["server", "renew"], "This server has a new certificate");
    renew_older().expect_err("the server has confirmed a newer one");
    let after = issued(&spoke);
    renew(&running, &roots, (&after, &after)).expect("it is the newest one");
    joined.stop();
    running.stop();
    // Another authority may identify servers, and get no certificates of the domain.
    let foreign = CertificateAuthority::new("Other");
    let subject = [(DnType::CommonName, "spoke.acme.test"), (DnType::OrganizationName, "Acme")];
    let (chain, key) = foreign.sign("spoke.acme.test", &subject);
    let peers = hub.path("peers.pem");
    std::fs::write(&peers, format!("{roots}{}", foreign.pem)).expect("writes a test file");
    let mut command = hub.serve_command();
    command.args(["--set", &format!("tls.peers={}", peers.display())]);
    let running = hub.start(command, &[]);
    let refused = renew(&running, &roots, (&chain, &key)).expect_err("the certifier has not signed it");
    assert!(refused.contains("the certifier of the domain has not signed the present one"), "{refused}");
    running.stop();
}

#[test]
fn a_certificate_that_is_not_valid_yet_is_replaced() {
    let ((hub, running), (spoke, joined)) = joined_servers();
    joined.stop();
    running.stop();
    // As a renewal leaves them while the clock is a year ahead.
    let before = issued(&spoke);
    for folder in [&hub, &spoke] {
        let host = if std::ptr::eq(folder, &hub) { "hub.acme.test" } else { "spoke.acme.test" };
        let (chain, key) = certificate_of(&hub, host, 300..2_000);
        std::fs::write(folder.data().join("tls/server.pem"), format!("{key}{chain}")).expect("writes a test file");
    }
    std::fs::write(spoke.data().join("tls/server.pem.old"), &before).expect("writes a test file");
    let mut running = hub.serve();
    let mut joined = spoke.serve();
    joined.wait_for_log_since_start("the one before it is used again");
    assert_eq!(issued(&spoke), before);
    check_presented(&spoke, &joined);
    // The first server has none before it, and signs another one.
    running.wait_for_log_since_start("renewed the certificate of this server");
    check_presented(&hub, &running);
    joined.stop();
    running.stop();
}

/// Sets the ends of certificates in the directory back, as if those with a later one had never been issued. Returns the
/// server, which was restarted.
fn forget_ends(hub: &TestFolder, running: Server) -> Server {
    let address = running.listeners.get("native").expect("it listens").clone();
    running.stop();
    let overrides = hub.options.iter().filter(|word| word.contains('=')).cloned().collect();
    let sources = ConfigSources { data: Some(hub.data()), overrides, ..ConfigSources::default() };
    let instance = Instance::open(Arc::new(config::load(&sources).expect("it is valid"))).expect("nobody else has it");
    for server in ["hub.acme.test", "spoke.acme.test"] {
        let name = Name::new(&format!("CN={server}/O=Acme"));
        instance.directory.server_set_certificate(&name, Default::default()).expect("it is registered");
    }
    drop(instance);
    let mut again = hub.serve_command();
    again.args(["--set", &format!("listen.native={address}")]);
    hub.start(again, &[])
}

/// Signs a certificate of a server with the certifier of the hub, valid between two days from now.
fn certificate_of(hub: &TestFolder, host: &str, valid_days: std::ops::Range<i64>) -> (String, String) {
    let read = |name: &str| std::fs::read_to_string(hub.data().join("tls").join(name)).expect("it has registered");
    let certifier = read("certifier.pem");
    let certifier_key = read("certifier.key");
    let name = |common: &str| {
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, common);
        name.push(DnType::OrganizationName, "Acme");
        name
    };
    let mut params = CertificateParams::new(vec![host.to_owned(), "localhost".to_owned()]).expect("valid names");
    params.distinguished_name = name(host);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    // Whole days since the epoch, which is before both.
    let now = u64::try_from(SystemClock::new().now().0).expect("it is after the epoch");
    let today = now / 86_400_000_000;
    let day = |from_now: i64| {
        let number = today.checked_add_signed(from_now).expect("it is after the epoch");
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(number * 86_400)
    };
    params.not_before = day(valid_days.start).into();
    params.not_after = day(valid_days.end).into();
    let mut authority = CertificateParams::default();
    authority.distinguished_name = name("Doublet certifier");
    let issuer = Issuer::new(authority, KeyPair::from_pem(&certifier_key).expect("a key"));
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &issuer).expect("it signs").pem();
    (format!("{certificate}{certifier}"), key.serialize_pem())
}
