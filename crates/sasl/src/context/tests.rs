//! Tests of the mechanisms that a connection offers, of their names and properties, and of the names of protocols.

use crate::tests::{bound_context, context};
use crate::{Context, LoginError, LoginOrigin, LoginProtocol, Mechanism};

fn check(context: &Context, expected: &str) {
    let names: Vec<&str> = context.offered_mechanisms().map(Mechanism::name).collect();
    assert_eq!(names.join(" "), expected);
}

#[test]
fn offered_mechanisms_depend_on_the_connection() {
    let open = Context::new(LoginOrigin::local(LoginProtocol::Imap), &Mechanism::ALL);
    check(&open, "SCRAM-SHA-256");
    check(&context(LoginProtocol::Imap), "SCRAM-SHA-256 OAUTHBEARER XOAUTH2 PLAIN LOGIN");
    check(&bound_context(LoginProtocol::Imap), "SCRAM-SHA-256-PLUS SCRAM-SHA-256 OAUTHBEARER XOAUTH2 PLAIN LOGIN");
    let certified = Context { certificate: Some(vec![1]), ..open };
    check(&certified, "SCRAM-SHA-256 EXTERNAL");
    let few = Context { mechanisms: vec![Mechanism::Login, Mechanism::Plain], ..context(LoginProtocol::Pop3) };
    check(&few, "PLAIN LOGIN");
    check(&Context { mechanisms: Vec::new(), ..few }, "");
}

#[test]
fn required_privacy_refuses_every_mechanism_in_clear() {
    let open = Context::new(LoginOrigin::local(LoginProtocol::Imap), &[Mechanism::ScramSha256]);
    let strict = Context { requires_privacy: true, ..open };
    check(&strict, "");
    for mechanism in Mechanism::ALL {
        assert_eq!(strict.check(mechanism), Err(LoginError::TlsRequired), "{mechanism}");
    }
    let private = Context { is_private: true, ..strict };
    check(&private, "SCRAM-SHA-256");
    assert_eq!(private.check(Mechanism::Plain), Err(LoginError::MechanismNotOffered));
}

#[test]
fn check_returns_the_reason_for_a_refused_mechanism() {
    let open = Context::new(LoginOrigin::local(LoginProtocol::Imap), &Mechanism::ALL);
    let check = |context: &Context, mechanism: Mechanism, expected: Result<(), LoginError>| {
        assert_eq!(context.check(mechanism), expected, "{mechanism}");
    };
    for mechanism in [Mechanism::Plain, Mechanism::Login, Mechanism::OAuthBearer, Mechanism::XOAuth2] {
        check(&open, mechanism, Err(LoginError::TlsRequired));
        check(&context(LoginProtocol::Imap), mechanism, Ok(()));
    }
    check(&open, Mechanism::ScramSha256, Ok(()));
    check(&open, Mechanism::ScramSha256Plus, Err(LoginError::MechanismNotOffered));
    check(&open, Mechanism::External, Err(LoginError::MechanismNotOffered));
    let disabled = Context { mechanisms: vec![Mechanism::Plain], ..open };
    check(&disabled, Mechanism::Login, Err(LoginError::MechanismNotOffered));
}

#[test]
fn names_of_mechanisms_are_parsed_without_case() {
    let check = |name: &str, expected: Option<Mechanism>| assert_eq!(Mechanism::parse(name), expected, "{name}");
    for mechanism in Mechanism::ALL {
        check(mechanism.name(), Some(mechanism));
        check(&mechanism.name().to_ascii_lowercase(), Some(mechanism));
        assert_eq!(mechanism.to_string(), mechanism.name());
        assert!(mechanism.name().len() <= 20, "RFC 4422 §3.1 allows 20 characters");
    }
    check("oAuthBearer", Some(Mechanism::OAuthBearer));
    check("", None);
    check("PLAIN ", None);
    check("SCRAM-SHA-1", None);
    check("SCRAM-SHA-256-PLUS-PLUS", None);
}

#[test]
fn names_of_protocols_are_unique() {
    for protocol in LoginProtocol::ALL {
        assert_eq!(LoginProtocol::parse(protocol.name()), Some(protocol));
    }
    assert_eq!(LoginProtocol::parse("IMAP"), None);
}

#[test]
fn origins_are_formatted_for_logs() {
    let address = "192.0.2.1:4000".parse().expect("an address");
    let remote = LoginOrigin { address: Some(address), ..LoginOrigin::local(LoginProtocol::Dav) };
    assert_eq!(remote.to_string(), "dav from 192.0.2.1:4000");
    assert_eq!(remote.ip(), address.ip());
    let local = LoginOrigin::local(LoginProtocol::Ldap);
    assert_eq!(local.to_string(), "ldap from this machine");
    assert!(local.ip().is_loopback());
}
