//! Tests the debug events that `log.filter = "pop3=debug"` writes to the log, and that they reveal nothing secret.

use base::sim::{EventRecorder, FieldForm, assert_absent};
use sasl::encode_line;
use sasl::sim::{CLIENT_FINAL, CLIENT_FIRST, SERVER_FINAL, SERVER_FIRST};
use wire::Peer;

use crate::{LETTER, stranger, world};

/// Texts that a client sends or receives and that no event may contain: the password and the name in clear and in
/// base64, and the text of a message.
const SECRETS: &[&str] = &["sesame", "c2VzYW1l", "AGFubkBhY21l", "ann@", "YW5uQGFjbWU", "n=user", "Subject", "octets"];

/// Plays a dialogue and compares the events of the connection after its greeting and before its end.
async fn check(dialogue: &str, expected: &[&str]) {
    let recorder = EventRecorder::new("pop3", |_| FieldForm::Full);
    let _recording = recorder.start();
    let dialogue = format!("S: +OK *\n{dialogue}\nC: QUIT\nS: +OK bye\nEND");
    crate::check(&world(&[LETTER]), Peer::local().numbered(7), &dialogue).await;
    let logged = recorder.take();
    let event = |fields: &str| format!("replied connection=7 peer=local {fields}");
    let mut all = vec!["connection opened connection=7 peer=local tls=false".to_owned()];
    all.push(event(r#"verb="" status="+OK" logged_in=false"#));
    all.extend(expected.iter().map(|fields| event(fields)));
    all.push(event(r#"verb="QUIT" status="+OK" logged_in=true"#));
    all.push("connection closed connection=7 peer=local logged_in=true".to_owned());
    assert_eq!(logged, all);
    assert_absent(&logged, SECRETS);
}

#[tokio::test]
async fn replies_are_logged_without_the_content_of_commands() {
    check(
        "C: sesame ann@acme.test
         S: -ERR unknown command
         C: STAT
         S: -ERR log in first
         C: USER ann@acme.test
         S: +OK send PASS
         C: PASS wrong
         S: -ERR [AUTH] wrong login or password
         C: USER ann@acme.test
         S: +OK send PASS
         C: pass sesame
         S: +OK 1 messages (33 octets)
         C: LIST
         S: +OK *
         S: 1 33
         S: .
         C: RETR 1
         S: +OK 33 octets
         S: Subject: one
         S:
         S: ..dots
         S: ...
         S: last
         S: .",
        &[
            r#"verb="" status="-ERR" logged_in=false"#,
            r#"verb="STAT" status="-ERR" logged_in=false"#,
            r#"verb="USER" status="+OK" logged_in=false"#,
            r#"verb="PASS" status="-ERR" logged_in=false"#,
            r#"verb="USER" status="+OK" logged_in=false"#,
            r#"verb="PASS" status="+OK" logged_in=true"#,
            r#"verb="LIST" status="+OK" logged_in=true"#,
            r#"verb="RETR" status="+OK" logged_in=true"#,
        ],
    )
    .await;
}

#[tokio::test]
async fn logins_are_logged_without_challenges_and_responses() {
    let challenge = r#"verb="AUTH" status="+" logged_in=false"#;
    let success = r#"verb="AUTH" status="+OK" logged_in=true"#;
    let plain = "C: AUTH PLAIN AGFubkBhY21lLnRlc3QAc2VzYW1l\nS: +OK *";
    check(plain, &[success]).await;
    let login = "C: AUTH LOGIN\nS: + *\nC: YW5uQGFjbWUudGVzdA==\nS: + *\nC: c2VzYW1l\nS: +OK *";
    check(login, &[challenge, challenge, success]).await;
    let [first, server_first, last, server_final] =
        [CLIENT_FIRST, SERVER_FIRST, CLIENT_FINAL, SERVER_FINAL].map(|message| encode_line(message.as_bytes()));
    let scram =
        format!("C: AUTH SCRAM-SHA-256 {first}\nS: + {server_first}\nC: {last}\nS: + {server_final}\nC:\nS: +OK *");
    check(&scram, &[challenge, challenge, success]).await;
}

#[tokio::test]
async fn replies_without_a_command_have_no_verb() {
    let recorder = EventRecorder::new("pop3", |_| FieldForm::Full);
    let _recording = recorder.start();
    let dialogue = "S: +OK *\nC: CAPA\nS: +OK *\nS: TOP\nS: UIDL\nS: RESP-CODES\nS: AUTH-RESP-CODE\nS: PIPELINING\n\
                    S: EXPIRE NEVER\nS: UTF8 USER\nS: STLS\nS: IMPLEMENTATION Doublet\nS: .\nDRAIN\nS: -ERR *\nEND";
    crate::check(&world(&[]), stranger().numbered(8), dialogue).await;
    let expected = [
        "connection opened connection=8 peer=192.0.2.7:4711 tls=false",
        r#"replied connection=8 peer=192.0.2.7:4711 verb="" status="+OK" logged_in=false"#,
        r#"replied connection=8 peer=192.0.2.7:4711 verb="CAPA" status="+OK" logged_in=false"#,
        r#"replied connection=8 peer=192.0.2.7:4711 verb="" status="-ERR" logged_in=false"#,
        "connection closed connection=8 peer=192.0.2.7:4711 logged_in=false",
    ];
    assert_eq!(recorder.take(), expected);
}

#[tokio::test]
async fn refused_channel_binding_is_logged_as_a_refused_login() {
    let recorder = EventRecorder::new("login", |_| FieldForm::Full);
    let _recording = recorder.start();
    let not_offered = encode_line(b"y,,n=user,r=abc");
    let dialogue = format!(
        "S: +OK *
         C: STLS
         S: +OK begin TLS
         TLS
         C: AUTH SCRAM-SHA-256 {not_offered}
         S: -ERR the channel binding does not match this connection"
    );
    crate::check(&world(&[]), stranger(), &dialogue).await;
    let logged = recorder.take();
    assert!(matches!(&*logged, [event] if event.starts_with("refused a login protocol=pop3")), "{logged:?}");
    assert_absent(&logged, SECRETS);
}
