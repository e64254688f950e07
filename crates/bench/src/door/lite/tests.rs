//! Tests of the door against a small web mail: what is requested for each verb, and what becomes of pages that refuse,
//! end the session or say nothing.

use super::*;
use crate::door::Session;
use crate::door::http::tests::fake_server::{Answer, FakeServer, Seen};
use crate::plan::steps::tests::actions_of;
use crate::population::content::Purpose;
use crate::population::memos::MailFiles;
use crate::workload::profile::SizeProfile;
use crate::workload::units::Share;

const PASSWORD: &str = "secret word";
const LOGIN_FORM: &str = "<form method=post action=/login><input type=hidden name=token value=t0><input name=who>\
    <input type=password name=key><button>Log in</button></form>";
const NAVIGATION: &str = "<link rel=stylesheet href=/style><a href=/in>Inbox</a> <a href=/folders>Folders</a> \
    <a href=/write>Write</a> <a href=/search>Search</a>\
    <form method=post action=/logout><input type=hidden name=token value=t1><button>Log out</button></form>";
const COMPOSER: &str = "<form method=post action=/write enctype=multipart/form-data>\
    <input type=hidden name=token value=t2><input name=to value='Mail 2 <mail2@bench.test>'>\
    <input name=cc value='b@x.test'>\
    <input name=subject value='Re: plan'><textarea name=body>\n> old</textarea>\
    <input type=file name=file><button name=do value=send>Send</button><button name=do value=save>Save</button>\
    <button name=do value=look>Look up</button></form>";

fn settings(server: &FakeServer) -> Arc<LiteSettings> {
    Arc::new(LiteSettings {
        origin: Arc::clone(&server.origin),
        names: UserNames::parse("mail{}@bench.test").expect("a pattern"),
        password: PASSWORD.to_owned(),
        size_scale: 1.0,
        filler: None,
    })
}

fn page(content: &str) -> Answer {
    Answer::page(200, &format!("<title>A page</title>{NAVIGATION}{content}"))
}

/// Returns a page of the inbox with two messages.
fn list(number: usize, next: &str) -> Answer {
    let row = |uid: usize| {
        format!("<tr><td><input type=checkbox name=uid value={uid}><td><a href='/in/{uid}'>Subject</a></tr>")
    };
    page(&format!(
        "<form method=post action=/in><input type=hidden name=token value=t3>{next}<table>{}{}</table>\
         <button name=do value=delete>Delete</button><button name=do value=flag>Flag</button>\
         <button name=do value=unflag>No flag</button><select name=to><option value=7>Done</option></select>\
         <button name=do value=move>Move</button></form>",
        row(10 * number + 2),
        row(10 * number + 1)
    ))
}

/// Answers as a web mail with an inbox of two pages.
fn answer(seen: &Seen) -> Answer {
    let is_logged_in = seen.header("cookie") == "session=1";
    match (seen.method.as_str(), seen.target.as_str()) {
        ("GET", "/style") => Answer::page(200, "p {}"),
        ("GET", "/login") => Answer::page(200, LOGIN_FORM),
        ("POST", "/login") if seen.text() == "token=t0&who=mail1%40bench.test&key=secret+word" => {
            Answer::redirection(303, "/in").with("Set-Cookie", "session=1; Path=/")
        }
        ("POST", "/login") => Answer::page(403, &format!("<div role=alert>Wrong password</div>{LOGIN_FORM}")),
        ("GET", "/") if !is_logged_in => Answer::redirection(302, "/login"),
        _ if !is_logged_in => Answer::page(401, LOGIN_FORM),
        ("GET", "/in") => list(1, "<a rel=next href='/in?page=2'>Next</a>"),
        ("GET", "/in?page=2") => list(2, "<a href=/in>First</a>"),
        ("GET", target) if target.ends_with("/part/3") => Answer::page(200, "file"),
        ("GET", target) if target.starts_with("/in/") => page(
            "<a href=/write?reply=1>Reply</a><a rel='noopener nofollow' href='/x/part/1'>x</a>\
             <a href='5/part/3'>a.bin</a><a href='5/part/3?show'>View</a>\
             <form method=post action=/in><input type=hidden name=uid value=11>\
             <button name=do value=delete>Delete</button></form>",
        ),
        ("POST", "/in") => Answer::redirection(303, "/in"),
        ("GET", "/folders") => page(
            "<table><tr><td><a href=/done>Done</a></tr><tr><td><a href=/drafts>Drafts</a></tr></table><form method=post action=/folders><input name=name>\
             <button name=do value=create>Create</button></form>",
        ),
        ("POST", "/folders") => Answer::redirection(303, "/folders"),
        ("GET", target) if target.starts_with("/search") => page("<form action=/search><input name=q></form>"),
        ("GET", target) if target.starts_with("/write") => page(COMPOSER),
        ("POST", "/write") if seen.text().contains("send\r\n") => Answer::redirection(303, "/in"),
        ("POST", "/write") if seen.text().contains("save\r\n") => Answer::redirection(303, "/write?draft=9&done=saved"),
        ("POST", "/write") => page(COMPOSER),
        ("GET", "/drafts") => page(
            "<form method=post action=/drafts><table><tr><td><input type=checkbox name=uid value=99>\
             <td><a href='/write?draft=99'>Of another program</a></tr><tr><td><input type=checkbox name=uid value=9>\
             <td><a href='/write?draft=9'>Saved</a></tr></table><button name=do value=delete>Delete</button>\
             <button name=do value=flag>Flag</button><button name=do value=unflag>No flag</button>\
             <select name=to><option value=7>Done</option></select><button name=do value=move>Move</button></form>",
        ),
        ("POST", "/drafts") => Answer::redirection(303, "/drafts"),
        ("GET", "/done") => list(3, ""),
        _ => Answer::page(404, "<title>Not found</title>"),
    }
}

/// Performs steps and returns the result of each, with the requests.
async fn performed(server: &FakeServer, door: &mut LiteDoor, steps: &str) -> Vec<String> {
    server.performed(door, &actions_of(steps), request).await
}

/// Returns the target of a request, and what its form says.
fn request(seen: &Seen) -> String {
    let form = seen.text();
    let form = if form.starts_with("--") || form.is_empty() { String::new() } else { format!("[{form}]") };
    format!("{}{}{form}", if seen.method == "POST" { "!" } else { "" }, seen.target)
}

async fn logged_in(server: &FakeServer) -> LiteDoor {
    let mut door = LiteDoor::new(&settings(server), 1);
    let reply = door.log_in().await.expect("a login");
    assert_eq!(reply, Reply::Performed { calls: 5, attachments: 0, reopened: 0 }, "with the style sheet");
    door
}

#[tokio::test]
async fn each_verb_has_its_pages() {
    let server = FakeServer::start(answer).await;
    let mut door = logged_in(&server).await;
    let steps = r#"{ verb = "read" }, { verb = "open_database" }, { verb = "open_view" }, { verb = "scroll_view" },
        { verb = "scroll_view" }, { verb = "scroll_view", at = "random" }, { verb = "open_view", view = "Done" },
        { verb = "poll" }, { verb = "read", attachments = 1.0 }, { verb = "read_attachment", of = "last" },
        { verb = "close_view" }, { verb = "read", count = 3, of = "newest" }, { verb = "delete", of = "last" },
        { verb = "delete" }, { verb = "move", to = "done" }, { verb = "lookup", names = 2 },
        { verb = "search", words = 2 }, { verb = "wait" }, { verb = "close_database" }"#;
    let lines = performed(&server, &mut door, steps).await;
    let expected = [
        "read skipped: ",
        "open_database: /folders",
        "open_view: /in",
        "scroll_view: /in?page=2",
        "scroll_view: /in",
        "scroll_view: /in?page=2",
        "open_view: /folders /done",
        "poll: /in",
        "read (1): /in/11",
        "read_attachment: /in/5/part/3",
        "close_view: ",
        "read (1): /in /in/12",
        "read (1): /in/11",
        "read skipped: ",
        "delete: !/in[uid=11&do=delete] /in",
        "delete: !/in[token=t3&to=7&uid=12&do=delete] /in",
        "move: !/in[token=t3&to=7&uid=11&do=move] /in",
        "lookup: /write !/write",
        "search: /search /search?q=",
        "wait: ",
        "close_database: ",
    ];
    // The words of the search are drawn.
    let without_words = |line: &String| match line.split_once("?q=") {
        Some((line, words)) if words.split('+').count() == 2 => format!("{line}?q="),
        _ => line.clone(),
    };
    assert_eq!(lines.iter().map(without_words).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn messages_are_written_in_the_composer() {
    let server = FakeServer::start(answer).await;
    let mut door = logged_in(&server).await;
    let steps = r#"{ verb = "open_view" }, { verb = "read" }, { verb = "reply", bytes = 10 },
        { verb = "send", recipients = 2, profile = "p" }, { verb = "add", bytes = 10 }"#;
    let lines = performed(&server, &mut door, steps).await;
    assert_eq!(
        lines[2..],
        [
            "reply: /write?reply=1 !/write /in",
            "send: /write !/write /in",
            "add: /write !/write /write?draft=9&done=saved"
        ]
    );
    let sent: Vec<String> =
        server.seen().iter().filter(|seen| seen.target == "/write" && seen.method == "POST").map(Seen::text).collect();
    let has = |form: usize, field: &str, value: &str| {
        let part = format!("name=\"{field}\"\r\n\r\n{value}\r\n--");
        assert!(sent[form].contains(&part), "{field}: {}", sent[form]);
    };
    has(0, "token", "t2");
    has(0, "to", "mail2@bench.test");
    has(0, "cc", "");
    has(0, "subject", "Re: plan");
    has(0, "do", "send");
    assert!(sent[0].contains("\r\n> old\r\n--"), "the quoted text is kept: {}", sent[0]);
    assert!(sent[1].contains("name=\"to\"\r\n\r\nmail") && sent[1].contains(", mail"), "two recipients: {}", sent[1]);
    assert!(!sent[1].contains("filename=\"\"") && sent[0].contains("filename=\"\""), "one has a file: {}", sent[1]);
    has(2, "to", "mail1@bench.test");
    has(2, "do", "save");
    let origin = server.origin.text();
    assert!(server.seen().iter().filter(|seen| seen.method == "POST").all(|seen| seen.header("origin") == origin));
}

/// The page of a message has no button for each flag.
#[tokio::test]
async fn flags_are_set_in_the_list() {
    let server = FakeServer::start(answer).await;
    let mut door = logged_in(&server).await;
    let steps = r#"{ verb = "read", of = "newest" }, { verb = "update", of = "last" }"#;
    let lines = performed(&server, &mut door, steps).await;
    let flag =
        lines[1].strip_prefix("update: !/in[token=t3&to=7&uid=12&do=").and_then(|rest| rest.strip_suffix("] /in"));
    assert!(flag.is_some_and(|flag| ["flag", "unflag"].contains(&flag)), "{lines:?}");
}

#[tokio::test]
async fn drafts_are_found_in_their_folder() {
    let server = FakeServer::start(answer).await;
    let mut door = logged_in(&server).await;
    let steps = r#"{ verb = "delete", of = "own" }, { verb = "add", bytes = 10 }, { verb = "read", of = "own" },
        { verb = "delete", of = "own" }, { verb = "delete", of = "own" }"#;
    let lines = performed(&server, &mut door, steps).await;
    let expected = [
        "delete skipped: ",
        "add: /write !/write /write?draft=9&done=saved",
        "read: /folders /drafts /write?draft=9",
        "delete: /folders /drafts !/drafts[to=7&uid=9&do=delete] /drafts",
        "delete skipped: ",
    ];
    assert_eq!(lines, expected);
}

/// Steps with drafts read the folder of drafts, and the user still has the page of the inbox on the screen.
#[tokio::test]
async fn steps_with_drafts_change_no_screen() {
    let server = FakeServer::start(answer).await;
    let mut door = logged_in(&server).await;
    let steps = r#"{ verb = "open_view" }, { verb = "add", bytes = 10 }, { verb = "update", of = "own" },
        { verb = "scroll_view" }, { verb = "move", of = "own", to = "done" }, { verb = "delete" }"#;
    let lines = performed(&server, &mut door, steps).await;
    let updated = lines[2].replace("do=unflag", "do=flag");
    assert_eq!(updated, "update: /folders /drafts !/drafts[to=7&uid=9&do=flag] /drafts");
    assert_eq!(lines[3], "scroll_view: /in?page=2");
    assert_eq!(lines[4], "move: /folders /drafts !/drafts[to=7&uid=9&do=move] /drafts");
    let deleted = ["21", "22"].map(|uid| format!("delete: !/in[token=t3&to=7&uid={uid}&do=delete] /in"));
    assert!(deleted.contains(&lines[5]), "{lines:?}");
}

#[tokio::test]
async fn the_style_sheet_is_loaded_once() {
    let server = FakeServer::start(answer).await;
    let mut door = logged_in(&server).await;
    performed(&server, &mut door, "{ verb = \"open_view\" }, { verb = \"open_database\" }").await;
    door.disconnect();
    let error = door.perform(&actions_of("{ verb = \"poll\" }")[0]).await.expect_err("disconnected");
    assert_eq!((&*error.code, error.session), ("session", Session::Lost));
    let reply = door.log_in().await.expect("a login");
    assert_eq!(reply, Reply::Performed { calls: 4, attachments: 0, reopened: 0 });
    door.log_out().await;
    let requests: Vec<String> = server.seen().iter().map(request).collect();
    assert_eq!(requests.iter().filter(|request| *request == "/style").count(), 1);
    assert_eq!(requests.last().map(String::as_str), Some("!/logout[token=t1]"));
}

#[tokio::test]
async fn a_refused_login_is_an_error() {
    let server = FakeServer::start(answer).await;
    let settings = LiteSettings { password: "wrong".to_owned(), ..Arc::into_inner(settings(&server)).expect("one") };
    let mut door = LiteDoor::new(&Arc::new(settings), 1);
    let error = door.log_in().await.expect_err("refused");
    assert_eq!((&*error.code, error.session, &*error.text), ("login-refused", Session::Lost, "Wrong password"));
    for (page, code) in [("<form><input name=q></form>", "malformed"), ("", "malformed")] {
        let server = FakeServer::start(move |_: &Seen| Answer::page(200, page)).await;
        let error = LiteDoor::new(&self::settings(&server), 1).log_in().await.expect_err("no login form");
        assert_eq!((&*error.code, error.session), (code, Session::Lost));
    }
    let in_address = FakeServer::start(|seen: &Seen| match seen.target.as_str() {
        "/" => Answer::page(200, &LOGIN_FORM.replace("method=post ", "")),
        _ => panic!("nothing is sent"),
    });
    let error = LiteDoor::new(&self::settings(&in_address.await), 1).log_in().await.expect_err("not sent");
    assert_eq!((&*error.code, error.session, error.calls), ("malformed", Session::Lost, 1));
    let elsewhere = FakeServer::start(|seen: &Seen| match seen.method.as_str() {
        "GET" => Answer::page(200, &LOGIN_FORM.replace("/login", "https://192.0.2.1/login")),
        _ => panic!("nothing is sent"),
    });
    let error = LiteDoor::new(&self::settings(&elsewhere.await), 1).log_in().await.expect_err("another server");
    assert_eq!((&*error.code, error.calls), ("malformed", 1));
}

/// Checks the results of steps after the login of a user to whom the server answers so from then on.
async fn check_answer(later: impl Fn(&Seen) -> Answer + Send + 'static, steps: &str, expected: &[&str]) {
    let server = FakeServer::start(move |seen: &Seen| if seen.number < 5 { answer(seen) } else { later(seen) }).await;
    let mut door = logged_in(&server).await;
    let lines = performed(&server, &mut door, steps).await;
    let results: Vec<&str> = lines.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(results, expected);
}

#[tokio::test]
async fn sessions_that_end_and_connections_that_break_are_lost() {
    let steps = "{ verb = \"open_database\" }";
    check_answer(|_| Answer::page(401, LOGIN_FORM), steps, &["open_database session-ended Lost"]).await;
    check_answer(|_| Answer::page(200, LOGIN_FORM), steps, &["open_database session-ended Lost"]).await;
    let leading_to_login = |seen: &Seen| match seen.target.as_str() {
        "/login" => Answer::page(200, LOGIN_FORM),
        _ => Answer::redirection(303, "/login"),
    };
    check_answer(leading_to_login, steps, &["open_database session-ended Lost"]).await;
    let without_downloads = move |seen: &Seen| match seen.target.as_str() {
        target if target.contains("/part/") => Answer::redirection(303, "/login"),
        _ => answer(seen),
    };
    let download = r#"{ verb = "open_view" }, { verb = "read" }, { verb = "read_attachment", of = "last" }"#;
    let results = ["open_view", "read (1)", "read_attachment session-ended Lost"];
    check_answer(without_downloads, download, &results).await;
    check_answer(|_| Answer::page(401, COMPOSER), steps, &["open_database session-ended Lost"]).await;
    check_answer(|_| Answer::Close, steps, &["open_database connection Lost"]).await;
}

#[tokio::test]
async fn pages_that_say_nothing_are_errors() {
    let steps = r#"{ verb = "send", bytes = 10 }, { verb = "search" }, { verb = "lookup" },
        { verb = "open_view", view = "x" }, { verb = "poll" }, { verb = "read" }"#;
    let malformed = [
        "send malformed Kept",
        "search malformed Kept",
        "lookup malformed Kept",
        "open_view not-found Kept",
        "poll",
        "read skipped",
    ];
    check_answer(|_| Answer::page(200, "<p>nothing"), steps, &malformed).await;
    let step = "{ verb = \"poll\" }";
    check_answer(|_| Answer::Endless, step, &["poll malformed Kept"]).await;
    check_answer(|_| Answer::page(200, &"<a href=x>".repeat(6_000)), step, &["poll malformed Kept"]).await;
    check_answer(|_| Answer::page(500, "<title>Broken"), step, &["poll http-500 Kept"]).await;
}

#[tokio::test]
async fn a_refused_message_is_an_error() {
    let refusing = |status: u16| {
        move |seen: &Seen| match seen.method.as_str() {
            "POST" => Answer::page(status, &format!("<div role=alert>Nobody</div>{COMPOSER}")),
            _ => answer(seen),
        }
    };
    let step = "{ verb = \"send\", bytes = 10 }";
    check_answer(refusing(422), step, &["send http-422 Kept"]).await;
    check_answer(refusing(200), step, &["send send-refused Kept"]).await;
}

#[tokio::test]
async fn mail_files_are_not_filled_without_jmap() {
    let server = FakeServer::start(answer).await;
    let files = |documents| MailFiles {
        seed: 1,
        users: 20,
        documents,
        archive: 0,
        profile: SizeProfile::server_load(),
        size_scale: 0.001,
        unread: Share::ALL,
        purpose: Purpose::Message,
        masters: 20,
        own: Share::ALL,
    };
    let error = fill_mail_file(&settings(&server), 1, files(1).memos(1), Duration::ZERO).await.expect_err("no filler");
    assert_eq!(&*error.code, "not-offered");
    fill_mail_file(&settings(&server), 1, files(0).memos(1), Duration::ZERO).await.expect("nothing to fill");
    assert!(server.seen().is_empty());
}
