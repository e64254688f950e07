//! Tests of messages from outside that claim to be from a local domain, in whole sessions over a zone in memory.
//!
//! `b.example` and `broken.example` are local. SPF permits each domain to one client: `b.example` to 192.0.2.7,
//! `list.example` to 192.0.2.8 and `far.example` to 192.0.2.9. 192.0.2.99 is a stranger for all of them.

use std::sync::Arc;
use std::time::Duration;

use base::networks::{Network, Networks};
use base::sim::SeededRandom;
use dkim::key::{Algorithm, PrivateKey, key_record};
use dkim::sign::Signer;
use mail::submission::Submission;
use smtp::auth::verify::{DmarcEnforcement, Verifier};
use smtp::connection::serve;
use smtp::listener_rules::{ListenerRules, LocalSenderPolicy};
use tokio::io::AsyncWriteExt;
use wire::{Peer, SessionTermination, Stream};

use crate::dns::Zone;
use crate::loopback::service;

const STRANGER: &str = "192.0.2.99";

fn key() -> PrivateKey {
    PrivateKey::generate(Algorithm::Ed25519, &SeededRandom::new(3)).expect("a key")
}

fn zone() -> Zone {
    let record = key_record("b.example", "e1", &key());
    Zone::default()
        .txt("b.example", "v=spf1 ip4:192.0.2.7 -all")
        .txt("list.example", "v=spf1 ip4:192.0.2.8 -all")
        .txt("far.example", "v=spf1 ip4:192.0.2.9 -all")
        .txt(&record.name, &record.text)
}

pub async fn verifier(policy: DmarcEnforcement) -> Option<Arc<Verifier>> {
    Some(Arc::new(Verifier::new(zone().serve().await, policy)))
}

/// Returns a message with this header.
fn letter(header: &str) -> String {
    format!("{header}\r\nSubject: x\r\n\r\ntext\r\n")
}

/// Returns a message with a signature of `b.example`.
fn signed(message: &str) -> String {
    let key = key();
    let signer = Signer::new("b.example", [("e1", &key)]).expect("a signer");
    format!("{}{message}", signer.sign(message.as_bytes()).expect("signed"))
}

/// Sends a text to the server and returns its reply, which may have several lines.
async fn ask(stream: &mut Stream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.expect("within the limit");
    let mut reply = Vec::new();
    while !reply.ends_with(b"\r\n") {
        assert_ne!(stream.receive(&mut reply).await.expect("a connection in memory"), 0, "the server stays");
    }
    String::from_utf8(reply).expect("replies are text")
}

/// Sends a message from a client to a server. `parameters` are those of MAIL and of RCPT. Returns the reply to the
/// message, and the submission if it was accepted.
pub async fn send(
    verifier: Option<Arc<Verifier>>,
    change: impl FnOnce(&mut ListenerRules),
    (client, reverse_path): (&str, &str),
    parameters: [&str; 2],
    message: &str,
) -> (String, Option<Submission>) {
    let mut rules = ListenerRules::reception("mx.b.example", "b.example");
    rules.greet_delay = Duration::ZERO;
    change(&mut rules);
    let (service, backend, _) = service(rules, verifier);
    let (mut near, far) = Stream::duplex(1 << 16);
    let peer = Peer::network(format!("{client}:4000").parse().expect("an address"));
    let session = tokio::spawn(serve(far, peer, service, SessionTermination::default()));
    ask(&mut near, "").await;
    ask(&mut near, "EHLO client.example\r\n").await;
    let [of_mail, of_rcpt] = parameters;
    let envelope = format!("MAIL FROM:<{reverse_path}>{of_mail}\r\nRCPT TO:<alice@b.example>{of_rcpt}\r\nDATA\r\n");
    let replies = ask(&mut near, &envelope).await;
    assert!(replies.contains("\r\n354 "), "{replies}");
    let reply = ask(&mut near, &format!("{message}.\r\n")).await;
    ask(&mut near, "QUIT\r\n").await;
    session.await.expect("no panic").expect("the session ends properly");
    (reply.trim_end().to_owned(), backend.take().pop())
}

/// Checks the reply to a message.
async fn check(
    verifier: Option<Arc<Verifier>>,
    change: impl FnOnce(&mut ListenerRules),
    envelope: (&str, &str),
    message: &str,
    expected: &str,
) {
    let (reply, submission) = send(verifier, change, envelope, [""; 2], message).await;
    assert!(reply.starts_with(expected), "{envelope:?} {message:?}: {reply}");
    assert_eq!(submission.is_some(), reply.starts_with("250"), "{reply}");
}

#[tokio::test]
async fn local_senders_and_authors_need_spf_or_a_signature() {
    let forged = "550 5.7.26 b.example is a domain of this server: log in to send from it";
    let ours = letter("From: Alice <alice@b.example>");
    let theirs = letter("From: x@far.example");
    let bob = letter("From: bob@b.example");
    let altered = signed(&ours).replace("text\r\n", "other\r\n");
    let second_author = format!("From: bob@b.example\r\n{}", signed(&ours));
    for policy in [DmarcEnforcement::Record, DmarcEnforcement::Reject] {
        for (envelope, message, expected) in [
            (("192.0.2.7", "alice@b.example"), &ours, "250"),
            (("192.0.2.7", "alice@b.example"), &bob, "250"),
            ((STRANGER, "alice@b.example"), &ours, forged),
            ((STRANGER, "alice@b.example"), &theirs, forged),
            (("192.0.2.9", "x@far.example"), &ours, forged),
            (("192.0.2.9", "x@far.example"), &theirs, "250"),
            ((STRANGER, ""), &ours, forged),
            ((STRANGER, "x@far.example"), &signed(&ours), "250"),
            ((STRANGER, "alice@b.example"), &signed(&ours), "250"),
            ((STRANGER, "x@far.example"), &altered, forged),
            ((STRANGER, "x@sub.b.example"), &letter("From: x@sub.b.example"), "250"),
            (("127.0.0.1", "alice@b.example"), &ours, "250"),
        ] {
            check(verifier(policy).await, |_| {}, envelope, message, expected).await;
        }
        check(verifier(policy).await, |_| {}, (STRANGER, "x@far.example"), &second_author, "550 5.").await;
    }
}

/// Checks messages whose author some programs cannot read, with a policy that accepts such messages of others.
#[tokio::test]
async fn unreadable_local_author_is_no_exception() {
    for header in [
        "From: alice@b.example\0",
        "From: x@far.example\r\nFrom: alice@b.example",
        "stray\r\nFrom: alice@b.example",
        "From: \"alice@b.example\"",
    ] {
        let verifier = verifier(DmarcEnforcement::Record).await;
        check(verifier, |_| {}, ("192.0.2.9", "x@far.example"), &letter(header), "550 5.7.26 b.example").await;
    }
}

#[tokio::test]
async fn relays_and_lists_are_exempt() {
    let record = || verifier(DmarcEnforcement::Record);
    let ours = letter("From: alice@b.example");
    let relays = |rules: &mut ListenerRules| {
        rules.trusted_relays = Networks::from_iter([Network::v4([192, 0, 2, 96], 28)]);
    };
    check(record().await, relays, (STRANGER, "alice@b.example"), &ours, "250").await;
    check(record().await, relays, ("192.0.2.9", "alice@b.example"), &ours, "550 5.7.26").await;
    let lists = |rules: &mut ListenerRules| {
        rules.trusted_lists = vec!["bounces@list.example".to_owned(), "b.example".to_owned()];
    };
    check(record().await, lists, ("192.0.2.8", "bounces@list.example"), &ours, "250").await;
    check(record().await, lists, ("192.0.2.8", "x@list.example"), &ours, "550 5.7.26").await;
    check(record().await, lists, (STRANGER, "bounces@list.example"), &ours, "550 5.7.26").await;
    check(record().await, lists, (STRANGER, "alice@b.example"), &ours, "550 5.7.26").await;
    let any = |rules: &mut ListenerRules| rules.local_senders = LocalSenderPolicy::Any;
    check(record().await, any, (STRANGER, "alice@b.example"), &ours, "250").await;
}

#[tokio::test]
async fn without_a_verifier_there_is_no_evidence() {
    let ours = letter("From: alice@b.example");
    let theirs = letter("From: x@far.example");
    let list = |rules: &mut ListenerRules| rules.trusted_lists = vec!["list.example".to_owned()];
    check(None, |_| {}, ("192.0.2.7", "alice@b.example"), &theirs, "550 5.7.26").await;
    check(None, list, ("192.0.2.8", "bounces@list.example"), &ours, "550 5.7.26").await;
    check(None, |_| {}, ("192.0.2.9", "x@far.example"), &theirs, "250").await;
    let relay = |rules: &mut ListenerRules| {
        rules.trusted_relays = Networks::from_iter([Network::v4([192, 0, 2, 99], 32)]);
    };
    check(None, relay, (STRANGER, "alice@b.example"), &ours, "250").await;
}

#[tokio::test]
async fn evidence_that_cannot_be_looked_up_defers_the_message() {
    let record = || verifier(DmarcEnforcement::Record);
    let later = "451 4.7.0 Cannot verify now that broken.example permits this message, try again later";
    let broken = letter("From: alice@broken.example");
    check(record().await, |_| {}, (STRANGER, "alice@broken.example"), &broken, later).await;
    // SPF of another domain could not have helped.
    check(record().await, |_| {}, (STRANGER, "x@broken.far.example"), &broken, "550 5.7.26 broken.example").await;
    // A signature whose key cannot be looked up might have passed.
    let unknown_key = "DKIM-Signature: v=1; a=rsa-sha256; d=b.example; s=broken; c=relaxed/relaxed; h=from;\r\n \
                       bh=eDCyaw7m810RhFf0TmGWGkTYiT/1GwL4/PCOGIr3ew4=; b=AAAA\r\n";
    let ours = format!("{unknown_key}{}", letter("From: alice@b.example"));
    check(record().await, |_| {}, ("192.0.2.9", "x@far.example"), &ours, "451 4.7.0").await;
    // A permanent refusal for one domain takes precedence.
    let both = letter("From: alice@broken.example, alice@b.example");
    check(record().await, |_| {}, (STRANGER, "alice@broken.example"), &both, "550 5.7.26 b.example").await;
    let list = |rules: &mut ListenerRules| rules.trusted_lists = vec!["list.broken.far.example".to_owned()];
    let ours = letter("From: alice@b.example");
    check(record().await, list, (STRANGER, "x@list.broken.far.example"), &ours, "451 4.7.0").await;
    // The directory cannot be read.
    let unknown = letter("From: x@later.example");
    check(record().await, |_| {}, ("192.0.2.9", "x@far.example"), &unknown, "451 4.3.0").await;
}
