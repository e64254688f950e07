//! Tests of passwords: hashing, verification, preparation and refusal.

use base::sim::SeededRandom;

use super::*;

/// Returns options with cheap parameters, because the cost is irrelevant here.
fn options() -> PasswordHashOptions {
    PasswordHashOptions { memory_kib: 64, passes: 1, scram_iterations: Some(4_096), ..PasswordHashOptions::default() }
}

fn check(set: &str, given: &[u8], expected: bool) {
    let secrets =
        derive_secrets(set.as_bytes(), &options(), &SeededRandom::new(1)).expect("the password is acceptable");
    assert_eq!(verify(&secrets.hash, given), Ok(expected), "{set} against {given:?}");
}

fn check_refused(password: &[u8], expected: PasswordError) {
    let outcome = derive_secrets(password, &options(), &SeededRandom::new(1)).map(|secrets| secrets.hash);
    assert_eq!(outcome, Err(expected));
}

#[test]
fn only_the_right_password_is_accepted() {
    check("correct horse", b"correct horse", true);
    check("correct horse", b"correct hors", false);
    check("correct horse", b"Correct horse", false);
    check("correct horse", b"", false);
    check("correct horse", &[0xFF, 0xFE], false);
    check("correct horse", &[b'x'; PASSWORD_BYTES_MAX + 1], false);
}

#[test]
fn equivalent_spellings_of_a_password_match() {
    check("p\u{e4}ssw\u{f6}rter", "pa\u{308}sswo\u{308}rter".as_bytes(), true);
    check("with\u{a0}blank", b"with blank", true);
    check("\u{2168} number", b"IX number", true);
}

#[test]
fn characters_unknown_to_saslprep_are_accepted() {
    check("🦀🦀🦀🦀🦀🦀🦀🦀", "🦀🦀🦀🦀🦀🦀🦀🦀".as_bytes(), true);
    check("🦀🦀🦀🦀🦀🦀🦀🦀", "🦀🦀🦀🦀🦀🦀🦀".as_bytes(), false);
}

#[test]
fn invalid_passwords_are_refused() {
    check_refused(b"short", PasswordError::TooShort { characters_min: 8 });
    check_refused("äöüäöü".as_bytes(), PasswordError::TooShort { characters_min: 8 });
    check_refused("a\u{308}o\u{308}u\u{308}a\u{308}".as_bytes(), PasswordError::TooShort { characters_min: 8 });
    check_refused("seven\u{ad}up".as_bytes(), PasswordError::TooShort { characters_min: 8 });
    check_refused("\u{ad}".repeat(8).as_bytes(), PasswordError::TooShort { characters_min: 8 });
    check_refused(&[b'x'; PASSWORD_BYTES_MAX + 1], PasswordError::TooLong);
    check_refused(b"with a \0 inside", PasswordError::InvalidCharacters);
    check_refused(&[0xFF; 12], PasswordError::InvalidCharacters);
}

#[test]
fn empty_password_is_always_refused() {
    let options = PasswordHashOptions { characters_min: 0, ..options() };
    for empty in ["", "\u{ad}", "\u{ad}\u{2060}\u{feff}"] {
        let outcome = derive_secrets(empty.as_bytes(), &options, &SeededRandom::new(1));
        assert_eq!(outcome.err(), Some(PasswordError::TooShort { characters_min: 1 }), "{empty:?}");
        let stored = hash(b"", &options, &SeededRandom::new(1)).expect("the parameters are valid");
        assert_eq!(verify(&stored, empty.as_bytes()), Ok(false), "{empty:?} against the hash of an empty password");
    }
}

#[test]
fn each_derivation_has_its_own_salt() {
    let random = SeededRandom::new(1);
    let first = derive_secrets(b"correct horse", &options(), &random).expect("acceptable");
    let second = derive_secrets(b"correct horse", &options(), &random).expect("acceptable");
    assert_ne!(first.hash, second.hash);
    assert_ne!(first.scram, second.scram);
}

#[test]
fn the_hash_names_its_parameters() {
    let secrets = derive_secrets(b"correct horse", &options(), &SeededRandom::new(1)).expect("acceptable");
    assert!(secrets.hash.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{}", secrets.hash);
    let defaults = PasswordHashOptions::default();
    assert_eq!((defaults.memory_kib, defaults.passes, defaults.lanes), (19_456, 2, 1));
}

#[test]
fn hashes_of_other_programs_are_verified() {
    // Made by the reference implementation: echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1 -e (test vector of
    // the Go port).
    let foreign = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
    assert_eq!(verify(foreign, b"password"), Ok(true));
    assert_eq!(verify(foreign, b"Password"), Ok(false));
    assert_eq!(check_hash(foreign), Ok(()));
}

/// Checks values that argon2 0.5, pbkdf2 0.12, hmac 0.12 and sha2 0.10 have derived. Other versions must read them and
/// derive the same ones.
#[test]
fn secrets_of_older_versions_are_accepted() {
    const HASH: &str =
        "$argon2id$v=19$m=19456,t=2,p=1$wVwCiewtCpFn7I5loY3rvg$lX+85gPCfEanWaX8520PlIY4tMoDzdme4clbh/nuSs8";
    const SCRAM_KEYS: &str = "SCRAM-SHA-256$10000:XlUy++6ik/gLyULukIbBcQ==$4oXPmhOOcelLa4eEO06Sv76pr8uSh0+ULZwW9OGTIes=:RvMeNAOM5cxwZD5EKMq1z1Jib2Qyny39X1htab2OJys=";
    let password = "p\u{e4}ssw\u{f6}rter".as_bytes();
    let derived = derive_secrets(password, &PasswordHashOptions::default(), &SeededRandom::new(1)).expect("acceptable");
    assert_eq!(derived.hash, HASH);
    assert_eq!(verify(HASH, password), Ok(true));
    assert_eq!(verify(HASH, b"passwoerter"), Ok(false));
    assert_eq!(derived.scram.as_ref().map(ScramKeys::to_text).as_deref(), Some(SCRAM_KEYS));
    assert_eq!(ScramKeys::from_text(SCRAM_KEYS), derived.scram);
}

/// Checks whether a hash with these parameters of argon2 may be imported.
fn check_cost(parameters: &str, expected: bool) {
    let hash = format!("$argon2id$v=19${parameters}$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc");
    assert_eq!(check_hash(&hash).is_ok(), expected, "{parameters}");
}

#[test]
fn common_parameters_of_other_programs_are_accepted() {
    check_cost("m=65536,t=4,p=1", true); // PHP
    check_cost("m=65536,t=3,p=4", true); // RFC 9106, argon2-cffi, Node.js
    check_cost("m=102400,t=2,p=8", true); // Django
    check_cost("m=65536,t=2,p=1", true); // libsodium, interactive; Dovecot
    check_cost("m=262144,t=3,p=1", true); // libsodium, moderate
    check_cost("m=47104,t=1,p=1", true); // OWASP
    check_cost("m=7168,t=5,p=1", true); // OWASP, Keycloak
    check_cost("m=262144,t=8,p=1", true);
    check_cost("m=262145,t=1,p=1", false);
    check_cost("m=7168,t=9,p=1", false);
    check_cost("m=1048576,t=4,p=1", false); // libsodium, sensitive
}

#[test]
fn unusable_hashes_are_errors_and_not_wrong_passwords() {
    let too_much = "$argon2id$v=19$m=4000000,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
    let other = "$pbkdf2-sha256$i=1000$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
    for hash in ["", "secret", "$argon2id$", too_much, other] {
        assert!(matches!(verify(hash, b"password"), Err(PasswordError::Stored(_))), "{hash}");
        assert!(matches!(check_hash(hash), Err(PasswordError::Stored(_))), "{hash}");
    }
}

#[test]
fn parameters_out_of_range_are_refused() {
    for (memory_kib, passes, lanes) in [(1, 1, 1), (64, 0, 1), (64, 1, 0), (u32::MAX, 1, 1), (64, u32::MAX, 1)] {
        let options = PasswordHashOptions { memory_kib, passes, lanes, ..options() };
        let outcome = derive_secrets(b"correct horse", &options, &SeededRandom::new(1));
        assert!(matches!(outcome, Err(PasswordError::Parameters(_))), "{options:?}");
    }
}

#[test]
fn decoy_costs_as_much_as_a_password() {
    let decoy = Decoy::new(&options(), &SeededRandom::new(1)).expect("the parameters are valid");
    let secrets = derive_secrets(b"correct horse", &options(), &SeededRandom::new(2)).expect("acceptable");
    let parameters = |hash: &str| hash.split('$').nth(3).map(str::to_owned);
    assert_eq!(parameters(&decoy.hash), parameters(&secrets.hash));
    decoy.verify_decoy(b"correct horse");
}

#[test]
fn without_iterations_no_scram_keys_are_stored() {
    let options = PasswordHashOptions { scram_iterations: None, ..options() };
    let secrets = derive_secrets(b"correct horse", &options, &SeededRandom::new(1)).expect("acceptable");
    assert_eq!(secrets.scram, None);
}
