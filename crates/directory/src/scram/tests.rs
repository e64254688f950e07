//! Tests of SCRAM-SHA-256: the published test vector, wrong proofs, and stored keys.

use base::sim::SeededRandom;
use proptest::prelude::*;

use super::*;

const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";

fn keys(password: &str) -> ScramKeys {
    let salt = Base64::decode_vec(SALT).expect("the salt of RFC 7677");
    ScramKeys::derive(password.as_bytes(), &salt, 4_096)
}

fn client_first(name: &str, nonce: &str) -> ClientFirst {
    ClientFirst {
        authentication_id: name.to_owned(),
        authorization_id: None,
        nonce: nonce.to_owned(),
        bare: format!("n={name},r={nonce}"),
    }
}

fn challenged(keys: ScramKeys) -> (ProofCheck, String) {
    keys.challenge(&client_first("user", CLIENT_NONCE), SERVER_NONCE)
}

/// Returns the client's final message in reply to the server's first message.
fn client_final(password: &str, first: &ClientFirst, server_first: &str) -> ClientFinal {
    let nonce = server_first.strip_prefix("r=").and_then(|rest| rest.split(',').next()).expect("a nonce");
    let salt = server_first.split(",s=").nth(1).and_then(|rest| rest.split(',').next()).expect("a salt");
    let iterations = server_first.split(",i=").nth(1).and_then(|text| text.parse().ok()).expect("iterations");
    let salt = Base64::decode_vec(salt).expect("base64");
    let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), &salt, iterations);
    let mut proof = hmac(&salted, b"Client Key");
    let stored_key: [u8; 32] = Sha256::digest(proof).into();
    let without_proof = format!("c=biws,r={nonce}");
    let signature = hmac(&stored_key, format!("{},{server_first},{without_proof}", first.bare).as_bytes());
    proof.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
    ClientFinal { without_proof, proof }
}

#[test]
fn the_exchange_of_rfc_7677_succeeds() {
    let (exchange, server_first) = challenged(keys("pencil"));
    assert_eq!(server_first, format!("r={CLIENT_NONCE}{SERVER_NONCE},s={SALT},i=4096"));
    let last = client_final("pencil", &client_first("user", CLIENT_NONCE), &server_first);
    assert_eq!(Base64::encode_string(&last.proof), "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    assert_eq!(exchange.verify(&last).as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
}

#[test]
fn a_wrong_password_fails() {
    let (exchange, server_first) = challenged(keys("pencil"));
    let last = client_final("Pencil", &client_first("user", CLIENT_NONCE), &server_first);
    assert_eq!(exchange.verify(&last), None);
}

#[test]
fn every_part_of_the_exchange_is_signed() {
    let verify = |change: fn(&mut ClientFirst, &mut ClientFinal)| {
        let mut first = client_first("user", CLIENT_NONCE);
        let (_, server_first) = challenged(keys("pencil"));
        let mut last = client_final("pencil", &first, &server_first);
        change(&mut first, &mut last);
        let (exchange, _) = keys("pencil").challenge(&first, SERVER_NONCE);
        exchange.verify(&last).is_some()
    };
    assert!(verify(|_, _| {}));
    assert!(!verify(|first, _| first.bare.push_str(",x=1")));
    assert!(!verify(|first, _| first.nonce.push('x')));
    assert!(!verify(|_, last| last.without_proof.push_str(",x=1")));
    assert!(!verify(|_, last| last.proof[0] ^= 1));
}

#[test]
fn unknown_account_gets_a_stable_decoy_challenge() {
    let secret = [7; 32];
    let decoy = ScramKeys::decoy(&secret, "nobody", 4_096);
    assert_eq!(decoy, ScramKeys::decoy(&secret, "nobody", 4_096));
    assert_ne!(decoy.salt, ScramKeys::decoy(&secret, "somebody", 4_096).salt);
    assert_eq!(decoy.salt.len(), 16);
    let (exchange, server_first) = challenged(decoy);
    assert!(server_first.ends_with(",i=4096"));
    let last = client_final("pencil", &client_first("user", CLIENT_NONCE), &server_first);
    assert_eq!(exchange.verify(&last), None);
}

#[test]
fn decoy_with_the_challenge_of_a_known_account_matches_no_password() {
    let known = ScramKeys { iterations: 5_000, ..keys("pencil") };
    let decoy = ScramKeys::decoy(&[7; 32], "nobody", 4_096).with_challenge_of(&known);
    assert_ne!((decoy.stored_key, decoy.server_key), (known.stored_key, known.server_key));
    let (_, expected) = challenged(known);
    let (exchange, server_first) = challenged(decoy);
    assert_eq!(server_first, expected);
    let last = client_final("pencil", &client_first("user", CLIENT_NONCE), &server_first);
    assert_eq!(exchange.verify(&last), None);
}

#[test]
fn stored_keys_read_back_from_their_text() {
    let keys = keys("pencil");
    let text = keys.to_text();
    assert!(text.starts_with(&format!("SCRAM-SHA-256$4096:{SALT}$")), "{text}");
    assert_eq!(ScramKeys::from_text(&text), Some(keys));
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
        assert_eq!(ScramKeys::from_text(&text), None, "{text}");
    }
}

#[test]
fn too_few_iterations_are_raised_to_the_minimum() {
    assert_eq!(ScramKeys::derive(b"pencil", b"salt", 1).iterations, SCRAM_ITERATIONS_MIN);
}

#[test]
fn server_nonces_are_printable_and_differ() {
    let random = SeededRandom::new(1);
    let first = nonce(&random);
    let second = nonce(&random);
    let is_printable = first.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    assert!(is_printable && first.len() >= 18);
    assert_ne!(first, second);
}

proptest! {
    #[test]
    fn parsing_stored_keys_never_panics(text in "(SCRAM-SHA-256\\$)?[0-9:$A-Za-z+/=]{0,80}") {
        let _ = ScramKeys::from_text(&text);
    }
}
