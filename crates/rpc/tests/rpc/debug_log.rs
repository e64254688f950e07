//! Tests the debug events that `log.filter = "rpc=debug"` writes to the log, and that they reveal nothing secret.

use base::sim::{EventRecorder, FieldForm, assert_absent};
use futures_util::stream;
use proto::v1::{self, deposit_mail_request::Part};
use tonic::{Code, Status};

use crate::world::{Client, PASSWORD, TestServer, plan, refusal, refused, text};

/// Texts that clients send and that no event may contain: passwords in clear and in base64, names, formulas, queries,
/// addresses, and texts of documents and messages.
const SECRETS: &[&str] = &[PASSWORD, "c2VzYW1l", "wrong", "ann", "hunter2", "@", "SELECT", "the words"];

/// The first fields of all events of a connection.
const CONNECTION: &str = "connection=0 peer=192.0.2.7:4000";

/// Returns the form of a field: a duration differs each time.
fn field_form(name: &str) -> FieldForm {
    if name == "duration_us" { FieldForm::Name } else { FieldForm::Full }
}

/// Returns the event of a call that was answered with a status in the header of its reply, or without one.
fn answered(call: &str, code: &str) -> String {
    let code = if code.is_empty() { String::new() } else { format!(" code={code}") };
    format!(r#"call answered {CONNECTION} path="/doublet.v1.{call}"{code} http_status=200 duration_us"#)
}

/// Returns the events of a call that was refused with a reason word.
fn answered_refusal(call: &str, code: &str, reason: &str) -> [String; 2] {
    [format!(r#"a call was refused code={code} reason="{reason}""#), answered(call, code)]
}

fn check(recorder: &EventRecorder, expected: &[String]) {
    let logged = recorder.take();
    assert_eq!(logged, expected);
    assert_absent(&logged, SECRETS);
}

async fn deposit(client: &Client, sender: &str) -> Result<String, Status> {
    let message = b"From: ann@acme.test\r\nSubject: the words\r\n\r\nthe words\r\n";
    let envelope = v1::deposit_mail_request::Envelope {
        sender: sender.to_owned(),
        recipients: vec!["bob@acme.test".to_owned()],
        length_bytes: message.len() as u64,
        request_id: String::new(),
    };
    let parts = [Part::Envelope(envelope), Part::Content(message.to_vec())];
    let parts = parts.map(|part| v1::DepositMailRequest { part: Some(part) });
    client.mail().deposit_mail(stream::iter(parts)).await.map(|reply| reply.into_inner().id)
}

#[tokio::test]
async fn logins_are_logged_without_passwords() {
    let recorder = EventRecorder::new("rpc", field_form);
    let _recording = recorder.start();
    let server = TestServer::new();
    let client = server.connect().await;
    let outcome = client.try_log_in("ann", "wrong").await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "login"));
    let [refusal_event, answer_event] = answered_refusal("Sessions/Login", "Unauthenticated", "login");
    check(&recorder, &[format!("connection opened {CONNECTION}"), refusal_event, answer_event]);
    let token = client.try_log_in("ann", PASSWORD).await.expect("the password is right").token;
    let logged = recorder.take();
    assert_eq!(logged, [answered("Sessions/Login", "")]);
    assert_absent(&logged, &[PASSWORD, &token]);
    let response = format!("\0ann\0{PASSWORD}").into_bytes();
    let message = v1::AuthenticateRequest { mechanism: "PLAIN".to_owned(), response };
    let replies = client.sessions().authenticate(stream::iter([message])).await;
    let reply = replies.expect("PLAIN is offered").into_inner().message().await.expect("the password is right");
    assert!(reply.is_some_and(|reply| reply.login.is_some()));
    check(&recorder, &[answered("Sessions/Authenticate", "")]);
}

#[tokio::test]
async fn calls_are_logged_without_their_content() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let recorder = EventRecorder::new("rpc", field_form);
    let _recording = recorder.start();
    let formula = refused(Code::InvalidArgument, "formula");

    ann.create(vec![text("Subject", "the words")]).await.expect("ann may create");
    check(&recorder, &[answered("Notes/CreateNote", "")]);

    let search = v1::SearchNotesRequest {
        database: plan(),
        formula: r#"SELECT Subject = "hunter2" & ("#.to_owned(),
        ..Default::default()
    };
    let outcome = ann.notes().search_notes(search).await.map(|_| ());
    assert_eq!(refusal(outcome), formula);
    check(&recorder, &answered_refusal("Notes/SearchNotes", "InvalidArgument", "formula"));

    let query = v1::SearchFullTextRequest { database: plan(), query: "size>hunter2".to_owned(), ..Default::default() };
    let status = ann.search().search_full_text(query).await.expect_err("hunter2 is no size");
    assert!(status.message().contains("hunter2"), "the client sees its query: {status:?}");
    assert_eq!(refusal::<()>(Err(status)), formula);
    check(&recorder, &answered_refusal("Search/SearchFullText", "InvalidArgument", "formula"));

    assert_eq!(refusal(deposit(&ann, "bob@acme.test").await), refused(Code::PermissionDenied, "sender"));
    check(&recorder, &answered_refusal("Mail/DepositMail", "PermissionDenied", "sender"));
    deposit(&ann, "").await.expect("bob takes mail");
    check(&recorder, &[answered("Mail/DepositMail", "")]);
}

#[tokio::test]
async fn unknown_call_and_end_of_connection_are_logged() {
    let recorder = EventRecorder::new("rpc", field_form);
    let _recording = recorder.start();
    let server = TestServer::new();
    let client = server.connect().await;
    let reply = client.post("/doublet.v1.Notes/hunter2").await;
    assert_eq!(reply.status(), 200);
    let unknown = format!("call answered {CONNECTION} code=Unimplemented http_status=200 duration_us");
    check(&recorder, &[format!("connection opened {CONNECTION}"), unknown]);
    drop(reply);
    drop(client);
    let mut logged = Vec::new();
    while logged.is_empty() {
        tokio::task::yield_now().await;
        logged = recorder.take();
    }
    assert!(logged[0].starts_with(&format!("connection closed {CONNECTION}")), "{logged:?}");
}
