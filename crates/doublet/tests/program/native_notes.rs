//! Tests of notes over the native protocol that need the whole program: the commands for deleted notes, profiles and
//! conflicts, the files that an attachment leaves in the data folder, and the bytes that the command line saves by
//! compression. `crates/rpc/tests/rpc` tests the protocol itself.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use client::{Client, Code, v1};
use serde_json::json;

use crate::native::{PASSWORD, database, note, reason_of, text, with_client};
use crate::{Server, TestFolder};

pub const PLAN: &str = "plan.nsf";

/// Creates a database in which the given users have the given levels.
pub fn plan(people: &[(&str, &str)]) -> (TestFolder, Server) {
    let addresses: Vec<String> = people.iter().map(|(name, _)| format!("{name}@acme.test")).collect();
    let folder = TestFolder::with_people(&addresses.iter().map(String::as_str).collect::<Vec<_>>());
    folder.check(&["db", "create", PLAN], "was created");
    folder.check(&["db", "acl", PLAN, "settings", "--max-internet-access", "manager"], "");
    for ((_, level), address) in people.iter().zip(&addresses) {
        folder.check(&["db", "acl", PLAN, "set", address, "--level", level], "");
    }
    let server = folder.serve();
    (folder, server)
}

async fn create(client: &Client) -> v1::SavedNote {
    let request = v1::CreateNoteRequest { database: database(PLAN), items: vec![text("A", "1")], ..Default::default() };
    client.notes().create_note(request).await.expect("they may").into_inner()
}

#[test]
fn deleted_notes_are_restored_on_the_command_line() {
    let (folder, server) = plan(&[("ann", "editor")]);
    folder.check(&["db", "set", PLAN, "--keep-deleted", "48h"], "");
    let ann = |words: &[&str]| folder.as_user("ann", words);
    let created = ann(&["note", "create", PLAN, "A=1"]);
    ann(&["note", "delete", PLAN, created["unid"].as_str().expect("a text")]);
    let deleted = ann(&["note", "deleted", PLAN, "--item", "A"]);
    assert_eq!((deleted.as_array().map(Vec::len), &deleted[0]["A"]), (Some(1), &json!("1")));
    let unid = deleted[0]["unid"].as_str().expect("a text").to_owned();
    assert_eq!(ann(&["note", "restore", PLAN, &unid])["unid"], json!(unid));
    ann(&["note", "delete", PLAN, &unid, "--soft"]);
    ann(&["note", "delete", PLAN, &unid, "--permanent"]);
    assert_eq!(ann(&["note", "deleted", PLAN]), json!([]));
    folder.fails_as_user("ann", &["note", "restore", PLAN, &unid], "that can be restored");
    server.stop();
}

#[test]
fn profiles_are_managed_on_the_command_line() {
    let (folder, server) = plan(&[("ann", "author")]);
    let ann = |words: &[&str]| folder.as_user("ann", words);
    let which = ["note", "profile", "get", PLAN, "Settings", "--own"];
    ann(&["note", "profile", "set", PLAN, "settings", "--own", "Color=gray"]);
    assert_eq!(ann(&which)["items"]["Color"], json!("gray"));
    ann(&["note", "profile", "set", PLAN, "Settings", "--own", "Size:number=3", "--remove", "Color"]);
    let items = ann(&which)["items"].clone();
    assert_eq!((&items["Size"], items.get("Color")), (&json!(3.0), None));
    ann(&["note", "profile", "delete", PLAN, "Settings", "--of", "ann@acme.test"]);
    folder.fails_as_user("ann", &which, "the profile \"Settings\" does not exist");
    assert_eq!(ann(&["note", "list", PLAN]), json!([]), "profiles are no documents");
    server.stop();
}

#[test]
fn conflicts_are_resolved_on_the_command_line() {
    let (folder, server) = plan(&[("ann", "editor")]);
    let ann = |words: &[&str]| folder.as_user("ann", words);
    let unid = ann(&["note", "create", PLAN, "A=1", "B=1", "$ConflictAction=1"])["unid"].clone();
    let unid = unid.as_str().expect("a text");
    assert_eq!(ann(&["note", "set", PLAN, unid, "A=2"])["outcome"], json!("plain"));
    let resolve = ["--expect", "1", "--on-conflict", "resolve"];
    let set = |words: &[&str]| ann(&[&["note", "set", PLAN, unid], words, &resolve].concat());
    let merged = set(&["B=2", "--base", "B=1"]);
    assert_eq!((&merged["outcome"], &merged["sequence"], &merged["unid"]), (&json!("merged"), &json!(3), &json!(unid)));
    let kept = set(&["A=5", "--base", "A=1"]);
    assert_eq!((&kept["outcome"], &kept["sequence"]), (&json!("kept"), &json!(1)));
    assert_eq!(ann(&["note", "get", PLAN, kept["unid"].as_str().expect("a text")])["response_to"], json!(unid));
    folder.fails_as_user("ann", &["note", "set", PLAN, unid, "A=5", "--expect", "1"], "save conflict");
    folder.fails_as_user("ann", &["note", "set", PLAN, unid, "A=5", "--on-conflict", "resolve"], "--expect");
    server.stop();
}

fn header(number: u32, length_bytes: u64) -> v1::AttachFileRequest {
    let header = v1::attach_file_request::Header {
        database: database(PLAN),
        note: note(number),
        file_name: "plan.bin".to_owned(),
        length_bytes,
        ..Default::default()
    };
    v1::AttachFileRequest { part: Some(v1::attach_file_request::Part::Header(header)) }
}

fn piece() -> v1::AttachFileRequest {
    v1::AttachFileRequest { part: Some(v1::attach_file_request::Part::Content(vec![7; 256 << 10])) }
}

async fn open_database(client: &Client) -> v1::Database {
    let request = v1::OpenDatabaseRequest { database: database(PLAN) };
    client.databases().open_database(request).await.expect("she has access").into_inner()
}

#[test]
fn incomplete_attachment_leaves_nothing() {
    let (folder, server) = plan(&[("ann", "manager")]);
    let options = folder.options(&server);
    with_client(&folder, &server, "ann", |client| async move {
        let created = create(&client).await.note_id;
        let before = open_database(&client).await;
        // The connection is lost after some pieces.
        let other = Client::connect(&options).await.expect("the server is there");
        other.login("ann", PASSWORD).await.expect("the password is right");
        let (pieces, stream) = client::request_channel(1);
        let mut notes = other.notes();
        let call = tokio::spawn(async move { notes.attach_file(stream).await });
        assert!(pieces.send(header(created, 100 << 18)).await);
        for _ in 0..20 {
            assert!(pieces.send(piece()).await, "the server accepts each piece");
        }
        call.abort();
        assert!(call.await.expect_err("it was cut off").is_cancelled());
        drop((pieces, other));
        // The stream ends properly but too early, or contains too much content.
        for count in [0, 1, 3] {
            let messages = std::iter::once(header(created, 2 << 18)).chain((0..count).map(|_| piece()));
            let refused = reason_of(client.notes().attach_file(client::request_stream(messages)).await);
            assert_eq!(refused, (Code::InvalidArgument, "invalid".to_owned()), "{count}");
        }
        let open = v1::OpenNoteRequest {
            database: database(PLAN),
            note: note(created),
            items: Some(v1::ItemSelection { extent: 2, names: Vec::new() }),
            ..Default::default()
        };
        let found = client.notes().open_note(open).await.expect("the note exists").into_inner();
        assert_eq!(found.header.map(|header| header.sequence), Some(1));
        assert!(found.items.iter().all(|item| item.name != "$FILE"));
        let after = open_database(&client).await;
        assert_eq!((after.modseq, after.size_bytes), (before.modseq, before.size_bytes));
        assert!(before.size_bytes > 0 && before.notes > 0, "a manager sees the counts");
        let whole = [header(created, 2 << 18), piece(), piece()];
        let saved = client.notes().attach_file(client::request_stream(whole)).await.expect("it is whole").into_inner();
        assert_eq!(saved.sequence, 2);
    });
    assert_eq!(folder.json(&["blobs"])["count"], json!(1), "only the complete attachment");
    server.stop();
}

#[test]
fn refused_command_names_the_needed_level() {
    let (folder, server) = plan(&[("bob", "reader")]);
    folder.fails_as_user("bob", &["note", "create", PLAN, "A=b"], "no Author access to plan.nsf");
    server.stop();
}

/// Starts a proxy that forwards one connection to a server and counts the bytes of the replies. Returns the address to
/// connect to.
fn counting_proxy(server: &Server) -> (String, std::thread::JoinHandle<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    let address = listener.local_addr().expect("it is bound").to_string();
    let target = server.listeners.get("native").expect("it listens").clone();
    let proxy = std::thread::spawn(move || {
        let (mut near, _) = listener.accept().expect("a client");
        let mut far = TcpStream::connect(target).expect("it listens");
        let mut requests = near.try_clone().expect("a descriptor is free");
        let mut onward = far.try_clone().expect("a descriptor is free");
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut requests, &mut onward);
            let _ = onward.shutdown(Shutdown::Write);
        });
        // The client closes the connection without reading to its end.
        let mut replies = vec![0; 64 << 10];
        let mut count = 0;
        while let Ok(length @ 1..) = far.read(&mut replies) {
            count += length as u64;
            if near.write_all(&replies[..length]).is_err() {
                break;
            }
        }
        count
    });
    (address, proxy)
}

#[test]
fn the_command_line_compresses_on_request() {
    let (folder, server) = plan(&[("ann", "editor")]);
    let long = "all work and no play ".repeat(10_000);
    let number =
        folder.as_user("ann", &["note", "create", PLAN, &format!("A={}", &long[..100_000])])["note"].to_string();
    let certificate = folder.data().join("tls/certificate.pem").display().to_string();
    let reply_bytes = |option: &[&str]| {
        let (address, proxy) = counting_proxy(&server);
        let words = ["note", "get", PLAN, &number, "--server", &address, "--certificate", &certificate];
        let note = folder.as_user("ann", &[&words[..], option].concat());
        assert!(note.to_string().contains("all work and no play"), "{note}");
        proxy.join().expect("no panic")
    };
    let plain = reply_bytes(&[]);
    let packed = reply_bytes(&["--compress"]);
    assert!(plain > 100_000 && packed < 20_000, "{plain} and {packed} bytes");
    server.stop();
}
