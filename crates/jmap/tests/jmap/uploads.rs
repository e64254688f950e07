//! Tests of uploads and downloads over HTTP on the loopback network, and of messages that are composed from uploads.

use base::Random as _;
use base::memory::{MemoryShares, ShareSizes};
use base::sim::SeededRandom;
use jmap::blob::FoundBlob;
use jmap::limits::TRANSFER_PIECE_BYTES;
use serde_json::{Value, json};
use store::{Direction, KeyRange, Table, TableReader as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server::{Server, basic};
use crate::world::{World, caller};

/// The answer to a request.
struct Answer {
    status: u16,
    /// The header, in lower case.
    header: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SeededRandom::new(5).fill(&mut bytes);
    bytes
}

/// Opens a connection, and sends the beginning of a request.
async fn begin(server: &Server, login: &str, line: &str, fields: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.expect("the server listens");
    let authorization = basic(login);
    let head = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\nConnection: close\r\n{fields}\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("the server reads");
    stream
}

/// Reads an answer up to the end of its connection.
async fn answer(mut stream: TcpStream) -> Answer {
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.expect("the server answers");
    let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a header");
    let header = String::from_utf8(received[..end].to_vec()).expect("a header is ASCII").to_lowercase();
    let status = header.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, header, body: received.split_off(end + 4) }
}

async fn upload(server: &Server, login: &str, account: &str, content: &[u8]) -> Answer {
    let fields = format!("Content-Length: {}\r\nContent-Type: image/png\r\n", content.len());
    let mut stream = begin(server, login, &format!("POST /jmap/upload/{account}/"), &fields).await;
    // A server that refuses the request does not read all of it.
    let _refused = stream.write_all(content).await;
    answer(stream).await
}

async fn download(server: &Server, login: &str, blob: &str, fields: &str) -> Answer {
    answer(begin(server, login, &format!("GET /jmap/download/Aalice/{blob}/x.png"), fields).await).await
}

/// Returns the number of chunks of attachments in the store.
fn chunks(world: &World) -> usize {
    let store = world.databases().store();
    let mut cursor = store.scan(Table::Blob, &KeyRange::all(), Direction::Forward).expect("the store works");
    let mut count = 0;
    while cursor.next().expect("the store works").is_some() {
        count += 1;
    }
    count
}

/// Returns memory for `bytes` bytes of everybody together.
fn memory(bytes: usize) -> std::sync::Arc<MemoryShares> {
    let sizes = ShareSizes { account_bytes: bytes, network_bytes: bytes, networks_bytes: bytes, local_bytes: bytes };
    MemoryShares::new(bytes, sizes)
}

#[tokio::test]
async fn uploads_and_downloads_of_50_mib_need_the_memory_of_some_pieces() {
    let server = Server::start_with_memory(World::new(), memory(2 << 20)).await;
    let content = noise(50 << 20);
    let stored = upload(&server, "alice", "Aalice", &content).await;
    assert_eq!(stored.status, 201, "{}", String::from_utf8_lossy(&stored.body));
    let object = stored.json();
    assert_eq!((&object["size"], &object["type"]), (&json!(50 << 20), &json!("image/png")));
    let blob = object["blobId"].as_str().expect("an id");
    let whole = download(&server, "alice", blob, "").await;
    assert_eq!(whole.status, 200);
    assert!(whole.body == content);
    assert!(whole.header.contains(&format!("content-length: {}", 50 << 20)), "{}", whole.header);
    let over = upload(&server, "alice", "Aalice", &noise((50 << 20) + 1)).await;
    assert_eq!(over.status, 413);
}

#[tokio::test]
async fn ranges_of_uploads_are_downloaded() {
    let server = Server::start(World::new()).await;
    let content = noise(3 * TRANSFER_PIECE_BYTES + 7);
    let stored = upload(&server, "alice", "Aalice", &content).await.json();
    let blob = stored["blobId"].as_str().expect("an id");
    let total = content.len();
    for (range, start, end) in
        [("0-4", 0, 5), ("262140-524300", 262_140, 524_301), ("-9", total - 9, total), ("100-", 100, total)]
    {
        let part = download(&server, "alice", blob, &format!("Range: bytes={range}\r\n")).await;
        assert_eq!(part.status, 206, "{range}");
        assert!(part.body == content[start..end], "{range}");
        let field = format!("content-range: bytes {start}-{}/{total}", end - 1);
        assert!(part.header.contains(&field), "{}", part.header);
    }
    let known = download(&server, "alice", blob, &format!("If-None-Match: \"{blob}\"\r\n")).await;
    assert_eq!((known.status, known.body.len()), (304, 0));
    let behind = download(&server, "alice", blob, &format!("Range: bytes={total}-\r\n")).await;
    assert_eq!(behind.status, 416);
}

#[tokio::test]
async fn uploads_of_others_are_not_found_and_accounts_of_readers_take_none() {
    let server = Server::start(World::new()).await;
    let stored = upload(&server, "alice", "Aalice", b"text").await.json();
    let blob = stored["blobId"].as_str().expect("an id");
    let statuses = [("alice", 200), ("dave", 404), ("frank", 404), ("bob", 404)];
    for (login, status) in statuses {
        assert_eq!(download(&server, login, blob, "").await.status, status, "{login}");
    }
    assert_eq!(upload(&server, "frank", "Aalice", b"text").await.status, 403);
    assert_eq!(upload(&server, "bob", "Aalice", b"text").await.status, 404);
    assert_eq!(upload(&server, "alice", "Aalice", b"").await.json()["size"], 0);
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let server = Server::start(World::new()).await;
    let content = noise(4 << 20);
    let fields = format!("Content-Length: {}\r\n", content.len());
    let mut stream = begin(&server, "alice", "POST /jmap/upload/Aalice/", &fields).await;
    stream.write_all(&content[..3 << 20]).await.expect("the server reads");
    while chunks(&server.world) < 8 {
        tokio::task::yield_now().await;
    }
    drop(stream);
    while chunks(&server.world) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(upload(&server, "alice", "Aalice", &content).await.status, 201, "nobody waits for the broken one");
}

/// Creates a draft with an upload as attachment, and returns its reply.
fn attach(world: &World, blob: &Value) -> Value {
    let drafts = world.call("alice", "Mailbox/query", json!({ "accountId": "Aalice", "filter": { "role": "drafts" } }));
    let mailbox = drafts["ids"][0].as_str().expect("there are drafts");
    let email = json!({
        "mailboxIds": { mailbox: true },
        "subject": "with an attachment",
        "attachments": [{ "blobId": blob, "type": "image/png", "name": "x.png" }],
    });
    world.call("alice", "Email/set", json!({ "accountId": "Aalice", "create": { "e": email } }))
}

#[test]
fn an_attachment_that_waited_across_a_restart_is_in_the_message_whole() {
    let world = World::new();
    let content = noise(1 << 20);
    let stored = world.upload(&caller("alice"), "Aalice", &content, "image/png").expect("the owner may");
    let world = world.restart();
    let created = attach(&world, &stored["blobId"]);
    let id = created["created"]["e"]["id"].as_str().unwrap_or_else(|| panic!("{created}"));
    assert_eq!(chunks(&world), 4, "the message and the upload share the content");
    let arguments = json!({ "accountId": "Aalice", "ids": [id], "properties": ["attachments"] });
    let part = &world.call("alice", "Email/get", arguments)["list"][0]["attachments"][0];
    assert_eq!((&part["size"], &part["type"]), (&json!(1 << 20), &json!("image/png")));
    let blob = part["blobId"].as_str().expect("an id");
    let (opened, _) = jmap::blob::open_blob(&world.services, &caller("alice"), "Aalice", blob).expect("it exists");
    let read = opened.read(&world.services, &caller("alice"), 0..u64::MAX).expect("the store works");
    assert!(read.as_deref() == Some(&content[..]));
    // The part is read in ranges, and so is its message.
    assert!(matches!(opened, FoundBlob::Stored { .. }));
    let range = opened.read(&world.services, &caller("alice"), 1_000..300_000).expect("the store works");
    assert!(range.as_deref() == Some(&content[1_000..300_000]));
    let (message, _) = blob.split_once('-').expect("the id of a part");
    let (whole, _) = jmap::blob::open_blob(&world.services, &caller("alice"), "Aalice", message).expect("it exists");
    let read =
        |range| whole.read(&world.services, &caller("alice"), range).expect("the store works").expect("it exists");
    assert!(matches!(whole, FoundBlob::Stored { .. }));
    assert_eq!(whole.size(), read(0..u64::MAX).len() as u64);
    assert_eq!(read(5..70_000), read(0..u64::MAX).slice(5..70_000));
}

#[test]
fn an_upload_that_has_expired_cannot_be_attached() {
    let world = World::new();
    let stored = world.upload(&caller("alice"), "Aalice", b"text", "text/plain").expect("the owner may");
    world.clock.advance(jmap::limits::UPLOAD_LIFETIME);
    let created = attach(&world, &stored["blobId"]);
    assert_eq!(created["notCreated"]["e"]["type"], "blobNotFound", "{created}");
    assert_eq!(world.services.uploads.remove_expired().expect("the store works"), 1);
}

#[test]
fn large_blobs_are_put_together_and_copied_without_the_bytes_of_all() {
    let world = World::new();
    let content = noise(1 << 20);
    let stored = world.upload(&caller("alice"), "Aalice", &content, "image/png").expect("the owner may");
    let id = &stored["blobId"];
    let half = 1 << 19;
    let data = json!([
        { "blobId": id, "offset": half, "length": half },
        { "data:asText": "between" },
        { "blobId": id, "offset": 0, "length": half },
    ]);
    let create = json!({ "x": { "data": data }, "y": { "data": [{ "blobId": id, "offset": 1, "length": 1 << 20 }] } });
    let made = world.call("alice", "Blob/upload", json!({ "accountId": "Aalice", "create": create }));
    assert_eq!(made["created"]["x"]["size"], (1 << 20) + 7, "{made}");
    assert_eq!(made["notCreated"]["y"]["type"], "invalidProperties", "it ends behind the end");
    let made = made["created"]["x"]["id"].as_str().expect("an id");
    let (found, _) = jmap::blob::open_blob(&world.services, &caller("alice"), "Aalice", made).expect("it exists");
    let read = found.read(&world.services, &caller("alice"), 0..u64::MAX).expect("the store works").expect("it exists");
    assert!(read == [&content[half..], b"between", &content[..half]].concat());
    let before = chunks(&world);
    world.grant("bob", "alice", notes::AclLevel::Editor);
    let copied = json!({ "fromAccountId": "Aalice", "accountId": "Abob", "blobIds": [id, "Unone"] });
    let copied = world.call("alice", "Blob/copy", copied);
    assert_eq!((&copied["copied"][id.as_str().expect("an id")], chunks(&world)), (id, before), "{copied}");
    assert_eq!(copied["notCopied"]["Unone"]["type"], "notFound");
    let (found, _) = jmap::blob::open_blob(&world.services, &caller("alice"), "Abob", id.as_str().expect("an id"))
        .expect("it exists");
    assert_eq!(found.size(), 1 << 20);
}

#[tokio::test]
async fn requests_that_cannot_be_read_get_a_problem_document() {
    let server = Server::start(World::new()).await;
    for path in [
        "/jmap/events?types=*&closeafter=no&ping=abc",
        "/jmap/events?types=*&closeafter=x&ping=0",
        "/jmap/download/Aalice/x/%ff%00",
        "/jmap/download/Aalice/x/a?accept=%ff&accept=b",
    ] {
        let answer = answer(begin(&server, "alice", &format!("GET {path}"), "").await).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.header.contains("content-type: application/problem+json"), "{path}: {}", answer.header);
        assert!(answer.json()["detail"].is_string(), "{path}: {}", answer.json());
    }
    let upload = answer(begin(&server, "alice", "POST /jmap/upload/%ff/", "Content-Length: 0\r\n").await).await;
    assert_eq!(upload.status, 400);
    assert!(upload.header.contains("content-type: application/problem+json"), "{}", upload.header);
}

#[test]
fn a_message_whose_ranges_are_not_cheap_is_read_as_a_whole() {
    let world = World::new();
    let text = "caf=C3=A9 and some more words\r\n".repeat(4_000);
    let header = "Subject: long\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n";
    let part = "--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n";
    let raw =
        format!("{header}{part}{text}\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: x\r\n\r\ny\r\n--b--\r\n");
    world.deliver("alice", "INBOX", raw.as_bytes());
    let arguments = json!({ "accountId": "Aalice", "properties": ["blobId", "size", "attachments", "textBody"] });
    let email = world.call("alice", "Email/get", arguments)["list"][0].clone();
    let open = |id: &str| jmap::blob::open_blob(&world.services, &caller("alice"), "Aalice", id);
    let read = |id: &Value| {
        let (found, _) = open(id.as_str().expect("an id")).expect("it exists");
        assert!(matches!(found, FoundBlob::Whole(_)));
        found.read(&world.services, &caller("alice"), 0..u64::MAX).expect("the store works").expect("it exists")
    };
    let whole = read(&email["blobId"]);
    assert_eq!(json!(whole.len()), email["size"]);
    assert!(whole.ends_with(&raw.as_bytes()[raw.len() - text.len()..]), "the server adds fields in front");
    let decoded = "caf\u{e9} and some more words\r\n".repeat(4_000);
    assert_eq!(email["textBody"][0]["size"], decoded.len());
    assert_eq!(read(&email["textBody"][0]["blobId"]), decoded);
    assert_eq!(read(&email["attachments"][0]["blobId"]), "Subject: x\r\n\r\ny");
    let missing = format!("{}-9", email["blobId"].as_str().expect("an id"));
    assert_eq!(open(&missing).expect_err("there is no such part").kind, "blobNotFound");
}
