//! Tests of OAUTHBEARER and XOAUTH2: the examples of RFC 7628, the error message, and every refusal.

use super::*;
use crate::tests::{context, play};
use crate::{Context, LoginProtocol, decode_line};

const TOKEN: &str = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==";
const NOT_VALID: &str = r#"challenge {\"status\":\"invalid_token\"}"#;
const NOT_VALID_XOAUTH2: &str = r#"challenge {\"status\":\"401\",\"schemes\":\"bearer\"}"#;

fn check_bearer(messages: &[&str], expected: &[&str]) {
    assert_eq!(play(Mechanism::OAuthBearer, context(LoginProtocol::Imap), messages), expected, "{messages:?}");
}

fn check_xoauth2(messages: &[&str], expected: &[&str]) {
    assert_eq!(play(Mechanism::XOAuth2, context(LoginProtocol::Imap), messages), expected, "{messages:?}");
}

/// Decodes a line of an example that is known to be ASCII.
fn decoded(line: &str) -> String {
    String::from_utf8(decode_line(line.as_bytes()).expect("base64")).expect("UTF-8")
}

#[test]
fn successful_examples_of_rfc_7628_pass() {
    let imap = "bixhPXVzZXJAZXhhbXBsZS5jb20sAWhvc3Q9c2VydmVyLmV4YW1wbGUuY29tAXBvcnQ9MTQzAWF1dGg9QmVhcmVyI\
                HZGOWRmdDRxbVRjMk52YjNSbGNrQmhiSFJoZG1semRHRXVZMjl0Q2c9PQEB";
    let token_check = format!("token {TOKEN} user@example.com server.example.com 143");
    check_bearer(&[&decoded(imap)], &[&token_check, "done user@example.com/user@example.com "]);
    let smtp = "bixhPXVzZXJAZXhhbXBsZS5jb20sAWhvc3Q9c2VydmVyLmV4YW1wbGUuY29tAXBvcnQ9NTg3AWF1dGg9QmVhcmVyIHZGOWRmd\
                DRxbVRjMk52YjNSbGNrQmhiSFJoZG1semRHRXVZMjl0Q2c9PQEB";
    let token_check = format!("token {TOKEN} user@example.com server.example.com 587");
    check_bearer(&[&decoded(smtp)], &[&token_check, "done user@example.com/user@example.com "]);
}

#[test]
fn failed_example_of_rfc_7628_reports_the_scope() {
    let first = "bixhPXVzZXJAZXhhbXBsZS5jb20sAWhvc3Q9c2VydmVyLmV4YW1wbGUuY29tAXBvcnQ9MTQzAWF1dGg9AQE=";
    let error = "eyJzdGF0dXMiOiJpbnZhbGlkX3Rva2VuIiwic2NvcGUiOiJleGFtcGxlX3Njb3BlIiwib3BlbmlkLWNvbmZpZ3VyYXRpb24i\
                 OiJodHRwczovL2V4YW1wbGUuY29tLy53ZWxsLWtub3duL29wZW5pZC1jb25maWcifQ==";
    let oauth = OAuthDiscovery {
        scope: Some("example_scope".to_owned()),
        openid_configuration: Some("https://example.com/.well-known/openid-config".to_owned()),
    };
    let context = Context { oauth, ..context(LoginProtocol::Imap) };
    let challenge = format!("challenge {}", decoded(error).escape_default());
    let steps = play(Mechanism::OAuthBearer, context, &[&decoded(first), &decoded("AQ==")]);
    assert_eq!(steps, [challenge.as_str(), "failed InvalidCredentials"]);
}

#[test]
fn smtp_example_of_rfc_7628_is_malformed() {
    // RFC 7628 §4.4 writes `n,user=…,` where RFC 5801 §4 requires `n,a=…,`.
    check_bearer(&[&format!("n,user=someuser@example.com,\x01auth=Bearer {TOKEN}\x01\x01")], &["failed Malformed"]);
}

#[test]
fn a_refused_token_ends_with_the_dummy_response() {
    let message = "n,,\x01auth=Bearer wrong\x01\x01";
    let token_check = "token wrong - - 0";
    check_bearer(&[message], &[token_check, NOT_VALID]);
    for dummy in ["\x01", "", "n,,\x01auth=Bearer other\x01\x01"] {
        check_bearer(&[message, dummy], &[token_check, NOT_VALID, "failed InvalidCredentials"]);
    }
    check_bearer(
        &["n,,\x01auth=Bearer disabled\x01\x01", "\x01"],
        &["token disabled - - 0", NOT_VALID, "failed AccountDisabled"],
    );
}

#[test]
fn temporary_error_does_not_refuse_the_token() {
    check_bearer(&["n,,\x01auth=Bearer offline\x01\x01"], &["token offline - - 0", "failed Unavailable"]);
    check_xoauth2(&["user=ann\x01auth=Bearer offline\x01\x01"], &["token offline ann - 0", "failed Unavailable"]);
}

#[test]
fn non_bearer_credentials_are_refused_like_wrong_tokens() {
    for auth in ["", "Bearer", "Bearer ", "Bearer a b", "Bearer a\"b", "Basic YW5u", "OAuth realm=\"Example\""] {
        let message = format!("n,,\x01auth={auth}\x01\x01");
        check_bearer(&[&message, "\x01"], &[NOT_VALID, "failed InvalidCredentials"]);
        let message = format!("user=ann\x01auth={auth}\x01\x01");
        check_xoauth2(&[&message, ""], &[NOT_VALID_XOAUTH2, "failed InvalidCredentials"]);
    }
}

#[test]
fn unknown_keys_are_ignored() {
    let token_check = format!("token {TOKEN} - - 0");
    let done = "done user@example.com/user@example.com ";
    check_bearer(
        &[&format!("y,,\x01path=/\x01auth=bEARER {TOKEN}\x01user=x\x01user=y\x01\x01")],
        &[&token_check, done],
    );
}

#[test]
fn malformed_oauthbearer_messages_are_refused() {
    for message in ["", "\x01", "n,,", "n,,\x01", "n,,\x01\x01", "n,,\x01\x01\x01", "n,\x01auth=Bearer t\x01\x01"] {
        check_bearer(&[message], &["failed Malformed"]);
    }
    for message in
        ["n,,auth=Bearer t\x01\x01", "n,,\x01auth=Bearer t\x01", "n,,\x01auth=Bearer t", "n,,\x01host=h\x01\x01"]
    {
        check_bearer(&[message], &["failed Malformed"]);
    }
    let pairs = ["x1=y", "=y", "x", "x=\x02", "x=é", "auth=Bearer u", "host=\x7f", "port=", "port=0", "port=0143"];
    for pair in pairs.into_iter().chain(["port=+1", "port=65536", "port=x", "x=\0"]) {
        check_bearer(&[&format!("n,,\x01auth=Bearer t\x01{pair}\x01\x01")], &["failed Malformed"]);
    }
    check_bearer(&["n,,\x01host=a\x01host=b\x01auth=Bearer t\x01\x01"], &["failed Malformed"]);
    check_bearer(&["n,,\x01auth=Bearer t\x01\x01\x01"], &["failed Malformed"]);
}

#[test]
fn oauthbearer_has_no_channel_binding() {
    check_bearer(&["p=tls-exporter,,\x01auth=Bearer t\x01\x01"], &["failed ChannelBinding"]);
}

#[test]
fn xoauth2_reports_the_user() {
    let token_check = format!("token {TOKEN} someuser@example.com - 0");
    let done = "done user@example.com/user@example.com ";
    let message = format!("user=someuser@example.com\x01auth=Bearer {TOKEN}\x01\x01");
    check_xoauth2(&[&message], &[&token_check, done]);
    check_xoauth2(&["-", &message], &["challenge ", &token_check, done]);
    let message = "user=jürgen\x01auth=Bearer t\x01\x01";
    check_xoauth2(&[message], &["token t jürgen - 0", NOT_VALID_XOAUTH2]);
}

#[test]
fn xoauth2_ends_with_an_empty_response_after_an_error() {
    let oauth = OAuthDiscovery { scope: Some("mail \"x\"\\\n".to_owned()), ..OAuthDiscovery::default() };
    let text = error_message(Mechanism::XOAuth2, &oauth);
    assert_eq!(text, r#"{"status":"401","schemes":"bearer","scope":"mail \"x\"\\\u000a"}"#);
    let message = "user=ann\x01auth=Bearer t\x01\x01";
    check_xoauth2(&[message, ""], &["token t ann - 0", NOT_VALID_XOAUTH2, "failed InvalidCredentials"]);
}

#[test]
fn malformed_xoauth2_messages_are_refused() {
    for message in
        ["", "\x01", "user=ann", "user=ann\x01\x01", "auth=Bearer t\x01\x01", "user=\x01auth=Bearer t\x01\x01"]
    {
        check_xoauth2(&[message], &["failed Malformed"]);
    }
    for message in [
        "user=ann\x01auth=Bearer t\x01",
        "user=a\x01user=b\x01auth=Bearer t\x01\x01",
        "user=\x7f\x01auth=Bearer t\x01\x01",
    ] {
        check_xoauth2(&[message], &["failed Malformed"]);
    }
    check_xoauth2(&["n,a=ann,\x01auth=Bearer t\x01\x01"], &["failed Malformed"]);
}
