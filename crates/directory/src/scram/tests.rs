//! Tests of SCRAM-SHA-256: the published test vector, wrong proofs, and messages out of order or with invalid grammar.

use base::sim::SeededRandom;
use proptest::prelude::*;

use super::*;

const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";

fn keys(password: &str) -> Keys {
    let salt = Base64::decode_vec(SALT).expect("the salt of RFC 7677");
    Keys::derive(password.as_bytes(), &salt, 4_096)
}

fn challenged(keys: Keys) -> (AwaitingProof, String) {
    let first = format!("n,,n=user,r={CLIENT_NONCE}");
    ClientFirst::read(first.as_bytes()).expect("well formed").challenge(keys, SERVER_NONCE)
}

/// Returns the client's final message in reply to the server's first message.
fn client_final(password: &str, gs2_header: &str, first_bare: &str, server_first: &str) -> String {
    let nonce = server_first.strip_prefix("r=").and_then(|rest| rest.split(',').next()).expect("a nonce");
    let salt = server_first.split(",s=").nth(1).and_then(|rest| rest.split(',').next()).expect("a salt");
    let iterations = server_first.split(",i=").nth(1).and_then(|text| text.parse().ok()).expect("iterations");
    let salt = Base64::decode_vec(salt).expect("base64");
    let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), &salt, iterations);
    let client_key = hmac(&salted, b"Client Key");
    let stored_key: [u8; 32] = Sha256::digest(client_key).into();
    let without_proof = format!("c={},r={nonce}", Base64::encode_string(gs2_header.as_bytes()));
    let signature = hmac(&stored_key, format!("{first_bare},{server_first},{without_proof}").as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, mask)| key ^ mask).collect();
    format!("{without_proof},p={}", Base64::encode_string(&proof))
}

fn check_first(message: &str, expected: Result<(&str, Option<&str>), ScramError>) {
    let outcome = ClientFirst::read(message.as_bytes());
    let outcome = outcome.as_ref().map(|opened| (opened.username(), opened.authorization())).map_err(|error| *error);
    assert_eq!(outcome, expected, "{message}");
}

#[test]
fn the_exchange_of_rfc_7677_succeeds() {
    let (exchange, server_first) = challenged(keys("pencil"));
    assert_eq!(server_first, format!("r={CLIENT_NONCE}{SERVER_NONCE},s={SALT},i=4096"));
    let client_final = format!("c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    assert_eq!(
        exchange.finish(client_final.as_bytes()).as_deref(),
        Ok("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    );
}

#[test]
fn the_client_of_these_tests_agrees_with_the_rfc() {
    let (_, server_first) = challenged(keys("pencil"));
    let message = client_final("pencil", "n,,", &format!("n=user,r={CLIENT_NONCE}"), &server_first);
    assert!(message.ends_with(",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), "{message}");
}

#[test]
fn a_wrong_password_fails() {
    let (exchange, server_first) = challenged(keys("pencil"));
    let message = client_final("Pencil", "n,,", &format!("n=user,r={CLIENT_NONCE}"), &server_first);
    assert_eq!(exchange.finish(message.as_bytes()), Err(ScramError::Proof));
}

#[test]
fn an_unknown_account_looks_like_a_known_one_until_the_end() {
    let secret = [7; 32];
    let decoy = Keys::decoy(&secret, "nobody", 4_096);
    assert_eq!(decoy, Keys::decoy(&secret, "nobody", 4_096));
    assert_ne!(decoy.salt, Keys::decoy(&secret, "somebody", 4_096).salt);
    assert_eq!(decoy.salt.len(), 16);
    let (exchange, server_first) = challenged(decoy);
    assert!(server_first.ends_with(",i=4096"));
    let message = client_final("pencil", "n,,", &format!("n=user,r={CLIENT_NONCE}"), &server_first);
    assert_eq!(exchange.finish(message.as_bytes()), Err(ScramError::Proof));
}

#[test]
fn first_messages_are_read() {
    check_first("n,,n=user,r=abc", Ok(("user", None)));
    check_first("y,,n=user,r=abc", Ok(("user", None)));
    check_first("n,a=boss,n=user,r=abc", Ok(("user", Some("boss"))));
    check_first("n,a=a=2Cb,n=x=3Dy=2Cz,r=abc", Ok(("x=y,z", Some("a,b"))));
    check_first("n,,n=ann@acme.test,r=abc,future=1", Ok(("ann@acme.test", None)));
}

#[test]
fn first_messages_out_of_grammar_are_refused() {
    for message in
        ["", "n", "n,", "n,,", "x,,n=user,r=abc", "n,,n=,r=abc", "n,,n=user", "n,,n=user,r=", "n,,r=abc,n=user"]
    {
        check_first(message, Err(ScramError::Malformed));
    }
    for message in
        ["n,,n=us=er,r=abc", "n,,n=us=2cer,r=abc", "n,boss,n=user,r=abc", "n,,n=user,r=a\u{7f}b", "n,,n=user,r=é"]
    {
        check_first(message, Err(ScramError::Malformed));
    }
    check_first("p=tls-unique,,n=user,r=abc", Err(ScramError::ChannelBinding));
    check_first("n,,m=must,n=user,r=abc", Err(ScramError::Extension));
    check_first(&format!("n,,n=user,r={}", "x".repeat(SCRAM_MESSAGE_BYTES_MAX)), Err(ScramError::Malformed));
    assert_eq!(ClientFirst::read(&[b'n', b',', b',', 0xFF]).err(), Some(ScramError::Malformed));
}

#[test]
fn final_messages_must_belong_to_the_exchange() {
    let nonce = format!("{CLIENT_NONCE}{SERVER_NONCE}");
    let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let check = |message: String, expected: ScramError| {
        assert_eq!(challenged(keys("pencil")).0.finish(message.as_bytes()), Err(expected), "{message}");
    };
    check(format!("c=eSws,r={nonce},p={proof}"), ScramError::Mismatch);
    check(format!("c=biws,r={CLIENT_NONCE},p={proof}"), ScramError::Mismatch);
    check(format!("c=biws,r={nonce}x,p={proof}"), ScramError::Mismatch);
    check(format!("c=biws,r={nonce}"), ScramError::Malformed);
    check(format!("r={nonce},c=biws,p={proof}"), ScramError::Malformed);
    check(format!("c=biws,r={nonce},p=AAAA"), ScramError::Malformed);
    check(format!("c=biws,r={nonce},p=!"), ScramError::Malformed);
    check(format!("c=biws,r={nonce},x=1,p={proof}"), ScramError::Proof);
}

#[test]
fn a_client_that_fears_a_downgrade_is_served() {
    let first_bare = "n=user,r=abc";
    let opened = ClientFirst::read(format!("y,a=user,{first_bare}").as_bytes()).expect("well formed");
    let (exchange, server_first) = opened.challenge(keys("pencil"), "xyz");
    let message = client_final("pencil", "y,a=user,", first_bare, &server_first);
    assert!(exchange.finish(message.as_bytes()).is_ok());
}

#[test]
fn stored_keys_read_back_from_their_text() {
    let keys = keys("pencil");
    let text = keys.to_text();
    assert!(text.starts_with(&format!("SCRAM-SHA-256$4096:{SALT}$")), "{text}");
    assert_eq!(Keys::from_text(&text), Some(keys));
}

#[test]
fn damaged_stored_keys_are_refused() {
    let good = keys("pencil").to_text();
    let bad = [
        String::new(),
        "SCRAM-SHA-256$".to_owned(),
        good.replace("4096", "1"),
        good.replace("4096", "99999999999"),
        good.replace(SALT, ""),
        good.replace("SHA-256", "SHA-1"),
        good[..good.len() - 4].to_owned(),
    ];
    for text in bad {
        assert_eq!(Keys::from_text(&text), None, "{text}");
    }
}

#[test]
fn too_few_iterations_are_raised_to_the_minimum() {
    assert_eq!(Keys::derive(b"pencil", b"salt", 1).iterations, SCRAM_ITERATIONS_MIN);
}

#[test]
fn server_nonces_are_printable_and_differ() {
    let random = SeededRandom::new(1);
    let first = nonce(&random);
    let second = nonce(&random);
    assert!(is_printable(&first) && first.len() >= 18);
    assert_ne!(first, second);
}

proptest! {
    #[test]
    fn no_message_panics(first in any::<Vec<u8>>(), tail in "[ -~]{0,60}", last in "[ -~]{0,120}") {
        let _ = ClientFirst::read(&first);
        if let Ok(opened) = ClientFirst::read(format!("n,,{tail}").as_bytes()) {
            let (exchange, _) = opened.challenge(Keys::decoy(&[1; 32], "x", 4_096), "abc");
            prop_assert!(exchange.finish(last.as_bytes()).is_err());
        }
    }

    #[test]
    fn no_stored_text_panics(text in "(SCRAM-SHA-256\\$)?[0-9:$A-Za-z+/=]{0,80}") {
        let _ = Keys::from_text(&text);
    }
}
