//! Tests the debug events that `log.filter = "rpc=debug"` writes to the log, and that they reveal nothing secret.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use futures_util::stream;
use proto::v1::{self, deposit_mail_request::Part};
use tonic::{Code, Status};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber, subscriber};

use crate::world::{Client, PASSWORD, TestServer, plan, refusal, refused, text};

/// Texts that clients send and that no event may contain: passwords in clear and in base64, names, formulas, queries,
/// addresses, and texts of documents and messages.
const SECRETS: &[&str] = &[PASSWORD, "c2VzYW1l", "wrong", "ann", "hunter2", "@", "SELECT", "the words"];

/// The first fields of all events of a connection.
const CONNECTION: &str = "connection=0 peer=192.0.2.7:4000";

/// Records the events of the target `rpc` and of its modules as lines: the message, then the fields.
#[derive(Clone, Default)]
struct EventRecorder {
    lines: Arc<Mutex<Vec<String>>>,
}

impl EventRecorder {
    /// Records the events of this thread until the result is dropped.
    ///
    /// While there is only one subscriber, `tracing` remembers for each event whether the first thread that meets it
    /// has a subscriber for it. That may be the thread of another test, which has none. A second subscriber prevents
    /// this.
    fn start(&self) -> (DefaultGuard, Dispatch) {
        let guard = subscriber::set_default(self.clone());
        (guard, Dispatch::new(Self::default()))
    }

    /// Returns the recorded lines and forgets them.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().expect("no test panics while it holds the lock"))
    }
}

impl Subscriber for EventRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "rpc" || metadata.target().starts_with("rpc::")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let line = format!("{}{}", line.message, line.fields);
        self.lines.lock().expect("no test panics while it holds the lock").push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            // It differs each time.
            "duration_us" => write!(self.fields, " duration_us"),
            name => write!(self.fields, " {name}={value:?}"),
        };
        written.expect("a string can be written to");
    }
}

/// Checks that none of the texts occurs in an event.
fn assert_absent(events: &[String], texts: &[&str]) {
    for text in texts {
        assert!(!events.iter().any(|event| event.contains(*text)), "{text:?} occurs in {events:#?}");
    }
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
    let recorder = EventRecorder::default();
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
    let recorder = EventRecorder::default();
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
    let recorder = EventRecorder::default();
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
