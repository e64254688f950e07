//! Tests the debug events that `log.filter = "smtp=debug"` writes to the log, and that they reveal nothing secret.

use std::sync::Arc;
use std::time::Duration;

use base::sim::{EventRecorder, FieldForm, assert_absent};
use sasl::encode_line;
use sasl::sim::{CLIENT_FINAL, CLIENT_FIRST};
use smtp::client::{ClientProtocol, NextHop, Security, SmartHost};
use smtp::connection::serve;
use smtp::listener_rules::ListenerRules;
use tokio::io::AsyncWriteExt;
use wire::{Peer, SessionTermination, Stream};

use crate::dialogues::SessionDriver;
use crate::dns::Zone;
use crate::loopback::{outgoing, recipients, service, start_scripted_server, transfer};

/// Texts that a client sends and that no event may contain: passwords in clear and in base64, addresses, names, and
/// texts of messages.
const SECRETS: &[&str] = &["secret", "c2VjcmV0", "AGFsaWNl", "YWxpY2U", "n=user", "@", "client.example", "the words"];

/// Sends lines of a client to a server and compares the events of their replies.
fn check(rules: ListenerRules, dialogue: &[(&str, &[&str])]) {
    let recorder = EventRecorder::new("smtp", |_| FieldForm::Full);
    let _recording = recorder.start();
    let mut driver = SessionDriver::new(rules, Peer::local().numbered(7));
    let event = |fields: &&str| format!("replied connection=7 peer=local {fields}");
    assert_eq!(recorder.take(), [event(&r#"verb="" code=220"#)]);
    for (sent, expected) in dialogue {
        driver.send(format!("{sent}\r\n").as_bytes());
        let logged = recorder.take();
        assert_eq!(logged, expected.iter().map(event).collect::<Vec<_>>(), "{sent}");
        assert_absent(&logged, SECRETS);
    }
}

fn submission() -> ListenerRules {
    ListenerRules::submission("mx.example", "b.example")
}

#[test]
fn replies_are_logged_without_the_content_of_commands() {
    check(
        submission(),
        &[
            ("EHLO client.example", &[r#"verb="EHLO" code=250"#]),
            ("secret words", &[r#"verb="" code=500"#]),
            ("AUTH PLAIN AGFsaWNlAHdyb25n", &[r#"verb="AUTH" code=535"#]),
            ("NOOP secret", &[r#"verb="NOOP" code=250"#]),
            ("AUTH PLAIN AGFsaWNlAHNlY3JldA==", &[r#"verb="AUTH" code=235 login="alice""#]),
            ("MAIL FROM:<alice@b.example>", &[r#"verb="MAIL" code=250 login="alice""#]),
            ("RCPT TO:<nobody@b.example>", &[r#"verb="RCPT" code=550 login="alice""#]),
            ("RCPT TO:<bob@b.example>", &[r#"verb="RCPT" code=250 login="alice""#]),
            ("DATA", &[r#"verb="DATA" code=354 login="alice""#]),
            ("From: alice@b.example\r\nSubject: the words\r\n\r\nQUIT", &[]),
            (".", &[r#"verb="DATA" code=250 login="alice""#]),
            ("the words", &[r#"verb="" code=500 login="alice""#]),
            ("QUIT", &[r#"verb="QUIT" code=221 login="alice""#]),
        ],
    );
}

#[test]
fn logins_are_logged_without_challenges_and_responses() {
    let challenge = r#"verb="AUTH" code=334"#;
    let success = r#"verb="AUTH" code=235 login="alice""#;
    let begin: (&str, &[&str]) = ("EHLO client.example", &[r#"verb="EHLO" code=250"#]);
    check(submission(), &[begin, ("AUTH PLAIN", &[challenge]), ("AGFsaWNlAHNlY3JldA==", &[success])]);
    check(submission(), &[begin, ("AUTH LOGIN", &[challenge]), ("YWxpY2U=", &[challenge]), ("c2VjcmV0", &[success])]);
    let first = format!("AUTH SCRAM-SHA-256 {}", encode_line(CLIENT_FIRST.as_bytes()));
    let last = encode_line(CLIENT_FINAL.as_bytes());
    check(submission(), &[begin, (&first, &[challenge]), (&last, &[challenge]), ("", &[success])]);
}

#[test]
fn each_reply_after_a_message_is_logged_in_lmtp() {
    let after_data = r#"verb="DATA" code=250"#;
    check(
        ListenerRules::lmtp("mx.example", "b.example"),
        &[
            ("LHLO client.example", &[r#"verb="LHLO" code=250"#]),
            ("MAIL FROM:<a@c.example>", &[r#"verb="MAIL" code=250"#]),
            ("RCPT TO:<alice@b.example>", &[r#"verb="RCPT" code=250"#]),
            ("RCPT TO:<bob@b.example>", &[r#"verb="RCPT" code=250"#]),
            ("DATA", &[r#"verb="DATA" code=354"#]),
            ("Subject: the words\r\n\r\nthe words\r\n.", &[after_data, after_data]),
        ],
    );
}

#[tokio::test]
async fn connection_open_and_close_are_logged() {
    let recorder = EventRecorder::new("smtp", |_| FieldForm::Full);
    let _recording = recorder.start();
    let (service, _, _) = service(ListenerRules::reception("mx.b.example", "b.example"), None);
    let (server, mut client) = Stream::duplex(1_024);
    client.write_all(b"NOOP\r\nQUIT\r\n").await.expect("the stream takes a few bytes");
    let peer = Peer::local().numbered(7);
    serve(server, peer, service, SessionTermination::default()).await.expect("a proper end");
    let expected = [
        "connection opened connection=7 peer=local tls=false",
        r#"replied connection=7 peer=local verb="" code=220"#,
        r#"replied connection=7 peer=local verb="NOOP" code=250"#,
        r#"replied connection=7 peer=local verb="QUIT" code=221"#,
        "connection closed connection=7 peer=local",
    ];
    assert_eq!(recorder.take(), expected);
}

/// Sends a message to a server that follows a script, and compares the events of its replies.
async fn check_client(script: &'static str, expected: &[&str]) {
    let recorder = EventRecorder::new("smtp", |_| FieldForm::Full);
    let _recording = recorder.start();
    let (port, _) = start_scripted_server(&[script]).await;
    let transfer = transfer(Zone::default(), port, |options| options.reuse = Duration::ZERO).await;
    let host = SmartHost {
        name: "127.0.0.1".to_owned(),
        port,
        security: Security::Clear,
        login: Some(("user".to_owned(), "secret".to_owned())),
        protocol: ClientProtocol::Smtp,
    };
    let to = recipients(&["x@b.example"]);
    let message = b"From: a@c.example\r\nSubject: the words\r\n\r\nthe words\r\n";
    transfer.send(&NextHop::Host(Arc::new(host)), &outgoing(&to, message)).await;
    let logged = recorder.take();
    let event = |fields: &&str| format!(r#"reply received server="127.0.0.1" {fields}"#);
    assert_eq!(logged, expected.iter().map(event).collect::<Vec<_>>());
    assert_absent(&logged, SECRETS);
    assert_absent(&logged, &["dXNlcg", "AHVzZXIAc2VjcmV0"]);
}

#[tokio::test]
async fn replies_of_other_servers_are_logged_without_the_password() {
    let greeting = r#"verb="" code=220"#;
    let ehlo = r#"verb="EHLO" code=250"#;
    let challenge = r#"verb="AUTH" code=334"#;
    let success = r#"verb="AUTH" code=235"#;
    let mail = r#"verb="MAIL" code=250"#;
    let rcpt = r#"verb="RCPT" code=250"#;
    let data = r#"verb="DATA" code=354"#;
    let end_of_data = r#"verb="DATA" code=250"#;
    let quit = r#"verb="QUIT" code=221"#;
    check_client(
        "> 220 x\n< EHLO\n> 250-x\n> 250 AUTH LOGIN\n< AUTH LOGIN\n> 334 VXNlcm5hbWU6\n< dXNlcg==\n\
         > 334 UGFzc3dvcmQ6\n< c2VjcmV0\n> 235 ok\n< MAIL\n> 250 ok\n< RCPT\n> 250 ok\n< DATA\n> 354 go\ntext\n\
         > 250 done\n< QUIT\n> 221 bye",
        &[greeting, ehlo, challenge, challenge, success, mail, rcpt, data, end_of_data, quit],
    )
    .await;
    check_client(
        "> 220 x\n< EHLO\n> 250-x\n> 250-PIPELINING\n> 250 AUTH PLAIN\n< AUTH PLAIN AHVzZXIAc2VjcmV0\n> 235 ok\n\
         < MAIL\n< RCPT\n< DATA\n> 250 ok\n> 250 ok\n> 354 go\ntext\n> 250 done\n< QUIT\n> 221 bye",
        &[greeting, ehlo, success, mail, rcpt, data, end_of_data, quit],
    )
    .await;
}
