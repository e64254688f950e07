//! Tests of the door against a server that answers as it is told: what is requested for each verb, and what becomes of
//! servers that refuse, break off or answer nonsense.

use serde_json::{Value, json};

use super::account::tests::session;
use super::*;
use crate::door::Session;
use crate::door::http::tests::fake_server::{Answer, FakeServer, Seen};
use crate::plan::steps::tests::actions_of;
use crate::population::content::Purpose;
use crate::population::memos::{MailFiles, StoredMemo};
use crate::workload::profile::SizeProfile;
use crate::workload::units::Share;

const PASSWORD: &str = "secret";
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// `mail1@bench.test:secret`
const LOGIN: &str = "Basic bWFpbDFAYmVuY2gudGVzdDpzZWNyZXQ=";

fn settings(server: &FakeServer) -> Arc<JmapSettings> {
    Arc::new(JmapSettings {
        origin: Arc::clone(&server.origin),
        names: UserNames::parse("mail{}@bench.test").expect("a pattern"),
        password: PASSWORD.to_owned(),
        size_scale: 1.0,
        creator: None,
    })
}

/// Answers as a server with three messages.
fn answer(seen: &Seen) -> Answer {
    if seen.header("authorization") != LOGIN {
        return Answer::page(401, "{}");
    }
    let json = |value: Value| Answer::page(200, &value.to_string());
    match seen.target.as_str() {
        "/.well-known/jmap" => Answer::redirection(302, "/session"),
        "/session" => json(session()),
        "/api/" => json(json!({ "methodResponses": responses(&seen.text()) })),
        "/upload/A1/" => json(json!({ "blobId": "U1" })),
        "/download/A1/B1/a.bin?accept=application%2Foctet-stream" => Answer::page(200, "file"),
        target if target.starts_with("/events?") => Answer::Endless,
        _ => Answer::page(404, "{}"),
    }
}

fn responses(request: &str) -> Vec<Value> {
    let request: Value = serde_json::from_str(request).expect("a request");
    let calls = request["methodCalls"].as_array().expect("calls").clone();
    calls.into_iter().map(|call| json!([call[0], result_of(&call), call[2]])).collect()
}

fn result_of(call: &Value) -> Value {
    let arguments = &call[1];
    let created = |key: &str| -> Value {
        let names = arguments[key].as_object().into_iter().flat_map(|objects| objects.keys());
        names.map(|name| (name.clone(), json!({ "id": format!("new-{name}") }))).collect()
    };
    let set = || {
        let updated = arguments["update"].as_object().into_iter().flat_map(|objects| objects.keys());
        let updated: Value = updated.map(|id| (id.clone(), Value::Null)).collect();
        json!({ "created": created("create"), "updated": updated, "destroyed": arguments["destroy"] })
    };
    match call[0].as_str().expect("a name") {
        "Mailbox/get" => json!({ "list": [
            { "id": "m1", "name": "Inbox", "role": "inbox" },
            { "id": "m2", "name": "Drafts", "role": "drafts" },
            { "id": "m3", "name": "Sent", "role": "sent" },
        ] }),
        "Email/query" => json!({ "ids": ["e3", "e2"], "total": 3 }),
        "Email/get" => json!({ "state": "s0", "list": [{
            "id": arguments["ids"].get(0).unwrap_or(&json!("e3")),
            "from": [{ "email": "mail2@bench.test" }],
            "subject": "plan",
            "messageId": ["m@x"],
            "attachments": [{ "blobId": "B1", "name": "a.bin" }],
        }] }),
        "Email/import" => json!({ "created": created("emails") }),
        "Email/changes" => json!({ "newState": "s1", "hasMoreChanges": arguments["sinceState"] == "s0" }),
        "Mailbox/set" | "Email/set" | "EmailSubmission/set" => set(),
        "Identity/get" => json!({ "list": [{ "id": "i1", "email": "mail1@bench.test" }] }),
        _ => json!({ "ids": [], "list": [] }),
    }
}

/// Returns what a request asks for.
fn summary(seen: &Seen) -> String {
    if seen.target != "/api/" {
        return seen.target.split('?').next().unwrap_or_default().to_owned();
    }
    let request: Value = serde_json::from_str(&seen.text()).expect("a request");
    let calls = request["methodCalls"].as_array().expect("calls");
    let names: Vec<&str> = calls.iter().map(|call| call[0].as_str().expect("a name")).collect();
    names.join("+")
}

/// Performs steps and returns the result of each, with the requests.
async fn performed(server: &FakeServer, door: &mut JmapDoor, steps: &str) -> Vec<String> {
    server.performed(door, &actions_of(steps), summary).await
}

async fn logged_in(server: &FakeServer) -> JmapDoor {
    let mut door = JmapDoor::new(&settings(server), 1);
    let reply = door.log_in().await.expect("a login");
    assert_eq!(reply, Reply::Performed { calls: 2, attachments: 0, reopened: 0 });
    door
}

#[tokio::test]
async fn each_verb_has_its_requests() {
    let server = FakeServer::start(answer).await;
    let mut door = logged_in(&server).await;
    let steps = r#"{ verb = "read" }, { verb = "open_database" }, { verb = "open_view" }, { verb = "scroll_view" },
        { verb = "read", attachments = 1.0 }, { verb = "read_attachment" }, { verb = "read", count = 3, of = "newest" },
        { verb = "update" }, { verb = "reply", bytes = 10, copy = true }, { verb = "send", bytes = 10 },
        { verb = "move", to = "Done" }, { verb = "delete" }, { verb = "add", bytes = 10 },
        { verb = "delete", of = "own" }, { verb = "lookup", names = 5 }, { verb = "search", words = 2 },
        { verb = "poll" }, { verb = "poll" }, { verb = "wait" }, { verb = "wait" }, { verb = "list_unread" },
        { verb = "close_view" }"#;
    let lines = performed(&server, &mut door, steps).await;
    let expected = [
        "read skipped: ",
        "open_database: Mailbox/get",
        "open_view: Email/query",
        "scroll_view: Email/query+Email/get",
        "read (1): Email/get+Email/set",
        "read_attachment: Email/get+Email/set /download/A1/B1/a.bin",
        "read (1): Email/query+Email/get Email/get+Email/set",
        "read (1): Email/get+Email/set",
        "read skipped: ",
        "update: Email/set",
        "reply: Identity/get Email/set+EmailSubmission/set",
        "send: Email/set+EmailSubmission/set",
        "move: Mailbox/set Email/set",
        "delete: Email/set",
        "add: /upload/A1/ Email/import",
        "delete: Email/set",
        "lookup: Principal/query+Principal/get+Principal/query+Principal/get \
         Principal/query+Principal/get+Principal/query+Principal/get Principal/query+Principal/get",
        "search: Email/query+Email/get",
        "poll: Email/get",
        "poll: Email/changes Email/changes",
        "wait: /events",
        "wait: ",
        "list_unread: Email/query",
        "close_view: ",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_message_is_sent_from_a_draft() {
    let server = FakeServer::start(answer).await;
    let mut door = logged_in(&server).await;
    let steps = r#"{ verb = "scroll_view" }, { verb = "read" }, { verb = "reply", bytes = 10, copy = true },
        { verb = "send", to = "self", bytes = 10 }"#;
    performed(&server, &mut door, steps).await;
    let sent: Vec<Value> = server
        .seen()
        .iter()
        .filter(|seen| summary(seen) == "Email/set+EmailSubmission/set")
        .map(|seen| serde_json::from_str::<Value>(&seen.text()).expect("a request")["methodCalls"].take())
        .collect();
    let [reply, send] = &sent[..] else { panic!("two messages") };
    let draft = &reply[0][1]["create"]["draft"];
    assert_eq!((&draft["to"][0]["email"], &draft["subject"]), (&json!("mail2@bench.test"), &json!("Re: plan")));
    assert_eq!((&draft["inReplyTo"], &draft["mailboxIds"]), (&json!(["m@x"]), &json!({ "m2": true })));
    assert_eq!(reply[0][1]["update"]["e2"], json!({ "keywords/$answered": true }));
    let moved = json!({ "#sent": { "keywords/$draft": null, "mailboxIds/m2": null, "mailboxIds/m3": true } });
    assert_eq!(
        (&reply[1][1]["onSuccessUpdateEmail"], &reply[1][1]["create"]["sent"]["identityId"]),
        (&moved, &json!("i1"))
    );
    assert_eq!(send[0][1]["create"]["draft"]["to"][0]["email"], "mail1@bench.test");
    assert_eq!(send[1][1]["onSuccessDestroyEmail"], json!(["#sent"]));
}

#[tokio::test]
async fn the_limits_of_the_server_are_honoured() {
    let server = FakeServer::start(answer).await;
    let mut door = logged_in(&server).await;
    let steps = r#"{ verb = "open_view" }, { verb = "scroll_view", rows = 50 }, { verb = "list_unread" }"#;
    performed(&server, &mut door, steps).await;
    let requests = server.seen();
    let queries = requests.iter().filter(|seen| summary(seen).starts_with("Email/query"));
    for query in queries {
        let request: Value = serde_json::from_str(&query.text()).expect("a request");
        assert_eq!(request["methodCalls"][0][1]["limit"], 2, "maxObjectsInGet");
    }
}

#[tokio::test]
async fn a_refused_login_is_an_error() {
    let server = FakeServer::start(|_: &Seen| Answer::page(401, "")).await;
    let mut door = JmapDoor::new(&settings(&server), 1);
    let error = door.log_in().await.expect_err("refused");
    assert_eq!((&*error.code, error.session, error.calls), ("login-refused", Session::Lost, 1));
    assert!(!error.text.contains(PASSWORD), "{}", error.text);
    let error = door.perform(&actions_of("{ verb = \"poll\" }")[0]).await.expect_err("not logged in");
    assert_eq!((&*error.code, error.session, error.calls), ("session", Session::Lost, 0));
}

/// Checks the error of an `open_database` to which the server answers so.
async fn check_answer(to_api: Answer, code: &str, session: Session) {
    let server =
        FakeServer::start(move |seen: &Seen| if seen.target == "/api/" { to_api.clone() } else { answer(seen) });
    let server = server.await;
    let mut door = logged_in(&server).await;
    let lines = performed(&server, &mut door, "{ verb = \"open_database\" }").await;
    let requests = server.seen().len() - 2;
    let expected = format!("open_database {code} {session:?}: {}", vec!["Mailbox/get"; requests].join(" "));
    assert_eq!(lines, [expected]);
}

#[tokio::test]
async fn sessions_that_end_and_connections_that_break_are_lost() {
    check_answer(Answer::page(401, "{}"), "http-401", Session::Lost).await;
    check_answer(Answer::Close, "connection", Session::Lost).await;
    check_answer(Answer::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_vec()), "connection", Session::Lost)
        .await;
}

#[tokio::test]
async fn hostile_answers_are_errors() {
    for text in ["", "{", "[]", "{\"methodResponses\": 5}", "{\"methodResponses\": [[\"Mailbox/get\", {}]]}"] {
        check_answer(Answer::page(200, text), "malformed", Session::Kept).await;
    }
    check_answer(Answer::Endless, "malformed", Session::Kept).await;
    check_answer(Answer::redirection(302, "https://192.0.2.1/"), "redirection", Session::Kept).await;
    check_answer(Answer::page(503, "busy"), "http-503", Session::Kept).await;
    let limit = "{\"type\": \"urn:ietf:params:jmap:error:limit\"}";
    check_answer(Answer::page(400, limit), "limit", Session::Kept).await;
    let failed = json!({ "methodResponses": [["error", { "type": "serverFail" }, "0"]] }).to_string();
    check_answer(Answer::page(200, &failed), "serverFail", Session::Kept).await;
}

#[tokio::test]
async fn what_the_server_does_not_have_is_an_error() {
    let server = FakeServer::start(|seen: &Seen| match seen.target.as_str() {
        "/session" => {
            let mut session = session();
            session["accounts"] = json!({});
            session["eventSourceUrl"] = json!(null);
            session["primaryAccounts"] = json!({ super::account::MAIL: "A1" });
            Answer::page(200, &session.to_string())
        }
        _ => answer(seen),
    });
    let server = server.await;
    let missing = missing_verbs(&settings(&server), TIME_LIMIT).await.expect("a login");
    let missing: Vec<Verb> = missing.into_iter().map(|(verb, _)| verb).collect();
    assert_eq!(missing, [Verb::Send, Verb::Reply, Verb::Lookup, Verb::Wait]);
    let complete = FakeServer::start(answer).await;
    assert_eq!(missing_verbs(&settings(&complete), TIME_LIMIT).await.expect("a login"), []);
    for (status, is_missing) in [(404, true), (500, false), (403, false)] {
        let refusing = FakeServer::start(move |seen: &Seen| match seen.target.as_str() {
            target if target.starts_with("/events?") => Answer::page(status, ""),
            _ => answer(seen),
        });
        let missing = missing_verbs(&settings(&refusing.await), TIME_LIMIT).await;
        let wait = vec![(Verb::Wait, "the server has no event source")];
        let code = format!("http-{status}").into();
        assert_eq!(missing.map_err(|error| error.code), if is_missing { Ok(wait) } else { Err(code) });
    }
    let silent = missing_verbs(&settings(&complete), Duration::ZERO).await.expect_err("no time");
    assert_eq!((&*silent.code, silent.session), ("timeout", Session::Lost));
    let mut door = logged_in(&server).await;
    let steps = r#"{ verb = "send", bytes = 10 }, { verb = "lookup" }, { verb = "wait" }"#;
    let lines = performed(&server, &mut door, steps).await;
    assert_eq!(lines, ["send unsupported Kept: ", "lookup unsupported Kept: ", "wait unsupported Kept: "]);
}

fn mail_files() -> MailFiles {
    MailFiles {
        seed: 1,
        users: 20,
        documents: 4,
        archive: 0,
        profile: SizeProfile::server_load(),
        size_scale: 0.001,
        unread: Share::from_f64(0.5).expect("a share"),
        purpose: Purpose::Document,
        masters: 20,
        own: Share::ALL,
    }
}

#[tokio::test]
async fn mail_files_are_filled_by_imports() {
    let server = FakeServer::start(answer).await;
    let files = mail_files();
    let memos: Vec<StoredMemo> = files.memos(1).collect();
    filling::fill_mail_file(&settings(&server), 1, memos.clone().into_iter(), TIME_LIMIT).await.expect("filled");
    let requests: Vec<String> = server.seen().iter().skip(2).map(summary).collect();
    let upload = "/upload/A1/";
    assert_eq!(requests, ["Mailbox/get", upload, upload, upload, "Email/import", upload, "Email/import"]);
    let first = server.seen()[3].text();
    assert!(first.contains(&format!("Message-ID: <{}@bench.test>\r\n", memos[0].content.reference)), "{first}");
    let import: Value = serde_json::from_str(&server.seen()[6].text()).expect("a request");
    let emails = import["methodCalls"][0][1]["emails"].as_object().expect("emails").clone();
    let read: Vec<bool> = emails.values().map(|email| email["keywords"] == json!({ "$seen": true })).collect();
    assert_eq!(read, memos[..3].iter().map(|memo| !memo.is_unread).collect::<Vec<_>>());
    assert!(emails.values().all(|email| email["mailboxIds"] == json!({ "m1": true })));
    assert!(emails["0"]["receivedAt"].as_str() < emails["1"]["receivedAt"].as_str(), "{emails:?}");
}

#[tokio::test]
async fn archives_are_created_and_filled() {
    let server = FakeServer::start(answer).await;
    let files = MailFiles { documents: 1, archive: 2, ..mail_files() };
    filling::fill_mail_file(&settings(&server), 1, files.memos(1), TIME_LIMIT).await.expect("filled");
    let requests: Vec<String> = server.seen().iter().skip(2).map(summary).collect();
    let upload = "/upload/A1/";
    let import = "Email/import";
    assert_eq!(requests, ["Mailbox/get", upload, upload, "Mailbox/set", upload, import]);
    let text = server.seen()[7].text();
    let imported: Value = serde_json::from_str(&text).expect("a request");
    let emails = imported["methodCalls"][0][1]["emails"].as_object().expect("emails").clone();
    let mailboxes: Vec<&Value> = emails.values().map(|email| &email["mailboxIds"]).collect();
    assert_eq!(mailboxes[0], &json!({ "m1": true }));
    assert!(mailboxes[1..].iter().all(|ids| ids == &mailboxes[1] && ids != &mailboxes[0]), "{mailboxes:?}");
}

#[tokio::test]
async fn filling_does_not_wait_for_a_silent_server() {
    let silent = |seen: &Seen| if seen.target.starts_with("/upload/") { Answer::Silence } else { answer(seen) };
    let server = FakeServer::start(silent).await;
    let filled = filling::fill_mail_file(&settings(&server), 1, mail_files().memos(1), TIME_LIMIT).await;
    let error = filled.expect_err("no answer");
    assert_eq!((&*error.code, error.session), ("timeout", Session::Lost));
    assert_eq!(error.calls as usize, server.seen().len());
}
