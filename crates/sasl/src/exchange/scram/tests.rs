//! Tests of SCRAM: the example of RFC 7677, channel binding and its downgrade, and every refusal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::LoginProtocol;
use crate::credentials::{Login, LoginRegistration, ScramSuccess};
use crate::exchange::{Check, Exchange, ExchangeStep};
use crate::sim::{CLIENT_FINAL, CLIENT_FIRST, PROOF, SERVER_FINAL, SERVER_FIRST};
use crate::tests::{bound_context, context, play};

const PLAIN: Mechanism = Mechanism::ScramSha256;
const PLUS: Mechanism = Mechanism::ScramSha256Plus;

fn check(mechanism: Mechanism, context: Context, messages: &[&str], expected: &[&str]) {
    assert_eq!(play(mechanism, context, messages), expected, "{mechanism} {messages:?}");
}

/// Checks the steps after a client-first message without channel binding.
fn check_first(message: &str, expected: &[&str]) {
    check(PLAIN, context(LoginProtocol::Native), &[message], expected);
}

/// Checks the last step after the client-first message `n,,n=user,r=abc`, to which the server's nonce is `abcxyz`.
fn check_final(message: &str, expected: &str) {
    let outcomes = play(PLAIN, context(LoginProtocol::Native), &["n,,n=user,r=abc", message]);
    assert_eq!(outcomes.last().map(String::as_str), Some(expected), "{message}");
}

/// Checks the steps of an exchange whose client-final message has the channel binding `header` and `data`.
fn check_bound(context: Context, header: &str, data: &[u8], expected: &[&str]) {
    let binding = STANDARD.encode([header.as_bytes(), data].concat());
    let first = format!("{header}n=user,r=abc");
    let last = format!("c={binding},r=abcxyz,p={PROOF}");
    check(PLUS, context, &[&first, &last], expected);
}

#[test]
fn the_example_of_rfc_7677_succeeds() {
    let challenge = format!("challenge {SERVER_FIRST}");
    let proved = format!("challenge {SERVER_FINAL}");
    let steps = ["first user - -", &challenge, "final", &proved, "done user/user "];
    check(PLAIN, context(LoginProtocol::Imap), &[CLIENT_FIRST, CLIENT_FINAL, ""], &steps);
    let prompted = [&["challenge "][..], &steps[..]].concat();
    check(PLAIN, context(LoginProtocol::Imap), &["-", CLIENT_FIRST, CLIENT_FINAL, ""], &prompted);
}

#[test]
fn last_message_is_sent_with_success_if_supported() {
    let challenge = format!("challenge {SERVER_FIRST}");
    let done = format!("done user/user {SERVER_FINAL}");
    let steps = ["first user - -", &challenge, "final", &done];
    for protocol in [LoginProtocol::Native, LoginProtocol::Ldap, LoginProtocol::Http] {
        check(PLAIN, context(protocol), &[CLIENT_FIRST, CLIENT_FINAL], &steps);
    }
}

#[test]
fn last_challenge_requires_an_empty_response() {
    for protocol in [LoginProtocol::Imap, LoginProtocol::Pop3, LoginProtocol::Submission] {
        let outcomes = play(PLAIN, context(protocol), &[CLIENT_FIRST, CLIENT_FINAL, "x"]);
        assert_eq!(outcomes.last().map(String::as_str), Some("failed Malformed"));
    }
}

/// The server's side of an exchange with a registration, which sets the flag while it exists.
struct RegisteringServer(Arc<AtomicBool>);

struct TestRegistration(Option<Arc<AtomicBool>>);

impl ScramServer for RegisteringServer {
    fn verify(self: Box<Self>, _: &ClientFinal) -> Result<ScramSuccess, LoginError> {
        self.0.store(true, Ordering::Relaxed);
        let registration = TestRegistration(Some(self.0));
        let server_final = SERVER_FINAL.to_owned();
        Ok(ScramSuccess { login: Login::new("user"), server_final, registration: Some(Box::new(registration)) })
    }
}

impl LoginRegistration for TestRegistration {
    fn confirm(mut self: Box<Self>) {
        self.0 = None;
    }
}

impl Drop for TestRegistration {
    fn drop(&mut self) {
        if let Some(is_registered) = &self.0 {
            is_registered.store(false, Ordering::Relaxed);
        }
    }
}

/// Plays an exchange up to the server's first message.
fn begin(protocol: LoginProtocol, server: Box<dyn ScramServer>) -> Exchange {
    let context = Arc::new(context(protocol));
    let ExchangeStep::Check(Check::ScramFirst(pending)) =
        Exchange::begin(PLAIN, Some(CLIENT_FIRST.as_bytes()), context)
    else {
        panic!("the directory answers the first message");
    };
    let ExchangeStep::Challenge { exchange, .. } = pending.answer(Ok((server, SERVER_FIRST.to_owned()))) else {
        panic!("the server's first message is a challenge");
    };
    exchange
}

/// Plays an exchange up to the right proof. Returns the next step.
fn prove(protocol: LoginProtocol, is_registered: &Arc<AtomicBool>) -> ExchangeStep {
    let exchange = begin(protocol, Box::new(RegisteringServer(Arc::clone(is_registered))));
    let ExchangeStep::Check(Check::ScramFinal(pending)) = exchange.step(CLIENT_FINAL.as_bytes()) else {
        panic!("the proof is checked");
    };
    pending.verify()
}

/// The server's side of an exchange that sets the flag if it is withdrawn.
struct WithdrawnServer(Arc<AtomicBool>);

impl ScramServer for WithdrawnServer {
    fn verify(self: Box<Self>, _: &ClientFinal) -> Result<ScramSuccess, LoginError> {
        Err(LoginError::InvalidCredentials)
    }

    fn withdraw(self: Box<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks whether a way to end an exchange withdraws it.
fn check_end(end: fn(Exchange), expected: bool) {
    let is_withdrawn = Arc::new(AtomicBool::new(false));
    end(begin(LoginProtocol::Imap, Box::new(WithdrawnServer(Arc::clone(&is_withdrawn)))));
    assert_eq!(is_withdrawn.load(Ordering::Relaxed), expected);
}

#[test]
fn only_the_server_withdraws_an_exchange() {
    check_end(drop, false);
    check_end(|exchange| drop(exchange.step_line(b"*")), false);
    check_end(|exchange| drop(exchange.step(b"nonsense")), false);
    check_end(Exchange::withdraw, true);
    let withdraw_check = |exchange: Exchange| {
        let ExchangeStep::Check(check) = exchange.step(CLIENT_FINAL.as_bytes()) else {
            panic!("the proof is checked");
        };
        assert!(matches!(check.withdraw(), ExchangeStep::Failed(LoginError::Unavailable)));
    };
    check_end(withdraw_check, true);
}

#[test]
fn registration_is_kept_only_if_the_client_is_logged_in() {
    let is_registered = Arc::new(AtomicBool::new(false));
    let check = |line: &str, expected: bool| {
        let ExchangeStep::Challenge { exchange, .. } = prove(LoginProtocol::Imap, &is_registered) else {
            panic!("the last message is a challenge");
        };
        assert!(is_registered.load(Ordering::Relaxed), "the account is watched from the proof on");
        let step = exchange.step_line(line.as_bytes());
        assert_eq!(matches!(step, ExchangeStep::Done { .. }), expected, "{line:?}");
        drop(step);
        assert_eq!(is_registered.load(Ordering::Relaxed), expected, "{line:?}");
    };
    check("*", false);
    check("eA==", false);
    check("!", false);
    check("", true);
    drop(prove(LoginProtocol::Imap, &is_registered));
    assert!(!is_registered.load(Ordering::Relaxed), "the connection ended before the last response");
    drop(prove(LoginProtocol::Native, &is_registered));
    assert!(is_registered.load(Ordering::Relaxed), "the reply carries the last message");
}

#[test]
fn rfc_5802_example_with_sha_1_is_refused() {
    let first = "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL";
    let last = "c=biws,r=fyko+d2lbbFgONRv9qkxdawLxyz,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=";
    let challenge = "challenge r=fyko+d2lbbFgONRv9qkxdawLxyz,s=c2FsdA==,i=4096";
    let expected = ["first user - -", challenge, "failed Malformed"];
    check(PLAIN, context(LoginProtocol::Imap), &[first, last], &expected);
}

#[test]
fn first_messages_are_parsed() {
    let challenge = "challenge r=abcxyz,s=c2FsdA==,i=4096";
    check_first("n,,n=user,r=abc", &["first user - -", challenge]);
    check_first("y,,n=user,r=abc", &["first user - -", challenge]);
    check_first("n,a=boss,n=user,r=abc", &["first user boss -", challenge]);
    check_first("n,a=user,n=user,r=abc", &["first user - -", challenge]);
    check_first("n,,n=x=3Dy=2Cz,r=abc", &["first x=y,z - -", challenge]);
    check_first("n,,n=ann@acme.test,r=abc,f=1,g==", &["first ann@acme.test - -", challenge]);
    check_first("n,,n=jürgen,r=abc", &["first jürgen - -", challenge]);
}

#[test]
fn malformed_first_messages_are_refused() {
    for message in ["", "n", "n,,", "x,,n=user,r=abc", "n,,n=,r=abc", "n,,n=user", "n,,n=user,r=", "n,,r=abc,n=user"] {
        check_first(message, &["failed Malformed"]);
    }
    for message in ["n,,n=us=er,r=abc", "n,,n=user,r=a\u{7f}b", "n,,n=user,r=é", "n,,n=user,r=a b", "n,,n=a\0b,r=abc"]
    {
        check_first(message, &["failed Malformed"]);
    }
    for message in ["n,,n=user,r=abc,", "n,,n=user,r=abc,f", "n,,n=user,r=abc,f=", "n,,n=user,r=abc,ff=1"] {
        check_first(message, &["failed Malformed"]);
    }
    let error = ScramOpening::parse(b"n,,n=\xff,r=abc", PLAIN, &context(LoginProtocol::Imap)).err();
    assert_eq!(error, Some(LoginError::Malformed));
}

#[test]
fn mandatory_extensions_are_refused() {
    check_first("n,,m=must,n=user,r=abc", &["failed Malformed"]);
    check_first("n,,n=user,r=abc,m=must", &["failed Malformed"]);
    check_final(&format!("c=biws,r=abcxyz,m=must,p={PROOF}"), "failed Malformed");
}

#[test]
fn the_directory_may_refuse_the_first_message() {
    check_first("n,,n=hasty,r=abc", &["first hasty - -", "failed Throttled"]);
    check_first("n,a=bob,n=user,r=abc", &["first user bob -", "failed NotAuthorized"]);
}

#[test]
fn a_broken_server_message_ends_the_exchange() {
    check_first("n,,n=broken,r=abc", &["first broken - -", "failed Unavailable"]);
    check_first("n,,n=repeating,r=abc", &["first repeating - -", "failed Unavailable"]);
}

#[test]
fn final_messages_must_belong_to_the_exchange() {
    let done = format!("done user/user {SERVER_FINAL}");
    check_final(&format!("c=biws,r=abcxyz,p={PROOF}"), &done);
    check_final(&format!("c=biws,r=abcxyz,f=1,p={PROOF}"), &done);
    check_final(&format!("c=biws,r=abcxyz,p={}", STANDARD.encode([0; 32])), "failed InvalidCredentials");
    check_final(&format!("c=eSws,r=abcxyz,p={PROOF}"), "failed ChannelBinding");
    check_final(&format!("c=biwsAA==,r=abcxyz,p={PROOF}"), "failed ChannelBinding");
    check_final(&format!("c=biws,r=abc,p={PROOF}"), "failed Malformed");
    check_final(&format!("c=biws,r=abcxyzx,p={PROOF}"), "failed Malformed");
}

#[test]
fn malformed_final_messages_are_refused() {
    for message in ["", "c=biws,r=abcxyz", "c=biws,r=abcxyz,p=", "c=biws,r=abcxyz,p=!", "c=biws,r=abcxyz,p=AAAA"] {
        check_final(message, "failed Malformed");
    }
    check_final(&format!("r=abcxyz,c=biws,p={PROOF}"), "failed Malformed");
    check_final(&format!("c=,r=abcxyz,p={PROOF}"), "failed Malformed");
    check_final(&format!("c=biws,p={PROOF}"), "failed Malformed");
    check_final(&format!("c=biws,r=abcxyz,p={PROOF},f=1"), "failed Malformed");
    check_final(&format!("c=biws,r=abcxyz,f,p={PROOF}"), "failed Malformed");
    check_final(&format!("c=biws,r=abcxyz,p={PROOF}\0"), "failed Malformed");
    check_final(&"x".repeat(SCRAM_MESSAGE_BYTES_MAX + 1), "failed TooLong");
}

#[test]
fn plus_binds_to_the_connection() {
    let bound = || bound_context(LoginProtocol::Native);
    let challenge = "challenge r=abcxyz,s=c2FsdA==,i=4096";
    let done = format!("done user/user {SERVER_FINAL}");
    let steps = ["first user - tls-exporter", challenge, "final", &done];
    check_bound(bound(), "p=tls-exporter,,", &[b'e'; 32], &steps);
    let steps = ["first user - tls-server-end-point", challenge, "final", &done];
    check_bound(bound(), "p=tls-server-end-point,,", b"certificate hash", &steps);
    let done = format!("done user/boss {SERVER_FINAL}");
    let steps = ["first user boss tls-exporter", challenge, "final", &done];
    check_bound(bound(), "p=tls-exporter,a=boss,", &[b'e'; 32], &steps);
}

#[test]
fn a_binding_to_another_connection_is_refused() {
    let challenge = "challenge r=abcxyz,s=c2FsdA==,i=4096";
    let refused = ["first user - tls-exporter", challenge, "failed ChannelBinding"];
    for data in [&[b'f'; 32][..], b"", b"certificate hash", &[b'e'; 33]] {
        check_bound(bound_context(LoginProtocol::Native), "p=tls-exporter,,", data, &refused);
    }
}

#[test]
fn the_header_must_be_repeated_with_the_binding() {
    let other = STANDARD.encode([&b"p=tls-server-end-point,,"[..], &[b'e'; 32]].concat());
    let last = format!("c={other},r=abcxyz,p={PROOF}");
    let outcomes = play(PLUS, bound_context(LoginProtocol::Native), &["p=tls-exporter,,n=user,r=abc", &last]);
    assert_eq!(outcomes.last().map(String::as_str), Some("failed ChannelBinding"));
}

#[test]
fn a_downgrade_is_detected() {
    let refused = ["failed ChannelBinding"];
    let bound = || bound_context(LoginProtocol::Imap);
    check(PLAIN, bound(), &["y,,n=user,r=abc"], &refused);
    let challenge = "challenge r=abcxyz,s=c2FsdA==,i=4096";
    check(PLAIN, bound(), &["n,,n=user,r=abc"], &["first user - -", challenge]);
    let disabled = Context { mechanisms: vec![PLAIN], ..bound() };
    check(PLAIN, disabled, &["y,,n=user,r=abc"], &["first user - -", challenge]);
}

#[test]
fn mechanism_and_binding_flag_must_agree() {
    let refused = ["failed ChannelBinding"];
    let bound = || bound_context(LoginProtocol::Imap);
    check(PLUS, bound(), &["n,,n=user,r=abc"], &refused);
    check(PLUS, bound(), &["y,,n=user,r=abc"], &refused);
    check(PLAIN, bound(), &["p=tls-exporter,,n=user,r=abc"], &refused);
    check(PLAIN, context(LoginProtocol::Imap), &["p=tls-exporter,,n=user,r=abc"], &refused);
}

#[test]
fn unavailable_binding_types_are_refused() {
    let refused = ["failed ChannelBinding"];
    for name in ["tls-unique", "TLS-EXPORTER", "x"] {
        let first = format!("p={name},,n=user,r=abc");
        check(PLUS, bound_context(LoginProtocol::Imap), &[&first], &refused);
    }
    let mut context = bound_context(LoginProtocol::Imap);
    context.channel_bindings.retain(|binding| binding.binding_type() != ChannelBindingType::TlsExporter);
    check(PLUS, context, &["p=tls-exporter,,n=user,r=abc"], &refused);
}
