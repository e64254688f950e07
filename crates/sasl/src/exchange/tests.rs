//! Tests of all mechanisms together: mechanisms that are not offered, limits, cancellation, and answers to checks. Also
//! the tests of EXTERNAL.

use super::*;
use crate::tests::{Accounts, bound_context, context, play};
use crate::{ClientFinal, LoginOrigin, LoginProtocol};

const SECURE: Mechanism = Mechanism::ScramSha256Plus;

fn check(mechanism: Mechanism, context: Context, messages: &[&str], expected: &[&str]) {
    assert_eq!(play(mechanism, context, messages), expected, "{mechanism} {messages:?}");
}

#[test]
fn mechanisms_that_are_not_offered_are_refused() {
    let open = Context::new(LoginOrigin::local(LoginProtocol::Imap), &Mechanism::ALL);
    for mechanism in [Mechanism::Plain, Mechanism::Login, Mechanism::OAuthBearer, Mechanism::XOAuth2] {
        check(mechanism, open.clone(), &["-"], &["failed TlsRequired"]);
        check(mechanism, open.clone(), &[""], &["failed TlsRequired"]);
    }
    check(SECURE, context(LoginProtocol::Imap), &["-"], &["failed MechanismNotOffered"]);
    check(Mechanism::External, context(LoginProtocol::Imap), &["-"], &["failed MechanismNotOffered"]);
    let none = Context { mechanisms: Vec::new(), ..context(LoginProtocol::Imap) };
    check(Mechanism::Plain, none, &["\0ann\0secret"], &["failed MechanismNotOffered"]);
}

#[test]
fn missing_initial_response_is_requested_with_a_challenge() {
    for mechanism in Mechanism::ALL {
        let context = Context { certificate: Some(b"certificate".to_vec()), ..bound_context(LoginProtocol::Imap) };
        let prompt = if mechanism.server_speaks_first() { "challenge Username:" } else { "challenge " };
        check(mechanism, context, &["-"], &[prompt]);
    }
}

#[test]
fn long_responses_are_refused() {
    let password = "x".repeat(RESPONSE_BYTES_MAX - 5);
    let longest = format!("\0ann\0{password}");
    let password_check = format!("password ann - {password}");
    let plain = |message: &str| play(Mechanism::Plain, context(LoginProtocol::Imap), &[message]);
    assert_eq!(plain(&longest), [password_check.as_str(), "failed InvalidCredentials"]);
    assert_eq!(plain(&format!("{longest}x")), ["failed TooLong"]);
    let scram = format!("n,,n=user,r={}", "x".repeat(crate::limits::SCRAM_MESSAGE_BYTES_MAX));
    check(Mechanism::ScramSha256, context(LoginProtocol::Imap), &[&scram], &["failed TooLong"]);
}

#[test]
fn external_accepts_an_identity_or_none() {
    let external = |messages: &[&str], expected: &[&str]| {
        let context = Context { certificate: Some(b"certificate".to_vec()), ..context(LoginProtocol::Ldap) };
        check(Mechanism::External, context, messages, expected);
    };
    external(&[""], &["certificate -", "done ann/ann "]);
    external(&["-", ""], &["challenge ", "certificate -", "done ann/ann "]);
    external(&["boss"], &["certificate boss", "done ann/boss "]);
    external(&["bob"], &["certificate bob", "failed NotAuthorized"]);
    external(&["bo\0ss"], &["failed Malformed"]);
}

#[test]
fn external_requires_utf_8() {
    let context = Context { certificate: Some(b"certificate".to_vec()), ..context(LoginProtocol::Ldap) };
    let step = Exchange::begin(Mechanism::External, Some(b"\xff"), Arc::new(context));
    assert!(matches!(step, ExchangeStep::Failed(LoginError::Malformed)));
}

#[test]
fn a_check_can_be_moved_to_another_thread() {
    let context = Arc::new(context(LoginProtocol::Imap));
    let ExchangeStep::Check(check) = Exchange::begin(Mechanism::Plain, Some(b"\0ann\0secret"), context) else {
        panic!("a password is checked");
    };
    assert_eq!(check.mechanism(), Mechanism::Plain);
    let step = std::thread::spawn(move || check.run(&Accounts)).join().expect("the thread ends");
    assert!(matches!(step, ExchangeStep::Done { login, message } if login == Login::new("ann") && message.is_empty()));
}

#[test]
fn a_check_can_be_answered_without_credentials() {
    let begin = || {
        let context = Arc::new(context(LoginProtocol::Submission));
        match Exchange::begin(Mechanism::Plain, Some(b"\0ann\0secret"), context) {
            ExchangeStep::Check(Check::Password(pending)) => pending,
            step => panic!("a password is checked: {step:?}"),
        }
    };
    assert_eq!(begin().origin().protocol, LoginProtocol::Submission);
    assert!(matches!(begin().answer(Ok(Login::new("x"))), ExchangeStep::Done { login, .. } if login.name == "x"));
    let step = begin().answer(Err(LoginError::Unavailable));
    assert!(matches!(step, ExchangeStep::Failed(LoginError::Unavailable)));
}

#[test]
fn client_can_cancel_after_a_challenge() {
    let ExchangeStep::Challenge { exchange, .. } =
        Exchange::begin(Mechanism::Login, None, Arc::new(context(LoginProtocol::Pop3)))
    else {
        panic!("LOGIN asks for the name");
    };
    assert!(matches!(exchange.step_line(b"*"), ExchangeStep::Failed(LoginError::Cancelled)));
}

#[test]
fn refused_token_fails_with_its_reason_after_any_line() {
    let refused = || {
        let message: &[u8] = b"n,,\x01auth=Bearer wrong\x01\x01";
        let context = Arc::new(context(LoginProtocol::Imap));
        let ExchangeStep::Check(check) = Exchange::begin(Mechanism::OAuthBearer, Some(message), context) else {
            panic!("a token is checked");
        };
        match check.run(&Accounts) {
            ExchangeStep::Challenge { exchange, .. } => exchange,
            step => panic!("an error message is sent: {step:?}"),
        }
    };
    let check =
        |step: ExchangeStep| assert!(matches!(step, ExchangeStep::Failed(LoginError::InvalidCredentials)), "{step:?}");
    for line in ["AQ==", "", "*", "!!!"] {
        check(refused().step_line(line.as_bytes()));
    }
    check(refused().step_line(&vec![b'A'; crate::limits::LINE_BYTES_MAX + 4]));
    check(refused().step(&vec![b'x'; RESPONSE_BYTES_MAX + 1]));
    check(refused().fail(LoginError::TooLong));
}

#[test]
fn unreadable_line_ends_the_exchange_with_its_error() {
    let ExchangeStep::Challenge { exchange, .. } =
        Exchange::begin(Mechanism::Plain, None, Arc::new(context(LoginProtocol::Pop3)))
    else {
        panic!("PLAIN asks for the message");
    };
    assert!(matches!(exchange.fail(LoginError::TooLong), ExchangeStep::Failed(LoginError::TooLong)));
}

#[test]
fn exchange_begins_from_a_command_line() {
    let check = |mechanism: &str, initial_response: Option<&str>, expected: LoginError| {
        let context = Context { mechanisms: vec![Mechanism::Plain], ..context(LoginProtocol::Imap) };
        let step = Exchange::begin_line(mechanism, initial_response.map(str::as_bytes), Arc::new(context));
        assert!(matches!(&step, ExchangeStep::Failed(error) if *error == expected), "{mechanism}: {step:?}");
    };
    check("PLAIN", Some("!"), LoginError::NotBase64);
    check("PLAIN", Some("="), LoginError::Malformed);
    check("LOGIN", Some("!"), LoginError::MechanismNotOffered);
    check("CRAM-MD5", Some("!"), LoginError::MechanismNotOffered);
    let step = Exchange::begin_line("plain", Some(b"AGFubgBzZWNyZXQ="), Arc::new(context(LoginProtocol::Imap)));
    assert!(matches!(step, ExchangeStep::Check(Check::Password(_))));
    let step = Exchange::begin_line("plain", None, Arc::new(context(LoginProtocol::Imap)));
    assert!(matches!(step, ExchangeStep::Challenge { .. }));
    for mechanism in ["SCRAM-SHA-256", "LOGIN", "CRAM-MD5"] {
        let in_clear = Context { is_private: false, requires_privacy: true, ..context(LoginProtocol::Imap) };
        let step = Exchange::begin_line(mechanism, Some(b"!"), Arc::new(in_clear));
        assert!(matches!(step, ExchangeStep::Failed(LoginError::TlsRequired)), "{mechanism}: {step:?}");
    }
}

#[test]
fn debug_forms_hide_the_messages() {
    let context = Arc::new(context(LoginProtocol::Imap));
    let step = Exchange::begin(Mechanism::Plain, Some(b"\0ann\0hidden"), Arc::clone(&context));
    assert!(!format!("{step:?}").contains("hidden"));
    let step = Exchange::begin(Mechanism::Login, Some(b"hidden"), context);
    assert!(!format!("{step:?}").contains("hidden"));
}

#[test]
fn debug_forms_hide_channel_bindings() {
    let context = bound_context(LoginProtocol::Imap);
    let shown = format!("{:?}", context.channel_bindings);
    assert_eq!(shown, "[ChannelBinding(tls-exporter), ChannelBinding(tls-server-end-point)]");
    let first: &[u8] = b"p=tls-exporter,,n=user,r=abc";
    let ExchangeStep::Check(Check::ScramFirst(pending)) = Exchange::begin(SECURE, Some(first), Arc::new(context))
    else {
        panic!("the directory answers the first message");
    };
    let shown = format!("{:?}", pending.request());
    assert!(shown.ends_with("channel_binding: Some(TlsExporter), .. }"), "{shown}");
    let last = ClientFinal { without_proof: "c=hidden,r=abc".to_owned(), proof: [0; 32] };
    assert_eq!(format!("{last:?}"), "ClientFinal(..)");
}

#[test]
fn temporary_errors_are_recognized() {
    assert!(LoginError::Throttled.is_temporary() && LoginError::Unavailable.is_temporary());
    assert!(!LoginError::InvalidCredentials.is_temporary() && !LoginError::AccountDisabled.is_temporary());
}
