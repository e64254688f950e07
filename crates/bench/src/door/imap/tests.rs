//! Tests of the door: dialogues with servers that offer much or little, that refuse, that close connections, and that
//! are hostile.

use client::Traffic;

use super::filling::fill_mail_file;
use super::*;
use crate::door::Session;
use crate::door::line_connection::LineConnection;
use crate::door::smtp::Dialect;
use crate::door::smtp::delivery::DeliveryPool;
use crate::door::tests::mail_doors::{self, StepResults, TIME_LIMIT, delivery_of, mail_settings};
use crate::door::tests::scripted_server::{Dialogue, ScriptedServer};
use crate::population::memos::MailFiles;
use crate::workload::units::Share;

const MODERN: &str = "IMAP4rev1 SASL-IR AUTH=PLAIN LITERAL+ UIDPLUS MOVE UNSELECT IDLE NAMESPACE";

/// Returns the actions of a user whose class has these steps.
fn actions(steps: &str) -> Vec<PlanAction> {
    mail_doors::actions(("imap", LEFT_OUT), steps)
}

fn settings(imap: &Place, submission: Option<&Place>, delivery: Option<DeliveryPool>) -> Arc<ImapSettings> {
    Arc::new(ImapSettings { imap: imap.clone(), mail: mail_settings(submission, delivery) })
}

/// A connection on which user 1 logs in to a server with these capabilities.
fn logged_in(capabilities: &str) -> Dialogue {
    let capability_answer = format!("* CAPABILITY {capabilities}|TAG OK done");
    let login = if capabilities.contains("SASL-IR") { "AUTHENTICATE PLAIN AG1haWwxQGJlbmNo" } else { "LOGIN" };
    Dialogue::new("* OK ready")
        .turn("CAPABILITY", &capability_answer)
        .turn(login, "TAG OK in")
        .turn("CAPABILITY", &capability_answer)
}

/// Logs in and performs steps. Returns the result of each, the login included, without the texts of errors.
async fn play(door: &mut ImapDoor, steps: &str) -> StepResults {
    let actions = if steps.is_empty() { Vec::new() } else { actions(steps) };
    mail_doors::play(door, &actions).await
}

/// Plays steps against servers, and returns the results of the steps and the commands that IMAP has received.
async fn dialogue(dialogues: Vec<Dialogue>, steps: &str) -> (StepResults, Vec<String>) {
    let server = ScriptedServer::start(dialogues).await;
    let mut door = ImapDoor::new(&settings(&server.place, None, None), 1);
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

const SELECTED: &str = "* 3 EXISTS|* OK [UIDVALIDITY 7] valid|TAG OK [READ-WRITE] selected";
const ROWS: &str = "* 2 FETCH (UID 12 FLAGS ())|* 3 FETCH (FLAGS (\\Seen) UID 13)|TAG OK done";

/// The flags of both rows.
const STORED: &str = "* 2 FETCH (UID 12 FLAGS ())|* 3 FETCH (UID 13 FLAGS ())|TAG OK done";

#[tokio::test]
async fn a_server_with_extensions_is_used_with_them() {
    let message = "* 3 FETCH (UID 13 BODYSTRUCTURE ((\"TEXT\" \"PLAIN\" NIL NIL NIL \"7BIT\" 1 1)(\"IMAGE\" \"PNG\" NIL \
                   NIL NIL \"BASE64\" 1) \"MIXED\") BODY[] {18}|Subject: A||b|x)|TAG OK done";
    let server = logged_in(MODERN)
        .turn("LIST \"\" \"*\"", "* LIST (\\HasNoChildren \\Sent) \"/\" Outbox|TAG OK done")
        .turn("STATUS \"INBOX\" (MESSAGES UNSEEN)", "* STATUS INBOX (MESSAGES 3 UNSEEN 1)|TAG OK done")
        .turn("SELECT \"INBOX\"", SELECTED)
        .turn("FETCH 2:3 (UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)", ROWS)
        .turn("FETCH 1:1 (UID", "* 1 FETCH (UID 11)|TAG OK done")
        .turn("FETCH 3:3 (UID", "* 3 FETCH (UID 13)|TAG OK done")
        .turn("UID FETCH 13 (BODYSTRUCTURE BODY[])", message)
        .turn("UID FETCH 13 BODY.PEEK[2]", "* 3 FETCH (UID 13 BODY[2] \"x\")|TAG OK done")
        .turn("UID STORE 13 FLAGS (\\Seen $label", "* 3 FETCH (FLAGS (\\Seen $label1) UID 13)|TAG OK done")
        .turn("NAMESPACE", "* NAMESPACE ((\"INBOX.\" \".\")) NIL NIL|TAG OK done")
        .turn("CREATE \"INBOX.Archive\"", "TAG OK done")
        .turn("UID MOVE 13 \"INBOX.Archive\"", "* OK [COPYUID 1 13 1] moved|* 3 EXPUNGE|TAG OK done")
        .turn("APPEND \"INBOX\" (\\Seen) {", "* 3 EXISTS|TAG OK [APPENDUID 7 14] done")
        .turn("UID STORE 14 +FLAGS (\\Deleted)", "* 3 FETCH (UID 14 FLAGS (\\Deleted))|TAG OK done")
        .turn("UID EXPUNGE 14", "* 3 EXPUNGE|TAG OK done")
        .turn("UID SEARCH ", "* SEARCH 11|TAG OK done")
        .turn("UID SEARCH UNSEEN", "* SEARCH|TAG OK done")
        .turn("NOOP", "TAG OK done")
        .turn("IDLE", "+ idling")
        .turn("DONE", "* 3 EXISTS|TAG OK done")
        .turn("UNSELECT", "TAG OK done");
    let steps = "{ verb = \"open_database\" }, { verb = \"open_view\" }, { verb = \"scroll_view\", rows = 2 }, \
                 { verb = \"scroll_view\", rows = 2 }, { verb = \"read\", of = \"newest\", attachments = 1 }, \
                 { verb = \"read_attachment\", of = \"last\" }, { verb = \"update\", of = \"last\" }, \
                 { verb = \"move\", of = \"last\" }, { verb = \"update\", of = \"last\" }, \
                 { verb = \"add\", bytes = 50 }, { verb = \"delete\", of = \"own\" }, { verb = \"search\" }, \
                 { verb = \"list_unread\" }, { verb = \"poll\" }, { verb = \"wait\" }, { verb = \"close_view\" }, \
                 { verb = \"close_database\" }";
    let (results, received) = dialogue(vec![server], steps).await;
    let with_attachment = Ok(Reply::Performed { calls: 2, attachments: 1, reopened: 0 });
    let expected: Vec<_> = [performed(3), performed(2), performed(1), performed(1), performed(1), with_attachment]
        .into_iter()
        .chain([performed(1), performed(1), performed(3), skipped(0), performed(1), performed(2)])
        .chain([performed(1), performed(1), performed(1), performed(1), performed(0), performed(1)])
        .collect();
    assert_eq!(results, expected, "{received:#?}");
}

#[tokio::test]
async fn a_server_without_extensions_is_used_without_them() {
    let server = logged_in("IMAP4rev1")
        .turn("SELECT \"INBOX\"", SELECTED)
        .turn("FETCH 2:3 ", ROWS)
        .turn("LIST", "* LIST (\\Noselect) \".\" Old|* LIST () \".\" INBOX.Done|TAG OK done")
        .turn("UID COPY 1", "TAG OK done")
        .turn("UID STORE 1", "TAG OK done")
        .turn("UID FETCH 1", "* 2 FETCH (UID 12)|* 3 FETCH (UID 13)|TAG OK done")
        .turn("EXPUNGE", "* 2 EXPUNGE|TAG OK done")
        .turn("APPEND \"INBOX\" (\\Seen) {", "TAG OK done")
        .turn("NOOP", "TAG OK done")
        .turn("CLOSE", "TAG OK done");
    let steps = "{ verb = \"scroll_view\", rows = 2 }, { verb = \"move\", to = \"Done\" }, { verb = \"add\", bytes = 9 }, \
                 { verb = \"delete\", of = \"own\" }, { verb = \"wait\" }, { verb = \"close_database\" }";
    let (results, received) = dialogue(vec![server], steps).await;
    let expected = [performed(3), performed(2), performed(5), performed(1), skipped(0), performed(1), performed(1)];
    assert_eq!(results, expected, "{received:#?}");
    assert!(received[1].starts_with("LOGIN \"mail1@bench.test\" \"secret\""), "{received:#?}");
}

/// Another program has deleted the messages of the screen.
#[tokio::test]
async fn steps_of_messages_that_have_vanished_are_skipped() {
    let check = async |capabilities: &str, step: &str, turns: &[(&str, &str)], calls: u32| {
        let begin =
            logged_in(capabilities).turn("SELECT", SELECTED).turn("FETCH 3:3", "* 3 FETCH (UID 13)|TAG OK done");
        let server = turns.iter().fold(begin, |server, (command, answer)| server.turn(command, answer));
        let server = server.turn("NOOP", "TAG OK done");
        let steps = format!("{{ verb = \"scroll_view\", rows = 1 }}, {step}, {step}, {{ verb = \"poll\" }}");
        let (results, received) = dialogue(vec![server], &steps).await;
        assert_eq!(results[2..], [skipped(calls), skipped(0), performed(1)], "{received:#?}");
    };
    let gone = "TAG OK done";
    let stored = [("UID STORE 13 FLAGS (", gone), ("UID FETCH 13 (UID)", gone)];
    check(MODERN, "{ verb = \"update\" }", &stored, 2).await;
    let other = "* 2 FETCH (UID 12 FLAGS (\\Deleted))|TAG OK done";
    let deleted = [("UID STORE 13 +FLAGS (", other), ("UID FETCH 13 (UID)", "TAG NO [EXPUNGEISSUED] gone")];
    check(MODERN, "{ verb = \"delete\" }", &deleted, 2).await;
    let list = ("LIST", "* LIST () \"/\" Done|TAG OK done");
    let step = "{ verb = \"move\", to = \"Done\" }";
    check(MODERN, step, &[list, ("UID MOVE 13", "* 2 EXPUNGE|TAG OK done")], 2).await;
    check(MODERN, step, &[list, ("UID MOVE 13", "TAG NO [EXPUNGEISSUED] gone")], 2).await;
    check("IMAP4rev1 MOVE", step, &[list, ("UID MOVE 13", gone)], 2).await;
    check("IMAP4rev1 UIDPLUS", step, &[list, ("UID COPY 13", gone)], 2).await;
    let copied = [list, ("UID COPY 13", gone), ("UID STORE 13 +FLAGS (", gone), ("UID FETCH 13 (UID)", gone)];
    check("IMAP4rev1", step, &copied, 4).await;
}

#[tokio::test]
async fn a_move_says_so_with_uidplus_or_without() {
    let check = async |capabilities: &str, turns: &[(&str, &str)]| {
        let begin =
            logged_in(capabilities).turn("SELECT", SELECTED).turn("FETCH 3:3", "* 3 FETCH (UID 13)|TAG OK done");
        let begin = begin.turn("LIST", "* LIST () \"/\" Done|TAG OK done");
        let server = turns.iter().fold(begin, |server, (command, answer)| server.turn(command, answer));
        let steps = "{ verb = \"scroll_view\", rows = 1 }, { verb = \"move\", to = \"Done\" }";
        let (results, received) = dialogue(vec![server], steps).await;
        assert_eq!(results[2], performed(1 + turns.len() as u32), "{received:#?}");
    };
    check("IMAP4rev1 MOVE", &[("UID MOVE 13", "* 3 EXPUNGE|TAG OK done")]).await;
    check(MODERN, &[("UID MOVE 13", "* 3 EXPUNGE|TAG OK [COPYUID 9 13 4] done")]).await;
    let expunged = ("UID EXPUNGE 13", "* 3 EXPUNGE|TAG OK done");
    let stored = ("UID STORE 13 +FLAGS (", "* 3 FETCH (UID 13 FLAGS (\\Deleted))|TAG OK done");
    check("IMAP4rev1 UIDPLUS", &[("UID COPY 13", "TAG OK [COPYUID 9 13 4] done"), stored, expunged]).await;
}

#[tokio::test]
async fn refused_logins_have_the_code_of_the_server() {
    let refused = async |dialogue_of_login: Dialogue| dialogue(vec![dialogue_of_login], "").await.0.remove(0);
    let capability_answer = "* CAPABILITY IMAP4rev1|TAG OK done";
    let server = Dialogue::new("* OK ready").turn("CAPABILITY", capability_answer);
    let result = refused(server.clone().turn("LOGIN", "TAG NO [AUTHENTICATIONFAILED] no")).await;
    assert_eq!(result, failed("no-authenticationfailed", Session::Lost));
    assert_eq!(refused(server.turn("LOGIN", "TAG BAD what")).await, failed("bad", Session::Lost));
    let disabled = Dialogue::new("* OK [CAPABILITY IMAP4rev1 LOGINDISABLED] ready");
    assert_eq!(refused(disabled).await, failed("no-login", Session::Lost));
    assert_eq!(refused(Dialogue::new("* BYE [UNAVAILABLE] full")).await, failed("bye-unavailable", Session::Lost));
    assert_eq!(refused(Dialogue::new("220 smtp")).await, failed("malformed", Session::Lost));
    let waiting = Dialogue::new("* OK [CAPABILITY AUTH=PLAIN] ready").turn("AUTHENTICATE PLAIN", "+ ");
    let server = waiting.turn("AG1haWwxQGJlbmNoLnRlc3QAc2VjcmV0", "TAG NO no");
    assert_eq!(refused(server).await, failed("no", Session::Lost));
}

#[tokio::test]
async fn errors_of_commands_keep_or_lose_the_session() {
    let step = async |answer: &'static str| {
        dialogue(vec![logged_in(MODERN).turn("NOOP", answer)], "{ verb = \"poll\" }").await.0.remove(1)
    };
    assert_eq!(step("TAG NO [INUSE] later").await, failed("no-inuse", Session::Kept));
    assert_eq!(step("TAG BAD what").await, failed("bad", Session::Kept));
    assert_eq!(step("* 3 EXISTS").await, failed("connection", Session::Lost));
    assert_eq!(step("* BYE [EXPIRED] bye").await, failed("bye-expired", Session::Lost));
    assert_eq!(step("* 1 FETCH (BODY[] {100}|half").await, failed("connection", Session::Lost));
    assert_eq!(step("d999 OK other").await, failed("malformed", Session::Lost));
    assert_eq!(step("+ more").await, failed("malformed", Session::Lost));
    assert_eq!(step("* LIST (").await, failed("malformed", Session::Lost));
    assert_eq!(step("* 1 FETCH (BODY[] {999999999999}").await, failed("malformed", Session::Lost));
}

/// The server leaves the second command of a login without an answer.
#[tokio::test]
async fn the_calls_of_a_login_that_is_dropped_are_known() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
    let place = Place::unencrypted(&listener.local_addr().expect("it is bound").to_string(), &Traffic::default());
    let (received, reception) = tokio::sync::oneshot::channel();
    let server = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("the client comes");
        let mut socket = BufReader::new(socket);
        let mut line = String::new();
        socket.write_all(b"* OK [CAPABILITY IMAP4rev1 SASL-IR AUTH=PLAIN] ready\r\n").await.expect("read");
        socket.read_line(&mut line).await.expect("text");
        socket.write_all(b"d1 OK in\r\n").await.expect("read");
        socket.read_line(&mut line).await.expect("text");
        received.send(line).expect("the test waits");
        socket
    });
    let mut door = ImapDoor::new(&settings(&place, None, None), 1);
    let lines = tokio::select! {
        ended = door.log_in() => panic!("{ended:?}"),
        lines = reception => lines.expect("both commands"),
    };
    assert!(lines.ends_with("d2 CAPABILITY\r\n"), "{lines}");
    assert_eq!(door.calls(), CallCount { calls: 2, reopened: 0 });
    drop(server.await.expect("no panic"));
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_opened_again() {
    let first = logged_in(MODERN).turn("SELECT", SELECTED).turn("FETCH", ROWS);
    let second = logged_in(MODERN).turn("SELECT", SELECTED).turn("UID STORE 1", STORED).turn("IDLE", "+ idling");
    // The numbers of validity have changed meanwhile.
    let third = logged_in(MODERN).turn("SELECT", "* 1 EXISTS|* OK [UIDVALIDITY 8] valid|TAG OK done");
    let steps =
        "{ verb = \"scroll_view\", rows = 2 }, { verb = \"update\" }, { verb = \"wait\" }, { verb = \"update\" }";
    let (results, received) = dialogue(vec![first, second, third], steps).await;
    let reopened = Ok(Reply::Performed { calls: 5, attachments: 0, reopened: 1 });
    let reopened_in_vain = Ok(Reply::Skipped { calls: 4, reopened: 1 });
    assert_eq!(results, [performed(3), performed(2), reopened, performed(1), reopened_in_vain], "{received:#?}");
}

#[tokio::test]
async fn answers_go_to_the_sender_and_copies_are_saved() {
    let head = "* 3 FETCH (UID 13 BODY[] {75}|From: B <mail2@bench.test>|Subject: =?utf-8?q?B=C3=BCrop?= =?utf-8?q?lan?=)|TAG OK done";
    let imap = logged_in(MODERN)
        .turn("SELECT", SELECTED)
        .turn("FETCH 3:3", "* 3 FETCH (UID 13)|TAG OK done")
        .turn("UID FETCH 13 BODY[]", head)
        .turn("LIST", "* LIST (\\Sent) \"/\" Outbox|TAG OK done")
        .turn("APPEND \"Outbox\" (\\Seen) {", "TAG OK done");
    let imap = ScriptedServer::start(vec![imap]).await;
    let hello = Dialogue::new("220 ready").turn("EHLO", "250-mx|250-PIPELINING|250 AUTH PLAIN").turn("AUTH", "235 ok");
    let envelope = |answers| {
        let begun = hello.clone().turn("MAIL FROM:<mail1@bench.test>", "").turn("RCPT TO:<mail2@bench.test>", "");
        begun.turn("DATA", answers)
    };
    let accepted = envelope("250 ok|250 ok|354 go on").message("250 queued").turn("QUIT", "221 bye");
    let submission = ScriptedServer::start(vec![envelope("250 ok|550 no|503 no"), accepted]).await;
    let mut door = ImapDoor::new(&settings(&imap.place, Some(&submission.place), None), 1);
    let steps = "{ verb = \"read\", of = \"newest\" }, { verb = \"reply\", count = 2, bytes = 100, copy = true }";
    let results = play(&mut door, steps).await;
    // The first submission fails, so it has no copy; the session goes on.
    assert_eq!(results, [performed(3), performed(3), failed("smtp-550", Session::Kept), performed(8)]);
    imap.finish().await;
    assert_eq!(door.memory.last.as_ref().map(|last| last.head.subject.as_str()), Some("B\u{fc}roplan"));
    submission.finish().await;
}

#[tokio::test]
async fn a_refused_idle_keeps_the_connection() {
    let wait = "{ verb = \"wait\" }, { verb = \"poll\" }";
    let server = logged_in(MODERN)
        .turn("SELECT", SELECTED)
        .turn("IDLE", "TAG NO [LIMIT] too many wait")
        .turn("NOOP", "TAG OK done");
    let (results, received) = dialogue(vec![server], wait).await;
    assert_eq!(results[1..], [failed("no-limit", Session::Kept), performed(1)], "{received:#?}");
    let server = logged_in(MODERN).turn("SELECT", SELECTED).turn("IDLE", "* BYE bye");
    let (results, received) = dialogue(vec![server], "{ verb = \"wait\" }").await;
    assert_eq!(results[1..], [failed("connection", Session::Lost)], "{received:#?}");
}

/// Plays a server that answers IDLE the first time, and each further time with `renewed`, and waits for so many
/// renewals and a half. Returns the lines that the server has received, and in which minute.
async fn idle_for(renewals: u32, renewed: &'static str) -> Vec<(String, u64)> {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let (near, far) = tokio::io::duplex(1 << 12);
    let begun = tokio::time::Instant::now();
    let server = tokio::spawn(async move {
        let mut far = BufReader::new(far);
        far.write_all(b"* OK [CAPABILITY IMAP4rev1 IDLE] ready\r\n").await.expect("read");
        let mut received = Vec::new();
        let mut line = String::new();
        let mut tag = String::new();
        while far.read_line(&mut line).await.is_ok_and(|length| length > 0) {
            received.push((line.trim_end().to_owned(), begun.elapsed().as_secs() / 60));
            let answer = match line.trim_end().split_once(' ') {
                Some((word, command)) => {
                    word.clone_into(&mut tag);
                    match (command, received.len()) {
                        ("IDLE", 1) => "+ idling\r\n* 5 EXISTS\r\n".to_owned(),
                        ("IDLE", _) => renewed.replace("TAG", word),
                        _ => format!("{word} OK done\r\n"),
                    }
                }
                None => format!("{tag} OK done\r\n"),
            };
            far.write_all(answer.as_bytes()).await.expect("read");
            line.clear();
        }
        received
    });
    let connection = ImapConnection::greeted(LineConnection::over(near)).await.expect("a greeting");
    let waiting = idling::Waiting::begin(connection).await.expect("it waits");
    let time = idling::RENEWAL * renewals + idling::RENEWAL / 2;
    tokio::time::timeout(time, std::future::pending::<()>()).await.expect_err("the time passes");
    let connection = waiting.end().await.expect("the connection");
    drop(connection);
    server.await.expect("no panic")
}

#[tokio::test(start_paused = true)]
async fn idling_is_renewed_before_the_server_loses_patience() {
    let received = idle_for(1, "+ idling\r\n").await;
    let expected = [("d1 IDLE", 0), ("DONE", 25), ("d2 IDLE", 25), ("DONE", 37)];
    assert_eq!(received, expected.map(|(line, minute)| (line.to_owned(), minute)));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_renew_idle_is_polled() {
    let received = idle_for(2, "TAG NO [LIMIT] too many wait\r\n").await;
    let expected = [("d1 IDLE", 0), ("DONE", 25), ("d2 IDLE", 25), ("d3 NOOP", 50)];
    assert_eq!(received, expected.map(|(line, minute)| (line.to_owned(), minute)));
}

fn mail_files(documents: u64) -> MailFiles {
    mail_doors::mail_files(documents, Share::from_f64(0.5).expect("a share"))
}

#[tokio::test]
async fn mail_files_are_filled_over_lmtp_and_marked() {
    let files = mail_files(3);
    let read: Vec<u32> = (3..).zip(files.memos(1)).filter(|(_, memo)| !memo.is_unread).map(|(at, _)| at).collect();
    assert!((1..3).contains(&read.len()), "the test needs read and unread messages: {read:?}");
    let imap = logged_in(MODERN)
        .turn("SELECT \"INBOX\"", "* 2 EXISTS|TAG OK done")
        .turn("NOOP", "* 4 EXISTS|TAG OK done")
        .turn("NOOP", "* 5 EXISTS|TAG OK done")
        .turn("STORE ", "TAG OK done")
        .turn("LOGOUT", "* BYE|TAG OK done");
    let imap = ScriptedServer::start(vec![imap]).await;
    let lmtp = ScriptedServer::start(vec![delivery_of(&files)]).await;
    let pool = DeliveryPool::new(lmtp.place.clone(), Dialect::Lmtp);
    let settings = settings(&imap.place, None, Some(pool));
    fill_mail_file(&settings, 1, files.memos(1), TIME_LIMIT).await.expect("it is filled");
    let received = imap.finish().await;
    let numbers: Vec<String> = read.iter().map(u32::to_string).collect();
    let store = format!("STORE {} +FLAGS.SILENT (\\Seen)", numbers.join(","));
    let joined = store.replace("3,4 ", "3:4 ").replace("4,5 ", "4:5 ");
    assert_eq!(received[6], joined, "messages that were there before keep their marks");
    lmtp.finish().await;
}

#[tokio::test]
async fn mail_files_are_filled_with_several_messages_a_command() {
    let files = mail_files(25);
    let imap = logged_in("IMAP4rev1 LITERAL+ MULTIAPPEND SASL-IR AUTH=PLAIN")
        .turn("APPEND \"INBOX\" (", "TAG OK done")
        .turn("APPEND \"INBOX\" (", "TAG OK done")
        .turn("LOGOUT", "* BYE|TAG OK done");
    let imap = ScriptedServer::start(vec![imap]).await;
    let settings = settings(&imap.place, None, None);
    fill_mail_file(&settings, 1, files.memos(1), TIME_LIMIT).await.expect("it is filled");
    let received = imap.finish().await;
    let appended = received[3..5].iter().map(|command| command.matches("\nDate: ").count());
    assert_eq!(appended.collect::<Vec<_>>(), [20, 5], "{received:#?}");
    let seen = received[3..5].iter().map(|command| command.matches("(\\Seen) {").count()).sum::<usize>();
    assert_eq!(seen, files.memos(1).filter(|memo| !memo.is_unread).count());
}

#[tokio::test]
async fn filling_does_not_wait_for_a_silent_server() {
    let silent = logged_in("IMAP4rev1").turn("APPEND \"INBOX\" (", "").silence();
    let imap = ScriptedServer::start(vec![silent]).await;
    let settings = settings(&imap.place, None, None);
    let error = fill_mail_file(&settings, 1, mail_files(1).memos(1), TIME_LIMIT).await.expect_err("no answer");
    assert_eq!((&*error.code, error.session, error.calls), ("timeout", Session::Lost, 4));
}
