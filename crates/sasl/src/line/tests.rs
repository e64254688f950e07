//! Tests of base64 lines: cancellation, the empty initial response, limits.

use super::*;

fn check_line(line: &str, expected: Result<&[u8], LoginError>) {
    assert_eq!(decode_line(line.as_bytes()).as_deref(), expected.as_ref().copied(), "{line}");
}

fn check_initial(text: &str, expected: Result<&[u8], LoginError>) {
    assert_eq!(decode_initial_response(text.as_bytes()).as_deref(), expected.as_ref().copied(), "{text}");
}

#[test]
fn lines_are_decoded() {
    check_line("AGFubgBzZWNyZXQ=", Ok(b"\0ann\0secret"));
    check_line("AQ==", Ok(b"\x01"));
    check_line("", Ok(b""));
}

#[test]
fn an_asterisk_cancels() {
    check_line("*", Err(LoginError::Cancelled));
    check_line("**", Err(LoginError::NotBase64));
    check_line("* ", Err(LoginError::NotBase64));
    check_initial("*", Err(LoginError::NotBase64));
}

#[test]
fn lines_that_are_not_base64_are_refused() {
    for line in ["=", "A", "AQ", "AQ=", "AR==", "AQ==AQ==", " AQ==", "AQ== ", "A-_=", "AQ\r\n==", "é"] {
        check_line(line, Err(LoginError::NotBase64));
    }
}

#[test]
fn an_equals_sign_is_an_empty_initial_response() {
    check_initial("=", Ok(b""));
    check_initial("AQ==", Ok(b"\x01"));
    check_initial("", Err(LoginError::NotBase64));
    check_initial("==", Err(LoginError::NotBase64));
}

#[test]
fn long_lines_are_refused() {
    let check = |size_bytes: usize, expected: Option<LoginError>| {
        let line = encode_line(&vec![0; size_bytes]);
        assert_eq!(decode_line(line.as_bytes()).err(), expected, "{size_bytes}");
        assert_eq!(decode_initial_response(line.as_bytes()).err(), expected, "{size_bytes}");
    };
    check(RESPONSE_BYTES_MAX, None);
    check(RESPONSE_BYTES_MAX + 1, Some(LoginError::TooLong));
    check(RESPONSE_BYTES_MAX * 2, Some(LoginError::TooLong));
    assert_eq!(decode_line(&vec![b'*'; LINE_BYTES_MAX + 1]), Err(LoginError::TooLong));
}

#[test]
fn challenges_are_encoded() {
    assert_eq!(encode_line(b"Username:"), "VXNlcm5hbWU6");
    assert_eq!(encode_line(b""), "");
}
