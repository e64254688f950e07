//! Tests of the client and the server over loopback sockets: with each other, and the client with servers that play a
//! script.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::memory::MemoryShares;
use base::networks::{Network, Networks};
use base::sim::{SeededRandom, SimClock};
use mail::router::{Notify, Recipient, ReturnContent};
use mail::submission::Submission;
use smtp::auth::verify::{DmarcEnforcement, Verifier};
use smtp::client::{
    ClientProtocol, DeliveryOutcome, EightBitPolicy, NextHop, OutboundMessage, Security, SmartHost, SmtpClient,
    SmtpClientOptions,
};
use smtp::connection::{ListenerServices, serve};
use smtp::listener_rules::{AuthCommandPolicy, ListenerRules, StartTlsPolicy};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use wire::sim::full_pool;
use wire::{ClientTls, Peer, PoolOptions, SessionTermination, Shutdown, Stream, Tls, WorkerPool};

use crate::backend::MemoryBackend;
use crate::dns::Zone;

const MESSAGE: &[u8] = b"From: a@c.example\r\nSubject: x\r\n\r\n.dot\r\nend\r\n";

pub fn recipients(addresses: &[&str]) -> Vec<Recipient> {
    addresses.iter().map(|address| Recipient::new(address)).collect()
}

pub fn outgoing<'a>(recipients: &'a [Recipient], message: &'a [u8]) -> OutboundMessage<'a> {
    let return_content = ReturnContent::Unspecified;
    OutboundMessage {
        reverse_path: "a@c.example",
        recipients,
        envelope_id: None,
        return_content,
        smtputf8: false,
        message,
    }
}

/// Returns the outcomes in short form: `+` and the reply, or `?` (temporary) or `!` (permanent) with the status and the
/// text.
fn short(outcomes: &[DeliveryOutcome]) -> Vec<String> {
    let short = |outcome: &DeliveryOutcome| match outcome {
        DeliveryOutcome::Delivered(delivery) => format!("+ {}", delivery.reply),
        DeliveryOutcome::Temporary(failure) => format!("? {} {}", failure.status, failure.text),
        DeliveryOutcome::Permanent(failure) => format!("! {} {}", failure.status, failure.text),
    };
    outcomes.iter().map(short).collect()
}

/// Creates a certificate for `mx.b.example`. Returns the server's TLS settings, and the PEM text that makes a client
/// trust it.
fn tls() -> (Tls, String) {
    let certificate = rcgen::generate_simple_self_signed(vec!["mx.b.example".to_owned()]).expect("a certificate");
    let pem = certificate.cert.pem();
    (
        Tls::new(pem.as_bytes(), certificate.signing_key.serialize_pem().as_bytes())
            .expect("the key matches the certificate"),
        pem,
    )
}

/// A server of this crate on loopback.
struct TestServer {
    backend: Arc<MemoryBackend>,
    address: SocketAddr,
    shutdown: Shutdown,
    /// Ends all sessions of the server.
    termination: SessionTermination,
    /// The certificate that makes a client trust the server.
    certificate: String,
}

pub fn service(
    rules: ListenerRules,
    verifier: Option<Arc<Verifier>>,
) -> (Arc<ListenerServices>, Arc<MemoryBackend>, String) {
    let backend = Arc::new(MemoryBackend::default());
    let clock = Arc::new(SimClock::new());
    let (tls, certificate) = tls();
    let options = PoolOptions { workers: 2, ..PoolOptions::default() };
    let pool = WorkerPool::new(&options, clock.clone()).expect("threads");
    let service = ListenerServices {
        rules: Arc::new(rules),
        recipients: backend.clone(),
        credentials: backend.clone(),
        acceptor: backend.clone(),
        verifier,
        tls: Some(Arc::new(tls)),
        login_pool: pool.clone(),
        memory: MemoryShares::unlimited(),
        pool,
        shutdown: Shutdown::new(),
        clock,
        random: Arc::new(SeededRandom::new(5)),
    };
    (Arc::new(service), backend, certificate)
}

async fn start_server(change: impl FnOnce(&mut ListenerRules)) -> TestServer {
    start_listener(change, Handshake::Later).await
}

/// Starts a server that performs the TLS handshake before the greeting.
async fn start_tls_server(change: impl FnOnce(&mut ListenerRules)) -> TestServer {
    start_listener(change, Handshake::First).await
}

#[derive(Clone, Copy, PartialEq)]
enum Handshake {
    First,
    Later,
}

async fn start_listener(change: impl FnOnce(&mut ListenerRules), handshake: Handshake) -> TestServer {
    let mut rules = ListenerRules::reception("mx.b.example", "b.example");
    change(&mut rules);
    let (service, backend, certificate) = service(rules, None);
    let shutdown = service.shutdown.clone();
    let termination = SessionTermination::default();
    let all_sessions = termination.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((stream, from)) = listener.accept().await {
            let service = service.clone();
            let all_sessions = all_sessions.clone();
            let mut stream = Stream::tcp(stream);
            tokio::spawn(async move {
                let peer = Peer { tls: handshake == Handshake::First, ..Peer::network(from) };
                if let Some(tls) = service.tls.as_ref().filter(|_| peer.tls) {
                    stream = stream.accept_tls(tls).await.map_err(smtp::Error::Connection)?;
                }
                serve(stream, peer, service, all_sessions).await
            });
        }
    });
    TestServer { backend, address, shutdown, termination, certificate }
}

pub async fn transfer(zone: Zone, port: u16, change: impl FnOnce(&mut SmtpClientOptions)) -> SmtpClient {
    let mut options = SmtpClientOptions::new("out.c.example");
    options.port = port;
    options.special_networks = Networks::from_iter([Network::v4([127, 0, 0, 0], 8)]);
    change(&mut options);
    let clock = Arc::new(SimClock::new());
    let random = Arc::new(SeededRandom::new(1));
    SmtpClient::new(options, zone.serve().await, clock, random).expect("a transfer")
}

fn zone() -> Zone {
    Zone::default().mx("b.example", 10, "mx.b.example").host("mx.b.example", "127.0.0.1")
}

fn domain() -> NextHop {
    NextHop::Domain("b.example".to_owned())
}

#[tokio::test]
async fn client_sends_a_message_to_the_server() {
    let site = start_server(|_| {}).await;
    let transfer = transfer(zone(), site.address.port(), |_| {}).await;
    let mut to = recipients(&["alice@b.example", "nobody@b.example", "full@b.example", "bob@b.example"]);
    to[0].notify = Some(Notify { success: true, failure: true, delay: false });
    to[0].original = Some("rfc822;a+b@c.example".to_owned());
    let message =
        OutboundMessage { return_content: ReturnContent::Headers, envelope_id: Some("e 1"), ..outgoing(&to, MESSAGE) };
    let outcomes = transfer.send(&domain(), &message).await;
    assert_eq!(
        short(&outcomes),
        [
            "+ 250 2.0.0 Ok: queued as Q1",
            "! 5.1.1 550 5.1.1 User unknown",
            "? 4.2.2 452 4.2.2 Mailbox full",
            "+ 250 2.0.0 Ok: queued as Q1"
        ]
    );
    let DeliveryOutcome::Delivered(delivery) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(delivery.tls && delivery.handles_dsn, "STARTTLS and DSN are offered");
    let accepted = site.backend.take();
    let Submission { envelope, message, .. } = &accepted[0];
    assert!(message.ends_with(MESSAGE), "{}", message.escape_ascii());
    let text = String::from_utf8_lossy(message);
    assert!(
        text.starts_with("Received: from out.c.example ([127.0.0.1])\r\n\tby mx.b.example with ESMTPS id "),
        "{text}"
    );
    assert!(text.contains("\r\n\ttls TLS13_"), "{text}");
    assert_eq!((envelope.return_content, envelope.envelope_id.as_deref()), (ReturnContent::Headers, Some("e 1")));
    assert_eq!((envelope.recipients[0].notify, &envelope.recipients[0].original), (to[0].notify, &to[0].original));
}

#[tokio::test]
async fn connections_are_reused_up_to_the_message_limit() {
    let site = start_server(|_| {}).await;
    let transfer = transfer(zone(), site.address.port(), |options| options.reuse_messages_max = 3).await;
    let to = recipients(&["alice@b.example"]);
    for expected in [1, 1, 0, 1] {
        let outcomes = transfer.send(&domain(), &outgoing(&to, MESSAGE)).await;
        assert!(matches!(outcomes[0], DeliveryOutcome::Delivered(_)), "{outcomes:?}");
        assert_eq!(transfer.idle_count(), expected);
    }
    let ids: Vec<String> = site.backend.take().into_iter().map(|accepted| accepted.envelope.id).collect();
    let session = |id: &String| id.split('-').next().map(str::to_owned);
    assert_eq!(ids.len(), 4);
    assert!(session(&ids[0]) == session(&ids[2]) && session(&ids[2]) != session(&ids[3]), "{ids:?}");
    transfer.close().await;
    assert_eq!(transfer.idle_count(), 0);
}

#[tokio::test]
async fn closed_idle_connection_causes_a_temporary_failure() {
    let first = start_server(|_| {}).await;
    let transfer = transfer(zone(), first.address.port(), |_| {}).await;
    let to = recipients(&["alice@b.example"]);
    transfer.send(&domain(), &outgoing(&to, MESSAGE)).await;
    assert_eq!(transfer.idle_count(), 1);
    first.shutdown.close();
    let outcomes = transfer.send(&domain(), &outgoing(&to, MESSAGE)).await;
    // The listener still accepts, but the service closes immediately. The failure is temporary, not permanent.
    assert!(matches!(&outcomes[0], DeliveryOutcome::Temporary(failure) if failure.status.0 == 4), "{outcomes:?}");
}

#[tokio::test]
async fn network_submission_requires_a_login() {
    let site = start_server(|rules| *rules = ListenerRules::submission("mx.b.example", "b.example")).await;
    let transfer = transfer(Zone::default(), 25, |_| {}).await;
    let to = recipients(&["x@elsewhere.example"]);
    let host = |password: &str, security: Security| {
        NextHop::Host(Arc::new(SmartHost {
            name: "127.0.0.1".to_owned(),
            port: site.address.port(),
            security,
            login: Some(("a".to_owned(), password.to_owned())),
            protocol: ClientProtocol::Smtp,
        }))
    };
    let outcomes = transfer.send(&host("secret", Security::Required), &outgoing(&to, MESSAGE)).await;
    assert_eq!(short(&outcomes), ["+ 250 2.0.0 Ok: queued as Q1"]);
    let outcomes = transfer.send(&host("wrong", Security::Clear), &outgoing(&to, MESSAGE)).await;
    assert_eq!(short(&outcomes), ["? 4.7.8 the login was refused: 535 5.7.8 Authentication failed"]);
}

#[tokio::test]
async fn trusted_certificate_must_match_the_host_name() {
    let site = start_tls_server(|rules| rules.authentication = AuthCommandPolicy::Offered).await;
    let zone = zone().host("other.b.example", "127.0.0.1");
    let transfer = transfer(zone, 25, |_| {}).await;
    let trust = || Security::Implicit(ClientTls::with_roots_pem(site.certificate.as_bytes()).expect("a certificate"));
    let to = recipients(&["x@elsewhere.example"]);
    for (name, expected) in [("mx.b.example", "+ 250"), ("other.b.example", "? 4.7.5 TLS failed")] {
        let login = Some(("a".to_owned(), "secret".to_owned()));
        let port = site.address.port();
        let protocol = ClientProtocol::Smtp;
        let host = SmartHost { name: name.to_owned(), port, security: trust(), login, protocol };
        let outcomes = short(&transfer.send(&NextHop::Host(Arc::new(host)), &outgoing(&to, MESSAGE)).await);
        assert!(outcomes[0].starts_with(expected), "{name}: {outcomes:?}");
    }
    let text = String::from_utf8_lossy(&site.backend.take()[0].message).into_owned();
    assert!(text.contains("with ESMTPSA id "), "{text}");
    assert!(text.contains("\r\nDate: "), "completed as on submission, because of the login: {text}");
}

#[tokio::test]
async fn message_that_is_not_durable_is_not_accepted() {
    let site = start_server(|_| {}).await;
    let transfer = transfer(zone(), site.address.port(), |_| {}).await;
    let to = recipients(&["alice@b.example"]);
    let lost = OutboundMessage { reverse_path: "lost@c.example", ..outgoing(&to, MESSAGE) };
    let outcomes = transfer.send(&domain(), &lost).await;
    assert_eq!(short(&outcomes), ["? 4.3.0 451 4.3.0 Local error, try again later"]);
}

#[tokio::test]
async fn results_are_recorded_and_forged_ones_stripped() {
    let zone = Zone::default().txt("c.example", "v=spf1 ip4:192.0.2.7 -all");
    let verifier = Verifier::new(zone.serve().await, DmarcEnforcement::Record);
    let mut rules = ListenerRules::reception("mx.b.example", "b.example");
    rules.greet_delay = Duration::ZERO;
    let (service, backend, _) = service(rules, Some(Arc::new(verifier)));
    let (mut near, far) = Stream::duplex(1 << 16);
    let peer = Peer::network("192.0.2.7:4000".parse().expect("valid"));
    let session = tokio::spawn(serve(far, peer, service, SessionTermination::default()));
    let commands = "HELO c.example\r\n|MAIL FROM:<a@c.example>\r\nRCPT TO:<alice@b.example>\r\nDATA\r\n|\
                Authentication-Results: mx.b.example; dkim=pass\r\nFrom: a@c.example\r\nstray\r\n\
                Authentication-Results: \"mx\\.b.example\"; dkim=pass\r\n\r\nx\r\n.\r\nQUIT\r\n";
    let mut reply = Vec::new();
    for group in commands.split('|') {
        // Each group waits for the last line of the reply to the previous group.
        while !reply.ends_with(b"\r\n") {
            near.receive(&mut reply).await.expect("the server answers");
        }
        near.write_all(group.as_bytes()).await.expect("within the limit");
        reply.clear();
    }
    session.await.expect("no panic").expect("the session ends properly");
    let Submission { message, .. } = backend.take().pop().expect("the message was accepted");
    let text = String::from_utf8_lossy(&message).into_owned();
    let top = "Authentication-Results: mx.b.example;\r\n\tspf=pass smtp.helo=c.example;\r\n\tspf=pass smtp.mailfrom=a@c.example;\r\n\tdkim=none";
    assert!(text.starts_with(top), "{text}");
    assert!(!text.contains("dkim=pass"), "{text}");
    assert!(text.ends_with("+0000\r\nFrom: a@c.example\r\nstray\r\n\r\nx\r\n"), "{text}");
}

#[tokio::test]
async fn lmtp_returns_an_outcome_for_each_recipient() {
    let site = start_server(|rules| *rules = ListenerRules::lmtp("mx.b.example", "b.example")).await;
    let transfer = transfer(Zone::default(), 25, |_| {}).await;
    let host = SmartHost {
        name: "127.0.0.1".to_owned(),
        port: site.address.port(),
        security: Security::Clear,
        login: None,
        protocol: ClientProtocol::Lmtp,
    };
    let to = recipients(&["alice@b.example", "late@b.example", "nobody@b.example"]);
    let results = "Authentication-Results: mx.b.example; dmarc=pass\r\n";
    let message = [results.as_bytes(), MESSAGE].concat();
    let outcomes = transfer.send(&NextHop::Host(Arc::new(host)), &outgoing(&to, &message)).await;
    assert_eq!(
        short(&outcomes),
        ["+ 250 2.0.0 Ok: queued as Q1", "? 4.2.2 452 4.2.2 Mailbox full after all", "! 5.1.1 550 5.1.1 User unknown"]
    );
    let text = String::from_utf8_lossy(&site.backend.take()[0].message).into_owned();
    assert!(text.contains(results), "the results of the front-end server are kept: {text}");
}

#[tokio::test]
async fn unreachable_domain_reports_reason() {
    let site = start_server(|_| {}).await;
    let zone = zone()
        .mx("null.example", 0, ".")
        .mx("loop.example", 10, "out.c.example")
        .mx("empty.example", 10, "nowhere.example")
        .host("bare.example", "127.0.0.1")
        .host("closed.example", "127.0.0.77")
        .mx("second.example", 10, "closed.example")
        .mx("second.example", 20, "mx.b.example")
        .mx("private.example", 10, "inside.example")
        .mx("mixed.example", 10, "inside.example")
        .mx("mixed.example", 20, "mx.b.example")
        .mx("unknown.example", 10, "inside.example")
        .mx("unknown.example", 20, "x.broken.example")
        .host("inside.example", "10.0.0.1")
        .host("inside.example", "fd00::1")
        .host("inside.example", "64:ff9b::10.0.0.1");
    let transfer =
        transfer(zone, site.address.port(), |options| options.timeouts.connect = Duration::from_secs(5)).await;
    let to = recipients(&["alice@b.example"]);
    for (domain, expected) in [
        ("missing.example", "! 5.1.2"),
        ("null.example", "! 5.1.10"),
        ("loop.example", "! 5.4.6"),
        ("empty.example", "! 5.4.4"),
        ("x.broken.example", "? 4.4.3"),
        ("closed.example", "? 4.4.1"),
        ("bare.example", "+ 250"),
        ("second.example", "+ 250"),
        ("[127.0.0.1]", "+ 250"),
        ("[127.0.0.77]", "? 4.4.1"),
        ("private.example", "! 5.4.4 the destination has only private or reserved addresses"),
        ("inside.example", "! 5.4.4 the destination has only private or reserved addresses"),
        ("mixed.example", "+ 250"),
        ("unknown.example", "? 4.4.3"),
        ("[10.0.0.1]", "! 5.4.4"),
        ("[IPv6:::ffff:10.0.0.1]", "! 5.4.4"),
        ("[169.254.169.254]", "! 5.4.4"),
    ] {
        let outcomes = short(&transfer.send(&NextHop::Domain(domain.to_owned()), &outgoing(&to, MESSAGE)).await);
        assert!(outcomes[0].starts_with(expected), "{domain}: {outcomes:?}");
    }
}

#[tokio::test]
async fn special_addresses_are_refused_except_for_a_configured_host() {
    let site = start_server(|_| {}).await;
    let port = site.address.port();
    let transfer = transfer(zone(), port, |options| options.special_networks = Networks::default()).await;
    let to = recipients(&["alice@b.example"]);
    for domain in ["b.example", "[127.0.0.1]"] {
        let outcomes = short(&transfer.send(&NextHop::Domain(domain.to_owned()), &outgoing(&to, MESSAGE)).await);
        assert!(outcomes[0].starts_with("! 5.4.4"), "{domain}: {outcomes:?}");
    }
    let name = "mx.b.example".to_owned();
    let host = SmartHost { name, port, security: Security::Clear, login: None, protocol: ClientProtocol::Smtp };
    let outcomes = transfer.send(&NextHop::Host(Arc::new(host)), &outgoing(&to, MESSAGE)).await;
    assert_eq!(short(&outcomes), ["+ 250 2.0.0 Ok: queued as Q1"]);
}

#[tokio::test]
async fn commands_before_the_greeting_are_refused() {
    let mut rules = ListenerRules::reception("mx.b.example", "b.example");
    rules.greet_delay = Duration::from_secs(30);
    let (service, _, _) = service(rules, None);
    let (mut near, far) = Stream::duplex(1 << 16);
    near.write_all(b"EHLO early.example\r\n").await.expect("within the limit");
    let peer = Peer::network("192.0.2.7:4000".parse().expect("valid"));
    serve(far, peer, service, SessionTermination::default()).await.expect("the session ends properly");
    let mut reply = String::new();
    near.read_to_string(&mut reply).await.expect("UTF-8");
    assert_eq!(reply, "521 5.5.1 Protocol error: you must wait for the greeting\r\n");
}

#[tokio::test(start_paused = true)]
async fn greeting_is_delayed_and_idle_sessions_time_out() {
    let check = async |change: fn(&mut ListenerRules), commands: &str, seconds: u64| {
        let mut rules = ListenerRules::reception("mx.b.example", "b.example");
        rules.greet_delay = Duration::from_secs(7);
        change(&mut rules);
        let (service, _, _) = service(rules, None);
        let (mut near, far) = Stream::duplex(1 << 16);
        let peer = Peer::network("192.0.2.7:4000".parse().expect("valid"));
        let started = tokio::time::Instant::now();
        let session = tokio::spawn(serve(far, peer, service, SessionTermination::default()));
        let mut reply = Vec::new();
        near.receive(&mut reply).await.expect("a greeting");
        assert_eq!(started.elapsed().as_secs(), 7);
        near.write_all(commands.as_bytes()).await.expect("within the limit");
        near.read_to_end(&mut reply).await.expect("the end");
        assert_eq!(started.elapsed().as_secs(), seconds);
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert!(reply.ends_with("421 4.4.2 Timeout, closing connection\r\n"), "{reply}");
        session.await.expect("no panic").expect("the session ends properly");
    };
    check(|_| {}, "HELO c.example\r\n", 307).await;
    check(|rules| rules.idle_time_max = Duration::from_secs(10), "HELO", 17).await;
    check(|rules| rules.session_time_max = Duration::from_secs(20), "NOOP\r\n", 20).await;
}

#[tokio::test]
async fn shutdown_sends_421_to_idle_sessions() {
    let site = start_server(|_| {}).await;
    let stream = TcpStream::connect(site.address).await.expect("the server listens");
    let mut lines = BufReader::new(stream).lines();
    let greeting = lines.next_line().await.expect("a line").expect("a greeting");
    assert_eq!(greeting, "220 mx.b.example ESMTP Doublet");
    site.shutdown.drain();
    assert_eq!(
        lines.next_line().await.expect("a line").as_deref(),
        Some("421 4.3.2 Service shutting down, try again later")
    );
    assert_eq!(lines.next_line().await.expect("the end"), None);
}

#[tokio::test]
async fn account_change_ends_the_session_with_421() {
    let site = start_server(|_| {}).await;
    let mut stream = BufReader::new(TcpStream::connect(site.address).await.expect("the server listens")).lines();
    let mut last = String::new();
    for command in ["EHLO c.example", "MAIL FROM:<ann@c.example>"] {
        stream.get_mut().write_all(format!("{command}\r\n").as_bytes()).await.expect("the server reads");
        while !last.starts_with("250 ") {
            last = stream.next_line().await.expect("a line").expect("a reply");
        }
        last.clear();
    }
    site.termination.terminate();
    let reply = stream.next_line().await.expect("a line");
    let text = "421 4.7.0 Account disabled, removed or given another password, closing connection";
    assert_eq!(reply.as_deref(), Some(text), "also within a transaction");
    assert_eq!(stream.next_line().await.expect("the end"), None);
}

#[tokio::test]
async fn login_is_deferred_while_too_many_wait() {
    let (service, _, _) = service(ListenerRules::submission("mx.b.example", "b.example"), None);
    let mut service = Arc::into_inner(service).expect("the test has the only reference");
    let (login_pool, busy) = full_pool().expect("a thread starts");
    service.login_pool = login_pool.clone();
    let (near, far) = Stream::duplex(1 << 16);
    tokio::spawn(serve(far, Peer::local(), Arc::new(service), SessionTermination::default()));
    let mut lines = BufReader::new(near).lines();
    let mut ask = async |command: &str| {
        lines.get_mut().write_all(command.as_bytes()).await.expect("the server reads");
        loop {
            let line = lines.next_line().await.expect("a line").expect("a reply");
            if line.as_bytes().get(3) == Some(&b' ') {
                return line;
            }
        }
    };
    assert!(ask("").await.starts_with("220 "));
    assert!(ask("EHLO c.example\r\n").await.starts_with("250 "));
    for _ in 0..4 {
        let reply = ask("AUTH PLAIN AGEAc2VjcmV0\r\n").await;
        assert_eq!(reply, "454 4.7.0 Cannot authenticate now, try again later", "it is no failed attempt");
    }
    assert!(ask("NOOP\r\n").await.starts_with("250 "));
    drop(busy);
    while login_pool.report().depth > 0 {
        tokio::task::yield_now().await;
    }
    assert!(ask("AUTH PLAIN AGEAc2VjcmV0\r\n").await.starts_with("235 "));
}

/// Starts a server that follows a script, with one script per connection.
///
/// A line `> ` is sent by the server, a line `< ` is the beginning of an expected line, `text` receives a message, and
/// `hang up` closes the connection.
pub async fn start_scripted_server(scripts: &[&'static str]) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let received = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&received);
    let scripts = scripts.to_vec();
    tokio::spawn(async move {
        for script in scripts {
            let (stream, _) = listener.accept().await.expect("a connection");
            play_script(script, stream, &log).await;
        }
    });
    (port, received)
}

async fn play_script(script: &str, stream: TcpStream, log: &Mutex<Vec<String>>) {
    let mut stream = BufReader::new(stream);
    let receive = async |stream: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("the client stays");
        log.lock().expect("no panic").push(line.trim_end().to_owned());
        line
    };
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(reply) = line.strip_prefix("> ") {
            stream.get_mut().write_all(format!("{reply}\r\n").as_bytes()).await.expect("the client stays");
        } else if let Some(wanted) = line.strip_prefix("< ") {
            let line = receive(&mut stream).await;
            assert!(line.starts_with(wanted), "expected {wanted}, received {line}");
        } else if line == "text" {
            while receive(&mut stream).await != ".\r\n" {}
        } else {
            return;
        }
    }
    // Waits until the client has closed the connection.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

/// Sends a message to a scripted server.
async fn send_to(
    scripts: &[&'static str],
    to: &[&str],
    message: &[u8],
    change: impl FnOnce(&mut SmtpClientOptions),
) -> (Vec<String>, Vec<String>) {
    let (port, received) = start_scripted_server(scripts).await;
    let transfer = transfer(zone(), port, |options| {
        options.reuse = Duration::ZERO;
        change(options);
    })
    .await;
    let to = recipients(to);
    let utf8 = OutboundMessage { smtputf8: true, ..outgoing(&to, message) };
    let outcomes = short(&transfer.send(&domain(), &utf8).await);
    let received = received.lock().expect("no panic").clone();
    (outcomes, received)
}

#[tokio::test]
async fn server_without_ehlo_gets_plain_smtp() {
    let script = "> 220 old\n< EHLO\n> 500 what\n< HELO out.c.example\n> 250 old\n< MAIL FROM:<a@c.example>\n> 250 ok\n\
                  < RCPT TO:<x@b.example>\n> 250 ok\n< RCPT TO:<y@b.example>\n> 550 no\n< DATA\n> 354 go\ntext\n> 250 done\n< QUIT\n> 221 bye";
    let (outcomes, received) = send_to(&[script], &["x@b.example", "y@b.example"], MESSAGE, |_| {}).await;
    assert_eq!(outcomes, ["+ 250 done", "! 5.0.0 550 no"]);
    assert!(received.contains(&"MAIL FROM:<a@c.example>".to_owned()), "no parameters: {received:?}");
    assert!(received.contains(&"..dot".to_owned()), "dots are doubled: {received:?}");
}

#[tokio::test]
async fn pipelined_replies_are_matched_to_their_recipients() {
    let script = "> 220 x\n< EHLO\n> 250-x\n> 250-PIPELINING\n> 250 SIZE\n< MAIL\n< RCPT TO:<x@b.example>\n< RCPT TO:<y@b.example>\n< DATA\n\
                  > 250 ok\n> 450 4.2.0 later\n> 250 ok\n> 354 go\ntext\n> 554 5.6.0 bad text\n< QUIT\n> 221 bye";
    let (outcomes, _) = send_to(&[script], &["x@b.example", "y@b.example"], MESSAGE, |_| {}).await;
    assert_eq!(outcomes, ["? 4.2.0 450 4.2.0 later", "! 5.6.0 554 5.6.0 bad text"]);
    let refused_recipient = "> 220 x\n< EHLO\n> 250-x\n> 250 PIPELINING\n< MAIL\n< RCPT\n< DATA\n> 250 ok\n> 550 5.1.1 no\n> 354 go\ntext\n> 554 none\n< QUIT\n> 221";
    let (outcomes, received) = send_to(&[refused_recipient], &["x@b.example"], MESSAGE, |_| {}).await;
    assert_eq!(outcomes, ["! 5.1.1 550 5.1.1 no"]);
    assert!(!received.contains(&"end".to_owned()), "no text without recipients: {received:?}");
    let refused = "> 220 x\n< EHLO\n> 250-x\n> 250 PIPELINING\n< MAIL\n< RCPT\n< DATA\n> 451 4.3.0 busy\n> 503 what\n> 503 what\n< RSET\n> 250 ok\n< QUIT\n> 221";
    let (outcomes, _) = send_to(&[refused], &["x@b.example"], MESSAGE, |_| {}).await;
    assert_eq!(outcomes, ["? 4.3.0 451 4.3.0 busy"]);
}

#[tokio::test]
async fn recipients_are_grouped_by_the_servers_limit() {
    let script = "> 220 x\n< EHLO\n> 250-x\n> 250 LIMITS RCPTMAX=1\n< MAIL\n> 250\n< RCPT TO:<x\n> 250\n< DATA\n> 354\ntext\n> 250 one\n\
                  < MAIL\n> 250\n< RCPT TO:<y\n> 250\n< DATA\n> 354\ntext\n> 250 two\n< QUIT\n> 221";
    let (outcomes, _) = send_to(&[script], &["x@b.example", "y@b.example"], MESSAGE, |_| {}).await;
    assert_eq!(outcomes, ["+ 250 one", "+ 250 two"]);
}

#[tokio::test]
async fn message_beyond_the_servers_extensions_is_not_sent() {
    let plain = "> 220 x\n< EHLO\n> 250 x\n< QUIT\n> 221";
    let small = "> 220 x\n< EHLO\n> 250-x\n> 250 SIZE 20\n< QUIT\n> 221";
    let utf8_body = "Subject: x\r\n\r\nü\r\n".as_bytes();
    let utf8_header = "Subject: ü\r\n\r\nx\r\n".as_bytes();
    let check = async |script: &[&'static str], to: &str, message: &[u8], expected: &str| {
        let (outcomes, received) = send_to(script, &[to], message, |_| {}).await;
        assert!(outcomes[0].starts_with(expected), "{outcomes:?} {received:?}");
        assert!(!received.iter().any(|line| line.starts_with("DATA")), "{received:?}");
    };
    check(&[small], "x@b.example", MESSAGE, "! 5.3.4").await;
    check(&[plain], "x@b.example", utf8_body, "! 5.6.3").await;
    let eight_bit = "> 220 x\n< EHLO\n> 250-x\n> 250 8BITMIME\n< QUIT\n> 221";
    check(&[eight_bit], "x@b.example", utf8_header, "! 5.6.7").await;
    check(&[plain], "jürgen@b.example", MESSAGE, "! 5.6.7").await;
    let domain = "> 220 x\n< EHLO\n> 250 x\n< MAIL FROM:<a@c.example>\n> 250\n< RCPT TO:<x@xn--mller-kva.example>\n> 250\n< DATA\n> 354\ntext\n> 250\n< QUIT\n> 221";
    let (outcomes, _) = send_to(&[domain], &["x@müller.example"], MESSAGE, |_| {}).await;
    assert_eq!(outcomes, ["+ 250 "]);
    let anyway = "> 220 x\n< EHLO\n> 250 x\n< MAIL FROM:<a@c.example>\n> 250\n< RCPT\n> 250\n< DATA\n> 354\ntext\n> 250\n< QUIT\n> 221";
    let (outcomes, _) =
        send_to(&[anyway], &["x@b.example"], utf8_body, |options| options.eight_bit = EightBitPolicy::Send).await;
    assert_eq!(outcomes, ["+ 250 "]);
}

#[tokio::test]
async fn outcome_depends_on_where_the_connection_breaks() {
    let after_text = "> 220 x\n< EHLO\n> 250 x\n< MAIL\n> 250\n< RCPT\n> 250\n< DATA\n> 354\ntext\nhang up";
    let (outcomes, _) = send_to(&[after_text], &["x@b.example"], MESSAGE, |_| {}).await;
    assert!(outcomes[0].starts_with("? 4.4.2"), "{outcomes:?}");
    let busy = "> 421 4.3.2 busy\nhang up";
    let (outcomes, _) = send_to(&[busy], &["x@b.example"], MESSAGE, |_| {}).await;
    assert_eq!(outcomes, ["? 4.3.2 421 4.3.2 busy"]);
    let closed = "> 554 5.7.1 go away\nhang up";
    let (outcomes, _) = send_to(&[closed], &["x@b.example"], MESSAGE, |_| {}).await;
    assert_eq!(outcomes, ["! 5.7.1 554 5.7.1 go away"]);
    let ourselves = "> 220 x\n< EHLO\n> 250 out.c.example\nhang up";
    let (outcomes, _) = send_to(&[ourselves], &["x@b.example"], MESSAGE, |_| {}).await;
    assert!(outcomes[0].starts_with("! 5.4.6"), "{outcomes:?}");
    let odd = "> hello\nhang up";
    let (outcomes, _) = send_to(&[odd], &["x@b.example"], MESSAGE, |_| {}).await;
    assert!(outcomes[0].starts_with("? 4.4.2"), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn opening_a_session_times_out() {
    let limit = Duration::from_secs(90);
    let to = recipients(&["x@b.example"]);
    for never_ready in ["", "> 220 x\n< EHLO", "> 220-x"] {
        let (port, _) = start_scripted_server(&[never_ready]).await;
        let transfer = transfer(zone(), port, |options| options.security = Security::Clear).await;
        let started = tokio::time::Instant::now();
        let outcomes = transfer.send_with_open_timeout(limit, &domain(), &outgoing(&to, MESSAGE)).await;
        assert_eq!(started.elapsed(), limit, "{never_ready:?}");
        assert_eq!(short(&outcomes), ["? 4.4.2 no session could be opened in time"]);
    }
    let slow_reply = "> 220 x\n< EHLO\n> 250 x\n< MAIL";
    let (port, _) = start_scripted_server(&[slow_reply]).await;
    let transfer = transfer(zone(), port, |_| {}).await;
    let started = tokio::time::Instant::now();
    let outcomes = transfer.send_with_open_timeout(limit, &domain(), &outgoing(&to, MESSAGE)).await;
    assert_eq!(started.elapsed(), Duration::from_secs(300), "an open session continues: {outcomes:?}");
}

#[tokio::test]
async fn temporary_failure_of_one_server_outweighs_a_refusal() {
    let (port, _) = start_scripted_server(&["> 554 5.7.1 go away\nhang up"]).await;
    let zone = zone().host("closed.example", "127.0.0.77").mx("b.example", 5, "closed.example");
    let transfer = transfer(zone, port, |_| {}).await;
    let to = recipients(&["x@b.example"]);
    let outcomes = short(&transfer.send(&domain(), &outgoing(&to, MESSAGE)).await);
    assert!(outcomes[0].starts_with("? 4.4.1"), "{outcomes:?}");
}

#[tokio::test]
async fn failed_tls_falls_back_only_if_opportunistic() {
    let broken = "> 220 x\n< EHLO\n> 250-x\n> 250 STARTTLS\n< STARTTLS\n> 220 go\n> this is no handshake\nhang up";
    let clear = "> 220 x\n< EHLO\n> 250-x\n> 250 STARTTLS\n< MAIL\n> 250\n< RCPT\n> 250\n< DATA\n> 354\ntext\n> 250 in clear\n< QUIT\n> 221";
    let (outcomes, _) = send_to(&[broken, clear], &["x@b.example"], MESSAGE, |_| {}).await;
    assert_eq!(outcomes, ["+ 250 in clear"]);
    let (outcomes, _) =
        send_to(&[broken], &["x@b.example"], MESSAGE, |options| options.security = Security::Required).await;
    assert!(outcomes[0].starts_with("? 4.7.5"), "{outcomes:?}");
    let without = "> 220 x\n< EHLO\n> 250 x\nhang up";
    let (outcomes, _) =
        send_to(&[without], &["x@b.example"], MESSAGE, |options| options.security = Security::Required).await;
    assert!(outcomes[0].starts_with("? 4.7.4"), "{outcomes:?}");
}

#[tokio::test]
async fn loopback_reception_does_not_require_tls() {
    let site = start_server(|rules| rules.encryption = StartTlsPolicy::Required).await;
    let transfer = transfer(zone(), site.address.port(), |options| options.security = Security::Clear).await;
    let to = recipients(&["alice@b.example"]);
    let outcomes = transfer.send(&domain(), &outgoing(&to, MESSAGE)).await;
    assert_eq!(short(&outcomes), ["+ 250 2.0.0 Ok: queued as Q1"]);
}
