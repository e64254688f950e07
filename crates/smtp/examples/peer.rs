//! A server and a client without a backend, for manual tests of this crate against other programs.
//!
//! `peer serve ADDRESS reception|submission|lmtp` accepts all mail for `b.example`, accepts every login with the
//! password `secret`, and prints the messages it accepts. `peer send ADDRESS smtp|lmtp COUNT` sends `COUNT` messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::memory::MemoryShares;
use base::sim::SeededRandom;
use base::{Clock, Timestamp};
use mail::router::{DeliveryTarget, Recipient, ReturnContent};
use mail::submission::{ResolvedAddress, Submission};
use sasl::{Credentials, Login, LoginError, LoginOrigin, PasswordRequest};
use smtp::backend::{MessageAcceptor, PendingAcceptance, RecipientLookup};
use smtp::client::{ClientProtocol, NextHop, OutboundMessage, Security, SmartHost, SmtpClient, SmtpClientOptions};
use smtp::connection::{ListenerServices, serve};
use smtp::dns::Resolver;
use smtp::listener_rules::ListenerRules;
use smtp::{NegativeReply, Result};
use tokio::time::Instant;
use wire::{Peer, PoolOptions, SessionTermination, Shutdown, Stream, Tls, WorkerPool};

struct AcceptAll;

impl RecipientLookup for AcceptAll {
    fn resolve(&self, address: &str) -> std::result::Result<ResolvedAddress, NegativeReply> {
        let address = address.to_lowercase();
        Ok(if address.ends_with("@b.example") {
            ResolvedAddress::local(vec![DeliveryTarget::Remote(address)], 0)
        } else {
            ResolvedAddress::remote(address, 0)
        })
    }

    fn is_local_domain(&self, domain: &str) -> std::result::Result<bool, NegativeReply> {
        Ok(domain == "b.example")
    }
}

impl Credentials for AcceptAll {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> std::result::Result<Login, LoginError> {
        match request.password() {
            "secret" => Ok(Login::new(request.authentication_id())),
            _ => Err(LoginError::InvalidCredentials),
        }
    }
}

impl MessageAcceptor for AcceptAll {
    fn check_sender(&self, _login: &str, _reverse_path: &str) -> std::result::Result<(), NegativeReply> {
        Ok(())
    }

    fn accept(&self, submission: Submission) -> std::result::Result<PendingAcceptance, NegativeReply> {
        println!("{:?}\n{}", submission.envelope, String::from_utf8_lossy(&submission.message));
        Ok(PendingAcceptance { id: submission.envelope.id, durable: Box::pin(async { Ok(()) }), refused: Vec::new() })
    }
}

struct ElapsedClock(Instant);

impl Clock for ElapsedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_767_225_600).after(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", address, role] => listen(address, role).await,
        ["send", address, protocol, count] => {
            send(address.parse().expect("an address"), protocol, count.parse().expect("a number")).await
        }
        _ => {
            eprintln!("peer serve ADDRESS reception|submission|lmtp | peer send ADDRESS smtp|lmtp COUNT");
            Ok(())
        }
    }
}

async fn listen(address: &str, role: &str) -> Result<()> {
    let rules = match role {
        "reception" => ListenerRules::reception("mx.b.example", "b.example"),
        "submission" => ListenerRules::submission("mx.b.example", "b.example"),
        _ => ListenerRules::lmtp("mx.b.example", "b.example"),
    };
    let made = rcgen::generate_simple_self_signed(vec!["mx.b.example".to_owned()]).expect("a certificate");
    let tls = Tls::new(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes()).expect("they fit");
    let clock = Arc::new(ElapsedClock(Instant::now()));
    let backend = Arc::new(AcceptAll);
    let pool = WorkerPool::new(&PoolOptions::default(), clock.clone()).expect("threads");
    let service = Arc::new(ListenerServices {
        rules: Arc::new(rules),
        recipients: backend.clone(),
        credentials: backend.clone(),
        acceptor: backend,
        verifier: None,
        tls: Some(Arc::new(tls)),
        pool: pool.clone(),
        login_pool: pool,
        memory: MemoryShares::unlimited(),
        shutdown: Shutdown::new(),
        clock,
        random: Arc::new(SeededRandom::new(1)),
    });
    let listener = tokio::net::TcpListener::bind(address).await?;
    loop {
        let (stream, from) = listener.accept().await?;
        let service = service.clone();
        tokio::spawn(async move {
            if let Err(error) =
                serve(Stream::tcp(stream), Peer::network(from), service, SessionTermination::default()).await
            {
                eprintln!("{from}: {error}");
            }
        });
    }
}

async fn send(address: SocketAddr, protocol: &str, count: usize) -> Result<()> {
    let host = SmartHost {
        name: address.ip().to_string(),
        port: address.port(),
        security: Security::Opportunistic,
        login: None,
        protocol: if protocol == "lmtp" { ClientProtocol::Lmtp } else { ClientProtocol::Smtp },
    };
    let route = NextHop::Host(Arc::new(host));
    let clock = Arc::new(ElapsedClock(Instant::now()));
    let transfer = SmtpClient::new(
        SmtpClientOptions::new("out.c.example"),
        Resolver::with_servers(&[])?,
        clock,
        Arc::new(SeededRandom::new(1)),
    )?;
    let recipients = ["alice@b.example", "bob@b.example"].map(Recipient::new);
    let message = b"From: a@c.example\r\nSubject: x\r\n\r\n.a line with a dot\nand a bare LF\r\n";
    for _ in 0..count {
        let outgoing = OutboundMessage {
            reverse_path: "a@c.example",
            recipients: &recipients,
            envelope_id: None,
            return_content: ReturnContent::Unspecified,
            smtputf8: false,
            message,
        };
        println!("{:?}", transfer.send(&route, &outgoing).await);
    }
    transfer.close().await;
    Ok(())
}
