//! Tests of sending: dialogues with submission and LMTP services, refusals, and shared connections.

use super::delivery::DeliveryPool;
use super::*;
use crate::door::tests::scripted_server::{Dialogue, ScriptedServer};

fn envelope(recipients: usize) -> Envelope {
    let to = (1..=recipients).map(|number| format!("mail{number}@bench.test")).collect();
    Envelope { from: "mail9@bench.test".to_owned(), to }
}

/// Submits a message, and returns the error and the commands that the server has received.
async fn submit(dialogue: Dialogue, recipients: usize) -> (Result<(), CallError>, Vec<String>, u32) {
    let server = ScriptedServer::start(vec![dialogue]).await;
    let mut count = CallCount::default();
    let sent = async {
        let mut connection = SmtpConnection::submission(&server.place, &mut count).await?;
        connection.log_in(&mut count, ["mail9@bench.test", "secret"]).await?;
        connection.transfer(&mut count, &envelope(recipients), b"Subject: x\r\n\r\n.dot\r\nlast").await?;
        connection.quit(&mut count).await;
        Ok(())
    };
    let sent = sent.await;
    (sent, server.finish().await, count.calls)
}

#[tokio::test]
async fn a_message_is_submitted_after_a_login() {
    let dialogue = Dialogue::new("220-mx.bench.test\r\n220 ready")
        .turn("EHLO [127.0.0.1]", "250-mx.bench.test|250-SIZE 1000|250 AUTH LOGIN PLAIN")
        .turn("AUTH PLAIN AG1haWw5QGJlbmNoLnRlc3QAc2VjcmV0", "235 2.7.0 ok")
        .turn("MAIL FROM:<mail9@bench.test>", "250 ok")
        .turn("RCPT TO:<mail1@bench.test>", "250 ok")
        .turn("RCPT TO:<mail2@bench.test>", "251 forwarded")
        .turn("DATA", "354 go on")
        .turn("Subject: x", "")
        .turn("", "")
        .turn("..dot", "")
        .turn("last", "")
        .turn(".", "250 2.0.0 queued")
        .turn("QUIT", "221 bye");
    let (sent, _, calls) = submit(dialogue, 2).await;
    assert_eq!((sent, calls), (Ok(()), 7));
}

#[tokio::test]
async fn commands_are_sent_at_once_if_the_server_permits_it() {
    let dialogue = Dialogue::new("220 ready")
        .turn("EHLO", "250-mx|250-PIPELINING|250 AUTH=LOGIN")
        .turn("AUTH LOGIN", "334 VXNlcm5hbWU6")
        .turn("bWFpbDlAYmVuY2gudGVzdA==", "334 UGFzc3dvcmQ6")
        .turn("c2VjcmV0", "235 ok")
        // The answers are held back until all commands have arrived.
        .turn("MAIL", "")
        .turn("RCPT", "")
        .turn("RCPT", "")
        .turn("DATA", "250 ok|250 ok|550 5.1.1 no such user|354 go on");
    let (sent, received, _) = submit(dialogue, 2).await;
    let error = sent.expect_err("a recipient is refused");
    assert_eq!((&*error.code, error.text.as_str()), ("smtp-550", "RCPT: 550 5.1.1 no such user"));
    assert_eq!(error.session, Session::Kept);
    assert_eq!(received.len(), 8, "nothing is transferred");
}

#[tokio::test]
async fn refusals_have_the_code_of_the_reply() {
    let hello = || Dialogue::new("220 ready").turn("EHLO", "250-mx|250 AUTH PLAIN");
    let check = |dialogue: Dialogue, expected: &'static str| async move {
        assert_eq!(submit(dialogue, 1).await.0.expect_err("refused").code, expected);
    };
    check(Dialogue::new("421 too many connections"), "smtp-421").await;
    check(Dialogue::new("220 ready").turn("EHLO", "502 what"), "smtp-502").await;
    check(Dialogue::new("220 ready").turn("EHLO", "250 mx"), "smtp-no-login").await;
    check(hello().turn("AUTH", "535 5.7.8 no"), "smtp-535").await;
    let logged_in = || hello().turn("AUTH", "235 ok");
    check(logged_in().turn("MAIL", "452 later"), "smtp-452").await;
    check(logged_in().turn("MAIL", "250 ok").turn("RCPT", "250 ok").turn("DATA", "503 no"), "smtp-503").await;
    check(logged_in().turn("MAIL", "250 ok"), "smtp-connection").await;
    check(logged_in().turn("MAIL", "hello"), "smtp-malformed").await;
    check(logged_in().turn("MAIL", "999 ok"), "smtp-malformed").await;
    check(logged_in().turn("MAIL", "250-ok|550 no"), "smtp-malformed").await;
    let endless = vec!["250-more"; REPLY_LINES_MAX + 1].join("|");
    check(logged_in().turn("MAIL", &endless), "smtp-malformed").await;
}

fn lmtp() -> Dialogue {
    Dialogue::new("220 ready").turn("LHLO", "250 mx")
}

fn message(dialogue: Dialogue, end: &str) -> Dialogue {
    let begun = dialogue.turn("MAIL", "250 ok").turn("RCPT", "250 ok").turn("RCPT", "250 ok").turn("DATA", "354 go on");
    begun.turn("text", "").turn(".", end)
}

#[tokio::test]
async fn connections_are_shared_and_opened_again() {
    let first = message(message(lmtp(), "250 ok|250 ok"), "250 ok|250 ok");
    let second = message(lmtp(), "250 ok|452 4.2.2 full");
    let server = ScriptedServer::start(vec![first, second]).await;
    let pool = DeliveryPool::new(server.place.clone(), Dialect::Lmtp);
    let mut count = CallCount::default();
    for _ in 0..2 {
        pool.deliver(&mut count, &envelope(2), b"text").await.expect("it is delivered");
    }
    assert_eq!((count.calls, count.reopened), (9, 0));
    let refused = pool.deliver(&mut count, &envelope(2), b"text").await.expect_err("a mailbox is full");
    assert_eq!((&*refused.code, count.reopened), ("smtp-452", 1), "each recipient has a reply");
    assert_eq!(server.finish().await.iter().filter(|command| *command == "DATA").count(), 3);
}

#[test]
fn messages_are_transferred_with_dots_and_an_end() {
    let check = |message: &str, expected: &str| assert_eq!(stuffed(message.as_bytes()), expected.as_bytes());
    check("", ".\r\n");
    check("a\r\n", "a\r\n.\r\n");
    check("a", "a\r\n.\r\n");
    check(".\r\n..\r\nb.\r\n", "..\r\n...\r\nb.\r\n.\r\n");
}
