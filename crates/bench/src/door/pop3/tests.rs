//! Tests of the door: dialogues with servers that offer much or little, that refuse, that close connections, and that
//! are hostile.

use super::filling::fill_mail_file;
use super::*;
use crate::door::Session;
use crate::door::smtp::Dialect;
use crate::door::smtp::delivery::DeliveryPool;
use crate::door::tests::mail_doors::{self, StepResults, TIME_LIMIT, delivery_of, mail_settings};
use crate::door::tests::scripted_server::{Dialogue, ScriptedServer};
use crate::population::memos::MailFiles;
use crate::workload::units::Share;

/// The list of three messages.
const IDS: &str = "+OK|1 a|2 b|3 c|.";

/// Returns the actions of a user whose class has these steps.
fn actions(steps: &str) -> Vec<PlanAction> {
    mail_doors::actions(("pop3", LEFT_OUT), steps)
}

fn settings(pop3: &Place, submission: Option<&Place>, delivery: Option<DeliveryPool>) -> Arc<Pop3Settings> {
    Arc::new(Pop3Settings { pop3: pop3.clone(), mail: mail_settings(submission, delivery) })
}

/// A connection on which user 1 logs in.
fn logged_in() -> Dialogue {
    Dialogue::new("+OK ready")
        .turn("CAPA", "+OK|TOP|USER|UIDL|SASL SCRAM-SHA-256 PLAIN|.")
        .turn("AUTH PLAIN AG1haWwxQGJlbmNoLnRlc3QAc2VjcmV0", "+OK 3 messages")
}

/// Logs in and performs steps. Returns the result of each, the login included, without the texts of errors.
async fn play(door: &mut Pop3Door, steps: &str) -> StepResults {
    let actions = if steps.is_empty() { Vec::new() } else { actions(steps) };
    mail_doors::play(door, &actions).await
}

/// Plays steps against servers, and returns the results of the steps and the commands that POP3 has received.
async fn dialogue(dialogues: Vec<Dialogue>, steps: &str) -> (StepResults, Vec<String>) {
    let server = ScriptedServer::start(dialogues).await;
    let mut door = Pop3Door::new(&settings(&server.place, None, None), 1);
    let results = play(&mut door, steps).await;
    drop(door);
    (results, server.finish().await)
}

fn performed(calls: u32) -> Result<Reply, (String, Session)> {
    Ok(Reply::Performed { calls, attachments: 0, reopened: 0 })
}

fn skipped(calls: u32) -> Result<Reply, (String, Session)> {
    Ok(Reply::Skipped { calls, reopened: 0 })
}

fn failed(code: &str, session: Session) -> Result<Reply, (String, Session)> {
    Err((code.to_owned(), session))
}

#[tokio::test]
async fn mail_is_fetched_in_two_sessions() {
    let first = logged_in()
        .turn("STAT", "+OK 3 320")
        .turn("UIDL", IDS)
        .turn("LIST", "+OK|1 100|2 100|3 120|.")
        .turn("RETR 3", "+OK|Subject: C||..dot|.")
        .turn("RETR 2", "+OK|Subject: B||b|.")
        .turn("DELE 2", "+OK")
        .turn("QUIT", "+OK bye");
    let second = logged_in().turn("STAT", "+OK 3 300").turn("UIDL", "+OK|1 a|2 c|3 d|.").turn("RETR 3", "+OK|A: b||.");
    let steps = "{ verb = \"open_database\" }, { verb = \"open_view\" }, { verb = \"scroll_view\" }, \
                 { verb = \"read\", count = 2, of = \"newest\", attachments = 1 }, \
                 { verb = \"delete\", of = \"last\" }, { verb = \"close_view\" }, { verb = \"close_database\" }, \
                 { verb = \"open_database\" }, { verb = \"read\", of = \"newest\" }";
    let (results, received) = dialogue(vec![first, second], steps).await;
    let expected = [2, 1, 1, 1, 1, 1, 1, 0, 1, 3, 2].map(performed);
    assert_eq!(results, expected, "{received:#?}");
}

/// A session shows what was there at its login, so one that was looked at is not looked at again.
#[tokio::test]
async fn each_look_for_new_mail_is_a_session() {
    let look = || logged_in().turn("STAT", "+OK 3 320");
    let quit = || look().turn("QUIT", "+OK bye");
    let listed = logged_in().turn("STAT", "+OK 3 320").turn("UIDL", IDS).turn("QUIT", "+OK bye");
    let steps = "{ verb = \"poll\", count = 2 }, { verb = \"open_view\" }, { verb = \"poll\" }";
    let (results, received) = dialogue(vec![quit(), listed, look()], steps).await;
    assert_eq!(results, [performed(2), performed(1), performed(4), performed(1), performed(4)], "{received:#?}");
}

#[tokio::test]
async fn servers_are_logged_in_to_as_they_offer() {
    let login = async |dialogue_of_login: Dialogue| dialogue(vec![dialogue_of_login], "").await.0.remove(0);
    let hello = || Dialogue::new("+OK ready");
    let by_user = |server: Dialogue| server.turn("USER mail1@bench.test", "+OK").turn("PASS secret", "+OK");
    assert_eq!(login(by_user(hello().turn("CAPA", "-ERR unknown"))).await, performed(3));
    assert_eq!(login(by_user(hello().turn("CAPA", "+OK|USER|SASL CRAM-MD5|."))).await, performed(3));
    let continued = hello().turn("CAPA", "+OK|SASL PLAIN|.").turn("AUTH PLAIN ", "+ ").turn("AG1haWwx", "+OK in");
    assert_eq!(login(continued).await, performed(2));
    assert_eq!(login(hello().turn("CAPA", "+OK|STLS|.")).await, failed("no-login", Session::Lost));
    let refused = hello().turn("CAPA", "+OK|SASL PLAIN|.").turn("AUTH PLAIN", "-ERR [AUTH] AG1haWwx is wrong");
    assert_eq!(login(refused).await, failed("err-auth", Session::Lost));
    let in_use = hello().turn("CAPA", "-ERR").turn("USER", "+OK").turn("PASS", "-ERR [IN-USE] locked");
    assert_eq!(login(in_use).await, failed("err-in-use", Session::Lost));
    assert_eq!(login(Dialogue::new("-ERR [SYS/TEMP] full")).await, failed("err-sys-temp", Session::Lost));
    assert_eq!(login(Dialogue::new("* OK IMAP4rev1")).await, failed("malformed", Session::Lost));
    assert_eq!(login(hello()).await, failed("connection", Session::Lost));
}

#[tokio::test]
async fn the_error_of_a_login_has_no_password() {
    let server =
        Dialogue::new("+OK").turn("CAPA", "-ERR").turn("USER", "+OK").turn("PASS", "-ERR PASS secret is wrong");
    let server = ScriptedServer::start(vec![server]).await;
    let mut door = Pop3Door::new(&settings(&server.place, None, None), 1);
    let error = door.log_in().await.expect_err("refused");
    assert_eq!((&*error.code, &*error.text), ("err", "the login: err"));
}

/// Another program has deleted messages, during the session and before it.
#[tokio::test]
async fn steps_of_messages_that_have_vanished_are_skipped() {
    let first = logged_in()
        .turn("UIDL", IDS)
        .turn("RETR 3", "-ERR this message no longer exists")
        .turn("RETR 2", "+OK|Subject: B||.")
        .turn("DELE 2", "-ERR no such message")
        .turn("RETR 1", "+OK|Subject: A||.")
        .turn("QUIT", "+OK bye");
    let second = logged_in().turn("UIDL", "+OK|1 c|.");
    let steps = "{ verb = \"read\", count = 2, of = \"newest\" }, { verb = \"delete\", of = \"last\" }, \
                 { verb = \"read\", of = \"newest\" }, { verb = \"close_database\" }, \
                 { verb = \"delete\", of = \"last\" }, { verb = \"reply\", of = \"last\" }";
    let (results, received) = dialogue(vec![first, second], steps).await;
    let expected =
        [performed(2), skipped(2), performed(1), skipped(1), performed(1), performed(1), skipped(3), skipped(0)];
    assert_eq!(results, expected, "{received:#?}");
}

#[tokio::test]
async fn screens_go_from_the_newest_to_older_messages() {
    let sizes = "+OK|1 9|2 9|3 9|.";
    let server = logged_in()
        .turn("UIDL", IDS)
        .turn("LIST", sizes)
        .turn("RETR 3", "+OK|.")
        .turn("LIST", sizes)
        .turn("RETR 2", "+OK|.")
        .turn("LIST", sizes)
        .turn("LIST", sizes)
        .turn("RETR 3", "+OK|.");
    let read = "{ verb = \"read\" }";
    let next = "{ verb = \"scroll_view\", rows = 1 }";
    let (results, received) =
        dialogue(vec![server], &format!("{next}, {read}, {next}, {read}, {next}, {next}, {read}")).await;
    let expected = [2, 2, 1, 1, 1, 1, 1, 1].map(performed);
    assert_eq!(results, expected, "{received:#?}");
}

#[tokio::test]
async fn errors_of_commands_keep_or_lose_the_session() {
    let step = async |answer: &'static str| {
        let server = logged_in().turn("UIDL", answer);
        dialogue(vec![server], "{ verb = \"open_view\" }").await.0.remove(1)
    };
    assert_eq!(step("-ERR [SYS/TEMP] later").await, failed("err-sys-temp", Session::Kept));
    assert_eq!(step("-ERR unknown command").await, failed("err", Session::Kept));
    assert_eq!(step("+OK|1 a").await, failed("connection", Session::Lost));
    assert_eq!(step("250 ok").await, failed("malformed", Session::Lost));
    assert_eq!(step("+ more").await, failed("malformed", Session::Lost));
    let long: &'static str = Box::leak(format!("+OK|1 {}|.", "x".repeat(70_000)).into_boxed_str());
    assert_eq!(step(long).await, failed("malformed", Session::Lost));
    let not_removed = logged_in().turn("QUIT", "-ERR [SYS/TEMP] some messages were not removed");
    let (results, _) = dialogue(vec![not_removed], "{ verb = \"close_database\" }").await;
    assert_eq!(results[1], failed("err-sys-temp", Session::Kept));
}

#[tokio::test]
async fn endless_messages_are_refused() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound").to_string();
    let place = Place::unencrypted(&address, &client::Traffic::default());
    let server = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("the client comes");
        let mut socket = BufReader::new(socket);
        socket.write_all(b"+OK ready\r\n").await.expect("read");
        for answer in ["-ERR\r\n", "+OK\r\n", "+OK\r\n", "+OK\r\n1 a\r\n.\r\n", "+OK\r\n"] {
            socket.read_line(&mut String::new()).await.expect("text");
            socket.write_all(answer.as_bytes()).await.expect("read");
        }
        let line = [vec![b'x'; 1 << 16], b"\r\n".to_vec()].concat();
        while socket.write_all(&line).await.is_ok() {}
    });
    let mut door = Pop3Door::new(&settings(&place, None, None), 1);
    let results = play(&mut door, "{ verb = \"read\", of = \"newest\" }").await;
    assert_eq!(results[1..], [failed("malformed", Session::Lost)]);
    door.disconnect();
    server.await.expect("it ends with the connection");
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_opened_again() {
    let first = logged_in().turn("UIDL", IDS).turn("RETR 3", "+OK|Subject: C||.");
    let second = logged_in().turn("UIDL", "+OK|1 b|2 c|.").turn("RETR 2", "+OK|Subject: C||.");
    let steps = "{ verb = \"read\", of = \"newest\" }, { verb = \"read\", of = \"last\" }, { verb = \"poll\" }";
    let third = logged_in().turn("STAT", "+OK 2 20");
    let (results, received) = dialogue(vec![first, second, third], steps).await;
    let reopened = |calls| Ok(Reply::Performed { calls, attachments: 0, reopened: 1 });
    assert_eq!(results, [performed(2), performed(2), reopened(4), reopened(3)], "{received:#?}");
}

#[tokio::test]
async fn the_end_of_a_session_that_was_closed_opens_no_connection() {
    let first = logged_in().turn("STAT", "+OK 3 320");
    let steps = "{ verb = \"poll\" }, { verb = \"close_database\" }, { verb = \"poll\" }";
    let (results, received) = dialogue(vec![first, logged_in().turn("STAT", "+OK 3 320")], steps).await;
    assert_eq!(results, [performed(2), performed(1), performed(0), performed(3)], "{received:#?}");
}

/// A session without QUIT removes no messages.
#[tokio::test]
async fn marks_are_lost_with_the_connection() {
    for step in ["{ verb = \"close_database\" }", "{ verb = \"poll\" }", "{ verb = \"read\", of = \"newest\" }"] {
        let server = logged_in().turn("UIDL", IDS).turn("DELE 3", "+OK");
        let steps = format!("{{ verb = \"delete\", of = \"newest\" }}, {step}");
        let (results, _) = dialogue(vec![server], &steps).await;
        assert_eq!(results, [performed(2), performed(2), failed("connection", Session::Lost)], "{step}");
    }
    let refused = logged_in().turn("UIDL", IDS).turn("DELE 3", "-ERR no such message");
    let steps = "{ verb = \"delete\", of = \"newest\" }, { verb = \"close_database\" }";
    let (results, _) = dialogue(vec![refused], steps).await;
    assert_eq!(results, [performed(2), skipped(2), performed(0)], "nothing is marked");
}

#[tokio::test]
async fn answers_go_to_the_sender() {
    let pop3 = logged_in()
        .turn("UIDL", IDS)
        .turn("RETR 3", "+OK|From: B <mail2@bench.test>|Subject: =?utf-8?q?B=C3=BCroplan?=||.");
    let pop3 = ScriptedServer::start(vec![pop3.turn("QUIT", "+OK bye")]).await;
    let accepted = Dialogue::new("220 ready")
        .turn("EHLO", "250-mx|250-PIPELINING|250 AUTH PLAIN")
        .turn("AUTH", "235 ok")
        .turn("MAIL FROM:<mail1@bench.test>", "")
        .turn("RCPT TO:<mail2@bench.test>", "")
        .turn("DATA", "250 ok|250 ok|354 go on")
        .message("250 queued")
        .turn("QUIT", "221 bye");
    let submission = ScriptedServer::start(vec![accepted]).await;
    let mut door = Pop3Door::new(&settings(&pop3.place, Some(&submission.place), None), 1);
    let steps = "{ verb = \"read\", of = \"newest\" }, { verb = \"reply\", bytes = 100, copy = true }";
    let results = play(&mut door, steps).await;
    assert_eq!(results, [performed(2), performed(2), performed(6)]);
    assert_eq!(door.memory.last.as_ref().map(|last| last.head.subject.as_str()), Some("B\u{fc}roplan"));
    door.log_out().await;
    assert_eq!(door.calls(), CallCount { calls: 1, reopened: 0 });
    let after = door.perform(&actions("{ verb = \"poll\" }")[0]).await.expect_err("logged out");
    assert_eq!((&*after.code, after.session, after.calls), ("session", Session::Lost, 0));
    pop3.finish().await;
    submission.finish().await;
}

fn mail_files(documents: u64) -> MailFiles {
    mail_doors::mail_files(documents, Share::ALL)
}

#[tokio::test]
async fn mail_files_are_filled_over_lmtp() {
    let files = mail_files(2);
    let look = |status: &str| logged_in().turn("STAT", status).turn("QUIT", "+OK bye");
    let pop3 = ScriptedServer::start(vec![look("+OK 5 500"), look("+OK 7 700")]).await;
    let lmtp = ScriptedServer::start(vec![delivery_of(&files)]).await;
    let pool = DeliveryPool::new(lmtp.place.clone(), Dialect::Lmtp);
    let settings = settings(&pop3.place, None, Some(pool));
    fill_mail_file(&settings, 1, files.memos(1), TIME_LIMIT).await.expect("it is filled");
    pop3.finish().await;
    lmtp.finish().await;
}

#[tokio::test]
async fn mail_files_are_not_filled_without_a_way() {
    let look = || logged_in().turn("STAT", "+OK 0 0").turn("QUIT", "+OK bye");
    let pop3 = ScriptedServer::start(vec![look(), look()]).await;
    let settings = settings(&pop3.place, None, None);
    fill_mail_file(&settings, 1, mail_files(0).memos(1), TIME_LIMIT).await.expect("nothing to fill");
    let error = fill_mail_file(&settings, 1, mail_files(1).memos(1), TIME_LIMIT).await.expect_err("no way");
    assert_eq!(&*error.code, "not-offered");
    pop3.finish().await;
}

#[tokio::test]
async fn filling_does_not_wait_for_a_silent_server() {
    let pop3 = ScriptedServer::start(vec![logged_in().turn("STAT", "").silence()]).await;
    let settings = settings(&pop3.place, None, None);
    let error = fill_mail_file(&settings, 1, mail_files(0).memos(1), TIME_LIMIT).await.expect_err("no answer");
    assert_eq!((&*error.code, error.session, error.calls), ("timeout", Session::Lost, 3));
}
