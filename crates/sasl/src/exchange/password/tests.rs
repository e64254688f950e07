//! Tests of PLAIN and LOGIN: the examples of RFC 4616, and every refusal.

use crate::tests::{context, play};
use crate::{LoginError, LoginProtocol, Mechanism};

fn check(mechanism: Mechanism, messages: &[&str], expected: &[&str]) {
    assert_eq!(play(mechanism, context(LoginProtocol::Imap), messages), expected, "{mechanism} {messages:?}");
}

fn check_plain(message: &str, expected: &[&str]) {
    check(Mechanism::Plain, &[message], expected);
}

fn check_login(messages: &[&str], expected: &[&str]) {
    check(Mechanism::Login, messages, expected);
}

#[test]
fn examples_of_rfc_4616_are_parsed() {
    check_plain("\0tim\0tanstaaftanstaaf", &["password tim - tanstaaftanstaaf", "done tim/tim "]);
    check_plain("Ursel\0Kurt\0xipj3plmq", &["password Kurt Ursel xipj3plmq", "failed NotAuthorized"]);
}

#[test]
fn plain_accepts_initial_response_or_challenge_reply() {
    let password_check = "password ann - secret";
    check(Mechanism::Plain, &["\0ann\0secret"], &[password_check, "done ann/ann "]);
    check(Mechanism::Plain, &["-", "\0ann\0secret"], &["challenge ", password_check, "done ann/ann "]);
}

#[test]
fn plain_reports_another_identity() {
    check_plain("ann\0ann\0secret", &["password ann - secret", "done ann/ann "]);
    check_plain("boss\0ann\0secret", &["password ann boss secret", "done ann/boss "]);
    check_plain("Ann\0ann\0secret", &["password ann Ann secret", "failed NotAuthorized"]);
}

#[test]
fn directory_errors_are_passed_on() {
    check_plain("\0ann\0wrong", &["password ann - wrong", "failed InvalidCredentials"]);
    check_plain("\0dora\0secret", &["password dora - secret", "failed AccountDisabled"]);
    check_plain("\0hasty\0x", &["password hasty - x", "failed Throttled"]);
    check_plain("\0offline\0x", &["password offline - x", "failed Unavailable"]);
}

#[test]
fn malformed_plain_messages_are_refused() {
    for message in ["", "ann", "\0ann", "ann\0secret", "\0ann\0sec\0ret", "\0ann\0secret\0", "\0\0ann\0secret"] {
        check_plain(message, &["failed Malformed"]);
    }
    for message in ["\0\0secret", "\0ann\0", "\0\0", "ann\0\0secret", "boss\0ann\0"] {
        check_plain(message, &["failed Malformed"]);
    }
}

#[test]
fn texts_that_are_not_utf_8_are_refused() {
    for message in [&b"\0\xff\0secret"[..], b"\0ann\0\xc3", b"\xff\0ann\0secret"] {
        assert_eq!(super::parse_plain(message).err(), Some(LoginError::Malformed), "{}", message.escape_ascii());
    }
    assert_eq!(super::parse_login_name(b"\xff").err(), Some(LoginError::Malformed));
    assert_eq!(super::parse_login("ann", b"\xff").err(), Some(LoginError::Malformed));
}

#[test]
fn non_ascii_characters_pass_unchanged() {
    check_plain("\0jürgen\0pässword", &["password jürgen - pässword", "failed InvalidCredentials"]);
    check_login(
        &["jürgen", "pässword"],
        &["challenge Password:", "password jürgen - pässword", "failed InvalidCredentials"],
    );
}

#[test]
fn login_requests_name_and_password() {
    let password_check = "password ann - secret";
    check_login(
        &["-", "ann", "secret"],
        &["challenge Username:", "challenge Password:", password_check, "done ann/ann "],
    );
    check_login(&["ann", "secret"], &["challenge Password:", password_check, "done ann/ann "]);
    check_login(&["ann", "no"], &["challenge Password:", "password ann - no", "failed InvalidCredentials"]);
}

#[test]
fn login_refuses_empty_messages_and_nul() {
    check_login(&["-", ""], &["challenge Username:", "failed Malformed"]);
    check_login(&[""], &["failed Malformed"]);
    check_login(&["an\0n"], &["failed Malformed"]);
    check_login(&["ann", ""], &["challenge Password:", "failed Malformed"]);
    check_login(&["ann", "sec\0ret"], &["challenge Password:", "failed Malformed"]);
}
