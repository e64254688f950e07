//! Tests of the requests that protocols make themselves.

use super::*;

#[test]
fn invalid_names_and_passwords_are_refused_early() {
    let check = |name: &[u8], password: &[u8], is_accepted: bool| {
        let error = PasswordRequest::new(name, password).err();
        assert_eq!(error.is_none(), is_accepted, "{}", name.escape_ascii());
        assert!(matches!(error, None | Some(LoginError::Malformed)));
        let error = PasswordRequest::without_sasl(name, password).err();
        assert_eq!(error, if is_accepted { None } else { Some(LoginError::InvalidCredentials) });
    };
    check(b"ann", b"secret", true);
    check("jürgen".as_bytes(), "pässword".as_bytes(), true);
    check(b"ann", b" ", true);
    check(b"", b"secret", false);
    check(b"ann", b"", false);
    check(b"an\0n", b"secret", false);
    check(b"ann", b"sec\0ret", false);
    check(b"\xffann", b"secret", false);
    check(b"ann", b"secret\xff", false);
}

#[test]
fn requested_identity_is_kept() {
    let check = |authorization: &[u8], expected: Result<Option<&str>, LoginError>| {
        let request =
            PasswordRequest::new(b"ann", b"secret").and_then(|request| request.with_authorization_id(authorization));
        let found = request.as_ref().map(PasswordRequest::authorization_id).map_err(|error| *error);
        assert_eq!(found, expected, "{}", authorization.escape_ascii());
    };
    check(b"", Ok(None));
    check(b"ann", Ok(None));
    check(b"Ann", Ok(Some("Ann")));
    check(b"boss", Ok(Some("boss")));
    check(b"bo\0ss", Err(LoginError::Malformed));
    check(b"\xff", Err(LoginError::Malformed));
}

#[test]
fn bearer_tokens_are_recognized() {
    let check = |value: &str, expected: Option<&str>| {
        let request = TokenRequest::from_authorization(value);
        assert_eq!(request.as_ref().map(|request| request.token.reveal()), expected, "{value}");
    };
    check("Bearer abc", Some("abc"));
    check("bEaReR  a-._~+/0==", Some("a-._~+/0=="));
    check("", None);
    check("Bearer", None);
    check("Bearer ", None);
    check("Bearer =", None);
    check("Bearer a=b", None);
    check("Bearer a b", None);
    check("Bearer a\tb", None);
    check("Bearer é", None);
    check(" Bearer abc", None);
    check("Basic YW5uOnNlY3JldA==", None);
}

#[test]
fn debug_output_hides_secrets() {
    let request = PasswordRequest::new(b"ann", b"hidden").expect("well formed");
    let token = TokenRequest::from_authorization("Bearer hidden").expect("well formed");
    assert!(!format!("{request:?}{token:?}").contains("hidden"));
}
