//! Tests of the native protocol that need the whole program, through the command line and through the client of the
//! load generator: commands, logins of the directory, and bytes that are no TLS. `crates/rpc/tests/rpc` tests the
//! calls.

use std::future::Future;

use base::sim::SeededRandom;
use client::{Client, Code, ConnectOptions, Trust, v1};
use serde_json::json;

use crate::{Server, TestFolder};

pub const PASSWORD: &str = "sesame street";

impl TestFolder {
    /// Runs a command as a logged-in user and returns its JSON output.
    pub fn as_user(&self, who: &str, words: &[&str]) -> serde_json::Value {
        let words = [words, &["--user", who, "--password-file", "-", "--json"]].concat();
        let stdout = self.check_input(&words, &format!("{PASSWORD}\n"), "");
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{words:?}: {error} in {stdout:?}"))
    }

    /// Runs a command as a logged-in user. Checks that it fails and that its error output contains `expected`.
    pub fn fails_as_user(&self, who: &str, words: &[&str], expected: &str) {
        let output = self.run(&[words, &["--user", who, "--password-file", "-"]].concat(), &format!("{PASSWORD}\n"));
        let complaint = crate::text(&output.stderr);
        assert!(!output.status.success() && complaint.contains(expected), "{words:?}: {complaint:?}");
    }

    pub fn options(&self, server: &Server) -> ConnectOptions {
        let certificate = std::fs::read(self.data().join("tls/certificate.pem")).expect("the server has made it");
        let trust = Trust::pinned(&certificate).expect("the certificate is valid");
        ConnectOptions::new(server.listeners.get("native").expect("it listens"), trust)
    }
}

/// Runs `work` with a client that has logged in.
pub fn with_client<F: Future<Output = ()>>(
    folder: &TestFolder,
    server: &Server,
    who: &str,
    work: impl FnOnce(Client) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = folder.options(server);
    runtime.block_on(async {
        let client = Client::connect(&options).await.expect("the server is there");
        client.login(who, PASSWORD).await.expect("the password is right");
        work(client).await;
    });
}

pub fn database(path: &str) -> Option<v1::DatabaseKey> {
    Some(v1::DatabaseKey { key: Some(v1::database_key::Key::Path(path.to_owned())) })
}

pub fn note(number: u32) -> Option<v1::NoteKey> {
    Some(v1::NoteKey { key: Some(v1::note_key::Key::NoteId(number)) })
}

pub fn text(name: &str, text: &str) -> v1::Item {
    v1::Item {
        name: name.to_owned(),
        flags: Some(v1::ItemFlags { summary: true, ..v1::ItemFlags::default() }),
        value: Some(v1::Value { kind: Some(v1::value::Kind::Text(text.to_owned())) }),
    }
}

pub fn reason_of<T: std::fmt::Debug>(outcome: Result<T, client::Status>) -> (Code, String) {
    let status = outcome.expect_err("it must fail");
    (status.code(), client::reason(&status))
}

#[test]
fn notes_are_managed_on_the_command_line() {
    let folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    folder.check(&["db", "create", "plan.nsf"], "was created");
    folder.check(&["db", "acl", "plan.nsf", "set", "ann@acme.test", "--level", "editor"], "");
    let server = folder.serve();
    let ann = |words: &[&str]| folder.as_user("ann", words);
    let opened = ann(&["db", "open", "plan.nsf"]);
    assert_eq!((&opened["access"], &opened["creates_folders"]), (&json!("editor"), &json!(false)));
    let created = ann(&["note", "create", "plan.nsf", "Form=Task", "Subject=Paint", "Who=a", "Who=b", "Days:number=2"]);
    let unid = created["unid"].as_str().expect("it has one").to_owned();
    let read = ann(&["note", "get", "plan.nsf", &unid]);
    let mut items = read["items"].clone();
    let kept = items.as_object_mut().expect("a record");
    assert_eq!(kept.remove("$UpdatedBy"), Some(json!(["CN=ann/O=acme.test"])), "the editor is recorded");
    assert!(kept.remove("$Revisions").is_some_and(|times| times[0].is_string()));
    assert_eq!(items, json!({"Form": "Task", "Subject": "Paint", "Who": ["a", "b"], "Days": 2.0}));
    folder.fails_as_user("ann", &["note", "set", "plan.nsf", &unid], "nothing to change");
    let saved = ann(&["note", "set", "plan.nsf", &unid, "Subject=Sand", "--remove", "Who", "--expect", "1"]);
    assert_eq!(saved["sequence"], json!(2));
    folder.check_fails(
        &[
            "note",
            "set",
            "plan.nsf",
            &unid,
            "Subject=x",
            "--expect",
            "1",
            "--user",
            "ann",
            "--password-file",
            "no-such",
        ],
        "no-such",
    );
    let listed = ann(&["note", "list", "plan.nsf", "--formula", "Days > 1", "--item", "Subject", "--item", "Who"]);
    assert_eq!((&listed[0]["Subject"], &listed[0]["Who"]), (&json!("Sand"), &json!(null)));
    assert_eq!(ann(&["note", "list", "plan.nsf", "--formula", "Days > 2"]), json!([]));
    std::fs::write(folder.path("a.bin"), vec![7; 700_000]).expect("writes a test file");
    ann(&["note", "attach", "plan.nsf", &unid, "a.bin"]);
    let fetched = ann(&["note", "fetch", "plan.nsf", &unid, "a.bin", "--to", "b.bin"]);
    assert_eq!(fetched["length_bytes"], json!(700_000));
    assert_eq!(std::fs::read(folder.path("b.bin")).expect("it was written"), vec![7; 700_000]);
    ann(&["note", "detach", "plan.nsf", &unid, "a.bin"]);
    ann(&["note", "delete", "plan.nsf", &unid]);
    let address = server.listeners.get("native").expect("it listens").clone();
    let certificate = folder.data().join("tls/certificate.pem").display().to_string();
    let elsewhere = ["--server", &address, "--certificate", &certificate];
    for where_to in [&elsewhere[..], &[]] {
        let listed = folder.as_user("bob@acme.test", &[&["db", "list"], where_to].concat());
        let paths: Vec<&str> =
            listed.as_array().expect("a list").iter().filter_map(|row| row["path"].as_str()).collect();
        assert!(paths.contains(&"mail/bob.nsf") && !paths.contains(&"plan.nsf"), "{paths:?}");
    }
    server.stop();
}

#[test]
fn session_ends_on_logout_and_disabled_account() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    let people = &folder;
    with_client(&folder, &server, "ann", |client| async move {
        let whoami = || async { client.sessions().get_session(v1::GetSessionRequest {}).await };
        assert_eq!(whoami().await.expect("she is logged in").into_inner().name, "CN=ann/O=acme.test");
        let other = client.login("ann@acme.test", PASSWORD).await.expect("a second session");
        client.logout().await.expect("the session exists");
        let no_session = (Code::Unauthenticated, "session".to_owned());
        assert_eq!(reason_of(whoami().await), no_session);
        client.resume(&other.token).expect("a token");
        assert_eq!(reason_of(whoami().await), no_session, "logout ended the second session");
        let wrong = client.login("ann", "wrong").await.expect_err("the password is wrong").to_string();
        assert!(wrong.contains("wrong name or password"), "{wrong}");
        client.login("ann", PASSWORD).await.expect("the password is right");
        people.check(&["user", "set", "ann", "--disable"], "was changed");
        // The next call may arrive before the server has examined the change of the account. Its identity is refused
        // even then.
        assert_eq!(reason_of(whoami_database(&client).await), no_session);
    });
    server.stop();
}

#[test]
fn equivalent_spellings_of_a_password_log_in_through_scram() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let decomposed = "pa\u{308}sswort with\u{a0}blank";
    let words = ["user", "set", "ann@acme.test", "--password-stdin"];
    folder.check_input(&words, &format!("{decomposed}\n"), "was changed");
    let server = folder.serve();
    let options = folder.options(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = Client::connect(&options).await.expect("the server is there");
        let random = SeededRandom::new(1);
        for password in [decomposed, "p\u{e4}sswort with blank"] {
            client.login_scram("ann", password, &random).await.expect("the password is right");
            client.login("ann", password).await.expect("the password is right");
        }
        client.login_scram("ann", "passwort with blank", &random).await.expect_err("the password is wrong");
    });
    server.stop();
}

async fn whoami_database(client: &Client) -> Result<(), client::Status> {
    let request = v1::OpenDatabaseRequest { database: database("mail/ann.nsf") };
    client.databases().open_database(request).await.map(|_| ())
}

#[test]
fn invalid_input_ends_only_its_connection() {
    use std::io::{Read, Write};
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    let address = server.listeners.get("native").expect("it listens");
    let garbage: [&[u8]; 4] =
        [b"GET / HTTP/1.1\r\n\r\n", &[0; 300], &[0xff; 3_000], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    for bytes in garbage {
        let mut socket = std::net::TcpStream::connect(address).expect("it listens");
        // The server may have closed the connection before all bytes are written.
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut reply = Vec::new();
        let _ = socket.read_to_end(&mut reply);
        assert!(reply.len() < 100, "an alert at most");
    }
    with_client(&folder, &server, "ann", |client| async move {
        client.sessions().get_session(v1::GetSessionRequest {}).await.expect("other connections go on");
    });
    server.stop();
}
